"""Two arms on the same tasks and seeds: the comparison that everything else of the analysis leads to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.analysis.arms import add_total_cost, find_arm, select_arm, select_valid
from harness.analysis.arms import estimate_success as success_of
from harness.analysis.formatting import describe_level, format_interval, format_points, format_short_number
from harness.analysis.paired_estimates import PairedDifference, PairedRatio, compute_paired_difference, compute_paired_ratio
from harness.analysis.statistics import (
    Interval,
    PairedCounts,
    Rate,
    compute_mcnemar_p,
    compute_newcombe_interval,
    describe_detectable_effect,
    describe_evidence,
)
from harness.analysis.tables import Tables, require_single_level
from harness.analysis.validity import PAIR_COLUMNS, PlaceboCheck, RequestDigests, pair_trials
from harness.errors import format_count

METRICS = ("prompt_tokens", "steps", "total_cost_usd")
"""What is compared beside success; `total_cost_usd` is the agent's cost and the summarizer's."""

_OUTCOME_COLUMNS = ("trial_id", "arm", "level", "status", "reason", "success")
INERT_ACTIVITIES = ("never fired", "no effect")
"""In the column `activity`: the trial is one of a control, whatever its arm is called."""
_EFFORT_COLUMNS = ("score", "activity", "prompt_tokens", "steps")
_REQUIRED_COLUMNS = (*PAIR_COLUMNS, *_OUTCOME_COLUMNS, *_EFFORT_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Arm a against arm b on the tasks and seeds that both ran; print it for the whole story in words.

    Attributes:
        a: Required.
        b: Required.
        level: Required.
        counts: Required.
        success_a: Over the pairs, as is `success_b`. Required.
        success_b: Required.
        interval: 95 % interval of the difference of the success rates, a less b (Newcombe, method 10). Required.
        p_value: Exact McNemar test, two-sided; not adjusted for other comparisons. Required.
        score_difference: Share of checks passed, a less b. Required.
        ratios: Tokens, steps and money of a for each one of b. Required.
        placebo_check: Required.
        inert_pairs_a: Pairs in which the policy of a was never due or changed nothing, though it has rules. Required.
        inert_pairs_b: Required.
        unpaired_trials: Trials of either arm that have no partner. Required.
        excluded_trials: Trials of either arm that the machinery lost; in nothing above. Required.
    """

    a: str
    b: str
    level: str
    counts: PairedCounts
    success_a: Rate
    success_b: Rate
    interval: Interval
    p_value: float
    score_difference: PairedDifference
    ratios: tuple[PairedRatio, ...]
    placebo_check: PlaceboCheck
    inert_pairs_a: int
    inert_pairs_b: int
    unpaired_trials: int
    excluded_trials: int

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
        return "\n".join(
            [
                *self._list_rate_lines(),
                _describe_score_difference(self.score_difference),
                *map(describe_ratio, self.ratios),
                *self._list_caveats(),
            ]
        )

    def _list_rate_lines(self) -> list[str]:
        counts = self.counts
        return [
            f"a = {self.a}",
            f"b = {self.b}",
            f"{format_count(counts.pairs, 'pair')} of the same task and seed, {describe_level(self.level)}",
            f"success: a {self.success_a}, b {self.success_b} (95 % Wilson)",
            f"pairs: both {counts.both}, only a {counts.only_a}, only b {counts.only_b}, neither {counts.neither}",
            f"difference a − b: {100 * self.difference:+.0f} points {format_points(self.interval)} (95 % Newcombe, paired)",
            f"exact McNemar p = {self.p_value:.3g}, for this one comparison",
        ]

    def _list_caveats(self) -> list[str]:
        lost = (
            [f"{format_count(self.excluded_trials, 'trial')} lost by the machinery, in no number"] if self.excluded_trials else []
        )
        alone = [f"{format_count(self.unpaired_trials, 'trial')} without a partner, in no number"] if self.unpaired_trials else []
        idle = {"a": self.inert_pairs_a, "b": self.inert_pairs_b}
        inert = [
            f"{name} is inert in {count} of {format_count(self.counts.pairs, 'pair')}: its policy was "
            "never due or changed nothing"
            for name, count in idle.items()
            if count
        ]
        return [
            str(self.placebo_check),
            *inert,
            *lost,
            *alone,
            f"{describe_detectable_effect(self.counts.pairs)} {describe_evidence(self.counts)}",
        ]


def _describe_score_difference(difference: PairedDifference) -> str:
    """The difference of scores in one line."""
    of = f"over {format_count(difference.unit_count, difference.unit)}"
    said = f"{difference.mean:+.3f}{format_interval(difference.interval, signed=True)}"
    return f"score (share of checks passed) a − b: {said} (95 % Student's t, {of})"


def describe_ratio(ratio: PairedRatio) -> str:
    """A ratio of two arms in one line."""
    name = {"prompt_tokens": "prompt tokens", "total_cost_usd": "cost"}.get(ratio.metric, ratio.metric)
    if not ratio.pairs:
        return f"{name}: {ratio.warning}"
    totals, typical = format_interval(ratio.ratio_of_totals_interval), format_interval(ratio.geometric_mean_interval)
    medians = f"medians {format_short_number(ratio.median_a)} and {format_short_number(ratio.median_b)}"
    line = (
        f"{name} a ÷ b: totals {ratio.ratio_of_totals:.2f}{totals}, typical pair {ratio.geometric_mean:.2f}{typical}, "
        f"less in {100 * ratio.lower_share:.0f} % of {format_count(ratio.pairs, 'pair')}; {medians}"
    )
    return f"{line} ({ratio.warning})" if ratio.warning else line


class ArmComparer:
    """The arms of an experiment. What all comparisons of them rest on is gathered once."""

    def __init__(self, results: Tables) -> None:
        """Gather it."""
        self._trials = add_total_cost(results.trials)[[*_REQUIRED_COLUMNS, "total_cost_usd"]]
        self._requests = RequestDigests.from_results(results)

    def compare(self, a: str, b: str) -> Comparison:
        """See `compare`."""
        sides = select_arm(self._trials, a), select_arm(self._trials, b)
        level = require_single_level(pd.concat(sides))
        valid = select_valid(sides[0]), select_valid(sides[1])
        pairs = pair_trials(*valid, ("score", "activity", *METRICS))
        counts = PairedCounts.from_outcomes(list(pairs["success_a"]), list(pairs["success_b"]))
        return Comparison(
            a=a,
            b=b,
            level=level,
            counts=counts,
            success_a=success_of(pairs.rename(columns={"success_a": "success"})),
            success_b=success_of(pairs.rename(columns={"success_b": "success"})),
            interval=compute_newcombe_interval(counts),
            p_value=compute_mcnemar_p(counts),
            score_difference=compute_paired_difference(pairs, "score"),
            ratios=tuple(compute_paired_ratio(pairs, metric) for metric in METRICS),
            placebo_check=self._requests.check_placebo(pairs),
            inert_pairs_a=int(pairs["activity_a"].isin(INERT_ACTIVITIES).sum()),
            inert_pairs_b=int(pairs["activity_b"].isin(INERT_ACTIVITIES).sum()),
            unpaired_trials=sum(map(len, valid)) - 2 * len(pairs),
            excluded_trials=sum(map(len, sides)) - sum(map(len, valid)),
        )


def compare(results: Tables, a: str | Mapping[str, object], b: str | Mapping[str, object]) -> Comparison:
    """Compare two arms on the tasks and seeds that both ran.

    Args:
        results: tables of one experiment.
        a: name of an arm as in the column `arm`, or values that leave one arm, e.g. `{"threshold": 0.5}`: by dotted path into a
            trial, or by the last part of that path where it is unambiguous.
        b: the arm to compare with, in the same way.

    Example:
        >>> compare(results, {"threshold": 0.5, "keep_last": 10}, {"threshold": 0.8, "keep_last": 10})  # doctest: +SKIP

    Raises:
        UnknownName: no such arm or path; the nearest names are offered.
        UsageError: the values leave no arm or several (names them), the arms are of different fidelity levels, or one has two
            trials of a task, seed and replicate.
    """
    return ArmComparer(results).compare(find_arm(results.trials, a), find_arm(results.trials, b))
