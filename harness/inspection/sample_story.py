"""Readable sample session about late flood alerts that an agent fixes; it lets a person judge what a compaction lost.

The texts are sentences with facts, unlike those of the artificial session of `harness.inspection.sample_run`, which is as long as
needed. The session contains an error of the agent, a decision that is revised later, constraints of the user, and numbers that
are read early and needed in the last steps. It is a file in the format of `harness.recordings.session_file`.
"""

import json
from functools import lru_cache
from pathlib import Path

from harness.conversation.events import Entry, MessageAdded
from harness.conversation.transcript import parse_arguments
from harness.inspection.import_export import load_entries

SESSION_PATH = Path(__file__).with_name("sample_session.jsonl")
NEEDS_PATH = Path(__file__).with_name("sample_session_needs.json")
"""Path of each file whose last version the agent can only write with the output of a step, by number of the step."""


@lru_cache(maxsize=1)
def load_story() -> tuple[Entry, ...]:
    """Return the log of the readable sample session."""
    return load_entries(SESSION_PATH)


def find_last_use(number: int) -> int | None:
    """Return the last step that needs the output of step `number`; None if no later step needs it."""
    return _list_last_uses().get(number)


@lru_cache(maxsize=1)
def _list_last_uses() -> dict[int, int]:
    """Return the last step that needs the output of a step, by number of the step."""
    answers = [entry.event for entry in load_story() if isinstance(entry.event, MessageAdded)]
    writes = {
        parse_arguments(call)["path"]: answer.step
        for answer in answers
        for call in answer.message.calls
        if call.name == "write_file"
    }
    needs = {int(number): path for number, path in json.loads(NEEDS_PATH.read_text(encoding="utf-8")).items()}
    return {number: writes[path] for number, path in needs.items() if writes[path] > number}
