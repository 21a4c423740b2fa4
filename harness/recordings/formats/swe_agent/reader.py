"""Importer of sessions recorded by SWE-agent (`.traj`), whose field `history` is the full list of messages.

Properties of the format:

- Up to version 0.x, a command is a field `action` and its output a user message; both are read as a call and its result with
  made-up ids. A demonstration may come first (`is_demo`).
- With function calling, several calls may have the same id.
- `history` differs from the requests, because history processors shorten it for each query.
- Usage is given only as a total.
- `info.submission` can be a huge diff and is not read.
"""

from collections.abc import Iterator

from harness.recordings.blocks import (
    flatten_text,
    make_call,
    make_reasoning_parts,
    make_text_parts,
    read_openai_calls,
    read_parts,
)
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a trajectory of SWE-agent, whose field `history` is a list of messages."""
    match document.single_value:
        case {"history": [*items]}:
            return any(is_object_with(item, "role", "content") for item in items)
    return False


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a trajectory file of SWE-agent as a `Draft`."""
    whole = document.read_root()
    draft = Draft(session_id=whole.read_text("instance_id"))
    waiting = ""
    for index, message in enumerate(whole.read_objects("history")):
        waiting = _read_message(message, draft, index, waiting)
    stats = whole.read_object("info").read_object("model_stats")
    draft.cost_usd = stats.read_amount("instance_cost") if stats.read_count("tokens_sent") else None
    draft.warn("history", "requests may have been shorter: history processors shorten the history for each query")
    yield draft


def _read_message(message: Fields, draft: Draft, index: int, waiting: str) -> str:
    """Add one message of a SWE-agent trajectory to the recording that is being read.

    Returns:
        Id of the tool call whose output is the next user message; empty if there is no such call.
    """
    example = message.read_flag("is_demo")
    match message.read_text("role"):
        case "assistant":
            return _read_answer(message, draft, index, example=example)
        case "tool":
            text = flatten_text(message, "content", draft)
            for call_id in message.read_texts("tool_call_ids") or [message.read_text("tool_call_id")]:
                draft.add_result(call_id, text, message.place)
        case "user" if waiting and not example:
            draft.add_result(waiting, flatten_text(message, "content", draft), message.place)
        case "system" | "user" as role:
            draft.add_message(role, read_parts(message, draft), message.place, example=example)
        case role:
            draft.count_dropped(f"message of role {role!r}, whose text is not read")
    return ""


def _read_answer(message: Fields, draft: Draft, index: int, *, example: bool) -> str:
    calls = list(read_openai_calls(message))
    action, pending_id = message.read_text("action"), ""
    parts = list(make_reasoning_parts(message.read_text("reasoning_content")))
    if not parts:
        parts = list(read_parts(message, draft, "thinking_blocks"))
    if calls or not action.strip() or example:
        parts += [*read_parts(message, draft), *calls]
    else:
        pending_id = f"call-{index}"
        parts += make_text_parts(message.read_text("thought").strip())
        parts.append(make_call(pending_id, "bash", {"command": action}))
    draft.add_answer(parts, message.place, example=example)
    return pending_id
