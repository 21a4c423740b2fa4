"""Functions that read the texts of a task from the folder `files` of its package."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template


@cache
def load_text(package: str, name: str) -> str:
    """Return a text from the folder `files` of a package; placeholders such as `${port}` are left in place.

    Args:
        package: Python package that contains the folder `files`.
        name: Path of the text in this folder, without the ending `.tmpl`.
    """
    return files(package).joinpath(f"files/{name}.tmpl").read_text(encoding="utf-8")


def fill_text(package: str, name: str, values: Mapping[str, object]) -> str:
    """Return a text from the folder `files` of a package, with values in place of placeholders like `${port}`."""
    return Template(load_text(package, name)).substitute(values)
