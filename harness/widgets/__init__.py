"""Notebook widgets for live sessions, grids, recorded sessions and counterfactual policies.

A widget holds no results of its own: it shows a session log or an experiment through the same code as the command line and the
report. All widgets inherit from `harness_widget.HarnessWidget` and send messages through `message_channel.MessageChannel`. The
`.js` and `.css` files in this folder are loaded in the notebook page.
"""
