"""Split of the variance of an arm's outcomes by cause, in a crossed design.

A task has instances (seeds). Each instance is run with several seeds of the agent's model (replicates), each of them with several
seeds of the summarizer. Outcomes vary because tasks differ, instances of a task differ, the agent draws differently, compactions
lose other facts, and because both draws interact. The components of the variance are estimated from mean squares. An estimate
below 0 means that nothing was found. Intervals assume normal effects.

Applied to the differences of two arms, the same split shows which part of the error of a comparison more repetitions can lower.
The differences between tasks (task × arm) are its floor.

Source of the intervals: Ting, Burdick, Graybill, Jeyaratnam and Lu, Confidence intervals on linear combinations of variance
components that are unrestricted in sign, Journal of Statistical Computation and Simulation 35, 1990.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan, sqrt
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pandas as pd
from scipy.special import chdtri, fdtri

from harness.analysis.intervals import ALPHA, Array, Interval

Cause: TypeAlias = Literal["task", "instance", "agent", "compaction", "agent × compaction"]
"""Reason why outcomes vary; `agent` are the draws of the agent's model, `compaction` those of the summarizer."""
CAUSES: tuple[Cause, ...] = get_args(Cause)
NO_INTERVAL = Interval(nan, nan)


class _MeanSquare(NamedTuple):
    value: float
    freedom: int


class _Term(NamedTuple):
    factor: float
    square: _MeanSquare


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Part of a variance that one cause explains."""

    variance: float
    """Estimate; NaN if the design does not vary the cause. Below 0, nothing was found."""
    interval: Interval = NO_INTERVAL
    """Bounds of the 95 % interval, at least 0; NaN without an estimate."""


NOT_VARIED = Component(variance=nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceSplit:
    """Components of the variance of outcomes, or of the differences of two arms."""

    components: Mapping[Cause, Component]
    tasks: int
    instances: int
    """Number of instances over all tasks."""
    replicates: int
    """Number of model seeds of each instance."""
    summarizer_seeds: int
    """Number of summarizer seeds of each instance and model seed."""
    left_out: int
    """Number of trials of instances that lack some of the crossed seeds, which are not used."""

    def compute_error(self, *, repetitions: float = 1.0, instances: float = 1.0) -> float:
        """Return the standard error of the mean over tasks like these if there were more repetitions or instances.

        Components without an estimate and estimates below 0 count as 0.

        Args:
            repetitions: Factor on the numbers of model seeds and of summarizer seeds; infinity shows what repetitions never
                lower.
            instances: Factor on the number of instances; infinity shows what neither of both ever lowers.
        """
        task, instance, agent, compaction, both = (max(0.0, np.nan_to_num(self.components[cause].variance)) for cause in CAUSES)
        agents, summaries = self.replicates * repetitions, self.summarizer_seeds * repetitions
        within = agent / agents + compaction / summaries + both / (agents * summaries)
        return sqrt(task / self.tasks + (instance + within) / (self.instances * instances))


def split_variance(values: pd.DataFrame) -> VarianceSplit | None:
    """Split the variance of values of a crossed design; None unless an instance was repeated.

    Only instances that have the most frequent set of crossed seeds are used. If just one of both kinds of seeds varies, its
    component includes the interaction.

    Args:
        values: Rows with the columns `task`, `seed`, `replicate`, `summarizer_seed` and `value`, one for each trial.
    """
    cells: dict[tuple[object, object], dict[tuple[object, object], float]] = {}
    columns = (values[name].tolist() for name in ("task", "seed", "replicate", "summarizer_seed", "value"))
    for task, seed, replicate, summarizer_seed, value in zip(*columns, strict=True):
        cells.setdefault((task, seed), {})[replicate, summarizer_seed] = value
    designs: dict[tuple[object, object], tuple[frozenset[object], frozenset[object]]] = {}
    for key, runs in cells.items():
        seeds = frozenset(replicate for replicate, _ in runs), frozenset(seed for _, seed in runs)
        if len(runs) == len(seeds[0]) * len(seeds[1]):
            designs[key] = seeds
    if not designs:
        return None
    counts = Counter(designs.values())
    design = max(counts, key=lambda seeds: (counts[seeds] * len(seeds[0]) * len(seeds[1]), len(seeds[0])))
    if len(design[0]) * len(design[1]) < 2:
        return None
    replicates, summarizer_seeds = len(design[0]), len(design[1])
    by_task: dict[object, list[Array]] = {}
    for key, seeds in designs.items():
        if seeds == design:
            ordered = [value for _, value in sorted(cells[key].items())]
            by_task.setdefault(key[0], []).append(np.array(ordered, dtype=float).reshape(replicates, summarizer_seeds))
    tasks = [np.array(instances) for instances in by_task.values()]
    instance_count = sum(map(len, tasks))
    return VarianceSplit(
        components=_estimate_components(tasks),
        tasks=len(tasks),
        instances=instance_count,
        replicates=replicates,
        summarizer_seeds=summarizer_seeds,
        left_out=len(values) - instance_count * replicates * summarizer_seeds,
    )


def _estimate_components(tasks: Sequence[Array]) -> dict[Cause, Component]:
    """Return the components, given the values of each task as an array of instances × model seeds × summarizer seeds."""
    cells = np.concatenate(tasks)
    instances, agents, summaries = cells.shape
    means = cells.mean(axis=(1, 2))
    by_agent, by_summary = cells.mean(axis=2) - means[:, None], cells.mean(axis=1) - means[:, None]
    rest = cells - means[:, None, None] - by_agent[:, :, None] - by_summary[:, None, :]
    agent = _pool(summaries * np.square(by_agent).sum(), instances * (agents - 1))
    compaction = _pool(agents * np.square(by_summary).sum(), instances * (summaries - 1))
    both = _pool(np.square(rest).sum(), instances * (agents - 1) * (summaries - 1))
    task_means = [task.mean(axis=(1, 2)) for task in tasks]
    size = agents * summaries
    instance = _pool(size * sum(np.square(values - values.mean()).sum() for values in task_means), instances - len(tasks))
    instances_per_task = len(tasks) / sum(1 / len(task) for task in tasks)
    centres = np.array([values.mean() for values in task_means])
    task = _pool(size * instances_per_task * np.square(centres - centres.mean()).sum(), len(tasks) - 1)
    is_crossed = both.freedom > 0
    below_instance = (
        (_Term(-1, agent), _Term(-1, compaction), _Term(1, both))
        if is_crossed
        else (_Term(-1, agent if agent.freedom else compaction),)
    )
    minus_both = (_Term(-1, both),) if is_crossed else ()
    return {
        "task": _combine(size * instances_per_task, _Term(1, task), _Term(-1, instance)),
        "instance": _combine(size, _Term(1, instance), *below_instance),
        "agent": _combine(summaries, _Term(1, agent), *minus_both),
        "compaction": _combine(agents, _Term(1, compaction), *minus_both),
        "agent × compaction": _combine(1, _Term(1, both)),
    }


def _pool(total: float, freedom: int) -> _MeanSquare:
    return _MeanSquare(float(total) / freedom if freedom else nan, freedom)


def _combine(divisor: float, *terms: _Term) -> Component:
    """Return a component that is a sum of mean squares with their signs, divided by a number."""
    if not all(term.square.freedom for term in terms):
        return NOT_VARIED
    weighted = [(term.factor / divisor * term.square.value, term.square.freedom) for term in terms]
    plus = [(value, freedom) for (value, freedom), term in zip(weighted, terms, strict=True) if term.factor > 0]
    minus = [(-value, freedom) for (value, freedom), term in zip(weighted, terms, strict=True) if term.factor < 0]
    variance = sum(value for value, _ in weighted)
    low = variance - sqrt(_compute_margin(plus, minus, ALPHA / 2))
    # the upper bound is the lower bound of the negative sum, with the other tail of each distribution
    high = variance + sqrt(_compute_margin(plus, minus, 1 - ALPHA / 2))
    return Component(variance=variance, interval=Interval(max(0.0, low), max(0.0, high)))


def _compute_margin(plus: Sequence[tuple[float, int]], minus: Sequence[tuple[float, int]], tail: float) -> float:
    """Return the squared distance between an estimate and a bound.

    Args:
        plus: Mean squares with a positive sign, each times its factor, with degrees of freedom.
        minus: Mean squares with a negative sign, as positive numbers.
        tail: Probability above the quantiles: small for the lower bound, near 1 for the upper bound.
    """
    margin = sum((_compute_share(freedom, tail) * value) ** 2 for value, freedom in plus)
    margin += sum((_compute_share(freedom, 1 - tail) * value) ** 2 for value, freedom in minus)
    for value, freedom in plus:
        for other, other_freedom in minus:
            quantile = _compute_quantile(tail, freedom, other_freedom)
            joint = (
                (quantile - 1) ** 2
                - (_compute_share(freedom, tail) * quantile) ** 2
                - _compute_share(other_freedom, 1 - tail) ** 2
            )
            margin += joint / quantile * value * other
    return max(0.0, margin)


@lru_cache(maxsize=10_000)
def _compute_share(freedom: int, probability: float) -> float:
    """Return 1 − 1/F, where F is the quantile of the F distribution with infinite degrees of freedom in the denominator."""
    return 1 - freedom / float(chdtri(freedom, probability))


@lru_cache(maxsize=10_000)
def _compute_quantile(probability: float, freedom: int, other_freedom: int) -> float:
    return float(fdtri(freedom, other_freedom, 1 - probability))
