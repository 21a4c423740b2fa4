"""Advice on what to run next, at the end of the first lines of a report: something that can be run with what is installed.

The advice begins with what to run: a number of seeds, another difficulty, more tasks, or other settings. Where no number of seeds
answers the question, a second sentence says so. The advice never asks for more tasks than the suite has.
"""

import json
from collections.abc import Iterator, Mapping
from math import ceil, inf, isnan, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pandas as pd

from harness.analysis.comparison import ArmComparer
from harness.analysis.effects import Effect
from harness.analysis.intervals import ALPHA
from harness.analysis.measures import Cell
from harness.errors import format_count
from harness.experiment.contrasts import MIN_TASKS, SHARE_METRICS
from harness.reporting.claims import ClaimReport
from harness.reporting.not_worse import Ranking
from harness.task import DIFFICULTIES
from harness.tasks import SUITE
from harness.text import format_percent

TARGET_HALF_WIDTH = 0.05
"""Half-width of an interval for score or success, 0 to 1, that the advice aims at."""
EQUAL_VALUES = 1e-9
"""Largest difference between two means that count as equal."""
MAX_SEEDS = 60
"""Maximum number of seeds of each task that the advice asks for."""
EXTREME_SHARE = 0.9
"""Share of trials with the highest or the lowest value of a metric above which another difficulty would show more."""
NEW_FOLDER = "as an experiment of another name, because the outcomes of this one are known"
"""Condition under which results of more seeds can be claimed."""
OTHER_SETTINGS = "the same tasks and seeds with arms whose settings lie further apart, which differ more."
"""Advice where no affordable number of seeds shows how settings that are alike differ."""


def advise(trials: pd.DataFrame, ranking: Ranking, comparer: ArmComparer, judged: ClaimReport | None) -> str:
    """Return what to run next, without a period at the beginning and with one at the end.

    Args:
        trials: Trials of one fidelity level.
        ranking: Compared arms, with the effect of each against the highest one.
        comparer: Object that compares two arms on the same tasks and seeds.
        judged: Results of the declared contrasts; None if none was declared.
    """
    return _advise_difficulty(trials, ranking) or _advise_size(trials, ranking, comparer, judged)


def _advise_difficulty(trials: pd.DataFrame, ranking: Ranking) -> str:
    """Return which difficulty, limit or window to use if nearly all trials have the highest or the lowest value of a metric."""
    cells = ranking.cells
    if len(cells) < 2:
        return ""
    values, metric = trials[ranking.metric].astype(float), ranking.metric
    is_high, is_low = values >= 1 - EQUAL_VALUES, values <= EQUAL_VALUES
    if is_high.mean() > EXTREME_SHARE:
        why = "every arm reached" if are_equal(cells) else f"{format_percent(is_high.mean())} of all trials reached"
        return f"{_name_difficulty(trials, 1, 'harder tasks')} or a smaller window, since {why} the highest {metric}."
    if is_low.mean() <= EXTREME_SHARE:
        return ""
    if (trials["reason"] == "max_steps").mean() > 1 / 4:
        steps = trials["max_steps"].max()
        return (
            f"the same arms with a higher max_steps (now {steps}) or a larger window, since no arm scored before it was stopped."
        )
    why = "every arm has" if are_equal(cells) else f"{format_percent(is_low.mean())} of all trials have"
    return f"{_name_difficulty(trials, -1, 'easier tasks')} or a larger window, since {why} the lowest {metric}."


def _name_difficulty(trials: pd.DataFrame, change: int, fallback: str) -> str:
    """Return the next level of difficulty with the line of a plan that sets it; `fallback` if there is none."""
    texts = trials["config_json"].dropna().unique() if "config_json" in trials else ()
    levels = {(json.loads(text).get("world") or {}).get("difficulty", "standard") for text in texts if text}
    place = DIFFICULTIES.index(level) + change if len(levels) == 1 and (level := levels.pop()) in DIFFICULTIES else -1
    if not 0 <= place < len(DIFFICULTIES):
        return fallback
    name = DIFFICULTIES[place]
    return f'the same arms at difficulty {name} (`world = {{ difficulty = "{name}" }}`)'


def are_equal(cells: Mapping[str, Cell]) -> bool:
    """Return whether the means of all arms are equal up to rounding errors."""
    values = [cell.value for cell in cells.values()]
    return max(values) - min(values) < EQUAL_VALUES


class _Question(NamedTuple):
    """Difference that is not known well enough."""

    a: str
    b: str
    effect: Effect

    def __str__(self) -> str:
        return f"{self.a} − {self.b}"


def _list_questions(ranking: Ranking, judged: ClaimReport | None) -> list[_Question]:
    """Return the differences that are not shown: declared ones or, if there are none, those from the highest arm."""
    claims = () if judged is None or judged.refusal else judged.claims
    declared = [
        _Question(claim.contrast.a, claim.contrast.b, claim.effect)
        for claim in claims
        if not claim.is_shown and claim.effect.metric in SHARE_METRICS
    ]
    questions = declared or [_Question(arm, ranking.best, effect) for arm, effect in ranking.effects.items()]
    return [one for one in questions if one.effect.pair_count and not one.effect.refusal and not isnan(one.effect.half_width)]


def _advise_size(trials: pd.DataFrame, ranking: Ranking, comparer: ArmComparer, judged: ClaimReport | None) -> str:
    questions = _list_questions(ranking, judged)
    if not questions:
        if len(ranking.cells) < 2:
            return "a second arm on the same tasks and seeds, to compare with."
        return f"several seeds of the same tasks, and at least {MIN_TASKS} tasks for statements about other tasks."
    question = sorted(questions, key=lambda one: one.effect.half_width)[len(questions) // 2]
    effect, metric = question.effect, question.effect.metric
    now = f"now ±{effect.half_width:.2f}"
    spread = measure_spread(comparer.pair(question.a, question.b), metric)
    is_about_others = effect.estimand == "tasks like these"
    if effect.half_width <= TARGET_HALF_WIDTH:
        if is_about_others:
            return (
                f"new seeds, {NEW_FOLDER}, with the most interesting difference declared in the plan, so that it can be claimed."
            )
        return _advise_more_tasks(effect.task_count)
    if isnan(spread.within):
        return f"several seeds of each task instead of 1, {NEW_FOLDER}; they show what more seeds would do to {question} ({now})."
    seeds = count_needed_seeds(effect, spread)
    new_trials = f"{format_count(len(trials) * (seeds or 1) * spread.tasks // max(1, spread.units), 'trial')} in all"
    if seeds is not None:
        more = f"{seeds} seeds of each task instead of {spread.describe_seeds()} ({new_trials}), {NEW_FOLDER}"
        goal = f"The interval of {question} would then be about ±{TARGET_HALF_WIDTH} in {metric} ({now})."
        has_enough_tasks = is_about_others or effect.task_count >= MIN_TASKS
        return f"{more}. {goal}" if has_enough_tasks else f"{more}; {_advise_more_tasks(effect.task_count)} {goal}"
    return " ".join(_advise_other_design(question, spread, metric, now))


def _advise_more_tasks(count: int) -> str:
    """Return the advice to use enough tasks for statements about other tasks or, with enough, to declare such a statement."""
    if count >= MIN_TASKS:
        return f'new seeds of these tasks, {NEW_FOLDER}, with `estimand = "tasks like these"`, for statements about other tasks.'
    return f"at least {MIN_TASKS} of the {len(SUITE)} tasks of the suite instead of {count}, for statements about other tasks."


def _advise_other_design(question: _Question, spread: "Spread", metric: str, now: str) -> Iterator[str]:
    """Yield a sentence on what the same tasks can answer, then one on the question that no affordable number of seeds answers."""
    effect = question.effect
    if effect.estimand == "these tasks":
        yield _advise_more_tasks(effect.task_count) if effect.task_count < MIN_TASKS else OTHER_SETTINGS
        best = effect.half_width * sqrt(spread.units / (spread.tasks * MAX_SEEDS))
        yield (
            f"More seeds alone do not help: even {MAX_SEEDS} seeds of each task would leave the interval of {question} at "
            f"±{best:.2f} in {metric} ({now}), so that this question needs another design."
        )
        return
    seeds = spread.count_own_seeds()
    if seeds <= spread.seeds:
        yield (
            f"{spread.describe_seeds()} new seeds of each task, {NEW_FOLDER}, with the contrast declared with "
            f'`estimand = "these tasks"`: enough to say it of these tasks only (about ±{TARGET_HALF_WIDTH}).'
        )
    elif seeds <= MAX_SEEDS:
        yield (
            f"{seeds} seeds of each task instead of {spread.describe_seeds()}, {NEW_FOLDER}, with the contrast declared with "
            f'`estimand = "these tasks"`: enough to say it of these tasks only (about ±{TARGET_HALF_WIDTH}).'
        )
    else:
        yield OTHER_SETTINGS
    floor = effect.half_width * sqrt(spread.between / spread.compute_variance(spread.seeds)) if spread.between else 0.0
    if floor:
        yield (
            f"About tasks like these, the question needs another design: no number of seeds narrows the interval of {question} "
            f"below ±{floor:.2f} in {metric} ({now}), because the difference is another one on each task, and the suite has only "
            f"{len(SUITE)} tasks."
        )
    else:
        yield (
            f"About tasks like these, the question needs another design: even {MAX_SEEDS} seeds of each task would not narrow "
            f"the interval of {question} to ±{TARGET_HALF_WIDTH} in {metric} ({now})."
        )


class Spread(NamedTuple):
    """Variation of the difference of two arms over tasks and over the seeds of a task."""

    tasks: int
    units: int
    """Number of seeds over all tasks."""
    within: float
    """Variance of the difference over the seeds of a task; NaN if no task has two seeds."""
    between: float
    """Variance of the true difference over tasks, at least 0; NaN if `within` is."""

    @property
    def seeds(self) -> float:
        """Mean number of seeds of a task."""
        return self.units / self.tasks

    def describe_seeds(self) -> str:
        """Return the mean number of seeds of a task, such as `4` or `about 3.5`."""
        return f"{self.seeds:.0f}" if self.seeds == round(self.seeds) else f"about {self.seeds:.1f}"

    def compute_variance(self, seeds: float) -> float:
        """Return the variance of the mean difference of a task over tasks like these, with that many seeds of each task."""
        return self.between + self.within / seeds

    def count_own_seeds(self) -> int:
        """Return the number of seeds of each task for which the difference on these tasks is known well enough."""
        error = TARGET_HALF_WIDTH / NormalDist().inv_cdf(1 - ALPHA / 2)
        return max(2, ceil(self.within / error**2 / self.tasks)) if self.within > 0 else MAX_SEEDS + 1


def measure_spread(pairs: pd.DataFrame, metric: str) -> Spread:
    """Return how the difference of two arms varies over tasks and over seeds, by the analysis of variance of one factor.

    Args:
        pairs: One row per pair of trials with the columns `task`, `seed`, `<metric>_a` and `<metric>_b`.
        metric: Name of the metric.
    """
    differences = pairs[f"{metric}_a"].astype(float) - pairs[f"{metric}_b"].astype(float)
    units = differences.groupby([pairs["task"], pairs["seed"]]).mean()
    by_task = [group.to_numpy() for _, group in units.groupby(level=0)]
    freedom = sum(len(values) - 1 for values in by_task)
    if not freedom:
        return Spread(len(by_task), len(units), float("nan"), float("nan"))
    within = sum(float(np.square(values - values.mean()).sum()) for values in by_task) / freedom
    means = np.array([values.mean() for values in by_task])
    seeds = len(by_task) / sum(1 / len(values) for values in by_task)
    between = max(0.0, float(means.var(ddof=1)) - within / seeds) if len(by_task) > 1 else 0.0
    return Spread(len(by_task), len(units), within, between)


def count_needed_seeds(effect: Effect, spread: Spread) -> int | None:
    """Return the number of seeds of each task that narrows an interval to the target; None if none up to 60 does."""
    goal = (TARGET_HALF_WIDTH / effect.half_width) ** 2
    if effect.estimand == "these tasks":
        seeds = spread.seeds / goal
    else:
        allowed = spread.compute_variance(spread.seeds) * goal - spread.between
        seeds = spread.within / allowed if allowed > 0 else inf
    return max(2, ceil(seeds)) if seeds <= MAX_SEEDS else None
