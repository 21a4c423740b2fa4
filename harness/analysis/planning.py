"""Statistical power of a plan: how many comparisons can become significant, and how small an effect can be detected.

Each start of a run prints it, so the module needs neither pandas nor scipy. `harness.analysis.pilot`, which does, is imported if
the plan names a pilot or a margin.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import cos, inf, pi, sin, sqrt, tan
from statistics import NormalDist
from typing import TYPE_CHECKING

from harness.analysis.estimands import choose_estimand
from harness.analysis.power_assumptions import TYPICAL_TASK_SD, PowerAssumptions
from harness.errors import format_count
from harness.experiment.contrasts import (
    MIN_TASKS,
    SIGNIFICANCE_LEVEL,
    Contrast,
    Estimand,
    Metric,
    compute_smallest_p,
    count_possible_contrasts,
)
from harness.store.results import load_experiment
from harness.text import format_percent

if TYPE_CHECKING:
    from harness.experiment.experiment import Experiment  # imports everything that runs trials, which a report does not need

POWER = 0.8
"""Statistical power; a difference is called detectable if a test finds it with at least this probability."""
MIN_POWER = 0.5
"""Probability to show that an arm is worse by less than a margin, below which there is a warning before the plan runs."""


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
    if compute_smallest_p(task_count, seed_count, estimand) > SIGNIFICANCE_LEVEL / (assumptions.contrasts * assumptions.looks):
        return None
    return _compute_detectable_difference(task_count, seed_count, assumptions, estimand)


def _compute_detectable_difference(
    task_count: int, seed_count: float, assumptions: PowerAssumptions, estimand: Estimand
) -> float | None:
    alpha = SIGNIFICANCE_LEVEL / (assumptions.contrasts * assumptions.looks)
    error = compute_standard_error(task_count, seed_count, assumptions, estimand)
    if estimand == "tasks like these":
        freedom = task_count - 1
        effect = (compute_student_quantile(freedom, 1 - alpha / 2) + compute_student_quantile(freedom, POWER)) * error
    else:
        effect = (NormalDist().inv_cdf(1 - alpha / 2) + NormalDist().inv_cdf(POWER)) * error
    return effect if effect <= assumptions.discordance else None


def compute_standard_error(task_count: int, seed_count: float, assumptions: PowerAssumptions, estimand: Estimand) -> float:
    """Return the standard error, 0 to 1, of the difference of two success rates that a plan will measure.

    The error for `tasks like these` has a floor: true differences vary over tasks (task × arm), and only more tasks lower this
    part. Neither seeds nor repetitions, i.e. replicates and summarizer seeds, do. The error for `these tasks` has no floor.

    Args:
        task_count: Number of tasks, at least 1.
        seed_count: Number of seeds of each task; infinity gives the floor.
        assumptions: Share of pairs that differ, and variation over tasks.
        estimand: Whether to speak about all `tasks like these` or only about `these tasks`.
    """
    between = assumptions.task_sd**2 / task_count if estimand == "tasks like these" else 0.0
    return sqrt(between + assumptions.discordance / (task_count * seed_count))


def compute_student_quantile(freedom: int, probability: float) -> float:
    """Return the quantile of Student's t distribution with a whole number of degrees of freedom, for a probability above 0.5.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4, whose finite sums are bisected here.
    """
    low, high, central = 0.0, pi / 2, 2 * probability - 1
    while low < (middle := (low + high) / 2) < high:
        if _compute_central_probability(freedom, middle) < central:
            low = middle
        else:
            high = middle
    return sqrt(freedom) * tan(middle)


def _compute_central_probability(freedom: int, angle: float) -> float:
    """Return the probability that Student's t is between `-t` and `t`, where `t` is `sqrt(freedom) * tan(angle)`."""
    is_odd, square = freedom % 2, cos(angle) ** 2
    term = cos(angle) if is_odd else 1.0
    total = 0.0
    for place in range(freedom // 2):
        total += term
        term *= square * (2 * place + 1 + is_odd) / (2 * place + 2 + is_odd)
    return 2 / pi * (angle + sin(angle) * total) if is_odd else sin(angle) * total


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
    with_margin = [contrast for contrast in contrasts if contrast.margin is not None]
    if not with_margin:
        return
    from harness.analysis.pilot import compute_margin_power

    for contrast in with_margin:
        power = compute_margin_power(contrast, task_count, seed_count, assumptions)
        if power < MIN_POWER:
            yield (
                f"{contrast.a} against {contrast.b}: even if both are equally good, the probability to show that "
                f"{contrast.metric} is not worse by {contrast.margin:g} is {format_percent(power)}; add "
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

    The text says about which tasks, in how many comparisons and down to which difference in success. For `tasks like these`, it
    also says how far more seeds and repetitions can lower the error: never below the part that comes from tasks.

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
    if smallest > SIGNIFICANCE_LEVEL:
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
    chance = f"{format_percent(assumptions.discordance)} of pairs differ by chance"
    source = f"as measured in {assumptions.pilot}" if assumptions.pilot else "assuming"
    premise = f"{source} that {chance}{varies if estimand == 'tasks like these' else ''}"
    corrected = "" if assumptions.contrasts * assumptions.looks == 1 else ", after correction"
    hint = "" if task_count >= MIN_TASKS else f"; statements about tasks like these need {MIN_TASKS} tasks"
    floor = _describe_floor(task_count, assumptions) if estimand == "tasks like these" else ""
    return f"{units}, {estimand}: {best_case}; {conclusion}{corrected}, {premise}{hint}{floor}"


def _describe_floor(task_count: int, assumptions: PowerAssumptions) -> str:
    """Describe how far more seeds and repetitions can lower the error of a difference, and what they can never show."""
    error = compute_standard_error(task_count, inf, assumptions, "tasks like these")
    if not error:
        return ""
    effect = _compute_detectable_difference(task_count, inf, assumptions, "tasks like these")
    shown = "" if effect is None else f", so that a difference of {100 * effect:.1f} points is the smallest that they can show"
    return (
        f"; more seeds or repetitions never lower the standard error below {100 * error:.1f} points (task × arm){shown}; "
        "only more tasks do"
    )


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
        from harness.analysis.pilot import measure_assumptions

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
