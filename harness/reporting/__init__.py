"""Verdicts on an experiment, computed once, and the report that shows them as text and as a page.

The room is not called `report`, because a package of that name would hide the function `harness.report`.
"""
