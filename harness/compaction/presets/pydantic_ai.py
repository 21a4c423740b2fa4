"""Three of the strategies of pydantic-ai-harness: summarize, drop, clear. It counts messages as it sends them: see `bundles`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.cuts import SNAP_BACK, LastTokens, Tail
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share, SummarizingPreset
from harness.compaction.stages import Mask, Reducer, group_results, is_from_user
from harness.compaction.summary_formats import Sections
from harness.compaction.triggers import Amount, AnyOf, DueAmounts, Full, check_triggers, make_division
from harness.compaction.wrappers import IfSaves
from harness.messages import Message, Part, ToolResult
from harness.plan import Excerpt, Plan, Slot, SummaryFormat, SummaryProcedure
from harness.tokens import Budget, Estimated, Usage, iter_texts
from harness.view import Item, View

CUT_MARK = "[...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortResults:
    """Shows all messages, of each tool result no more than so many characters, the mark of the cut counted in."""

    characters: int

    def select(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """See `harness.plan.Excerpt`."""
        return tuple(replace(message, parts=tuple(map(self._shorten_part, message.parts))) for message in messages)

    def _shorten_part(self, part: Part) -> Part:
        if not isinstance(part, ToolResult) or len(part.output) <= self.characters:
            return part
        beginning = part.output[: max(0, self.characters - len(CUT_MARK))]
        return replace(part, output=f"{beginning}{CUT_MARK}"[: self.characters])


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBundles:
    """So many bundles, at least one; the system message is none."""

    count: int

    def find_start(self, items: Sequence[Item], budget: Budget) -> int:
        """See `harness.compaction.cuts.Tail`."""
        bundles, count = group_results(items[1:]), max(1, self.count)
        return len(items) - sum(map(len, bundles[-count:])) if len(bundles) >= count else 0

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.cuts.Tail`."""
        return Amount(max(1, self.count), "requests and answers")


class _BundleTally:
    """The tally of bundles behind the newest one with a stub. See `harness.tally_cache`."""

    __slots__ = ("_last", "_stub", "count")

    def __init__(self, stub: str | None) -> None:
        self._stub = stub
        self._last: str | None = None
        self.count = -1
        """The system message is none."""

    def add(self, item: Item) -> None:
        """See `harness.tally_cache.Tally`."""
        role, stub = item.message.role, self._stub
        self.count += not role == self._last == "tool"
        self._last = role
        if stub is not None and role == "tool" and any(result.output == stub for result in item.message.results):
            self.count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreBundles:
    """More than so many bundles have come since the newest result with a certain text, or at all."""

    count: int
    stub: str | None = None
    """The text; None = all that is in view counts."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `harness.compaction.triggers.Trigger`."""
        key = _BundleTally, self.stub
        count = view.tally_cache.read(view.items, key, lambda: _BundleTally(self.stub), lambda tally: tally.count)
        since = "" if self.stub is None else " since results were cleared"
        return f"more than {self.count} requests and answers{since}" if count > self.count else None

    def state_due(self, budget: Budget) -> DueAmounts:
        """See `harness.compaction.triggers.Trigger`."""
        return DueAmounts(amounts=(Amount(self.count + 1, "requests and answers"),))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetExceptRequest:
    """What lies before the tail goes, but for the first message of the user."""

    tail: Tail
    keep_request: bool
    """Whether that message stays."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        before = view.items[1 : SNAP_BACK.find_legal_index(view.items, self.tail.find_start(view.items, budget))]
        kept = find_request(view, len(before) + 1) if self.keep_request else None
        gone = tuple(item.item_id for item in before if item is not kept)
        return Plan(reason=reason if gone else f"{reason}, but nothing lies before the kept messages", forget=gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeExceptRequest:
    """What lies before the tail becomes a summary behind the first message of the user, which is told and stays."""

    tail: Tail
    keep_request: bool
    """Whether that message stays."""
    format: SummaryFormat
    max_tokens: int
    """Output limit that the summarizer is given."""
    updates: bool
    """Whether a former summary, wherever it stands, is told apart and replaced, instead of being a message like the others."""
    only_news: bool
    """Whether nobody is asked where nothing but that message and a former summary lies before the tail."""
    excerpt: Excerpt
    procedure: SummaryProcedure

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        cut = SNAP_BACK.find_legal_index(view.items, self.tail.find_start(view.items, budget))
        kept = find_request(view, cut) if self.keep_request else None
        former = [item for item in view.items if item.item_id in view.summaries]
        news = [item for item in view.items[1:cut] if item not in former and item is not kept]
        if cut <= 1 or (self.only_news and not news):
            return Plan(reason=f"{reason}, but nothing lies before the kept messages")
        summarized_items = [*view.items[1:cut], *(item for item in former if self.updates and item not in view.items[1:cut])]
        slot = Slot(
            after=(kept or view.items[0]).item_id,
            role="user",
            stands_for=tuple(item.item_id for item in summarized_items),
            format=self.format,
            max_tokens=self.max_tokens,
            former="apart" if self.updates else "among",
            excerpt=self.excerpt,
            procedure=self.procedure,
        )
        return Plan(reason=reason, forget=tuple(item.item_id for item in summarized_items if item is not kept), slots=(slot,))


def find_request(view: View, end: int) -> Item | None:
    """The first message of the user before a place, if there is one."""
    return next((view.items[index] for index in range(1, end) if is_from_user(view, index)), None)


SECTIONS = ("Intent", "Key decisions", "Artifacts", "Current state", "Next steps", "Open questions")


OPENING = "(Summary of the conversation so far.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarterOfTexts:
    """`ceil(characters / 4)` for each text of a message, name and arguments of a call apart: as a tokenizer would be asked.

    Without a tokenizer the original divides the characters of all messages once and rounds down.
    """

    kind: Literal["ceil-texts/4"] = "ceil-texts/4"

    def count(self, message: Message) -> Estimated:
        """Tokens of one message, each of its texts rounded up."""
        return Estimated(sum(-(-len(text) // 4) for text in iter_texts(message)))


COUNTER = QuarterOfTexts()


RETRY_REQUEST = "The answer was empty. Write the summary."


@dataclass(frozen=True, slots=True, kw_only=True)
class _PydanticAi(Preset):
    """What the three share: the trigger. The original has none unless it is given one."""

    trigger_share: Share | None = None
    """Share of the window above which the view is compacted, by the last report and the estimate of what came since."""
    trigger_tokens: Positive | None = None
    """The same as a number of tokens; only one of the two may be set."""
    trigger_messages: Positive | None = None
    """Requests and answers above which it is compacted too, all results of an answer being one request."""

    def check_combination(self) -> None:
        """See `Preset`."""
        check_triggers(self.trigger_share, self.trigger_tokens, self.trigger_messages)

    def _build_pipeline(self, reducer: Reducer, stub: str | None = None) -> Pipeline:
        full = Full(measure="reported-and-since", above=True)
        many = () if self.trigger_messages is None else (MoreBundles(count=self.trigger_messages, stub=stub),)
        rule = Rule(AnyOf((*many, full)), reducer)
        description = f"more than {self.trigger_messages} requests and answers"
        division = make_division(self.trigger_share, self.trigger_tokens, description)
        return Pipeline(division, (rule,), counter=COUNTER)


def _make_tail(keep_messages: int, keep_tokens: int | None) -> Tail:
    return LastBundles(count=keep_messages) if keep_tokens is None else LastTokens(tokens=keep_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class PydanticSummary(_PydanticAi, SummarizingPreset):
    """Above 90 % of the window, all before the newest 20 requests and answers becomes a summary behind the user's first message.

    Source: pydantic-ai-harness 0.62.0 `compaction/_summarizing_compaction.py`, the trigger of its documentation; PEERS
    "pydantic-ai-harness" and 2.11. The user's first message stays and is told as well; a former summary is brought up to date,
    also where it lies among the newest. The summarizer reads 500 characters of each result. Different from the original: a
    session is one run, so messages of the user that wait are requests of their own; where `keep_tokens` counts, it counts
    estimates and not shares of what the provider reported; a summary begins with a line that says what it is, which is counted.
    When the summary fails, the session goes on as it is; there the run fails. An empty summary has failed too, after it was asked
    for once more.

    Attributes:
        trigger_share: Share of the window above which the view is compacted, by the last report and the estimate of what came
            since. Default: `0.9`.
        keep_messages: Newest requests and answers that stay, at least one; more where a result would lose its call. Default:
            `20`.
        keep_tokens: Instead: as few messages as hold at least so many tokens. Default: `None`.
        keep_request: Whether the user's first message stays. Default: `True`.
        incremental: Whether a former summary is brought up to date, instead of being one message among the others. Default:
            `True`.
        result_characters: Of each tool result that the summarizer is shown. Default: `500`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: Output limit of a summary; the original sets none. Default: `4_096`.
    """

    trigger_share: Share | None = 0.9
    keep_messages: NonNegative = 20
    keep_tokens: Positive | None = None
    keep_request: bool = True
    incremental: bool = True
    result_characters: Positive = 500
    kind: Literal["pydantic-summary"] = "pydantic-summary"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: summarize all but the tail and the request."""
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
    """Above 80 requests and answers, all but the user's first message and the newest 40 go, without a summary.

    Source: pydantic-ai-harness 0.62.0 `compaction/_sliding_window_compaction.py`, the trigger of its documentation; PEERS 2.11.
    Different from the original as `pydantic-summary` is.

    Attributes:
        trigger_messages: Requests and answers above which it is compacted, all results of an answer being one request. Default:
            `80`.
        keep_messages: Newest requests and answers that stay, at least one; more where a result would lose its call. Default:
            `40`.
        keep_tokens: Instead: as few messages as hold at least so many tokens. Default: `None`.
        keep_request: Whether the user's first message stays. Default: `True`.
    """

    trigger_messages: Positive | None = 80
    keep_messages: NonNegative = 40
    keep_tokens: Positive | None = None
    keep_request: bool = True
    kind: Literal["pydantic-window"] = "pydantic-window"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: forget all but the tail and the request."""
        tail = _make_tail(self.keep_messages, self.keep_tokens)
        return self._build_pipeline(ForgetExceptRequest(tail=tail, keep_request=self.keep_request))


@dataclass(frozen=True, slots=True, kw_only=True)
class PydanticClear(_PydanticAi):
    """Above a number of tokens, all but the newest 3 tool results become stubs.

    Source: pydantic-ai-harness 0.62.0 `compaction/_clear_tool_results.py`, the trigger of its documentation; PEERS 2.11. A
    trigger by messages counts those since the newest stub.

    Attributes:
        trigger_tokens: Tokens above which results are cleared, by the last report and the estimate of what came since. Default:
            `100_000`.
        keep_results: Newest tool results that stay, those of exempt tools among them. Default: `3`.
        least_saved_tokens: Nothing is cleared unless at least so many are saved; None = also where a stub is longer than what it
            stands for. Default: `None`.
        clear_arguments: Whether the arguments of the cleared calls are emptied too. Default: `False`.
        exempt_tools: Tools whose results are never cleared. Default: `()`.
        stub: What stands in the place of a cleared result. Default: `'[tool result cleared]'`.
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
        """One rule: mask, if it saves enough."""
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
