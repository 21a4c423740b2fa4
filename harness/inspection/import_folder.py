"""Import of all recorded sessions of a folder into a journal, so that they load into the same tables as trials.

A session that is in the journal already is left out if its file did not change, and replaced if the file has more of it now. Of
several files with the same session, the one with most messages is imported.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.inspection.import_export import MAX_NAME_CHARACTERS, write_log
from harness.inspection.recorded_cost import measure_cost
from harness.inspection.recorded_figures import SessionFigures
from harness.inspection.recording_folder import FileFigures, LocatedSession, mark_copies
from harness.recordings.reading import read_recordings
from harness.recordings.recording import Recording
from harness.recordings.session_log import Reading, build_timed_log
from harness.store.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderImport:
    """Numbers of sessions that were added to a journal, replaced in it, and left out."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    duplicates: int = 0
    """Sessions that another file of the folder holds with as many messages or more."""
    without_texts: int = 0
    """Sessions whose files have token counts but no texts."""


def import_files(files: Sequence[FileFigures], journal: str | os.PathLike[str], reading: Reading = "recorded") -> FolderImport:
    """Import the sessions of some files into a journal, which is created if necessary.

    The calls that a session copied from an earlier one have no usage and cost in its log.

    Args:
        files: Figures of the files, as `read_folder` returns them.
        journal: Journal file to which the sessions are added.
        reading: Whether the sessions have the compactions that their agents made.

    Raises:
        StoreError: The journal cannot be written.
    """
    marked = mark_copies([LocatedSession(file.path, session) for file in files for session in file.sessions])
    located = [(path, session) for path, session in marked if session.has_texts]
    best: dict[str, tuple[str, SessionFigures]] = {}
    files_of_parent: dict[str, dict[str, None]] = {}  # files with the sub-agents of each session, by the id of the session
    for path, session in located:
        if session.parent_id:
            files_of_parent.setdefault(session.parent_id, {})[path] = None
        name = choose_name(path, session.session_id)
        if name not in best or session.messages > best[name][1].messages:
            best[name] = (path, session)
    counts = FolderImport(duplicates=len(located) - len(best), without_texts=len(marked) - len(located))
    with Journal.open(journal) as opened:
        known = set(opened.list_session_ids())
        for path in dict.fromkeys(path for path, _ in best.values()):
            wanted = {name: session for name, (where, session) in best.items() if where == path}
            stored = {name: _count_messages(opened, name) for name in wanted if name in known}
            if all(stored.get(name) == session.logged_messages for name, session in wanted.items()):
                counts = replace(counts, unchanged=counts.unchanged + len(wanted))
                continue
            recordings = read_recordings(path)
            for recording in recordings:
                name = choose_name(path, recording.session_id)
                if name not in wanted or len(recording.messages) != wanted[name].messages:
                    continue
                if stored.get(name) == wanted[name].logged_messages:
                    counts = replace(counts, unchanged=counts.unchanged + 1)
                    continue
                if name in known:
                    opened.remove_session(name)
                    counts = replace(counts, replaced=counts.replaced + 1)
                else:
                    counts = replace(counts, added=counts.added + 1)
                known.add(name)
                elsewhere = [other for other in files_of_parent.get(recording.session_id, ()) if other != path]
                candidates = [*recordings, *(child for other in elsewhere for child in read_recordings(other))]
                children = {
                    child.session_id: _mark_copies(child, best[child.session_id][1]) if child.session_id in best else child
                    for child in candidates
                    if child.parent_id and child.parent_id == recording.session_id
                }
                log = build_timed_log(
                    _mark_copies(recording, wanted[name]),
                    reading=reading,
                    sub_agents=list(children.values()),
                    measure_cost=measure_cost,
                )
                write_log(opened, name, log)
    return counts


def choose_name(path: str, session_id: str) -> str:
    """Return the name of a recorded session in a journal: its id, or the name of its file if the id is missing or unusable."""
    name = session_id or Path(path).name
    printable = "".join(sign if sign.isprintable() and sign != "/" else "-" for sign in name)
    return printable[:MAX_NAME_CHARACTERS]


def _count_messages(journal: Journal, session_id: str) -> int:
    rows = journal.query("SELECT count(*) FROM event WHERE session = ? AND role IS NOT NULL", journal.find_key(session_id))
    return int(rows[0][0])


def _mark_copies(recording: Recording, session: SessionFigures) -> Recording:
    """Return a recording whose answers are marked as copies where the calls in the figures are."""
    copied = {call.request_key for call in session.calls if call.copied and call.request_key}
    messages = [replace(item, copied=item.copied or item.request_key in copied) for item in recording.messages]
    return replace(recording, messages=tuple(messages))
