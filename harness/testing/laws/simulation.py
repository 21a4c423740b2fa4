"""One scripted session of any task under any policy, with everything that a law may want to look at."""

import re
import secrets
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple, TypeVar

from harness.agent.loop import Limits, Outcome
from harness.events import Compaction, Entry, MessageAdded, StepFinished, TextDelta
from harness.messages import ToolCall
from harness.protocols import Model, Policy, Reply, Request, Sandbox, ignore
from harness.sandboxes.backends import SandboxChoice
from harness.sandboxes.client import ServedSandbox
from harness.session.assembly import assemble_session
from harness.session.grading import GradedCheck, grade_workspace
from harness.session.resources import SessionResources, write_workspace
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog, MemoryOutputs
from harness.task import Task
from harness.transcript import find_key_argument

E = TypeVar("E")

HUGE_WINDOW_TOKENS = 4_000_000
"""A window that no session fills, in tokens."""
WINDOW_TOKENS = 32_768
"""The window in which the tasks of the suite are compacted, in tokens."""
BUBBLEWRAP = SandboxChoice(backend="bubblewrap")


class ScriptedModelSpec(NamedTuple):
    """Which scripted model works on a task."""

    name: str = "scripted"
    """Tells its profile, e.g. `scripted:typical`."""
    seed: int = 1
    """Of its own draws."""


ATTENTIVE_MODEL = ScriptedModelSpec()


@dataclass(frozen=True)
class Run:
    """What happened in a session, and what was left."""

    outcome: Outcome
    entries: tuple[Entry, ...]
    requests: tuple[tuple[Request, Reply], ...]
    """Every request that was answered, with its answer."""
    check_results: tuple[GradedCheck, ...]
    files: Mapping[str, str]
    """Path and text of the files in the end, as the agent left them."""

    @cached_property
    def calls(self) -> list[tuple[str, str]]:
        """Every tool call in order: tool and arguments as they were written."""
        return [(call.name, call.arguments_json) for call in self._calls]

    @cached_property
    def call_keys(self) -> list[tuple[str, str]]:
        """Tool and key argument of each call, whatever it wrote."""
        return [(call.name, find_key_argument(call)) for call in self._calls]

    @property
    def _calls(self) -> list[ToolCall]:
        return [call for event in self.list_events(MessageAdded) for call in event.message.calls]

    @property
    def compactions(self) -> list[Compaction]:
        """Those that were applied."""
        return [event for event in self.list_events(Compaction) if event.status == "applied"]

    @property
    def steps(self) -> list[StepFinished]:
        """Every step that was finished."""
        return self.list_events(StepFinished)

    def list_events(self, kind: type[E]) -> list[E]:
        """The events of a kind, in order."""
        return [entry.event for entry in self.entries if isinstance(entry.event, kind)]

    @property
    def failed_checks(self) -> set[str]:
        """Names of the checks that failed."""
        return {judged.check.name for judged in self.check_results if not judged.passed}

    @property
    def score(self) -> float:
        """Share of the checks that passed."""
        return 1 - len(self.failed_checks) / len(self.check_results)


class _RecordingModel:
    """A model that keeps each request with its reply."""

    def __init__(self, model: Model) -> None:
        self.model, self.name, self.window = model, model.name, model.window
        self.answered: list[tuple[Request, Reply]] = []

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        reply = self.model.reply(request, listen)
        self.answered.append((request, reply))
        return reply


def simulate(
    task: Task,
    policy: Policy,
    *,
    window_tokens: int = WINDOW_TOKENS,
    max_steps: int = 300,
    sandbox: SandboxChoice = BUBBLEWRAP,
    model_spec: ScriptedModelSpec = ATTENTIVE_MODEL,
) -> Run:
    """Run a task to its end in a real sandbox and judge it.

    Args:
        task: what is done.
        policy: what is compacted, and when.
        window_tokens: of the scripted model.
        max_steps: the session ends after so many model calls.
        sandbox: where; `local` needs no other leave.
        model_spec: the scripted model.
    """
    with closing(open_task_sandbox(task, sandbox)) as opened:
        return run_session(opened, task, policy, window_tokens=window_tokens, max_steps=max_steps, model_spec=model_spec)


def run_session(
    sandbox: Sandbox,
    task: Task,
    policy: Policy,
    *,
    window_tokens: int = WINDOW_TOKENS,
    max_steps: int = 300,
    model_spec: ScriptedModelSpec = ATTENTIVE_MODEL,
) -> Run:
    """As `simulate`, in a sandbox that was not started yet; who opened it closes it."""
    spec = SessionSpec(
        request=task.prompt,
        policy=policy,
        model=model_spec.name,
        task=task,
        seed=model_spec.seed,
        window_tokens=window_tokens,
        limits=Limits(max_steps=max_steps),
    )
    sandbox.start()
    write_workspace(task, sandbox)
    resources = SessionResources(
        session_id="law", log=MemoryLog(), clock=time.monotonic, sandbox=sandbox, outputs=MemoryOutputs()
    )
    session = assemble_session(spec, resources)
    session.agent.model = model = _RecordingModel(session.agent.model)
    outcome = session.agent.run(session.make_start_event("{}"), spec.system_prompt)
    paths = [path for path, state in sorted(sandbox.snapshot().files.items()) if stat.S_ISREG(state.mode)]
    files = {path: sandbox.read(path).decode(errors="replace") for path in paths}
    judged = grade_workspace(task, sandbox)
    return Run(outcome, tuple(session.agent.log.entries()), tuple(model.answered), judged, files)


def open_task_sandbox(task: Task, choice: SandboxChoice) -> ServedSandbox:
    """A sandbox for a task, not started yet; who asks for it closes it."""
    return choice.open(f"law-{secrets.token_hex(4)}", task.runtime, unsafe_local=True)


def rewrite_facts(task: Task, values: Mapping[str, str | None]) -> Task:
    """The same task with some facts told differently in messages and workspace, None = not at all; the script is untouched.

    Only what the patterns of a fact read is changed: another value takes the place of the fact's own, which of a fact that is
    told several times is the last; None blanks all that was ever told of it.
    """
    patterns = {fact.name: fact.patterns for fact in task.facts}

    def rewrite(text: str) -> str:
        for name, value in values.items():
            for pattern in patterns[name]:
                text = re.sub(pattern, partial(_swap_value, task.values[name], value), text, flags=re.MULTILINE)
        return text

    return replace(
        task,
        prompt=rewrite(task.prompt),
        workspace=tuple((path, rewrite(text)) for path, text in task.workspace),
        later_messages=tuple(replace(message, text=rewrite(message.text)) for message in task.later_messages),
    )


def _swap_value(old: str, new: str | None, match: re.Match[str]) -> str:
    """What a pattern matched with another value in place of the old one; other values stay, unless all are to go."""
    if match[1] != old and new is not None:
        return match[0]
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    return match[0][:start] + (new or "") + match[0][end:]
