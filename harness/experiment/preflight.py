"""Everything that can be known to be wrong is found before anything starts: names, keys, windows, engines.

Nothing is written and no model is called. What was found out on the way (the sandbox backend of each trial) is handed on.
"""

from collections.abc import Iterable, Mapping, Sequence

from harness.experiment.job import build_session_spec
from harness.experiment.trial import Trial
from harness.models.cassette import Cassette
from harness.models.factory import SCRIPTED_WINDOW_TOKENS, Wiring
from harness.models.registry import look_up_window
from harness.models.scripted.profiles import is_scripted
from harness.sandboxes import choose_backend
from harness.session.preflight import (
    check_assembly,
    count_first_request_tokens,
    count_output_tool_tokens,
    find_warnings,
)
from harness.task import Task, World
from harness.tasks import make_task
from harness.tokens import Window
from harness.tools.session_tools import choose_truncation


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
    wiring = Wiring(cassette=cassette)
    tasks: dict[tuple[str, int, World], tuple[Task, int]] = {}
    checked_arms = set[object]()
    for trial in trials:
        key = (trial.task, trial.seed, trial.world)
        if key not in tasks:
            made = make_task(*key)
            tasks[key] = made, count_first_request_tokens(made.prompt, made.runtime)
        arm = (*key, trial.model, trial.tool_calls, trial.window_tokens, trial.nominal_window_tokens, trial.policy)
        if arm not in checked_arms:
            checked_arms.add(arm)
            task, first_tokens = tasks[key]
            output_tool_tokens = count_output_tool_tokens() if choose_truncation(trial.policy).saved else 0
            check_assembly(build_session_spec(trial, task, wiring), trial.task, first_tokens + output_tool_tokens)


def collect_warnings(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Return what the policies of some trials will not do as their configuration suggests, each thing once.

    Trials are looked at once for all seeds, since a task asks the same with every seed.
    """
    distinct_trials = {
        (one.task, one.world, one.model, one.window_tokens, one.nominal_window_tokens, one.policy): one for one in trials
    }
    tasks: dict[tuple[str, World], Task] = {}
    warnings = dict[str, None]()
    for (name, world, *_), trial in distinct_trials.items():
        if (name, world) not in tasks:
            tasks[name, world] = make_task(name, trial.seed, world)
        spec = build_session_spec(trial, tasks[name, world])
        warnings.update(dict.fromkeys(find_warnings(spec, _find_window(trial), trial.problem)))
    return tuple(warnings)


def _find_window(trial: Trial) -> Window:
    """Of the agent's model, known without opening it."""
    scripted_tokens = trial.window_tokens or SCRIPTED_WINDOW_TOKENS
    return look_up_window(trial.model, scripted_tokens if is_scripted(trial.model) else trial.window_tokens)


def choose_backends(trials: Iterable[Trial], *, unsafe_local: bool = False) -> Mapping[str, str]:
    """The backend of each trial by its id, found by live probes, one for each backend, image and runtime.

    Raises:
        SandboxUnavailable: a backend that a trial asks for does not work here or lacks the runtime, or none at all does.
        UsageError: `local` without leave to run unsandboxed.
    """
    runtimes: dict[str, str] = {}
    chosen: dict[tuple[str, str | None, str], str] = {}
    backends = {}
    for trial in trials:
        if trial.task not in runtimes:
            runtimes[trial.task] = make_task(trial.task, trial.seed, trial.world).runtime
        runtime = runtimes[trial.task]
        choice = (trial.sandbox.backend, trial.sandbox.image, runtime)
        if choice not in chosen:
            chosen[choice] = choose_backend(trial.sandbox.image, runtime, trial.sandbox.backend, unsafe_local=unsafe_local)
        backends[trial.trial_id] = chosen[choice]
    return backends
