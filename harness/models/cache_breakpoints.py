"""Where a provider is told to keep the prompt for the next call (S3.5).

Some providers cache by themselves; others keep a prompt only up to the places that a request marks. For these three places are
marked: the end of the system prompt's first part, which is the same in all sessions; the last message of the request before,
which is read back; and the last message of this one, which is kept for the next. Nothing is marked for anybody else.

Source: the third design document, "Two-Part Prompt Strategy"; at most four marks are taken.
"""

from collections.abc import Sequence

from harness.messages import Message, part_text
from harness.models.openai_format import Plain, messages_to_wire
from harness.models.registry import entry, provider_of

MARK = {"type": "ephemeral"}
"""Keep what stands up to here for the provider's shortest time, five minutes from its last use."""

ALWAYS = {"anthropic"}
"""Providers of nothing but models that take marks."""
SOMETIMES = {"bedrock", "bedrock_converse", "vertex_ai"}
"""Providers that take marks for the models of the family `claude` if the registry says that these have a cache."""
PASSED_ON = "openrouter/anthropic/"
"""How names begin under which marks are passed on to Anthropic."""


def takes_marks(name: str) -> bool:
    """Whether the provider of a model wants to be told what to cache."""
    provider = provider_of(name)
    if provider in ALWAYS or name.startswith(PASSED_ON):
        return True
    return provider in SOMETIMES and "claude" in name.lower() and entry(name).get("supports_prompt_caching") is True


def marked(messages: Sequence[Message]) -> list[Plain]:
    """The `messages` field of a request, with marks."""
    plain = messages_to_wire(messages)
    if messages and messages[0].role == "system":
        plain[0]["content"] = _blocks(messages[0])
    talk = [one for one in plain if one["role"] != "system" and (one["content"] or one["role"] == "tool")]
    before = next((at for at in range(len(talk) - 1, -1, -1) if talk[at]["role"] == "assistant"), 0)
    for one in {id(one): one for one in (*talk[before - 1 : before], *talk[-1:])}.values():
        one["cache_control"] = MARK
    return plain


def _blocks(message: Message) -> list[Plain]:
    blocks: list[Plain] = [{"type": "text", "text": text} for part in message.parts if (text := part_text(part))]
    if blocks:
        blocks[0]["cache_control"] = MARK
    return blocks
