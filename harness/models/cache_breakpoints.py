"""Where a provider is told to keep the prompt for the next call (S3.5).

Some providers cache by themselves; others keep a prompt only up to the places that a request marks. For these three places are
marked: the end of the system prompt's first part, which is the same in all sessions; the last message of the request before,
which is read back; and the last message of this one, which is kept for the next. Nothing is marked for anybody else.

Source: the third design document, "Two-Part Prompt Strategy"; at most four marks are taken.
"""

from collections.abc import Sequence

from harness.messages import Message, extract_part_text
from harness.models.openai_format import JsonObject, encode_messages
from harness.models.registry import look_up_entry, look_up_provider

CACHE_CONTROL = {"type": "ephemeral"}
"""Keep what stands up to here for the provider's shortest time, five minutes from its last use."""

BREAKPOINT_PROVIDERS = {"anthropic"}
"""Providers of nothing but models that take marks."""
CLAUDE_PROVIDERS = {"bedrock", "bedrock_converse", "vertex_ai"}
"""Providers that take marks for the models of the family `claude` if the registry says that these have a cache."""
ANTHROPIC_ROUTE_PREFIX = "openrouter/anthropic/"
"""How names begin under which marks are passed on to Anthropic."""


def supports_cache_breakpoints(name: str) -> bool:
    """Whether the provider of a model wants to be told what to cache."""
    provider = look_up_provider(name)
    if provider in BREAKPOINT_PROVIDERS or name.startswith(ANTHROPIC_ROUTE_PREFIX):
        return True
    return (
        provider in CLAUDE_PROVIDERS and "claude" in name.lower() and look_up_entry(name).get("supports_prompt_caching") is True
    )


def encode_messages_with_breakpoints(messages: Sequence[Message]) -> list[JsonObject]:
    """The `messages` field of a request, with marks."""
    json_messages = encode_messages(messages)
    if messages and messages[0].role == "system":
        json_messages[0]["content"] = _encode_system_blocks(messages[0])
    conversation = [one for one in json_messages if one["role"] != "system" and (one["content"] or one["role"] == "tool")]
    last_answer_index = next((at for at in range(len(conversation) - 1, -1, -1) if conversation[at]["role"] == "assistant"), 0)
    for message in {
        id(one): one for one in (*conversation[last_answer_index - 1 : last_answer_index], *conversation[-1:])
    }.values():
        message["cache_control"] = CACHE_CONTROL
    return json_messages


def _encode_system_blocks(message: Message) -> list[JsonObject]:
    blocks: list[JsonObject] = [{"type": "text", "text": text} for part in message.parts if (text := extract_part_text(part))]
    if blocks:
        blocks[0]["cache_control"] = CACHE_CONTROL
    return blocks
