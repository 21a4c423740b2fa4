"""Statistical power of a plan: how many comparisons can become significant, and how small an effect can be detected."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import norm, t

from harness.analysis.estimation import Estimand, choose_estimand, compute_p
from harness.analysis.intervals import ALPHA
from harness.analysis.statistics import POWER
from harness.errors import format_count
from harness.experiment.contrasts import MIN_TASKS
from harness.experiment.experiment import Experiment

TYPICAL_DISCORDANCE = 0.16
"""Share of pairs in which exactly one of two runs of the same agent succeeds, typical of coding agents (0.12 to 0.28)."""
TYPICAL_TASK_SD = 0.1
"""Assumed standard deviation, over tasks, of the true difference of two success rates, 0 to 1."""
MAX_CONTRASTS = 1000
"""Largest number of contrasts that is reported as possible."""


def compute_smallest_p(task_count: int, seed_count: int, estimand: Estimand | None = None) -> float:
    """Return the smallest p-value that a difference in success can reach, in the best case; 1 if nothing can be tested.

    In the best case all seeds of all tasks differ in favour of one arm.

    Args:
        task_count: Number of tasks.
        seed_count: Number of seeds, or distinct runs, of each task.
        estimand: Quantity to estimate; None chooses by the number of tasks.
    """
    if task_count < 1 or seed_count < 1:
        return 1.0
    estimand = choose_estimand(task_count, estimand)
    if estimand == "tasks like these":
        return float(2.0 ** (1 - task_count))
    if seed_count < 2:
        return 1.0
    if task_count == 1:
        return float(2.0 ** (1 - seed_count))
    ones, zeros = np.ones(seed_count), np.zeros(seed_count)
    return compute_p("binary", [ones] * task_count, [zeros] * task_count, estimand)


def count_possible_contrasts(task_count: int, seed_count: int, estimand: Estimand | None = None) -> int:
    """Return how many contrasts (comparisons) a plan may declare so that each can reach p <= 0.05 after Holm's correction.

    The best case is assumed: all seeds of all tasks differ in favour of one arm.

    Args:
        task_count: Number of tasks.
        seed_count: Number of seeds of each task.
        estimand: Quantity to estimate; None chooses by the number of tasks.
    """
    smallest = compute_smallest_p(task_count, seed_count, estimand)
    return int(min(MAX_CONTRASTS, ALPHA / smallest * (1 + 1e-9)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerAssumptions:
    """Assumptions from which the least detectable effect of a plan is computed."""

    discordance: float = TYPICAL_DISCORDANCE
    """Share of pairs in which exactly one arm succeeds, 0 to 1; declared, or measured in a pilot run."""
    task_sd: float = TYPICAL_TASK_SD
    """Standard deviation, over tasks, of the true difference of the success rates, 0 to 1."""
    contrasts: int = 1
    """Number of contrasts (comparisons) by which the significance level is divided, as in the first step of Holm's correction."""
    looks: int = 1
    """Number of declared looks (times at which the results are inspected) by which the significance level is divided."""


def compute_least_detectable_difference(
    task_count: int, seed_count: int, assumptions: PowerAssumptions, estimand: Estimand | None = None
) -> float | None:
    """Return the smallest true difference of success rates, 0 to 1, that a plan detects with 80 % power; None if there is none.

    For tasks like these, Student's t over tasks is used: differences vary between tasks and, within a task, by chance. For these
    tasks, the normal approximation for pairs is used, since differences vary only by chance. The result is None if the
    difference would have to be larger than the discordance, which is impossible.

    Args:
        task_count: Number of tasks.
        seed_count: Number of seeds of each task.
        assumptions: Discordance, variation over tasks, and numbers of contrasts and looks.
        estimand: Quantity to estimate; None chooses by the number of tasks.
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
        effect = float(t.ppf(1 - alpha / 2, freedom) + t.ppf(POWER, freedom)) * error
    else:
        effect = float(norm.ppf(1 - alpha / 2) + norm.ppf(POWER)) * sqrt(within)
    return effect if effect <= assumptions.discordance else None


def describe_power(task_count: int, seed_count: int, assumptions: PowerAssumptions, estimand: Estimand | None = None) -> str:
    """Return sentences on what a plan can show: about which tasks, in how many comparisons, and down to which difference.

    Args:
        task_count: Number of tasks.
        seed_count: Number of seeds of each task.
        assumptions: Discordance, variation over tasks, and numbers of contrasts and looks.
        estimand: Quantity to estimate; None chooses by the number of tasks.
    """
    estimand = choose_estimand(task_count, estimand)
    units = f"{format_count(task_count, 'task')} × {format_count(seed_count, 'seed')}"
    smallest = compute_smallest_p(task_count, seed_count, estimand)
    if smallest > ALPHA:
        return (
            f"{units}, {estimand}: too few to show any difference in success at the 5 % level (smallest possible p: "
            f"{smallest:.2g}); read the trials as examples, not as evidence"
        )
    possible = count_possible_contrasts(task_count, seed_count, estimand)
    best_case = (
        f"at most {format_count(possible, 'contrast')} could be shown after Holm's correction, if all tasks and seeds agreed"
    )
    effect = compute_least_detectable_difference(task_count, seed_count, assumptions, estimand)
    if effect is None:
        shown = "differences in success are unlikely to be shown"
    else:
        shown = f"a difference in success of {100 * effect:.0f} points is shown with 80 % probability"
    varies = f" and that true differences vary over tasks by {100 * assumptions.task_sd:.0f} points (sd)"
    chance = f"{100 * assumptions.discordance:.0f} % of pairs differ by chance"
    given = f"assuming that {chance}{varies if estimand == 'tasks like these' else ''}"
    corrected = "" if assumptions.contrasts * assumptions.looks == 1 else ", after correction"
    hint = "" if task_count >= MIN_TASKS else f"; statements about tasks like these need {MIN_TASKS} tasks"
    return f"{units}, {estimand}: {best_case}; {shown}{corrected}, {given}{hint}"


def describe_comparability(experiment: Experiment) -> str:
    """Return a text on what the planned trials can show about the difference of two arms (configurations).

    Args:
        experiment: Planned experiment, with its numbers of tasks, seeds, declared contrasts and looks.
    """
    settings, declared = experiment.settings, len(experiment.contrasts)
    assumptions = PowerAssumptions(discordance=settings.discordance, contrasts=max(1, declared), looks=settings.looks)
    power = describe_power(*experiment.count_tasks_and_seeds(), assumptions)
    family = f"declared contrasts: {declared}" + ("" if declared else "; all comparisons will be exploratory")
    return f"comparison of two arms: {power}\n{family}"
