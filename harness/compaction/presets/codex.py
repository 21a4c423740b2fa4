"""Policies of the Codex CLI, which retain the user's own messages and replace everything else by a summary.

The two versions differ in who compacts: the provider, as in the CLI of 2026, or the CLI itself, as in 2025.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import find_answered_end, find_user_messages
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import BudgetRule, FixedTokens, Full, ShareOfAvailable, SmallestThreshold
from harness.conversation.events import Replace
from harness.conversation.messages import Message, Text
from harness.conversation.plan import CompactionPlan, Slot, SummaryFormat, SummaryProcedure
from harness.conversation.tokens import Budget, Counter, QuarterOfBytes
from harness.conversation.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutOldest:
    """Way to shorten a summarizer's prompt that is too long: each attempt leaves out one more of the oldest messages."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """Return the messages without the n oldest ones in the n-th attempt; empty if none would be left."""
        starts = [index for index, message in enumerate(messages) if message.role != "tool"]
        return messages[starts[attempt] :] if attempt < len(starts) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SamePrompt:
    """Way to repeat a failed request for a summary without a change of its prompt, a limited number of times."""

    retries: int
    """Maximum number of repetitions."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """Return all messages for another attempt; empty if there were enough attempts."""
        return messages if attempt <= self.retries else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Part of a policy that retains the user's newest messages, up to a number of tokens, and summarizes everything else.

    The user message that exceeds the limit loses its middle. The summarizer reads everything, including the retained messages.
    Messages of the user after the last answer are neither summarized nor counted.
    """

    most_tokens: int
    """Maximum number of tokens in the user messages that are retained verbatim."""
    format: SummaryFormat
    """Format that builds the prompt for the summarizer and the text of the summary that is inserted into the view."""
    max_tokens: int
    """Maximum number of tokens that the summarizer may write."""
    counter: Counter
    """Token counter with which a user message is measured when its middle is cut."""
    procedure: SummaryProcedure
    """Procedure for a summary that fails or is empty, with the number of retries and the text used in place of the summary."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that retains the user's newest messages and replaces all others by a summary."""
        end = find_answered_end(view)
        kept_items, change = self._select_kept(view, end)
        summarized_items = view.items[1:end]
        removed_ids = tuple(item.item_id for item in summarized_items if item not in kept_items)
        if not removed_ids:
            return CompactionPlan(reason=f"{reason}, but only messages of the user could be summarized")
        slot = Slot(
            after=max([view.items[0], *kept_items]).item_id,
            role="user",
            stands_for=tuple(item.item_id for item in summarized_items),
            format=self.format,
            max_tokens=self.max_tokens,
            former="among",
            procedure=self.procedure,
        )
        return CompactionPlan(reason=reason, forget=removed_ids, replace=change, slots=(slot,))

    def _select_kept(self, view: View, end: int) -> tuple[list[Item], tuple[Replace, ...]]:
        kept_items: list[Item] = []
        room = self.most_tokens
        for index in reversed(find_user_messages(view, 1, end)):
            item = view.items[index]
            if room <= 0:
                break
            kept_items.append(item)
            if item.tokens > room:
                return kept_items, (self._cut_middle(item, room),)
            room -= item.tokens
        return kept_items, ()

    def _cut_middle(self, item: Item, room: int) -> Replace:
        """Shorten a user message to `room` tokens by removing its middle."""

        def cut_message(half: int) -> Message:
            return replace(item.message, parts=(Text(text=remove_middle(item.message.text, half)),))

        halves = range(1, len(item.message.text) // 2 + 1)
        longest_half = bisect_right(halves, room, key=lambda half: self.counter.count(cut_message(half)))
        return Replace(item=item.item_id, message=cut_message(longest_half))


def remove_middle(text: str, half: int) -> str:
    """Return the first and last `half` characters of a text, with a mark that says how many are omitted."""
    return f"{text[:half]}[... {len(text) - 2 * half} characters ...]{text[len(text) - half :]}"


INSTRUCTION = """\
Create a summary of this session, to be handed over to another model that takes the task on from here. Tell it:
- progress and decisions so far
- constraints and preferences of the user
- what remains to be done, as next steps
- data, examples and references that are critical for going on"""


SUMMARY_HEADING = "Another model began this task. It left the following hand-over; build on it and do no work twice."


@dataclass(frozen=True, kw_only=True)
class CodexPreset(SummarizingPreset):
    """Base class of the versions of the Codex policy, which share the trigger and the way in which messages are retained.

    Attributes:
        threshold: Share of the window that triggers compaction, above 0 and at most 1; the conversation is measured by the
            provider's last report and an estimate of later messages. Default: `0.9`.
        compact_at_tokens: Threshold in tokens, used if it is lower than the one that `threshold` gives; None uses `threshold`
            alone. Default: `None`.
    """

    __slots__ = ()

    threshold: Share = 0.9
    compact_at_tokens: Positive | None = None

    def build_pipeline(self, keep_user_tokens: int, procedure: SummaryProcedure) -> Pipeline:
        """Return a pipeline with one rule, which replaces everything but the user's newest messages by a hand-over summary.

        Args:
            keep_user_tokens: Maximum number of tokens in the retained messages of the user.
            procedure: Retries and replacement text for a summary that fails or is empty.
        """
        budget_rule: BudgetRule = ShareOfAvailable(share=self.threshold)
        if self.compact_at_tokens is not None:
            budget_rule = SmallestThreshold(budget_rules=(budget_rule, FixedTokens(tokens=self.compact_at_tokens)))
        counter = QuarterOfBytes()
        hand_over = HandOver(
            most_tokens=keep_user_tokens,
            format=Brief(instruction=INSTRUCTION, heading=SUMMARY_HEADING, layout="session"),
            max_tokens=self.summary_max_tokens,
            counter=counter,
            procedure=procedure,
        )
        return Pipeline(budget_rule, (Rule(Full(measure="reported-and-since"), hand_over),), counter=counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Codex(CodexPreset):
    """Policy that, at 90 % of the window, replaces all but the user's newest messages (up to 64K tokens) by a summary.

    Choose it when you compare Codex as of 2026, or when the user's own messages carry the instructions and must stay verbatim.

    Source: Codex CLI (codex-rs) in openai/codex 009bd870, `core/src/compact_remote_v2.rs`, compaction by the provider.

    The request for a compaction is appended to the session's own prompt, so that the provider's cache holds. A former summary is
    summarized again and does not count as a message of the user. A request that fails is repeated twice. If the summary fails or
    is empty, the conversation stays unchanged.

    Differences from the original:

    - The provider returns an encrypted item, whose content nobody can read. Here a summarizer writes a summary in its place.
    - Tool outputs are not rewritten to make a prompt fit that is too long for the model.
    - Instructions and environment are part of the system message, which always stays.
    - Requests that fail for lasting reasons are repeated, too.

    Attributes:
        keep_user_tokens: Maximum number of tokens in the user messages that are retained, newest first; the message that crosses
            the limit is cut in its middle. Default: `64_000`.
        retries: Number of times that a failed request for a summary is repeated. Default: `2`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Retain fewer tokens of the user's messages, for a window of 32,768 tokens:

        >>> from harness.policies import Codex
        >>> from harness.conversation.tokens import Window
        >>> policy = Codex(threshold=0.8, keep_user_tokens=4_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        26214
    """

    keep_user_tokens: NonNegative = 64_000
    retries: NonNegative = 2
    kind: Literal["codex@2026"] = "codex@2026"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which replaces everything but the user's newest messages by a summary."""
        procedure = SummaryProcedure(shorter=SamePrompt(retries=self.retries), shorter_for="failed")
        return self.build_pipeline(self.keep_user_tokens, procedure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Codex2025(CodexPreset):
    """Policy that, at 90 % of the window, replaces all but the user's newest messages (up to 20K tokens) by a summary.

    Choose it when you compare Codex as of 2025, or results of older versions of this program.

    Source: Codex CLI (codex-rs) in just-every/code 6ad6d5c9, `core/src/compact.rs`, local compaction.

    The summarizer receives the messages of the session and one more message with the instruction, so its prompt begins like the
    last request to the model. A former summary is summarized again and does not count as a message of the user.

    If the prompt is too long, each further attempt leaves out one more of the oldest messages. If the summary fails, the
    conversation stays unchanged. An empty summary is replaced by a constant text, and the log records that.

    One difference from the original: instructions and environment are part of the system message, which always stays.

    Attributes:
        keep_user_tokens: Maximum number of tokens in the user messages that are retained, newest first; the message that crosses
            the limit is cut in its middle. Default: `20_000`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Retain fewer tokens of the user's messages, for a window of 32,768 tokens:

        >>> from harness.policies import Codex2025
        >>> from harness.conversation.tokens import Window
        >>> policy = Codex2025(threshold=0.8, keep_user_tokens=4_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        26214
    """

    keep_user_tokens: NonNegative = 20_000
    kind: Literal["codex@2025"] = "codex@2025"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change: if a long message of the user is shortened for the agent, the summarizer now reads the whole message.
        """
        return 1

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which replaces everything but the user's newest messages by a hand-over summary."""
        procedure = SummaryProcedure(shorter=WithoutOldest(), empty_text="(no summary available)")
        return self.build_pipeline(self.keep_user_tokens, procedure)
