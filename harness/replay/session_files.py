"""Files with sessions, replayed by several processes and kept in a cache, so that unchanged files are not opened again."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

from harness.conversation.codec import from_plain, to_plain
from harness.errors import HarnessError
from harness.files.bounded_input import read_input
from harness.inspection.file_pool import map_files
from harness.inspection.recorded_figures import count_message_characters, list_calls
from harness.inspection.recording_folder import MAX_CACHE_BYTES, open_recordings
from harness.models.prices import identify_price_table
from harness.recordings.recording import Recording
from harness.recordings.session_log import build_timed_log
from harness.replay.session_replay import LoggedSession, ReplayPlan, SessionReplay, list_logged_calls, replay_session
from harness.store.database import replace_file
from harness.store.sessions.lookup import iter_sessions

JOURNAL_SUFFIX = ".sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReplay:
    """Replays of the sessions in one file, or the reason why the file was refused."""

    path: str
    sessions: tuple[SessionReplay, ...] = ()
    refusal: str = ""
    """Reason why the file cannot be read; empty if its sessions were read, and `no recording` if no format claims it."""


def replay_files(
    paths: Sequence[Path],
    plan: ReplayPlan,
    cache_folder: Path,
    *,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[FileReplay]:
    """Return the replays of the sessions in each file, in the order of the paths.

    Args:
        paths: Recordings of any format, and journals.
        plan: Settings and rules.
        cache_folder: Folder in which replays are kept.
        workers: Number of processes. Default: one for each processor.
        on_progress: Function that is called with the number of files done and of all files.
    """
    kept = _ReplayCache(cache_folder, plan)
    found = {path: known for path in paths if (known := kept.find(path)) is not None}
    unread = [path for path in paths if path not in found]
    replays = map_files(partial(replay_file, plan=plan), unread, workers)
    for done, (path, replay) in enumerate(zip(unread, replays, strict=True), start=len(found) + 1):
        found[path] = replay
        kept.add(path, replay)
        if on_progress is not None:
            on_progress(done, len(paths))
    return [found[path] for path in paths]


def replay_file(path: Path, plan: ReplayPlan) -> FileReplay:
    """Read one file and return the replays of its sessions, or the reason why it is refused."""
    try:
        if path.suffix == JOURNAL_SUFFIX:
            sessions = [replay_session(session, plan) for session in _read_journal(path)]
            return FileReplay(path=str(path), sessions=tuple(sessions))
        opened = open_recordings(path)
        sessions = [replay_session(_log_recording(recording), plan) for recording in opened.recordings]
        return FileReplay(path=str(path), sessions=tuple(sessions), refusal=opened.refusal)
    except (OSError, ValueError, HarnessError) as error:
        return FileReplay(path=str(path), refusal=str(error) or type(error).__name__)


def read_sessions(path: Path) -> Iterator[LoggedSession]:
    """Yield the sessions in a file that a replay has read, with their texts.

    Raises:
        OSError: The file cannot be read any more.
    """
    if path.suffix == JOURNAL_SUFFIX:
        yield from _read_journal(path)
    else:
        yield from map(_log_recording, open_recordings(path).recordings)


def _read_journal(path: Path) -> Iterator[LoggedSession]:
    for location in iter_sessions([path]):
        stored = location.read()
        yield LoggedSession(
            session_id=location.session_id,
            agent="harness",
            entries=stored.entries,
            times_ms=stored.times_ms,
            calls=list_logged_calls(stored.entries),
        )


def _log_recording(recording: Recording) -> LoggedSession:
    log = build_timed_log(recording, reading="recorded", digests=False) if recording.has_texts else ()
    return LoggedSession(
        session_id=recording.session_id,
        agent=recording.source,
        entries=tuple([timed.entry for timed in log]),
        times_ms=tuple([timed.at_ms for timed in log]),
        calls=list_calls(recording, count_message_characters(recording)),
        parent_id=recording.parent_id,
    )


@cache
def digest_package() -> str:
    """Return a digest of the source code of this package, so that a changed package replays each file again."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]


class _ReplayCache:
    """Replays of files that did not change, by path, size and time of change."""

    def __init__(self, folder: Path, plan: ReplayPlan) -> None:
        tables = f"{identify_price_table()}, genai-prices-{version('genai-prices')}"
        parts = (
            digest_package(),
            tables,
            plan.settings,
            plan.rules,
            {name: asdict(rule) for name, rule in plan.known_rules.items()},
        )
        self.folder = folder / hashlib.sha256(repr(parts).encode()).hexdigest()[:24]

    def find(self, path: Path) -> FileReplay | None:
        """Return the replays of a file if it did not change; None if it must be read."""
        file = self._name_file(path)
        if not file.is_file():
            return None
        kept = json.loads(read_input(file, MAX_CACHE_BYTES))
        return from_plain(FileReplay, kept["replay"]) if kept["status"] == _describe_status(path) else None

    def add(self, path: Path, replay: FileReplay) -> None:
        """Keep the replays of a file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"status": _describe_status(path), "replay": to_plain(replay)})
        with replace_file(self._name_file(path)) as unfinished:
            unfinished.write_text(text, encoding="utf-8")

    def _name_file(self, path: Path) -> Path:
        return self.folder / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]}.json"


def _describe_status(path: Path) -> list[int]:
    """Return size and time of change of a file, and of the log that SQLite keeps beside a journal."""
    files = [path, path.with_name(f"{path.name}-wal")] if path.suffix == JOURNAL_SUFFIX else [path]
    return [number for file in files if file.exists() for number in (file.stat().st_size, file.stat().st_mtime_ns)]
