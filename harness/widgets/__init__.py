"""Notebook widgets for live sessions, experiments, recorded sessions and counterfactual runs of other compaction policies.

Widgets, the command line and the report show session logs and experiments with the same code. All widgets inherit from
`harness_widget.HarnessWidget` and send messages through `message_channel.MessageChannel`. The `.js` and `.css` files in this
folder are loaded in the notebook page.
"""
