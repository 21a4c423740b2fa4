"""Importer of sessions recorded by mini-swe-agent (`.traj.json`) as messages in OpenAI's form, with extra data in `extra`.

Properties of the format:

- `extra.response` repeats the whole answer, so only its usage is read.
- The last message has the role `exit`.
- Version 2 has real tool calls. Version 1 puts one command into a block of the text and its output into a user message; both are
  read as a call and its result with made-up ids.
- The oldest files are bare lists of messages.
"""

import re
from collections.abc import Iterator
from typing import Any

from harness.recordings.blocks import (
    flatten_text,
    make_call,
    make_reasoning_parts,
    make_text_parts,
    read_openai_calls,
    read_openai_usage,
    read_parts,
)
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft

FOLDERS = ("~/.config/mini-swe-agent",)
"""Folder in which the agent stores its newest session."""
_COMMAND = re.compile(r"```(?:bash|mswea_bash_command)\s*\n(.*?)\n?```", re.DOTALL)


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a trajectory of mini-swe-agent, an object or a list of messages."""
    whole = document.single_value
    if isinstance(whole, list) and whole:
        begins_with_system = is_object_with(whole[0], "role", "content") and whole[0]["role"] == "system"
        return begins_with_system and any(map(_is_command, whole))
    if not is_object_with(whole, "messages") or "history" in whole:
        return False
    info = whole.get("info")
    return str(whole.get("trajectory_format", "")).startswith("mini-swe-agent") or (
        isinstance(info, dict) and ("mini_version" in info or "model_stats" in info)
    )


def _is_command(message: Any) -> bool:
    """Return whether a message is an answer of version 1, whose text has one command in a block."""
    match message:
        case {"role": "assistant", "content": str(text)}:
            return "tool_calls" not in message and len(_COMMAND.findall(text)) == 1
    return False


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a trajectory file of mini-swe-agent as a `Draft`."""
    whole = document.read_root("messages")
    info = whole.read_object("info")
    draft = Draft(session_id=whole.read_text("instance_id"))
    model = info.read_object("config").read_object("model").read_text("model_name")
    open_call_id = ""
    for index, message in enumerate(whole.read_objects("messages")):
        open_call_id = _read_message(message, draft, model, open_call_id or f"call-{index}", expects_output=bool(open_call_id))
    draft.cost_usd = info.read_object("model_stats").read_amount("instance_cost")
    yield draft


def _read_message(message: Fields, draft: Draft, model: str, call_id: str, *, expects_output: bool) -> str:
    """Add one message of a mini-swe-agent trajectory to the recording that is being read.

    Returns:
        Id of the call for a command in the text of the message, whose output is the next user message; empty if there is none.
    """
    draft.now_ms = message.read_object("extra").read_time_ms("timestamp")
    match message.read_text("role"):
        case "assistant":
            return _read_answer(message, draft, model, call_id)
        case "tool" | "user" as role if role == "tool" or expects_output:
            result_id = message.read_text("tool_call_id") if role == "tool" else call_id
            draft.add_result(result_id, flatten_text(message, "content", draft), message.place, status=_read_status(message))
        case "system" | "user" as role:
            draft.add_message(role, read_parts(message, draft), message.place)
        case "exit":
            draft.count_dropped("message of role 'exit' (how the run ended)")
        case role:
            draft.count_dropped(f"message of role {role!r}, whose text is not read")
    return ""


def _read_answer(message: Fields, draft: Draft, model: str, call_id: str) -> str:
    extra = message.read_object("extra")
    response = extra.read_object("response")
    calls = list(read_openai_calls(message))
    is_text = not isinstance(message.values.get("content"), list)
    commands = _COMMAND.findall(message.read_text("content")) if is_text and not calls else []
    content = read_parts(message, draft)
    if len(commands) == 1:
        calls = [make_call(call_id, "bash", {"command": commands[0]})]
        content = iter(make_text_parts(_COMMAND.sub("", message.read_text("content")).strip()))
    draft.add_answer(
        [*make_reasoning_parts(message.read_text("reasoning_content")), *content, *calls],
        message.place,
        model=model or response.read_text("model"),
        usage=read_openai_usage(response.read_object("usage")),
        cost_usd=extra.read_amount("cost"),
    )
    return call_id if len(commands) == 1 else ""


def _read_status(message: Fields) -> str:
    code = message.read_object("extra").values.get("returncode")
    return "error" if isinstance(code, int) and code != 0 else "completed"
