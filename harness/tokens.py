"""Token counts: estimates and measured counts have different types, so that they are not mixed by mistake.

The module also defines the values that depend on counts: the context window of a model, the budget of a policy, and the usage
that a provider reports.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NewType, Protocol

from harness.messages import Message, Part, Reasoning, ToolCall, ToolResult, extract_part_text

Estimated = NewType("Estimated", int)
"""Number of tokens estimated from characters; providers bill other numbers."""

Measured = NewType("Measured", int)
"""Number of tokens counted by the tokenizer of the provider or of the scripted model."""


class Counter(Protocol):
    """Estimator of the tokens of one message; a pure function, so that counts can be stored with the message."""

    def count(self, message: Message) -> Estimated:
        """Return the estimated number of tokens of a message."""
        ...


def count_characters(message: Message) -> int:
    """Return the number of characters (Unicode code points) of a message without its reasoning, which is not sent back."""
    return sum(map(len, iter_texts(message)))


def iter_texts(message: Message) -> Iterator[str]:
    """Yield the texts of a message that a model reads; the name and the arguments of a call are two texts."""
    for part in message.parts:
        if isinstance(part, ToolResult):  # first, since most parts that are counted again are results
            yield part.output
        elif isinstance(part, ToolCall):
            yield part.name
            yield part.arguments_json
        elif not isinstance(part, Reasoning):
            yield extract_part_text(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarterOfCharacters:
    """Estimate `ceil(characters / 4)` for each message; the counter of this project's default design."""

    kind: Literal["ceil-characters/4"] = "ceil-characters/4"

    def count(self, message: Message) -> Estimated:
        """Return the estimated number of tokens of a message, rounded up."""
        return Estimated(-(-count_characters(message) // 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedQuarter:
    """Estimate `round(characters / 4)` for each message; the counter of the policy `ThreeTiers`."""

    kind: Literal["round-characters/4"] = "round-characters/4"

    def count(self, message: Message) -> Estimated:
        """Return the estimated number of tokens of a message; halves are rounded up."""
        return Estimated((count_characters(message) + 2) // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedCharacters:
    """Estimate with different weights for ASCII and other characters, rounded up for each message.

    The default weights are those of the policy `SeedGemini`; `GeminiCli` uses 1.5 for other characters.
    """

    ascii_tokens: float = 0.25
    """Tokens that one ASCII character counts as."""
    other_tokens: float = 1.3
    """Tokens that one character outside ASCII counts as."""
    kind: Literal["weighted-characters"] = "weighted-characters"

    def count(self, message: Message) -> Estimated:
        """Return the estimated number of tokens of a message."""
        character_count = count_characters(message)
        ascii_count = sum(len(text.encode("ascii", "ignore")) for text in iter_texts(message))
        return Estimated(math.ceil(ascii_count * self.ascii_tokens + (character_count - ascii_count) * self.other_tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarterOfBytes:
    """Estimate `ceil(bytes / 4)` for each message, with text encoded as UTF-8."""

    kind: Literal["ceil-bytes/4"] = "ceil-bytes/4"

    def count(self, message: Message) -> Estimated:
        """Return the estimated number of tokens of a message, rounded up."""
        return Estimated(-(-sum(len(text.encode(errors="surrogatepass")) for text in iter_texts(message)) // 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCharacters:
    """Estimate from the characters of a message as JSON, divided and rounded up."""

    characters_of_token: int
    """Number of characters that count as one token."""
    kind: Literal["ceil-json/n"] = "ceil-json/n"

    def count(self, message: Message) -> Estimated:
        """Return the estimated number of tokens of a message."""
        return Estimated(-(-count_json_characters(message) // self.characters_of_token))


def count_json_characters(message: Message) -> int:
    """Return the number of characters of a message as JSON without its reasoning, which is not sent back."""
    sizes = [_count_part_characters(part) for part in message.parts if not isinstance(part, Reasoning)]
    return len('{"role":"","parts":[]}') + len(message.role) + sum(sizes) + max(0, len(sizes) - 1)


_encode_json = json.JSONEncoder(ensure_ascii=False).encode


def _count_part_characters(part: Part) -> int:
    """Return the number of characters of a part as JSON.

    Only the texts are encoded, which is three times as fast as encoding the whole object.
    """
    if isinstance(part, ToolCall):
        return len('{"name":,"args":}') + len(_encode_json(part.name)) + len(_encode_json(part.arguments_json))
    if isinstance(part, ToolResult):
        return len('{"name":,"response":}') + len(_encode_json(part.name)) + len(_encode_json(part.output))
    return len('{"text":}') + len(_encode_json(extract_part_text(part)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of one call in tokens, as reported by the provider."""

    input_tokens: Measured
    """Tokens that were neither read from nor written to the prompt cache."""
    output_tokens: Measured
    reasoning_tokens: Measured = Measured(0)
    """Part of `output_tokens`."""
    cache_read_tokens: Measured = Measured(0)
    cache_write_tokens: Measured = Measured(0)

    @property
    def prompt_tokens(self) -> Measured:
        """Length of the whole prompt: uncached, read from the cache and written to the cache."""
        return Measured(self.input_tokens + self.cache_read_tokens + self.cache_write_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Context window of a model and the source of its size."""

    tokens: int
    """Size in tokens; 0 means unknown, and compaction is then off."""
    source: Literal["policy", "configuration", "registry", "unknown"]
    output_tokens: int | None = None
    """Maximum length of an answer in tokens; None means unknown."""


UNLIMITED_WINDOW = Window(tokens=10**9, source="configuration")
"""Window that no session fills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Division of a window into reserves and available tokens, computed once by the policy."""

    window_tokens: int
    reserved_tokens: int
    """Tokens reserved for system prompt, output and safety together."""
    threshold_tokens: int | None
    """Estimate of the view in tokens at or above which the view is compacted; None means never."""
    rule: str
    """Calculation of the threshold in words and numbers."""

    @property
    def available_tokens(self) -> int:
        """Tokens of the window without the reserves."""
        return max(0, self.window_tokens - self.reserved_tokens)
