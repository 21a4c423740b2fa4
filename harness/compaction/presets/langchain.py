"""Policies of LangChain and deepagents, and clearing of old tool results as in Anthropic's API and in LangChain."""

import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

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
    make_budget_rule,
)
from harness.compaction.wrappers import IfSaves
from harness.conversation import transcript
from harness.conversation.events import Replace
from harness.conversation.messages import Message, Part, ToolCall, user
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Counter, Estimated, QuarterOfCharacters
from harness.conversation.view import Item, View
from harness.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortenArguments:
    """Part of a policy that cuts long arguments of old tool calls to their beginning, followed by a mark.

    While no tool call in view has long arguments, each run reads only the messages added since the last run.
    """

    tail: Tail
    """Rule for the newest messages in the conversation; their tool calls are not shortened."""
    tools: tuple[str, ...]
    """Names of the tools whose call arguments are shortened."""
    characters: int
    """Length in characters above which an argument of an old call is shortened."""
    kept_characters: int
    """Number of characters at the beginning of a shortened argument that are kept."""
    mark: str
    """Text that follows the kept beginning of a shortened argument."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that shortens long arguments of old tool calls; empty if there are none."""
        first = view.tally_cache.read(view.items, self, lambda: _LongCallTally(self), lambda tally: tally.first)
        start = 0 if first is None else self.tail.find_start(view.items, budget)
        changes = [change for item in view.items[first:start] if (change := self.shorten_item(item))]
        outcome = f"; long arguments of {len(changes)} old answers" if changes else ", but no old call is long"
        return CompactionPlan(reason=f"{reason}{outcome}", replace=tuple(changes))

    def shorten_item(self, item: Item) -> Replace | None:
        """Return a message with its long tool call arguments shortened; None if it has no long argument."""
        if item.message.role != "assistant":
            return None
        parts = tuple(map(self._shorten_part, item.message.parts))
        return Replace(item=item.item_id, message=replace(item.message, parts=parts)) if parts != item.message.parts else None

    def _shorten_part(self, part: Part) -> Part:
        if not isinstance(part, ToolCall) or part.name not in self.tools or len(part.arguments_json) <= self.characters:
            return part
        arguments = dict(transcript.parse_arguments(part))
        long = {name: text for name, text in arguments.items() if isinstance(text, str) and len(text) > self.characters}
        if not long:
            return part
        short = {name: f"{text[: self.kept_characters]}{self.mark}" for name, text in long.items()}
        return replace(part, arguments_json=json.dumps(arguments | short, ensure_ascii=False))


class _LongCallTally:
    """Search for the first message with a long tool call argument, which reads each message only once."""

    __slots__ = ("_count", "_stage", "first")

    def __init__(self, stage: ShortenArguments) -> None:
        self._stage = stage
        self._count = 0
        self.first: int | None = None

    def add(self, item: Item) -> None:
        if self.first is None and self._stage.shorten_item(item):
            self.first = self._count
        self._count += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LastOfWindow:
    """Rule that retains as many messages at the end of the conversation as fit a share of the context window."""

    share: float
    """Share of the context window that the retained messages may fill."""
    least_messages: int = 1
    """Minimum number of messages retained at the end of the conversation, however long they are."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the index from which on the messages fit the share of the window."""
        tokens = max(1, int(budget.window_tokens * self.share))
        return LastTokens(tokens=tokens, reaching=False, least_messages=self.least_messages).find_start(items, budget)

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return the number of tokens that the retained messages may fill; None if the window is unknown."""
        return Amount(int(self.share * budget.window_tokens), "tokens") if budget.window_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestFromUser:
    """Rule that selects what the summarizer reads: the newest messages that fit a token limit, beginning at a user message.

    If the user also wrote the message directly before the selected ones, as many of its last lines as fit are added. If none of
    the newest messages was written by the user, nothing is selected.
    """

    tokens: int
    """Maximum number of tokens that the summarizer reads."""
    counter: Counter
    """Token counter with which the messages for the summarizer are measured."""

    def select(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the newest messages that fit the token limit, beginning at a user message; may be empty."""
        start, room = len(messages), self.tokens
        while start and (message_tokens := self.counter.count(messages[start - 1])) <= room:
            start, room = start - 1, room - message_tokens
        if start and messages[start - 1].role == "user" and (end := self._take_last_lines(messages[start - 1], room)):
            return (user(end), *messages[start:])
        while start < len(messages) and messages[start].role != "user":
            start += 1
        return messages[start:]

    def _take_last_lines(self, message: Message, room: int) -> str:
        """Return as many of the last lines of a message as fit into `room` tokens."""
        lines = transcript.extract_text(message).split("\n")
        ends = ["\n".join(lines[len(lines) - count :]) for count in range(1, len(lines) + 1)]
        fitting = bisect_right(ends, room, key=lambda end: self.counter.count(user(end)))
        return ends[fitting - 1] if fitting else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutMiddle:
    """Way to shorten a summarizer's prompt that is too long, once only: leave out the middle of the transcript."""

    share: float
    """Share of the transcript's characters that the shortened prompt for the summarizer keeps."""
    head_share: float
    """Share of the kept characters that comes from the beginning of the transcript; the rest comes from its end."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """Return the beginning and end of the transcript as one message; empty after the first attempt."""
        text = transcript.render(messages)
        kept_characters = int(self.share * len(text))
        head = int(self.head_share * kept_characters)
        if attempt > 1 or not kept_characters:
            return ()
        tail = text[len(text) - kept_characters + head :]
        return (user(f"{text[:head]}\n\n(The middle of the conversation is left out here.)\n\n{tail}"),)


SECTIONS = ("SESSION INTENT", "SUMMARY", "ARTIFACTS", "NEXT STEPS")


OPENING = "(Summary of the conversation so far.)"


SHORTENED_MARK = "...(the rest of this argument was left out)"


TOO_LONG_SUMMARY = "(The conversation before this was too long to be summarized.)"


SUMMARY_PROCEDURE = replace(ACCEPT_EMPTY, shorter=WithoutMiddle(share=0.5, head_share=0.25))
"""Procedure for failed summaries, which asks once more, with half of the transcript, if the prompt is too long.

An empty answer of the summarizer is accepted as the summary.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CharactersAndOverhead:
    """Token counter that divides a message's number of characters by a constant and adds a fixed number for each message.

    Source: langchain-core 1.7.2, `messages/utils.py`.

    Tool calls are counted as LangChain writes them, as a list of dictionaries. Tool schemas do not count, because a policy does
    not see them. The trigger, not this counter, corrects the estimate by the provider's report.
    """

    characters_per_token: float = 4.0
    """Number of characters that count as one token."""
    overhead_tokens: int = 3
    """Number of tokens added for each message, whatever its length."""
    image_tokens: int = 85
    """Number of tokens added for each image, whatever its size."""
    with_system: bool = False
    """Whether the system message is counted; LangChain's own middleware does not receive it."""
    kind: Literal["characters-and-overhead"] = "characters-and-overhead"

    def count(self, message: Message) -> Estimated:
        """Return the estimated number of tokens in a message; 0 for a system message unless `with_system` is set."""
        if message.role == "system" and not self.with_system:
            return Estimated(0)
        calls = [
            {"name": call.name, "args": dict(transcript.parse_arguments(call)), "id": call.call_id, "type": "tool_call"}
            for call in message.calls
        ]
        characters = len(transcript.extract_text(message)) + len(message.role) + (len(repr(calls)) if calls else 0)
        characters += sum(len(result.call_id) + len(result.name) for result in message.results)
        images = sum(part.kind == "image" for part in message.parts)
        text_tokens = math.ceil(characters / self.characters_per_token)
        return Estimated(text_tokens + self.overhead_tokens + images * self.image_tokens)


COUNTER = CharactersAndOverhead()


COUNTER_WITH_SYSTEM = CharactersAndOverhead(with_system=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClearToolUses(Preset):
    """Base of the policies that clear old tool results once the conversation exceeds a number of tokens.

    Attributes:
        trigger_tokens: Number of tokens in the conversation above which tool results are cleared; cleared results count with
            their original length. Default: `100_000`.
        keep_results: Number of newest tool results that are never cleared; results of exempt tools count among them. Default:
            `3`.
        clear_arguments: Whether the arguments of calls whose results are cleared are removed as well. Default: `False`.
        exempt_tools: Names of tools whose results are never cleared. Default: `()`.
        stub: Text that replaces a cleared tool result. Default: `'[cleared]'`.
    """

    trigger_tokens: Positive = 100_000
    keep_results: NonNegative = 3
    clear_arguments: bool = False
    exempt_tools: tuple[str, ...] = ()
    stub: str = "[cleared]"

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

    def _build_pipeline(self, reducer: Reducer, counter: Counter) -> Pipeline:
        rule = Rule(Full(measure="unedited", above=True), reducer, quiet=True)
        return Pipeline(FixedTokens(tokens=self.trigger_tokens), (rule,), counter=counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class LangChainClear(_ClearToolUses):
    """Policy that, above 100,000 tokens, clears all tool results but the newest 3.

    Choose it when you compare agents that use LangChain's context editing, or for large tool outputs without a summarizer.

    Source: LangChain 1.4.7, `context_editing.py`, ClearToolUsesEdit with its defaults.

    The original edits a copy of the whole history for each request; here the edit is logged once, and the result stays cleared.
    Both are equivalent, because the trigger measures the conversation as if nothing had been cleared.

    Attributes:
        enough_tokens: Number of tokens to save, after which no further result is cleared (`clear_at_least` of the original); 0
            clears all but the newest results. Default: `0`.

    Example:
        Clear results above 20,000 tokens, and only as many as save 5,000 tokens:

        >>> from harness.policies import LangChainClear
        >>> from harness.conversation.tokens import Window
        >>> policy = LangChainClear(trigger_tokens=20_000, enough_tokens=5_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).rule
        '20,000 tokens, fixed'
    """

    enough_tokens: NonNegative = 0
    kind: Literal["langchain-clear-tool-uses"] = "langchain-clear-tool-uses"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change: attempts that find nothing to clear are not logged and do not pause the policy, as in the original.
        """
        return 1

    def check_combination(self) -> None:
        """Raise UsageError if `enough_tokens` is combined with `clear_arguments`."""
        if self.enough_tokens and self.clear_arguments:
            reason = "cannot be combined with clear_arguments, because it counts results only"
            raise UsageError(f"enough_tokens={self.enough_tokens!r} {reason}; unset one of them")

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which clears old tool results once the conversation exceeds a number of tokens."""
        mask = self._build_mask(COUNTER, self.enough_tokens)
        return self._build_pipeline(mask, COUNTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class LangChainSummary(SummarizingPreset):
    """Policy that, at 80 % of the window, summarizes everything before the newest 20 messages, the user's request included.

    Choose it when you compare agents that use LangChain's summarization middleware. Set `trim_tokens=None` for useful summaries
    of long runs.

    Source: LangChain 1.4.7, `summarization.py`.

    The original has no default trigger; 0.8 of the window is the example of its documentation. As in the original, the trigger
    corrects its token estimate by the provider's report, but the limit `trim_tokens` uses the plain estimate.

    By default the summarizer reads only the last 4,000 tokens, beginning at a message of the user. In a long run without user
    messages it therefore reads nothing: the summary is then a fixed sentence, and no model is asked. `trim_tokens=None` passes
    all messages.

    If the prompt is too long for the summarizer, one more request is made with half of the transcript, without its middle.

    If the summary fails, the conversation stays unchanged, while the original ends the run. An empty summary is accepted.

    One difference from the original: a message of the user that no request has contained yet stays; the original may summarize
    it.

    Attributes:
        trigger_share: Share of the window that triggers compaction, measured by estimate or by the provider's last report; None
            disables this trigger. Default: `0.8`.
        trigger_tokens: Number of tokens in the conversation that triggers compaction; cannot be combined with `trigger_share`.
            Default: `None`.
        trigger_messages: Number of messages, without the system message, at which compaction is triggered as well.
            Default: `None`.
        keep_messages: Number of newest messages that are retained; more if a tool result would be separated from its call.
            Default: `20`.
        keep_tokens: Maximum number of tokens in the retained newest messages, of which there is at least one; replaces
            `keep_messages` if set. Default: `None`.
        keep_share: Maximum share of the window that the retained newest messages may fill; replaces `keep_messages` and
            `keep_tokens` if set. Default: `None`.
        trim_tokens: Maximum number of tokens in the newest messages that the summarizer reads; None passes all messages.
            Default: `4_000`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Let the summarizer read all messages, and retain the newest ones, up to a quarter of the window:

        >>> from harness.policies import LangChainSummary
        >>> from harness.conversation.tokens import Window
        >>> policy = LangChainSummary(trigger_share=0.7, keep_share=0.25, trim_tokens=None)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        22937
    """

    trigger_share: Share | None = 0.8
    trigger_tokens: Positive | None = None
    trigger_messages: Positive | None = None
    keep_messages: Positive = 20
    keep_tokens: Positive | None = None
    keep_share: Share | None = None
    trim_tokens: Positive | None = 4_000
    kind: Literal["langchain-summary"] = "langchain-summary"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change: a message of the user that no request has contained yet now stays in view.
        """
        return 1

    def check_combination(self) -> None:
        """Raise UsageError if the triggers or the retained amounts contradict each other, or if no trigger is set."""
        check_triggers(self.trigger_share, self.trigger_tokens, self.trigger_messages)
        if self.keep_tokens is not None and self.keep_share is not None:
            raise UsageError(f"keep_tokens={self.keep_tokens!r} and keep_share cannot be combined; unset one of them")

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which summarizes everything before the newest messages."""
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
        budget_rule = make_budget_rule(self.trigger_share, self.trigger_tokens, f"at {self.trigger_messages} messages")
        return Pipeline(budget_rule, (rule,), counter=COUNTER)

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
    """Policy that, at 85 % of the window, shortens long tool call arguments and, if needed, summarizes all but the last 10 %.

    Choose it when you compare agents built with deepagents, or agents that write large files: long arguments are shortened first.

    Source: deepagents 0.7.32, `middleware/summarization.py`, with the sizes of its factory.

    The user's request is summarized with the rest, and the summarizer reads all messages. A refused prompt triggers a summary
    too.

    A prompt that is too long for the summarizer is shortened as in `langchain-summary`. An empty summary is accepted. If the
    summary fails, the conversation stays unchanged.

    Differences from the original:

    - The original ends the run after a failed summary.
    - Evicted messages are not written to a file, because the log holds them.
    - Shortened arguments stay short in retained answers.
    - The token count is not corrected by the provider's report after arguments were shortened.
    - Results are not cut after a refused prompt.
    - An unknown window disables compaction instead of setting a threshold of 170,000 tokens.
    - A message of the user that no request has contained yet stays; the original may summarize it.

    Attributes:
        threshold: Share of the window that triggers compaction, measured by estimate or by the provider's last report, above 0
            and at most 1. Default: `0.85`.
        keep_share: Maximum share of the window that the retained newest messages may fill, above 0 and at most 1; at least one
            message is retained. Default: `0.1`.
        argument_characters: Length in characters above which an argument of an old call that writes a file is shortened.
            Default: `2_000`.
        short_characters: Number of characters at the beginning of a shortened argument that are kept. Default: `20`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Compact at 70 % of the window and retain the newest 20 %:

        >>> from harness.policies import DeepAgents
        >>> from harness.conversation.tokens import Window
        >>> policy = DeepAgents(threshold=0.7, keep_share=0.2)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        22937
    """

    threshold: Share = 0.85
    keep_share: Share = 0.1
    argument_characters: Positive = 2_000
    short_characters: NonNegative = 20
    kind: Literal["deepagents"] = "deepagents"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change: a message of the user that no request has contained yet now stays in view.
        """
        return 1

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which cut long arguments and then summarize at the threshold, or summarize after an overflow."""
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
            Rule(Always(), summarize, hook="overflow"),
        )
        return Pipeline(ShareOfAvailable(share=self.threshold), rules, counter=COUNTER_WITH_SYSTEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicClear(_ClearToolUses):
    """Policy that, above 100,000 tokens of input, clears all tool results but those of the newest 3 tool uses.

    Choose it to study server-side context editing of the Anthropic API, or when tool results are large and quickly outdated.

    Source: Anthropic API, `clear_tool_uses_20250919`, by the types of anthropic-sdk-python 009b0353 and the page "Context
    editing".

    The provider edits each request and leaves the session as it is, so the trigger measures the conversation as if nothing had
    been cleared.

    Differences from the original:

    - Tokens are estimated as characters / 4.
    - There is no trigger by the number of tool uses.
    - `least_saved_tokens` counts only newly cleared results.

    Attributes:
        least_saved_tokens: Minimum number of tokens that clearing must save, or else nothing is cleared (`clear_at_least` of the
            original). Default: `0`.
        stub: Text that replaces a cleared tool result; the provider's own text is not documented. Default: `'[cleared]'`.

    Example:
        Clear results above 20,000 tokens, as fits a window of 32,768, but never what `read_file` returned:

        >>> from harness.policies import AnthropicClear
        >>> from harness.conversation.tokens import Window
        >>> policy = AnthropicClear(trigger_tokens=20_000, exempt_tools=("read_file",))
        >>> policy.budget(Window(tokens=32_768, source="configuration")).rule
        '20,000 tokens, fixed'
    """

    least_saved_tokens: NonNegative = 0
    kind: Literal["anthropic-clear-tool-uses"] = "anthropic-clear-tool-uses"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which clears old tool results if that saves enough tokens."""
        counter = QuarterOfCharacters()
        reducer = IfSaves(tokens=self.least_saved_tokens, reducer=self._build_mask(counter), counter=counter)
        return self._build_pipeline(reducer, counter)
