"""Cline's message files: Anthropic's blocks with metrics, or the bare list of them that older versions keep.

Pitfalls: `metrics.inputTokens` includes what was read from the cache; attached files are blocks of type `file`; results may be
lists of `{query, result, success}`; the system prompt stands beside the messages, or is missing in the bare list.
"""

from harness.replay.blocks import content_parts, say_all, used
from harness.replay.document import Document
from harness.replay.draft import Draft, texts
from harness.replay.fields import Fields, is_object_with
from harness.replay.recording import Recording

NAME = "cline"


def recognises(document: Document) -> bool:
    """Whether it is an object of messages with Cline's fields, or a list of role and content."""
    whole = document.whole
    if isinstance(whole, list):
        first = next((item for item in whole if isinstance(item, dict)), {})
        return is_object_with(first, "role", "content") and "parts" not in first and first["role"] != "system"
    marked = is_object_with(whole, "messages", "sessionId") and "projectHash" not in whole
    return marked and any(name in whole for name in ("system_prompt", "agent", "updated_at"))


def read(document: Document) -> tuple[Recording, ...]:
    """The one session of a file."""
    values = document.whole if isinstance(document.whole, dict) else {"messages": document.whole}
    whole = Fields(values, document.file, "")
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats), session_id=whole.text("sessionId"))
    draft.say("system", texts(whole.text("system_prompt")), "system_prompt")
    for message in whole.objects("messages"):
        _message(message, draft)
    return (draft.finish(),)


def _message(message: Fields, draft: Draft) -> None:
    match message.text("role"):
        case "user":
            say_all(draft, content_parts(message, draft), message.place)
        case "assistant":
            turn = draft.answer(content_parts(message, draft), message.place)
            metrics = message.nested("metrics")
            read, written = metrics.count("cacheReadTokens"), metrics.count("cacheWriteTokens")
            usage = used(metrics.count("inputTokens") - read, metrics.count("outputTokens"), read=read, written=written)
            draft.wrote(turn, message.nested("modelInfo").text("id"), usage, metrics.amount("cost"))
        case "system":
            draft.say("system" if not draft.turns else "user", content_parts(message, draft), message.place)
        case role:
            raise message.wrong("role", "user, assistant or system", role)
