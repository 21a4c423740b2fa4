"""Best arm of an experiment, chosen on one half of the tasks or seeds and estimated on the other.

The arm with the highest observed value owes its place partly to chance, so this value is too high on average. Its value in trials
that had no part in the choice is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from harness.analysis.arms import find_arm, order_arms, select_outcomes
from harness.analysis.baselines import find_bounds, prepare_arms, resolve_metric
from harness.analysis.comparison import describe_effect
from harness.analysis.effects import Effect, describe_estimand
from harness.analysis.families import open_outcomes
from harness.analysis.intervals import Interval
from harness.analysis.measures import Metric, estimate_cell, estimate_change, find_metric
from harness.analysis.tables import Tables, require_single_level
from harness.errors import UsageError, format_count
from harness.experiment.contrasts import MIN_TASKS, Estimand

MIN_SEEDS = 4
"""Minimum number of seeds of each task if these are divided into halves, so that the estimate has an interval."""

Halves = Literal["tasks", "seeds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BestArm:
    """Arm with the best value of a metric in one half of an experiment, and its value in the other half.

    Attributes:
        arm: Name of the arm. Required.
        metric: Metric by which it was chosen. Required.
        halves: Whether the halves consist of different `tasks`, or of different `seeds` of the same tasks. Required.
        estimand: What the estimate speaks about: `tasks like these`, or `these tasks`. Required.
        candidate_count: Number of arms of which the best was chosen. Required.
        value_where_chosen: Mean in the half in which the arm was chosen; better than on new trials, on average. Required.
        value: Mean over tasks in the other half, which is not biased by the choice. Required.
        interval: 95 % interval of `value`; NaN if there is none. Required.
        trial_count: Number of trials of the arm in the other half. Required.
        task_count: Number of tasks in the other half. Required.
        effect: Effect of the arm against another one in the other half; None if no other arm was named or if it is the best
            itself. Required.

    Example::

        print(harness.estimate_best_arm(results, "score", against="no compaction"))
    """

    arm: str
    metric: Metric
    halves: Halves
    estimand: Estimand
    candidate_count: int
    value_where_chosen: float
    value: float
    interval: Interval
    trial_count: int
    task_count: int
    effect: Effect | None

    def __str__(self) -> str:
        unit = f" {self.metric.unit}" if self.metric.unit else ""
        chosen_value, estimated_value = (self.metric.format_value(share) for share in (self.value_where_chosen, self.value))
        estimate = f"{estimated_value}{unit} {self.metric.format_interval(*self.interval)} (n {self.trial_count})"
        lines = [
            f"best of {format_count(self.candidate_count, 'arm')} by {self.metric.name}: {self.arm}",
            f"chosen on one half of the {self.halves}, with {chosen_value}{unit} there; estimated on the other half: {estimate}",
            describe_estimand(self.estimand, self.task_count),
        ]
        return "\n".join([*lines, *([] if self.effect is None else [describe_effect(self.effect)])])


def estimate_best_arm(
    results: Tables, metric: str | None = None, *, against: str | Mapping[str, object] | None = None, seed: int = 0
) -> BestArm:
    """Choose the best arm on one half of the trials and estimate its value on the other half.

    With at least 12 tasks, the halves consist of different tasks, and the estimate speaks about all tasks like these. With fewer
    tasks, the halves consist of different seeds of each task, and the estimate speaks about these tasks only. Only tasks and
    seeds that all arms ran are used. Arms that know what the task needs later are never chosen.

    Args:
        results: Results of one experiment, as returned by `harness.load` or `Experiment.results`. Required.
        metric: Metric by which arms are compared: `score`, `success`, `cost`, `tokens`, `steps` or `retention`; None for success,
            or score if success is the same in all trials of most arms. Default: `None`.
        against: Arm with which the best arm is compared in the other half, by its name or by settings as in `compare`. Default:
            `None`.
        seed: Seed by which tasks or seeds are divided into halves; decide on it before you see results. Default: `0`.

    Example::

        harness.estimate_best_arm(results, "score")

    Raises:
        UnknownName: There is no such metric or arm; the message suggests similar names.
        UsageError: There are fewer than two arms, fewer than 12 tasks with fewer than four seeds of a task, or several fidelity
            levels; or trials of a plan that declares contrasts (comparisons) and no interim analysis are missing.
        StoreError: The record of how often results were looked at cannot be read.
    """
    results = select_outcomes(results)
    other = None if against is None else find_arm(results.trials, against)
    trials = prepare_arms(results)
    require_single_level(trials)
    chosen_metric = resolve_metric(trials, None) if metric is None else find_metric(metric)
    open_outcomes(results)
    trials = trials[trials[chosen_metric.column].notna()]
    bounds = find_bounds(results)
    candidates = [arm for arm in order_arms(trials) if arm not in bounds]
    if len(candidates) < 2:
        left_out = format_count(len(bounds & set(trials["arm"])), "arm")
        raise UsageError(
            f"the best arm is chosen from at least 2 arms with a known {chosen_metric.name} (got {len(candidates)}; {left_out} "
            "with an oracle left out)"
        )
    shared = _select_shared(trials, [*candidates, *([] if other is None else [other])])
    halves, is_first = _divide(shared, np.random.default_rng(seed))
    estimand: Estimand = "tasks like these" if halves == "tasks" else "these tasks"
    first, second = shared[is_first], shared[~is_first]
    means = first.groupby(["arm", "task", "seed"])[chosen_metric.column].mean().groupby(["arm", "task"]).mean()
    values = {str(arm): float(value) for arm, value in means.astype(float).groupby("arm").mean().items()}
    best = (max if chosen_metric.is_higher_better else min)(candidates, key=lambda arm: values[arm])
    rows = second[second["arm"] == best]
    cell = estimate_cell(rows, chosen_metric, estimand)
    return BestArm(
        arm=best,
        metric=chosen_metric,
        halves=halves,
        estimand=estimand,
        candidate_count=len(candidates),
        value_where_chosen=values[best],
        value=cell.value,
        interval=Interval(cell.low, cell.high),
        trial_count=cell.n,
        task_count=rows["task"].nunique(),
        effect=None if other in {None, best} else estimate_change(rows, second[second["arm"] == other], chosen_metric, estimand),
    )


def _select_shared(trials: pd.DataFrame, arms: list[str]) -> pd.DataFrame:
    """Return the trials of the given arms on the tasks and seeds that all of these arms ran."""
    rows = trials[trials["arm"].isin(arms)]
    counts = rows.groupby(["task", "seed"])["arm"].transform("nunique")
    return rows[counts == len(set(arms))]


def _divide(trials: pd.DataFrame, rng: np.random.Generator) -> tuple[Halves, pd.Series]:
    """Divide the tasks into random halves, or the seeds of each task if there are few tasks.

    Returns:
        What was divided, and whether each trial belongs to the first half.
    """
    seeds = {str(task): np.sort(rows["seed"].unique()) for task, rows in trials.groupby("task", sort=True)}
    if len(seeds) >= 2 * MIN_TASKS:
        tasks = rng.permutation(list(seeds))
        return "tasks", trials["task"].isin(tasks[: len(tasks) // 2])
    fewest = min(map(len, seeds.values()), default=0)
    if fewest < MIN_SEEDS:
        raise UsageError(
            f"dividing trials into halves needs {2 * MIN_TASKS} tasks, or {MIN_SEEDS} seeds of each task, that all arms ran (got "
            f"{format_count(len(seeds), 'task')}, {fewest} seeds of the task with the fewest); without halves an arm can only be "
            "called the highest observed"
        )
    chosen = {(task, seed) for task, known in seeds.items() for seed in rng.permutation(known)[: len(known) // 2]}
    places = zip(trials["task"], trials["seed"], strict=True)
    return "seeds", pd.Series([place in chosen for place in places], index=trials.index, dtype=bool)
