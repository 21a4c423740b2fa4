"""Control that retains the newest messages in place of another policy, with as many tokens as that policy would retain."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import PlainSerializer, PlainValidator

from harness.compaction.description import inspect_abilities, name_policy, reads_time
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.stages import group_blocks
from harness.conversation.codec import StrictFields, to_plain
from harness.conversation.events import Compaction, Hook, ItemId, Patch
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Counter, Estimated, Usage, Window
from harness.conversation.truncation import Truncation
from harness.conversation.view import Item, View, patch_items
from harness.errors import UsageError
from harness.protocols import Policy, TruncatingPolicy


def _refuse_other_values(value: Any) -> Any:
    if isinstance(value, type) or not callable(getattr(value, "plan", None)):
        raise UsageError(f"of: expected a policy (got {value!r:.80})")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Recency(StrictFields):
    """Policy that acts when another policy acts, and retains the newest messages with as many tokens as that one would.

    Choose it as the control of a policy that selects or summarizes: what such a policy retains should be worth more than equally
    many tokens of the newest messages.

    Source: this project; the scorecards of `NousResearch/hermes-agent` (2026-09-19) compare a ranking with such a control.

    The other policy plans on the same messages, but its plan is not carried out. The tokens that the plan would leave are
    computed, with each summary at its maximum length. The control retains the system message, the user's request if the other
    policy retains it, and as many of the newest messages as fit into the rest; tool calls stay together with their results. No
    summary is written. Threshold, reserves and limits on tool outputs are those of the other policy.

    Attributes:
        of: Policy that decides when to act and how many tokens to retain. Default: `KeepLast()`.

    Example:
        >>> from harness.policies import Codex, Recency
        >>> from harness.conversation.tokens import Window
        >>> Recency(of=Codex()).budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        29491
    """

    of: Annotated[Any, PlainValidator(_refuse_other_values), PlainSerializer(to_plain)] = field(default_factory=KeepLast)
    kind: Literal["recency"] = "recency"

    def __post_init__(self) -> None:
        """Refuse policies that cannot be replaced by the newest messages."""
        _refuse_other_values(self.of)
        name = name_policy(self.of)
        if isinstance(self.of, Recency):
            raise UsageError("of: 'recency' cannot be the control of itself; name the policy that it is the control of")
        if hasattr(self.of, "with_oracle"):
            raise UsageError(f"of: policy {name!r} needs an oracle, and its control would need it too; name another policy")
        if not inspect_abilities(self.of).can_act:
            raise UsageError(f"of: policy {name!r} never compacts, so there is nothing to control; name a policy that does")

    @property
    def clip_characters(self) -> int:
        """Maximum length of a tool output, in characters, under the other policy."""
        return self.inner.clip_characters

    @property
    def truncation(self) -> Truncation:
        """Limits on the length of tool outputs under the other policy."""
        if isinstance(self.of, TruncatingPolicy):
            return self.of.truncation
        return Truncation(max_characters=self.clip_characters)

    @property
    def counter(self) -> Counter:
        """Token counter of the other policy."""
        return self.inner.counter

    @property
    def reads_time(self) -> bool:
        """Whether the other policy decides by the time between steps."""
        return reads_time(self.of)

    @property
    def least_saved_share(self) -> float | None:
        """Share of the tokens that a compaction must save under the other policy; None if it sets no share."""
        share: float | None = getattr(self.of, "least_saved_share", None)
        return share

    @property
    def inner(self) -> Policy:
        """Policy that decides when to act and how many tokens to retain."""
        policy: Policy = self.of
        return policy

    def budget(self, window: Window) -> Budget:
        """Return the budget of the other policy."""
        return self.inner.budget(window)

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> CompactionPlan | None:
        """Return a plan that retains the newest messages if the other policy is due; else None."""
        plan = self.inner.plan(view, budget, usage, hook)
        if plan is None or plan.is_empty:
            return plan
        kept_tokens = count_kept_tokens(plan, view, self.counter)
        forgotten_ids = select_older(view, kept_tokens, protected=find_protected(plan, view))
        reason = f"{plan.reason}; the newest messages instead of what {name_policy(self.of)!r} keeps, {kept_tokens:,} tokens"
        if not forgotten_ids:
            return CompactionPlan(reason=f"{reason}, but all messages have no more tokens")
        return CompactionPlan(reason=reason, forget=forgotten_ids)


def count_kept_tokens(plan: CompactionPlan, view: View, counter: Counter) -> int:
    """Return how many estimated tokens a plan leaves in view, with each summary at its maximum length.

    Args:
        plan: Plan of a policy for the view.
        view: Messages that the model sees before the plan is carried out.
        counter: Token counter of the policy.
    """
    forgotten_ids = set(plan.forget)
    changes = {change.item: counter.count(change.message) for change in plan.replace}
    tokens = sum(changes.get(item.item_id, item.tokens) for item in view.items if item.item_id not in forgotten_ids)
    beside = [message for slot in plan.slots for message in (*slot.before, *slot.behind)]
    beside += [insert.message for insert in plan.insert]
    return tokens + sum(map(counter.count, beside)) + sum(slot.max_tokens for slot in plan.slots)


def find_protected(plan: CompactionPlan, view: View) -> frozenset[ItemId]:
    """Return the ids of the messages that a control retains beside the newest ones.

    They are the system message and, if the plan retains it, the user's request.
    """
    first = next((item for item in view.items if item.message.role == "user"), None)
    is_kept = first is not None and first.message == view.task and first.item_id not in plan.forget
    return frozenset(item.item_id for item in (*view.items[:1], *([first] if first is not None and is_kept else [])))


def keep_newest(compaction: Compaction, before: View, counter: Counter) -> Compaction:
    """Return a compaction that retains the newest messages instead, with at most the tokens that a compaction left in view.

    No summary is written. The system message stays and, if the compaction kept it, the user's request.

    Args:
        compaction: Applied compaction.
        before: Messages in view before it.
        counter: Token counter of the session's compaction policy.
    """
    kept = CompactionPlan(reason=compaction.reason, forget=compaction.patch.forget)
    older_ids = select_older(before, compaction.tokens_after, find_protected(kept, before))
    patch = Patch(forget=older_ids)
    patched = patch_items(before.items, patch, 0, counter)
    return Compaction(
        round=compaction.round,
        step=compaction.step,
        moment=compaction.moment,
        status="applied",
        reason=f"{compaction.reason}; the newest messages of {compaction.tokens_after:,} tokens instead",
        patch=patch,
        tokens_before=compaction.tokens_before,
        tokens_after=Estimated(before.tokens + patched.added_tokens),
        messages_before=compaction.messages_before,
        messages_after=len(patched.items),
        tree_id=compaction.tree_id,
    )


def select_older(view: View, kept_tokens: int, protected: frozenset[ItemId]) -> tuple[ItemId, ...]:
    """Return the ids of the messages to evict, so that the protected and the newest ones have at most a number of tokens.

    A message with tool calls stays together with their results. The newest message stays even if it is too long.
    """
    blocks = [block for block in group_blocks(view.items) if not _is_protected(block.items, protected)]
    room = kept_tokens - sum(item.tokens for item in view.items if item.item_id in protected)
    start = len(blocks)
    while start and (start == len(blocks) or blocks[start - 1].tokens <= room):
        start -= 1
        room -= blocks[start].tokens
    return tuple(item.item_id for block in blocks[:start] for item in block.items)


def _is_protected(items: Sequence[Item], protected: frozenset[ItemId]) -> bool:
    return any(item.item_id in protected for item in items)
