"""The texts of the task as `string.Template`s: what the agent finds, what it writes, and what judges it.

They end in `.tmpl`, so that no checker takes an unfilled template for Python.
"""

from harness.tasks.kit import text


def template(name: str) -> str:
    """The text of `name` (a path below this folder without `.tmpl`), placeholders unfilled."""
    return text(__name__, name)
