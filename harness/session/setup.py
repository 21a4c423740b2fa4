"""The setup of a session as its log stores it: everything that is needed to continue the session wherever it is reopened.

The widget, the command line and forks all read it by `decode_setup`. Three settings belong to whoever reopens a session and are
not stored: the journal, the folder for the files, and the permission to run commands without a sandbox.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

from harness import codec
from harness.errors import UsageError
from harness.events import Entry, SessionForked, SessionResumed, SessionStarted
from harness.policies import policy_from_plain
from harness.session.spec import SessionSpec

UNSTORED_FIELDS = frozenset({"request", "journal", "keep", "unsafe_local"})
"""Fields of `SessionSpec` that are not part of the setup; the request is in the log itself."""
STORED_FIELDS: Mapping[str, Any] = {
    name: value_type for name, value_type in get_type_hints(SessionSpec).items() if name not in UNSTORED_FIELDS | {"policy"}
}
"""Other fields by type, except the policy, whose type is the policy's own."""
NEW_FIELDS: Mapping[str, object] = {"take": 0, "command_timeout_seconds": 60.0}
"""Fields added since version 0.1, with their defaults: left out at the default, so that equal setups have equal texts."""


TASK_FIELDS_OF_0_1: Mapping[str, Mapping[str, str]] = {
    "": {"later": "later_messages"},
    "checks": {"rests_on": "required_facts"},
    "facts": {"former": "former_patterns", "word": "required_word"},
    "script": {"farewell": "final_text"},
    "script.steps": {"says": "text", "needs": "required_facts"},
    "script.steps.repairs": {"error": "error_pattern", "says": "text", "needs": "required_facts"},
    "script.steps.done": {
        "listed": "listed_paths",
        "named": "summary_pattern",
        "about": "required_text",
        "counted": "count_pattern",
        "count": "minimum_count",
    },
}
"""Fields of a task that version 0.1 stored under another name, by their place in it."""


def encode_setup(spec: SessionSpec) -> str:
    """Return the setup of a session as canonical JSON."""
    values = {name: getattr(spec, name) for name in STORED_FIELDS}
    plain = {
        name: codec.to_plain(value, STORED_FIELDS[name])
        for name, value in values.items()
        if name not in NEW_FIELDS or value != NEW_FIELDS[name]
    }
    return codec.to_canonical_json({**plain, "policy": codec.to_plain(spec.policy)}, dict)


def find_setup(entries: Iterable[Entry]) -> str:
    """Return the newest setup in a log; empty = none, as in a trial or a session of another program."""
    start_events = (entry.event for entry in entries if isinstance(entry.event, SessionStarted | SessionForked | SessionResumed))
    return next((event.setup_json for event in reversed(list(start_events)) if event.setup_json), "")


def decode_setup(text: str) -> dict[str, Any]:
    """Return the fields of `SessionSpec` that a setup holds.

    Raises:
        UsageError: the text is no setup, or names something unknown; says where and what.
    """
    try:
        plain = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the setup of the session is not JSON: {error}") from None
    if not isinstance(plain, dict):
        raise UsageError(f"the setup of the session is no object of JSON (got {text!r:.80})")
    if isinstance(plain.get("task"), dict):
        plain["task"] = _rename_fields(plain["task"])
    stored_values = {
        name: codec.from_plain(of, plain[name], f"setup.{name}") for name, of in STORED_FIELDS.items() if name in plain
    }
    return {**stored_values, "policy": policy_from_plain(plain.get("policy", {}), "setup.policy")}


def _rename_fields(plain: Any, place: str = "") -> Any:
    """Return a stored task with the names that its fields have now."""
    if isinstance(plain, list):
        return [_rename_fields(one, place) for one in plain]
    if not isinstance(plain, dict):
        return plain
    names = TASK_FIELDS_OF_0_1.get(place, {})
    return {names.get(name, name): _rename_fields(value, f"{place}.{name}".strip(".")) for name, value in plain.items()}
