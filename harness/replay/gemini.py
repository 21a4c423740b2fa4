"""Gemini CLI's two forms: a list of contents (`parts`), and a session of messages whose `toolCalls` hold their results.

Pitfalls: thoughts are parts flagged `thought`; a compressed history begins with a `<state_snapshot>`, and what it stands for is
not in the file; recorded outputs may already be masked; a response may have lost its call; the prompt tokens of a session
include what was read from the cache, its thoughts are apart from its output; later sessions are one message a row.
"""

from collections.abc import Iterator

from harness.messages import Part, Reasoning, Text, ToolCall
from harness.replay.blocks import arguments_text, used
from harness.replay.document import Document
from harness.replay.draft import Draft
from harness.replay.fields import Fields, clean, compact_json, is_object_with
from harness.replay.recording import NativeCompaction, Recording

NAME = "gemini"
_SNAPSHOT = "<state_snapshot>"
_MASKED = "<tool_output_masked>"


def recognises(document: Document) -> bool:
    """Whether it is a list of contents, or a session with a project hash."""
    whole = document.whole
    if isinstance(whole, list):
        return any(is_object_with(item, "role", "parts") for item in whole)
    return any(is_object_with(value, "sessionId", "projectHash") for _, value in document.rows)


def read(document: Document) -> tuple[Recording, ...]:
    """The one session of a file."""
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats))
    if isinstance(document.whole, list):
        _contents(Fields({"contents": document.whole}, document.file, ""), draft)
    else:
        _session(document, draft)
    return (draft.finish(),)


def _contents(whole: Fields, draft: Draft) -> None:
    waiting: dict[str, list[str]] = {}
    for content in whole.objects("contents"):
        parts = list(_parts(content, draft, waiting))
        role = content.text("role")
        if role == "model":
            draft.answer(parts, content.place)
        elif role in {"user", "function", "system"}:
            if _begins_with_snapshot(parts):
                text = "\n".join(part.text for part in parts if isinstance(part, Text))
                draft.compaction(NativeCompaction(kind="compaction", position=0, summary=text, in_place=True))
            draft.say("system" if role == "system" and not draft.turns else "user", parts, content.place)
        else:
            raise content.wrong("role", "user, model or function", role)


def _begins_with_snapshot(parts: list[Part]) -> bool:
    return bool(parts) and isinstance(parts[0], Text) and parts[0].text.lstrip().startswith(_SNAPSHOT)


def _parts(content: Fields, draft: Draft, waiting: dict[str, list[str]]) -> Iterator[Part]:
    """The parts of a content; responses are told at once. `waiting` holds made-up ids of calls by the name of the tool."""
    for number, part in enumerate(content.objects("parts")):
        if part.has("functionCall"):
            call = part.nested("functionCall")
            call_id = call.text("id") or f"call-{len(draft.turns)}-{number}"
            if not call.has("id"):
                waiting.setdefault(call.text("name"), []).append(call_id)
            yield ToolCall(call_id=call_id, name=call.text("name"), arguments_json=arguments_text(call.values.get("args")))
        elif part.has("functionResponse"):
            response = part.nested("functionResponse")
            made_up = waiting.get(response.text("name"), [])
            call_id = response.text("id") or (made_up.pop(0) if made_up else "")
            _tell_response(response, call_id, draft, part.place)
        elif part.has("text"):
            text = part.text("text")
            if text:
                yield Reasoning(text=text) if part.values.get("thought") else Text(text=text)
        else:
            kind = ", ".join(sorted(map(clean, part.values))) or "nothing"
            draft.drop(f"part with {kind[:60]} left out")


def _tell_response(response: Fields, call_id: str, draft: Draft, place: str, status: str = "completed") -> None:
    told = response.nested("response").values
    failed = "error" in told and "output" not in told
    content = told.get("error" if failed else "output", dict(told))
    text = clean(content) if isinstance(content, str) else compact_json(content)
    if _MASKED in text:
        draft.drop("result that the agent had masked before this file was written")
    draft.result(call_id, text, place, status="error" if failed else status)


def _session(document: Document, draft: Draft) -> None:
    for message in _messages(document, draft):
        match message.text("type"):
            case "user":
                draft.say("user", _content(message, draft), message.place)
            case "gemini":
                _answer(message, draft)
            case kind:
                draft.drop(f"message of type {kind!r}")


def _messages(document: Document, draft: Draft) -> list[Fields]:
    """The messages of either form of a session; a later row with a known id takes the place of the earlier."""
    found: dict[str, Fields] = {}
    for line, value in document.rows:
        if not isinstance(value, dict):
            continue
        row = Fields(value, document.file, f"line {line}" if len(document.rows) > 1 else "")
        draft.session_id = draft.session_id or row.text("sessionId")
        if row.has("$rewindTo"):
            kept = list(found)
            until = kept.index(row.text("$rewindTo")) if row.text("$rewindTo") in found else len(kept)
            found = {key: found[key] for key in kept[:until]}
            draft.warn(row.place, f"{len(kept) - until} messages were taken back by a rewind")
        for message in row.objects("messages"):
            found[f"{len(found)} {message.text('id')}"] = message
        if row.has("type"):
            found[row.text("id") or f"{len(found)}"] = row
    return list(found.values())


def _content(message: Fields, draft: Draft) -> Iterator[Part]:
    content = message.values.get("content")
    if isinstance(content, str):
        if text := message.text("content"):
            yield Text(text=text)
    elif content is not None:
        as_list = content if isinstance(content, list) else [content]
        held = [{"text": item} if isinstance(item, str) else item for item in as_list]
        yield from _parts(Fields({"parts": held}, message.file, message.line, message.path), draft, {})


def _answer(message: Fields, draft: Draft) -> None:
    thoughts = [
        Reasoning(text=f"{thought.text('subject')}: {thought.text('description')}") for thought in message.objects("thoughts")
    ]
    calls = list(message.objects("toolCalls"))
    told = [
        ToolCall(call_id=call.text("id"), name=call.text("name"), arguments_json=arguments_text(call.values.get("args")))
        for call in calls
    ]
    turn = draft.answer([*thoughts, *_content(message, draft), *told], message.place)
    tokens = message.nested("tokens")
    read, reasoning = tokens.count("cached"), tokens.count("thoughts")
    usage = used(
        tokens.count("input") + tokens.count("tool") - read, tokens.count("output") + reasoning, read=read, reasoning=reasoning
    )
    draft.wrote(turn, message.text("model"), usage)
    for call in calls:
        _results(call, draft)


def _results(call: Fields, draft: Draft) -> None:
    status = {"error": "error", "cancelled": "interrupted"}.get(call.text("status"), "completed")
    if isinstance(call.values.get("result"), str):
        draft.result(call.text("id"), call.text("result"), call.place, status=status)
        return
    responses = [part.nested("functionResponse") for part in call.objects("result") if part.has("functionResponse")]
    for response in responses[:1]:
        _tell_response(response, call.text("id"), draft, call.place, status)
    if len(responses) > 1:
        draft.warn(call.place, f"{len(responses)} responses to one call; only the first was read")
