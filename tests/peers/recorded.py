"""Recorded sessions of other agents, as conversations; tests of them are skipped where the recordings are missing."""

import os
from pathlib import Path
from typing import Any

import pytest

from harness.conversation.events import MessageAdded
from harness.conversation.messages import Message
from harness.recordings.reading import read_recordings
from harness.recordings.session_log import build_entries

PLACE = Path(os.environ.get("HARNESS_TRAJECTORIES", Path(__file__).parents[3] / "shared" / "data" / "trajectories"))
MOST_MESSAGES = 200
"""Maximum number of messages of a conversation; the originals process all of them before each call, which takes time."""
SUFFIXES = {".json", ".jsonl", ".traj"}


def recordings() -> list[Any]:
    """Return the files as parameters of a test, or one skipped parameter if there are none."""
    files = sorted(path for path in PLACE.rglob("*") if path.suffix in SUFFIXES) if PLACE.is_dir() else []
    absent = pytest.param(Path(), marks=pytest.mark.skip(f"no recorded sessions in {PLACE.name}: set HARNESS_TRAJECTORIES"))
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in files] or [absent]


def conversations_in(path: Path) -> list[tuple[Message, ...]]:
    """Return the beginnings of the conversations of a file, each with a system message first."""
    logs = [build_entries(recording) for recording in read_recordings(path)]
    added = ([entry.event.message for entry in log if isinstance(entry.event, MessageAdded)] for log in logs)
    return [tuple(messages[:MOST_MESSAGES]) for messages in added]
