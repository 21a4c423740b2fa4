"""Recorded sessions in all files of a folder: found, read by several processes, and shown in tables.

The figures of each file are kept in a cache, without texts. A file is read again if its path, size or time of change differ, its
content differs, or the importers have changed since. In a second pass over all files, each model call counts for the session that
made it first; copies of it in resumed, branched and forked sessions count nothing.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import platformdirs

import harness.recordings
from harness.conversation.codec import from_plain, to_plain
from harness.errors import HarnessError, MalformedRecording, UsageError
from harness.files.bounded_input import read_input
from harness.inspection import calibration, recorded_figures
from harness.inspection.calibration import Prompt, RecordedCalibration, judge_median, take_median
from harness.inspection.file_pool import map_files
from harness.inspection.recorded_cost import total_session
from harness.inspection.recorded_figures import SessionFigures, UsageTotals, measure_recording
from harness.recordings.archive import ZIP_SIGNATURE, is_log_archive
from harness.recordings.document import MAX_RECORDING_BYTES, UTF16_MARKS, parse_document
from harness.recordings.reading import FORMATS, detect_format, read_document
from harness.recordings.recording import Recording
from harness.recordings.refused import find_refused_agent
from harness.store.database import replace_file

MAX_CACHE_BYTES = 64 * 2**20
NO_RECORDING = "no recording"
"""Refusal of a file that no format claims."""
_SHARED_FOLDERS = {".config", ".local"}
"""Hidden folders of the home folder that most programs share."""
_ROW_SUFFIXES = {".jsonl", ".traj"}
_TEXT_BEGINNINGS = (b"{", b"[", b"<", b"#", b"_")
"""First characters of files that may be recordings, which are JSON, or Markdown with a comment, a heading or bold text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFigures:
    """Figures of the sessions in one file, or the reason why the file was refused."""

    path: str
    sessions: tuple[SessionFigures, ...] = ()
    refusal: str = ""
    """Reason why the file cannot be read; empty if its sessions were read, and `no recording` if no format claims it."""


class FolderRecordings(NamedTuple):
    """Recorded sessions of a folder, as pandas tables; returned by `load_sessions`."""

    sessions: pd.DataFrame
    """One row per session, sub-agents included: file, format, id, times, models, numbers of messages, characters, tool calls,
    results and compactions, tokens and cost in USD, apart by how far they can be believed (see `UsageTotals`), and the
    calibration of its prompts with its error (`harness.inspection.calibration`). A session with too little usage has the median
    calibration of other sessions of its agent and model, which `calibration_source` says."""
    caveats: pd.DataFrame
    """One row per note of an importer: file, session and text."""
    refused: pd.DataFrame
    """One row per file that was refused: file and reason. Files that are no recordings are only counted, in `other_files`."""
    other_files: int
    """Number of files in the folder that are no recordings."""


def load_sessions(
    folder: str | os.PathLike[str] | Sequence[Path],
    *,
    workers: int | None = None,
    cache_folder: str | os.PathLike[str] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> FolderRecordings:
    """Read the recorded sessions of other agents in a folder and all folders below it.

    Files that did not change since they were last read are not read again. A call that several files hold counts once, for the
    session that made it first.

    Args:
        folder: Folder with recordings of any known formats, a single file, or several folders and files.
        workers: Number of processes; None uses one for each processor.
        cache_folder: Folder for the figures of files that were read; None uses the user's cache folder.
        on_progress: Function that is called with the number of files read so far and of all files.

    Raises:
        UsageError: There is no such folder, or worker processes cannot start, such as in a script that calls this function
            without `if __name__ == "__main__":`.

    Example:
        >>> import tempfile
        >>> from harness import load_sessions
        >>> recordings = load_sessions(tempfile.mkdtemp())
        >>> len(recordings.sessions), len(recordings.refused)
        (0, 0)
    """
    files = read_folder(folder, workers=workers, cache_folder=cache_folder, on_progress=on_progress)
    return build_tables(files)


def read_folder(
    folder: str | os.PathLike[str] | Sequence[Path],
    *,
    workers: int | None = None,
    cache_folder: str | os.PathLike[str] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[FileFigures, ...]:
    """Return the figures of each file in a folder, sorted by path; the arguments are those of `load_sessions`."""
    places = list(folder) if isinstance(folder, Sequence) and not isinstance(folder, str) else [Path(folder)]
    for place in places:
        if not place.exists():
            raise UsageError(f"there is no folder {str(place)!r}; pass a folder with recordings, or one file")
    paths = sorted({path for place in places for path in find_files(place)})
    figures_cache = _FiguresCache(Path(cache_folder) if cache_folder else platformdirs.user_cache_path("harness") / "recordings")
    found: dict[str, FileFigures] = {}
    for path in paths:
        if (known := figures_cache.find(path)) is not None:
            found[str(path)] = known
    unread = [path for path in paths if str(path) not in found]
    for done, figures in enumerate(map_files(read_figures, unread, workers), start=len(found) + 1):
        found[figures.path] = figures
        figures_cache.add(figures)
        if on_progress is not None:
            on_progress(done, len(paths))
    figures_cache.save()
    return tuple([found[str(path)] for path in paths])


def find_files(folder: Path) -> Iterator[Path]:
    """Yield the regular files in a folder and below it, or the path itself if it is a file.

    Hidden files and folders are left out, except those in which agents store sessions (see `list_hidden_names`).
    """
    hidden_names = list_hidden_names()
    if folder.is_file():
        yield folder
        return
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") or name in hidden_names)
        shown = [name for name in names if not name.startswith(".") or name in hidden_names]
        yield from (path for name in shown if (path := Path(parent, name)).is_file())


@cache
def list_hidden_names() -> frozenset[str]:
    """Return the names of hidden files and folders in which agents store sessions: in a project, or in the home folder."""
    places = [place for known in FORMATS.values() for place in getattr(known, "FOLDERS", ())]
    homes = {parts[1] for place in places if (parts := Path(place).parts)[0] == "~"} - _SHARED_FOLDERS
    return frozenset({name for known in FORMATS.values() for name in getattr(known, "HIDDEN_NAMES", ())} | homes)


class OpenedFile(NamedTuple):
    """Recordings in a file, or the reason why there are none."""

    recordings: tuple[Recording, ...]
    refusal: str
    """Reason why the file is refused; empty if its recordings were read, and `no recording` if no format claims it."""


def read_figures(path: Path) -> FileFigures:
    """Read one file and return the figures of its sessions, or the reason why it is refused."""
    opened = open_recordings(path)
    try:
        return FileFigures(path=str(path), sessions=tuple(map(measure_recording, opened.recordings)), refusal=opened.refusal)
    except (ValueError, HarnessError) as error:
        return FileFigures(path=str(path), refusal=str(error) or type(error).__name__)


def open_recordings(path: Path) -> OpenedFile:
    """Read one file and return its recordings, or the reason why it is refused."""
    try:
        if not _may_be_recording(path):
            return OpenedFile((), NO_RECORDING)
        document = parse_document(read_input(path, MAX_RECORDING_BYTES), str(path))
        try:
            format_name = detect_format(document)
        except MalformedRecording as error:
            # a file that begins like a recording and breaks off is a damaged recording, any other is none
            is_other = not (find_refused_agent(document) or any(known.can_read(document) for known in FORMATS.values()))
            return OpenedFile((), NO_RECORDING if is_other else str(error))
        return OpenedFile(read_document(document, format_name), "")
    except (OSError, ValueError, HarnessError) as error:
        return OpenedFile((), getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _may_be_recording(path: Path) -> bool:
    with path.open("rb") as opened:
        beginning = opened.read(512)
        if beginning.startswith(ZIP_SIGNATURE):
            return is_log_archive(opened)
    if beginning.startswith(UTF16_MARKS) or _ROW_SUFFIXES & set(path.suffixes):
        return True  # a text that must be converted, a file whose beginning is missing, or one that must be unpacked
    return beginning.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_TEXT_BEGINNINGS)


@cache
def digest_importers() -> str:
    """Return a digest of the source code that reads and measures files, so that changed importers read each file again."""
    files = sorted(path for place in harness.recordings.__path__ for path in Path(place).rglob("*.py"))
    files += [Path(module.__file__) for module in (calibration, recorded_figures) if module.__file__]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]


class _FiguresCache:
    """Figures of files that were read before, by path, size and time of change, or else by content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / digest_importers()
        self.index_file = self.folder / "index.json"
        self.index: dict[str, list[int | str]] = {}
        """Size, time of change and digest of each known file, by its path."""
        if self.index_file.is_file():
            self.index = json.loads(read_input(self.index_file, MAX_CACHE_BYTES))

    def find(self, path: Path) -> FileFigures | None:
        """Return the figures of a file if it did not change; None if it must be read."""
        absolute, status = str(path.resolve()), path.stat()
        size, changed_ns, digest = self.index.get(absolute, [-1, -1, ""])
        if (size, changed_ns) != (status.st_size, status.st_mtime_ns):
            if status.st_size > MAX_RECORDING_BYTES:
                return None
            digest = _digest_file(path)
            self.index[absolute] = [status.st_size, status.st_mtime_ns, digest]
        file = self.folder / f"{digest}.json"
        if not file.is_file():
            return None
        return replace(from_plain(FileFigures, json.loads(read_input(file, MAX_CACHE_BYTES))), path=str(path))

    def add(self, figures: FileFigures) -> None:
        """Keep the figures of a file that was read."""
        known = self.index.get(str(Path(figures.path).resolve()))
        if known is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with replace_file(self.folder / f"{known[2]}.json") as unfinished:
            unfinished.write_text(json.dumps(to_plain(figures)), encoding="utf-8")

    def save(self) -> None:
        """Write the index of known files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with replace_file(self.index_file) as unfinished:
            unfinished.write_text(json.dumps(self.index), encoding="utf-8")


def _digest_file(path: Path) -> str:
    return hashlib.sha256(read_input(path, MAX_RECORDING_BYTES)).hexdigest()


class LocatedSession(NamedTuple):
    """Figures of a recorded session, with the path of its file."""

    path: str
    session: SessionFigures


def mark_copies(sessions: Iterable[LocatedSession]) -> list[LocatedSession]:
    """Return the sessions with each call marked as a copy that an earlier session made.

    The session of the earliest call comes first; of sessions with equal times, the one whose file comes first.
    """
    ordered = sorted(sessions, key=lambda located: (located.session.started_at_ms or 0, located.path))
    seen_keys: set[str] = set()
    marked: list[LocatedSession] = []
    for path, session in ordered:
        calls = [
            replace(call, copied=call.copied or (call.request_key in seen_keys and bool(call.request_key)))
            for call in session.calls
        ]
        seen_keys.update(call.request_key for call in session.calls if call.request_key)
        marked.append(LocatedSession(path, replace(session, calls=tuple(calls))))
    return marked


def build_tables(files: Sequence[FileFigures]) -> FolderRecordings:
    """Return the tables of the sessions in some files, in which each model call counts once."""
    located = mark_copies(LocatedSession(file.path, session) for file in files for session in file.sessions)
    shared = _share_calibrations([session for _, session in located])
    rows = [_build_row(path, session, shared) for path, session in located]
    caveats = [(path, session.session_id, text) for path, session in located for text in session.caveats]
    refused = [(file.path, file.refusal) for file in files if file.refusal not in {"", NO_RECORDING}]
    return FolderRecordings(
        sessions=pd.DataFrame(rows, columns=SESSION_COLUMNS),
        caveats=pd.DataFrame(caveats, columns=["file", "session_id", "text"]),
        refused=pd.DataFrame(refused, columns=["file", "reason"]),
        other_files=sum(file.refusal == NO_RECORDING for file in files),
    )


_USAGE_COLUMNS = tuple(UsageTotals.__dataclass_fields__)
_COUNT_COLUMNS = (
    "messages",
    "characters",
    "tool_calls",
    "results",
    "compactions",
    "clearings",
    "inferred_compactions",
    "sub_agents",
)
_CALIBRATION_COLUMNS = (
    "overhead_tokens",
    "tokens_per_typed_character",
    "tokens_per_answer_character",
    "tokens_per_result_character",
    "calibration_error",
    "calibration_source",
)
SESSION_COLUMNS = (
    *("file", "format", "session_id", "parent_id", "started_at", "ended_at", "models"),
    *_COUNT_COLUMNS,
    *_USAGE_COLUMNS,
    *_CALIBRATION_COLUMNS,
)
"""Columns of `FolderRecordings.sessions`."""


def _name_group(session: SessionFigures) -> tuple[str, str]:
    """Return agent and first model of a session."""
    return session.source, next((call.model for call in session.calls if call.model), "")


def _share_calibrations(sessions: Sequence[SessionFigures]) -> dict[tuple[str, str], RecordedCalibration]:
    """Return the median calibration of each agent and model with at least two calibrated sessions."""
    groups: dict[tuple[str, str], list[tuple[RecordedCalibration, Prompt]]] = {}
    for session in sessions:
        if session.calibration is not None and session.last_prompt is not None:
            groups.setdefault(_name_group(session), []).append((session.calibration, session.last_prompt))
    shared = {}
    for name, pairs in groups.items():
        if len(pairs) > 1:
            calibrations, prompts = zip(*pairs, strict=True)
            shared[name] = take_median(calibrations, judge_median(calibrations, prompts))
    return shared


def _build_row(path: str, session: SessionFigures, shared: Mapping[tuple[str, str], RecordedCalibration]) -> Mapping[str, object]:
    totals = total_session(session)
    models = dict.fromkeys(call.model for call in session.calls if call.model)
    return {
        "file": path,
        "format": session.source,
        "session_id": session.session_id,
        "parent_id": session.parent_id,
        "started_at": pd.to_datetime(session.started_at_ms, unit="ms", utc=True),
        "ended_at": pd.to_datetime(session.ended_at_ms, unit="ms", utc=True),
        "models": ", ".join(models),
        **{name: getattr(session, name) for name in _COUNT_COLUMNS},
        **{name: getattr(totals, name) for name in _USAGE_COLUMNS},
        **_describe_calibration(session.calibration or (shared.get(_name_group(session)) if session.has_texts else None)),
    }


def _describe_calibration(known: RecordedCalibration | None) -> Mapping[str, object]:
    if known is None:
        return {**dict.fromkeys(_CALIBRATION_COLUMNS, None), "calibration_source": ""}
    values = (
        known.overhead_tokens,
        known.typed_tokens,
        known.answer_tokens,
        known.result_tokens,
        known.error,
        known.source,
    )
    return dict(zip(_CALIBRATION_COLUMNS, values, strict=True))


def list_installed_folders() -> tuple[tuple[str, Path], ...]:
    """Return the folders in which agents on this machine store their sessions, each with the name of the format."""
    folders = [
        (name, path)
        for name, known in FORMATS.items()
        for place in getattr(known, "FOLDERS", ())
        if (path := Path(place).expanduser()).is_dir()
    ]
    return tuple(folders)


def count_caveats(recordings: FolderRecordings) -> Counter[str]:
    """Return how many sessions have a note of each kind; notes that differ in their numbers and names are of one kind."""
    kinds: Counter[str] = Counter()
    for text in recordings.caveats["text"]:
        kinds[generalize_caveat(text)] += 1
    return kinds


def generalize_caveat(text: str) -> str:
    """Return the kind of a note: its text without the count at its beginning, and with `…` for quoted names and numbers."""
    words = text.split(" × ", 1)[-1].split()
    return " ".join("…" if any(sign.isdigit() for sign in word) or word.startswith("'toolu_") else word for word in words)
