"""What tasks are made with: their texts, the discipline of a grader, orders told at length, prose from a seed."""

from functools import cache
from importlib.resources import files


@cache
def load_text(package: str, name: str) -> str:
    """The text of `name` (a path below the package without `.tmpl`), placeholders unfilled."""
    return files(package).joinpath(f"{name}.tmpl").read_text(encoding="utf-8")
