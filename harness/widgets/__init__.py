"""What a person works with in a notebook: each widget shows a log and asks the same code as everything else, and holds no truth.

All widgets inherit from `harness_widget` and talk to their pages by `message_channel`; the `.js` and `.css` files beside them are
the pages' side.
"""
