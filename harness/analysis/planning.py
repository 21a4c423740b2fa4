"""Statistical power of a plan: how many comparisons can become significant, and how small an effect can be detected."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import isnan, log, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import nctdtr, ndtr, ndtri, stdtrit

from harness.analysis.arms import add_total_cost, select_current, select_valid
from harness.analysis.estimation import Estimand, choose_estimand, compute_bounds, find_refusal
from harness.analysis.intervals import ALPHA
from harness.analysis.revisions import refuse_mixed_revisions
from harness.analysis.statistics import POWER
from harness.analysis.validity import PAIR_COLUMNS
from harness.errors import UsageError, format_count
from harness.experiment.contrasts import MIN_TASKS, Contrast, Metric, count_possible_contrasts
from harness.experiment.contrasts import compute_smallest_p as compute_smallest_p  # noqa: PLC0414 - for other modules
from harness.store.results import load_experiment

if TYPE_CHECKING:
    from harness.experiment.experiment import Experiment  # imports everything that runs trials, which a report does not need

TYPICAL_DISCORDANCE = 0.16
"""Share of pairs in which exactly one of two runs of the same agent succeeds, typical of coding agents (0.12 to 0.28)."""
TYPICAL_TASK_SD = 0.1
"""Assumed standard deviation, over tasks, of the true difference of two success rates, 0 to 1."""
TYPICAL_SCORE_SD = 0.25
"""Assumed standard deviation of the difference in score of two runs on the same task and seed, 0 to 1."""
TYPICAL_LOG_SD = 0.5
"""Assumed standard deviation of the logarithm of the ratio of cost, tokens or steps of two runs on the same task and seed."""
LEAST_DISCORDANCE = 0.01
"""Share of pairs with different outcomes that is assumed if the outcomes of all pairs of a pilot run are equal."""
MAX_PILOT_PAIRS = 100
"""Maximum number of pairs of arms of a pilot run from which assumptions are measured."""
SIMULATED_STUDIES = 400
"""Number of simulated studies from which the power for scores of these tasks is computed."""
MIN_POWER = 0.5
"""Probability to show that an arm is worse by less than a margin, below which there is a warning before the plan runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerAssumptions:
    """Assumptions from which the least detectable effect of a plan is computed."""

    discordance: float = TYPICAL_DISCORDANCE
    """Share of pairs in which exactly one arm succeeds, 0 to 1; declared, or measured in a pilot run."""
    task_sd: float = TYPICAL_TASK_SD
    """Standard deviation, over tasks, of the true difference of the success rates, 0 to 1."""
    score_task_sd: float = TYPICAL_TASK_SD
    """Standard deviation, over tasks, of the true difference of the mean scores, 0 to 1."""
    log_task_sd: float = TYPICAL_TASK_SD
    """Standard deviation, over tasks, of the true logarithm of the ratio of cost, tokens or steps."""
    score_sd: float = TYPICAL_SCORE_SD
    """Standard deviation of the difference in score of two runs on the same task and seed, 0 to 1."""
    log_sd: float = TYPICAL_LOG_SD
    """Standard deviation of the logarithm of the ratio of cost, tokens or steps of two runs on the same task and seed."""
    pilot: str = ""
    """Name of the experiment in which the assumptions were measured; empty if they were declared or are typical values."""
    contrasts: int = 1
    """Number of contrasts (comparisons) by which the significance level is divided, as in the first step of Holm's correction."""
    looks: int = 1
    """Number of declared looks (times at which the results are inspected) by which the significance level is divided."""


def compute_least_detectable_difference(
    task_count: int, seed_count: int, assumptions: PowerAssumptions, estimand: Estimand | None = None
) -> float | None:
    """Return the smallest true difference of success rates, 0 to 1, that a plan detects with 80 % power.

    - Estimand `tasks like these`: Student's t over tasks is used; differences vary between tasks and, within a task, by chance.
    - Estimand `these tasks`: the normal approximation for pairs is used; differences vary only by chance.

    The result is None if no difference is detected. A difference cannot be larger than the share of pairs with different
    outcomes.

    Args:
        task_count: Number of tasks.
        seed_count: Number of seeds of each task.
        assumptions: Share of pairs that differ, variation over tasks, and numbers of contrasts and looks.
        estimand: Whether to speak about all `tasks like these` or only about `these tasks`; None chooses by the number of tasks.
    """
    if task_count < 1 or seed_count < 1:
        return None
    estimand = choose_estimand(task_count, estimand)
    alpha = ALPHA / (assumptions.contrasts * assumptions.looks)
    if compute_smallest_p(task_count, seed_count, estimand) > alpha:
        return None
    within = assumptions.discordance / (task_count * seed_count)
    if estimand == "tasks like these":
        freedom, error = task_count - 1, sqrt(assumptions.task_sd**2 / task_count + within)
        effect = float(stdtrit(freedom, 1 - alpha / 2) + stdtrit(freedom, POWER)) * error
    else:
        effect = float(ndtri(1 - alpha / 2) + ndtri(POWER)) * sqrt(within)
    return effect if effect <= assumptions.discordance else None


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


def describe_margins(
    contrasts: Sequence[Contrast], task_count: int, seed_count: int, assumptions: PowerAssumptions
) -> Iterator[str]:
    """Yield a warning for each declared comparison that will probably not show an arm to be within its margin.

    A margin is the amount by which the first arm may be worse than the second.

    Args:
        contrasts: Comparisons that the plan declares; those without a margin are skipped.
        task_count: Number of tasks.
        seed_count: Number of seeds of each task.
        assumptions: Share of pairs that differ, variation of scores and ratios, and numbers of contrasts and looks.
    """
    for contrast in contrasts:
        if contrast.margin is None:
            continue
        power = compute_margin_power(contrast, task_count, seed_count, assumptions)
        if power < MIN_POWER:
            yield (
                f"{contrast.a} against {contrast.b}: even if both are equally good, the probability to show that "
                f"{contrast.metric} is not worse by {contrast.margin:g} is {100 * power:.0f} %; add "
                f"{'tasks' if task_count >= MIN_TASKS else 'seeds'} or declare a wider margin"
            )


def describe_power(
    task_count: int,
    seed_count: int,
    assumptions: PowerAssumptions,
    estimand: Estimand | None = None,
    metrics: Collection[Metric] = (),
) -> str:
    """Describe in sentences what a plan can show.

    The text says about which tasks, in how many comparisons and down to which difference in success.

    Args:
        task_count: Number of tasks.
        seed_count: Number of seeds of each task.
        assumptions: Share of pairs that differ, variation over tasks, and numbers of contrasts and looks.
        estimand: Whether to speak about all `tasks like these` or only about `these tasks`; None chooses by the number of tasks.
        metrics: Metrics of the declared comparisons; empty for success. Scores allow fewer comparisons than success does.
    """
    estimand = choose_estimand(task_count, estimand)
    units = f"{format_count(task_count, 'task')} × {format_count(seed_count, 'seed')}"
    smallest = min(compute_smallest_p(task_count, seed_count, estimand, metric) for metric in metrics or ("success",))
    if smallest > ALPHA:
        return (
            f"{units}, {estimand}: too few to show any difference in {' or '.join(metrics) or 'success'} at the 5 % level "
            f"(smallest possible p: {smallest:.2g}); read the trials as examples, not as evidence"
        )
    possible = [_describe_possible(task_count, seed_count, estimand, assumptions.looks, metric) for metric in metrics or (None,)]
    corrections = "Holm's correction" if assumptions.looks == 1 else f"Holm's correction and that for {assumptions.looks} looks"
    best_case = f"at most {' or '.join(possible)} could be shown after {corrections}, if all tasks and seeds agreed"
    effect = compute_least_detectable_difference(task_count, seed_count, assumptions, estimand)
    if effect is None:
        conclusion = "differences in success are unlikely to be shown"
    else:
        conclusion = f"a difference in success of {100 * effect:.0f} points is shown with 80 % probability"
    link = "and assuming that" if assumptions.pilot and assumptions.task_sd == TYPICAL_TASK_SD else "and that"
    varies = f" {link} true differences vary over tasks by {100 * assumptions.task_sd:.0f} points (sd)"
    chance = f"{100 * assumptions.discordance:.0f} % of pairs differ by chance"
    source = f"as measured in {assumptions.pilot}" if assumptions.pilot else "assuming"
    premise = f"{source} that {chance}{varies if estimand == 'tasks like these' else ''}"
    corrected = "" if assumptions.contrasts * assumptions.looks == 1 else ", after correction"
    hint = "" if task_count >= MIN_TASKS else f"; statements about tasks like these need {MIN_TASKS} tasks"
    return f"{units}, {estimand}: {best_case}; {conclusion}{corrected}, {premise}{hint}"


def _describe_possible(task_count: int, seed_count: int, estimand: Estimand, looks: int, metric: Metric | None) -> str:
    count = count_possible_contrasts(task_count, seed_count, estimand, looks, metric or "success")
    return format_count(count, "contrast") + (f" in {metric}" if metric else "")


def describe_comparability(experiment: "Experiment") -> str:
    """Describe what the planned trials can show about the difference of two arms.

    Args:
        experiment: Planned experiment, with its numbers of tasks, seeds, declared contrasts and looks.
    """
    settings, declared = experiment.settings, len(experiment.contrasts)
    if settings.pilot:
        assumptions = measure_assumptions(load_experiment(settings.pilot).trials, settings.pilot)
    else:
        assumptions = PowerAssumptions(discordance=settings.discordance)
    assumptions = replace(assumptions, contrasts=max(1, declared), looks=settings.looks)
    size = experiment.count_tasks_and_seeds()
    family = f"declared contrasts: {declared}" + ("" if declared else "; all comparisons will be exploratory")
    looks = f"; {settings.looks} looks at the results" if settings.looks > 1 else ""
    warnings = (f"warning: {text}" for text in describe_margins(experiment.contrasts, *size, assumptions))
    metrics = list(dict.fromkeys(contrast.metric for contrast in experiment.contrasts))
    return "\n".join(
        [f"comparison of two arms: {describe_power(*size, assumptions, metrics=metrics)}", f"{family}{looks}", *warnings]
    )
