"""debug-gym's logs: one JSON object (whatever the file is called) whose `log` has an action and an observation a step.

Pitfalls: the agent itself kept only its last steps (`memory_size`), so recorded usage is that of a sliding window, not of the
whole conversation; prompts repeat everything and only the first is read, for the system prompt; actions of old logs are text.
"""

from collections.abc import Iterator

from harness.messages import Part, Text, ToolCall
from harness.replay.blocks import build_usage, encode_arguments, flatten_text, read_parts
from harness.replay.document import Document
from harness.replay.draft import Draft, make_text_parts
from harness.replay.fields import Fields, encode_json, is_object_with
from harness.replay.recording import Recording

NAME = "debug-gym"


def can_read(document: Document) -> bool:
    """Whether it is an object with a problem and a log."""
    return is_object_with(document.single_value, "problem", "log")


def read(document: Document) -> tuple[Recording, ...]:
    """The one session of a file."""
    whole = Fields(document.single_value, document.file, "")
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats), session_id=whole.read_text("problem"))
    model = whole.read_object("config").read_text("llm_name")
    steps = list(whole.read_objects("log"))
    _read_prompt(steps, draft)
    for step in steps:
        _read_step(step, draft, model)
    memory_size = whole.read_object("config").read_optional_count("memory_size")
    if memory_size is not None and memory_size < len(steps):
        draft.warn("config.memory_size", f"the agent saw its last {memory_size} steps only: recorded usage is of that window")
    return (draft.finish(),)


def _list_pairs(step: Fields) -> list[Fields]:
    return list(step.read_objects("prompt_response_pairs"))


def _read_prompt(steps: list[Fields], draft: Draft) -> None:
    """The system prompt, from the first prompt in the file."""
    first = next((pair for step in steps for pair in _list_pairs(step)), None)
    prompt = first.values.get("prompt") if first is not None else None
    if first is None or not isinstance(prompt, list):
        return
    for message in first.read_objects("prompt"):
        draft.add_message("system", read_parts(message, draft), message.place)
        if message.read_text("role") != "system":
            draft.warn(message.place, f"the system prompt was sent in the role {message.read_text('role')!r}")
        return


def _read_step(step: Fields, draft: Draft, model: str) -> None:
    action = step.values.get("action")
    if action is None and not _list_pairs(step):
        draft.add_message("user", make_text_parts(flatten_text(step, "obs", draft)), step.place)
        return
    calls = list(_read_calls(step))
    pairs = _list_pairs(step)
    for pair in pairs[:-1]:
        _read_answer(pair, [], draft, model)
    if pairs:
        _read_answer(pairs[-1], calls, draft, model)
    else:
        draft.annotate_answer(draft.add_answer(calls, step.place), model)
    if calls:
        draft.add_result(calls[0].call_id, flatten_text(step, "obs", draft), step.place)
    else:
        draft.add_message("user", make_text_parts(flatten_text(step, "obs", draft)), step.place)


def _read_calls(step: Fields) -> Iterator[ToolCall]:
    made_up = f"call-{step.read_count('step_id')}"
    action = step.values.get("action")
    if isinstance(action, str):
        yield ToolCall(call_id=made_up, name="action", arguments_json=encode_json({"text": step.read_text("action")}))
    elif action is not None:
        call = step.read_object("action")
        written = encode_arguments(call.values.get("arguments"))
        yield ToolCall(call_id=call.read_text("id") or made_up, name=call.read_text("name"), arguments_json=written)


def _read_answer(pair: Fields, calls: list[ToolCall], draft: Draft, model: str) -> None:
    text = flatten_text(pair, "response", draft)
    parts: list[Part] = [Text(text=text)] if text and (not calls or calls[0].name != "action") else []
    tokens = pair.read_object("token_usage")
    usage = build_usage(tokens.read_count("prompt"), tokens.read_count("response"))
    draft.annotate_answer(draft.add_answer([*parts, *calls], pair.place), model, usage)
