"""Validity check (law) 15: in each cell of a task, some sessions under the base policy succeed and others fail.

A cell is a difficulty and a context window (`Task.cells`). The law runs the tasks of many seeds twice in each cell: under the
base policy of law 11, and under the same policy with a summarizer that loses most of the lines. Success cannot tell policies
apart in a cell in which nearly all sessions have the same result, or in which each seed has the same result under both policies.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

from harness.analysis.intervals import Interval, compute_wilson_bounds
from harness.sandboxes.action_cache import ActionCache
from harness.sandboxes.backends import SandboxChoice
from harness.task import Cell, TaskTemplate
from harness.task_checks.findings import Finding
from harness.task_checks.instances import BASE_POLICY
from harness.task_checks.simulation import BUBBLEWRAP, Run, open_cached_sandbox, simulate
from harness.tasks import choose_difficulty
from harness.text import format_percent

LOSSY_POLICY = replace(BASE_POLICY, summarizer="scripted/lossy-0.8")
"""Compaction policy that the sessions under the base policy are compared with."""
CALIBRATION_SEEDS = range(20)
"""Seeds with which cells are chosen."""
MIN_SUCCESS, MAX_SUCCESS = 0.25, 0.6
"""Bounds of the share of sessions under the base policy that succeed with the seeds of the calibration."""
MIN_REPORTED_SUCCESS, MAX_REPORTED_SUCCESS = 0.15, 0.65
"""Bounds of a range that shares the Wilson interval of success with other seeds has to overlap."""
MIN_DISAGREEMENT = 0.15
"""Smallest share of seeds on which the two policies must differ in success."""


class CellResult(NamedTuple):
    """Sessions with the task of one seed in a cell, one under each policy.

    Args:
        seed: Seed of the task.
        compactions: Number of compactions under the base policy.
        base_succeeds: Whether every check passed under the base policy.
        lossy_succeeds: Whether every check passed with a summarizer that loses most of the lines.
    """

    seed: int
    compactions: int
    base_succeeds: bool
    lossy_succeeds: bool


class CellSuccess(NamedTuple):
    """Results of a task in one cell for several seeds, with shares of success.

    Args:
        results: Result of each seed; at least one.
    """

    results: tuple[CellResult, ...]

    @property
    def success(self) -> float:
        """Share of seeds with which the session under the base policy passes every check."""
        return sum(result.base_succeeds for result in self.results) / len(self.results)

    @property
    def interval(self) -> Interval:
        """Wilson interval of `success`, 95 %."""
        bounds = compute_wilson_bounds(float(sum(result.base_succeeds for result in self.results)), float(len(self.results)))
        return Interval(float(bounds.low), float(bounds.high))

    @property
    def disagreement(self) -> float:
        """Share of seeds with which one of the two policies succeeds and the other one fails."""
        return sum(result.base_succeeds != result.lossy_succeeds for result in self.results) / len(self.results)


def measure_cell(
    name: str,
    template: TaskTemplate,
    cell: Cell,
    seeds: Iterable[int],
    sandbox: SandboxChoice = BUBBLEWRAP,
    action_cache: ActionCache | None = None,
) -> Iterator[CellResult]:
    """Run a session under each of the two policies with the task of each seed, and yield the results.

    Args:
        name: Name of the template, for error messages.
        template: Template of the task.
        cell: Difficulty and context window.
        seeds: Seeds of the tasks.
        sandbox: Backend of the sandboxes.
        action_cache: Stored effects of commands, which only save time.

    Raises:
        UsageError: The template does not support the difficulty.
    """
    make_task = choose_difficulty(name, template, cell.difficulty)
    for seed in seeds:
        task, runs = make_task(seed), list[Run]()
        for policy in (BASE_POLICY, LOSSY_POLICY):
            with closing(open_cached_sandbox(task, sandbox, action_cache)) as opened:
                runs.append(simulate(task, policy, window_tokens=cell.window_tokens, max_steps=task.step_limit, sandbox=opened))
        base, lossy = runs
        yield CellResult(seed, len(base.compactions), not base.failed_checks, not lossy.failed_checks)


def check_cell(success: CellSuccess) -> Iterator[Finding]:
    """Check a cell with seeds that it was not chosen with: success is near the range of the calibration, and policies differ."""
    low, high = success.interval
    advice = "choose another window, or let the structure decide how many facts are stated once"
    if high < MIN_REPORTED_SUCCESS or low > MAX_REPORTED_SUCCESS:
        words = f"{format_percent(success.success)} of the sessions succeed (interval {low:.2f} to {high:.2f})"
        yield Finding(f"{words}, not near {MIN_REPORTED_SUCCESS} to {MAX_REPORTED_SUCCESS}: {advice}")
    if success.disagreement < MIN_DISAGREEMENT:
        seeds = f"{format_percent(success.disagreement)} of the seeds"
        words = f"with only {seeds}, success depends on the loss of most lines of the summaries"
        yield Finding(f"{words}, less than {format_percent(MIN_DISAGREEMENT)}: {advice}")
    idle = [result.seed for result in success.results if not result.compactions]
    if len(idle) > len(success.results) / 2:
        yield Finding(f"{len(idle)} of {len(success.results)} sessions have no compaction: choose a smaller window")
