"""Functions that detect the format of a file with recorded sessions and read the file.

The format is detected from the content, never from the name of the file. A file that fits several formats is an error.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from harness.errors import MalformedRecording, UnknownName, UsageError
from harness.recordings import formats
from harness.recordings.document import Document, open_document
from harness.recordings.draft import Draft
from harness.recordings.recording import Caveat, Recording
from harness.recordings.refused import REASON, find_refused_agent

MAX_SPOILED_SHARE, MAX_SPOILED_ROWS = 0.05, 20
"""Largest share and number of the rows of a file that may violate its format; more mean that the format is another one."""


class Format(Protocol):
    """Format of files with recorded sessions; a module with the functions `can_read` and `read` implements it.

    A module may also have `FOLDERS`, a tuple of the folders in which the agent stores its sessions (`~` is the home folder), and
    `HIDDEN_NAMES`, a tuple of the names of hidden files or folders in which it stores them within a project.
    """

    def can_read(self, document: Document) -> bool:
        """Return whether a parsed file is in the format that this module implements."""
        ...

    def read(self, document: Document) -> Iterator[Draft]:
        """Yield each session of a parsed file, at least one, as an unfinished recording.

        `Draft.finish` turns such a draft into a recording.
        """
        ...


def _find_formats() -> dict[str, Format]:
    folders = sorted(reader.parent.name for place in formats.__path__ for reader in Path(place).glob("*/reader.py"))
    modules = {name: import_module(f"{formats.__name__}.{name}.reader") for name in folders}
    return {name.replace("_", "-"): cast("Format", module) for name, module in modules.items()}


FORMATS: Mapping[str, Format] = _find_formats()
"""Importer modules of all supported formats of recorded sessions, by the name of the format.

Each folder in `harness/recordings/formats` with a module `reader` is a format.
"""


def read_recording(path: str | os.PathLike[str], format: str | None = None) -> Recording:  # noqa: A002, the word users say
    """Read the only recorded session in a file, without the sessions of its sub-agents.

    Args:
        path: File with one recorded session.
        format: Name of the format, a key of `FORMATS`; None detects the format from the content.

    Raises:
        UnknownName: There is no such format.
        MalformedRecording: The file has no known format, violates its format, or is truncated so that nothing can be read.
        UsageError: The file cannot be opened, or it holds more than one session.
    """
    main = select_main_sessions(read_recordings(path, format))
    if len(main) > 1:
        raise UsageError(f"{path}: {len(main)} sessions in one file; use read_recordings to read all of them")
    return main[0]


def select_main_sessions(recordings: Sequence[Recording]) -> tuple[Recording, ...]:
    """Return the recordings of a file that are not those of sub-agents which another of these recordings started."""
    names = {recording.session_id for recording in recordings if recording.session_id}
    return (
        tuple([recording for recording in recordings if recording.parent_id not in names])
        if len(names) > 1
        else tuple(recordings)
    )


def read_recordings(path: str | os.PathLike[str], format: str | None = None) -> tuple[Recording, ...]:  # noqa: A002
    """Read all recorded sessions in a file, in order.

    Args:
        path: File with one or more recorded sessions.
        format: Name of the format, a key of `FORMATS`; None detects the format from the content.

    Raises:
        UnknownName: There is no such format.
        MalformedRecording: The file has no known format, violates its format, or is truncated so that nothing can be read.
        UsageError: The file cannot be opened.
    """
    if format is not None and format not in FORMATS:
        raise UnknownName("format", format, FORMATS)
    document = open_document(Path(path))
    if format is not None and not FORMATS[format].can_read(document):
        raise MalformedRecording(document.file, "", f"a recording in the format {format}")
    return read_document(document, format or detect_format(document))


def read_document(document: Document, format_name: str) -> tuple[Recording, ...]:
    """Return all recorded sessions in a parsed file, which must be in the named format.

    A file that is a bare list does not name the agent that wrote it, which is a note of its sessions. A few rows that violate the
    format are left out, each with a note.

    Raises:
        MalformedRecording: A file with one JSON value violates its format, or more than `MAX_SPOILED_SHARE` of the rows do.
    """
    if isinstance(document.single_value, list):
        note = Caveat(place="", text=f"the file, a bare list, names no agent; it was read as {format_name} by its shape")
        document = replace(document, caveats=(*document.caveats, note))
    allowed = 0 if format_name == "harness" else min(MAX_SPOILED_ROWS, int(MAX_SPOILED_SHARE * len(document.rows)))
    first_error: MalformedRecording | None = None
    while True:
        try:
            return tuple(draft.finish(format_name, document) for draft in FORMATS[format_name].read(document))
        except MalformedRecording as error:
            first_error, allowed = first_error or error, allowed - 1
            line = error.place.partition(",")[0]
            rows = tuple(row for row in document.rows if f"line {row.line}" != line)
            if allowed < 0 or len(rows) == len(document.rows):
                raise first_error from None
            note = Caveat(
                place=error.place, text=f"row left out: expected {error.expected}, got {error.actual or 'another value'}"
            )
            document = replace(document, rows=rows, caveats=(*document.caveats, note))


def detect_format(document: Document) -> str:
    """Return the name of the format of a parsed file, which is detected from its content.

    Raises:
        MalformedRecording: The file fits no format or several formats.
    """
    claims = _find_matching_formats(document)
    if not claims and (agent := find_refused_agent(document)):
        raise MalformedRecording(document.file, "", "a recording in a known format", f"a session of {agent}: {REASON}")
    if not claims and len(document.rows) > 1 and (alone := _find_matching_formats(replace(document, rows=document.rows[:1]))):
        raise MalformedRecording(
            document.file,
            f"line {document.rows[1].line}",
            f"the end of the file, because a {alone[0]} recording is a single JSON value",
        )
    if not claims:
        raise MalformedRecording(document.file, "", f"a recording in one of the formats {', '.join(FORMATS)}")
    if len(claims) > 1:
        actual = f"a file that fits {' and '.join(claims)}; specify one of them"
        raise MalformedRecording(document.file, "", "a recording in one format", actual)
    return claims[0]


def _find_matching_formats(document: Document) -> list[str]:
    return [name for name, known in FORMATS.items() if known.can_read(document)]
