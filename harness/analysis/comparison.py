"""Comparison of success, score, tokens, steps and cost between two arms (configurations) on the same tasks and seeds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.analysis.arms import add_total_cost, find_arm, select_arm, select_valid
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
    estimate_rate,
)
from harness.analysis.tables import Tables, require_single_level
from harness.analysis.validity import PAIR_COLUMNS, PlaceboCheck, RequestDigests, pair_trials
from harness.errors import format_count

METRICS = ("prompt_tokens", "steps", "total_cost_usd")
"""Columns of the trials table compared in addition to success and score; `total_cost_usd` includes summarizer and sub-agents."""
INERT_ACTIVITIES = ("never fired", "no effect")
"""Values of the column `activity` for trials whose policy had no effect, so that they ran as if without compaction."""
_OUTCOME_COLUMNS = ("trial_id", "arm", "level", "status", "reason", "success", "score", "activity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Comparison of arm a with arm b on the tasks and seeds that both ran; print it to read all results as text.

    Attributes:
        a: Name of the first arm. Required.
        b: Name of the second arm. Required.
        level: Fidelity level (how much of a run is real) of all trials. Required.
        counts: Number of pairs of trials in which both arms, one arm or neither arm succeeded. Required.
        success_a: Success rate of arm a over the pairs, with a 95 % Wilson interval. Required.
        success_b: Success rate of arm b over the pairs, with a 95 % Wilson interval. Required.
        interval: 95 % interval for the difference of the success rates, a minus b (Newcombe, method 10). Required.
        p_value: Two-sided p of the exact McNemar test, not adjusted for other comparisons. Required.
        score_difference: Mean difference of the score (share of checks passed), a minus b, with its interval. Required.
        ratios: Ratios of prompt tokens, steps and total cost, arm a divided by arm b, with intervals. Required.
        placebo_check: Validity check that both arms sent identical requests until the first compaction. Required.
        inert_pairs_a: Number of pairs in which the policy of arm a was never triggered or changed nothing. Required.
        inert_pairs_b: Number of pairs in which the policy of arm b was never triggered or changed nothing. Required.
        unpaired_trials: Number of trials of either arm without a trial of the other arm on the same task and seed. Required.
        excluded_trials: Number of trials of either arm excluded from all other numbers because of infrastructure failures.
            Required.

    Example::

        comparison = harness.compare(results, {"threshold": 0.5}, {"threshold": 0.8})
        print(comparison)
        comparison.difference, comparison.interval, comparison.p_value
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
        """Success rate of arm a minus success rate of arm b over the pairs, −1 to 1."""
        return self.counts.difference

    def table(self) -> pd.DataFrame:
        """Return the numbers of pairs as a 2 × 2 table, with the outcomes of arm a in rows and those of arm b in columns."""
        counts = self.counts
        return pd.DataFrame(
            [[counts.both, counts.only_a], [counts.only_b, counts.neither]],
            index=pd.Index(["success", "failure"], name=self.a),
            columns=pd.Index(["success", "failure"], name=self.b),
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __str__(self) -> str:
        counts = self.counts
        return "\n".join(
            [
                f"a = {self.a}",
                f"b = {self.b}",
                f"{format_count(counts.pairs, 'pair')} of the same task and seed, {describe_level(self.level)}",
                f"success: a {self.success_a}, b {self.success_b} (95 % Wilson)",
                f"pairs: both {counts.both}, only a {counts.only_a}, only b {counts.only_b}, neither {counts.neither}",
                f"difference a − b: {100 * self.difference:+.0f} points {format_points(self.interval)} (95 % Newcombe, paired)",
                f"exact McNemar p = {self.p_value:.3g}, for this comparison alone",
                _describe_score_difference(self.score_difference),
                *map(describe_ratio, self.ratios),
                str(self.placebo_check),
                *self._list_caveats(),
                f"{describe_detectable_effect(counts.pairs)} {describe_evidence(counts)}",
            ]
        )

    def _list_caveats(self) -> Iterator[str]:
        pairs = format_count(self.counts.pairs, "pair")
        for name, count in (("a", self.inert_pairs_a), ("b", self.inert_pairs_b)):
            if count:
                yield f"{name} is inert in {count} of {pairs}: its policy was never triggered or changed nothing"
        if self.excluded_trials:
            yield f"{format_count(self.excluded_trials, 'trial')} excluded because of infrastructure failures"
        if self.unpaired_trials:
            yield f"{format_count(self.unpaired_trials, 'trial')} excluded for lack of a partner"


def _describe_score_difference(difference: PairedDifference) -> str:
    units = format_count(difference.unit_count, difference.unit)
    estimate = f"{difference.mean:+.3f}{format_interval(difference.interval, signed=True)}"
    line = f"score (share of checks passed) a − b: {estimate} (95 % Student's t, over {units})"
    return f"{line} ({difference.warning})" if difference.warning else line


def describe_ratio(ratio: PairedRatio) -> str:
    """Return a line of text about the ratio of a metric between two arms, with intervals and medians."""
    name = {"prompt_tokens": "agent prompt tokens", "total_cost_usd": "cost in USD (with summaries)"}.get(
        ratio.metric, ratio.metric
    )
    if not ratio.pairs:
        return f"{name}: {ratio.warning}"
    totals, typical = format_interval(ratio.ratio_of_totals_interval), format_interval(ratio.geometric_mean_interval)
    medians = f"medians {format_short_number(ratio.median_a)} and {format_short_number(ratio.median_b)}"
    line = (
        f"{name} a ÷ b: totals {ratio.ratio_of_totals:.2f}{totals}, typical pair {ratio.geometric_mean:.2f}{typical}, "
        f"lower in {100 * ratio.lower_share:.0f} % of {format_count(ratio.pairs, 'pair')}; {medians}"
    )
    return f"{line} ({ratio.warning})" if ratio.warning else line


class ArmComparer:
    """Object that compares arms (configurations) of one experiment; the tables are prepared once for all comparisons."""

    def __init__(self, results: Tables) -> None:
        """Prepare the trials and the digests of their requests for comparisons.

        Args:
            results: Tables of results of one experiment.
        """
        self._trials = add_total_cost(results.trials)[[*PAIR_COLUMNS, *_OUTCOME_COLUMNS, *METRICS]]
        self._requests = RequestDigests.from_results(results)

    def compare(self, a: str, b: str) -> Comparison:
        """Compare the arm named `a` with the arm named `b` on the tasks and seeds that both ran."""
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
            success_a=estimate_rate(counts.both + counts.only_a, counts.pairs),
            success_b=estimate_rate(counts.both + counts.only_b, counts.pairs),
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
    """Compare two arms (configurations under study) on the tasks and seeds that both ran.

    Args:
        results: Results of one experiment, as returned by `harness.load` or `Experiment.results`. Required.
        a: Name of an arm as in the column `arm`, or settings that only one arm has, e.g. `{"threshold": 0.5}`. A setting is named
            by its dotted path in a trial's configuration, or by the last part of the path if it is unambiguous. Required.
        b: Arm to compare with, selected like `a`. Required.

    Example::

        harness.compare(results, {"threshold": 0.5, "keep_last": 10}, {"threshold": 0.8, "keep_last": 10})

    Raises:
        UnknownName: An arm or a path does not exist; the message suggests similar names.
        UsageError: The values select no arm or several arms, the arms have different fidelity levels, or an arm has two trials of
            the same task, seed and replicate.
    """
    return ArmComparer(results).compare(find_arm(results.trials, a), find_arm(results.trials, b))
