"""Export of a session to a file in a format of another program, whole or not at all."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from harness.errors import StoreError, UsageError
from harness.inspection.exchange.atif import build_trajectory
from harness.inspection.exchange.exported_session import ExportedSession, build_exported_session
from harness.inspection.exchange.inspect_log import write_log
from harness.inspection.exchange.redaction import mask_session_id, redact_session
from harness.inspection.exchange.spans import build_spans
from harness.inspection.exchange.token_trace import build_trace
from harness.recordings.session_file import TimedEntry
from harness.store.database import replace_file

ExchangeFormat: TypeAlias = Literal["atif", "inspect", "otel", "weka"]
"""Format of another program in which sessions can be written."""


def _write_json(build: Callable[[ExportedSession], object]) -> Callable[[ExportedSession, Path], None]:
    def write(session: ExportedSession, file: Path) -> None:
        file.write_text(json.dumps(build(session), ensure_ascii=False) + "\n", encoding="utf-8")

    return write


WRITERS: Mapping[str, Callable[[ExportedSession, Path], None]] = {
    "atif": _write_json(build_trajectory),
    "inspect": write_log,
    "otel": _write_json(build_spans),
    "weka": _write_json(build_trace),
}
"""Functions that write a session to a file, by the name of the format."""


def write_session(log: Sequence[TimedEntry], file: Path, name: ExchangeFormat, *, redacted: bool = False) -> ExportedSession:
    """Write a session to a new file in a format of another program, and return what was written.

    If an error occurs, no file is left.

    Args:
        log: Log of the session, with times.
        file: File to create.
        name: Name of the format.
        redacted: Whether texts are replaced by digests of their shape.

    Raises:
        UsageError: The file exists, or the session lacks what the format needs.
        StoreError: The file cannot be written.
    """
    if file.exists():
        raise UsageError(f"{str(file)!r} exists; choose another file")
    session = build_exported_session(log)
    if redacted:
        # a trace has no texts, and its blocks must be those of the real prompts
        session = mask_session_id(session) if name == "weka" else redact_session(session)
    try:
        with replace_file(file) as unfinished:
            WRITERS[name](session, unfinished)
    except OSError as error:
        raise StoreError(f"cannot write {str(file)!r}: {error.strerror}; choose another file") from None
    return session
