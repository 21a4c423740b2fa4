"""Cline's message files: Anthropic's blocks with metrics, or the bare list of them that older versions keep.

Pitfalls: `metrics.inputTokens` includes what was read from the cache; attached files are blocks of type `file`; results may be
lists of `{query, result, success}`; the system prompt stands beside the messages, or is missing in the bare list.
"""

from harness.replay.blocks import add_user_parts, build_usage, read_parts
from harness.replay.document import Document
from harness.replay.draft import Draft, make_text_parts
from harness.replay.fields import Fields, is_object_with
from harness.replay.recording import Recording

NAME = "cline"


def can_read(document: Document) -> bool:
    """Whether it is an object of messages with Cline's fields, or a list of role and content."""
    whole = document.single_value
    if isinstance(whole, list):
        first = next((item for item in whole if isinstance(item, dict)), {})
        return is_object_with(first, "role", "content") and "parts" not in first and first["role"] != "system"
    marked = is_object_with(whole, "messages", "sessionId") and "projectHash" not in whole
    return marked and any(name in whole for name in ("system_prompt", "agent", "updated_at"))


def read(document: Document) -> tuple[Recording, ...]:
    """The one session of a file."""
    values = document.single_value if isinstance(document.single_value, dict) else {"messages": document.single_value}
    whole = Fields(values, document.file, "")
    draft = Draft(source=NAME, file=document.file, caveats=list(document.caveats), session_id=whole.read_text("sessionId"))
    draft.add_message("system", make_text_parts(whole.read_text("system_prompt")), "system_prompt")
    for message in whole.read_objects("messages"):
        _read_message(message, draft)
    return (draft.finish(),)


def _read_message(message: Fields, draft: Draft) -> None:
    match message.read_text("role"):
        case "user":
            add_user_parts(draft, read_parts(message, draft), message.place)
        case "assistant":
            turn = draft.add_answer(read_parts(message, draft), message.place)
            metrics = message.read_object("metrics")
            read, written = metrics.read_count("cacheReadTokens"), metrics.read_count("cacheWriteTokens")
            usage = build_usage(
                metrics.read_count("inputTokens") - read, metrics.read_count("outputTokens"), read=read, written=written
            )
            draft.annotate_answer(turn, message.read_object("modelInfo").read_text("id"), usage, metrics.read_amount("cost"))
        case "system":
            draft.add_message("system" if not draft.turns else "user", read_parts(message, draft), message.place)
        case role:
            raise message.build_error("role", "user, assistant or system", role)
