"""The texts of the task as `string.Template`s: what the agent finds, what it writes, and what judges it.

They end in `.tmpl`, so that no checker takes an unfilled template for Python.
"""

from harness.tasks.kit import load_text


def load_template(name: str) -> str:
    """The text of `name` (a path below this folder without `.tmpl`), placeholders unfilled."""
    return load_text(__name__, name)
