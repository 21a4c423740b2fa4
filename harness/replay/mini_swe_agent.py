"""mini-swe-agent's `.traj.json`: OpenAI messages, each with an `extra` of what the agent keeps for itself.

Pitfalls: `extra.response` repeats the whole answer and is read for its usage only; the last message has the role `exit`;
version 2 has real tool calls, version 1 puts one command into a block of the text and its output into a user message, which
are read as a call and its result (ids are made up); its first files are bare lists of messages.
"""

import re

from harness.messages import Reasoning, ToolCall
from harness.replay.blocks import encode_arguments, flatten_text, read_openai_usage, read_parts
from harness.replay.document import Document
from harness.replay.draft import Draft
from harness.replay.fields import Fields, encode_json, is_object_with
from harness.replay.recording import Recording

NAME = "mini-swe-agent"
_COMMAND = re.compile(r"```(?:bash|mswea_bash_command)\s*\n(.*?)\n?```", re.DOTALL)
_TOOL = "bash"


def can_read(document: Document) -> bool:
    """Whether it is an object of messages with this agent's mark or its `info`, or a list that begins with a system message."""
    whole = document.single_value
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
    values = document.single_value if isinstance(document.single_value, dict) else {"messages": document.single_value}
    whole = Fields(values, document.file, "")
    info = whole.read_object("info")
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats), session_id=whole.read_text("instance_id"))
    model = info.read_object("config").read_object("model").read_text("model_name")
    waiting = ""
    for index, message in enumerate(whole.read_objects("messages")):
        waiting = _read_message(message, draft, model, waiting or f"call-{index}", expects_output=bool(waiting))
    draft.cost_usd = info.read_object("model_stats").read_amount("instance_cost")
    return (draft.finish(),)


def _read_message(message: Fields, draft: Draft, model: str, call_id: str, *, expects_output: bool) -> str:
    """Tell one message; the id of a call in text whose output is the next user message, or nothing."""
    match message.read_text("role"):
        case "assistant":
            return _read_answer(message, draft, model, call_id)
        case "tool":
            draft.add_result(
                message.read_text("tool_call_id"),
                flatten_text(message, "content", draft),
                message.place,
                status=_read_status(message),
            )
        case "user" if expects_output:
            draft.add_result(call_id, flatten_text(message, "content", draft), message.place, status=_read_status(message))
        case "system" | "user" as role:
            draft.add_message(
                "system" if role == "system" and not draft.turns else "user", read_parts(message, draft), message.place
            )
        case "exit":
            draft.count_dropped("message of role 'exit' (how the run ended)")
        case role:
            raise message.build_error("role", "system, user, assistant, tool or exit", role)
    return ""


def _read_answer(message: Fields, draft: Draft, model: str, call_id: str) -> str:
    extra = message.read_object("extra")
    response = extra.read_object("response")
    parts = [Reasoning(text=thought)] if (thought := message.read_text("reasoning_content")) else []
    calls = [_read_call(call) for call in message.read_objects("tool_calls")]
    commands = (
        _COMMAND.findall(message.read_text("content"))
        if not calls and not isinstance(message.values.get("content"), list)
        else []
    )
    tool_calls: list[ToolCall] = calls
    if len(commands) == 1:
        tool_calls = [ToolCall(call_id=call_id, name=_TOOL, arguments_json=encode_json({"command": commands[0]}))]
        rest = _COMMAND.sub("", message.read_text("content")).strip()
        turn = draft.add_answer(
            [*parts, *read_parts(Fields({"content": rest}, message.file, "", message.path), draft), *tool_calls], message.place
        )
    else:
        turn = draft.add_answer([*parts, *read_parts(message, draft), *tool_calls], message.place)
    usage = read_openai_usage(response.read_object("usage")) if response.has("usage") else None
    draft.annotate_answer(turn, model or response.read_text("model"), usage, extra.read_amount("cost"))
    return call_id if len(commands) == 1 else ""


def _read_call(call: Fields) -> ToolCall:
    function = call.read_object("function")
    return ToolCall(
        call_id=call.read_text("id"),
        name=function.read_text("name"),
        arguments_json=encode_arguments(function.values.get("arguments")),
    )


def _read_status(message: Fields) -> str:
    code = message.read_object("extra").values.get("returncode")
    return "error" if isinstance(code, int) and code != 0 else "completed"
