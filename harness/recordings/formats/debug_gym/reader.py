"""Importer of sessions recorded by debug-gym, a JSON object whose `log` has an action and an observation for each step.

Properties of the format:

- The agent retained only its last steps (`memory_size`), so the recorded usage is that of a sliding window.
- Each prompt repeats the conversation, so only the first prompt is read, for the system prompt.
- Actions in old logs are plain text.
"""

from collections.abc import Iterator

from harness.conversation.messages import ToolCall
from harness.recordings.blocks import flatten_text, make_call, make_text_parts, read_parts, read_usage
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a log of debug-gym: a JSON object with the fields `problem` and `log`."""
    return is_object_with(document.single_value, "problem", "log")


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a log of debug-gym as a `Draft`."""
    whole = document.read_root()
    draft = Draft(session_id=whole.read_text("problem"))
    model = whole.read_object("config").read_text("llm_name")
    steps = list(whole.read_objects("log"))
    _read_prompt(steps, draft)
    for step in steps:
        if any(map(step.has, ("action", "obs", "prompt_response_pairs"))):
            _read_step(step, draft, model)
        else:
            draft.count_unread(step, "step without action and observation")
    memory_size = whole.read_object("config").read_optional_count("memory_size")
    if memory_size is not None and memory_size < len(steps):
        draft.warn(
            "config.memory_size", f"the agent saw only its last {memory_size} steps: the recorded usage is that of this window"
        )
    yield draft


def _list_pairs(step: Fields) -> list[Fields]:
    return list(step.read_objects("prompt_response_pairs"))


def _read_prompt(steps: list[Fields], draft: Draft) -> None:
    # Each prompt repeats the conversation, so the first prompt has the system message.
    first = next((pair for step in steps for pair in _list_pairs(step)), None)
    if first is None or not isinstance(first.values.get("prompt"), list):
        return
    for message in first.read_objects("prompt"):
        draft.add_message("system", read_parts(message, draft), message.place)
        if message.read_text("role") != "system":
            draft.warn(message.place, f"the system prompt was sent in the role {message.read_text('role')!r}")
        return


def _read_step(step: Fields, draft: Draft, model: str) -> None:
    pairs, calls = _list_pairs(step), list(_read_calls(step))
    for pair in pairs[:-1]:
        _read_answer(pair, [], draft, model)
    if pairs:
        _read_answer(pairs[-1], calls, draft, model)
    elif step.has("action"):
        draft.add_answer(calls, step.place, model=model)
    observation = flatten_text(step, "obs", draft)
    if calls:
        draft.add_result(calls[0].call_id, observation, step.place)
    else:
        draft.add_message("user", make_text_parts(observation), step.place)


def _read_calls(step: Fields) -> Iterator[ToolCall]:
    made_up = f"call-{step.read_count('step_id')}"
    action = step.values.get("action")
    if isinstance(action, str):
        yield make_call(made_up, "action", {"text": step.read_text("action")})
    elif action is not None:
        call = step.read_object("action")
        yield make_call(call.read_text("id") or made_up, call.read_text("name"), call.values.get("arguments"))


def _read_answer(pair: Fields, calls: list[ToolCall], draft: Draft, model: str) -> None:
    text = flatten_text(pair, "response", draft)
    draft.add_answer(
        [*make_text_parts("" if calls and calls[0].name == "action" else text), *calls],
        pair.place,
        model=model,
        usage=read_usage(pair.read_object("token_usage"), "prompt", "response"),
    )
