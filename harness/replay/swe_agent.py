"""SWE-agent's `.traj`: `history` is the full list of messages.

Pitfalls: up to version 0.x a command is an `action` field and its output a user message, which are read as a call and its
result (ids are made up), and a demonstration may stand in front (`is_demo`); with function calling ids are used again;
`history` is what happened, not what was sent, because history processors cut it for each query; usage is a total only, and
`info.submission` can be a huge diff, which is not read.
"""

from harness.messages import Part, Reasoning, Role, ToolCall
from harness.replay.blocks import encode_arguments, flatten_text, read_parts
from harness.replay.document import Document
from harness.replay.draft import Draft, make_text_parts
from harness.replay.fields import Fields, encode_json, is_object_with
from harness.replay.recording import Recording

NAME = "swe-agent"
_TOOL = "bash"


def can_read(document: Document) -> bool:
    """Whether it is an object with a history of messages (demonstrations may have nothing else)."""
    if not is_object_with(document.single_value, "history") or not isinstance(document.single_value["history"], list):
        return False
    return any(is_object_with(item, "role", "content") for item in document.single_value["history"])


def read(document: Document) -> tuple[Recording, ...]:
    """The one trajectory of a file."""
    whole = Fields(document.single_value, document.file, "")
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats), session_id=whole.read_text("instance_id"))
    waiting = ""
    for index, message in enumerate(whole.read_objects("history")):
        waiting = _read_message(message, draft, index, waiting)
    stats = whole.read_object("info").read_object("model_stats")
    draft.cost_usd = stats.read_amount("instance_cost") if stats.read_count("tokens_sent") else None
    draft.warn("history", "what was sent may have been less: history processors cut it at each query")
    return (draft.finish(),)


def _read_message(message: Fields, draft: Draft, index: int, waiting: str) -> str:
    """Tell one message; the id of a call whose output is the next user message, or nothing."""
    example = message.read_flag("is_demo")
    match message.read_text("role"):
        case "assistant":
            return _read_answer(message, draft, index, example=example)
        case "tool":
            _read_results(message, draft)
        case "user" if waiting and not example:
            draft.add_result(waiting, flatten_text(message, "content", draft), message.place)
        case "system" | "user" as role:
            message_role: Role = "system" if role == "system" and not draft.turns else "user"
            draft.add_message(message_role, read_parts(message, draft), message.place, example=example)
        case role:
            raise message.build_error("role", "system, user, assistant or tool", role)
    return ""


def _read_answer(message: Fields, draft: Draft, index: int, *, example: bool) -> str:
    calls = [_read_call(call) for call in message.read_objects("tool_calls")]
    action, pending_id = message.read_text("action"), ""
    parts: list[Part] = [Reasoning(text=thought)] if (thought := message.read_text("reasoning_content")) else []
    if calls or not action.strip() or example:
        parts += [*read_parts(message, draft), *calls]
    else:
        pending_id = f"call-{index}"
        command = ToolCall(call_id=pending_id, name=_TOOL, arguments_json=encode_json({"command": action}))
        parts += [*make_text_parts(message.read_text("thought").strip()), command]
    draft.add_answer(parts, message.place, example=example)
    return pending_id


def _read_call(call: Fields) -> ToolCall:
    function = call.read_object("function")
    return ToolCall(
        call_id=call.read_text("id"),
        name=function.read_text("name"),
        arguments_json=encode_arguments(function.values.get("arguments")),
    )


def _read_results(message: Fields, draft: Draft) -> None:
    ids = message.values.get("tool_call_ids")
    call_ids = [found for found in ids if isinstance(found, str)] if isinstance(ids, list) else []
    text = flatten_text(message, "content", draft)
    for call_id in call_ids or [message.read_text("tool_call_id")]:
        draft.add_result(call_id, text, message.place)
