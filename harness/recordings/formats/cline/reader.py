"""Importer of sessions recorded by Cline, a JSON object (in older versions, a list) of messages in the form of Anthropic's API.

Properties of the format:

- `metrics.inputTokens` includes tokens read from the cache.
- Attached files are blocks of type `file`.
- Tool results may be lists of `{query, result, success}`.
- The system prompt is a field beside the messages; it is missing if the file is a list.
"""

from collections.abc import Iterator

from harness.recordings.blocks import make_text_parts, read_parts, read_usage
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a message file of Cline, an object or, in the old form, a list."""
    whole = document.single_value
    if isinstance(whole, list):
        first = next((item for item in whole if isinstance(item, dict)), {})
        return is_object_with(first, "role", "content") and "parts" not in first and first["role"] != "system"
    marked = is_object_with(whole, "messages", "sessionId") and "projectHash" not in whole
    return marked and any(name in whole for name in ("system_prompt", "agent", "updated_at"))


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a message file of Cline as a `Draft`."""
    whole = document.read_root("messages")
    draft = Draft(session_id=whole.read_text("sessionId"))
    draft.add_message("system", make_text_parts(whole.read_text("system_prompt")), "system_prompt")
    for message in whole.read_objects("messages"):
        _read_message(message, draft)
    yield draft


def _read_message(message: Fields, draft: Draft) -> None:
    match message.read_text("role"):
        case "user" | "system" as role:
            draft.add_message(role, read_parts(message, draft), message.place)
        case "assistant":
            metrics = message.read_object("metrics")
            draft.add_answer(
                read_parts(message, draft),
                message.place,
                model=message.read_object("modelInfo").read_text("id"),
                usage=read_usage(metrics, "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", with_read=True),
                cost_usd=metrics.read_amount("cost"),
            )
        case role:
            raise message.build_error("role", "user, assistant or system", role)
