"""What a person works with in a notebook: each widget shows a log and asks the same code as everything else, and holds no truth.

`surface` is what all of them share, `wire` how they talk to their pages; the `.js` and `.css` beside them are their other half.
"""
