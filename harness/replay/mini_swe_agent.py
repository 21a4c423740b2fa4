"""mini-swe-agent's `.traj.json`: OpenAI messages, each with an `extra` of what the agent keeps for itself.

Pitfalls: `extra.response` repeats the whole answer and is read for its usage only; the last message has the role `exit`;
version 2 has real tool calls, version 1 puts one command into a block of the text and its output into a user message, which
are read as a call and its result (ids are made up); its first files are bare lists of messages.
"""

import re

from harness.messages import Reasoning, ToolCall
from harness.replay.blocks import arguments_text, content_parts, flat, openai_usage
from harness.replay.document import Document
from harness.replay.draft import Draft
from harness.replay.fields import Fields, compact_json, is_object_with
from harness.replay.recording import Recording

NAME = "mini-swe-agent"
_COMMAND = re.compile(r"```(?:bash|mswea_bash_command)\s*\n(.*?)\n?```", re.DOTALL)
_TOOL = "bash"


def recognises(document: Document) -> bool:
    """Whether it is an object of messages with this agent's mark or its `info`, or a list that begins with a system message."""
    whole = document.whole
    if isinstance(whole, list) and whole:
        return is_object_with(whole[0], "role", "content") and whole[0]["role"] == "system"
    if not is_object_with(whole, "messages") or "history" in whole:
        return False
    info = whole.get("info")
    return str(whole.get("trajectory_format", "")).startswith(NAME) or (
        isinstance(info, dict) and ("mini_version" in info or "model_stats" in info)
    )


def read(document: Document) -> tuple[Recording, ...]:
    """The one trajectory of a file."""
    values = document.whole if isinstance(document.whole, dict) else {"messages": document.whole}
    whole = Fields(values, document.file, "")
    info = whole.nested("info")
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats), session_id=whole.text("instance_id"))
    model = info.nested("config").nested("model").text("model_name")
    waiting = ""
    for index, message in enumerate(whole.objects("messages")):
        waiting = _message(message, draft, model, waiting or f"call-{index}", expects=bool(waiting))
    draft.cost_usd = info.nested("model_stats").amount("instance_cost")
    return (draft.finish(),)


def _message(message: Fields, draft: Draft, model: str, call_id: str, *, expects: bool) -> str:
    """Tell one message; the id of a call in text whose output is the next user message, or nothing."""
    match message.text("role"):
        case "assistant":
            return _assistant(message, draft, model, call_id)
        case "tool":
            draft.result(message.text("tool_call_id"), flat(message, "content", draft), message.place, status=_status(message))
        case "user" if expects:
            draft.result(call_id, flat(message, "content", draft), message.place, status=_status(message))
        case "system" | "user" as role:
            draft.say("system" if role == "system" and not draft.turns else "user", content_parts(message, draft), message.place)
        case "exit":
            draft.drop("message of role 'exit' (how the run ended)")
        case role:
            raise message.wrong("role", "system, user, assistant, tool or exit", role)
    return ""


def _assistant(message: Fields, draft: Draft, model: str, call_id: str) -> str:
    extra = message.nested("extra")
    response = extra.nested("response")
    parts = [Reasoning(text=thought)] if (thought := message.text("reasoning_content")) else []
    calls = [_call(call) for call in message.objects("tool_calls")]
    commands = (
        _COMMAND.findall(message.text("content")) if not calls and not isinstance(message.values.get("content"), list) else []
    )
    told: list[ToolCall] = calls
    if len(commands) == 1:
        told = [ToolCall(call_id=call_id, name=_TOOL, arguments_json=compact_json({"command": commands[0]}))]
        rest = _COMMAND.sub("", message.text("content")).strip()
        turn = draft.answer(
            [*parts, *content_parts(Fields({"content": rest}, message.file, "", message.path), draft), *told], message.place
        )
    else:
        turn = draft.answer([*parts, *content_parts(message, draft), *told], message.place)
    usage = openai_usage(response.nested("usage")) if response.has("usage") else None
    draft.wrote(turn, model or response.text("model"), usage, extra.amount("cost"))
    return call_id if len(commands) == 1 else ""


def _call(call: Fields) -> ToolCall:
    function = call.nested("function")
    return ToolCall(
        call_id=call.text("id"), name=function.text("name"), arguments_json=arguments_text(function.values.get("arguments"))
    )


def _status(message: Fields) -> str:
    code = message.nested("extra").values.get("returncode")
    return "error" if isinstance(code, int) and code != 0 else "completed"
