"""The message window of the fifth design document (S4): a cap on the number of messages, with or without a summary."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from harness.compaction.cuts import SNAP_BACK, LastMessages
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Rule, SummarizingPreset
from harness.compaction.stages import Forget, Middle, Reducer, Summarize
from harness.compaction.summary_formats import Notes
from harness.compaction.triggers import MoreThan, NoThreshold
from harness.events import ItemId
from harness.messages import Message
from harness.plan import Plan
from harness.tokens import Budget, Estimated, Window
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """One reducer each time, another one once enough messages are gone without a summary."""

    every_messages: int
    """Messages forgotten since the last summary, those about to go among them, at which the seldom one is taken."""
    regular: Reducer
    periodic: Reducer

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `Reducer`."""
        plan = self.regular.reduce(view, budget, reason)
        if view.forgotten_since_summary + len(plan.forget) < self.every_messages:
            return plan
        return self.periodic.reduce(view, budget, reason)


CONCISE_INSTRUCTION = (
    "Summarize the following conversation history concisely. Focus on: what files were read/written, what decisions were made, "
    "what problems were encountered, and what the current state of the task is. Be factual and brief."
)
"""The instruction of S4.3, word for word."""


HEADING = "[Conversation Summary]"
"""S4.3."""


SUMMARY_EVERY_MESSAGES = 10
"""S4.3: at most one summary for so many evicted messages."""


WARNING_SHARE = 0.8
"""S4.4: share of the cap above which the user is warned."""


class TrimMetrics(NamedTuple):
    """What became of how many messages (S4.1)."""

    total_messages: int
    """Before."""
    preserved_messages: int
    evicted_messages: int
    estimated_tokens: Estimated
    """Of the preserved ones."""


class TrimResult(NamedTuple):
    """A list of messages after it was trimmed."""

    trimmed: tuple[Message, ...]
    evicted: tuple[Message, ...]
    metrics: TrimMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageWindow(SummarizingPreset):
    """Above a number of messages the oldest ones between a preserved head and a preserved tail are evicted.

    Source: S4.1, S4.3, S4.5; every default is the seed's. The seed counts the messages of providers that take the system prompt
    apart, so here the system message stands outside of all counts. Cuts move back so that calls keep their results, so the cap
    may be exceeded by the messages of one turn (S4.7). When the summary fails, the messages go without one. An empty summary has
    failed too.

    Attributes:
        max_messages: 0 = nothing is ever evicted. Default: `100`.
        preserve_first_n: Messages behind the system message that always stay: the request. Default: `1`.
        preserve_last_n: Messages at the end that always stay. Default: `20`.
        summarize_on_trim: Whether what is evicted is summarized, at most once for ten messages; when that fails, they just go.
            Between two summaries messages go without one. The seed would evict the last summary with them, since it is the oldest
            message of the middle; here it stays until the next one has taken it in. Default: `False`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Asked only with `summarize_on_trim`.
            Default: `'same'`.
        summary_max_tokens: S4.3. Default: `1_024`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    max_messages: NonNegative = 100
    preserve_first_n: NonNegative = 1
    preserve_last_n: NonNegative = 20
    summarize_on_trim: bool = False
    summary_max_tokens: Positive = 1_024
    kind: Literal["message-window"] = "message-window"

    @property
    def is_overcommitted(self) -> bool:
        """Whether head and tail alone are as many messages as the cap; then only they are kept, and more than wanted (S4.1)."""
        return 0 < self.max_messages <= self.preserve_first_n + self.preserve_last_n

    @property
    def warnings(self) -> tuple[str, ...]:
        """See `harness.protocols.WarningPolicy`."""
        if not self.is_overcommitted:
            return ()
        first, last, most = self.preserve_first_n, self.preserve_last_n, self.max_messages
        kept = f"preserve_first_n={first} and preserve_last_n={last} keep {first + last} messages"
        return (f"{kept}, and max_messages={most} leaves no room between them: only they are kept",)

    def check_view(self, view: View) -> str | None:
        """See `harness.protocols.WarningPolicy`: said when the newest step takes the view over 80 % of the cap (S4.4)."""
        count, near = len(view.items) - 1, self.max_messages * WARNING_SHARE
        if not 0 < near < count:
            return None
        newest = next((at for at, item in enumerate(reversed(view.items), 1) if item.message.role == "assistant"), 0)
        return f"Conversation approaching limit ({count}/{self.max_messages} messages)" if count - newest <= near else None

    def trim(self, messages: Sequence[Message]) -> TrimResult:
        """What a list of messages becomes by plain eviction, by the same plan as in a session (S4.1).

        Args:
            messages: a legal conversation; it may begin with a system message, which is not counted and stays.
        """
        system = () if messages[:1] and messages[0].role == "system" else (Message(role="system", parts=()),)
        numbered = enumerate((*system, *messages), start=1)
        items = [Item(ItemId(seq), message, self.counter.count(message)) for seq, message in numbered]
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
        """One rule, when the cap is exceeded: evict, or summarize."""
        if self.max_messages == 0:
            return Pipeline(NoThreshold(rule="max_messages=0: the window is off"))
        tail = max(self.preserve_last_n, self.max_messages - self.preserve_first_n)
        middle = Middle(tail=LastMessages(count=tail), head_messages=1 + self.preserve_first_n, snap=SNAP_BACK)
        evict: Reducer = Forget(middle=middle, keep_summaries=True)
        if self.summarize_on_trim:
            summary = Summarize(
                middle=middle,
                format=Notes(instruction=CONCISE_INSTRUCTION, heading=HEADING),
                max_tokens=self.summary_max_tokens,
                role="assistant",
                former="among",
                when_failed="forget",
                only_if_text=True,
            )
            evict = Periodic(every_messages=SUMMARY_EVERY_MESSAGES, regular=evict, periodic=summary)
        rule = (
            f"at most {self.max_messages} messages, {self.preserve_first_n} first and {self.preserve_last_n} last ones preserved"
        )
        return Pipeline(NoThreshold(rule=rule), (Rule(MoreThan(count=1 + self.max_messages), evict, quiet=True),))
