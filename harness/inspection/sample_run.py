"""A policy tried on the sample session, in the real agent loop: what it did, when, and to which messages.

The agent is a puppet that goes on with its next step whatever it sees, so all policies meet the same session. Its window is
full when the policy's own estimate says so.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from harness.agent.loop import Limits, Outcome
from harness.compaction.description import inspect_abilities, name_policy
from harness.compaction.presets.none import NoCompaction
from harness.errors import ContextOverflow
from harness.events import Compaction, Entry, Signal, TextDelta
from harness.inspection.sample_session import SAMPLE_PROMPT, SampleOracle, make_sample_step
from harness.messages import Message, ToolCall, ToolResult, assistant
from harness.models.factory import open_summarizer
from harness.protocols import Model, Policy, Reply, Request, ToolSpec, ignore
from harness.session.assembly import assemble_session
from harness.session.resources import AssembledSession, SessionResources
from harness.session.spec import SessionSpec
from harness.session.totals import SessionTotals
from harness.store.log import MemoryLog, MemoryOutputs
from harness.store.records import Activity
from harness.tokens import UNLIMITED_WINDOW, Budget, Counter, Measured, QuarterOfCharacters, Usage, Window
from harness.tools.function_tool import FunctionTool
from harness.tools.session_tools import choose_truncation
from harness.truncation import Truncation
from harness.view import View, fold

SYSTEM_PROMPT = "You are a coding agent. You work in a sandbox, with tools to run commands and to read and write files. " * 12
WINDOW_TOKENS = 200_000
"""In which the constants of most published policies are at home."""
DEFAULT_SUMMARIZER = "scripted/extractive"
LENGTH_IN_WINDOWS = 1.5
"""The session ends when all that was said fills the window so many times; without a policy it never gets there."""
TOOL_NAMES = ("execute_command", "read_file", "write_file")
DEFAULT_COUNTER = QuarterOfCharacters()


@dataclass(frozen=True, slots=True)
class CompactionAttempt:
    """An attempt at a compaction with the view before it and after it."""

    event: Compaction
    before: View
    after: View


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRun:
    """What a policy did to the sample session."""

    policy: Policy
    budget: Budget
    attempts: tuple[CompactionAttempt, ...]
    """Every attempt, fruitless ones too."""
    activity: Activity
    steps: int
    has_overflowed: bool
    """The window was full and the policy made no room."""
    was_stopped_early: bool = False
    """It had compacted as often as was wanted."""
    entries: tuple[Entry, ...] = ()
    """The whole log."""

    @property
    def applied_attempts(self) -> tuple[CompactionAttempt, ...]:
        """The attempts that changed the view."""
        return tuple(change for change in self.attempts if change.event.status == "applied")


def run_on_sample(
    policy: Policy, window_tokens: int = WINDOW_TOKENS, summarizer: Model | None = None, max_compactions: int | None = None
) -> SampleRun:
    """Try a policy on the sample session.

    Args:
        policy: one that must know the future is told that of the sample.
        window_tokens: of the puppet.
        summarizer: writes the summaries; None = `scripted/extractive`.
        max_compactions: break the session off once so many were applied; None = never.

    Raises:
        UsageError: the policy does not work in this window.
        IllegalPlan: it broke a guard.
    """
    recorder = _CompactionRecorder(policy.counter, SessionTotals())
    model = _SampleModel(window=Window(tokens=window_tokens, source="configuration"), counter=policy.counter)
    model.should_stop = lambda: recorder.totals.compactions == max_compactions
    session = _assemble_sample(policy, model, summarizer or open_sample_summarizer(DEFAULT_SUMMARIZER), recorder)
    outcome = _run_sample(session)
    return SampleRun(
        policy=policy,
        budget=session.agent.compactor.budget,
        attempts=tuple(recorder.attempts),
        activity=recorder.totals.classify_activity(inspect_abilities(policy)),
        steps=outcome.steps,
        has_overflowed=outcome.reason == "overflow",
        was_stopped_early=model.should_stop(),
        entries=tuple(session.agent.log.entries()),
    )


def build_sample_log(length_tokens: int = int(LENGTH_IN_WINDOWS * WINDOW_TOKENS)) -> tuple[Entry, ...]:
    """The log of the sample session where nothing is ever compacted, until so many tokens were said."""
    model = _SampleModel(window=UNLIMITED_WINDOW, counter=DEFAULT_COUNTER)
    model.should_stop = lambda: model.emitted_tokens >= length_tokens
    session = _assemble_sample(NoCompaction(), model)
    _run_sample(session)
    return tuple(session.agent.log.entries())


def _assemble_sample(
    policy: Policy,
    model: "_SampleModel",
    summarizer: Model | None = None,
    on_event: Callable[[Entry | Signal], None] = ignore,
) -> AssembledSession:
    spec = SessionSpec(request=SAMPLE_PROMPT, policy=policy, limits=Limits(max_steps=UNLIMITED_WINDOW.tokens))
    resources = SessionResources(
        session_id="sample",
        log=MemoryLog(),
        clock=lambda: 0.0,
        outputs=MemoryOutputs(),
        on_event=on_event,
        model=model,
        summarizer=summarizer,
        oracle=SampleOracle(),
        tools=[_SampleTool(name, choose_truncation(policy)) for name in TOOL_NAMES],
    )
    return assemble_session(spec, resources)


def _run_sample(session: AssembledSession) -> Outcome:
    return session.agent.run(session.make_start_event(name_policy(session.spec.policy)), SYSTEM_PROMPT)


def open_sample_summarizer(name: str) -> Model:
    """The scripted summarizer of a name, which reads whatever it is given.

    Raises:
        UnknownName: no such summarizer.
    """
    agent = _SampleModel(window=Window(tokens=WINDOW_TOKENS, source="configuration"), counter=DEFAULT_COUNTER)
    # the window of the summarizer limits no summary: a policy is shown as it is meant
    return open_summarizer(name, agent=agent, task=None, seed=0, window_tokens=UNLIMITED_WINDOW.tokens)


@dataclass(slots=True)
class _CompactionRecorder:
    """Listens to the session and keeps its views where a compaction stands between two."""

    counter: Counter
    totals: SessionTotals
    view: View = field(default_factory=View)
    attempts: list[CompactionAttempt] = field(default_factory=list)

    def __call__(self, item: Entry | Signal) -> None:
        self.totals(item)
        if not isinstance(item, Entry):
            return
        before, self.view = self.view, fold(self.view, item, self.counter)
        if isinstance(item.event, Compaction):
            self.attempts.append(CompactionAttempt(item.event, before, self.view))


@dataclass(slots=True)
class _SampleModel:
    """Goes through the sample, step after step, until it has said enough; refuses what does not fit its window."""

    window: Window
    counter: Counter
    name: str = "puppet"
    should_stop: Callable[[], bool] = lambda: False
    """Whether to end before all is said."""
    emitted_tokens: int = 0
    _steps: Iterator[int] = field(default_factory=lambda: iter(range(1, 10**9)))
    _counts_by_id: dict[int, tuple[Message, int]] = field(default_factory=dict)
    """By identity, with the message so that it stays the same; a session would else be counted anew at every step."""

    def reply(self, request: Request, on_delta: Callable[[TextDelta], None] = ignore) -> Reply:
        """See `harness.protocols.Model`."""
        prompt_tokens = self._count_tokens(request.messages)
        if prompt_tokens > self.window.tokens:
            raise ContextOverflow(self.name, prompt_tokens, self.window.tokens)
        step = make_sample_step(next(self._steps))
        is_over = self.emitted_tokens >= LENGTH_IN_WINDOWS * self.window.tokens or self.should_stop()
        answer = assistant("All done.") if is_over else step.answer
        self.emitted_tokens += self._count_tokens((answer,)) + len(step.output) // 4
        usage = Usage(input_tokens=Measured(prompt_tokens), output_tokens=Measured(self._count_tokens((answer,))))
        return Reply(message=answer, usage=usage, seconds=0.0)

    def _count_tokens(self, messages: Sequence[Message]) -> int:
        for message in messages:
            if id(message) not in self._counts_by_id:
                self._counts_by_id[id(message)] = message, self.counter.count(message)
        return sum(self._counts_by_id[id(message)][1] for message in messages)


@dataclass(frozen=True, slots=True)
class _SampleTool:
    """A tool whose results stand in the sample; they are cut as those of any tool."""

    name: str
    truncation: Truncation
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description="", parameters_json="{}")

    def run(self, call: ToolCall) -> ToolResult:
        """See `harness.protocols.Tool`."""
        step = make_sample_step(int(call.call_id.removeprefix("step-")))
        return FunctionTool(self.spec, lambda _: step.output, (), self.truncation, None, self.lock).run(call)
