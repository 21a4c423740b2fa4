"""Help texts of policy classes, to which the descriptions of inherited fields are copied from the base classes.

Each field is described once, in the `Attributes` section of the class that declares it. `help()`, the tooltip of a notebook and
the API reference read only one docstring. Each class therefore receives the entries of its base classes when Python creates it.
"""

import inspect
import re
from collections.abc import Iterable

_SECTION = re.compile(r"^(?=[A-Z]\w+:{1,2}$)", re.MULTILINE)
"""Beginning of a section of a docstring, such as `Attributes:`."""
_ENTRY = re.compile(r"^(?=    \w+: )", re.MULTILINE)
"""Beginning of an entry of an `Attributes` section."""
_HEADING = "Attributes:"


def inherit_field_help(owner: type) -> None:
    """Add to the docstring of a class the entries of all fields that only its base classes document.

    If several base classes document a field, the entry of the nearest one is used. A class that changes the default of an
    inherited field describes the field in its own docstring.
    """
    if owner.__doc__ is None:
        return
    own = read_entries(owner.__doc__)
    inherited: dict[str, str] = {}
    for base in owner.__mro__[1:]:
        for name, entry in read_entries(base.__doc__ or "").items():
            inherited.setdefault(name, entry)
    in_order = dict.fromkeys(name for base in owner.__mro__[1:] for name in inspect.get_annotations(base))
    owner.__doc__ = add_entries(owner.__doc__, [inherited[name] for name in in_order if name in inherited.keys() - own.keys()])


def read_entries(docstring: str) -> dict[str, str]:
    """Return the entries of a docstring's `Attributes` section, with their indentation, by field name."""
    section = next((text for text in _split_sections(docstring) if text.startswith(_HEADING)), "")
    entries = _ENTRY.split(section)[1:]
    return {entry.strip().partition(":")[0]: entry.rstrip() for entry in entries}


def add_entries(docstring: str, entries: Iterable[str]) -> str:
    """Add entries at the end of a docstring's `Attributes` section, and return the docstring.

    The section is created if there is none.
    """
    added = list(entries)
    sections = _split_sections(docstring)
    if not added:
        return docstring
    if not any(text.startswith(_HEADING) for text in sections):
        sections.insert(1, _HEADING)
    return "\n\n".join("\n".join([text, *added]) if text.startswith(_HEADING) else text for text in sections)


def _split_sections(docstring: str) -> list[str]:
    return [text.rstrip() for text in _SECTION.split(inspect.cleandoc(docstring))]
