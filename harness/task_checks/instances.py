"""Validity check (law) 11: tasks made from different seeds lead to different sessions and different scores.

Seeds with equal sessions would only repeat one measurement. The law therefore runs the tasks of many seeds under one policy (the
default policy with extractive summaries, in a window of 32K tokens) and compares the scores and the tool calls.
"""

import hashlib
import json
import statistics
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from harness.compaction.presets.keep_last import KeepLast
from harness.sandboxes.action_cache import ActionCache
from harness.sandboxes.backends import SandboxChoice
from harness.task import Task
from harness.task_checks.findings import Finding
from harness.task_checks.simulation import BUBBLEWRAP, WINDOW_TOKENS, Run, open_cached_sandbox, simulate
from harness.text import format_percent

BASE_POLICY = KeepLast(threshold=0.8, keep_last=10, summarizer="scripted/extractive")
"""Compaction policy under which the sessions of different seeds are compared."""
MIN_STANDARD_DEVIATION = 0.05
"""Smallest standard deviation of the score between seeds with which a task passes the check."""
MIN_MEAN_SCORE, MAX_MEAN_SCORE = 0.2, 0.9
"""Bounds within which the mean score of a task passes the check, so that other policies can do better or worse."""
MIN_DISTINCT_SHARE = 2 / 3
"""Smallest share of different courses among the seeds with which a task passes; a course is a sequence of calls and verdicts."""
REPORT_SEEDS = range(100, 120)
"""Seeds for which differences between sessions are reported; no task was tuned on these seeds."""


class InstanceResult(NamedTuple):
    """Score and course of the session with the task of one seed.

    The course is what the agent did and which checks it passed.

    Args:
        seed: Seed of the task.
        score: Share of the task's checks that passed, from 0 to 1.
        course: Digest of the tool calls in order, with the shapes of their arguments, and of the verdicts of the checks.
        compactions: Number of compactions in the session.
    """

    seed: int
    score: float
    course: str
    compactions: int


class InstanceSpread(NamedTuple):
    """Results of one task for several seeds, with measures of how much the results differ.

    The sessions ran under the policy `BASE_POLICY`.

    Args:
        results: Result of each seed.
    """

    results: tuple[InstanceResult, ...]

    @property
    def mean_score(self) -> float:
        """Mean of the scores (shares of passed checks) of all seeds."""
        return statistics.fmean(result.score for result in self.results)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the scores between seeds; 0 for a single seed."""
        return statistics.stdev(result.score for result in self.results) if len(self.results) > 1 else 0.0

    @property
    def distinct_share(self) -> float:
        """Number of different courses (sequences of calls and verdicts), divided by the number of seeds."""
        return len({result.course for result in self.results}) / len(self.results)


def measure_instances(
    make_task: Callable[[int], Task],
    seeds: Iterable[int],
    sandbox: SandboxChoice = BUBBLEWRAP,
    action_cache: ActionCache | None = None,
) -> Iterator[InstanceResult]:
    """Run a session with the task of each seed under the policy `BASE_POLICY`, and yield the results.

    The action cache only saves time; validity check 9 ensures that it changes no session.
    """
    for seed in seeds:
        task = make_task(seed)
        with closing(open_cached_sandbox(task, sandbox, action_cache)) as opened:
            run = simulate(task, BASE_POLICY, window_tokens=WINDOW_TOKENS, max_steps=task.step_limit, sandbox=opened)
        yield InstanceResult(seed, run.score, describe_course(run), len(run.compactions))


def describe_course(run: Run) -> str:
    """Return a digest of the tool calls and the verdicts of a session.

    Each argument of a call counts by its number of lines only.
    """
    calls = [(name, describe_shape(arguments)) for name, arguments in run.calls]
    verdicts = [(check_result.check.name, check_result.passed) for check_result in run.check_results]
    return hashlib.sha256(json.dumps([calls, verdicts]).encode()).hexdigest()


def describe_shape(arguments_json: str) -> list[tuple[str, int]]:
    """Return the name and the number of lines of each argument of a tool call."""
    return [(name, str(value).count("\n") + 1) for name, value in json.loads(arguments_json).items()]


def check_instances(spread: InstanceSpread) -> Iterator[Finding]:
    """Check that scores and courses differ enough between seeds, and that the mean score is in its bounds."""
    if len(spread.results) > 1 and spread.distinct_share == 1 / len(spread.results):
        words = f"all {len(spread.results)} seeds repeat one case: the same calls with the same verdicts"
        advice = (
            "draw the structure, too: number and order of the work, and which facts the checks rest on, with `StructureDraws`"
        )
        yield Finding(f"{words}; {advice} (see 'Draw instances' in the guide to tasks)")
        return
    if spread.standard_deviation < MIN_STANDARD_DEVIATION:
        words = f"the standard deviation of the score between seeds is {spread.standard_deviation:.3f}"
        yield Finding(f"{words}, less than {MIN_STANDARD_DEVIATION}: let the structure decide which facts the checks rest on")
    if not MIN_MEAN_SCORE <= spread.mean_score <= MAX_MEAN_SCORE:
        words = f"the mean score is {spread.mean_score:.3f}, outside {MIN_MEAN_SCORE} to {MAX_MEAN_SCORE}"
        yield Finding(f"{words}: state facts earlier or later, or in other forms")
    if spread.distinct_share < MIN_DISTINCT_SHARE:
        least = format_percent(MIN_DISTINCT_SHARE)
        words = f"only {format_percent(spread.distinct_share)} of the seeds have a course of their own, less than {least}"
        yield Finding(f"{words}: let the structure decide number and order of the work items")
