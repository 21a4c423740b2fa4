"""Compaction policies of SWE-agent, of mini-swe-agent, and of the study "The Complexity Trap".

They replace old tool results by one line each, or old turns by a summary. The policy of mini-swe-agent only shortens long tool
outputs.
"""

import re
from dataclasses import dataclass
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, SummarizingPreset
from harness.compaction.stages import is_from_user, replace_results, with_output
from harness.compaction.summary_formats import Notes
from harness.compaction.triggers import DUE_IN_ANY_VIEW, DueAmounts, NoThreshold
from harness.conversation.events import ItemId
from harness.conversation.messages import ToolResult
from harness.conversation.plan import CompactionPlan, Slot, SummaryFormat
from harness.conversation.tokens import Budget, Usage
from harness.conversation.truncation import Truncation
from harness.conversation.view import Item, View

ELIDED_PATTERN = re.compile(r"Old environment output: \(\d+ lines omitted\)")
"""Pattern that matches the line that replaces an old tool result and gives the result's number of lines."""
MAX_STUB_CHARACTERS = 60
"""Length in characters above which a tool result cannot be the short line that replaces an old result."""


class _ResultTally:
    """Running list of the tool results in view that are not masked (replaced by a line), and a count of the newest of them."""

    __slots__ = ("count", "masked", "shown")

    def __init__(self) -> None:
        self.count = 0
        """Number of tool results after the newest masked one."""
        self.masked = False
        """Whether the conversation contains a tool result that was already replaced by a line."""
        self.shown: list[Item] = []
        """Messages with tool results that are not masked, oldest first."""

    def add(self, item: Item) -> None:
        if item.message.role == "tool":
            elided = _is_elided(item)
            self.masked |= elided
            self.count = 0 if elided else self.count + 1
            if not elided:
                self.shown.append(item)

    def list_overdue(self, keep: int, period: int) -> list[Item]:
        """Return the old tool results that must be replaced by a line now.

        As in the original, the user's request counts as the first tool result, but it is never replaced.
        """
        count = (self.count - keep) // period * period if self.masked else (self.count + 1) // period * period - keep - 1
        return self.shown[: max(0, count)]


def _list_overdue(view: View, keep: int, period: int) -> list[Item]:
    """Return the old tool results that must be replaced by a line now, oldest first."""
    return view.tally_cache.read(view.items, _ResultTally, _ResultTally, lambda tally: tally.list_overdue(keep, period))


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """Trigger that makes the policy act when enough tool results were added since old ones were last replaced by a line each."""

    keep: int
    """Number of newest tool results that are never masked (replaced by a line)."""
    every: int
    """Number of tool results that are masked at a time."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return a reason if the oldest tool results must be replaced by lines now; None otherwise."""
        is_due = bool(_list_overdue(view, self.keep, self.every))
        return f"more than {self.keep} results, {self.every} at a time" if is_due else None

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return no size (an empty `DueAmounts`), since this trigger counts tool results."""
        return DUE_IN_ANY_VIEW


@dataclass(frozen=True, slots=True, kw_only=True)
class ElideResults:
    """Part of a policy that replaces all tool results but the newest by one line each."""

    keep: int
    """Number of newest tool results that are never masked (replaced by a line)."""
    every: int
    """Number of tool results that are masked at a time."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that replaces each old tool result by a line with the number of omitted lines."""
        old = _list_overdue(view, self.keep, self.every)
        changes = tuple(replace_results(item, _elide_result) for item in old)
        return CompactionPlan(reason=f"{reason}; {len(old)} old results", replace=changes)


def _is_elided(item: Item) -> bool:
    for part in item.message.parts:  # a loop is faster than a generator, and this runs before every step
        if isinstance(part, ToolResult) and (len(part.output) > MAX_STUB_CHARACTERS or not ELIDED_PATTERN.fullmatch(part.output)):
            return False
    return True


def _elide_result(result: ToolResult) -> ToolResult:
    return with_output(result, f"Old environment output: ({len(result.output.splitlines())} lines omitted)")


class _TurnTally:
    """Running count of the turns (answers with tool calls) in view after the newest summary."""

    __slots__ = ("_newest", "count")

    def __init__(self, newest: ItemId | None) -> None:
        self._newest = newest
        self.count = 0

    def add(self, item: Item) -> None:
        self.count = 0 if item.item_id == self._newest else self.count + bool(item.message.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsSinceSummary:
    """Trigger that makes the policy act when enough turns (answers with tool calls) have passed without a summary."""

    count: int
    """Number of turns (answers with tool calls) without a summary after which the policy acts."""

    @property
    def memory(self) -> str:
        """Facts about earlier compactions that decide what this part does."""
        return "the number of turns since its last summary"

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return a reason with the number of turns if enough turns follow the newest summary, or None."""
        newest = view.summaries[-1] if view.summaries else None
        turns = view.tally_cache.read(view.items, _TurnTally, lambda: _TurnTally(newest), lambda tally: tally.count)
        return f"{self.count} turns without a summary" if turns >= self.count else None

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return no size (an empty `DueAmounts`), since this trigger counts turns."""
        return DUE_IN_ANY_VIEW


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeOldestTurns:
    """Part of a policy that replaces the oldest turns by a summary (a checkpoint) behind the request and former summaries.

    The summary also covers all messages between these turns. The summarizer also reads the newest former checkpoint.
    """

    turns: int
    """Number of turns (answers with tool calls) that one checkpoint summarizes."""
    latest_only: bool
    """Whether only the newest checkpoint stays in view and older ones are evicted."""
    format: SummaryFormat
    """Format of the prompt for the summarizer and of the checkpoint inserted into the view."""
    max_tokens: int
    """Maximum number of tokens that the summarizer may write."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that replaces the oldest turns by a checkpoint; empty if there are too few turns."""
        items, former = view.items, set(view.summaries)
        first = 1 + (len(items) > 1 and is_from_user(view, items[1]))  # system message and request stay
        starts = [index for index, item in enumerate(items) if item.message.calls]
        end = starts[self.turns] if len(starts) > self.turns else len(items)
        old = [item.item_id for item in items[first:end] if item.item_id not in former]
        if not old:
            return CompactionPlan(reason=f"{reason}, but nothing lies before the retained turns")
        stays = [item for item in view.summaries[-1:] if not self.latest_only]
        slot = Slot(
            after=stays[0] if stays else items[first - 1].item_id,
            role="assistant",
            stands_for=(*view.summaries[-1:], *old),
            format=self.format,
            max_tokens=self.max_tokens,
        )
        return CompactionPlan(reason=reason, forget=(*(view.summaries if self.latest_only else ()), *old), slots=(slot,))


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniSweAgent(Preset):
    """Policy that never compacts, but cuts tool outputs above 10,000 characters to about their first and last 5,000.

    Choose it as a control that is comparable with published results of mini-swe-agent: long outputs are shortened, nothing is
    compacted.

    Source: mini-swe-agent a83fcae8, `agents/default.py` and `config/benchmarks`.

    The history is linear and complete, as in the published results of that agent. A refused prompt ends the run, as in the
    original.

    One difference from the original: the line between the two ends is part of the maximum length, so each end is 30 characters
    shorter.

    Attributes:
        clip_characters: Maximum length of a tool output, in characters; of a longer output, both ends are logged, half each.
            Default: `10_000`.

    Example:
        Compare two maximum lengths of a tool output:

        >>> from harness import Experiment, Trial
        >>> from harness.policies import MiniSweAgent
        >>> base = Trial(task="flashcards", policy=MiniSweAgent(), window_tokens=32_768)
        >>> experiment = Experiment(name="outputs", base=base, axes={"policy.clip_characters": [4_000, 10_000]})
        >>> len(experiment.grid)
        2
    """

    kind: Literal["mini-swe-agent"] = "mini-swe-agent"

    @property
    def truncation(self) -> Truncation:
        """Limits on the length of tool outputs; of a longer output, the beginning and the end are kept."""
        return Truncation(max_characters=self.clip_characters, keep="ends")

    @property
    def pipeline(self) -> Pipeline:
        """Pipeline (behaviour of the policy) without rules and without a threshold, so nothing is ever compacted."""
        return Pipeline(NoThreshold(rule="no compaction"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastObservations(Preset):
    """Common fields of two policies that replace all tool results but the newest by one line each.

    Attributes:
        keep_results: Number of newest tool results that are never masked (replaced by a line). Default: `5`.
        polling: Number of tool results that are masked at a time; up to one less than this number may stay in view in addition to
            `keep_results`. Default: `1`.
    """

    keep_results: Positive = 5
    polling: Positive = 1

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which replaces old tool results by one line each before every step."""
        keep, period = self.keep_results, self.polling
        rule = Rule(Overdue(keep=keep, every=period), ElideResults(keep=keep, every=period), quiet=True)
        return Pipeline(NoThreshold(rule=f"the newest {keep} results stay"), (rule,))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweAgent(_LastObservations):
    """Policy that, before every step, replaces all tool results but the newest 5 by a line that gives their length.

    Choose it as the classic baseline: only the newest tool results stay in view, and no model is called.

    Source: SWE-agent 3ea751c0, `sweagent/agent/history_processors.py`, LastNObservations with the paper's n = 5.

    The original masks a copy of the whole history for each request; here a masked result stays masked, which is equivalent
    because results only get older. If masking saves nothing, because the results are shorter than the line, compaction pauses
    until the conversation has grown. The line does not give the number of images in a result, because results here contain none.

    Example:
        Mask five results at a time, so that the provider's cached prefix is lost less often:

        >>> from harness.policies import SweAgent
        >>> from harness.conversation.tokens import Window
        >>> policy = SweAgent(keep_results=5, polling=5)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).rule
        'the newest 5 results stay'
    """

    kind: Literal["swe-agent"] = "swe-agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplexityTrapMask(_LastObservations):
    """Policy that, before every step, replaces all tool results but the newest 10 by a line that gives their length.

    Choose it as the strong, cheap baseline that the study recommends: it needs no model and edits the conversation in small
    steps.

    Source: The Complexity Trap (arXiv 2508.21433), fork of SWE-agent 1b07decf, observation masking with a window of 10.

    The study retains 10 results in its main runs and in its combination with summaries; it also tries 5 and 15. Otherwise the
    policy equals `swe-agent`.

    Attributes:
        keep_results: Number of newest tool results that are never masked (replaced by a line). Default: `10`.

    Example:
        Compare the three numbers of retained results that the study tries:

        >>> from harness import Experiment, Trial
        >>> from harness.policies import ComplexityTrapMask
        >>> base = Trial(task="flashcards", policy=ComplexityTrapMask(), window_tokens=32_768)
        >>> experiment = Experiment(name="masking", base=base, axes={"policy.keep_results": [5, 10, 15]})
        >>> len(experiment.grid)
        3
    """

    keep_results: Positive = 10
    kind: Literal["complexity-trap-mask"] = "complexity-trap-mask"


CHECKPOINT_INSTRUCTION = (
    "Sum up the turns of a coding agent below as a checkpoint from which it goes on. Leave out nothing that it still needs."
)
"""Instruction to the summarizer to write a checkpoint of old turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplexityTrapSummary(SummarizingPreset):
    """Policy that summarizes the oldest 21 turns whenever 31 turns have no summary; the request and the newest 10 turns stay.

    Choose it to reproduce the study's comparison of masking with periodic summaries, or for compaction by turns.

    Source: The Complexity Trap (arXiv 2508.21433), fork of SWE-agent 1b07decf, SummarizeEveryNTurns with n = 21 and m = 10.

    Former checkpoints (summaries) stay in view, and the newest one is passed to the summarizer. `mask_results=10` gives the
    study's combination of summaries and masking. If the summary fails or is empty, the conversation stays unchanged.

    Differences from the original:

    - The summarizer reads the request every time instead of only the first time.
    - Messages of the user between turns are summarized instead of being lost.

    Attributes:
        turns: Number of turns (answers with tool calls) that one checkpoint summarizes. Default: `21`.
        keep_turns: Number of newest turns (answers with tool calls) that are not summarized. Default: `10`.
        latest_only: Whether only the newest checkpoint (summary) stays in view; this is `static` in the original.
            Default: `False`.
        mask_results: Number of newest tool results that are not masked, while all older ones are; None masks no result.
            Default: `None`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Combine summaries with masking, as the study does:

        >>> from harness.policies import ComplexityTrapSummary
        >>> from harness.conversation.tokens import Window
        >>> policy = ComplexityTrapSummary(mask_results=10)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).rule
        '31 turns without a summary'
    """

    turns: Positive = 21
    keep_turns: NonNegative = 10
    latest_only: bool = False
    mask_results: Positive | None = None
    kind: Literal["complexity-trap-summary"] = "complexity-trap-summary"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize the oldest turns and, if `mask_results` is set, mask old tool results."""
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
