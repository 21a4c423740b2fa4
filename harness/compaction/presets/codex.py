"""Codex CLI: the user's own messages stay, a hand-over tells the rest."""

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import find_answered_end, is_from_user
from harness.compaction.summary_formats import Brief, ConstantText
from harness.compaction.triggers import Division, FixedTokens, Full, ShareOfAvailable, SmallestThreshold
from harness.events import Replace
from harness.messages import Message, Text
from harness.plan import Plan, Slot, SummaryFormat, SummaryProcedure
from harness.tokens import Budget, Counter, QuarterOfBytes
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutOldest:
    """Leave out one more message at the beginning each time, a call together with its results.

    See `harness.plan.PromptShortener`.
    """

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """What is left after so many messages have gone."""
        starts = [index for index, message in enumerate(messages) if message.role != "tool"]
        return messages[starts[attempt] :] if attempt < len(starts) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """The newest messages of the user stay up to a number of tokens, the one that crosses it is cut in its middle.

    The summarizer is told everything, also what stays. What the user has said since the last answer is neither told nor counted.
    """

    most_tokens: int
    """Of the user's messages; a cap, so a policy that hands over always finds something."""
    format: SummaryFormat
    max_tokens: int
    """Output limit that the summarizer is given."""
    counter: Counter
    """Of the policy: the share of a message that stays is measured by it."""
    procedure: SummaryProcedure
    """See `harness.plan.Slot`."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        end = find_answered_end(view)
        kept, change = self._select_kept(view, end)
        summarized_items = view.items[1:end]
        gone = tuple(item.item_id for item in summarized_items if item not in kept)
        if not gone:
            return Plan(reason=f"{reason}, but nothing was said but by the user")
        slot = Slot(
            after=max([view.items[0], *kept]).item_id,
            role="user",
            stands_for=tuple(item.item_id for item in summarized_items),
            format=self.format,
            max_tokens=self.max_tokens,
            former="among",
            procedure=self.procedure,
        )
        return Plan(reason=reason, forget=gone, replace=change, slots=(slot,))

    def _select_kept(self, view: View, end: int) -> tuple[list[Item], tuple[Replace, ...]]:
        kept_items: list[Item] = []
        room = self.most_tokens
        for index in range(end - 1, 0, -1):
            if not is_from_user(view, index):
                continue
            item = view.items[index]
            if room <= 0:
                break
            kept_items.append(item)
            if item.tokens > room:
                return kept_items, (self._cut_middle(item, room),)
            room -= item.tokens
        return kept_items, ()

    def _cut_middle(self, item: Item, room: int) -> Replace:
        """The message without so much of its middle that it fits."""

        def cut_message(half: int) -> Message:
            return replace(item.message, parts=(Text(text=remove_middle(item.message.text, half)),))

        halves = range(1, len(item.message.text) // 2 + 1)
        longest_half = bisect_right(halves, room, key=lambda half: self.counter.count(cut_message(half)))
        return Replace(item=item.item_id, message=cut_message(longest_half))


def remove_middle(text: str, half: int) -> str:
    """The first and the last characters of a text, and how many are left out between them."""
    return f"{text[:half]}[... {len(text) - 2 * half} characters ...]{text[len(text) - half :]}"


INSTRUCTION = """\
Create a summary of this session, to be handed over to another model that takes the task on from here. Tell it:
- progress and decisions so far
- constraints and preferences of the user
- what remains to be done, as next steps
- data, examples and references that are critical for going on"""


SUMMARY_HEADING = "Another model began this task. It left the following hand-over; build on it and do no work twice."


@dataclass(frozen=True, slots=True, kw_only=True)
class Codex(SummarizingPreset):
    """At 90 % of the window everything but the newest 20K tokens of the user's messages becomes a hand-over.

    Source: codex-rs in just-every/code 6ad6d5c9, `core/src/compact.rs`, local compaction; PEERS 2.5. The summarizer gets the
    session itself and one more message, so its prompt begins as the request before it did. A former hand-over is told again and
    is no message of the user. A prompt that is too long loses its oldest message at each try. When the summary fails, the session
    goes on as it is. An empty summary is replaced by a constant; the event says so. The instructions and the environment that the
    original puts back before the last message of the user are the system message here, which never goes.

    Attributes:
        threshold: Share of the window at which the last call's tokens and what came since are compacted, above 0 and at most 1.
            Default: `0.9`.
        compact_at_tokens: An earlier point, in tokens; None = the share alone. A later one does not count. Default: `None`.
        keep_user_tokens: Of the user's messages, newest first; the one that crosses it is cut in its middle. Default: `20_000`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: The source sets none; ours. Default: `4_096`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    threshold: Share = 0.9
    compact_at_tokens: Positive | None = None
    keep_user_tokens: NonNegative = 20_000
    kind: Literal["codex"] = "codex"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: hand over."""
        division: Division = ShareOfAvailable(share=self.threshold)
        if self.compact_at_tokens is not None:
            division = SmallestThreshold(divisions=(division, FixedTokens(tokens=self.compact_at_tokens)))
        counter = QuarterOfBytes()
        hand_over = HandOver(
            most_tokens=self.keep_user_tokens,
            format=Brief(instruction=INSTRUCTION, heading=SUMMARY_HEADING, layout="session"),
            max_tokens=self.summary_max_tokens,
            counter=counter,
            procedure=SummaryProcedure(
                shorter=WithoutOldest(), stand_in=ConstantText(words="(no summary available)"), stand_in_for="empty"
            ),
        )
        rule = Rule(Full(measure="reported-and-since"), hand_over)
        return Pipeline(division, (rule,), counter=counter)
