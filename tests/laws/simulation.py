"""One scripted session of any task under any policy, with everything that a law may want to look at."""

import re
import stat
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from harness.agent.inbox import Inbox
from harness.agent.loop import Agent, Limits, Outcome
from harness.agent.prompts import system_prompt
from harness.compaction.compactor import SessionCompactor
from harness.compaction.presets.keep_last import KeepLast
from harness.events import Compaction, Entry, MessageAdded, SessionStarted, StepFinished, TextDelta
from harness.experiment.attempt.grading import Judged, grade
from harness.messages import ToolCall
from harness.models.names import open_model, open_summarizer
from harness.protocols import Model, Policy, Reply, Request, unheard
from harness.sandboxes import open_sandbox
from harness.store.memory import MemoryLog
from harness.task import Task
from harness.tools import standard_tools
from harness.transcript import key_argument

E = TypeVar("E")

HUGE = 4_000_000
WINDOW = 32_768


@dataclass(frozen=True)
class Run:
    """What happened in a session, and what was left."""

    outcome: Outcome
    entries: tuple[Entry, ...]
    requests: tuple[tuple[Request, Reply], ...]
    judged: tuple[Judged, ...]
    files: dict[str, str]

    @cached_property
    def calls(self) -> list[tuple[str, str]]:
        """Every tool call in order."""
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
        return [event for event in self.events(Compaction) if event.status == "applied"]

    @property
    def steps(self) -> list[StepFinished]:
        return self.events(StepFinished)

    def events(self, kind: type[E]) -> list[E]:
        return [entry.event for entry in self.entries if isinstance(entry.event, kind)]

    @property
    def failed(self) -> set[str]:
        return {judged.check.name for judged in self.judged if not judged.passed}

    @property
    def score(self) -> float:
        return 1 - len(self.failed) / len(self.judged)


class Recording:
    """A model that keeps each request with its reply."""

    def __init__(self, model: Model) -> None:
        self.model, self.name, self.window = model, model.name, model.window
        self.kept: list[tuple[Request, Reply]] = []

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = unheard) -> Reply:
        reply = self.model.reply(request, listen)
        self.kept.append((request, reply))
        return reply


def simulate(task: Task, policy: Policy, *, window_tokens: int = WINDOW, seed: int = 1, max_steps: int = 300) -> Run:
    """Run a task to its end in a real sandbox and judge it."""
    log, kept = MemoryLog(), Recording(open_model("scripted", task=task, seed=seed, window_tokens=window_tokens))
    summarizer = None
    if isinstance(policy, KeepLast):
        summarizer = open_summarizer(policy.summarizer, agent=kept, task=task, seed=seed, window_tokens=None)
    room = SessionCompactor(policy=policy, window=kept.window, summarizer=summarizer)
    started = SessionStarted(
        session_id="law", task=task.prompt, model=kept.name, policy_json="{}", window_tokens=window_tokens,
        threshold_tokens=room.budget.threshold_tokens, budget_rule=room.budget.rule, sandbox="bubblewrap",
    )  # fmt: skip
    with closing(open_sandbox("bubblewrap", session_id="law")) as sandbox:
        sandbox.start()
        for path, text in task.workspace:
            sandbox.write(path, text.encode())
        agent = Agent(
            model=kept, tools=standard_tools(sandbox), log=log, compactor=room, clock=time.monotonic,
            limits=Limits(max_steps=max_steps), inbox=Inbox(task.later),
        )  # fmt: skip
        outcome = agent.run(started, system_prompt(task.runtime))
        paths = [path for path, state in sandbox.snapshot().files.items() if stat.S_ISREG(state.mode)]
        files = {path: sandbox.read(path).decode(errors="replace") for path in paths}
        judged = grade(task, sandbox)
    return Run(outcome, tuple(log.entries()), tuple(kept.kept), judged, files)


def retold(task: Task, name: str, value: str | None) -> Task:
    """The same task with one fact told differently in prompt and workspace, or not at all; script and patterns untouched."""
    old = task.values[name]
    patterns = next(fact.patterns for fact in task.facts if fact.name == name)

    def swap(match: re.Match[str]) -> str:
        return match[0].replace(old, value or "", 1) if match[1] == old else match[0]

    def tell(text: str) -> str:
        for pattern in patterns:
            text = re.sub(pattern, swap, text, flags=re.MULTILINE)
        return text

    workspace = tuple((path, tell(text)) for path, text in task.workspace)
    return replace(task, prompt=tell(task.prompt), workspace=workspace)
