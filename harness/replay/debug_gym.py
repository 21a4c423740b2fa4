"""debug-gym's logs: one JSON object (whatever the file is called) whose `log` has an action and an observation a step.

Pitfalls: the agent itself kept only its last steps (`memory_size`), so recorded usage is that of a sliding window, not of the
whole conversation; prompts repeat everything and only the first is read, for the system prompt; actions of old logs are text.
"""

from collections.abc import Iterator

from harness.messages import Part, Text, ToolCall
from harness.replay.blocks import arguments_text, content_parts, flat, used
from harness.replay.document import Document
from harness.replay.draft import Draft, texts
from harness.replay.fields import Fields, compact_json, is_object_with
from harness.replay.recording import Recording

NAME = "debug-gym"


def recognises(document: Document) -> bool:
    """Whether it is an object with a problem and a log."""
    return is_object_with(document.whole, "problem", "log")


def read(document: Document) -> tuple[Recording, ...]:
    """The one session of a file."""
    whole = Fields(document.whole, document.file, "")
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats), session_id=whole.text("problem"))
    model = whole.nested("config").text("llm_name")
    steps = list(whole.objects("log"))
    _tell_prompt(steps, draft)
    for step in steps:
        _step(step, draft, model)
    kept = whole.nested("config").maybe_count("memory_size")
    if kept is not None and kept < len(steps):
        draft.warn("config.memory_size", f"the agent saw its last {kept} steps only: recorded usage is of that window")
    return (draft.finish(),)


def _pairs(step: Fields) -> list[Fields]:
    return list(step.objects("prompt_response_pairs"))


def _tell_prompt(steps: list[Fields], draft: Draft) -> None:
    """The system prompt, from the first prompt in the file."""
    first = next((pair for step in steps for pair in _pairs(step)), None)
    prompt = first.values.get("prompt") if first is not None else None
    if first is None or not isinstance(prompt, list):
        return
    for message in first.objects("prompt"):
        draft.say("system", content_parts(message, draft), message.place)
        if message.text("role") != "system":
            draft.warn(message.place, f"the system prompt was sent in the role {message.text('role')!r}")
        return


def _step(step: Fields, draft: Draft, model: str) -> None:
    action = step.values.get("action")
    if action is None and not _pairs(step):
        draft.say("user", texts(flat(step, "obs", draft)), step.place)
        return
    calls = list(_calls(step))
    pairs = _pairs(step)
    for pair in pairs[:-1]:
        _answer(pair, [], draft, model)
    if pairs:
        _answer(pairs[-1], calls, draft, model)
    else:
        draft.wrote(draft.answer(calls, step.place), model)
    if calls:
        draft.result(calls[0].call_id, flat(step, "obs", draft), step.place)
    else:
        draft.say("user", texts(flat(step, "obs", draft)), step.place)


def _calls(step: Fields) -> Iterator[ToolCall]:
    made_up = f"call-{step.count('step_id')}"
    action = step.values.get("action")
    if isinstance(action, str):
        yield ToolCall(call_id=made_up, name="action", arguments_json=compact_json({"text": step.text("action")}))
    elif action is not None:
        call = step.nested("action")
        written = arguments_text(call.values.get("arguments"))
        yield ToolCall(call_id=call.text("id") or made_up, name=call.text("name"), arguments_json=written)


def _answer(pair: Fields, calls: list[ToolCall], draft: Draft, model: str) -> None:
    said = flat(pair, "response", draft)
    parts: list[Part] = [Text(text=said)] if said and (not calls or calls[0].name != "action") else []
    tokens = pair.nested("token_usage")
    usage = used(tokens.count("prompt"), tokens.count("response"))
    draft.wrote(draft.answer([*parts, *calls], pair.place), model, usage)
