"""A policy tried on the sample session, in the real agent loop: what it did, when, and to which messages.

The agent is a puppet that goes on with its next step whatever it sees, so all policies meet the same session. Its window is
full when the policy's own estimate says so.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from harness.agent.loop import Agent, Limits
from harness.compaction.compactor import SessionCompactor
from harness.compaction.description import inspect_abilities
from harness.compaction.presets.none import NoCompaction
from harness.errors import ContextOverflow
from harness.events import Compaction, Entry, SessionStarted, Signal, TextDelta
from harness.inspection.sample_session import PROMPT, SampleOracle, sample_step
from harness.messages import Message, ToolCall, ToolResult, assistant
from harness.models.factory import open_summarizer
from harness.protocols import Model, Policy, Reply, Request, ToolSpec, ignore_delta
from harness.session.totals import Tally
from harness.store.memory import MemoryLog, MemoryOutputs
from harness.store.records import Activity
from harness.tokens import Budget, Counter, Measured, QuarterOfCharacters, Usage, Window
from harness.tools.session_tools import choose_truncation
from harness.tools.standard import SandboxTool
from harness.truncation import Truncation
from harness.view import View, fold

SYSTEM = "You are a coding agent. You work in a sandbox, with tools to run commands and to read and write files. " * 12
WINDOW_TOKENS = 200_000
"""In which the constants of most published policies are at home."""
SUMMARIZER = "scripted/extractive"
ROOM_TOKENS = 10**9
"""Window of a scripted summarizer here: a policy is shown as it is meant, not as its summarizer lets it be."""
LENGTH = 1.5
"""The session ends when all that was said fills the window so many times; without a policy it never gets there."""
TOOLS = ("execute_command", "read_file", "write_file")
QUARTER = QuarterOfCharacters()


@dataclass(frozen=True, slots=True)
class Change:
    """An attempt at a compaction with the view before it and after it."""

    event: Compaction
    before: View
    after: View


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """What a policy did to the sample session."""

    policy: Policy
    budget: Budget
    changes: tuple[Change, ...]
    """Every attempt, fruitless ones too."""
    activity: Activity
    steps: int
    overflowed: bool
    """The window was full and the policy made no room."""
    broken_off: bool = False
    """It had compacted as often as was wanted."""
    entries: tuple[Entry, ...] = ()
    """The whole log."""

    @property
    def applied(self) -> tuple[Change, ...]:
        """The attempts that changed the view."""
        return tuple(change for change in self.changes if change.event.status == "applied")


def walk(
    policy: Policy, window_tokens: int = WINDOW_TOKENS, summarizer: Model | None = None, most_compactions: int | None = None
) -> Walk:
    """Try a policy on the sample session.

    Args:
        policy: one that must know the future is told that of the sample.
        window_tokens: of the puppet.
        summarizer: writes the summaries; None = `scripted/extractive`.
        most_compactions: break the session off once so many were applied; None = never.

    Raises:
        UsageError: the policy does not work in this window.
        IllegalPlan: it broke a guard.
    """
    inform = getattr(policy, "with_oracle", None)
    heard = _Changes(policy.counter, Tally())
    puppet = _Puppet(window=Window(tokens=window_tokens, source="configuration"), counter=policy.counter)
    puppet.enough = lambda: heard.tally.compactions == most_compactions
    informed = inform(SampleOracle()) if inform else policy
    compactor = SessionCompactor(
        policy=informed, window=puppet.window, summarizer=summarizer or writer(SUMMARIZER), outputs=MemoryOutputs()
    )
    tools = [_Told(name, choose_truncation(policy)) for name in TOOLS]
    log = MemoryLog()
    agent = Agent(
        model=puppet,
        tools=tools,
        log=log,
        compactor=compactor,
        clock=lambda: 0.0,
        limits=Limits(max_steps=window_tokens),
        listen=heard,
    )
    outcome = agent.run(_started(policy, compactor.budget), SYSTEM)
    return Walk(
        policy=policy,
        budget=compactor.budget,
        changes=tuple(heard.changes),
        activity=heard.tally.activity(inspect_abilities(policy)),
        steps=outcome.steps,
        overflowed=outcome.reason == "overflow",
        broken_off=puppet.enough(),
        entries=log.entries(),
    )


def sample_log(said_tokens: int = int(LENGTH * WINDOW_TOKENS)) -> tuple[Entry, ...]:
    """The log of the sample session where nothing is ever compacted, until so many tokens were said."""
    puppet = _Puppet(window=Window(tokens=ROOM_TOKENS, source="configuration"), counter=QUARTER)
    puppet.enough = lambda: puppet.said_tokens >= said_tokens
    compactor = SessionCompactor(policy=NoCompaction(), window=puppet.window, summarizer=None)
    log = MemoryLog()
    tools = [_Told(name, choose_truncation(compactor.policy)) for name in TOOLS]
    agent = Agent(
        model=puppet, tools=tools, log=log, compactor=compactor, clock=lambda: 0.0, limits=Limits(max_steps=ROOM_TOKENS)
    )
    agent.run(_started(compactor.policy, compactor.budget), SYSTEM)
    return log.entries()


def writer(name: str) -> Model:
    """The scripted summarizer of a name, which reads whatever it is given.

    Raises:
        UnknownName: no such summarizer.
    """
    agent = _Puppet(window=Window(tokens=WINDOW_TOKENS, source="configuration"), counter=QUARTER)
    return open_summarizer(name, agent=agent, task=None, seed=0, window_tokens=ROOM_TOKENS)


def _started(policy: Policy, budget: Budget) -> SessionStarted:
    return SessionStarted(
        session_id="sample",
        task=PROMPT,
        model="puppet",
        policy_json=str(getattr(policy, "kind", "")),
        window_tokens=budget.window_tokens,
        threshold_tokens=budget.threshold_tokens,
        budget_rule=budget.rule,
        sandbox="none",
    )


@dataclass(slots=True)
class _Changes:
    """Listens to the session and keeps its views where a compaction stands between two."""

    counter: Counter
    tally: Tally
    view: View = field(default_factory=View)
    changes: list[Change] = field(default_factory=list)

    def __call__(self, heard: Entry | Signal) -> None:
        self.tally(heard)
        if not isinstance(heard, Entry):
            return
        before, self.view = self.view, fold(self.view, heard, self.counter)
        if isinstance(heard.event, Compaction):
            self.changes.append(Change(heard.event, before, self.view))


@dataclass(slots=True)
class _Puppet:
    """Goes through the sample, step after step, until it has said enough; refuses what does not fit its window."""

    window: Window
    counter: Counter
    name: str = "puppet"
    enough: Callable[[], bool] = lambda: False
    """Whether to end before all is said."""
    said_tokens: int = 0
    _steps: Iterator[int] = field(default_factory=lambda: iter(range(1, 10**9)))
    _counted: dict[int, tuple[Message, int]] = field(default_factory=dict)
    """By identity, with the message so that it stays the same; a session would else be counted anew at every step."""

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore_delta) -> Reply:
        """See `harness.protocols.Model`."""
        prompt_tokens = self._tokens(request.messages)
        if prompt_tokens > self.window.tokens:
            raise ContextOverflow(self.name, prompt_tokens, self.window.tokens)
        step = sample_step(next(self._steps))
        ended = self.said_tokens >= LENGTH * self.window.tokens or self.enough()
        answer = assistant("All done.") if ended else step.answer
        self.said_tokens += self._tokens((answer,)) + len(step.output) // 4
        usage = Usage(input_tokens=Measured(prompt_tokens), output_tokens=Measured(self._tokens((answer,))))
        return Reply(message=answer, usage=usage, seconds=0.0)

    def _tokens(self, messages: Sequence[Message]) -> int:
        for message in messages:
            if id(message) not in self._counted:
                self._counted[id(message)] = message, self.counter.count(message)
        return sum(self._counted[id(message)][1] for message in messages)


@dataclass(frozen=True, slots=True)
class _Told:
    """A tool whose results stand in the sample; they are cut as those of any tool."""

    name: str
    limits: Truncation
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description="", parameters_json="{}")

    def run(self, call: ToolCall) -> ToolResult:
        """See `harness.protocols.Tool`."""
        step = sample_step(int(call.call_id.removeprefix("step-")))
        return SandboxTool(self.spec, lambda _: step.output, (), self.limits, None, self.lock).run(call)
