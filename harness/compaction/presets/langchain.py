"""The middleware of LangChain and of its deepagents, and the clearing of tool uses that LangChain took from Anthropic's API."""

import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness import transcript
from harness.compaction.cuts import LastMessages, LastTokens, Tail
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share, SummarizingPreset
from harness.compaction.stages import Mask, Middle, Reducer, Summarize
from harness.compaction.summary_formats import ACCEPT_EMPTY, Sections
from harness.compaction.triggers import (
    Always,
    Amount,
    AnyOf,
    FixedTokens,
    Full,
    MoreThan,
    ShareOfAvailable,
    Trigger,
    check_triggers,
    make_division,
)
from harness.compaction.wrappers import IfSaves
from harness.errors import UsageError
from harness.events import Replace
from harness.messages import Message, Part, ToolCall, user
from harness.plan import Plan
from harness.tokens import Budget, Counter, Estimated, QuarterOfCharacters
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortenArguments:
    """Of long texts among the arguments of certain calls before a tail, only the beginning stays, with a mark.

    Where no call in view is long, the cost is that of what came since the last asking; else that of the tail is added.
    """

    tail: Tail
    tools: tuple[str, ...]
    characters: int
    """A longer text is shortened."""
    kept_characters: int
    """To so many, before the mark."""
    mark: str

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        first = view.tally_cache.read(view.items, self, lambda: _LongCallTally(self), lambda tally: tally.first)
        start = 0 if first is None else self.tail.find_start(view.items, budget)
        changes = [change for item in view.items[first:start] if (change := self.shorten_item(item))]
        outcome = f"; long arguments of {len(changes)} old answers" if changes else ", but no old call is long"
        return Plan(reason=f"{reason}{outcome}", replace=tuple(changes))

    def shorten_item(self, item: Item) -> Replace | None:
        """What becomes of a message; None where it has nothing long."""
        if item.message.role != "assistant":
            return None
        parts = tuple(map(self._shorten_part, item.message.parts))
        return Replace(item=item.item_id, message=replace(item.message, parts=parts)) if parts != item.message.parts else None

    def _shorten_part(self, part: Part) -> Part:
        if not isinstance(part, ToolCall) or part.name not in self.tools or len(part.arguments_json) <= self.characters:
            return part
        given = dict(transcript.parse_arguments(part))
        long = {name: text for name, text in given.items() if isinstance(text, str) and len(text) > self.characters}
        if not long:
            return part
        short = {name: f"{text[: self.kept_characters]}{self.mark}" for name, text in long.items()}
        return replace(part, arguments_json=json.dumps(given | short, ensure_ascii=False))


class _LongCallTally:
    """The tally of long calls: where the first one stands. See `harness.tally_cache`."""

    __slots__ = ("_by", "_count", "first")

    def __init__(self, stage: ShortenArguments) -> None:
        self._by = stage
        self._count = 0
        self.first: int | None = None

    def add(self, item: Item) -> None:
        """See `harness.tally_cache.Tally`."""
        if self.first is None and self._by.shorten_item(item):
            self.first = self._count
        self._count += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LastOfWindow:
    """As many messages as hold no more than a share of the window."""

    share: float
    least_messages: int = 1
    """Messages that stay whatever they hold."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `Tail`."""
        tokens = max(1, int(budget.window_tokens * self.share))
        return LastTokens(tokens=tokens, reaching=False, least_messages=self.least_messages).find_start(items, budget)

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.cuts.Tail`."""
        return Amount(int(self.share * budget.window_tokens), "tokens") if budget.window_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestFromUser:
    """The newest messages that hold no more than so many tokens, from the first message of the user among them.

    Where the message before them is the user's, its last lines are shown as far as there is room. Where no message of the user
    is among the newest, nothing is shown.
    """

    tokens: int
    counter: Counter

    def select(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """See `harness.plan.Excerpt`."""
        start, room = len(messages), self.tokens
        while start and (held := self.counter.count(messages[start - 1])) <= room:
            start, room = start - 1, room - held
        if start and messages[start - 1].role == "user" and (end := self._take_last_lines(messages[start - 1], room)):
            return (user(end), *messages[start:])
        while start < len(messages) and messages[start].role != "user":
            start += 1
        return messages[start:]

    def _take_last_lines(self, message: Message, room: int) -> str:
        """The last lines of a text that hold no more than so many tokens as a message."""
        lines = transcript.extract_text(message).split("\n")
        ends = ["\n".join(lines[len(lines) - count :]) for count in range(1, len(lines) + 1)]
        fitting = bisect_right(ends, room, key=lambda end: self.counter.count(user(end)))
        return ends[fitting - 1] if fitting else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutMiddle:
    """In a second attempt the two ends of what was told, by characters. See `harness.plan.PromptShortener`."""

    share: float
    """Of the characters that is told."""
    head_share: float
    """Of these, from the beginning; the others are from the end."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """Both ends as one message; no third attempt."""
        text = transcript.render(messages)
        kept = int(self.share * len(text))
        head = int(self.head_share * kept)
        if attempt > 1 or not kept:
            return ()
        tail = text[len(text) - kept + head :]
        return (user(f"{text[:head]}\n\n(The middle of the conversation is left out here.)\n\n{tail}"),)


SECTIONS = ("SESSION INTENT", "SUMMARY", "ARTIFACTS", "NEXT STEPS")


OPENING = "(Summary of the conversation so far.)"


SHORTENED_MARK = "...(the rest of this argument was left out)"


TOO_LONG_SUMMARY = "(The conversation before this was too long to be summarized.)"


SUMMARY_PROCEDURE = replace(ACCEPT_EMPTY, shorter=WithoutMiddle(share=0.5, head_share=0.25))
"""How both ask: once more with half of it where all was too long; an answer without text is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CharactersAndOverhead:
    """Characters of text, role, calls and ids, divided and rounded up, and an overhead for each message.

    Calls count as LangChain writes them down, a list of dictionaries; tool schemas do not count, since a policy does not see
    them. Source: langchain-core 1.7.2 `messages/utils.py`, without the correction by a provider's report, which is a trigger's
    measure here.
    """

    characters_per_token: float = 4.0
    overhead_tokens: int = 3
    with_system: bool = False
    """Whether the system message counts; LangChain's own middleware is not given it."""
    kind: Literal["characters-and-overhead"] = "characters-and-overhead"

    def count(self, message: Message) -> Estimated:
        """Tokens of one message; of a system message 0 unless it counts."""
        if message.role == "system" and not self.with_system:
            return Estimated(0)
        written = [
            {"name": call.name, "args": dict(transcript.parse_arguments(call)), "id": call.call_id, "type": "tool_call"}
            for call in message.calls
        ]
        characters = len(transcript.extract_text(message)) + len(message.role) + (len(repr(written)) if written else 0)
        characters += sum(len(result.call_id) + len(result.name) for result in message.results)
        return Estimated(math.ceil(characters / self.characters_per_token) + self.overhead_tokens)


COUNTER = CharactersAndOverhead()


COUNTER_WITH_SYSTEM = CharactersAndOverhead(with_system=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClearToolUses(Preset):
    """What both ways to clear tool uses share."""

    trigger_tokens: Positive = 100_000
    """Tokens above which results are cleared, counted as if nothing had been cleared yet."""
    keep_results: NonNegative = 3
    """Newest tool results that stay, those of exempt tools among them."""
    clear_arguments: bool = False
    """Whether the arguments of the cleared calls are emptied too."""
    exempt_tools: tuple[str, ...] = ()
    """Tools whose results are never cleared."""
    stub: str = "[cleared]"
    """What stands in the place of a cleared result."""

    def _build_mask(self, counter: Counter, enough_tokens: int = 0) -> Mask:
        return Mask(
            stub=self.stub,
            keep_results=self.keep_results,
            enough_tokens=enough_tokens,
            exempt_tools=self.exempt_tools,
            exempt_count=True,
            clear_arguments=self.clear_arguments,
            counter=counter,
        )

    def _build_pipeline(self, reducer: Reducer, counter: Counter, *, quiet: bool) -> Pipeline:
        rule = Rule(Full(measure="unedited", above=True), reducer, quiet=quiet)
        return Pipeline(FixedTokens(tokens=self.trigger_tokens), (rule,), counter=counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class LangChainClear(_ClearToolUses):
    """Above a number of tokens, all but the newest tool results become stubs.

    Source: LangChain 1.4.7 `context_editing.py`, ClearToolUsesEdit and its defaults; PEERS "LangChain ContextEditing".
    The original edits a copy of the whole history for each request; here the edit is an event and its result stays in view. Both
    are the same as long as the trigger looks at what the view would hold unedited, which it does.

    Attributes:
        trigger_tokens: More than so many, counted as if nothing had been cleared yet. Default: `100_000`.
        keep_results: Newest tool results that stay, those of exempt tools among them. Default: `3`.
        enough_tokens: Once so many are saved, newer results stay (`clear_at_least` of the original); 0 = all but the kept are
            cleared. Default: `0`.
        clear_arguments: Whether the arguments of the cleared calls are emptied too. Default: `False`.
        exempt_tools: Tools whose results are never cleared. Default: `()`.
        stub: What stands in the place of a cleared result. Default: `'[cleared]'`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    enough_tokens: NonNegative = 0
    kind: Literal["langchain-clear-tool-uses"] = "langchain-clear-tool-uses"

    def check_combination(self) -> None:
        """See `Preset`."""
        if self.enough_tokens and self.clear_arguments:
            raise UsageError(f"enough_tokens={self.enough_tokens!r} counts results alone; unset it or clear_arguments")

    @property
    def pipeline(self) -> Pipeline:
        """One rule: mask."""
        mask = self._build_mask(COUNTER, self.enough_tokens)
        return self._build_pipeline(mask, COUNTER, quiet=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LangChainSummary(SummarizingPreset):
    """Everything before the newest messages becomes a user message with a summary; the user's request goes with it.

    Source: LangChain 1.4.7 `summarization.py`; PEERS "LangChain SummarizationMiddleware" and 2.10. The original has no trigger
    unless it is given one; 0.8 of the window is the example of its documentation. As by default it shows the summarizer only the
    last 4,000 tokens from a message of the user on, it shows nothing at all of a long run without user messages: the summary is
    then a fixed sentence and no model is asked. `trim_tokens=None` is the variant that shows all. Of the original's rescaling of
    counts by a provider's report, the trigger has it and the trimming has not. What is too long for the summarizer is told once
    more without its middle, half of it (of the original's second limit, 40 % of the summarizer's window, nothing is known here).
    When the summary fails, the session goes on as it is; there the run fails. An empty summary is taken.

    Attributes:
        trigger_share: Share of the window at which the view is summarized, by the estimate or by the provider's last report; None
            = not by it. Default: `0.8`.
        trigger_tokens: The same as a number of tokens; only one of the two may be set. Default: `None`.
        trigger_messages: Messages, the system message aside, at which it is summarized too. Default: `None`.
        keep_messages: Newest messages that stay; more where a result would lose its call. Default: `20`.
        keep_tokens: Instead of a number of messages: as many as hold no more than so many tokens, at least one. Default: `None`.
        keep_share: Instead of both: as many as hold no more than a share of the window. Default: `None`.
        trim_tokens: What of the messages the summarizer is shown, from their end; None = all. Default: `4_000`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: Output limit of a summary; the original sets none. Default: `4_096`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    trigger_share: Share | None = 0.8
    trigger_tokens: Positive | None = None
    trigger_messages: Positive | None = None
    keep_messages: Positive = 20
    keep_tokens: Positive | None = None
    keep_share: Share | None = None
    trim_tokens: Positive | None = 4_000
    kind: Literal["langchain-summary"] = "langchain-summary"

    def check_combination(self) -> None:
        """See `Preset`."""
        check_triggers(self.trigger_share, self.trigger_tokens, self.trigger_messages)
        if self.keep_tokens is not None and self.keep_share is not None:
            raise UsageError(f"keep_tokens={self.keep_tokens!r} and keep_share are two ways to keep; unset one")

    @property
    def pipeline(self) -> Pipeline:
        """One rule: summarize all but the tail."""
        summarize = Summarize(
            middle=Middle(tail=self._tail),
            format=Sections(titles=SECTIONS, opening=OPENING),
            max_tokens=self.summary_max_tokens,
            former="among",
            excerpt=None if self.trim_tokens is None else NewestFromUser(tokens=self.trim_tokens, counter=COUNTER),
            text_if_empty=TOO_LONG_SUMMARY,
            procedure=SUMMARY_PROCEDURE,
        )
        rule = Rule(self._trigger, summarize)
        division = make_division(self.trigger_share, self.trigger_tokens, f"at {self.trigger_messages} messages")
        return Pipeline(division, (rule,), counter=COUNTER)

    @property
    def _tail(self) -> Tail:
        if self.keep_share is not None:
            return LastOfWindow(share=self.keep_share)
        if self.keep_tokens is not None:
            return LastTokens(tokens=self.keep_tokens, reaching=False, least_messages=1)
        return LastMessages(count=self.keep_messages)

    @property
    def _trigger(self) -> Trigger:
        tokens = (Full(measure="rescaled"), Full(measure="reported"))
        return AnyOf(tokens if self.trigger_messages is None else (*tokens, MoreThan(count=self.trigger_messages)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepAgents(SummarizingPreset):
    """At 85 % of the window long arguments of old calls are shortened; if that is not enough, all but 10 % becomes a summary.

    Source: deepagents 0.7.32 `middleware/summarization.py` with the sizes of its factory; PEERS "deepagents" and 2.10. The user's
    request goes with the rest, and the summarizer is shown all of it. A refused prompt is summarized too. Different from the
    original: what goes is not written to a file whose path the summary names (the log holds it); an argument that was shortened
    stays short, also in an answer that a summary leaves in view; after shortening the count is not corrected by the provider's
    report; after a refused prompt the newest results are not cut; in a window that is not known nothing is compacted, there it
    is at 170,000 tokens. When the summary fails, the session goes on as it is; there the run fails. An empty summary is taken.
    What is too long for the summarizer is told as by `langchain-summary`.

    Attributes:
        threshold: Share of the window at which it acts, by the estimate or by the provider's last report, above 0 and at most 1.
            Default: `0.85`.
        keep_share: Share of the window up to which newest messages stay, at least one; above 0 and at most 1. Default: `0.1`.
        argument_characters: A longer argument of an old call that writes a file is shortened. Default: `2_000`.
        short_characters: To so many. Default: `20`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: Output limit of a summary; the original sets none. Default: `4_096`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    threshold: Share = 0.85
    keep_share: Share = 0.1
    argument_characters: Positive = 2_000
    short_characters: NonNegative = 20
    kind: Literal["deepagents"] = "deepagents"

    @property
    def pipeline(self) -> Pipeline:
        """Two tiers before a step, and one rule after an overflow."""
        shorten = ShortenArguments(
            tail=LastOfWindow(share=self.keep_share, least_messages=0),
            tools=("write_file", "edit_file"),
            characters=self.argument_characters,
            kept_characters=self.short_characters,
            mark=SHORTENED_MARK,
        )
        summarize = Summarize(
            middle=Middle(tail=LastOfWindow(share=self.keep_share)),
            format=Sections(titles=SECTIONS, opening=OPENING),
            max_tokens=self.summary_max_tokens,
            former="among",
            procedure=SUMMARY_PROCEDURE,
        )
        full = AnyOf((Full(measure="rescaled"), Full(measure="reported")))
        rules = (
            Rule(Full(measure="unedited"), shorten, quiet=True),
            Rule(full, summarize),
            Rule(Always(), summarize, moment="overflow"),
        )
        return Pipeline(ShareOfAvailable(share=self.threshold), rules, counter=COUNTER_WITH_SYSTEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicClear(_ClearToolUses):
    """Above 100,000 tokens of input, all but the results of the newest 3 tool uses become stubs.

    Source: anthropic-sdk-python 009b0353, types of `clear_tool_uses_20250919`, and the page "Context editing" of its platform;
    PEERS "Anthropic context editing" and 2.14. The provider does this to each request and leaves the session as it is: so the
    trigger looks at what the view would hold unedited. Different from the original: it counts with its own tokenizer, here
    characters / 4; its trigger by the number of tool uses is left out; what must be saved is what is cleared anew.

    Attributes:
        trigger_tokens: Clears when there are more than so many, counted as if nothing had been cleared yet. Default: `100_000`.
        keep_results: Results of the newest tool uses that stay, those of exempt tools among them. Default: `3`.
        least_saved_tokens: Nothing is cleared unless at least so many are saved (`clear_at_least` of the original). Default: `0`.
        clear_arguments: Whether the arguments of the cleared calls are emptied too. Default: `False`.
        exempt_tools: Tools whose results are never cleared. Default: `()`.
        stub: What stands in the place of a cleared result; the provider's text is not documented, ours. Default: `'[cleared]'`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    least_saved_tokens: NonNegative = 0
    kind: Literal["anthropic-clear-tool-uses"] = "anthropic-clear-tool-uses"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: mask, if it saves enough."""
        counter = QuarterOfCharacters()
        reducer = IfSaves(tokens=self.least_saved_tokens, reducer=self._build_mask(counter), counter=counter)
        return self._build_pipeline(reducer, counter, quiet=True)
