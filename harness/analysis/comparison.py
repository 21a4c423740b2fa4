"""Two arms on the same tasks and seeds: the comparison that everything else of the analysis leads to."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.analysis.arms import counting, of_arm
from harness.analysis.arms import success as success_of
from harness.analysis.formatting import bounds, level_in_words, points, short_number
from harness.analysis.paired_estimates import PairedDifference, PairedRatio, paired_difference, paired_ratio
from harness.analysis.statistics import (
    Interval,
    PairedCounts,
    Rate,
    mcnemar_p,
    newcombe,
    what_pairs_can_show,
    what_was_shown,
)
from harness.analysis.tables import Tables, one_level
from harness.analysis.validity import PAIRED_BY, Placebo, Requests, pair
from harness.errors import counted

METRICS = ("prompt_tokens", "steps", "total_cost_usd")
"""What is compared beside success; `total_cost_usd` is the agent's cost and the summarizer's."""

_OUTCOME = ("trial_id", "arm", "level", "status", "reason", "success")
IDLE = ("never fired", "no effect")
"""In the column `activity`: the trial is one of a control, whatever its arm is called."""
_EFFORT = ("score", "activity", "prompt_tokens", "steps")
_NEEDED = (*PAIRED_BY, *_OUTCOME, *_EFFORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Arm a against arm b on the tasks and seeds that both ran; print it for the whole story in words."""

    a: str
    b: str
    level: str
    counts: PairedCounts
    success_a: Rate
    """Over the pairs, as is `success_b`."""
    success_b: Rate
    interval: Interval
    """95 % interval of the difference of the success rates, a less b (Newcombe, method 10)."""
    p_value: float
    """Exact McNemar test, two-sided; not adjusted for other comparisons."""
    score: PairedDifference
    """Share of checks passed, a less b."""
    ratios: tuple[PairedRatio, ...]
    """Tokens, steps and money of a for each one of b."""
    placebo: Placebo
    idle_a: int
    """Pairs in which the policy of a was never due or changed nothing, though it has rules."""
    idle_b: int
    unpaired: int
    """Trials of either arm that have no partner."""
    set_aside: int
    """Trials of either arm that the machinery lost; in nothing above."""

    @property
    def difference(self) -> float:
        """Success rate of a less that of b, −1 to 1."""
        return self.counts.difference

    def table(self) -> pd.DataFrame:
        """The four counts of the pairs, as a table of a's outcome by b's."""
        counts = self.counts
        return pd.DataFrame(
            [[counts.both, counts.only_a], [counts.only_b, counts.neither]],
            index=pd.Index(["success", "failure"], name=self.a),
            columns=pd.Index(["success", "failure"], name=self.b),
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __str__(self) -> str:
        return "\n".join([*self._rates(), _score(self.score), *map(in_words, self.ratios), *self._doubts()])

    def _rates(self) -> list[str]:
        counts = self.counts
        return [
            f"a = {self.a}",
            f"b = {self.b}",
            f"{counted(counts.pairs, 'pair')} of the same task and seed, {level_in_words(self.level)}",
            f"success: a {self.success_a}, b {self.success_b} (95 % Wilson)",
            f"pairs: both {counts.both}, only a {counts.only_a}, only b {counts.only_b}, neither {counts.neither}",
            f"difference a − b: {100 * self.difference:+.0f} points {points(self.interval)} (95 % Newcombe, paired)",
            f"exact McNemar p = {self.p_value:.3g}, for this one comparison",
        ]

    def _doubts(self) -> list[str]:
        lost = [f"{counted(self.set_aside, 'trial')} lost by the machinery, in no number"] if self.set_aside else []
        alone = [f"{counted(self.unpaired, 'trial')} without a partner, in no number"] if self.unpaired else []
        idle = {"a": self.idle_a, "b": self.idle_b}
        inert = [
            f"{name} is inert in {count} of {counted(self.counts.pairs, 'pair')}: its policy was never due or changed nothing"
            for name, count in idle.items()
            if count
        ]
        return [
            str(self.placebo),
            *inert,
            *lost,
            *alone,
            f"{what_pairs_can_show(self.counts.pairs)} {what_was_shown(self.counts)}",
        ]


def _score(score: PairedDifference) -> str:
    """The difference of scores in one line."""
    of = f"over {counted(score.units, score.unit)}"
    said = f"{score.mean:+.3f}{bounds(score.interval, signed=True)}"
    return f"score (share of checks passed) a − b: {said} (95 % Student's t, {of})"


def in_words(ratio: PairedRatio) -> str:
    """A ratio of two arms in one line."""
    name = {"prompt_tokens": "prompt tokens", "total_cost_usd": "cost"}.get(ratio.metric, ratio.metric)
    if not ratio.pairs:
        return f"{name}: {ratio.warning}"
    totals, typical = bounds(ratio.of_totals_interval), bounds(ratio.geometric_interval)
    medians = f"medians {short_number(ratio.median_a)} and {short_number(ratio.median_b)}"
    line = (
        f"{name} a ÷ b: totals {ratio.of_totals:.2f}{totals}, typical pair {ratio.geometric:.2f}{typical}, "
        f"less in {100 * ratio.share_lower:.0f} % of {counted(ratio.pairs, 'pair')}; {medians}"
    )
    return f"{line} ({ratio.warning})" if ratio.warning else line


class Arms:
    """The arms of an experiment. What all comparisons of them rest on is gathered once."""

    def __init__(self, results: Tables) -> None:
        """Gather it."""
        costs = results.trials[["cost_usd", "summarizer_cost_usd"]].astype(float)
        self._trials = results.trials[list(_NEEDED)].assign(total_cost_usd=costs["cost_usd"] + costs["summarizer_cost_usd"])
        self._requests = Requests.of(results)

    def compare(self, a: str, b: str) -> Comparison:
        """See `compare`."""
        sides = of_arm(self._trials, a), of_arm(self._trials, b)
        level = one_level(pd.concat(sides))
        valid = counting(sides[0]), counting(sides[1])
        pairs = pair(*valid, ("score", "activity", *METRICS))
        counts = PairedCounts.of(list(pairs["success_a"]), list(pairs["success_b"]))
        return Comparison(
            a=a,
            b=b,
            level=level,
            counts=counts,
            success_a=success_of(pairs.rename(columns={"success_a": "success"})),
            success_b=success_of(pairs.rename(columns={"success_b": "success"})),
            interval=newcombe(counts),
            p_value=mcnemar_p(counts),
            score=paired_difference(pairs, "score"),
            ratios=tuple(paired_ratio(pairs, metric) for metric in METRICS),
            placebo=self._requests.placebo(pairs),
            idle_a=int(pairs["activity_a"].isin(IDLE).sum()),
            idle_b=int(pairs["activity_b"].isin(IDLE).sum()),
            unpaired=sum(map(len, valid)) - 2 * len(pairs),
            set_aside=sum(map(len, sides)) - sum(map(len, valid)),
        )


def compare(results: Tables, a: str, b: str) -> Comparison:
    """Compare two arms, named as in the column `arm` of the trials.

    Raises:
        UnknownName: no trial of that arm; the nearest names are offered.
        UsageError: the arms are of different fidelity levels, or one has two trials of a task, seed and replicate.
    """
    return Arms(results).compare(a, b)
