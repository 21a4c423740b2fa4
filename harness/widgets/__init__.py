"""Notebook widgets for live sessions, experiments, recorded sessions and counterfactual runs of other compaction policies.

Widgets, the command line and the report show session logs and experiments with the same code. All widgets inherit from
`harness_widget.HarnessWidget` and send messages through `message_channel.MessageChannel`. Their scripts and
styles are modules in `js/`, from which `make js` builds the files in `bundles/` that are loaded in the notebook page.
"""
