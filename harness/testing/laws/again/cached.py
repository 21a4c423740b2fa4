"""Law 9: a session from the action cache equals the session in a real sandbox."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.sandboxes.action_cache import ActionCache, CachedSandbox
from harness.testing.laws.again.repeating import differences
from harness.testing.laws.findings import Finding
from harness.testing.laws.sessions import DEFAULT, PRESETS, Sessions, most_steps
from harness.testing.laws.simulation import Run, sandbox_for, session_in


def law_9(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """A compacted session through an empty cache, and through the one that this filled, is the one in a real sandbox.

    Nothing is kept in the sandbox `local`, and of a task that says that it cannot be.
    """
    task = sessions.task(seed)
    if not task.cacheable or sessions.sandbox.backend == "local":
        return
    real = sessions.compacted(seed, DEFAULT)
    with TemporaryDirectory() as folder, closing(ActionCache(Path(folder))) as cache:
        for kind in ("cold", "warm"):
            run, misses = _through(cache, sessions, seed)
            found = list(differences(task, real, run, seed, f"when commands are answered by a {kind} action cache"))
            yield from found
            if kind == "warm" and misses and not found:
                words = (
                    f"{misses} commands had to be run again although the action cache was warm; a command that leaves a process "
                    "or a file beside the workspace is not kept: let it not, or make the task with `cacheable=False`"
                )
                yield Finding(words=words, seed=seed)


def _through(cache: ActionCache, sessions: Sessions, seed: int) -> tuple[Run, int]:
    """A compacted session through a cache, and how many of its commands were run."""
    task, tight = sessions.task(seed), sessions.tight(seed)
    opened = sandbox_for(task, sessions.sandbox)
    with closing(CachedSandbox(opened, cache, kind=(sessions.sandbox, task.runtime), task=task.name)) as sandbox:
        policy, steps = tight.fitted(PRESETS[DEFAULT]), most_steps(task)
        run = session_in(sandbox, task, policy, window_tokens=tight.window_tokens, max_steps=steps)
        return run, sandbox.counts.misses
