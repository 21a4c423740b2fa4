"""Comparison of success, score, tokens, steps and cost between two arms on the same tasks and seeds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pandas as pd

from harness.analysis.arms import (
    BROKEN_REASONS,
    add_total_cost,
    complete_axes,
    estimate_success,
    find_arms,
    list_names,
    select_arm,
    select_outcomes,
    select_valid,
)
from harness.analysis.axes import UNIT_COLUMNS, average_arm_pairs, match_arms
from harness.analysis.effects import Effect, describe_estimand, describe_evidence, estimate_effect
from harness.analysis.families import open_outcomes
from harness.analysis.formatting import (
    describe_level,
    format_interval,
    format_label,
    format_p,
    format_points,
    format_relation,
    format_short_number,
)
from harness.analysis.intervals import Interval
from harness.analysis.paired_ratios import PairedRatio, compute_paired_ratio
from harness.analysis.rule_costs import describe_winners, list_cheapest, price_trials
from harness.analysis.statistics import PairedCounts, Rate
from harness.analysis.tables import Tables, iterate_parts, require_single_level
from harness.analysis.trajectories import CHECK_COLUMNS, add_trajectories, count_distinct, list_verdicts
from harness.analysis.validity import NEEDED_COLUMNS, PlaceboCheck, RequestDigests, find_separated_arms, pair_trials
from harness.errors import UnknownName, UsageError, format_count
from harness.experiment.contrasts import Estimand
from harness.text import escape_control_characters, render_html_table

RATIO_METRICS = ("prompt_tokens", "steps", "total_cost_usd")
"""Columns of the trials table whose ratio is compared; `total_cost_usd` includes summarizer and sub-agents."""
COMPARED_METRICS = ("success", "score", *RATIO_METRICS)
"""Metrics of which a comparison of two arms contains the effects."""
INERT_ACTIVITIES = ("never fired", "no effect")
"""Values of the column `activity` for trials whose policy had no effect, so that they ran as if without compaction."""
UNCALLED_ACTIVITY = "summarizer never asked"
"""Value of the column `activity` for trials whose policy compacted, but had nothing to summarize."""
_CACHE_COLUMNS = ("cache_read_tokens", "cache_write_tokens", "cache_could_save_usd")
_OUTCOME_COLUMNS = ("model", "level", "status", "reason", "score", "activity", "trajectory", "started_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Comparison of arm a with arm b on the tasks and seeds that both ran; print it to read the results.

    Attributes:
        a: Name of the first arm. Required.
        b: Name of the second arm. Required.
        level: Fidelity level of all trials. Required.
        counts: Number of pairs of trials in which both arms, one arm or neither arm succeeded. Required.
        success_a: Success rate of arm a over the pairs, with its 95 % interval. Required.
        success_b: Success rate of arm b over the pairs, with its 95 % interval. Required.
        effects: Effects of arm a against arm b on success, score, prompt tokens, steps and total cost, each with interval and
            p-value, or the reason why there is none, and with the tasks that it speaks about. Required.
        ratios: Ratios of totals and medians of prompt tokens, steps and total cost, arm a divided by arm b. Required.
        cached_cost_ratio: Ratio of the total costs, arm a divided by arm b, as with a prompt cache that never evicts; None if a
            provider reported cached tokens, so that the costs are with a cache, or if the savings are unknown. Required.
        distinct_trajectories: Number of pairs that took distinct courses (tools, shapes of their arguments, and verdicts of
            checks); None if a course is unknown. Required.
        placebo_check: Validity check that both arms sent identical requests until the first compaction. Required.
        inert_pairs_a: Number of pairs in which the policy of arm a was never triggered or changed nothing. Required.
        inert_pairs_b: Number of pairs in which the policy of arm b was never triggered or changed nothing. Required.
        uncalled_pairs_a: Number of pairs in which the policy of arm a compacted without calling its summarizer, because there was
            nothing to summarize. Required.
        uncalled_pairs_b: The same number for arm b. Required.
        unpaired_trials: Number of trials of either arm without a trial of the other arm on the same task and seed. Required.
        excluded_trials: Number of trials of either arm excluded from all other numbers because of infrastructure failures.
            Required.
        worst_case: Bounds of the difference in success if the excluded trials of one arm had failed and those of the other
            succeeded; None if both arms lost the trials of the same tasks and seeds. Required.
        worst_case_score: The same bounds of the difference in score, if the excluded trials had the scores 0 and 1. Required.
        arm_pairs: Number of pairs of arms over which the effects are averaged; 1 unless settings selected several arms. Required.
        is_separated: Whether the arms ran at separate times rather than interleaved, so that a change over time, such as of a
            provider's model, counts as an effect of the arm. Required.
        policy_errors_a: Number of pairs in which the trial of arm a ended by an error of its policy. Default: `0`.
        policy_errors_b: The same number for arm b. Default: `0`.
        policy_error: First message of these errors; empty without one. Default: `''`.
        cheaper_by_rule: Price rules under which each arm, `a` or `b`, has the lower total cost over the pairs; a rule under which
            both cost the same is in neither. Empty if the sizes of the prompts are unknown. Default: `{}`.

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
    effects: tuple[Effect, ...]
    ratios: tuple[PairedRatio, ...]
    cached_cost_ratio: float | None
    distinct_trajectories: int | None
    placebo_check: PlaceboCheck
    inert_pairs_a: int
    inert_pairs_b: int
    uncalled_pairs_a: int
    uncalled_pairs_b: int
    unpaired_trials: int
    excluded_trials: int
    worst_case: Interval | None
    worst_case_score: Interval | None
    arm_pairs: int
    is_separated: bool
    policy_errors_a: int = 0
    policy_errors_b: int = 0
    policy_error: str = ""
    cheaper_by_rule: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def difference(self) -> float:
        """Mean over tasks of the success rate of arm a minus that of arm b, −1 to 1; NaN without pairs."""
        return self.find_effect("success").value

    @property
    def interval(self) -> Interval:
        """95 % interval for the effect on success."""
        return self.find_effect("success").interval

    @property
    def p_value(self) -> float:
        """Two-sided p-value of the effect on success, not adjusted for other comparisons."""
        return self.find_effect("success").p_value

    def find_effect(self, metric: str) -> Effect:
        """Return the effect on a metric: `success`, `score`, `prompt_tokens`, `steps` or `total_cost_usd`.

        Raises:
            UnknownName: The metric is not compared.
        """
        for effect in self.effects:
            if effect.metric == metric:
                return effect
        raise UnknownName("metric", metric, [effect.metric for effect in self.effects])

    def table(self) -> pd.DataFrame:
        """Return the numbers of pairs as a 2 × 2 table: outcomes of arm a in rows, of arm b in columns."""
        counts = self.counts
        return pd.DataFrame(
            [[counts.both, counts.only_a], [counts.only_b, counts.neither]],
            index=pd.Index(["success", "failure"], name=self.a),
            columns=pd.Index(["success", "failure"], name=self.b),
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                METRIC_LABELS.get(effect.metric, effect.metric),
                f"a {'÷' if effect.scale == 'ratio' else '−'} b",
                format_effect(effect) if effect.pair_count else _describe_no_values(effect),
                format_p(effect.p_value),
                effect.estimand,
                effect.refusal or effect.method,
            )
            for effect in self.effects
        ]
        columns = ("metric", "", "effect, 95 %", "p", "estimand", "method")
        lines = str(self).splitlines()
        effect_lines = set(map(describe_effect, self.effects))
        return render_html_table(f"{self.a} − {self.b}", columns, rows, [line for line in lines if line not in effect_lines])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(escape_control_characters(str(self), keep="\n"))

    def _describe_copies(self) -> str:
        distinct, pairs = self.distinct_trajectories, self.counts.pairs
        if distinct is None or pairs < 2:
            return ""
        if distinct == pairs:
            return ", none of which repeats another"
        return f", {distinct} of them distinct; the others repeat these"

    def _describe_arm_pairs(self) -> Iterator[str]:
        if self.arm_pairs > 1:
            yield (
                f"effects are averaged over {self.arm_pairs} pairs of arms that are equal in all other settings, as in the "
                "report's table by axis; counts, totals and medians are of all their trials"
            )

    def __str__(self) -> str:
        counts, success, copies = self.counts, self.find_effect("success"), self._describe_copies()
        depends = describe_winners(self.cheaper_by_rule, "which arm costs less")
        lines = [
            *([depends] if depends else []),
            f"a = {self.a}",
            f"b = {self.b}",
            *self._describe_arm_pairs(),
            f"{format_count(counts.pairs, 'pair')} of trials on the same task and seed{copies}; {describe_level(self.level)}",
            f"success: a {self.success_a}, b {self.success_b}",
            f"pairs by success: both {counts.both}, only a {counts.only_a}, only b {counts.only_b}, neither {counts.neither}",
        ]
        if success.task_count:
            lines.append(f"what the numbers are about (estimand): {describe_estimand(success.estimand, success.task_count)}")
        return "\n".join(
            [
                *lines,
                *map(describe_effect, self.effects),
                *map(describe_ratio, self.ratios),
                str(self.placebo_check),
                *self._list_caveats(),
                describe_evidence(success),
                EXPLORATORY_NOTE,
            ]
        )

    def describe_attrition(self) -> str:
        """Return the worst-case bounds of success and score as a clause; empty if both arms lost trials of the same seeds."""
        if self.worst_case is None or self.worst_case_score is None:
            return ""
        points, (low, high) = (100 * bound for bound in self.worst_case), self.worst_case_score
        return (
            "whatever the excluded trials would have shown, success a − b is between {:+.0f} and {:+.0f} points".format(*points)
            + f" and score a − b between {low:+.2f} and {high:+.2f}"
        )

    def _list_caveats(self) -> Iterator[str]:
        pairs, score = format_count(self.counts.pairs, "pair"), self.find_effect("score")
        for name, count in (("a", self.policy_errors_a), ("b", self.policy_errors_b)):
            if count:
                yield (
                    f"the trial of {name} ended by an error of its policy in {count} of {pairs}, so its steps, tokens and cost "
                    f"are those of sessions cut short; mend the policy first: {self.policy_error}"
                )
        if self.counts.both == self.counts.pairs > 0:
            yield (
                "all trials passed every check, so neither success nor score tells the arms apart: take a harder task, a smaller "
                "window or other settings"
            )
        elif score.estimand == "these tasks" and score.half_width > WIDE_INTERVAL:
            yield "the interval of the score is wide, since a failure that is rare need not occur in so few seeds"
        if self.cached_cost_ratio is not None:
            yield (
                "costs are without a prompt cache, since no model call reported cached tokens; with a cache that never evicts, "
                f"totals a ÷ b would be {self.cached_cost_ratio:.2f}"
            )
        for name, count in (("a", self.inert_pairs_a), ("b", self.inert_pairs_b)):
            if count:
                yield f"the policy of {name} was never triggered or changed nothing in {count} of {pairs}"
        for name, count in (("a", self.uncalled_pairs_a), ("b", self.uncalled_pairs_b)):
            if count:
                yield f"the summarizer of {name} was never called in {count} of {pairs}, which say nothing about its summaries"
        if self.excluded_trials:
            yield f"{format_count(self.excluded_trials, 'trial')} excluded because of infrastructure failures"
        if text := self.describe_attrition():
            yield f"the arms lost different trials: {text}"
        if self.is_separated:
            yield (
                "the arms ran at separate times, so whatever changed in between, such as the model of a provider, counts as an "
                "effect of the arm"
            )
        if self.unpaired_trials:
            yield f"{format_count(self.unpaired_trials, 'trial')} left out, since the other arm has none on that task and seed"


POLICY_ERROR_REASON = "illegal_plan"
"""Stop reason of a trial whose policy raised an error or proposed an invalid conversation."""
MAX_ERROR_CHARACTERS = 300
WIDE_INTERVAL = 0.25
"""Half-width of an interval for scores, 0 to 1, from which a comparison says why it is wide."""
EXPLORATORY_NOTE = (
    "Exploratory: each p is for one comparison alone. Only comparisons that the plan declared in advance can be claimed."
)
METRIC_LABELS = {"prompt_tokens": "agent prompt tokens", "total_cost_usd": "cost in USD (with summaries)"}


def describe_effect(effect: Effect) -> str:
    """Describe in a line how arm a differs from arm b in a metric.

    The line has the interval, the p-value, the method and the tasks to which it applies.
    """
    name, sign = METRIC_LABELS.get(effect.metric, effect.metric), "÷" if effect.scale == "ratio" else "−"
    if not effect.pair_count:
        return f"{name} a {sign} b: {_describe_no_values(effect)}"
    estimate = format_effect(effect)
    if effect.refusal:
        return f"{name} a {sign} b, {effect.estimand}: {estimate}, no interval ({effect.refusal})"
    return f"{name} a {sign} b, {effect.estimand}: {estimate}, p {format_relation(effect.p_value)} ({effect.method})"


def _describe_no_values(effect: Effect) -> str:
    if not effect.excluded_pairs:
        return "no pairs of trials"
    return f"no pair has known values{' above 0' if effect.scale == 'ratio' else ''} in both arms"


def format_effect(effect: Effect) -> str:
    """Format the difference of two arms with its interval.

    Success is in percentage points, a score is a number, and an amount is a ratio.
    """
    if effect.metric == "success":
        points = f"{100 * effect.value:+.0f} points"
        return points if effect.refusal else f"{points} {format_points(effect.interval)}"
    if effect.scale == "difference":
        return f"{effect.value:+.3f}{format_interval(effect.interval, signed=True)}"
    return f"{effect.value:.2f}{format_interval(effect.interval)}"


def describe_ratio(ratio: PairedRatio) -> str:
    """Describe in a line the totals and medians of a metric such as cost in two arms, and how often arm a is lower."""
    name = METRIC_LABELS.get(ratio.metric, ratio.metric)
    if not ratio.pairs:
        return f"{name}: {'no pair has known values above 0 in both arms' if ratio.excluded_pairs else 'no pairs of trials'}"
    medians = f"medians {format_short_number(ratio.median_a)} and {format_short_number(ratio.median_b)}"
    return (
        f"{name} of these trials: totals a ÷ b {ratio.ratio_of_totals:.2f}{format_interval(ratio.ratio_of_totals_interval)}, "
        f"{medians}, a lower than b in {round(ratio.lower_share * ratio.pairs)} of {format_count(ratio.pairs, 'pair')}"
    )


def describe_levels(a: pd.DataFrame, b: pd.DataFrame) -> str:
    """Return the fidelity level of two arms.

    The result is `L0 and L1` if only one of them has a real summarizer.

    Raises:
        UsageError: An arm has several levels, or the levels differ in more than the summarizer.
    """
    levels = [require_single_level(side) for side in (a, b)]
    if set(levels) == {"L0", "L1"} and set(a["model"]) == set(b["model"]):
        return " and ".join(levels)
    return require_single_level(pd.concat([a, b]))


def _bound_attrition(a: "_Side", b: "_Side", metric: str) -> Interval | None:
    """Return the smallest and largest difference of two arms in success or score, whatever excluded trials would have shown.

    An arm may have lost the trials in which it would have failed. The result is None if both arms lost the same trials, i.e.
    trials of equal task, seed and replicate.
    """
    known = [
        side.trials.assign(outcome=side.trials[metric].astype(float).where(side.trials["trial_id"].isin(side.valid["trial_id"])))
        for side in (a, b)
    ]
    pairs = pair_trials(known[0], known[1], ["outcome"])
    if (pairs["outcome_a"].isna() == pairs["outcome_b"].isna()).all():
        return None
    bounds = [
        (pairs["outcome_a"].fillna(lost) - pairs["outcome_b"].fillna(1 - lost)).groupby(pairs["task"]).mean().mean()
        for lost in (0.0, 1.0)
    ]
    return Interval(float(bounds[0]), float(bounds[1])) if len(pairs) else None


def _count_inert(activities: pd.Series, reasons: pd.Series) -> int:
    """Return the number of trials that ran to their end as if without compaction, given how they ended and why."""
    return int((activities.isin(INERT_ACTIVITIES) & ~reasons.isin(BROKEN_REASONS)).sum())


def _compute_cached_cost_ratio(pairs: pd.DataFrame) -> float | None:
    """Return the ratio of the total costs of two arms with a prompt cache that never evicts.

    The result is None if a provider reported cached tokens, or if costs or savings are unknown.
    """
    cached_tokens = sum(pairs[f"{name}_{side}"].sum() for name in _CACHE_COLUMNS[:2] for side in "ab")
    a, b = (pairs[f"total_cost_usd_{side}"].astype(float) - pairs[f"cache_could_save_usd_{side}"].astype(float) for side in "ab")
    if cached_tokens or a.isna().any() or b.isna().any() or not b.sum() > 0:
        return None
    return float(a.sum() / b.sum())


class _Side(NamedTuple):
    trials: pd.DataFrame
    valid: pd.DataFrame


class ArmComparer:
    """Object that compares the arms of one experiment, for which it prepares the tables only once."""

    def __init__(self, results: Tables) -> None:
        trials = add_total_cost(results.trials)[[*NEEDED_COLUMNS, *_OUTCOME_COLUMNS, *RATIO_METRICS, *_CACHE_COLUMNS]]
        self._trials = trials.assign(verdicts=list_verdicts(trials, iterate_parts(results, "checks", CHECK_COLUMNS)))
        self._results = results
        self._sides: dict[str, _Side] = {}

    @cached_property
    def _rule_costs(self) -> pd.DataFrame:
        return price_trials(self._results)

    def _find_cheaper(self, pairs: pd.DataFrame) -> dict[str, list[str]]:
        """Return the price rules under which each side, `a` or `b`, costs less over pairs of trials."""
        costs = self._rule_costs
        sides = {side: costs.reindex(pairs[f"trial_id_{side}"]).sum(min_count=len(pairs)) for side in "ab"}
        return list_cheapest({str(rule): pd.Series({side: sides[side][rule] for side in "ab"}) for rule in costs})

    def _find_policy_error(self, pairs: pd.DataFrame) -> str:
        """Return the message of the first paired trial that ended by an error of its policy; empty without one."""
        trials = self._results.trials
        is_paired = trials["trial_id"].isin([*pairs["trial_id_a"], *pairs["trial_id_b"]])
        errors = trials.loc[is_paired & (trials["reason"] == POLICY_ERROR_REASON), "error"]
        return format_label(str(errors.iloc[0]).strip(), MAX_ERROR_CHARACTERS) if len(errors) else ""

    @cached_property
    def _requests(self) -> RequestDigests:
        return RequestDigests.from_results(self._results)

    def _select(self, arm: str) -> "_Side":
        if arm not in self._sides:
            trials = select_arm(self._trials, arm)
            self._sides[arm] = _Side(trials, select_valid(trials))
        return self._sides[arm]

    def pair(self, a: str, b: str) -> pd.DataFrame:
        """Return the valid trials of two arms side by side, with their trajectories.

        The table has one row per task, seed and replicate that both arms have.
        """
        columns = ("score", "reason", "activity", "trajectory", "verdicts", *RATIO_METRICS, *_CACHE_COLUMNS)
        return add_trajectories(pair_trials(self._select(a).valid, self._select(b).valid, columns))

    def bound_attrition(self, a: str, b: str, metric: str) -> Interval | None:
        """Return the smallest and largest difference of two arms in success or score, whatever lost trials would have shown.

        The result is None if both arms lost the same trials.
        """
        return _bound_attrition(self._select(a), self._select(b), metric)

    def estimate(self, a: str, b: str, metric: str, estimand: Estimand | None = None) -> Effect:
        """Estimate the effect of arm `a` against arm `b` on one metric, as `compare` does for all metrics.

        Raises:
            UnknownName: An arm does not exist, or the metric is not compared.
            UsageError: The arms have different fidelity levels.
        """
        if metric not in COMPARED_METRICS:
            raise UnknownName("metric", metric, COMPARED_METRICS)
        describe_levels(self._select(a).trials, self._select(b).trials)
        return estimate_effect(self.pair(a, b), metric, estimand=estimand)

    def compare(self, a: str, b: str, estimand: Estimand | None = None) -> Comparison:
        """Compare the arm named `a` with the arm named `b` on the tasks and seeds that both ran."""
        return self.compare_matched([(a, b)], a, b, estimand)

    def compare_matched(
        self, arm_pairs: Sequence[tuple[str, str]], a: str, b: str, estimand: Estimand | None = None
    ) -> Comparison:
        """Compare two groups of arms, whose effects are averaged over pairs of arms within each task and seed.

        Args:
            arm_pairs: Names of the arms of each pair: one of the first and one of the second group.
            a: Name of the first group.
            b: Name of the second group.
            estimand: What the numbers speak about; None chooses by the number of tasks.
        """
        pairs_by_arms = [self.pair(*arms).assign(arm=arms[0]) for arms in arm_pairs]
        pairs = pd.concat(pairs_by_arms, ignore_index=True) if len(arm_pairs) > 1 else pairs_by_arms[0].drop(columns="arm")
        sides = [
            _Side(*(pd.concat([getattr(self._select(arm), kind) for arm in arms]) for kind in ("trials", "valid")))
            for arms in zip(*arm_pairs, strict=True)
        ]
        level = describe_levels(*(side.trials for side in sides))
        effects = [self._estimate_matched(arm_pairs, pairs, metric, estimand) for metric in COMPARED_METRICS]
        counts = PairedCounts.from_outcomes(list(pairs["success_a"]), list(pairs["success_b"]))
        return Comparison(
            a=a,
            b=b,
            level=level,
            counts=counts,
            success_a=estimate_success(pairs.assign(success=pairs["success_a"]), estimand),
            success_b=estimate_success(pairs.assign(success=pairs["success_b"]), estimand),
            effects=tuple(effects),
            ratios=tuple(compute_paired_ratio(pairs, metric) for metric in RATIO_METRICS),
            cached_cost_ratio=_compute_cached_cost_ratio(pairs),
            distinct_trajectories=count_distinct(pairs),
            placebo_check=self._requests.check_placebo(pairs),
            arm_pairs=len(arm_pairs),
            inert_pairs_a=_count_inert(pairs["activity_a"], pairs["reason_a"]),
            inert_pairs_b=_count_inert(pairs["activity_b"], pairs["reason_b"]),
            uncalled_pairs_a=int((pairs["activity_a"] == UNCALLED_ACTIVITY).sum()),
            uncalled_pairs_b=int((pairs["activity_b"] == UNCALLED_ACTIVITY).sum()),
            unpaired_trials=sum(len(side.valid) for side in sides) - 2 * len(pairs),
            excluded_trials=sum(len(side.trials) - len(side.valid) for side in sides),
            worst_case=self._bound_matched(arm_pairs, "success"),
            worst_case_score=self._bound_matched(arm_pairs, "score"),
            is_separated=bool(
                find_separated_arms(pd.concat([side.valid.assign(arm=name) for side, name in zip(sides, "ab", strict=True)]))
            ),
            policy_errors_a=int((pairs["reason_a"] == POLICY_ERROR_REASON).sum()),
            policy_errors_b=int((pairs["reason_b"] == POLICY_ERROR_REASON).sum()),
            policy_error=self._find_policy_error(pairs),
            cheaper_by_rule=self._find_cheaper(pairs),
        )

    def _estimate_matched(
        self, arm_pairs: Sequence[tuple[str, str]], pairs: pd.DataFrame, metric: str, estimand: Estimand | None
    ) -> Effect:
        """Return the effect on a metric: of the pairs of trials or, of several pairs of arms, of their means on each seed."""
        if len(arm_pairs) == 1:
            return estimate_effect(pairs, metric, estimand=estimand)
        arms = {arm for names in arm_pairs for arm in names}
        valid = pd.concat([self._select(arm).valid for arm in sorted(arms)])
        averaged = average_arm_pairs(valid, list(arm_pairs), [metric])
        return estimate_effect(averaged, metric, estimand=estimand, is_bounded=metric in UNIT_COLUMNS)

    def _bound_matched(self, arm_pairs: Sequence[tuple[str, str]], metric: str) -> Interval | None:
        """Return the mean of the bounds of several pairs of arms; None if both arms of each pair lost the same trials."""
        bounds = [self.bound_attrition(a, b, metric) for a, b in arm_pairs]
        if all(bound is None for bound in bounds):
            return None
        values = [
            bound or Interval(*[self.estimate(a, b, metric).value] * 2) for bound, (a, b) in zip(bounds, arm_pairs, strict=True)
        ]
        return Interval(*(sum(value[side] for value in values) / len(values) for side in (0, 1)))


def compare(
    results: Tables, a: str | Mapping[str, object], b: str | Mapping[str, object], *, estimand: Estimand | None = None
) -> Comparison:
    """Compare two arms on the tasks and seeds that both ran.

    If the plan declares contrasts, the call is recorded as a look at the outcomes. If such a plan declares a single look, nothing
    is compared until all its trials have finished.

    Args:
        results: Results of one experiment, as returned by `harness.load` or `Experiment.results`. Required.
        a: Name of an arm as in the column `arm`, or settings, e.g. `{"threshold": 0.5}`. A setting is named by its dotted path in
            a trial's configuration, or by the last part of the path if it is unambiguous. If several arms of a grid have these
            settings, each is paired with the arm of `b` that is equal in all other settings, and the effects are averaged over
            these pairs, as in the report's table by axis. Required.
        b: Arm to compare with, selected like `a`. Required.
        estimand: What the numbers speak about: `tasks like these`, which needs six tasks, or `these tasks`. None chooses tasks
            like these from six tasks on. Default: `None`.

    Example::

        harness.compare(results, {"threshold": 0.5, "keep_last": 10}, {"threshold": 0.8, "keep_last": 10})

    Raises:
        UnknownName: An arm or a path does not exist; the message suggests similar names.
        UsageError: The values select no arm, or several arms that cannot be matched one to one, the arms have different fidelity
            levels, there are too few tasks for the estimand, an arm has two trials of the same task, seed and replicate, or
            trials of a plan that declares contrasts and a single look are missing.
        StoreError: The record of how often results were looked at cannot be read.
    """
    results = select_outcomes(results)
    arms_a, arms_b = find_arms(results.trials, a), find_arms(results.trials, b)
    if len(arms_a) == len(arms_b) == 1:
        open_outcomes(results)
        return ArmComparer(results).compare(arms_a[0], arms_b[0], estimand)
    chosen_axes = {
        path for selection in (a, b) if isinstance(selection, Mapping) for path in complete_axes(results.trials, selection)
    }
    arm_pairs = match_arms(results.trials, arms_a, arms_b, chosen_axes)
    if not arm_pairs:
        raise UsageError(
            f"{a!r} matches {format_count(len(arms_a), 'arm')} and {b!r} {format_count(len(arms_b), 'arm')}, of which no two are "
            f"equal in all other settings: {list_names([*arms_a, *arms_b])}; give more values or the names of two arms"
        )
    open_outcomes(results)
    return ArmComparer(results).compare_matched(arm_pairs, _name_group(a, arm_pairs), _name_group(b, arm_pairs), estimand)


def _name_group(selection: str | Mapping[str, object], arm_pairs: Sequence[tuple[str, str]]) -> str:
    if isinstance(selection, str):
        return selection
    settings = " ".join(f"{path}={value}" for path, value in selection.items())
    return f"{settings} ({format_count(len(arm_pairs), 'arm')})"
