"""Forms in which agents send their history: OpenAI's chat completions and responses, Anthropic's messages, Gemini's contents.

The recorder compares and logs messages of all four alike; here stands what differs between them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from harness.conversation.shapes.anthropic import Anthropic
from harness.conversation.shapes.gemini import Gemini
from harness.conversation.shapes.openai_responses import OpenAIResponses
from harness.conversation.shapes.shape import Raw, Shape
from harness.errors import UsageError


class AgentProtocol(NamedTuple):
    """Form of an agent's requests."""

    field: str
    """Field of a request that holds the messages."""
    shape: Shape | None
    """Shape of the messages; None recognises it."""
    system_field: str = ""
    """Field of a request that holds the system prompt apart from the messages; empty if there is none."""


PROTOCOLS: Mapping[str, AgentProtocol] = {
    "chat": AgentProtocol("messages", None),
    "responses": AgentProtocol("input", OpenAIResponses(), "instructions"),
    "messages": AgentProtocol("messages", Anthropic(), "system"),
    "contents": AgentProtocol("contents", Gemini(), "systemInstruction"),
}
"""Protocols by the names that the hook in the proxy uses."""


def read_system(value: object, protocol: AgentProtocol) -> str:
    """Return the system prompt that a request sends apart from its messages.

    Raises:
        UsageError: The value is neither a text nor a list of text blocks.
    """
    if not protocol.system_field or value is None:
        return ""
    if isinstance(value, Mapping) and "parts" in value:
        value = value["parts"]
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(block, Mapping) and isinstance(block.get("text"), str) for block in value):
        return "\n".join(block["text"] for block in value)
    raise UsageError(f"{protocol.system_field}: must be a text or a list of text blocks (got {value!r:.80})")


def is_answer(raw: Raw) -> bool:
    """Return whether a message is, or is part of, an answer of the model."""
    if "role" in raw:
        return raw["role"] in {"assistant", "model"}
    kind = str(raw.get("type"))
    return kind == "reasoning" or kind.endswith("_call")


def count_answer_messages(messages: Sequence[Raw], start: int) -> int:
    """Return how many messages from an index on are one answer; responses and streamed contents have several."""
    count = 0
    while start + count < len(messages) and is_answer(messages[start + count]):
        count += 1
        if not {"type", "parts"} & messages[start].keys():
            break
    return count


def list_call_ids(raws: Sequence[Raw]) -> list[Any]:
    """Return the ids of the tool calls in the messages of an answer."""
    ids = list[Any]()
    for raw in raws:
        ids += [call.get("id") for call in raw.get("tool_calls") or () if isinstance(call, Mapping)]
        ids += [block.get("id") for block in _list_blocks(raw) if block.get("type") == "tool_use"]
        calls = [block["functionCall"] for block in _list_blocks(raw) if isinstance(block.get("functionCall"), Mapping)]
        ids += [call.get("id") or call.get("name") for call in calls]
        ids += [raw.get("call_id")] if str(raw.get("type")).endswith("_call") else []
    return ids


def extract_text(raws: Sequence[Raw]) -> str:
    """Return the text in messages; agents keep a streamed text whole or in pieces."""
    texts = list[str]()
    for raw in raws:
        content = raw.get("content")
        texts += [content] if isinstance(content, str) else [str(block["text"]) for block in _list_blocks(raw) if "text" in block]
    return "".join(texts)


def _list_blocks(raw: Raw) -> list[Mapping[str, Any]]:
    content = raw.get("content", raw.get("parts"))
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
