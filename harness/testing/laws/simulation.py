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

from harness.agent.inbox import Inbox
from harness.agent.loop import Agent, Limits, Outcome
from harness.agent.prompts import system_prompt
from harness.compaction.compactor import SessionCompactor
from harness.events import Compaction, Entry, MessageAdded, SessionStarted, StepFinished, TextDelta
from harness.messages import ToolCall
from harness.models.factory import open_model, open_summarizer
from harness.protocols import Model, Policy, Reply, Request, Sandbox, unheard
from harness.sandboxes import open_sandbox
from harness.sandboxes.backends import SandboxChoice
from harness.sandboxes.client import ServedSandbox
from harness.session.grading import Judged, grade
from harness.session.oracle import told_the_future
from harness.store.memory import MemoryLog, MemoryOutputs
from harness.task import Task
from harness.tools import tools_under
from harness.transcript import key_argument

E = TypeVar("E")

HUGE = 4_000_000
"""A window that no session fills, in tokens."""
WINDOW = 32_768
"""The window in which the tasks of the suite are compacted, in tokens."""
BUBBLEWRAP = SandboxChoice(backend="bubblewrap")


class Reader(NamedTuple):
    """Which scripted model works on a task."""

    name: str = "scripted"
    """Tells its profile, e.g. `scripted:typical`."""
    seed: int = 1
    """Of its own draws."""


ATTENTIVE = Reader()


@dataclass(frozen=True)
class Run:
    """What happened in a session, and what was left."""

    outcome: Outcome
    entries: tuple[Entry, ...]
    requests: tuple[tuple[Request, Reply], ...]
    """Every request that was answered, with its answer."""
    judged: tuple[Judged, ...]
    files: Mapping[str, str]
    """Path and text of the files in the end, as the agent left them."""

    @cached_property
    def calls(self) -> list[tuple[str, str]]:
        """Every tool call in order: tool and arguments as they were written."""
        return [(call.name, call.arguments_json) for call in self._calls]

    @cached_property
    def acts(self) -> list[tuple[str, str]]:
        """Tool and key argument of each call, whatever it wrote."""
        return [(call.name, key_argument(call)) for call in self._calls]

    @property
    def _calls(self) -> list[ToolCall]:
        return [call for event in self.events(MessageAdded) for call in event.message.calls]

    @property
    def compactions(self) -> list[Compaction]:
        """Those that were applied."""
        return [event for event in self.events(Compaction) if event.status == "applied"]

    @property
    def steps(self) -> list[StepFinished]:
        """Every step that was finished."""
        return self.events(StepFinished)

    def events(self, kind: type[E]) -> list[E]:
        """The events of a kind, in order."""
        return [entry.event for entry in self.entries if isinstance(entry.event, kind)]

    @property
    def failed(self) -> set[str]:
        """Names of the checks that failed."""
        return {judged.check.name for judged in self.judged if not judged.passed}

    @property
    def score(self) -> float:
        """Share of the checks that passed."""
        return 1 - len(self.failed) / len(self.judged)


class _Recording:
    """A model that keeps each request with its reply."""

    def __init__(self, model: Model) -> None:
        self.model, self.name, self.window = model, model.name, model.window
        self.kept: list[tuple[Request, Reply]] = []

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = unheard) -> Reply:
        reply = self.model.reply(request, listen)
        self.kept.append((request, reply))
        return reply


def simulate(
    task: Task,
    policy: Policy,
    *,
    window_tokens: int = WINDOW,
    max_steps: int = 300,
    sandbox: SandboxChoice = BUBBLEWRAP,
    reader: Reader = ATTENTIVE,
) -> Run:
    """Run a task to its end in a real sandbox and judge it.

    Args:
        task: what is done.
        policy: what is compacted, and when.
        window_tokens: of the scripted model.
        max_steps: the session ends after so many model calls.
        sandbox: where; `local` needs no other leave.
        reader: the scripted model.
    """
    with closing(sandbox_for(task, sandbox)) as opened:
        return session_in(opened, task, policy, window_tokens=window_tokens, max_steps=max_steps, reader=reader)


def session_in(
    opened: Sandbox,
    task: Task,
    policy: Policy,
    *,
    window_tokens: int = WINDOW,
    max_steps: int = 300,
    reader: Reader = ATTENTIVE,
) -> Run:
    """As `simulate`, in a sandbox that was not started yet; who opened it closes it."""
    opened.start()
    log, model = MemoryLog(), _Recording(open_model(reader.name, task=task, seed=reader.seed, window_tokens=window_tokens))
    named = getattr(policy, "summarizer", None)
    summarizer = None if named is None else open_summarizer(named, agent=model, task=task, seed=reader.seed, window_tokens=None)
    outputs = MemoryOutputs()
    told = told_the_future(policy, task)
    room = SessionCompactor(policy=told, window=model.window, summarizer=summarizer, outputs=outputs)
    started = SessionStarted(
        session_id="law",
        task=task.prompt,
        model=model.name,
        policy_json="{}",
        window_tokens=window_tokens,
        threshold_tokens=room.budget.threshold_tokens,
        budget_rule=room.budget.rule,
        sandbox=opened.info.backend,
    )
    for path, text in task.workspace:
        opened.write(path, text.encode())
    agent = Agent(
        model=model,
        tools=tools_under(policy, opened, outputs),
        log=log,
        compactor=room,
        clock=time.monotonic,
        limits=Limits(max_steps=max_steps),
        inbox=Inbox(task.later),
    )
    outcome = agent.run(started, system_prompt(task.runtime))
    paths = [path for path, state in sorted(opened.snapshot().files.items()) if stat.S_ISREG(state.mode)]
    files = {path: opened.read(path).decode(errors="replace") for path in paths}
    judged = grade(task, opened)
    return Run(outcome, tuple(log.entries()), tuple(model.kept), judged, files)


def sandbox_for(task: Task, choice: SandboxChoice) -> ServedSandbox:
    """A sandbox for a task, not started yet; who asks for it closes it."""
    return open_sandbox(
        choice.backend,
        session_id=f"law-{secrets.token_hex(4)}",
        image=choice.image,
        runtime=task.runtime,
        limits=choice.limits,
        unsafe_local=choice.backend == "local",
    )


def retold(task: Task, values: Mapping[str, str | None]) -> Task:
    """The same task with some facts told differently in messages and workspace, None = not at all; the script is untouched.

    Only what the patterns of a fact read is changed: another value takes the place of the fact's own, which of a fact that is
    told several times is the last; None blanks all that was ever told of it.
    """
    patterns = {fact.name: fact.patterns for fact in task.facts}

    def tell(text: str) -> str:
        for name, value in values.items():
            for pattern in patterns[name]:
                text = re.sub(pattern, partial(_swapped, task.values[name], value), text, flags=re.MULTILINE)
        return text

    return replace(
        task,
        prompt=tell(task.prompt),
        workspace=tuple((path, tell(text)) for path, text in task.workspace),
        later=tuple(replace(message, text=tell(message.text)) for message in task.later),
    )


def _swapped(old: str, new: str | None, match: re.Match[str]) -> str:
    """What a pattern matched with another value in place of the old one; other values stay, unless all are to go."""
    if match[1] != old and new is not None:
        return match[0]
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    return match[0][:start] + (new or "") + match[0][end:]
