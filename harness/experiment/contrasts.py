"""Comparisons of two configurations (primary contrasts) that a plan declares before any trial runs.

Only the results of declared comparisons count as findings; all other comparisons are exploratory. The comparisons are recorded
with every trial. So are the number of planned trials and the number of looks, i.e. how often the results may be inspected.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from harness import codec
from harness.codec import refuse_mistyped_fields
from harness.errors import UnknownName, UsageError, format_count

Metric = Literal["success", "score", "prompt_tokens", "steps", "total_cost_usd"]
SIGNIFICANCE_LEVEL = 0.05
"""Largest p-value at which an effect counts as shown; in comparisons that a plan declares, after Holm's correction."""
MIN_TASKS = 6
"""Minimum number of tasks for a statement about tasks like these.

With fewer tasks, the statistical test (a sign-flip test) cannot reach p <= 0.05.
"""


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
    estimand: Literal["tasks like these", "these tasks"] | None = None
    margin: float | None = None

    def __post_init__(self) -> None:
        """Choose the metric if none is given, and refuse values of the wrong type and impossible margins."""
        metric: object = self.metric
        if metric is None:
            object.__setattr__(self, "metric", "success" if self.margin is None else "score")
        refuse_mistyped_fields(self)
        if self.margin is None:
            return
        is_share = self.metric in {"success", "score"}
        if not (0 < self.margin < 1 if is_share else self.margin > 1):
            allowed = "between 0 and 1" if is_share else "above 1, as a ratio"
            raise UsageError(f"margin: must be {allowed} for {self.metric} (got {self.margin!r})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All comparisons (contrasts) that a plan declares. Their p-values are corrected together, as one family."""

    contrasts: tuple[Contrast, ...] = ()
    planned_trials: int = 0
    """Number of trials of the plan."""
    looks: int = 1
    """Number of times that the results may be inspected while trials are added, as declared in the plan."""

    @property
    def digest(self) -> str:
        """SHA-256 of the declared comparisons and of the number of inspections, which shows later changes."""
        plain = {"contrasts": [codec.to_plain(one) for one in self.contrasts], "looks": self.looks}
        return hashlib.sha256(codec.to_canonical_json(plain, dict).encode()).hexdigest()


def refuse_invalid_contrasts(
    contrasts: Sequence[Contrast], arms: Collection[str], task_count: int, seed_count: int, looks: int = 1
) -> None:
    """Raise an error if a comparison (contrast) in a plan is impossible or declared twice, or if there are too many.

    There are too many comparisons if, even in the best case, not all of them can be significant. The significance is corrected
    for the number of comparisons and of looks (inspections of the results).

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
            raise UsageError(f"contrasts[{place}]: tasks like these need {MIN_TASKS} tasks (the plan has {task_count})")
        if contrast.estimand == "these tasks" and seed_count < 2:
            raise UsageError(f"contrasts[{place}]: these tasks need 2 seeds of each task (the plan has {seed_count})")
    if not contrasts:
        return
    units = min(_count_units(contrast, task_count, seed_count) for contrast in contrasts)
    possible = int(SIGNIFICANCE_LEVEL * 2.0 ** min(units - 1, 60) / looks)
    if len(contrasts) > possible:
        corrections = "Holm's correction" if looks == 1 else f"the corrections for contrasts and {looks} looks"
        raise UsageError(
            f"contrasts: {format_count(len(contrasts), 'contrast')} declared, but {format_count(task_count, 'task')} with "
            f"{format_count(seed_count, 'seed')} can show at most {possible} after {corrections}; declare fewer, or add tasks"
        )


def _count_units(contrast: Contrast, task_count: int, seed_count: int) -> int:
    """Return the number of independent results: one for each task, or one for each seed of each task."""
    is_about_tasks = contrast.estimand == "tasks like these" or (contrast.estimand is None and task_count >= MIN_TASKS)
    return task_count if is_about_tasks else task_count * seed_count
