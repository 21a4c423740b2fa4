"""Policy of this project, which limits the number of messages in the conversation, with or without a summary."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from harness.compaction.cuts import LastMessages
from harness.compaction.overflow import OWN_PROCEDURE
from harness.compaction.pipeline import CalibratedPreset, NonNegative, Pipeline, Positive, Rule, SavedShare, SummarizingPreset
from harness.compaction.stages import Forget, Middle, Reducer, Summarize
from harness.compaction.summary_formats import Notes
from harness.compaction.triggers import MoreThan, NoThreshold
from harness.conversation.codec import ADDED_LATER
from harness.conversation.events import ItemId
from harness.conversation.messages import Message
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Estimated, Window
from harness.conversation.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictThenSummarize:
    """Part of a policy that evicts messages at once, and summarizes them when enough evicted messages wait for a summary.

    Evicted messages wait outside the conversation. A summary covers the waiting messages, the messages evicted at that moment,
    and the former summary, which stays in view until then. If the summary fails, the messages that it was to cover are lost. The
    summarizer is asked again only when enough new messages wait, so a failing summarizer is not asked more often.
    """

    every_messages: int
    """Number of waiting messages at which a summary is requested; messages about to be evicted are included."""
    evict: Forget
    """Way to evict messages without a summary, which retains earlier summaries."""
    summarize: Summarize
    """Way to replace the messages that `evict` would evict, together with the former summary, by a new summary."""

    @property
    def memory(self) -> str:
        """Facts about earlier compactions that decide what this part does."""
        return "messages that wait for its next summary"

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that evicts messages, and requests a summary if enough evicted messages wait for one.

        No summary is requested if these messages contain no text by the user or the model.
        """
        plan = self.evict.reduce(view, budget, reason)
        waiting_ids = tuple(item.item_id for item in view.set_aside)
        if plan.is_empty:
            return plan
        if len(waiting_ids) + len(plan.forget) < self.every_messages:
            return replace(plan, set_aside=(*waiting_ids, *plan.forget))
        evicted_ids = set(plan.forget)
        evicted = (item for item in view.items if item.item_id in evicted_ids)
        if not any(item.message.text.strip() for item in (*view.set_aside, *evicted)):
            return plan
        plan = self.summarize.reduce(view, budget, reason)
        former = set(view.summaries)  # the summarizer reads former summaries first
        slots = (
            replace(slot, stands_for=tuple(sorted((*waiting_ids, *slot.stands_for), key=lambda item: item not in former)))
            for slot in plan.slots
        )
        return replace(plan, slots=tuple(slots))


CONCISE_INSTRUCTION = (
    "Summarize the following conversation history concisely. Focus on: what files were read/written, what decisions were made, "
    "what problems were encountered, and what the current state of the task is. Be factual and brief."
)
"""Instruction to the summarizer."""


HEADING = "[Conversation Summary]"
"""Heading above the summary in the view."""


SUMMARY_EVERY_MESSAGES = 10
"""Number of evicted messages after which a summary is requested."""


WARNING_SHARE = 0.8
"""Share of the maximum number of messages above which the user is warned that old messages will soon be evicted."""


class TrimMetrics(NamedTuple):
    """Numbers of messages before and after a list of messages was trimmed."""

    total_messages: int
    """Number of messages in the list before it was trimmed."""
    preserved_messages: int
    """Number of messages that remain after trimming."""
    evicted_messages: int
    """Number of messages that trimming removed."""
    estimated_tokens: Estimated
    """Estimated number of tokens in the messages that remain after trimming."""


class TrimResult(NamedTuple):
    """Result of trimming a list of messages: the remaining messages, the evicted ones, and their numbers."""

    trimmed: tuple[Message, ...]
    """Messages that remain in the list after the oldest ones were removed."""
    evicted: tuple[Message, ...]
    """Messages that trimming removed."""
    metrics: TrimMetrics
    """Numbers of messages and tokens before and after trimming."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageWindow(CalibratedPreset, SummarizingPreset):
    """Policy that evicts the oldest messages above 100 messages in view; the user's request and the newest 20 always stay.

    Choose it when the number of messages must be bounded and the beginning of the session must stay.

    Source: this project (docs/sources.md).

    The system message does not count among the 100 messages. More messages are retained at the end if a call would lose its
    results, so the conversation may exceed the maximum by the messages of one turn. A call among the first messages, which always
    stay, is evicted nevertheless if its results lie behind these messages.

    If the summary fails or is empty, the messages are evicted without one. After a refused prompt, any message may be evicted but
    the user's newest one and the newest call with its results.

    Attributes:
        max_messages: Maximum number of messages in the conversation; 0 never evicts any. Default: `100`.
        preserve_first_n: Number of messages behind the system message that are always retained, except a call whose results lie
            behind them; 1 retains the user's request. Default: `1`.
        preserve_last_n: Number of messages at the end of the conversation that are always retained. Default: `20`.
        summarize_on_trim: Whether evicted messages are summarized, ten or more at a time; until then they wait outside the
            conversation. The last summary stays in view until the next one has taken it in. Default: `False`.
        summarizer: Name of the model that writes the summaries if `summarize_on_trim` is set; `same` is the agent's own model.
            Default: `'same'`.
        summary_max_tokens: Maximum number of tokens in a summary. Default: `1_024`.
        least_saved_share: Share of the conversation's tokens that a compaction must save; one that saves less counts as
            fruitless. At least 0 and below 1. The maximum holds at every step, so few messages go at a time. Default: `0.0`.

    Example:
        Limit the conversation to 40 messages and summarize the evicted messages:

        >>> from harness.policies import MessageWindow
        >>> from harness.conversation.tokens import Window
        >>> policy = MessageWindow(max_messages=40, preserve_last_n=10, summarize_on_trim=True)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).rule
        'at most 40 messages, 1 first and 10 last ones preserved'
    """

    max_messages: NonNegative = 100
    preserve_first_n: NonNegative = 1
    preserve_last_n: NonNegative = 20
    summarize_on_trim: bool = False
    summary_max_tokens: Positive = 1_024
    least_saved_share: SavedShare = field(default=0.0, metadata=ADDED_LATER)
    kind: Literal["message-window"] = "message-window"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy with these settings changed since version 0.1.

        The changes:

        - For all settings, a cut tool output keeps the exit code of the command and the last lines of its standard error.
        - If `summarize_on_trim` is set or `preserve_first_n` is above 1, a tool call in the last of the first, preserved messages
          is evicted together with its results, and a summary covers all messages that were evicted since the last summary.
        - For all settings, the policy compacts after a refused prompt, and a prompt that the summarizer cannot hold is shortened.
        """
        return 3 if self.preserve_first_n > 1 or self.summarize_on_trim else 2

    @property
    def is_overcommitted(self) -> bool:
        """Whether the messages preserved at the beginning and the end alone reach the maximum."""
        return 0 < self.max_messages <= self.preserve_first_n + self.preserve_last_n

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings that the preserved messages leave no room for others; empty otherwise."""
        if not self.is_overcommitted:
            return ()
        first, last, most = self.preserve_first_n, self.preserve_last_n, self.max_messages
        sizes = f"preserve_first_n={first} and preserve_last_n={last} keep {first + last} messages"
        no_room = f"max_messages={most} leaves no room between them: only these messages are retained"
        return (f"{sizes}, and {no_room}; raise max_messages or preserve fewer messages",)

    def check_view(self, view: View) -> str | None:
        """Return a warning if the newest step added messages beyond 80 % of the maximum number of messages, or None."""
        count, near = len(view.items) - 1, self.max_messages * WARNING_SHARE
        if not 0 < near < count:
            return None
        newest = next((distance for distance, item in enumerate(reversed(view.items), 1) if item.message.role == "assistant"), 0)
        return f"Conversation approaching limit ({count}/{self.max_messages} messages)" if count - newest <= near else None

    def trim(self, messages: Sequence[Message]) -> TrimResult:
        """Remove the messages that this policy would evict from a list of messages, without writing a summary.

        Args:
            messages: Messages of a valid conversation; a system message at the beginning stays and is not counted.
        """
        system = () if messages[:1] and messages[0].role == "system" else (Message(role="system", parts=()),)
        numbered = enumerate((*system, *messages), start=1)
        items = [Item(ItemId(seq), message, self.counter.count(message), None) for seq, message in numbered]
        view = View(items=tuple(items), tokens=Estimated(sum(item.tokens for item in items)))
        plan = replace(self, summarize_on_trim=False).plan(view, self.budget(Window(tokens=0, source="unknown")), None)
        evicted_ids = set(plan.forget) if plan else set()
        kept_items = [item for item in items[len(system) :] if item.item_id not in evicted_ids]
        return TrimResult(
            trimmed=tuple(item.message for item in kept_items),
            evicted=tuple(item.message for item in items if item.item_id in evicted_ids),
            metrics=TrimMetrics(
                total_messages=len(messages),
                preserved_messages=len(kept_items),
                evicted_messages=len(evicted_ids),
                estimated_tokens=Estimated(sum(item.tokens for item in kept_items)),
            ),
        )

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which evicts or summarizes messages when there are more than the maximum."""
        if self.max_messages == 0:
            return Pipeline(NoThreshold(rule="max_messages=0: the window is off"))
        tail = max(self.preserve_last_n, self.max_messages - self.preserve_first_n)
        middle = Middle(tail=LastMessages(count=tail), head_messages=1 + self.preserve_first_n, shrinks_head=True)
        forget = Forget(middle=middle, keep_summaries=True)
        evict: Reducer = forget
        summary: Summarize | None = None
        if self.summarize_on_trim:
            summary = Summarize(
                middle=middle,
                format=Notes(instruction=CONCISE_INSTRUCTION, heading=HEADING),
                max_tokens=self.summary_max_tokens,
                role="assistant",
                former="among",
                when_failed="forget",
                procedure=OWN_PROCEDURE,
                measure=self.measure,
            )
            evict = EvictThenSummarize(every_messages=SUMMARY_EVERY_MESSAGES, evict=forget, summarize=summary)
        rule = (
            f"at most {self.max_messages} messages, {self.preserve_first_n} first and {self.preserve_last_n} last ones preserved"
        )
        rules = (Rule(MoreThan(count=1 + self.max_messages), evict, quiet=True), self.build_overflow_rule(evict, summary))
        return Pipeline(NoThreshold(rule=rule), rules)
