"""SWE-agent, its small sister without compaction, and the study The Complexity Trap.

Old observations become one line each, or old turns a checkpoint.
"""

import re
from dataclasses import dataclass
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, SummarizingPreset
from harness.compaction.stages import is_from_user, replace_results, with_output
from harness.compaction.summary_formats import Notes
from harness.compaction.triggers import DUE_IN_ANY_VIEW, DueAmounts, NoThreshold
from harness.events import ItemId
from harness.messages import ToolResult
from harness.plan import Plan, Slot, SummaryFormat
from harness.tokens import Budget, Usage
from harness.truncation import Truncation
from harness.view import Item, View

ELIDED_PATTERN = re.compile(r"Old environment output: \(\d+ lines omitted\)")
MAX_STUB_CHARACTERS = 60
"""Characters of a stub at most: what is longer need not be matched."""


class _ResultTally:
    """The tally of results: those that have come since the newest masked one. See `harness.tally_cache`."""

    __slots__ = ("count", "masked")

    def __init__(self) -> None:
        self.count = 0
        self.masked = False
        """Whether there is such a one."""

    def add(self, item: Item) -> None:
        """See `harness.tally_cache.Tally`."""
        if item.message.role == "tool":
            elided = _is_elided(item)
            self.masked |= elided
            self.count = 0 if elided else self.count + 1


def _count_overdue(view: View, keep: int, every: int) -> int:
    """How many results are to be masked now.

    The request counts as the first result, as it does in the source; it is never masked.
    """
    shown: int
    shown, masked = view.tally_cache.read(view.items, _ResultTally, _ResultTally, lambda tally: (tally.count, tally.masked))
    return (shown - keep) // every * every if masked else (shown + 1) // every * every - keep - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """More results than are kept have come since the last masking."""

    keep: int
    every: int

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `harness.compaction.triggers.Trigger`."""
        count = _count_overdue(view, self.keep, self.every)
        return f"more than {self.keep} results, {self.every} at a time" if count > 0 else None

    def state_due(self, budget: Budget) -> DueAmounts:
        """See `harness.compaction.triggers.Trigger`."""
        return DUE_IN_ANY_VIEW


@dataclass(frozen=True, slots=True, kw_only=True)
class ElideResults:
    """All results but the newest become one line."""

    keep: int
    every: int

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        count = max(0, _count_overdue(view, self.keep, self.every))
        old = [item for item in view.items if count and item.message.role == "tool" and not _is_elided(item)][:count]
        changes = tuple(replace_results(item, _elide_result) for item in old)
        return Plan(reason=f"{reason}; {len(old)} old results", replace=changes)


def _is_elided(item: Item) -> bool:
    for part in item.message.parts:  # a loop, since every result is looked at before every step
        if isinstance(part, ToolResult) and (len(part.output) > MAX_STUB_CHARACTERS or not ELIDED_PATTERN.fullmatch(part.output)):
            return False
    return True


def _elide_result(result: ToolResult) -> ToolResult:
    return with_output(result, f"Old environment output: ({len(result.output.splitlines())} lines omitted)")


class _TurnTally:
    """The tally of turns behind the newest summary. See `harness.tally_cache`."""

    __slots__ = ("_newest", "count")

    def __init__(self, newest: ItemId | None) -> None:
        self._newest = newest
        self.count = 0

    def add(self, item: Item) -> None:
        """See `harness.tally_cache.Tally`."""
        self.count = 0 if item.item_id == self._newest else self.count + bool(item.message.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsSinceSummary:
    """So many turns stand behind the newest summary, or in view if there is none."""

    count: int

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `harness.compaction.triggers.Trigger`."""
        newest = view.summaries[-1] if view.summaries else None
        turns = view.tally_cache.read(view.items, _TurnTally, lambda: _TurnTally(newest), lambda tally: tally.count)
        return f"{self.count} turns without a summary" if turns >= self.count else None

    def state_due(self, budget: Budget) -> DueAmounts:
        """See `harness.compaction.triggers.Trigger`."""
        return DUE_IN_ANY_VIEW


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeOldestTurns:
    """The oldest turns, with all that was said between them, become a checkpoint behind the request and former checkpoints.

    The newest of these is told apart.
    """

    turns: int
    latest_only: bool
    """Whether former checkpoints go."""
    format: SummaryFormat
    max_tokens: int
    """Output limit that the summarizer is given."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        items, former = view.items, set(view.summaries)
        first = 1 + (len(items) > 1 and is_from_user(view, 1))
        starts = [index for index, item in enumerate(items) if item.message.calls]
        end = starts[self.turns] if len(starts) > self.turns else len(items)
        old = [item.item_id for item in items[first:end] if item.item_id not in former]
        if not old:
            return Plan(reason=f"{reason}, but there is none before the kept ones")
        stays = [item for item in view.summaries[-1:] if not self.latest_only]
        slot = Slot(
            after=stays[0] if stays else items[first - 1].item_id,
            role="assistant",
            stands_for=(*view.summaries[-1:], *old),
            format=self.format,
            max_tokens=self.max_tokens,
        )
        return Plan(reason=reason, forget=(*(view.summaries if self.latest_only else ()), *old), slots=(slot,))


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniSweAgent(Preset):
    """Nothing is compacted; of an output of more than 10,000 characters the first and the last 5,000 stay.

    Source: mini-swe-agent a83fcae8, `agents/default.py` and `config/benchmarks`; PEERS "mini-swe-agent" and 2.12. The history is
    linear and whole: the control that published results stand on. A refused prompt ends the run, as in the original. Different
    from it: the line between the two ends counts among the characters, so each is 30 shorter.

    Attributes:
        clip_characters: Of a longer tool output the first and the last half of so many are logged. Default: `10_000`.
    """

    kind: Literal["mini-swe-agent"] = "mini-swe-agent"

    @property
    def truncation(self) -> Truncation:
        """Both ends of an output."""
        return Truncation(max_characters=self.clip_characters, keep="ends")

    @property
    def pipeline(self) -> Pipeline:
        """The whole window, no threshold, no rule."""
        return Pipeline(NoThreshold(rule="no compaction"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastObservations(Preset):
    """What both share: the newest results stay."""

    polling: Positive = 1
    """Results that are masked at a time: between two maskings up to so many more, less one, stay."""

    def _build_pipeline(self, keep: int) -> Pipeline:
        """One rule: mask what is overdue."""
        rule = Rule(Overdue(keep=keep, every=self.polling), ElideResults(keep=keep, every=self.polling), quiet=True)
        return Pipeline(NoThreshold(rule=f"the newest {keep} results stay"), (rule,))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweAgent(_LastObservations):
    """Before every step all results but the newest 5 become a line that says how long they were.

    Source: SWE-agent 3ea751c0, `sweagent/agent/history_processors.py` (LastNObservations, n = 5 as in the paper's configuration);
    PEERS 2.12. The original masks a copy of the whole history for each request; here a masked result stays masked, which is the
    same, since results only get older. Where masking would save nothing (results shorter than the line) the engine waits. The
    count of images is left out: there are none.

    Attributes:
        keep_results: Newest results that stay. Default: `5`.
    """

    keep_results: Positive = 5
    kind: Literal["swe-agent"] = "swe-agent"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: mask what is overdue."""
        return self._build_pipeline(self.keep_results)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplexityTrapMask(_LastObservations):
    """Before every step all results but the newest 10 become a line that says how long they were.

    Source: The Complexity Trap (arXiv 2508.21433), fork of SWE-agent 1b07decf, observation masking with a window of 10, which its
    hybrid keeps too; its sweep has 5, 10 and 15. PEERS 2.12. Otherwise as `swe-agent`.

    Attributes:
        keep_results: Newest results that stay. Default: `10`.
    """

    keep_results: Positive = 10
    kind: Literal["complexity-trap-mask"] = "complexity-trap-mask"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: mask what is overdue."""
        return self._build_pipeline(self.keep_results)


CHECKPOINT_INSTRUCTION = (
    "Sum up the turns of a coding agent below as a checkpoint from which it goes on. Leave out nothing that it still needs."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplexityTrapSummary(SummarizingPreset):
    """At 31 turns without one, the oldest 21 become a checkpoint of the assistant behind the request; the newest 10 stay.

    Source: The Complexity Trap (arXiv 2508.21433), fork of SWE-agent 1b07decf, SummarizeEveryNTurns with n = 21 and m = 10 of its
    main runs; PEERS 2.12. Former checkpoints stay, and the newest is told. With `mask_results = 10` it is the study's hybrid.
    Different from the original: the request is told each time, there only to the first checkpoint; what the user said between
    turns is told and goes with them, there it goes untold. When the summary fails, the session goes on as it is. An empty summary
    has failed too.

    Attributes:
        turns: Turns that a checkpoint stands for. Default: `21`.
        keep_turns: Newest turns that stay. Default: `10`.
        latest_only: Whether only the newest checkpoint stays (`static` of the original). Default: `False`.
        mask_results: Newest results that stay, the others becoming a line each; None = all stay. Default: `None`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: The source sets none; ours. Default: `4_096`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    turns: Positive = 21
    keep_turns: NonNegative = 10
    latest_only: bool = False
    mask_results: Positive | None = None
    kind: Literal["complexity-trap-summary"] = "complexity-trap-summary"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: summarize the oldest turns. In the hybrid another: mask what is overdue."""
        summarize = SummarizeOldestTurns(
            turns=self.turns,
            latest_only=self.latest_only,
            format=Notes(instruction=CHECKPOINT_INSTRUCTION, heading="Checkpoint of earlier turns:"),
            max_tokens=self.summary_max_tokens,
        )
        rules: tuple[Rule, ...] = (Rule(TurnsSinceSummary(count=self.turns + self.keep_turns), summarize),)
        if self.mask_results is not None:
            mask = ElideResults(keep=self.mask_results, every=1)
            rules = (*rules, Rule(Overdue(keep=self.mask_results, every=1), mask, quiet=True))
        return Pipeline(NoThreshold(rule=f"{self.turns + self.keep_turns} turns without a summary"), rules)
