"""Effect of one arm against another on one metric, with its interval and p-value.

If there is no interval, the effect says why. A pair consists of a trial of each arm on the same task, seed and replicate. Pairs
of one seed are averaged and count as one unit. If a task has only one seed, each replicate is a unit. Replicates with equal
trajectories (the same tool calls and checks) are averaged, so that there are as many units as distinct trajectories. For amounts,
such as costs, seeds with equal trajectories are averaged, too, because the amounts of copies hardly differ and amounts have no
range of possible values that would widen their interval. All pairs of a unit count equally in its mean.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import chain
from math import exp, isnan, log, nan
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from harness.analysis.estimands import choose_estimand, find_refusal
from harness.analysis.estimation import Kind, compute_bounds, compute_p, compute_test_p, is_binary_once, uses_newcombe
from harness.analysis.intervals import ALPHA, Array, Interval
from harness.analysis.trajectories import average_copies
from harness.experiment.contrasts import MIN_TASKS, Estimand, compute_smallest_p

Scale = Literal["difference", "ratio"]
BOUNDED_METRICS = {"success": "binary", "score": "bounded"}
"""Kinds of the metrics between 0 and 1, by name; every other metric is compared by the logarithms of its values."""
_SCALES: dict[Kind, Scale] = {"binary": "difference", "bounded": "difference", "amount": "ratio"}
UNKNOWN = Interval(nan, nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Effect of arm a against arm b on one metric, over the pairs of trials on the same tasks and seeds.

    Attributes:
        metric: Name of the metric. Required.
        scale: `difference` for a minus b, or `ratio` for the typical ratio of a to b. Required.
        estimand: Quantity that is estimated: the mean over `tasks like these`, or over `these tasks` only. Required.
        method: Interval and test, in words. Required.
        task_count: Number of tasks. Required.
        unit_count: Number of units: seeds, or distinct runs of a task with one seed; for amounts, distinct runs. Required.
        pair_count: Number of pairs of trials with known values. Required.
        excluded_pairs: Number of pairs left out, because a value is unknown or, for a ratio, not above 0. Required.
        value: Estimate: mean over tasks of the mean difference within each task; for a ratio, the exponential of such a mean of
            log-ratios. Required.
        interval: 95 % interval; NaN if there is none. Required.
        p_value: Two-sided p-value for no effect, not adjusted for other comparisons; NaN if there is no interval. Required.
        refusal: Reason why there is no interval; empty if there is one. Required.
    """

    metric: str
    scale: Scale
    estimand: Estimand
    method: str
    task_count: int
    unit_count: int
    pair_count: int
    excluded_pairs: int
    value: float
    interval: Interval
    p_value: float
    refusal: str

    @property
    def half_width(self) -> float:
        """Half the width of the interval of the difference or of the logarithm of the ratio; NaN without an interval."""
        low, high = (log(bound) for bound in self.interval) if self.scale == "ratio" else self.interval
        return (high - low) / 2

    @property
    def is_significant(self) -> bool:
        """Whether the p-value is at most 0.05, so that interval and test exclude equal arms; not corrected for many tests."""
        return self.p_value <= ALPHA


_Seeds: TypeAlias = dict[object, dict[object, list[tuple[float, float]]]]
"""Values of arms a and b in each pair of trials of one task, by seed and then by the course of the trials (trajectory)."""


@dataclass(frozen=True, slots=True)
class _Values:
    """Values of a metric in both arms, one array per task.

    Each array has one value per seed or, in a task with a single seed, per distinct run.
    """

    a: tuple[Array, ...]
    b: tuple[Array, ...]
    pair_count: int
    excluded_pairs: int
    merged_seeds: int = 0
    """Number of seeds by which there are fewer units, because their pairs are copies of others."""

    @property
    def is_merged(self) -> bool:
        """Whether seeds whose pairs are copies of each other were averaged."""
        return self.merged_seeds > 0

    @property
    def unit_counts(self) -> list[int]:
        return [len(task_values) for task_values in self.a]


def estimate_effect(
    pairs: pd.DataFrame,
    metric: str,
    *,
    scale: Scale | None = None,
    estimand: Estimand | None = None,
    is_bounded: bool | None = None,
    is_tested: bool = True,
) -> Effect:
    """Estimate the effect of arm a against arm b on one metric.

    Args:
        pairs: One row per pair with the columns `task`, `seed`, `<metric>_a` and `<metric>_b`, and optionally `trajectory`.
        metric: Name of the metric, e.g. `success`.
        scale: Difference or ratio; None for the difference of success and score and the ratio of any other metric.
        estimand: Whether to speak about all `tasks like these` or only about `these tasks`; None for the former from six tasks
            on.
        is_bounded: Whether the values lie between 0 and 1; None for success and score only.
        is_tested: Whether to compute the p-value, which takes longer than the interval; without it, the p-value is NaN.

    Raises:
        UsageError: The estimand is `tasks like these`, but there are fewer than six tasks.
    """
    kind = _choose_kind(metric, is_bounded=is_bounded)
    scale = scale or _SCALES[kind]
    values = _collect_values(pairs, metric, is_ratio=scale == "ratio", merges_copies=kind == "amount")
    return _estimate(values, metric, kind, scale, _choose_estimand(pairs, values, estimand), is_tested=is_tested)


def estimate_task_effects(pairs: pd.DataFrame, metric: str, *, is_bounded: bool | None = None) -> dict[str, Effect]:
    """Estimate the effect of arm a against arm b on each task by itself, without a test.

    The effects are those of `estimate_effect` on the pairs of each task. Tasks without a known pair are missing.

    Args:
        pairs: One row per pair of trials, as `estimate_effect` takes them.
        metric: Name of the metric.
        is_bounded: Whether the values lie between 0 and 1; None for success and score only.
    """
    kind = _choose_kind(metric, is_bounded=is_bounded)
    scale = _SCALES[kind]
    return {
        task: _estimate(values, metric, kind, scale, choose_estimand(1), is_tested=False)
        for task, values in _collect_task_values(pairs, metric, is_ratio=scale == "ratio", merges_copies=kind == "amount").items()
        if values.pair_count
    }


def _choose_kind(metric: str, *, is_bounded: bool | None) -> Kind:
    return BOUNDED_METRICS.get(metric, "bounded" if is_bounded else "amount")  # type: ignore[return-value]


def _estimate(values: "_Values", metric: str, kind: Kind, scale: Scale, estimand: Estimand, *, is_tested: bool) -> Effect:
    if kind == "binary" and not all(np.isin(task_values, (0, 1)).all() for task_values in (*values.a, *values.b)):
        kind = "bounded"  # averages over replicates or arms
    interval, p_value, value = UNKNOWN, nan, nan
    refusal = find_refusal(values.unit_counts, estimand)
    if refusal and values.is_merged and estimand == "these tasks":
        refusal = f"all pairs{' of a task' if len(values.a) > 1 else ''} repeat one course, so they say nothing about chance"
    if values.a:
        value = float(np.mean([float((x - y).mean()) for x, y in zip(values.a, values.b, strict=True)]))
    if not refusal:
        bounds = compute_bounds(kind, values.a, values.b, estimand)
        interval = Interval(float(bounds.low), float(bounds.high))
        p_value = _compute_p(kind, values, estimand) if is_tested else nan
        if isnan(interval.low):
            refusal = "no spread, so the values say nothing about chance"
    if scale == "ratio":
        value, interval = exp(value), Interval(exp(interval.low), exp(interval.high))
    return Effect(
        metric=metric,
        scale=scale,
        estimand=estimand,
        method=_describe_method(kind, values, estimand),
        task_count=len(values.a),
        unit_count=sum(values.unit_counts),
        pair_count=values.pair_count,
        excluded_pairs=values.excluded_pairs,
        value=value,
        interval=interval,
        p_value=p_value,
        refusal=refusal,
    )


def compute_null_p(pairs: pd.DataFrame, metric: str, null: float, estimand: Estimand | None = None) -> float:
    """Return the two-sided p-value of the hypothesis that the effect on a metric equals `null`.

    The p-value is NaN if there are too few pairs.

    Args:
        pairs: One row per pair of trials, as `estimate_effect` takes them.
        metric: Name of the metric.
        null: Difference, or logarithm of a ratio if the metric is compared by ratios.
        estimand: Whether to speak about all `tasks like these` or only about `these tasks`; None for the former from six
            tasks on.
    """
    kind = _choose_kind(metric, is_bounded=False)
    values = _collect_values(pairs, metric, is_ratio=kind == "amount", merges_copies=kind == "amount")
    estimand = _choose_estimand(pairs, values, estimand)
    if find_refusal(values.unit_counts, estimand):
        return nan
    return _compute_p(kind, values, estimand, null)


def _compute_p(kind: Kind, values: _Values, estimand: Estimand, null: float = 0.0) -> float:
    """Return the p-value for a difference; amounts of few distinct courses also need the sign-flip test, as scores do."""
    p_value = compute_p(kind, values.a, values.b, estimand, null)
    return max(p_value, compute_test_p("bounded", values.a, values.b, estimand, null)) if values.is_merged else p_value


def _choose_estimand(pairs: pd.DataFrame, values: _Values, requested: Estimand | None) -> Estimand:
    """Return the quantity to estimate. If one is wanted, all tasks of the pairs count, even if a value is unknown on some."""
    return choose_estimand(len(values.a) if requested is None else pairs["task"].nunique(), requested)


def _collect_values(pairs: pd.DataFrame, metric: str, *, is_ratio: bool, merges_copies: bool) -> _Values:
    """Return the values of both arms by task, averaged within each seed or, with a single seed, within equal runs."""
    by_task = _collect_task_values(pairs, metric, is_ratio=is_ratio, merges_copies=merges_copies).values()
    return _Values(
        a=tuple(chain.from_iterable(task_values.a for task_values in by_task)),
        b=tuple(chain.from_iterable(task_values.b for task_values in by_task)),
        pair_count=sum(task_values.pair_count for task_values in by_task),
        excluded_pairs=sum(task_values.excluded_pairs for task_values in by_task),
        merged_seeds=sum(task_values.merged_seeds for task_values in by_task),
    )


def _collect_task_values(pairs: pd.DataFrame, metric: str, *, is_ratio: bool, merges_copies: bool) -> dict[str, _Values]:
    """Return the values of both arms in each task by itself, in the order of the tasks' names.

    Args:
        pairs: One row per pair of trials, as `estimate_effect` takes them.
        metric: Name of the metric.
        is_ratio: Whether to return logarithms of values above 0.
        merges_copies: Whether seeds whose pairs took the same course are one unit.
    """
    a, b = (pairs[f"{metric}_{side}"].to_numpy(dtype=float, na_value=nan) for side in "ab")
    known = (a > 0) & (b > 0) if is_ratio else ~np.isnan(a) & ~np.isnan(b)
    a, b = (np.log(values[known]) if is_ratio else values[known] for values in (a, b))
    task_names = pairs["task"].to_numpy()
    courses = _list_courses(pairs) if merges_copies else None
    known_courses = [None] * int(known.sum()) if courses is None else courses[known]
    columns = (task_names[known], pairs["seed"].to_numpy()[known], _list_trajectories(pairs)[known], known_courses, a, b)
    # values by task, seed and trajectory
    tasks: dict[object, _Seeds] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    seed_courses: dict[object, dict[object, list[object]]] = defaultdict(lambda: defaultdict(list))
    for task, seed, trajectory, course, value_a, value_b in zip(*columns, strict=True):
        tasks[task][seed][trajectory].append((value_a, value_b))
        seed_courses[task][seed].append(course)
    pair_counts, known_counts = Counter(task_names), Counter(columns[0])
    values = {}
    for task in sorted(pair_counts, key=str):
        units = [_list_units(tasks[task])] if task in tasks else []
        seed_count = len(tasks[task]) if task in tasks else 0
        if courses is not None and seed_count > 1:
            labels = [tuple(sorted(map(str, several))) for _, several in sorted(seed_courses[task].items())]
            units = [average_copies(units[0], labels)]
        values[str(task)] = _Values(
            a=tuple(unit[:, 0] for unit in units),
            b=tuple(unit[:, 1] for unit in units),
            pair_count=known_counts[task],
            excluded_pairs=pair_counts[task] - known_counts[task],
            merged_seeds=seed_count - len(units[0]) if seed_count > 1 else 0,
        )
    return values


def _list_courses(pairs: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.object_]] | None:
    """Return a label for each pair that is equal for pairs of runs with the same course; None if a course is unknown."""
    if "is_trajectory_known" not in pairs or not pairs["is_trajectory_known"].all():
        return None
    return np.array(pairs["course" if "course" in pairs else "trajectory"], dtype=object)


def _list_trajectories(pairs: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    """Return a label for each pair that is equal for pairs of runs with the same course.

    Without a column of trajectories (tool calls and checks), it is the number of the replicate.
    """
    column = next((name for name in ("trajectory", "replicate") if name in pairs), None)
    return np.arange(len(pairs)).astype(object) if column is None else pairs[column].to_numpy(dtype=object)


def _list_units(seeds: _Seeds) -> Array:
    """Return the values of both arms in one task: one row per seed or, with a single seed, per distinct run."""
    if len(seeds) > 1:
        pairs_by_seed = [list(chain.from_iterable(runs.values())) for _, runs in sorted(seeds.items())]
        return np.array([pairs[0] if len(pairs) == 1 else np.mean(pairs, axis=0) for pairs in pairs_by_seed])
    (runs,) = seeds.values()
    labels = [trajectory for trajectory, pairs in runs.items() for _ in pairs]
    return average_copies(np.array([pair for pairs in runs.values() for pair in pairs], dtype=float), labels)


def _describe_method(kind: Kind, values: _Values, estimand: Estimand) -> str:
    if estimand == "tasks like these":
        if is_binary_once(kind, values.a, values.b):
            return "Newcombe's interval and exact McNemar test"
        return "Student's t and sign-flip test over tasks"
    name = "Student's t" if kind == "amount" else "interval for values from 0 to 1"
    if uses_newcombe(kind, values.a, values.b):
        name = "Newcombe's interval"
    if len(values.a) == 1 and kind == "binary":
        return f"{name} and exact McNemar test"
    if len(values.a) > 1:
        name = f"{name} per task, combined (MOVER)"
    if values.is_merged:
        return f"{name} and sign-flip test over distinct courses"
    if kind == "amount":
        return name if len(values.a) > 1 else f"{name} over seeds"
    return f"{name} and sign-flip test over seeds"


def describe_estimand(estimand: Estimand, task_count: int) -> str:
    """Return a sentence that says to which tasks a number applies: tasks like these, or these tasks only."""
    if estimand == "tasks like these":
        return f"tasks like these: the mean over all tasks like the {task_count} that ran"
    if task_count == 1:
        return "these tasks: this one task only, over its seeds"
    return (
        f"these tasks: the mean over these {task_count} tasks only, over their seeds; statements about other tasks need at least "
        f"{MIN_TASKS}"
    )


def describe_too_few(smallest_p: float) -> str:
    """Return sentences which say that there are too few pairs to show any difference in success.

    Args:
        smallest_p: Smallest p-value that these pairs can reach.
    """
    return (
        f"Too few pairs to show a difference in success, whatever an interval suggests: even if all pairs agreed, p would be "
        f"{smallest_p:.2g}, above 0.05. Read the trials as examples, not as evidence."
    )


def describe_evidence(effect: Effect) -> str:
    """Return a sentence on how much an effect on success says.

    It says whether an effect could be shown at all, and how wide the interval is.
    """
    if not effect.pair_count:
        return "No task and seed has a valid trial of both arms, so their difference is unknown."
    smallest = compute_smallest_p(effect.task_count, effect.unit_count // effect.task_count, effect.estimand)
    if smallest > ALPHA:
        return describe_too_few(smallest)
    if effect.refusal:
        return f"No interval for success ({effect.refusal})."
    width = f"Interval for success: ±{100 * effect.half_width:.0f} points around the estimate."
    if effect.interval.low <= 0 <= effect.interval.high:
        return f"{width} It contains 0, which does not show that success is equal: any difference within it is possible."
    if not effect.is_significant:
        return f"{width} It excludes 0, but p is above 0.05: a hint to be tested on new seeds or tasks."
    return f"{width} Both the interval and the test exclude 0."
