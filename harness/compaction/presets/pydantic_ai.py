"""Policies of pydantic-ai-harness, which summarize old messages, evict them, or clear old tool results.

Messages are counted in bundles: a bundle is one message, or all tool results of one answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.cuts import SNAP_BACK, LastTokens, Tail
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share, SummarizingPreset
from harness.compaction.stages import Mask, Reducer, group_results, is_from_user
from harness.compaction.summary_formats import Sections
from harness.compaction.triggers import Amount, AnyOf, DueAmounts, Full, check_triggers, make_budget_rule
from harness.compaction.wrappers import IfSaves
from harness.conversation.messages import Message, Part, ToolResult
from harness.conversation.plan import CompactionPlan, Excerpt, Slot, SummaryFormat, SummaryProcedure
from harness.conversation.tokens import Budget, Estimated, Usage, iter_texts
from harness.conversation.view import Item, View

CUT_MARK = "[...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortResults:
    """Rule that passes all messages to the summarizer, with long tool results cut."""

    characters: int
    """Maximum length in characters of a tool result that the summarizer reads, including the mark of the cut."""

    def select(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return all messages with each tool result cut to the configured number of characters."""
        return tuple(replace(message, parts=tuple(map(self._shorten_part, message.parts))) for message in messages)

    def _shorten_part(self, part: Part) -> Part:
        if not isinstance(part, ToolResult) or len(part.output) <= self.characters:
            return part
        beginning = part.output[: max(0, self.characters - len(CUT_MARK))]
        return replace(part, output=f"{beginning}{CUT_MARK}"[: self.characters])


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBundles:
    """Rule that retains a number of bundles (a message, or all tool results of one answer) at the end of the conversation."""

    count: int
    """Number of bundles (requests and answers) retained at the end of the conversation."""

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """Return the index at which the last `count` bundles begin; 0 if the conversation has fewer bundles."""
        bundles, count = group_results(items[1:]), max(1, self.count)
        return len(items) - sum(map(len, bundles[-count:])) if len(bundles) >= count else 0

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return the number of bundles (requests and answers) that are retained at the end, at least 1."""
        return Amount(max(1, self.count), "requests and answers")


class _BundleTally:
    """Running count of the bundles (requests and answers) after the newest tool result with a certain text."""

    __slots__ = ("_last", "_stub", "count")

    def __init__(self, stub: str | None) -> None:
        self._stub = stub
        self._last: str | None = None
        self.count = -1
        """Number of bundles (requests and answers) counted so far, without the system message."""

    def add(self, item: Item) -> None:
        """Count the next message as a new bundle, unless it is a further tool result of the same answer."""
        role, stub = item.message.role, self._stub
        self.count += not role == self._last == "tool"
        self._last = role
        if stub is not None and role == "tool" and any(result.output == stub for result in item.message.results):
            self.count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreBundles:
    """Trigger that makes the policy act when the conversation has more bundles (requests and answers) than a limit."""

    count: int
    """Number of bundles (requests and answers) above which compaction is triggered."""
    stub: str | None = None
    """Text of a cleared tool result; only bundles after the newest result with this text are counted. None counts all bundles."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return a reason if there are more than `count` bundles (requests and answers); None otherwise."""
        key = _BundleTally, self.stub
        count = view.tally_cache.read(view.items, key, lambda: _BundleTally(self.stub), lambda tally: tally.count)
        since = "" if self.stub is None else " since results were cleared"
        return f"more than {self.count} requests and answers{since}" if count > self.count else None

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return the smallest number of requests and answers that triggers compaction: `count` + 1."""
        return DueAmounts(amounts=(Amount(self.count + 1, "requests and answers"),))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetExceptRequest:
    """Part of a policy that evicts old messages, except the newest ones and, if configured, the user's first message."""

    tail: Tail
    """Rule that selects the messages retained at the end of the conversation."""
    keep_request: bool
    """Whether the user's first message always stays in view, although it is older than the other retained messages."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that evicts all but the newest messages and, if `keep_request` is set, the user's first one."""
        before = view.items[1 : SNAP_BACK.find_legal_index(view.items, self.tail.find_start(view.items, budget))]
        request = find_request(view, len(before) + 1) if self.keep_request else None
        removed_ids = tuple(item.item_id for item in before if item is not request)
        return CompactionPlan(
            reason=reason if removed_ids else f"{reason}, but nothing lies before the kept messages", forget=removed_ids
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeExceptRequest:
    """Part of a policy that replaces all but the newest messages by a summary, which is inserted behind the user's first message.

    The user's first message is summarized and also retained verbatim.
    """

    tail: Tail
    """Rule that selects the messages retained at the end of the conversation."""
    keep_request: bool
    """Whether the user's first message is retained in addition to being summarized."""
    format: SummaryFormat
    """Format that builds the prompt for the summarizer and the text of the summary that is inserted into the view."""
    max_tokens: int
    """Maximum number of tokens that the summarizer may write."""
    updates: bool
    """Whether a former summary is passed to the summarizer separately and replaced, instead of being summarized like a
    message."""
    only_news: bool
    """Whether a summary is requested only if it would cover new messages besides the user's first one."""
    excerpt: Excerpt
    """Rule that prepares the messages for the summarizer, for example by shortening long tool results."""
    procedure: SummaryProcedure
    """Procedure, such as one retry, for a summary that fails or is empty."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that replaces all but the newest messages by a summary behind the user's first message."""
        cut = SNAP_BACK.find_legal_index(view.items, self.tail.find_start(view.items, budget))
        request = find_request(view, cut) if self.keep_request else None
        former = [item for item in view.items if item.item_id in view.summaries]
        news = [item for item in view.items[1:cut] if item not in former and item is not request]
        if cut <= 1 or (self.only_news and not news):
            return CompactionPlan(reason=f"{reason}, but nothing lies before the kept messages")
        summarized_items = [*view.items[1:cut], *(item for item in former if self.updates and item not in view.items[1:cut])]
        slot = Slot(
            after=(request or view.items[0]).item_id,
            role="user",
            stands_for=tuple(item.item_id for item in summarized_items),
            format=self.format,
            max_tokens=self.max_tokens,
            former="apart" if self.updates else "among",
            excerpt=self.excerpt,
            procedure=self.procedure,
        )
        return CompactionPlan(
            reason=reason, forget=tuple(item.item_id for item in summarized_items if item is not request), slots=(slot,)
        )


def find_request(view: View, end: int) -> Item | None:
    """Return the user's first message before an index of the conversation, or None if there is none."""
    return next((item for item in view.items[1:end] if is_from_user(view, item)), None)


SECTIONS = ("Intent", "Key decisions", "Artifacts", "Current state", "Next steps", "Open questions")


OPENING = "(Summary of the conversation so far.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarterOfTexts:
    """Token counter that estimates `ceil(characters / 4)` for each text of a message and adds the estimates.

    The name and the arguments of a call are separate texts, and an image counts as its text only. Without a tokenizer, the
    original instead divides the characters of all messages together and rounds down.
    """

    kind: Literal["ceil-texts/4"] = "ceil-texts/4"

    def count(self, message: Message) -> Estimated:
        """Return the estimated number of tokens in a message, rounded up for each of its texts."""
        return Estimated(sum(-(-len(text) // 4) for text in iter_texts(message)))


COUNTER = QuarterOfTexts()


RETRY_REQUEST = "The answer was empty. Write the summary."


DEFAULT_WINDOW_TOKENS = 200_000
"""Context window in tokens of which `trigger_share` is a share if the window of the model is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PydanticAi(Preset):
    """Base of the three policies of pydantic-ai-harness, with the fields that set when compaction is triggered.

    The original library has no default for these fields, so each policy sets its own.

    Attributes:
        trigger_share: Share of the window above which compaction is triggered, measured by the provider's last report and an
            estimate of later messages. A window of 200,000 tokens is assumed if that of the model is unknown. None disables this
            trigger. Default: `None`.
        trigger_tokens: Number of tokens in the conversation above which compaction is triggered; cannot be combined with
            `trigger_share`. Default: `None`.
        trigger_messages: Number of requests and answers above which compaction is triggered as well. Default: `None`.
    """

    trigger_share: Share | None = None
    trigger_tokens: Positive | None = None
    trigger_messages: Positive | None = None

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy with these settings changed since version 0.1.

        The only change: if `trigger_share` is set and the window of the model is unknown, 200,000 tokens are assumed, as in the
        original; before, the share triggered nothing.
        """
        return int(self.trigger_share is not None)

    @property
    def _assumed_window_tokens(self) -> int | None:
        return None if self.trigger_share is None else DEFAULT_WINDOW_TOKENS

    def check_combination(self) -> None:
        check_triggers(self.trigger_share, self.trigger_tokens, self.trigger_messages)

    def _build_pipeline(self, reducer: Reducer, stub: str | None = None) -> Pipeline:
        full = Full(measure="reported-and-since", above=True)
        many_messages = () if self.trigger_messages is None else (MoreBundles(count=self.trigger_messages, stub=stub),)
        rule = Rule(AnyOf((*many_messages, full)), reducer)
        description = f"more than {self.trigger_messages} requests and answers"
        budget_rule = make_budget_rule(self.trigger_share, self.trigger_tokens, description)
        return Pipeline(budget_rule, (rule,), counter=COUNTER)


def _make_tail(keep_messages: int, keep_tokens: int | None) -> Tail:
    return LastBundles(count=keep_messages) if keep_tokens is None else LastTokens(tokens=keep_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class PydanticSummary(_PydanticAi, SummarizingPreset):
    """Policy that, above 90 % of the window, summarizes all but the user's first message and the newest 20 requests and answers.

    Choose it when you compare agents built with pydantic-ai-harness, or want a summary that keeps the first request verbatim.

    Source: pydantic-ai-harness 0.62.0, `compaction/_summarizing_compaction.py`, with the trigger of its documentation.

    The user's first message is also summarized. A former summary is updated, even if it lies among the newest messages. The
    summarizer reads 500 characters of each result. If the summary fails or is empty after one retry, the conversation stays
    unchanged.

    Differences from the original:

    - The original ends the run after a failed or empty summary.
    - Each queued message of the user counts as a request.
    - `keep_tokens` is compared with estimates instead of shares of the provider's report.
    - A summary begins with an introductory line, whose tokens count.
    - A message of the user that no request has contained yet stays; the original may summarize it.

    Attributes:
        trigger_share: Share of the window above which compaction is triggered, measured by the provider's last report and an
            estimate of later messages. A window of 200,000 tokens is assumed if that of the model is unknown. None disables this
            trigger. Default: `0.9`.
        keep_messages: Number of newest requests and answers that are retained, at least one; more if a tool result would be
            separated from its call. Default: `20`.
        keep_tokens: Minimum number of tokens in the retained newest messages; replaces `keep_messages` if set. Default: `None`.
        keep_request: Whether the user's first message always stays in view. Default: `True`.
        incremental: Whether the summarizer receives the former summary separately, to update it, instead of among the messages.
            Default: `True`.
        result_characters: Maximum length in characters of a tool result that the summarizer reads. Default: `500`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Retain 6,000 tokens instead of a number of messages:

        >>> from harness.policies import PydanticSummary
        >>> from harness.conversation.tokens import Window
        >>> policy = PydanticSummary(trigger_share=0.7, keep_tokens=6_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        22937
    """

    trigger_share: Share | None = 0.9
    keep_messages: NonNegative = 20
    keep_tokens: Positive | None = None
    keep_request: bool = True
    incremental: bool = True
    result_characters: Positive = 500
    kind: Literal["pydantic-summary"] = "pydantic-summary"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy with these settings changed since version 0.1.

        If `trigger_share` is set and the window of the model is unknown, 200,000 tokens are assumed, as in the original; before,
        the share triggered nothing.

        A message of the user that no request has contained yet now stays in view.
        """
        return 1 + (self.trigger_share is not None)

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which summarizes everything but the newest messages and the user's first message."""
        summarize = SummarizeExceptRequest(
            tail=_make_tail(self.keep_messages, self.keep_tokens),
            keep_request=self.keep_request,
            format=Sections(titles=SECTIONS, opening=OPENING),
            max_tokens=self.summary_max_tokens,
            updates=self.incremental,
            only_news=self.keep_tokens is not None,
            excerpt=ShortResults(characters=self.result_characters),
            procedure=SummaryProcedure(retry_text=RETRY_REQUEST),
        )
        return self._build_pipeline(summarize)


@dataclass(frozen=True, slots=True, kw_only=True)
class PydanticWindow(_PydanticAi):
    """Policy that, above 80 requests and answers, evicts all of them but the user's first message and the newest 40.

    Choose it when you compare agents built with pydantic-ai-harness, or want a sliding window that keeps the first request.

    Source: pydantic-ai-harness 0.62.0, `compaction/_sliding_window_compaction.py`, with the trigger of its documentation.

    A request is a message of the user, or all tool results of one answer.

    Differences from the original:

    - Each queued message of the user counts as a request.
    - `keep_tokens` is compared with estimated tokens.
    - A message of the user that no request has contained yet stays; the original may evict it.

    Attributes:
        trigger_messages: Number of requests and answers above which compaction is triggered; all results of one answer are one
            request. Default: `80`.
        keep_messages: Number of newest requests and answers that are retained, at least one; more if a tool result would be
            separated from its call. Default: `40`.
        keep_tokens: Minimum number of tokens in the retained newest messages; replaces `keep_messages` if set. Default: `None`.
        keep_request: Whether the user's first message always stays in view. Default: `True`.

    Example:
        Bound the conversation to half as many messages:

        >>> from harness.policies import PydanticWindow
        >>> from harness.conversation.tokens import Window
        >>> policy = PydanticWindow(trigger_messages=40, keep_messages=20)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).rule
        'more than 40 requests and answers'
    """

    trigger_messages: Positive | None = 80
    keep_messages: NonNegative = 40
    keep_tokens: Positive | None = None
    keep_request: bool = True
    kind: Literal["pydantic-window"] = "pydantic-window"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy with these settings changed since version 0.1.

        If `trigger_share` is set and the window of the model is unknown, 200,000 tokens are assumed, as in the original; before,
        the share triggered nothing.

        A message of the user that no request has contained yet now stays in view.
        """
        return 1 + (self.trigger_share is not None)

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which evicts everything but the newest messages and the user's first message."""
        tail = _make_tail(self.keep_messages, self.keep_tokens)
        return self._build_pipeline(ForgetExceptRequest(tail=tail, keep_request=self.keep_request))


@dataclass(frozen=True, slots=True, kw_only=True)
class PydanticClear(_PydanticAi):
    """Policy that, above 100,000 tokens, clears all tool results but the newest 3.

    Choose it when you compare agents built with pydantic-ai-harness, or want clearing triggered by tokens or by messages.

    Source: pydantic-ai-harness 0.62.0, `compaction/_clear_tool_results.py`, with the trigger of its documentation.

    `trigger_messages` counts the requests and answers since the newest cleared result.

    Attributes:
        trigger_share: Share of the window above which tool results are cleared, measured by the provider's last report and an
            estimate of later messages. A window of 200,000 tokens is assumed if that of the model is unknown. None disables this
            trigger. Default: `None`.
        trigger_tokens: Number of tokens in the conversation above which tool results are cleared; cannot be combined with
            `trigger_share`. Default: `100_000`.
        trigger_messages: Number of requests and answers since the newest cleared result above which results are cleared as well.
            Default: `None`.
        keep_results: Number of newest tool results that are never cleared; results of exempt tools count among them.
            Default: `3`.
        least_saved_tokens: Minimum number of tokens that clearing must save, or else nothing is cleared; None clears every old
            result, even one that is shorter than `stub`. Default: `None`.
        clear_arguments: Whether the arguments of calls whose results are cleared are removed as well. Default: `False`.
        exempt_tools: Names of tools whose results are never cleared. Default: `()`.
        stub: Text that replaces a cleared tool result. Default: `'[tool result cleared]'`.

    Example:
        Clear results above 60 % of the window instead of a fixed number of tokens:

        >>> from harness.policies import PydanticClear
        >>> from harness.conversation.tokens import Window
        >>> policy = PydanticClear(trigger_share=0.6, trigger_tokens=None, keep_results=5)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        19660
    """

    trigger_tokens: Positive | None = 100_000
    keep_results: NonNegative = 3
    least_saved_tokens: NonNegative | None = None
    clear_arguments: bool = False
    exempt_tools: tuple[str, ...] = ()
    stub: str = "[tool result cleared]"
    kind: Literal["pydantic-clear"] = "pydantic-clear"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which clears old tool results, provided that it saves enough tokens."""
        mask = Mask(
            stub=self.stub,
            keep_results=self.keep_results,
            exempt_tools=self.exempt_tools,
            exempt_count=True,
            clear_arguments=self.clear_arguments,
        )
        if self.least_saved_tokens is None:
            return self._build_pipeline(mask, stub=self.stub)
        return self._build_pipeline(IfSaves(tokens=self.least_saved_tokens, reducer=mask, counter=COUNTER), stub=self.stub)
