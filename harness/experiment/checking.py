"""Everything that can be known to be wrong is found before anything starts: names, keys, windows, engines.

Nothing is written and no model is called. What was found out on the way (the sandbox backend of each trial) is handed on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import cast

from harness.agent.prompts import system_prompt
from harness.compaction.feasibility import check_feasible
from harness.compaction.scaling import fitted
from harness.errors import UsageError, WindowTooSmall
from harness.experiment.attempt.foresight import told_the_future
from harness.experiment.trial import Trial
from harness.messages import system, user
from harness.models.cassette import Cassette
from harness.models.names import check_tool_calls, open_model, open_summarizer
from harness.models.scripted.agent import tool_tokens
from harness.models.tokenizer import message_tokens
from harness.models.wiring import Wiring
from harness.protocols import OutputStore, Sandbox, Warns
from harness.sandboxes import choose_backend
from harness.sandboxes.opening import IMAGES
from harness.task import Runtime, Task, World
from harness.tasks import make_task
from harness.tools import standard_tools
from harness.tools.equipment import limits_of
from harness.tools.outputs import output_tools


@dataclass(slots=True)
class _Seen:
    """What was looked at already, so that a large grid is checked as fast as a small one."""

    tasks: dict[tuple[str, int, World], Task] = field(default_factory=dict)
    first_tokens: dict[tuple[str, int, World], int] = field(default_factory=dict)
    arms: set[object] = field(default_factory=set)


def check_trials(trials: Iterable[Trial], cassette: Cassette | None = None) -> None:
    """Refuse trials that could not run.

    Args:
        trials: whose names, keys and windows are looked at.
        cassette: whose answers they shall live on, if any; replayed, real models need no key.

    Raises:
        UnknownName: a task, model, profile or summarizer that there is not.
        MissingKey: a real model's key is not in the environment.
        WindowTooSmall: the first request of a task cannot fit a model's window.
        UsageError: the reserves of a policy leave nothing of a window, it keeps more than its threshold leaves, or it is to be
            scaled to a window that is not known.
    """
    if cassette is not None:
        cassette.check()
    seen = _Seen()
    for trial in trials:
        key = (trial.task, trial.seed, trial.world)
        if key not in seen.tasks:
            task = make_task(*key)
            seen.tasks[key], seen.first_tokens[key] = task, first_request_tokens(task.prompt, task.runtime)
        arm = (*key, trial.model, trial.tool_calls, trial.window_tokens, trial.nominal_window_tokens, trial.policy)
        if arm not in seen.arms:
            seen.arms.add(arm)
            wiring = Wiring(tool_calls=trial.tool_calls, cassette=cassette)
            _check_models(trial, wiring, seen.tasks[key], seen.first_tokens[key])


def warnings_of(trials: Iterable[Trial]) -> tuple[str, ...]:
    """What the policies of some trials will not do as it seems, each thing once."""
    policies = dict.fromkeys(trial.policy for trial in trials)
    told = (f"policy {policy.kind!r}: {text}" for policy in policies if isinstance(policy, Warns) for text in policy.warnings)  # type: ignore[attr-defined]
    return tuple(dict.fromkeys(told))


def choose_backends(trials: Iterable[Trial], *, unsafe_local: bool = False) -> Mapping[str, str]:
    """The backend of each trial by its id, found by live probes, one for each backend, image and runtime.

    Raises:
        SandboxUnavailable: a backend that a trial asks for does not work here or lacks the runtime, or none at all does.
        UsageError: `local` without leave to run unsandboxed.
    """
    runtimes: dict[str, str] = {}
    chosen: dict[tuple[str, str, str], str] = {}
    backends = {}
    for trial in trials:
        if trial.task not in runtimes:
            runtimes[trial.task] = make_task(trial.task, trial.seed, trial.world).runtime
        runtime = runtimes[trial.task]
        wanted = (trial.sandbox.backend, trial.sandbox.image or IMAGES[runtime], runtime)
        if wanted not in chosen:
            chosen[wanted] = _usable(*wanted, unsafe_local=unsafe_local)
        backends[trial.trial_id] = chosen[wanted]
    return backends


def _usable(backend: str, image: str, runtime: str, *, unsafe_local: bool) -> str:
    if backend == "local":
        if not unsafe_local:
            raise UsageError(
                "sandbox backend 'local' isolates nothing; run with --unsafe-local (unsafe_local=True) if you mean it"
            )
        return backend
    return choose_backend(image, runtime, backend)


def check_first_request(name: str, request: str, runtime: Runtime, window_tokens: int) -> None:
    """Refuse a session whose first request is longer than its window; 0 = the window is not known, so nothing is.

    Raises:
        WindowTooSmall: the first request cannot fit; `name` says of what.
    """
    _check_fits(name, first_request_tokens(request, runtime), window_tokens)


def first_request_tokens(request: str, runtime: Runtime) -> int:
    """System prompt, request and tool schemas, by a real tokenizer; a real model's own may differ by some percent."""
    messages = (system(system_prompt(runtime)), user(request))
    return sum(message_tokens(message) for message in messages) + _standard_tool_tokens()


@cache
def _standard_tool_tokens() -> int:
    unopened = cast("Sandbox", None)  # a tool's description needs no sandbox
    return tool_tokens(tuple(tool.spec for tool in standard_tools(unopened)))


@cache
def _output_tool_tokens() -> int:
    unopened = cast("OutputStore", None)
    return tool_tokens(tuple(tool.spec for tool in output_tools(unopened)))


def _check_fits(task: str, first_tokens: int, window_tokens: int) -> None:
    if window_tokens and first_tokens > window_tokens:
        raise WindowTooSmall(task, first_tokens, window_tokens)


def _check_models(trial: Trial, wiring: Wiring, task: Task, first_tokens: int) -> None:
    check_tool_calls(trial.model, trial.tool_calls)
    model = open_model(trial.model, task=task, seed=trial.model_seed, window_tokens=trial.window_tokens, wiring=wiring)
    window = model.window
    more = _output_tool_tokens() if limits_of(trial.policy).saved else 0
    _check_fits(trial.task, first_tokens + more, window.tokens)
    named = getattr(trial.policy, "summarizer", None)
    if named is not None:
        open_summarizer(named, agent=model, task=task, seed=trial.model_seed, window_tokens=None, wiring=wiring)
    policy = fitted(trial.policy, window, trial.nominal_window_tokens).policy
    told_the_future(policy, task)
    check_feasible(policy, policy.budget(window))
