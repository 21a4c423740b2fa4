"""Numbers behind the power of a plan that need scipy and pandas: assumptions measured in a pilot run, the power of margins."""

from itertools import combinations, islice
from math import isnan, log, nan, sqrt

import numpy as np
import pandas as pd
from scipy.special import nctdtr, ndtr, ndtri, stdtrit

from harness.analysis.arms import add_total_cost, select_current, select_valid
from harness.analysis.estimands import choose_estimand, find_refusal
from harness.analysis.estimation import compute_bounds
from harness.analysis.intervals import ALPHA
from harness.analysis.power_assumptions import TYPICAL_LOG_SD, TYPICAL_SCORE_SD, TYPICAL_TASK_SD, PowerAssumptions
from harness.analysis.revisions import refuse_mixed_revisions
from harness.analysis.validity import PAIR_COLUMNS
from harness.errors import UsageError
from harness.experiment.contrasts import Contrast

LEAST_DISCORDANCE = 0.01
"""Share of pairs with different outcomes that is assumed if the outcomes of all pairs of a pilot run are equal."""
MAX_PILOT_PAIRS = 100
"""Maximum number of pairs of arms of a pilot run from which assumptions are measured."""
SIMULATED_STUDIES = 400
"""Number of simulated studies from which the power for scores of these tasks is computed."""


def measure_assumptions(trials: pd.DataFrame, pilot: str) -> PowerAssumptions:
    """Measure the assumptions for planning an experiment in a finished one (the pilot), over all its pairs of arms.

    A variation over tasks keeps its typical value if the pilot has fewer than two tasks.

    Args:
        trials: Trials of the pilot.
        pilot: Name of the pilot.

    Raises:
        UsageError: No two arms ran on the same task and seed, or the trials ran with different revisions of their parts.
    """
    valid = add_total_cost(select_valid(select_current(trials)))
    refuse_mixed_revisions(valid)
    columns = ["success", "score", "total_cost_usd"]
    sides = [part[[*PAIR_COLUMNS, *columns]] for _, part in valid.groupby("arm", sort=False)]
    measured = []
    for a, b in islice(combinations(sides, 2), MAX_PILOT_PAIRS):
        pairs = a.merge(b, on=["task", "seed"], suffixes=("_a", "_b"))  # replicates are compared too
        if len(pairs):
            measured.append(_measure_pairs(pairs))
    if not measured:
        raise UsageError(
            f"pilot: {pilot!r} has no two arms with valid trials on the same task and seed, so nothing can be measured; name "
            "another experiment"
        )
    means = [float(np.nanmean(values)) if np.isfinite(values).any() else nan for values in np.array(measured, dtype=float).T]
    discordance, task_variance, score_task_variance, log_task_variance, score_variance, log_variance = means
    return PowerAssumptions(
        discordance=max(LEAST_DISCORDANCE, discordance),
        task_sd=_take_root(task_variance, TYPICAL_TASK_SD),
        score_task_sd=_take_root(score_task_variance, TYPICAL_TASK_SD),
        log_task_sd=_take_root(log_task_variance, TYPICAL_TASK_SD),
        score_sd=_take_root(score_variance, TYPICAL_SCORE_SD),
        log_sd=_take_root(log_variance, TYPICAL_LOG_SD),
        pilot=pilot,
    )


def _take_root(variance: float, typical_sd: float) -> float:
    # an estimated variance may be below 0
    return typical_sd if isnan(variance) else sqrt(max(0.0, variance))


def _measure_pairs(pairs: pd.DataFrame) -> tuple[float, ...]:
    """Return how much two arms of a finished experiment (the pilot) differ, as six numbers.

    Returns:
        1. Share of pairs with different outcomes.
        2. Variance over tasks of the difference in success, without the part that is due to seeds.
        3. The same variance for the score.
        4. The same variance for the logarithm of the cost.
        5. Variance of the difference in score between the pairs of one task.
        6. The same variance for the logarithm of the cost.
    """
    costs_usd = pairs[["total_cost_usd_a", "total_cost_usd_b"]].astype(float)
    logs = np.log(costs_usd.where(costs_usd > 0))
    numbers = pd.DataFrame(
        {
            "task": pairs["task"],
            "success": pairs["success_a"].astype(float) - pairs["success_b"].astype(float),
            "score": pairs["score_a"].astype(float) - pairs["score_b"].astype(float),
            "log": logs["total_cost_usd_a"] - logs["total_cost_usd_b"],
        }
    )
    tasks = numbers.groupby("task")
    names = ("success", "score", "log")
    size, means = float(tasks.size().mean()), tasks[list(names)].mean()
    within = {name: float(tasks[name].var(ddof=1).mean()) for name in names}
    between = (float(means[name].var(ddof=1)) - within[name] / size for name in names)
    return float((numbers["success"] != 0).mean()), *between, within["score"], within["log"]


def compute_margin_power(contrast: Contrast, task_count: int, seed_count: int, assumptions: PowerAssumptions) -> float:
    """Return the probability, 0 to 1, that a plan shows an arm to be worse by less than a margin.

    Both arms are assumed to be equally good.

    Args:
        contrast: Declared comparison of two arms with a margin by which the first may be worse.
        task_count: Number of tasks.
        seed_count: Number of seeds of each task.
        assumptions: Share of pairs that differ, variation of scores and ratios, and numbers of contrasts and looks.
    """
    margin = contrast.margin or 0.0
    estimand = choose_estimand(task_count, contrast.estimand)
    alpha = ALPHA / (assumptions.contrasts * assumptions.looks)
    if find_refusal([seed_count] * task_count, estimand):
        return 0.0
    sds = {
        "success": (sqrt(assumptions.discordance), assumptions.task_sd),
        "score": (assumptions.score_sd, assumptions.score_task_sd),
    }
    sd, task_sd = sds.get(contrast.metric, (assumptions.log_sd, assumptions.log_task_sd))
    distance = margin if contrast.metric in sds else log(margin)
    if estimand == "tasks like these":
        error = sqrt(task_sd**2 / task_count + sd**2 / (task_count * seed_count))
        return 1.0 - float(nctdtr(task_count - 1, distance / error, stdtrit(task_count - 1, 1 - alpha / 2)))
    if contrast.metric != "score":
        critical = ndtri(1 - alpha / 2) if contrast.metric == "success" else stdtrit(seed_count - 1, 1 - alpha / 2)
        return float(ndtr(distance * sqrt(task_count * seed_count) / sd - critical))
    draws = np.random.default_rng(0).normal(0.0, sd, (task_count, SIMULATED_STUDIES, seed_count)).clip(-1.0, 1.0)
    zeros = np.zeros_like(draws)
    return float((compute_bounds("bounded", list(draws), list(zeros), estimand, alpha).low > -margin).mean())
