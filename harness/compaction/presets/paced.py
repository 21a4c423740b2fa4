"""Compaction at a pace: every so many steps of the agent, or at a share of the window but no more often than that."""

from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.cuts import LastMessages
from harness.compaction.pipeline import Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import Block, Forget, Middle, Reducer, Summarize, compile_patterns, group_blocks
from harness.compaction.summary_formats import SixSections
from harness.compaction.triggers import DUE_IN_ANY_VIEW, AllOf, DueAmounts, Full, NoThreshold, ShareOfAvailable, Trigger
from harness.errors import UsageError
from harness.events import ItemId
from harness.messages import extract_part_text
from harness.plan import Plan
from harness.tokens import Budget, Usage
from harness.truncation import name_output
from harness.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """So many steps have ended since the last applied compaction, or since the beginning.

    With another trigger in `AllOf` it is hysteresis: the view is edited at most every so many steps.
    """

    count: int

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `Trigger`."""
        steps = view.steps_since_compaction
        return f"{steps} steps since the last compaction ≥ {self.count}" if steps >= self.count else None

    def state_due(self, budget: Budget) -> DueAmounts:
        """See `harness.compaction.triggers.Trigger`."""
        return DUE_IN_ANY_VIEW


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepPinned:
    """Keeps whole what another reducer would take, where a line of it matches a pattern: nothing forgets, masks or moves it.

    Shell patterns over whole lines, `*` for any text, since their time grows with the text alone; that of regular expressions has
    no bound on what a model or a tool may write. A call stays with all its results. What stays is no part of what a summary is
    told, and summaries are never pinned, or one that quotes a pinned line would stay beside the next for ever.
    """

    patterns: tuple[str, ...]
    reducer: Reducer

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.reducer.reduce(view, budget, reason)
        changed_ids = {*plan.forget, *(change.item for change in plan.replace)} - set(view.summaries)
        changed_blocks = [block for block in group_blocks(view.items) if any(item.item_id in changed_ids for item in block.items)]
        pinned_ids = [item.item_id for block in changed_blocks if self._has_match(block) for item in block.items]
        return exclude_items(plan, frozenset(pinned_ids) & changed_ids) if pinned_ids else plan

    def _has_match(self, block: Block) -> bool:
        return any(
            has_matching_line(self.patterns, extract_part_text(part)) for item in block.items for part in item.message.parts
        )


def has_matching_line(patterns: tuple[str, ...], text: str) -> bool:
    """Whether a line of a text is as one of some shell patterns says."""
    return any(matches(line) for line in text.splitlines() for matches in compile_patterns(patterns))


def exclude_items(plan: Plan, items: frozenset[ItemId]) -> Plan:
    """A plan that leaves some items as they are; a summary that would stand for nothing else is not asked for."""
    slots = (replace(slot, stands_for=tuple(one for one in slot.stands_for if one not in items)) for slot in plan.slots)
    changes = tuple(change for change in plan.replace if change.item not in items)
    written = "\n".join(result.output for change in changes for result in change.message.results)
    left = replace(
        plan,
        forget=tuple(item for item in plan.forget if item not in items),
        replace=changes,
        slots=tuple(slot for slot in slots if slot.stands_for),
        texts_to_save=tuple(text for text in plan.texts_to_save if name_output(text) in written),
        fallback=None if plan.fallback is None else exclude_items(plan.fallback, items),
    )
    return replace(left, reason=f"{plan.reason}, but what is pinned stays") if left.is_empty else left


def check_patterns(policy: object, name: str) -> None:
    """Refuse shell patterns that select nothing or everything.

    Raises:
        UsageError: names the field, the pattern and what would be right.
    """
    for pattern in getattr(policy, name):
        if not pattern.strip() or "\n" in pattern:
            raise UsageError(f"{name}: {pattern!r} matches no line that says anything; write a shell pattern such as '*must*'")
        if not pattern.strip("*?"):
            raise UsageError(f"{name}: {pattern!r} matches every line, so nothing would ever go; write one such as '*must*'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced(SummarizingPreset):
    """Every 20 steps all but the last messages becomes one summary; with `threshold`, only where the view has reached that share.

    Source: ours, to vary two axes alone: a trigger by steps, and hysteresis, i.e. the fewest steps between two edits of the view,
    each of which breaks the provider's cached prefix. Summary and cut are those of `keep-last`. A step is a call of the model
    with the results of its tools. When the summary fails, the session goes on as it is, and it is asked for again before the next
    step. An empty summary has failed too.

    Attributes:
        every_steps: Steps since the last compaction, or since the beginning, before it is compacted. Default: `20`.
        threshold: Share of the window that the view must have reached besides, above 0 and at most 1; None = steps alone count.
            Default: `None`.
        summarize: Whether a summary takes the place of what goes. Default: `True`.
        keep_request: Whether the first message behind the system message, the user's request, is pinned: it stays word for word.
            Default: `False`.
        pins: Shell patterns of lines, such as `*must*` or `RULE *`: a message that holds such a line stays whole for ever,
            whoever wrote it, with the call or the results that belong to it. No regular expressions: see
            `harness.compaction.wrappers.KeepPinned`. Default: `()`.
        keep_last: Messages at the end that stay verbatim; more stay where a call would lose its results. Default: `10`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Asked only with `summarize`. Default:
            `'same'`.
        summary_max_tokens: Default: `800`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    every_steps: Positive = 20
    threshold: Share | None = None
    summarize: bool = True
    keep_request: bool = False
    pins: tuple[str, ...] = ()
    keep_last: Positive = 10
    summary_max_tokens: Positive = 800
    kind: Literal["paced"] = "paced"

    def check_combination(self) -> None:
        """See `Preset`."""
        check_patterns(self, "pins")

    @property
    def pipeline(self) -> Pipeline:
        """One rule."""
        middle = Middle(tail=LastMessages(count=self.keep_last), head_messages=2 if self.keep_request else 1)
        summarize = Summarize(
            middle=middle,
            format=SixSections(max_tokens=self.summary_max_tokens),
            max_tokens=self.summary_max_tokens,
            role="assistant",
        )
        reducer: Reducer = summarize if self.summarize else Forget(middle=middle)
        if self.pins:
            reducer = KeepPinned(patterns=self.pins, reducer=reducer)
        steps = Steps(count=self.every_steps)
        if self.threshold is None:
            return Pipeline(NoThreshold(rule=f"every {self.every_steps} steps"), (Rule(steps, reducer),))
        trigger: Trigger = AllOf((Full(), steps))
        division = ShareOfAvailable(share=self.threshold)
        return Pipeline(division, (Rule(trigger, reducer),))
