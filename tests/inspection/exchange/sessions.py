"""Sessions whose exports the tests of every format read back."""

from harness.conversation.events import Compaction
from harness.recordings.document import open_document
from harness.recordings.reading import detect_format, read_document, select_main_sessions
from harness.recordings.recording import Recording
from harness.recordings.session_log import build_timed_log
from tests.recordings.outline import FIXTURES

NAMES = (
    "claude-code.jsonl",
    "codex.jsonl",
    "pi.jsonl",
    "opencode-export.json",
    "qwen-code.jsonl",
    "inspect-ai.json",
    "atif-1.7.json",
)
"""Fixtures with calls, failed results, compactions and usage."""


def read_fixture(name: str) -> Recording:
    """Return the first session of a fixture."""
    document = open_document(FIXTURES[name])
    return select_main_sessions(read_document(document, detect_format(document)))[0]


def build_log(name: str):
    """Return the log of the first session of a fixture, with its compactions and times."""
    return build_timed_log(read_fixture(name), reading="recorded")


def count_compactions(log) -> int:
    return sum(isinstance(timed.entry.event, Compaction) for timed in log)
