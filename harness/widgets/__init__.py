"""Notebook widgets for live sessions, experiments, recorded sessions and dry runs of other policies.

Widgets show session logs and experiments through the same code as the command line and the report. All widgets inherit from
`harness_widget.HarnessWidget` and send messages through `message_channel.MessageChannel`. The `.js` and `.css` files in this
folder are loaded in the notebook page.
"""
