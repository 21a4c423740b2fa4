"""Importer of the samples in a log of Inspect, either a zip archive (`.eval`) or one JSON object.

Properties of the format:

- The messages of a sample are those of the whole session. Its events hold the usage of each model call, whose answer has the id
  of a message, in early versions only its text. Answers to calls of other roles, such as graders, are no messages.
- Long texts are attachments, which messages refer to by their digest (`attachment://`).
- An event `compaction` says how large the context was. The input of the next model call is the context after it. The summary is
  also a message, marked in its metadata.
- Messages in the input of calls are references into a pool (`input_refs`), whose place differs between versions.

Source: UKGovernmentBEIS/inspect_ai at 499e6152 (`src/inspect_ai/log/_log.py`, `event/_compaction.py`, `event/_model.py`,
`model/_compaction/_compaction.py`, and logs in `tests/log/test_eval_log`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.conversation.messages import Message, Part, Text, ToolCall, ToolResult
from harness.conversation.tokens import Usage
from harness.recordings.archive import LOG_MEMBERS
from harness.recordings.blocks import make_call, make_reasoning_parts, make_text_parts, read_usage
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import LeftOutCall, NativeCompaction

_ATTACHMENT = "attachment://"
_USAGE_NAMES = (
    "input_tokens",
    "output_tokens",
    "input_tokens_cache_read",
    "input_tokens_cache_write",
    "reasoning_tokens",
)


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a log of Inspect: an archive, or an object with `eval` and `samples`."""
    whole = document.single_value
    if not isinstance(whole, dict):
        return False
    if any(name in whole for name in LOG_MEMBERS):
        return True
    return is_object_with(whole, "version", "eval", "samples") and is_object_with(whole["eval"], "task", "model")


def read(document: Document) -> Iterator[Draft]:
    """Yield each sample of a log of Inspect that has messages as an unfinished recording."""
    whole = document.read_root()
    about = next((whole.read_object(name) for name in LOG_MEMBERS if whole.has(name)), whole)
    if whole.has("samples"):
        samples = list(whole.read_objects("samples"))
    else:
        samples = [whole.read_object(name) for name in whole.values if name.startswith("samples/")]
    drafts = [_read_sample(sample, about.read_object("eval")) for sample in samples]
    with_messages = [draft for draft in drafts if draft.turns]
    for _ in range(len(drafts) - len(with_messages) if with_messages else 0):
        with_messages[0].count_dropped("sample without a message")
    yield from with_messages or drafts[:1] or [Draft()]


def _read_sample(sample: Fields, evaluation: Fields) -> Draft:
    texts = sample.read_object("attachments").values
    plain = {name: _resolve(value, texts) for name, value in sample.values.items() if name != "attachments"}
    sample = Fields(plain, sample.file, sample.line, sample.path)
    name = ".".join(str(sample.values.get(key, "")) for key in ("id", "epoch"))
    run = evaluation.read_text("eval_id") or evaluation.read_text("run_id")
    draft = Draft(session_id=sample.read_text("uuid") or ".".join(filter(None, (run, name))))
    calls, compactions = _read_events(sample)
    for message in sample.read_objects("messages"):
        message_id = message.read_text("id") or _find_unnamed_call(message, calls)
        for event in compactions.pop(message_id, ()):
            draft.add_compaction(event)
        call = calls.pop(message_id, None)
        draft.now_ms = None if call is None else _read_time(call)
        _read_message(message, draft, call)
    for events in compactions.values():
        for event in events:
            draft.add_compaction(event)
    draft.add_model(evaluation.read_text("model"))
    for call in calls.values():
        _leave_out(call, draft)
    if sample.has("error"):
        draft.warn("", "the sample ended with an error")
    return draft


def _find_unnamed_call(message: Fields, calls: Mapping[str, Fields]) -> str:
    """Return the key of the first model call without ids whose answer has the text of a message; empty if there is none."""
    if message.read_text("role") != "assistant":
        return ""
    content = message.values.get("content")
    for key, call in calls.items():
        choices = list(call.read_object("output").read_objects("choices"))
        answer = choices[0].read_object("message") if choices else None
        if answer is not None and not answer.has("id") and answer.values.get("content") == content:
            return key
    return ""


def _resolve(value: Any, texts: Mapping[str, Any]) -> Any:
    """Return a JSON value with references to attachments replaced by their texts."""
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return texts.get(value.removeprefix(_ATTACHMENT), value)
    if isinstance(value, dict):
        return {name: _resolve(inner, texts) for name, inner in value.items()}
    return [_resolve(inner, texts) for inner in value] if isinstance(value, list) else value


def _read_events(sample: Fields) -> tuple[dict[str, Fields], dict[str, list[NativeCompaction]]]:
    """Return the model calls by the id of their answer, and the compactions by the id of the next answer."""
    pool = list(sample.read_object("events_data").read_objects("messages")) or list(sample.read_objects("message_pool"))
    calls: dict[str, Fields] = {}
    compactions: dict[str, list[NativeCompaction]] = {}
    waiting: list[Fields] = []
    for number, event in enumerate(sample.read_objects("events")):
        match event.read_text("event"):
            case "model":
                choices = list(event.read_object("output").read_objects("choices"))
                answer_id = choices[0].read_object("message").read_text("id") if choices else ""
                calls[answer_id or f"call {number}"] = event
                for about in waiting:
                    view = _read_view(event, pool) if about is waiting[-1] else None
                    compactions.setdefault(answer_id, []).append(_make_compaction(about, view))
                waiting = []
            case "compaction":
                waiting.append(event)
    if waiting:
        compactions[""] = [*compactions.get("", []), *(_make_compaction(about, None) for about in waiting)]
    return calls, compactions


def _make_compaction(about: Fields, view: tuple[Message, ...] | None) -> NativeCompaction:
    summary = next((message.text for message in view or () if message.role == "user"), "")
    return NativeCompaction(
        trigger="auto",
        tokens_before=about.read_optional_count("tokens_before"),
        tokens_after=about.read_optional_count("tokens_after"),
        summary=summary if about.read_text("type") in {"", "summary"} else "",
        view=view,
    )


def _read_view(event: Fields, pool: Sequence[Fields]) -> tuple[Message, ...] | None:
    """Return the messages that a model call sent, without the system message; None if the file does not hold them."""
    messages = list(event.read_objects("input"))
    references = event.values.get("input_refs")
    if not messages and isinstance(references, list):
        ranges = [pair for pair in references if isinstance(pair, list) and len(pair) == 2 and all(map(_is_index, pair))]
        messages = [message for start, end in ranges for message in pool[start:end]]
    side = Draft()
    for message in messages:
        if message.read_text("role") != "system":
            _read_message(message, side, None, keep_summary=True)
    names = {part.call_id: part.name for turn in side.turns for part in turn.parts if isinstance(part, ToolCall)}
    view = []
    for turn in side.turns:
        parts = [_name_result(part, names) for part in turn.parts]
        view.append(Message(role=turn.role, parts=tuple(parts or [Text(text="")])))
    return tuple(view) or None


def _name_result(part: Part, names: Mapping[str, str]) -> Part:
    if isinstance(part, ToolResult):
        return ToolResult(call_id=part.call_id, name=names.get(part.call_id, ""), output=part.output, status=part.status)
    return part


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _read_time(event: Fields) -> int | None:
    return event.read_time_ms("completed") or event.read_time_ms("timestamp")


def _read_message(message: Fields, draft: Draft, call: Fields | None, *, keep_summary: bool = False) -> None:
    role = message.read_text("role")
    if message.read_object("metadata").values.get("summary") is True and not keep_summary:
        return  # the summary of a compaction, which is no message of the session
    parts = list(_read_content(message, draft))
    match role:
        case "system" | "user":
            draft.add_message(role, parts, message.place)
        case "assistant":
            parts += [
                make_call(item.read_text("id"), item.read_text("function"), item.values.get("arguments"))
                for item in message.read_objects("tool_calls")
            ]
            output = call.read_object("output") if call is not None else None
            usage = None if output is None else _read_call_usage(output)
            turn = draft.add_answer(
                parts,
                message.place,
                model=(output.read_text("model") if output is not None else "") or message.read_text("model"),
                usage=usage,
                cost_usd=None if output is None else output.read_object("usage").read_amount("total_cost"),
            )
            turn.request_key = message.read_text("id")
        case "tool":
            error = message.read_object("error")
            text = error.read_text("message") or "\n".join(part.text for part in parts if isinstance(part, Text))
            status = "error" if error.values else "completed"
            draft.add_result(message.read_text("tool_call_id"), text, message.place, status=status)
        case _:
            draft.count_unread(message, f"message of role {role!r}")


def _read_content(message: Fields, draft: Draft) -> Iterator[Part]:
    if isinstance(message.values.get("content"), str):
        yield from make_text_parts(message.read_text("content"))
        return
    for item in message.read_objects("content"):
        match item.read_text("type"):
            case "text":
                yield from make_text_parts(item.read_text("text"))
            case "reasoning" if item.values.get("redacted") is True:
                draft.count_dropped("reasoning without text (encrypted)")
                yield from make_reasoning_parts(item.read_text("summary"))
            case "reasoning":
                yield from make_reasoning_parts(item.read_text("reasoning"))
            case "tool_use":
                yield make_call(item.read_text("id"), item.read_text("name"), item.read_text("arguments"))
                text = item.read_text("error") or item.read_text("result")
                yield ToolResult(
                    call_id=item.read_text("id"), name="", output=text, status="error" if item.has("error") else "completed"
                )
            case "image" | "audio" | "video" | "document" as kind:
                draft.count_dropped(f"{kind} in a message, replaced by a mark")
                yield Text(text=f"({kind})")
            case kind:
                draft.count_unread(item, f"part of type {kind!r}")


def _read_call_usage(output: Fields) -> Usage:
    return read_usage(output.read_object("usage"), *_USAGE_NAMES)


def _leave_out(call: Fields, draft: Draft) -> None:
    """Record a model call whose answer is no message of the sample."""
    output = call.read_object("output")
    usage = _read_call_usage(output)
    if usage.prompt_tokens + usage.output_tokens:
        draft.left_out_calls.append(
            LeftOutCall(
                reason="side call",
                place=call.place,
                usage=usage,
                model=output.read_text("model") or call.read_text("model"),
                cost_usd=output.read_object("usage").read_amount("total_cost"),
                at_ms=_read_time(call),
            )
        )
