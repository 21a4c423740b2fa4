"""Baseline of an experiment, the arm with which others are compared, and the effects of all arms against it."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from harness.analysis.arms import drop_earlier_plans, find_arm, order_arms, select_valid
from harness.analysis.effects import Effect
from harness.analysis.families import read_families
from harness.analysis.measures import METRICS, Metric, add_measures, choose_metric, estimate_changes, find_metric
from harness.analysis.tables import Tables, select
from harness.analysis.validity import NEEDED_COLUMNS

ORACLE_SUMMARIZER = "scripted/oracle"
"""Name of the summarizer that knows what the task needs later."""


def choose_baseline(results: Tables) -> str:
    """Return the arm with which others are compared if the user chooses none.

    1. The arm that most declared contrasts name second.
    2. Without such comparisons, the first arm without compaction.
    3. Otherwise, the first arm.

    Args:
        results: Results of one experiment with at least one trial.
    """
    arms = order_arms(results.trials)
    contrasts = [contrast for family in read_families(results) for contrast in family.contrasts]
    declared = Counter(contrast.b for contrast in contrasts if contrast.b in arms).most_common(1)
    if declared:
        return declared[0][0]
    controls = set(results.trials.loc[results.trials["policy"] == "none", "arm"])
    return next((arm for arm in arms if arm in controls), arms[0])


def resolve_baseline(results: Tables, baseline: str | Mapping[str, object] | None) -> str:
    """Return the name of the baseline that the user chose by name or settings, or else of the default one.

    Raises:
        UnknownName: An arm or a path of a setting does not exist; the message suggests similar names.
        UsageError: The settings select no arm or several arms.
    """
    return choose_baseline(results) if baseline is None else find_arm(results.trials, baseline)


def prepare_arms(results: Tables) -> pd.DataFrame:
    """Return the valid trials of the current plan with the columns of all metrics, for comparisons with a baseline."""
    current = drop_earlier_plans(results)
    return add_measures(select(current, select_valid(current.trials)))


def resolve_metric(trials: pd.DataFrame, metric: str | None) -> Metric:
    """Return the metric with the given name, or else the default for these trials: success or score.

    Raises:
        UnknownName: There is no such metric; the message suggests similar names.
    """
    return choose_metric([rows for _, rows in trials.groupby("arm")]) if metric is None else find_metric(metric)


def resolve_metrics(trials: pd.DataFrame, names: Sequence[str] | None) -> list[Metric]:
    """Return the metrics with the given names or, by default, the default metric for these trials and cost.

    The default metric is success, or score if success is the same in all trials of most arms.

    Raises:
        UnknownName: There is no such metric; the message suggests similar names.
    """
    return [resolve_metric(trials, None), METRICS["cost"]] if names is None else [find_metric(name) for name in names]


def compare_with_baseline(
    trials: pd.DataFrame, baseline: str, metrics: Sequence[Metric], *, is_tested: bool = True
) -> dict[str, dict[str, Effect]]:
    """Return how much each arm differs from the baseline arm.

    Args:
        trials: Trials as returned by `prepare_arms`.
        baseline: Name of the baseline, which is left out of the result.
        metrics: Metrics to compare.
        is_tested: Whether to compute the p-values, which take longer than the intervals.

    Returns:
        The effects of each arm, by name of the arm and name of the metric.
    """
    names = (*NEEDED_COLUMNS, "score", "trajectory", *(metric.column for metric in metrics))
    trials = trials[list(dict.fromkeys(names))]  # the other columns would be copied for each arm
    reference = trials[trials["arm"] == baseline]
    effects = {
        str(arm): estimate_changes(rows, reference, metrics, is_tested=is_tested)
        for arm, rows in trials.groupby("arm", sort=False)
        if arm != baseline
    }
    return {arm: {metric.name: effect for metric, effect in zip(metrics, row, strict=True)} for arm, row in effects.items()}


def find_bounds(results: Tables) -> set[str]:
    """Return the arms that used knowledge of what the task needs later.

    The policy `oracle` compacted in at least one of their trials, or the summarizer `scripted/oracle` wrote a summary. Their
    results are upper bounds that no real policy or summarizer attains. An arm that names an oracle but never calls it is an
    ordinary arm.
    """
    trials, compactions = results.trials, results.compactions
    is_written = (compactions["status"] == "applied") & (compactions["summarizer"] == ORACLE_SUMMARIZER)
    has_compacted = trials["compactions"].fillna(1).astype(float) > 0
    knows_future = ((trials["policy"] == "oracle") & has_compacted) | trials["trial_id"].isin(
        set(compactions.loc[is_written, "trial_id"])
    )
    return set(trials.loc[knows_future, "arm"])
