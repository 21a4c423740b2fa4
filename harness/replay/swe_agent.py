"""SWE-agent's `.traj`: `history` is the full list of messages.

Pitfalls: up to version 0.x a command is an `action` field and its output a user message, which are read as a call and its
result (ids are made up), and a demonstration may stand in front (`is_demo`); with function calling ids are used again;
`history` is what happened, not what was sent, because history processors cut it for each query; usage is a total only, and
`info.submission` can be a huge diff, which is not read.
"""

from harness.messages import Part, Reasoning, Role, ToolCall
from harness.replay.blocks import arguments_text, content_parts, flat
from harness.replay.document import Document
from harness.replay.draft import Draft, texts
from harness.replay.fields import Fields, compact_json, is_object_with
from harness.replay.recording import Recording

NAME = "swe-agent"
_TOOL = "bash"


def recognises(document: Document) -> bool:
    """Whether it is an object with a history of messages (demonstrations may have nothing else)."""
    if not is_object_with(document.whole, "history") or not isinstance(document.whole["history"], list):
        return False
    return any(is_object_with(item, "role", "content") for item in document.whole["history"])


def read(document: Document) -> tuple[Recording, ...]:
    """The one trajectory of a file."""
    whole = Fields(document.whole, document.file, "")
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats), session_id=whole.text("instance_id"))
    waiting = ""
    for index, message in enumerate(whole.objects("history")):
        waiting = _message(message, draft, index, waiting)
    stats = whole.nested("info").nested("model_stats")
    draft.cost_usd = stats.amount("instance_cost") if stats.count("tokens_sent") else None
    draft.warn("history", "what was sent may have been less: history processors cut it at each query")
    return (draft.finish(),)


def _message(message: Fields, draft: Draft, index: int, waiting: str) -> str:
    """Tell one message; the id of a call whose output is the next user message, or nothing."""
    example = message.flag("is_demo")
    match message.text("role"):
        case "assistant":
            return _assistant(message, draft, index, example=example)
        case "tool":
            _results(message, draft)
        case "user" if waiting and not example:
            draft.result(waiting, flat(message, "content", draft), message.place)
        case "system" | "user" as role:
            told: Role = "system" if role == "system" and not draft.turns else "user"
            draft.say(told, content_parts(message, draft), message.place, example=example)
        case role:
            raise message.wrong("role", "system, user, assistant or tool", role)
    return ""


def _assistant(message: Fields, draft: Draft, index: int, *, example: bool) -> str:
    calls = [_call(call) for call in message.objects("tool_calls")]
    action, told = message.text("action"), ""
    parts: list[Part] = [Reasoning(text=thought)] if (thought := message.text("reasoning_content")) else []
    if calls or not action.strip() or example:
        parts += [*content_parts(message, draft), *calls]
    else:
        told = f"call-{index}"
        command = ToolCall(call_id=told, name=_TOOL, arguments_json=compact_json({"command": action}))
        parts += [*texts(message.text("thought").strip()), command]
    draft.answer(parts, message.place, example=example)
    return told


def _call(call: Fields) -> ToolCall:
    function = call.nested("function")
    return ToolCall(
        call_id=call.text("id"), name=function.text("name"), arguments_json=arguments_text(function.values.get("arguments"))
    )


def _results(message: Fields, draft: Draft) -> None:
    ids = message.values.get("tool_call_ids")
    told = [found for found in ids if isinstance(found, str)] if isinstance(ids, list) else []
    text = flat(message, "content", draft)
    for call_id in told or [message.text("tool_call_id")]:
        draft.result(call_id, text, message.place)
