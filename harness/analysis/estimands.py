"""Quantities that a comparison of arms can estimate, and the number of tasks and seeds that each of them needs."""

from collections.abc import Sequence
from typing import get_args

from harness.errors import UnknownName, UsageError, format_count
from harness.experiment.contrasts import MIN_TASKS, Estimand


def choose_estimand(task_count: int, requested: Estimand | None = None) -> Estimand:
    """Return the quantity to estimate: the requested one, or a default that depends on the number of tasks.

    The default is `tasks like these` if there are at least six tasks, else `these tasks`.

    Raises:
        UnknownName: The requested estimand does not exist.
        UsageError: The requested estimand is `tasks like these`, but there are fewer than six tasks.
    """
    if requested is None:
        return "tasks like these" if task_count >= MIN_TASKS else "these tasks"
    if requested not in get_args(Estimand):
        raise UnknownName("estimand", requested, get_args(Estimand))
    if requested == "tasks like these" and task_count < MIN_TASKS:
        raise UsageError(
            f"the estimand 'tasks like these' needs at least {MIN_TASKS} tasks (got {task_count}); use more tasks, or the "
            "estimand 'these tasks', which says nothing about other tasks"
        )
    return requested


def find_refusal(unit_counts: Sequence[int], estimand: Estimand) -> str:
    """Return the reason why a comparison has no interval, such as `a single seed`; empty if it may have one.

    Args:
        unit_counts: Number of seeds, or of distinct runs, of each task.
        estimand: Quantity to estimate: the mean over all `tasks like these`, or over `these tasks` only.
    """
    if not unit_counts:
        return "no pairs"
    if estimand == "tasks like these" and len(unit_counts) < MIN_TASKS:
        return f"known on {format_count(len(unit_counts), 'task')}, and tasks like these need {MIN_TASKS}"
    if estimand == "these tasks" and min(unit_counts) < 2:
        return "a single seed" if len(unit_counts) == 1 else "a task with a single seed"
    return ""
