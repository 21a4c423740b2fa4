"""Comparisons of two configurations (primary contrasts) that a plan declares before any trial runs.

Only the results of declared comparisons count as findings; all other comparisons are exploratory. The comparisons are recorded
with every trial. So are the number of planned trials and the number of interim analyses, i.e. how often the results may be
inspected.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.conversation import codec
from harness.conversation.codec import refuse_mistyped_fields
from harness.errors import UnknownName, UsageError, format_count

Metric = Literal["success", "score", "prompt_tokens", "steps", "total_cost_usd"]
SHARE_METRICS = frozenset({"success", "score"})
"""Metrics between 0 and 1, of which differences are compared; amounts are compared by their ratios."""
Estimand: TypeAlias = Literal["tasks like these", "these tasks"]
"""Tasks about which a comparison makes a statement: all tasks of this kind, or only those that ran."""
SIGNIFICANCE_LEVEL = 0.05
"""Largest p-value at which an effect counts as shown; in comparisons that a plan declares, after Holm's correction."""
MIN_TASKS = 6
"""Minimum number of tasks for a statement about tasks like these.

With fewer tasks, the statistical test (a sign-flip test) cannot reach p <= 0.05.
"""
MARGIN_KEY = "not_worse_margin"
"""Key of the table `[experiment]` of a plan with the margin up to which an arm is called not worse.

It becomes a field of `Experiment` rather than one of its settings, as contrasts do.
"""
MAX_CONTRASTS = 1000
"""Largest number of contrasts (declared comparisons) that counts as possible in a plan."""
_SMALLEST_INTERVAL_P: Mapping[tuple[int, int], float] = {(2, 2): 0.1804, (2, 3): 0.048402, (3, 2): 0.0368, (3, 3): 0.0046001}
"""Smallest p-values of differences in success by numbers of tasks and seeds, if the interval limits them rather than the test."""
_SMALLEST_DRAWN_P = 0.0002
"""Smallest p-value with an interval from random draws: of scores, and of success with two or three seeds of several tasks."""
_SMALLEST_INVERTED_P = 1e-6
"""Smallest p-value for success with four or more seeds of several tasks: the search for p-values ends there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Comparison of two configurations (arms) on one metric, which a plan declares before the trials run.

    Attributes:
        a: Name of the first arm. Required.
        b: Name of the second arm, with which the first is compared. Required.
        metric: `success`, `score`, `prompt_tokens`, `steps` or `total_cost_usd`. None means `score` if there is a margin, and
            `success` otherwise. Default: `None`.
        estimand: What the result is a statement about: `tasks like these`, which needs six tasks, or only `these tasks`. None
            chooses by the number of tasks. Default: `None`.
        margin: Margin of non-inferiority, within which arm `a` still counts as no worse. For success and score, it is the largest
            loss, between 0 and 1; for tokens, steps and cost, the largest ratio, above 1. None asks for a difference instead.
            Default: `None`.

    Raises:
        UsageError: The margin is impossible for the metric.

    Example:
        >>> from harness import Contrast
        >>> Contrast(a="threshold=0.5", b="control", metric="score", margin=0.05).metric
        'score'
    """

    a: str
    b: str
    metric: Metric = None  # type: ignore[assignment]  # replaced when the contrast is made
    estimand: Estimand | None = None
    margin: float | None = None

    def __post_init__(self) -> None:
        """Choose the metric if none is given, and refuse values of the wrong type and impossible margins."""
        metric: object = self.metric
        if metric is None:
            object.__setattr__(self, "metric", "success" if self.margin is None else "score")
        refuse_mistyped_fields(self)
        if self.margin is None:
            return
        is_share = self.metric in SHARE_METRICS
        if not (0 < self.margin < 1 if is_share else self.margin > 1):
            allowed = "between 0 and 1" if is_share else "above 1, as a ratio"
            raise UsageError(f"margin: must be {allowed} for {self.metric} (got {self.margin!r})")


def parse_margin(margin: object, where: str = MARGIN_KEY) -> float | None:
    """Return the margin up to which an arm is called not worse; None stays None.

    Args:
        margin: Largest loss in success or score that does not count.
        where: Place of the margin in a plan, for the message.

    Raises:
        UsageError: The margin is not a number above 0 and below 1.
    """
    if margin is None:
        return None
    if not isinstance(margin, int | float) or isinstance(margin, bool) or not 0 < margin < 1:
        raise UsageError(
            f"{where}: must be above 0 and below 1 (got {margin!r:.80}); it is the largest loss in success or score up to "
            "which an arm is called not worse, e.g. 0.05"
        )
    return float(margin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All contrasts that a plan declares. Their p-values are corrected together, as one family."""

    contrasts: tuple[Contrast, ...] = ()
    planned_trials: int = 0
    """Number of trials of the plan."""
    looks: int = 1
    """Number of times that the results may be inspected while trials are added, as declared in the plan."""

    @property
    def digest(self) -> str:
        """SHA-256 of the declared comparisons and of the number of inspections, which shows later changes."""
        plain = {"contrasts": [codec.to_plain(contrast) for contrast in self.contrasts], "looks": self.looks}
        return hashlib.sha256(codec.to_canonical_json(plain, dict).encode()).hexdigest()


def refuse_invalid_contrasts(
    contrasts: Sequence[Contrast], arms: Collection[str], task_count: int, seed_count: int, looks: int = 1
) -> None:
    """Raise an error if a contrast in a plan is impossible or declared twice, or if there are too many.

    There are too many comparisons if, even in the best case, not all of them can be significant. The significance is corrected
    for the number of comparisons and of interim analyses.

    Args:
        contrasts: Comparisons that the plan declares.
        arms: Names of all arms (compared configurations) of the experiment.
        task_count: Number of tasks.
        seed_count: Number of seeds of each task.
        looks: Declared number of times that the results are inspected.

    Raises:
        UnknownName: A comparison names an arm that the experiment does not have.
        UsageError: A comparison compares an arm with itself or is declared twice, the experiment has too few tasks or seeds for
            the comparison's estimand, or there are too many comparisons.
    """
    for place, contrast in enumerate(contrasts):
        for arm in (contrast.a, contrast.b):
            if arm not in arms:
                raise UnknownName(f"arm in contrasts[{place}]:", arm, arms)
        if contrast.a == contrast.b or contrast in contrasts[:place]:
            raise UsageError(f"contrasts[{place}]: compares an arm with itself or is declared twice ({contrast.a!r})")
        if contrast.estimand == "tasks like these" and task_count < MIN_TASKS:
            raise UsageError(
                f"contrasts[{place}]: the estimand 'tasks like these' needs {MIN_TASKS} tasks (the plan has {task_count}); "
                "add tasks, or set estimand = 'these tasks'"
            )
        if contrast.estimand == "these tasks" and seed_count < 2:
            raise UsageError(
                f"contrasts[{place}]: the estimand 'these tasks' needs 2 seeds of each task (the plan has {seed_count}); "
                "add seeds"
            )
    if not contrasts:
        return
    possible = min(
        count_possible_contrasts(task_count, seed_count, contrast.estimand, looks, contrast.metric) for contrast in contrasts
    )
    if len(contrasts) > possible:
        corrections = "Holm's correction" if looks == 1 else f"the corrections for contrasts and {looks} looks"
        raise UsageError(
            f"contrasts: {format_count(len(contrasts), 'contrast')} declared, but {format_count(task_count, 'task')} with "
            f"{format_count(seed_count, 'seed')} can show at most {possible} after {corrections}; declare fewer, or add tasks"
        )


def count_possible_contrasts(
    task_count: int, seed_count: int, estimand: Estimand | None = None, looks: int = 1, metric: Metric = "success"
) -> int:
    """Return how many contrasts a plan may declare if each shall be able to reach p <= 0.05.

    The p-values are those after all corrections, in the best case: all seeds of all tasks differ in favour of one arm.

    Args:
        task_count: Number of tasks.
        seed_count: Number of seeds of each task.
        estimand: Whether to speak about all `tasks like these` or only about `these tasks`; None chooses by the number of tasks.
        looks: Number of declared interim analyses, i.e. times at which the results are inspected.
        metric: Metric that the comparisons are about.
    """
    smallest = compute_smallest_p(task_count, seed_count, estimand, metric) * looks
    return int(min(MAX_CONTRASTS, SIGNIFICANCE_LEVEL / smallest * (1 + 1e-9))) if smallest else MAX_CONTRASTS


def compute_smallest_p(task_count: int, seed_count: int, estimand: Estimand | None = None, metric: str = "success") -> float:
    """Return the smallest p-value that a difference can reach; 1 if nothing can be tested.

    - Success: reached if all seeds of all tasks differ in favour of one arm.
    - Score about `these tasks`: a lower bound, which also holds for a comparison with a margin.
    - Amounts, such as costs, about `these tasks`: 0, since p-values are the smaller, the less the amounts vary.

    Args:
        task_count: Number of tasks.
        seed_count: Number of seeds, or distinct runs, of each task.
        estimand: Whether to speak about all `tasks like these` or only about `these tasks`; None chooses by the number of tasks.
        metric: Metric that is compared.
    """
    if task_count < 1 or seed_count < 1:
        return 1.0
    if estimand == "tasks like these" or (estimand is None and task_count >= MIN_TASKS):
        return float(2.0 ** (1 - task_count))
    if seed_count < 2:
        return 1.0
    if metric not in SHARE_METRICS:
        return 0.0
    smallest = float(2.0 ** (1 - task_count * seed_count))
    if metric == "score":
        return max(smallest, _SMALLEST_DRAWN_P)
    if task_count == 1:
        return smallest
    known = _SMALLEST_INTERVAL_P.get((task_count, seed_count), 0.0)
    return max(smallest, known, _SMALLEST_DRAWN_P if seed_count < 4 else _SMALLEST_INVERTED_P)
