"""Parsing of files with recorded sessions, either into JSON values with typed access to their fields, or into plain text.

- If a JSONL file is truncated in the middle of a line, its complete rows are read. A truncated JSON object cannot be read.
- Two objects on one line, left by an interrupted writer, are read as two rows.
- A field that is absent or null gives a default. A field of the wrong type raises an error with its place in the file, so that
  importers never see an exception of the standard library.
"""

import codecs
import datetime as dt
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import MalformedRecording, UsageError, format_count
from harness.files.bounded_input import read_input
from harness.recordings.archive import ZIP_SIGNATURE, read_log_members
from harness.recordings.recording import Caveat
from harness.text import replace_surrogates

MAX_DEPTH = 100
"""Maximum number of nested levels in a JSON value of a recording; real files have about thirty."""

COMPRESSION_SIGNATURES = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""Names of compression formats by the first bytes of a compressed file; used for error messages."""
SQLITE_SIGNATURE = b"SQLite format 3\0"
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

MAX_RECORDING_BYTES = 64 * 2**20
MAX_ROWS = 100_000
"""Maximum number of JSON values in a JSONL file, and of events or messages in one session."""
MAX_VALUES = 3_000_000
"""Maximum number of commas and opening brackets in JSON outside of strings.

Each value takes up to a hundred bytes of memory.
"""

MAX_COUNT = 10**12
"""Largest number, for example of tokens or milliseconds, that a field of a recording may have."""

_FIRST_TIME_MS = 946_684_800_000  # the year 2000
_LAST_SECOND = 10**11  # a number of seconds in the year 5138; a larger number counts milliseconds
_TWO_WORDS = re.compile(r"(?<!\w)\w{2,}+[^\w\s]?+\s++[^\w\s]?+\w{2}|[^\x00-\x7f]{4}")
_DECODER = json.JSONDecoder()
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_SPACE = re.compile(r"\s*")
_NO_SPACE = re.compile(rb"\S")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class Row(NamedTuple):
    """One JSON value in a file, with the number of its line; most formats have one value per line."""

    line: int
    """Number of the line on which the JSON value begins, from 1."""
    value: Any


@dataclass(slots=True, eq=False)
class Fields:
    """Fields of a JSON object in a recorded session, with the object's place in the file for error messages.

    Nothing changes an instance. It is not frozen, because a frozen one takes three times as long to make, and a file has as many
    as it has objects.
    """

    values: Mapping[str, Any]
    file: str
    line: str
    """Line of the file that holds the JSON object, such as `line 7`; empty if the whole file is one JSON value."""
    path: str = ""
    """Path of the JSON object within the value of its line, such as `message.content[2]`."""

    @property
    def place(self) -> str:
        """Place of the JSON object for error messages: its line in the file, and its path within that line."""
        return ", ".join(part for part in (self.line, self.path) if part)

    def has(self, name: str) -> bool:
        """Return whether a field of the JSON object is present and not null."""
        return self.values.get(name) is not None

    def read_text(self, name: str) -> str:
        """Return the value of a field that must be a string; empty if the field is absent.

        Lone surrogates in the string are replaced.
        """
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.build_error(name, "a string")
        return value if value.isascii() else replace_surrogates(value)

    def read_count(self, name: str) -> int:
        """Return the value of a field that must be a non-negative integer; 0 if the field is absent."""
        return self.read_optional_count(name) or 0

    def read_optional_count(self, name: str) -> int | None:
        """Return the value of a field that must be a non-negative integer; None if the field is absent."""
        value = self.values.get(name)
        if value is None:
            return None
        number = int(value) if isinstance(value, float) and math.isfinite(value) and value == int(value) else value
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_COUNT:
            raise self.build_error(name, f"a whole number from 0 to {MAX_COUNT:.0e}")
        return number

    def read_amount(self, name: str) -> float | None:
        """Return the value of a field that must be a non-negative number, e.g. a cost; None if it is absent."""
        value = self.values.get(name)
        if value is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= MAX_COUNT:
            raise self.build_error(name, "a number of at least 0")
        return float(value)

    def read_time_ms(self, name: str) -> int | None:
        """Return the time in a field as milliseconds since the epoch; None if the field is absent or holds no time.

        A time is a text in ISO 8601 format, or a number of seconds or milliseconds since the epoch. A time before the year 2000
        is a default of the program that wrote the file, and counts as absent.
        """
        return parse_time_ms(self.values.get(name))

    def read_flag(self, name: str) -> bool:
        """Return the value of a field that must be a Boolean; False if the field is absent."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.build_error(name, "true or false")
        return bool(value)

    def read_object(self, name: str) -> "Fields":
        """Return the value of a field that must be a JSON object; an empty object if the field is absent."""
        value = {} if self.values.get(name) is None else self.values[name]
        if not isinstance(value, dict):
            raise self.build_error(name, "an object")
        return self._make_child(value, name)

    def read_objects(self, name: str) -> Iterator["Fields"]:
        """Yield the items of a field that must be a list of JSON objects; nothing if the field is absent."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.build_error(name, "a list of objects")
        for index, item in enumerate(value or ()):
            if not isinstance(item, dict):
                raise self.build_error(f"{name}[{index}]", "an object", item)
            yield self._make_child(item, f"{name}[{index}]")

    def read_texts(self, name: str) -> list[str]:
        """Return the strings in a field that holds a list, without other items; empty if the field holds no list."""
        value = self.values.get(name)
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

    def _make_child(self, value: Mapping[str, Any], name: str) -> "Fields":
        return Fields(value, self.file, self.line, f"{self.path}.{name}" if self.path else name)

    def build_error(self, name: str, expected: str, value: object = None) -> MalformedRecording:
        """Return an error that names the place of an invalid field in the file and describes a valid value.

        Args:
            name: Name of the field.
            expected: Description of a valid value.
            value: Invalid value; if it is None, the value that the field has in the file.
        """
        actual = self.values.get(name) if value is None else value
        location = ", ".join(part for part in (self.line, f"{self.path}.{name}" if self.path else name) if part)
        return MalformedRecording(self.file, location, expected, type(actual).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """File with a recorded session, after parsing.

    `caveats` are notes for the user about parts that could not be parsed.
    """

    file: str
    rows: tuple[Row, ...]
    """JSON values of the file with their line numbers; one value if it fills the whole file, and none in a plain text."""
    text: str
    """Whole text of a file that is no JSON; empty for others."""
    caveats: tuple[Caveat, ...] = ()

    @property
    def single_value(self) -> Any:
        """Only JSON value of the file; None if the file holds several values or plain text."""
        return self.rows[0].value if len(self.rows) == 1 else None

    def read_root(self, list_name: str = "") -> Fields:
        """Return the only JSON value of the file as an object.

        A list is wrapped in an object with the field `list_name`.
        """
        value = self.single_value
        return Fields({list_name: value} if isinstance(value, list) else value, self.file, "")

    def list_objects(self) -> list[Fields]:
        """Return all JSON objects among the rows of the file; other values are left out."""
        return [Fields(value, self.file, f"line {line}") for line, value in self.rows if isinstance(value, dict)]


def open_document(path: Path) -> Document:
    """Read a file with a recorded session and parse it.

    Raises:
        UsageError: The file cannot be read, is not a regular file, or is too large.
        MalformedRecording: The file begins like JSON but is not valid JSON, or it is compressed or UTF-16 text.
    """
    try:
        data = read_input(path, MAX_RECORDING_BYTES)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the recording {str(path)!r}: {getattr(error, 'strerror', None) or error}") from None
    return parse_document(data, str(path))


def parse_document(data: bytes, file: str) -> Document:
    """Parse the bytes of a file with a recorded session.

    A zip archive with the log of an evaluation becomes one JSON object, which has the values of its files by their names.

    Args:
        data: Content of the file.
        file: Name of the file, for error messages.

    Raises:
        MalformedRecording: The data begins like JSON but is not valid JSON, or it is compressed or UTF-16 text.
    """
    if data.startswith(ZIP_SIGNATURE):
        return _parse_archive(data, file)
    _check_text(data, file)
    content = data.removeprefix(codecs.BOM_UTF8)
    if not content.lstrip().startswith((b"{", b"[")) and not _is_cut_at_start(content):
        text, replaced_count = _decode(content)
        return Document(file=file, rows=(), text=text, caveats=_note_replaced_bytes(replaced_count))
    if len(data) > MAX_VALUES and _count_values(data) > MAX_VALUES and _count_values(_STRING.sub(b"", data)) > MAX_VALUES:
        raise MalformedRecording(file, "", f"at most {MAX_VALUES:,} JSON values")
    if _has_rows(content) or _is_cut_at_start(content):
        return _parse_lines(content, file)
    text, replaced_count = _decode(content)
    if rows := _parse_single_value(text, file):
        return Document(file=file, rows=rows, text="", caveats=_note_replaced_bytes(replaced_count))
    return _parse_lines(content, file)


def _decode(data: bytes) -> tuple[str, int]:
    """Return bytes as text, with U+FFFD for bytes that are not UTF-8, and the number of these."""
    try:
        return data.decode(), 0
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        return text, text.count("\ufffd") - data.count("\ufffd".encode())


def _note_replaced_bytes(count: int) -> tuple[Caveat, ...]:
    if count <= 0:
        return ()
    return (Caveat(place="", text=f"replaced {format_count(count, 'byte')} that {'is' if count == 1 else 'are'} not UTF-8"),)


def _parse_archive(data: bytes, file: str) -> Document:
    members, caveats = read_log_members(data, file, MAX_RECORDING_BYTES)
    values: dict[str, Any] = {}
    for name, content in members:
        try:
            document = parse_document(content, f"{file}, {name}")
        except MalformedRecording as error:
            caveats.append(Caveat(place=name, text=f"the file cannot be read and is left out: expected {error.expected}"))
            continue
        values[name] = document.single_value
        caveats += [replace(caveat, place=name) for caveat in document.caveats]
    return Document(file=file, rows=(Row(1, values),), text="", caveats=tuple(caveats))


def _count_values(data: bytes) -> int:
    return len(data) - len(data.translate(None, b",[{"))


def _check_text(data: bytes, file: str) -> None:
    if packed := next((name for magic, name in COMPRESSION_SIGNATURES.items() if data.startswith(magic)), None):
        raise MalformedRecording(file, "", "text in UTF-8", f"{packed}; unpack it first")
    if data.startswith(SQLITE_SIGNATURE):
        actual = "a database (SQLite); export its sessions first (`opencode export ID`, `goose session export --format json`)"
        raise MalformedRecording(file, "", "text in UTF-8", actual)
    if data.startswith(UTF16_MARKS) or b"\0" in data[:2]:
        raise MalformedRecording(file, "", "text in UTF-8", "UTF-16; convert it first (iconv -f UTF-16 -t UTF-8)")


def _has_rows(data: bytes) -> bool:
    """Return whether the first line of some bytes is a JSON value, and more follows, so that each line has its own values."""
    start = _NO_SPACE.search(data)
    end = data.find(b"\n", start.start() if start else 0)
    if start is None or end < 0 or _NO_SPACE.search(data, end) is None:
        return False
    try:
        _DECODER.raw_decode(data[start.start() : end].decode())
    except (ValueError, RecursionError):
        return False
    return True


def _is_cut_at_start(data: bytes) -> bool:
    """Return whether some bytes are rows whose beginning is missing: the rest of a row, and then a whole row."""
    if data.lstrip()[:1] in {b"", b"{", b"[", b"#", b"<", b"_"}:
        return False
    end = data.find(b"\n")
    row = data[end + 1 : (data.find(b"\n", end + 1) + 1 or len(data) + 1) - 1] if end >= 0 else b""
    try:
        return row.startswith(b"{") and isinstance(json.loads(row), dict)
    except (ValueError, RecursionError):
        return False


def _parse_single_value(text: str, file: str) -> tuple[Row, ...]:
    """Return the JSON value that fills a text; empty if the text has one value per line."""
    first = len(text) - len(text.lstrip())
    line = text.count("\n", 0, first) + 1
    try:
        value, end = _DECODER.raw_decode(text, first)
    except RecursionError:
        raise _build_depth_error(file, line) from None
    except ValueError as error:
        if _starts_with_row(text[first:]):
            return ()
        line = getattr(error, "lineno", line)
        raise MalformedRecording(file, f"line {line}", f"a JSON value ({getattr(error, 'msg', error)})") from None
    if rest := text[end:].lstrip():
        if "\n" not in text[first:end]:
            return ()
        behind = text.count("\n", 0, len(text) - len(rest)) + 1
        raise MalformedRecording(file, f"line {behind}", f"nothing after the JSON value of line {line}", repr(rest[:20]))
    _check_depth(value, file, line)
    return (Row(line, value),)


def _starts_with_row(text: str) -> bool:
    line, newline, _ = text.partition("\n")
    try:
        return bool(newline) and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _parse_lines(data: bytes, file: str) -> Document:
    """Parse bytes with JSON values on each line; lines are decoded singly, which takes less memory than the whole text."""
    lines = data.split(b"\n")
    if len(lines) > MAX_ROWS + 1:
        raise build_length_error(file, len(lines), "line")
    last = next(number for number in range(len(lines), 0, -1) if not lines[number - 1].isspace() and lines[number - 1])
    rows: list[Row] = []
    caveats: list[Caveat] = []
    replaced_bytes = 0
    for number, content in enumerate(lines, start=1):
        line, replaced_count = _decode(content)
        replaced_bytes += replaced_count
        try:
            values, fault = _parse_values(line)
        except RecursionError:
            raise _build_depth_error(file, number) from None
        if len(values) > MAX_ROWS:
            raise build_length_error(file, len(values), "row")
        if len(values) > 1:
            caveats.append(Caveat(place=f"line {number}", text=f"{len(values)} rows on one line were read separately"))
        if values and _has_many_brackets(content):
            for value in values:
                _check_depth(value, file, number)
        rows += [Row(number, value) for value in values]
        if fault:
            problem = f"dropped: {fault}"
            if number == last:
                problem = "the file is truncated here; the rest of the line was dropped"
            elif number == 1 and not any(isinstance(value, dict) for value in values):
                problem += "; the beginning of the file is missing"
            caveats.append(Caveat(place=f"line {number}", text=problem))
    return Document(file=file, rows=tuple(rows), text="", caveats=(*_note_replaced_bytes(replaced_bytes), *caveats))


def _parse_values(line: str) -> tuple[list[Any], str]:
    """Return the JSON values on a line, and a description of the first syntax error; empty if there is none."""
    try:
        return [json.loads(line)], ""  # the usual line holds one value
    except ValueError:
        pass
    values: list[Any] = []
    position = _skip_space(line, 0)
    while position < len(line):
        try:
            value, position = _DECODER.raw_decode(line, position)
        except ValueError as error:
            return values, f"not JSON ({getattr(error, 'msg', error)})"
        values.append(value)
        position = _skip_space(line, position)
    return values, ""


def _skip_space(line: str, position: int) -> int:
    space = _SPACE.match(line, position)
    return space.end() if space else position


def _has_many_brackets(data: bytes) -> bool:
    """Return whether JSON has enough opening brackets for a value that is nested too deeply."""
    return len(data) > 2 * MAX_DEPTH and len(data) - len(data.translate(None, b"[{")) > MAX_DEPTH


def _check_depth(value: Any, file: str, line: int) -> None:
    """Raise an error if a value is nested too deeply."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in list_children(outer) if isinstance(inner, dict | list)]
        if not level:
            return
    raise _build_depth_error(file, line)


def parse_time_ms(value: object) -> int | None:
    """Return a time as milliseconds since the epoch (see `Fields.read_time_ms`); None if the value is no time."""
    try:
        if isinstance(value, str):
            time = dt.datetime.fromisoformat(value)
            milliseconds = round((time if time.tzinfo else time.replace(tzinfo=dt.UTC)).timestamp() * 1000)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            milliseconds = round(value if value > _LAST_SECOND else value * 1000)
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return milliseconds if _FIRST_TIME_MS <= milliseconds <= _LAST_SECOND * 1000 else None


def holds_words(value: object) -> bool:
    """Return whether a JSON value contains a text of at least two words, or of four characters beyond ASCII."""
    if isinstance(value, str):
        return _TWO_WORDS.search(value) is not None
    return any(map(holds_words, list_children(value)))


def list_children(value: Any) -> Iterable[Any]:
    """Return the values directly inside a JSON object or list; empty for any other JSON value."""
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _build_depth_error(file: str, line: int) -> MalformedRecording:
    return MalformedRecording(file, f"line {line}", f"at most {MAX_DEPTH} levels of nesting")


def build_length_error(file: str, count: int, noun: str) -> MalformedRecording:
    """Return the error for a recording with more rows, messages or events than `MAX_ROWS`."""
    return MalformedRecording(file, "", f"at most {format_count(MAX_ROWS, noun)}", format_count(count, noun))


def encode_json(value: object) -> str:
    """Return a tool argument or result that is no string as JSON text, with lone surrogates replaced."""
    return replace_surrogates(_ENCODER.encode(value))


def is_object_with(value: object, *names: str) -> bool:
    """Return whether a value is a JSON object that has all the named fields; used to detect file formats."""
    if not isinstance(value, dict):
        return False
    for name in names:  # noqa: SIM110, a loop takes a third of the time, and each importer asks this of each row
        if name not in value:
            return False
    return True
