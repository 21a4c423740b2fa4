"""Typed access to the fields of a JSON object of somebody else, with the place in every error.

A field that is absent or null gives its default; one of another type than the format says is an error. So an importer reads
what it needs in plain words and never meets a foreign exception.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import MalformedRecording

MAX_COUNT = 10**12
"""Tokens, milliseconds and the like; more is not a count."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object and where it stands."""

    values: Mapping[str, Any]
    file: str
    line: str
    """The row of the file, as `line 7`; empty for a file that is one object."""
    path: str = ""
    """From the row down to this object, as `message.content[2]`."""

    @property
    def place(self) -> str:
        """Row and path in words."""
        return ", ".join(part for part in (self.line, self.path) if part)

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.values.get(name) is not None

    def read_text(self, name: str, default: str = "") -> str:
        """A string; lone surrogates become `?`."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.build_error(name, "a string")
        return replace_surrogates(value)

    def read_count(self, name: str) -> int:
        """A whole number of at least 0; absent = 0."""
        found = self.read_optional_count(name)
        return 0 if found is None else found

    def read_optional_count(self, name: str) -> int | None:
        """A whole number of at least 0; absent = None."""
        value = self.values.get(name)
        if value is None:
            return None
        number = int(value) if isinstance(value, float) and math.isfinite(value) and value == int(value) else value
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_COUNT:
            raise self.build_error(name, f"a whole number from 0 to {MAX_COUNT:.0e}")
        return number

    def read_amount(self, name: str) -> float | None:
        """A finite number of at least 0, such as a cost; absent = None."""
        value = self.values.get(name)
        if value is None:
            return None
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if not known or not 0 <= value <= MAX_COUNT:
            raise self.build_error(name, "a number of at least 0")
        return float(value)

    def read_flag(self, name: str) -> bool:
        """True or false; absent = false."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.build_error(name, "true or false")
        return bool(value)

    def read_object(self, name: str) -> "Fields":
        """An object; absent = empty."""
        value = self.values.get(name)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.build_error(name, "an object")
        return self._make_child(value, name)

    def read_objects(self, name: str) -> Iterator["Fields"]:
        """The objects of a list; absent = none."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.build_error(name, "a list of objects")
        for index, item in enumerate(value or ()):
            if not isinstance(item, dict):
                raise self.build_error(f"{name}[{index}]", "an object", item)
            yield self._make_child(item, f"{name}[{index}]")

    def _make_child(self, value: Mapping[str, Any], name: str) -> "Fields":
        return Fields(value, self.file, self.line, f"{self.path}.{name}" if self.path else name)

    def build_error(self, name: str, expected: str, value: object = None) -> MalformedRecording:
        """The error that a field is not what the format says."""
        found = self.values.get(name) if value is None else value
        where = ", ".join(part for part in (self.line, f"{self.path}.{name}" if self.path else name) if part)
        return MalformedRecording(self.file, where, expected, type(found).__name__)


def replace_surrogates(text: str) -> str:
    """The text with lone surrogates replaced by `?`, as no file or provider could take them."""
    return text.encode(errors="replace").decode() if not text.isascii() else text


def encode_json(value: object) -> str:
    """A JSON value as text again: what a model wrote as arguments, or a result that is no text."""
    return replace_surrogates(json.dumps(value, ensure_ascii=False))


def is_object_with(value: object, *names: str) -> bool:
    """Whether a value is a JSON object that has all these fields: what detection asks."""
    return isinstance(value, dict) and all(name in value for name in names)
