"""Texts of a task, which stand in the folder `files` of its package."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template


@cache
def load_text(package: str, name: str) -> str:
    """Return the text of `name` (a path below `files`, without `.tmpl`), placeholders unfilled."""
    return files(package).joinpath(f"files/{name}.tmpl").read_text(encoding="utf-8")


def fill_text(package: str, name: str, values: Mapping[str, object]) -> str:
    """Return the text of `name` with values in its placeholders."""
    return Template(load_text(package, name)).substitute(values)
