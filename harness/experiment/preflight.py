"""Checks of an experiment before anything starts: names, API keys, context windows and sandbox backends.

Nothing is written and no model is called.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from harness.compaction.description import choose_truncation, name_policy
from harness.compaction.scaling import fit_policy
from harness.conversation.advisories import Advisory, format_advisories
from harness.conversation.tokens import Window
from harness.errors import UsageError
from harness.experiment.job import build_session_spec
from harness.experiment.trial import Trial
from harness.models.cassette import Cassette
from harness.models.factory import SCRIPTED_WINDOW_TOKENS, Wiring
from harness.models.registry import look_up_window
from harness.models.scripted.profiles import is_scripted
from harness.sandboxes import choose_backend
from harness.sandboxes.bubblewrap import BACKEND as BUBBLEWRAP
from harness.session.assembly import EXPLORE_SPEC
from harness.session.external_agent import MAX_PROMPT_BYTES
from harness.session.preflight import (
    bound_tool_tokens,
    check_session,
    count_explore_tool_tokens,
    count_first_request_tokens,
    count_output_tool_tokens,
    find_advisories,
    list_output_tool_specs,
)
from harness.task import Task, World
from harness.tasks import SUITE, make_task
from harness.text import format_percent

PROMPTS_KEPT = 1_000
"""Number of prompts whose length in tokens is remembered.

An experiment with many seeds has more prompts than should be kept in memory.
"""
MAX_SUITE_REQUEST_TOKENS = 8_000
"""Number of tokens that the first request of a task of the suite never exceeds, with any seed and at any difficulty.

Numbers in the task's world can make the request longer.
"""


FirstTokens = dict[tuple[str, int, World], int]
"""Number of tokens in the first request of each problem, by the name of the task, the seed and the world."""


def check_trials(trials: Iterable[Trial], cassette: Cassette | None = None, first_tokens: FirstTokens | None = None) -> None:
    """Refuse trials that could not run, e.g. because of an unknown name or a missing API key.

    The task of every seed is made, except where the longest request of the suite's tasks fits the window.

    Args:
        trials: Trials of the experiment.
        cassette: Recording of model answers that the trials write or replay, or None. For a replay, real models need no key.
        first_tokens: Lengths of first requests that an earlier check has counted; new ones are added. None counts all again.

    Raises:
        UnknownName: A task, model, profile or summarizer is unknown.
        MissingKey: The API key of a real model is not in the environment.
        WindowTooSmall: The first request of a task cannot fit a model's window.
        UsageError: A policy cannot work in the model's window: its reserves leave no room, it keeps more than its threshold
            allows, or it has to be scaled to a window that is unknown.
    """
    if cassette is not None:
        cassette.check()
    wiring, make_task_once = Wiring(cassette=cassette), cache(make_task)
    count_once = lru_cache(maxsize=PROMPTS_KEPT)(count_first_request_tokens)
    first_tokens = {} if first_tokens is None else first_tokens
    largest = dict[tuple[object, ...], Trial]()
    fitting = set[tuple[object, ...]]()
    for trial in trials:
        arm = (
            trial.task,
            trial.world,
            trial.model,
            trial.sub_agent_model,
            trial.tool_calls,
            trial.window_tokens,
            trial.nominal_window_tokens,
            trial.output_limit_scale,
            trial.reader,
            trial.notes,
            trial.agent,
            id(trial.policy),  # hashing a policy takes longer, and the trials of a grid share theirs
        )
        if arm in fitting:
            continue
        problem = (trial.task, trial.seed, trial.world)
        if arm not in largest and _fits_any_seed(trial):
            fitting.add(arm)
            largest[arm] = trial
            continue
        if problem not in first_tokens:
            task = make_task(*problem)
            first_tokens[problem] = count_once(task.prompt, task.runtime)
        other = largest.setdefault(arm, trial)
        if first_tokens[problem] > first_tokens[other.task, other.seed, other.world]:
            largest[arm] = trial
    for trial in {(trial.task, trial.agent, trial.model, trial.window_tokens): trial for trial in largest.values()}.values():
        if trial.agent.command:
            _check_agent(trial, make_task_once(trial.task, trial.seed, trial.world))
    for setting, trial in largest.items():  # a session that can begin with the longest request can begin with the others
        problem = (trial.task, trial.seed, trial.world)
        request_tokens = MAX_SUITE_REQUEST_TOKENS if setting in fitting else first_tokens[problem] + _count_further_tools(trial)
        check_session(build_session_spec(trial, make_task_once(*problem), wiring), trial.task, request_tokens)


def _check_agent(trial: Trial, task: Task) -> None:
    """Refuse a trial whose external agent could not run on this machine, or could not solve the task."""
    if task.later_messages or task.tools:
        missing = "messages arrive while the agent works" if task.later_messages else f"it has the tools {', '.join(task.tools)}"
        raise UsageError(f"agent: an external agent cannot solve the task {trial.task!r}, since {missing}; choose another task")
    if not _find_window(trial.model, trial.window_tokens).tokens:
        raise UsageError(f"window_tokens: the window of the model {trial.model!r} is unknown, and an external agent needs one")
    if (size_bytes := len(trial.agent.render(task.prompt).encode())) > MAX_PROMPT_BYTES:
        raise UsageError(f"agent.command: {size_bytes:,} bytes with the prompt of {trial.task!r}, at most {MAX_PROMPT_BYTES:,}")
    trial.agent.find_folders()


def _count_further_tools(trial: Trial) -> int:
    output_tool_tokens = count_output_tool_tokens() if choose_truncation(trial.policy).saved else 0
    return output_tool_tokens + (count_explore_tool_tokens() if trial.explore else 0)


def _fits_any_seed(trial: Trial) -> bool:
    """Return whether the first request surely fits the window, whatever the seed of the trial's task."""
    if trial.task not in SUITE or trial.world.overrides:
        return False
    window = _find_window(trial.model, trial.window_tokens)
    tool_tokens = bound_tool_tokens((*list_output_tool_specs(), EXPLORE_SPEC))
    return window.tokens >= MAX_SUITE_REQUEST_TOKENS + tool_tokens


def collect_warnings(trials: Iterable[Trial]) -> tuple[str, ...]:
    """Return warnings about policies that will not act as their configuration suggests, each problem once.

    All seeds of a configuration are checked together, because the first request of a task is the same for all seeds. Of a problem
    that several tasks have, the warning gives the numbers of the first task and the number of other tasks.

    Raises:
        UsageError: A policy cannot work in its window at all; see `check_trials`.
    """
    distinct_trials = {
        (
            trial.task,
            trial.world,
            trial.model,
            trial.sub_agent_model,
            trial.window_tokens,
            trial.nominal_window_tokens,
            trial.explore,
            trial.policy,
        ): trial
        for trial in trials
    }
    tasks: dict[str, Task] = {}
    advisories: list[Advisory] = []
    for trial in distinct_trials.values():
        if trial.problem not in tasks:
            tasks[trial.problem] = make_task(trial.task, trial.seed, trial.world)
        spec = build_session_spec(trial, tasks[trial.problem])
        sub_agent_window = None if trial.sub_agent_model is None else _find_window(trial.sub_agent_model, None)
        window = _find_window(trial.model, trial.window_tokens)
        advisories += find_advisories(spec, window, trial.problem, sub_agent_window)
    return format_advisories(advisories)


def describe_thresholds(trials: Iterable[Trial]) -> tuple[str, ...]:
    """Return lines of text that state each policy's threshold in tokens and as a share of the whole window.

    Policies without a threshold and models whose window is unknown are omitted.
    """
    distinct_trials = {(trial.model, trial.window_tokens, trial.nominal_window_tokens, trial.policy): trial for trial in trials}
    values: dict[tuple[str, int], dict[int, str]] = {}
    for trial in distinct_trials.values():
        window = _find_window(trial.model, trial.window_tokens)
        policy = fit_policy(trial.policy, window, trial.nominal_window_tokens).policy
        budget = policy.budget(window)
        if budget.threshold_tokens is None or not budget.window_tokens:
            continue
        kind, threshold = name_policy(trial.policy), getattr(policy, "threshold", None)
        whole = (
            f"{budget.threshold_tokens:,} tokens, {format_percent(budget.threshold_tokens / budget.window_tokens)} of the window"
        )
        is_share = isinstance(threshold, float) and budget.threshold_tokens == int(threshold * budget.available_tokens)
        base = "what the reserves leave" if budget.reserved_tokens else "the window"
        text = f"{threshold:g} of {base} = {whole}" if is_share else whole
        values.setdefault((kind, budget.window_tokens), {})[budget.threshold_tokens] = text
    return tuple(
        f"thresholds of {kind}, window {window_tokens:,} tokens: {'; '.join(text for _, text in sorted(texts.items()))}"
        for (kind, window_tokens), texts in values.items()
    )


def _find_window(name: str, window_tokens: int | None) -> Window:
    """Return the context window of an agent's model; None as `window_tokens` means the model's own window."""
    if is_scripted(name):
        return Window(tokens=window_tokens or SCRIPTED_WINDOW_TOKENS, source="configuration")
    return look_up_window(name, window_tokens)


class SandboxNeed(NamedTuple):
    """Requirements of a trial for its sandbox, in the order of the parameters of `choose_backend`."""

    image: str | None
    runtime: str
    backend: str


class SandboxNeeds:
    """Finder of trials' requirements for their sandboxes, which looks up the runtime of each task only once."""

    def __init__(self) -> None:
        self._runtimes: dict[str, str] = {}
        self._shared: dict[SandboxNeed, SandboxNeed] = {}

    def find(self, trial: Trial) -> SandboxNeed:
        """Return the requirements of a trial for its sandbox; trials with equal requirements share one object."""
        if trial.task not in self._runtimes:
            self._runtimes[trial.task] = make_task(trial.task, trial.seed, trial.world).runtime
        backend = BUBBLEWRAP if trial.agent.command else trial.sandbox.backend
        need = SandboxNeed(trial.sandbox.image, self._runtimes[trial.task], backend)
        return self._shared.setdefault(need, need)

    def count(self, groups: Iterable[tuple[Trial, int]]) -> Mapping[SandboxNeed, int]:
        """Return each distinct requirement with its number of trials, in the order of the first trials.

        Args:
            groups: Groups of trials with equal requirements; each is given by one of its trials and the number of its trials.
        """
        counts = Counter[SandboxNeed]()
        for trial, count in groups:
            counts[self.find(trial)] += count
        return counts


def choose_backends(needs: Iterable[SandboxNeed], *, unsafe_local: bool = False) -> Mapping[SandboxNeed, str]:
    """Choose a sandbox backend for each requirement, and test that it works on this machine.

    Raises:
        SandboxUnavailable: A requested backend does not work here or lacks the runtime, or no backend works.
        UsageError: A trial asks for the backend `local`, but there is no permission to run commands without isolation.
    """
    return {need: choose_backend(*need, unsafe_local=unsafe_local) for need in needs}
