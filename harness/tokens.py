"""Counting tokens: what we estimate and what a provider measured are different types, so they are never mixed unseen.

Also what is derived from counts: the model's window and where its size was found, the reserves and threshold that a policy
takes from it (the budget), and a provider's usage report.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NewType, Protocol

from harness.messages import Message, Part, Reasoning, ToolCall, ToolResult, extract_part_text

Estimated = NewType("Estimated", int)
"""Tokens by a rule of thumb over characters; never what a provider bills."""

Measured = NewType("Measured", int)
"""Tokens by the provider's (or the scripted model's) own tokenizer."""


class Counter(Protocol):
    """Estimates the tokens of one message; pure, so that counts can be kept beside the message."""

    def count(self, message: Message) -> Estimated:
        """Tokens of one message."""
        ...


def count_characters(message: Message) -> int:
    """Characters of everything in a message that a model reads (code points, not bytes); reasoning is not sent back."""
    return sum(map(len, iter_texts(message)))


def iter_texts(message: Message) -> Iterator[str]:
    """The texts of a message that a model reads; name and arguments of a call are two."""
    for part in message.parts:
        if isinstance(part, ToolResult):  # first, since most of what is counted twice is results
            yield part.output
        elif isinstance(part, ToolCall):
            yield part.name
            yield part.arguments_json
        elif not isinstance(part, Reasoning):
            yield extract_part_text(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarterOfCharacters:
    """`ceil(characters / 4)` for each message. Source: S0.3."""

    kind: Literal["ceil-characters/4"] = "ceil-characters/4"

    def count(self, message: Message) -> Estimated:
        """Tokens of one message, rounded up."""
        return Estimated(-(-count_characters(message) // 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedQuarter:
    """`round(characters / 4)` for each message. Source: S3.4."""

    kind: Literal["round-characters/4"] = "round-characters/4"

    def count(self, message: Message) -> Estimated:
        """Tokens of one message, halves rounded up."""
        return Estimated((count_characters(message) + 2) // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedCharacters:
    """ASCII characters weigh less than others. Source of the weights: S1.7; rounded up for each message."""

    ascii_tokens: float = 0.25
    """Tokens of one ASCII character."""
    other_tokens: float = 1.3
    """Tokens of any other character."""
    kind: Literal["weighted-characters"] = "weighted-characters"

    def count(self, message: Message) -> Estimated:
        """Tokens of one message."""
        character_count = count_characters(message)
        ascii_count = sum(len(text.encode("ascii", "ignore")) for text in iter_texts(message))
        return Estimated(math.ceil(ascii_count * self.ascii_tokens + (character_count - ascii_count) * self.other_tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarterOfBytes:
    """`ceil(bytes / 4)` for each message, as UTF-8."""

    kind: Literal["ceil-bytes/4"] = "ceil-bytes/4"

    def count(self, message: Message) -> Estimated:
        """Tokens of one message, rounded up."""
        return Estimated(-(-sum(len(text.encode(errors="surrogatepass")) for text in iter_texts(message)) // 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCharacters:
    """Characters of a message as JSON, divided and rounded up: the measure of those who count what they would send."""

    characters_of_token: int
    kind: Literal["ceil-json/n"] = "ceil-json/n"

    def count(self, message: Message) -> Estimated:
        """Tokens of one message."""
        return Estimated(-(-count_json_characters(message) // self.characters_of_token))


def count_json_characters(message: Message) -> int:
    """Characters of a message as JSON; reasoning is not sent back."""
    sizes = [_count_part_characters(part) for part in message.parts if not isinstance(part, Reasoning)]
    return len('{"role":"","parts":[]}') + len(message.role) + sum(sizes) + max(0, len(sizes) - 1)


_encode_json = json.JSONEncoder(ensure_ascii=False).encode


def _count_part_characters(part: Part) -> int:
    """Only the texts are written, since an encoder takes thrice as long for an object of them."""
    if isinstance(part, ToolCall):
        return len('{"name":,"args":}') + len(_encode_json(part.name)) + len(_encode_json(part.arguments_json))
    if isinstance(part, ToolResult):
        return len('{"name":,"response":}') + len(_encode_json(part.name)) + len(_encode_json(part.output))
    return len('{"text":}') + len(_encode_json(extract_part_text(part)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """A provider's report on one call, all in tokens. `input` counts only what was neither read from nor written to a cache."""

    input_tokens: Measured
    output_tokens: Measured
    reasoning_tokens: Measured = Measured(0)
    """Part of `output_tokens`."""
    cache_read_tokens: Measured = Measured(0)
    cache_write_tokens: Measured = Measured(0)

    @property
    def prompt_tokens(self) -> Measured:
        """The whole prompt: uncached, read and written."""
        return Measured(self.input_tokens + self.cache_read_tokens + self.cache_write_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A model's context window and where its size was found (S0.11, S2.8)."""

    tokens: int
    """0 = unknown: compaction is off."""
    source: Literal["policy", "configuration", "registry", "unknown"]
    output_tokens: int | None = None
    """Longest answer of the model; None = not known."""


UNLIMITED_WINDOW = Window(tokens=10**9, source="configuration")
"""Window that no session fills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How a window is divided: computed once by the policy and shown everywhere."""

    window_tokens: int
    reserved_tokens: int
    """Kept free for system prompt, output and safety together."""
    threshold_tokens: int | None
    """The view is compacted at or above this estimate; None = never."""
    rule: str
    """The arithmetic that gave the threshold, in words and numbers."""

    @property
    def available_tokens(self) -> int:
        """What the reserves leave of the window."""
        return max(0, self.window_tokens - self.reserved_tokens)
