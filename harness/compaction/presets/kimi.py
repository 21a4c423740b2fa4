"""Policy of Kimi Code, which keeps the user's messages, and replaces everything else by a summary behind them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Rule, Share, SummarizingPreset
from harness.compaction.presets.codex import WithoutOldest
from harness.compaction.stages import find_answered_end, find_user_messages
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import Always, BudgetRule, Full, ShareOfAvailable, SmallestThreshold, WindowMinusReserve
from harness.conversation.events import Insert, Replace
from harness.conversation.messages import Text, user
from harness.conversation.plan import CompactionPlan, Slot, SummaryFormat, SummaryProcedure
from harness.conversation.tokens import Budget, Window
from harness.conversation.view import Item, View

INSTRUCTION = """\
Create a summary of this session, with which another instance of you goes on. Write down:
- what the user wants, and each constraint
- what is done, and what was found out
- files, commands, names and values that are still needed, verbatim
- what comes next"""
SUMMARY_HEADING = "The rest of the session up to here, in short:"
ELISION = "(About {tokens} tokens of messages of the user are left out here; the summary below covers them.)"
CHARACTERS_OF_TOKEN = 4
"""Number of characters to which a limit in tokens is converted when a message of the user is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReserve:
    """Rule by which compaction begins when a number of tokens is left in the window, if the window is larger than that."""

    reserve_tokens: int
    """Number of tokens that are kept free; a window that is not larger has no threshold by this rule."""

    def compute_budget(self, window: Window) -> Budget:
        """Return the window less the reserve as the threshold; the whole window if the reserve does not fit."""
        if 0 < window.tokens <= self.reserve_tokens:
            return Budget(
                window_tokens=window.tokens,
                reserved_tokens=0,
                threshold_tokens=window.tokens,
                rule=f"window from {window.source}",
            )
        return WindowMinusReserve(reserve_tokens=self.reserve_tokens).compute_budget(window)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepUserEnds:
    """Part of a policy that keeps the oldest and the newest messages of the user and summarizes everything else.

    The summary stands behind the kept messages. Messages of the user after the last answer stay in any case.
    """

    most_tokens: int
    """Maximum number of tokens in all kept messages of the user."""
    head_tokens: int
    """Number of these tokens that belong to the oldest messages, if not all messages fit."""
    format: SummaryFormat
    """Format of the prompt for the summarizer and of the summary that the agent sees."""
    max_tokens: int
    """Maximum number of tokens that the summarizer may write."""
    procedure: SummaryProcedure
    """Procedure for a summary that fails or is empty."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that keeps both ends of the user's messages and replaces everything else by a summary."""
        end = find_answered_end(view)
        written = (view.items[index] for index in find_user_messages(view, 1, end))
        users = [item for item in written if not item.message.text.startswith(ELISION.partition("{")[0])]
        head, tail, changes = self._select(users)
        kept = {item.item_id for item in (*head, *tail)}
        removed_ids = tuple(item.item_id for item in view.items[1:end] if item.item_id not in kept)
        if not removed_ids:
            return CompactionPlan(reason=f"{reason}, but only messages of the user could be summarized")
        left_out = sum(item.tokens for item in users if item.item_id not in kept)
        note = user(ELISION.format(tokens=left_out))
        slot = Slot(
            after=([view.items[0], *head, *tail][-1]).item_id,
            role="user",
            stands_for=tuple(item.item_id for item in view.items[1:end]),
            format=self.format,
            max_tokens=self.max_tokens,
            former="among",
            procedure=self.procedure,
        )
        insert = (Insert(message=note, after=head[-1].item_id),) if head and left_out else ()
        return CompactionPlan(reason=reason, forget=removed_ids, replace=changes, insert=insert, slots=(slot,))

    def _select(self, users: Sequence[Item]) -> tuple[list[Item], list[Item], tuple[Replace, ...]]:
        """Return the kept oldest and newest messages, and the changes of those that are cut at the limits."""
        if sum(item.tokens for item in users) <= self.most_tokens:
            return [], list(users), ()
        head, tail, changes = list[Item](), list[Item](), list[Replace]()
        room = self.most_tokens - min(self.head_tokens, self.most_tokens)
        rest = list(users)
        while rest and room > 0:
            item = rest.pop()
            tail.insert(0, item)
            if item.tokens > room:
                changes.append(_cut(item, room, keeps_end=True))
            room -= item.tokens
        room = min(self.head_tokens, self.most_tokens)
        while rest and room > 0:
            item = rest.pop(0)
            head.append(item)
            if item.tokens > room:
                changes.append(_cut(item, room, keeps_end=False))
            room -= item.tokens
        return head, tail, tuple(changes)


def _cut(item: Item, room: int, *, keeps_end: bool) -> Replace:
    length = room * CHARACTERS_OF_TOKEN
    text = item.message.text[-length:] if keeps_end else item.message.text[:length]
    return Replace(item=item.item_id, message=replace(item.message, parts=(Text(text=text),)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kimi(SummarizingPreset):
    """Policy that keeps up to 20K tokens of the user's messages, and summarizes the rest at 85 % of the window.

    Choose it when you compare Kimi Code, or when early and late instructions of the user must both stay verbatim.

    Source: Kimi Code, MoonshotAI/kimi-code, `packages/agent-core/src/agent/compaction`: `strategy.ts` and `handoff.ts` as read at
    1654d2d5 and 20528269; parameters as noted at d723cc47.

    The policy acts at 85 % of the window, or when 50,000 tokens are left in a window that is larger than that. If the user's
    messages do not fit, the oldest 2,000 tokens and the newest 18,000 stay, with a note between them. The summary is the last
    message, and an earlier summary is summarized again. If the summarizer's prompt is too long, each further attempt leaves out
    one more of the oldest messages. If the summary fails or is empty, the conversation stays unchanged.

    Differences from the original:

    - Tokens are estimated as a quarter of the characters, in texts of any script.
    - One message of the user that exceeds the limit keeps its end only, and not its beginning too.
    - Instructions of skills that the user called are ordinary messages of the user.
    - Clearing of old tool results is left out, which the original has switched off.

    Attributes:
        threshold: Share of the window that triggers compaction, above 0 and at most 1; the conversation is measured by the
            provider's last report and an estimate of later messages. Default: `0.85`.
        reserve_tokens: Number of tokens left in the window at which the policy acts at the latest; without effect in a window
            that is not larger. Default: `50_000`.
        keep_user_tokens: Maximum number of tokens in the kept messages of the user. Default: `20_000`.
        keep_head_tokens: Number of these tokens for the oldest messages, if not all fit. Default: `2_000`.

    Example:
        >>> from harness.policies import Kimi
        >>> from harness.conversation.tokens import Window
        >>> Kimi().budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        27852
    """

    threshold: Share = 0.85
    reserve_tokens: NonNegative = 50_000
    keep_user_tokens: NonNegative = 20_000
    keep_head_tokens: NonNegative = 2_000
    kind: Literal["kimi"] = "kimi"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which keep the user's messages and summarize the rest at the threshold and after an overflow."""
        budget_rule: BudgetRule = ShareOfAvailable(share=self.threshold)
        if self.reserve_tokens:
            budget_rule = SmallestThreshold(budget_rules=(budget_rule, WindowReserve(reserve_tokens=self.reserve_tokens)))
        keep = KeepUserEnds(
            most_tokens=self.keep_user_tokens,
            head_tokens=self.keep_head_tokens,
            format=Brief(instruction=INSTRUCTION, heading=SUMMARY_HEADING, layout="session"),
            max_tokens=self.summary_max_tokens,
            procedure=SummaryProcedure(shorter=WithoutOldest()),
        )
        rules = (Rule(Full(measure="reported-and-since"), keep), Rule(Always(), keep, hook="overflow"))
        return Pipeline(budget_rule, rules)
