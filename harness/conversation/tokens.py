"""Token counts, with different types for estimates and for measured counts, so that the two are not mixed by mistake.

The module also defines values that consist of token counts: the context window of a model, the budget of a policy, and the usage
that a provider reports.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, NewType, Protocol

from harness.conversation.messages import Message, Part, Reasoning, ToolCall, ToolResult, count_image_tokens, extract_part_text

Estimated = NewType("Estimated", int)
"""Number of tokens estimated from characters or bytes, which differs from the number that a provider bills."""

Measured = NewType("Measured", int)
"""Number of tokens counted by the tokenizer of the provider or of the scripted model."""


class Counter(Protocol):
    """Token counter, which estimates the number of tokens in a message.

    It is pure, so counts can be stored with the message.
    """

    def count(self, message: Message) -> Estimated:
        """Return the estimated number of tokens in a message."""
        ...


def count_characters(message: Message) -> int:
    """Return the number of characters (Unicode code points) of a message, without its reasoning.

    Reasoning is not sent back to the model.
    """
    return sum(map(len, iter_texts(message)))


def iter_texts(message: Message) -> Iterator[str]:
    """Yield the texts of a message that a model reads, without reasoning.

    The name and the arguments of a tool call are two texts.
    """
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
    """Token counter that estimates `ceil(characters / 4)` tokens for each message; the default token counter."""

    kind: Literal["ceil-characters/4"] = "ceil-characters/4"

    def count(self, message: Message) -> Estimated:
        """Return a quarter of the number of characters in a message, rounded up."""
        return Estimated(estimate_quarter(count_characters(message)) + count_image_tokens(message))


def estimate_quarter(characters: int) -> Estimated:
    """Return a quarter of a number of characters, rounded up, as a number of tokens."""
    return Estimated(-(-characters // 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedQuarter:
    """Token counter that estimates `round(characters / 4)` tokens for each message.

    The policy `ThreeTiers` uses it.
    """

    kind: Literal["round-characters/4"] = "round-characters/4"

    def count(self, message: Message) -> Estimated:
        """Return a quarter of the number of characters, rounded to the nearest integer; halves are rounded up."""
        return Estimated((count_characters(message) + 2) // 4 + count_image_tokens(message))


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedCharacters:
    """Token counter with one weight for ASCII characters and another for all other characters.

    The sum of the weights is rounded up for each message. The default weights are those of the policy `SimplifiedGeminiCli`;
    `GeminiCli` uses 1.5 for other characters.
    """

    ascii_tokens: float = 0.25
    """Number of tokens for each ASCII character, such as 0.25."""
    other_tokens: float = 1.3
    """Number of tokens for each character that is not ASCII, such as a Chinese one."""
    kind: Literal["weighted-characters"] = "weighted-characters"

    def count(self, message: Message) -> Estimated:
        """Return the estimated tokens of a message: the sum of the weights of its characters, rounded up."""
        character_count = count_characters(message)
        ascii_count = sum(len(text.encode("ascii", "ignore")) for text in iter_texts(message))
        text_tokens = math.ceil(ascii_count * self.ascii_tokens + (character_count - ascii_count) * self.other_tokens)
        return Estimated(text_tokens + count_image_tokens(message))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarterOfBytes:
    """Token counter that estimates `ceil(bytes / 4)` tokens for each message, with text encoded as UTF-8."""

    kind: Literal["ceil-bytes/4"] = "ceil-bytes/4"

    def count(self, message: Message) -> Estimated:
        """Return a quarter of the number of UTF-8 bytes in a message, rounded up."""
        byte_count = sum(len(text.encode(errors="surrogatepass")) for text in iter_texts(message))
        return Estimated(-(-byte_count // 4) + count_image_tokens(message))


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCharacters:
    """Token counter that divides the length of a message, written as JSON, by a constant and rounds up."""

    characters_of_token: int
    """Number of characters of JSON that count as one token."""
    kind: Literal["ceil-json/n"] = "ceil-json/n"

    def count(self, message: Message) -> Estimated:
        """Return the number of characters of a message as JSON, divided by `characters_of_token` and rounded up."""
        return Estimated(-(-count_json_characters(message) // self.characters_of_token) + count_image_tokens(message))


def count_json_characters(message: Message) -> int:
    """Return the number of characters of a message written as JSON, without its reasoning.

    Reasoning is not sent back to the model.
    """
    sizes = [_count_part_characters(part) for part in message.parts if not isinstance(part, Reasoning)]
    return len('{"role":"","parts":[]}') + len(message.role) + sum(sizes) + max(0, len(sizes) - 1)


_encode_json = json.JSONEncoder(ensure_ascii=False).encode


def _count_part_characters(part: Part) -> int:
    # Encoding only the texts is three times as fast as encoding the whole object.
    if isinstance(part, ToolCall):
        return len('{"name":,"args":}') + len(_encode_json(part.name)) + len(_encode_json(part.arguments_json))
    if isinstance(part, ToolResult):
        return len('{"name":,"response":}') + len(_encode_json(part.name)) + len(_encode_json(part.output))
    return len('{"text":}') + len(_encode_json(extract_part_text(part)))


MAX_REPORTED_TOKENS = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Numbers of tokens that one model call used, as reported by the provider."""

    input_tokens: Measured
    """Number of prompt tokens that were neither read from nor written to the provider's prompt cache."""
    output_tokens: Measured
    reasoning_tokens: Measured = Measured(0)
    """Number of output tokens that the model used for reasoning; they are included in `output_tokens`."""
    cache_read_tokens: Measured = Measured(0)
    cache_write_tokens: Measured = Measured(0)

    @property
    def is_reported(self) -> bool:
        """Whether the provider reported the numbers; a prompt of 0 tokens, as in some recordings and reports, is no report."""
        return self.prompt_tokens > 0

    @property
    def is_plausible(self) -> bool:
        """Whether all numbers are at most `MAX_REPORTED_TOKENS`; a larger number is an error of the provider."""
        return self.prompt_tokens <= MAX_REPORTED_TOKENS and max(self.output_tokens, self.reasoning_tokens) <= MAX_REPORTED_TOKENS

    @property
    def prompt_tokens(self) -> Measured:
        """Number of tokens in the whole prompt, whether uncached, read from the cache or written to the cache."""
        return Measured(self.input_tokens + self.cache_read_tokens + self.cache_write_tokens)


MIN_GROWTH_TOKENS = 1_000
"""Estimated number of tokens by which the reported prompts of a session must have grown before their ratio is used."""
LEAST_RATIO_CHANGE = 0.05
"""Share by which the measured ratio must differ from the one in use before it replaces it.

Policies keep running totals for each ratio, so a ratio that changes with every report would make each of their checks read the
whole conversation.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Relation between estimated token counts and the counts that the provider reported in a session.

    A report covers tool definitions and other text that is in no message. The ratio is therefore computed from the growth between
    reports, and the newest report is the point from which smaller and larger prompts are extrapolated.

    Example:
        >>> from harness.conversation.tokens import Calibration
        >>> calibration = Calibration().add_report(1_000, 5_000).add_report(11_000, 20_000)
        >>> calibration.ratio
        1.5
        >>> calibration.measure(13_000)
        23000
        >>> calibration.invert(23_000)
        13000
    """

    estimated_tokens: int = 0
    """Estimated number of tokens in the prompt of the newest report."""
    reported_tokens: int = 0
    """Number of tokens in the same prompt by the provider's count; 0 if nothing was reported yet."""
    grown_estimated_tokens: int = 0
    """Estimated number of tokens by which prompts grew from one report to the next, added up over the session."""
    grown_reported_tokens: int = 0
    """Number of tokens by which the same prompts grew by the provider's count."""
    ratio: float = 1.0
    """Number of tokens by the provider's count for each estimated token; 1 until the prompts have grown enough."""

    def add_report(self, estimated_tokens: int, reported_tokens: int) -> "Calibration":
        """Return the calibration after one more report.

        Args:
            estimated_tokens: Estimated number of tokens in the messages of the prompt.
            reported_tokens: Number of tokens in the prompt by the provider's count, at least 1.
        """
        return self.add_reports(((estimated_tokens, reported_tokens),))

    def add_reports(self, reports: Iterable[tuple[int, int]]) -> "Calibration":
        """Return the calibration after further reports, each with its estimate first; see `add_report`."""
        estimated, reported = self.estimated_tokens, self.reported_tokens
        grown_estimated, grown_reported, ratio = self.grown_estimated_tokens, self.grown_reported_tokens, self.ratio
        for estimated_tokens, reported_tokens in reports:
            estimated_growth, reported_growth = estimated_tokens - estimated, reported_tokens - reported
            if reported and estimated_growth > 0 and reported_growth > 0:
                grown_estimated, grown_reported = grown_estimated + estimated_growth, grown_reported + reported_growth
                measured_ratio = grown_reported / grown_estimated
                if grown_estimated >= MIN_GROWTH_TOKENS and abs(measured_ratio - ratio) > LEAST_RATIO_CHANGE * ratio:
                    ratio = measured_ratio
            estimated, reported = estimated_tokens, reported_tokens
        return Calibration(
            estimated_tokens=estimated,
            reported_tokens=reported,
            grown_estimated_tokens=grown_estimated,
            grown_reported_tokens=grown_reported,
            ratio=ratio,
        )

    def measure(self, estimated_tokens: int) -> int:
        """Return how many tokens a prompt probably has by the provider's count, rounded up."""
        difference = estimated_tokens - self.estimated_tokens
        return math.ceil(self.reported_tokens + difference * (self.ratio if difference > 0 else self._ratio_below))

    def invert(self, tokens: int) -> int:
        """Return how many estimated tokens a prompt may have so that the provider counts at most `tokens`; at least 0."""
        difference = tokens - self.reported_tokens
        return max(0, self.estimated_tokens + math.floor(difference / (self.ratio if difference > 0 else self._ratio_below)))

    @property
    def _ratio_below(self) -> float:
        """Ratio for prompts shorter than the newest reported one, with which no prompt has fewer than 0 tokens.

        While the ratio is not measured, the whole report is taken to be in proportion to the messages: prompts are mostly
        shortened when they are long, and definitions of tools are then a small part.
        """
        if not self.estimated_tokens:
            return self.ratio
        whole_ratio = self.reported_tokens / self.estimated_tokens
        return whole_ratio if self.grown_estimated_tokens < MIN_GROWTH_TOKENS else min(self.ratio, whole_ratio)


class CacheHits(NamedTuple):
    """Share of a session's prompt tokens that came from a prompt cache, reported by the provider or simulated."""

    share: float | None
    """Share from 0 to 1; None if nothing was sent."""
    is_simulated: bool
    """Whether no provider reported the share: it is that of a cache under the price rule of the session or, without a rule, that
    of a cache which never evicts."""


def compute_cache_hits(
    *,
    read_tokens: int,
    write_tokens: int,
    prompt_tokens: int,
    kept_prefix_tokens: int,
    view_tokens: int,
    has_price_rule: bool = False,
) -> CacheHits:
    """Return the share of a session's prompt tokens that came from a prompt cache.

    Reported numbers win over simulated ones. Without any, the share is that of the tokens which repeat the beginning of the
    previous request: an upper bound, reached by a cache that never evicts.

    Args:
        read_tokens: Prompt tokens that the provider read from its cache.
        write_tokens: Prompt tokens that the provider wrote to its cache.
        prompt_tokens: All prompt tokens that the provider counted.
        kept_prefix_tokens: Estimated tokens at the beginning of the requests that the previous request had, too.
        view_tokens: Estimated tokens of all requests.
        has_price_rule: Whether a price rule simulates the reads and writes, which then count although no provider reports them.
            Default: False.
    """
    is_reported = bool(read_tokens or write_tokens)
    part, whole = (read_tokens, prompt_tokens) if is_reported or has_price_rule else (kept_prefix_tokens, view_tokens)
    return CacheHits(min(1.0, part / whole) if whole else None, has_price_rule or not is_reported)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Size of a model's context window, with the source that gave the size."""

    tokens: int
    """Size of the context window in tokens; 0 means that the size is unknown, and compaction is then off."""
    source: Literal["policy", "configuration", "registry", "unknown"]
    output_tokens: int | None = None
    """Maximum number of tokens in an answer of the model; None means unknown."""
    input_tokens: int | None = None
    """Maximum number of tokens in a prompt if answers have a limit of their own; None means that both share the window."""
    registry_tokens: int = 0
    """Size of the window in the registry of models, if the configuration sets another size; 0 means unknown."""


UNLIMITED_WINDOW = Window(tokens=10**9, source="configuration")
"""Context window of a billion tokens, used where the size of the window must have no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Tokens of the context window that a policy reserves, and number of tokens from which it compacts."""

    window_tokens: int
    reserved_tokens: int
    """Number of tokens of the context window that are reserved for system prompt, output and safety together."""
    threshold_tokens: int | None
    """Number of tokens in view, as the policy measures them, at or above which a compaction takes place; None means never."""
    rule: str
    """Explanation of how the compaction threshold was computed, in words and numbers."""

    @property
    def available_tokens(self) -> int:
        """Number of tokens of the context window that the conversation may fill, because they are not reserved."""
        return max(0, self.window_tokens - self.reserved_tokens)
