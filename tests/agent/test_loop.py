"""The agent loop: order of events, limits, stop reasons and failures (S0.8, S1.1 to S1.3, S1.8, S3.9)."""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from harness.agent.cancellation import Cancellation
from harness.agent.conversation import Inbox
from harness.agent.loop import MAX_EMERGENCY_COMPACTIONS, Agent, Outcome, Session
from harness.agent.tool_execution import LoopDecision, LoopDetector, ToolTimeLimit, decide_always
from harness.compaction.cuts import LastMessages
from harness.compaction.presets.cline import ClineClassic
from harness.compaction.presets.inspect_ai import InspectEdit, InspectTrim
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.letta import Letta
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.roo_code import RooSliding
from harness.compaction.presets.window import MessageWindow
from harness.compaction.stages import Forget, Middle
from harness.compaction.triggers import measure_tokens
from harness.conversation.events import (
    CallTiming,
    Compaction,
    ContextUsage,
    Entry,
    Event,
    Hook,
    MessageAdded,
    ModelCallFailed,
    SessionEnded,
    SessionStarted,
    StepFinished,
    TextDelta,
    TransientEvent,
)
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, extract_part_text, user
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Measured, QuarterOfCharacters, Usage, Window
from harness.conversation.view import View, compute_tool_states, find_violation, fold_all
from harness.errors import ContextOverflow, ModelError, ProviderFailed, SandboxDied, SandboxKilled, UsageError
from harness.models.litellm_model import LitellmModel
from harness.models.retry import Retry
from harness.protocols import ExecResult, Model, Policy, Reply, Request, ignore
from harness.sandboxes import open_sandbox
from harness.session.compactor import SessionCompactor
from harness.session.totals import SessionTotals
from harness.store.log import MemoryLog
from harness.task import LaterMessage
from harness.testing.fakes import FakeModel, MemorySandbox
from harness.tools import make_standard_tools
from harness.tools.function_tool import FunctionTool
from tests.models.openai_stub import Refuse, Say, serving

ECHOED = ExecResult(exit_code=0, stdout=b"x" * 400, stderr=b"", stdout_bytes=400, stderr_bytes=0)
STARTED = SessionStarted(
    session_id="s1", task="Build it", model="puppet", policy_json="{}", window_tokens=128_000, threshold_tokens=None,
    budget_rule="", sandbox="memory",
)  # fmt: skip


def call(number: int, command: str = "true") -> ToolCall:
    return ToolCall(call_id=f"c{number}", name="execute_command", arguments_json=f'{{"command": "{command}"}}')


def make(model: Model, log: MemoryLog, policy: Policy | None = None, summarizer: Model | None = None, **rest: object) -> Agent:
    answer = rest.pop("answer", None)
    sandbox = MemorySandbox(answer) if answer else MemorySandbox()  # type: ignore[arg-type]
    room = SessionCompactor(policy=policy or NoCompaction(), window=model.window, summarizer=summarizer)
    return Agent(
        model=model, tools=make_standard_tools(sandbox), log=log, compactor=room, clock=time.time, **rest  # type: ignore[arg-type]
    )  # fmt: skip


def run(replies: list[Message | ModelError], **rest: object) -> tuple[Outcome, list[object]]:
    log = MemoryLog()
    outcome = make(FakeModel(replies), log, **rest).run(STARTED, "Be a coding agent.")  # type: ignore[arg-type]
    return outcome, [entry.event for entry in log.entries()]


@pytest.mark.parametrize("max_steps", [0, -1, 2.5, True, "9"])
def test_a_number_of_steps_that_no_session_can_take_is_refused(max_steps: Any) -> None:
    with pytest.raises(UsageError, match="max_steps: must be a whole number, at least 1"):
        make(FakeModel([]), MemoryLog(), max_steps=max_steps)


def test_a_text_only_reply_completes_the_session() -> None:
    outcome, events = run([assistant("", call(1)), assistant("all done")])
    assert (outcome.status, outcome.reason, outcome.steps) == ("completed", "replied", 2)
    assert isinstance(events[-1], SessionEnded)


def test_declaring_completion_ends_it_after_the_calls_of_that_reply_ran() -> None:
    outcome, events = run([assistant("the last one\nTASK COMPLETE", call(1))])
    assert outcome.reason == "declared"
    assert sum(isinstance(event, MessageAdded) and event.message.role == "tool" for event in events) == 1


def test_system_and_user_message_are_logged_before_the_first_call() -> None:
    """S0.8."""
    log = MemoryLog()

    class Watching(FakeModel):
        def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
            self.logged = [entry.event.kind for entry in log.entries()]
            return super().reply(request, listen)

    model = Watching([assistant("done")])
    make(model, log).run(STARTED, "Be a coding agent.")
    assert model.logged == ["session-started", "message-added", "message-added"]


def test_the_context_of_one_session_is_a_part_of_its_own_behind_the_shared_prompt() -> None:
    log = MemoryLog()
    make(FakeModel([assistant("done")]), log).run(STARTED, "Be a coding agent.", "Use tabs.")
    added = [entry.event.message for entry in log.entries() if isinstance(entry.event, MessageAdded)]
    [prompt] = [message for message in added if message.role == "system"]
    assert [extract_part_text(part) for part in prompt.parts] == ["Be a coding agent.", "Use tabs."]


@pytest.mark.parametrize("parallel", [False, True])
def test_results_follow_their_message_in_call_order(parallel: bool) -> None:
    """S1.1, S1.3."""

    def slow_first(command: str) -> ExecResult:
        time.sleep(0.05 if command == "first" else 0.0)
        return ExecResult(exit_code=0, stdout=command.encode(), stderr=b"", stdout_bytes=len(command), stderr_bytes=0)

    calls = [call(1, "first"), call(2, "second"), call(3, "third")]
    _, events = run([assistant("", *calls), assistant("ok")], answer=slow_first, parallel_tools=parallel)
    step = [event.message for event in events if isinstance(event, MessageAdded) and event.step == 1]
    assert [message.role for message in step] == ["assistant", "tool", "tool", "tool"]
    assert [message.results[0].output for message in step[1:]] == [
        f"exit code 0\n{name}" for name in ("first", "second", "third")
    ]


@dataclass
class Calling:
    """Tool that calls a function with each call."""

    function: Callable[[ToolCall], object]
    spec = make_standard_tools(MemorySandbox())[0].spec

    def run(self, call: ToolCall) -> ToolResult:
        self.function(call)
        return ToolResult(call_id=call.call_id, name=call.name, output="done")


def test_parallel_tools_that_share_no_sandbox_overlap() -> None:
    """S1.3."""
    barrier = threading.Barrier(2, timeout=60)

    agent = make(FakeModel([assistant("", call(1), call(2)), assistant("ok")]), MemoryLog(), parallel_tools=True)
    agent.tools = [Calling(lambda _: barrier.wait())]
    assert agent.run(STARTED, "s").status == "completed"


@pytest.mark.bubblewrap
def test_parallel_tools_overlap_in_one_sandbox_and_the_workspace_is_saved_once() -> None:
    """S1.3: each of three commands waits for the other two; the results are logged in call order."""
    commands = [
        "touch a; until [ -e b -a -e c ]; do sleep 0.01; done; echo first",
        "touch b; until [ -e a -a -e c ]; do sleep 0.01; done; echo second",
        "touch c; until [ -e a -a -e b ]; do sleep 0.01; done; echo third",
    ]
    saved: list[set[str]] = []
    with open_sandbox("bubblewrap", session_id="parallel") as sandbox:

        def save_workspace(step: int) -> list[Event]:
            saved.append(set(sandbox.snapshot().files))
            return []

        calls = [call(number, command) for number, command in enumerate(commands)]
        log = MemoryLog()
        agent = make(FakeModel([assistant("", *calls), assistant("ok")]), log, parallel_tools=True)
        agent.tools = make_standard_tools(sandbox, timeout_seconds=300)
        agent.save_workspace, agent.allow_parallel_calls = save_workspace, sandbox.allow_parallel_calls
        agent.run(STARTED, "s")
    messages = [entry.event.message for entry in log.entries() if isinstance(entry.event, MessageAdded)]
    outputs = [message.results[0].output for message in messages if message.role == "tool"]
    assert outputs == ["exit code 0\nfirst", "exit code 0\nsecond", "exit code 0\nthird"]
    assert saved == [set(), {"a", "b", "c"}]  # before the first step and after it


def test_text_that_cannot_be_encoded_is_mended_where_it_enters_the_log() -> None:
    path = ToolCall(call_id="x", name="write_file", arguments_json='{"path": "a\\udc80.txt", "content": "b"}')
    outcome, events = run([assistant("half a sign: \udc80", path), assistant("fine")])
    assert outcome.status == "completed"
    texts = [event.message.text for event in events if isinstance(event, MessageAdded)]
    assert "half a sign: ?" in texts


def test_an_answer_that_the_output_limit_cut_off_does_not_complete_a_session() -> None:
    class Cut(FakeModel):
        def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
            return replace(super().reply(request, listen), cut_short=True)

    outcome = make(Cut([assistant("and so I")]), MemoryLog()).run(STARTED, "s")
    assert (outcome.status, outcome.reason) == ("failed", "cut_short")


def test_an_answer_that_was_refused_does_not_complete_a_session() -> None:
    class Refusing(FakeModel):
        def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
            return replace(super().reply(request, listen), refused=True)

    log = MemoryLog()
    outcome = make(Refusing([assistant("I was going to")]), log).run(STARTED, "s")
    assert (outcome.status, outcome.reason) == ("failed", "refused")
    assert "content filter" in outcome.detail
    assert [entry.event.finish_reason for entry in log.entries() if isinstance(entry.event, StepFinished)] == ["content-filter"]


def test_the_step_limit_is_fifty_by_default() -> None:
    """S0.8."""
    outcome, events = run([assistant("", call(number)) for number in range(99)])
    assert (outcome.status, outcome.reason, outcome.steps) == ("failed", "max_steps", 50)
    assert sum(isinstance(event, StepFinished) for event in events) == 50


@pytest.mark.parametrize(
    ("bad", "explanation"),
    [
        (ToolCall(call_id="x", name="execute_command", arguments_json="{broken"), "not valid JSON"),
        (ToolCall(call_id="x", name="execute_command", arguments_json='{"cmd": "ls"}'), "command"),
        (ToolCall(call_id="x", name="execute_command", arguments_json='["ls"]'), "command"),
        (ToolCall(call_id="x", name="execute_command", arguments_json="[" * 200_000), "not valid JSON"),
        (ToolCall(call_id="x", name="fly", arguments_json="{}"), "no tool 'fly'"),
        (ToolCall(call_id="x", name="read_file", arguments_json='{"path": "/etc/passwd"}'), "outside"),
        (ToolCall(call_id="x", name="read_file", arguments_json='{"path": "none.py"}'), "no such file"),
    ],
)
def test_an_invalid_tool_call_gets_a_result_that_explains_the_error(bad: ToolCall, explanation: str) -> None:
    outcome, events = run([assistant("", bad), assistant("sorry")])
    assert outcome.status == "completed"
    result = next(event.message.results[0] for event in events if isinstance(event, MessageAdded) and event.message.results)
    assert result.status == "error"
    assert explanation in result.output


def test_a_provider_error_fails_the_session_with_its_words() -> None:
    outcome, events = run([ProviderFailed("puppet", 500, "down")])
    assert (outcome.status, outcome.reason) == ("failed", "model_error")
    assert "down" in outcome.detail
    assert isinstance(events[-1], SessionEnded)


@pytest.mark.parametrize(("cost_usd", "total_usd"), [(0.25, 0.25), (None, None), (0.0, 0.0)])
def test_a_failed_call_that_cost_money_is_in_the_log_and_in_the_total(cost_usd: float | None, total_usd: float | None) -> None:
    error, totals = ProviderFailed("puppet", 500, "down"), SessionTotals()
    error.cost_usd = cost_usd
    outcome, events = run([error], listen=totals)
    assert outcome.reason == "model_error"
    failed_calls = [event for event in events if isinstance(event, ModelCallFailed)]
    assert [(event.step, event.cost_usd) for event in failed_calls] == ([] if cost_usd == 0 else [(1, cost_usd)])
    assert totals.cost_usd == totals.total_cost_usd == total_usd


def test_without_compaction_an_overflow_ends_the_session() -> None:
    totals = SessionTotals()
    outcome, _ = run([ContextOverflow("puppet", 9, 8)], listen=totals)
    assert (outcome.status, outcome.reason) == ("failed", "overflow")
    assert totals.overflows == 1


TOO_LONG = ContextOverflow("puppet", 9, 8)


@pytest.mark.parametrize(
    ("policy", "overflows", "reason", "compactions"),
    [
        (RooSliding(), 1, "replied", 1),
        (RooSliding(), MAX_EMERGENCY_COMPACTIONS, "replied", MAX_EMERGENCY_COMPACTIONS),
        (RooSliding(), MAX_EMERGENCY_COMPACTIONS + 1, "overflow", MAX_EMERGENCY_COMPACTIONS),
        (InspectEdit(), 1, "replied", 1),
        (InspectEdit(), 2, "overflow", 1),
    ],
)
def test_after_an_overflow_a_policy_compacts_as_often_as_it_shortens_the_view_within_a_limit(
    policy: Policy, overflows: int, reason: str, compactions: int
) -> None:
    steps = [assistant(f"step {number}", call(number, f"echo {'x' * 400}")) for number in range(1, 25)]
    totals = SessionTotals()
    outcome, events = run(
        [*steps, *[TOO_LONG] * overflows, assistant("done")], policy=policy, answer=lambda command: ECHOED, listen=totals
    )
    assert (outcome.reason, totals.overflows) == (reason, overflows)
    applied = [event for event in events if isinstance(event, Compaction) and event.status == "applied"]
    assert [(event.moment, event.step) for event in applied] == [("overflow", 25)] * compactions
    assert all(event.tokens_after < event.tokens_before for event in applied)


@pytest.mark.parametrize(("error", "reason"), [(SandboxDied, "sandbox_error"), (SandboxKilled, "sandbox_killed")])
def test_a_lost_sandbox_fails_the_session_and_leaves_a_legal_log(error: type[SandboxDied], reason: str) -> None:
    def die(_: str) -> ExecResult:
        raise error("gone")

    outcome, events = run([assistant("", call(1), call(2))], answer=die)
    assert (outcome.status, outcome.reason) == ("failed", reason)
    results = [event.message.results[0] for event in events if isinstance(event, MessageAdded) and event.message.results]
    assert [result.status for result in results] == ["interrupted", "interrupted"]


def test_tools_that_use_up_their_time_end_the_session_and_no_further_call_starts() -> None:
    now, commands = [0.0], list[str]()
    limit = ToolTimeLimit(100.0, clock=lambda: now[0])

    def sleep(command: str) -> ExecResult:
        now[0] += 60
        commands.append(command)
        return ExecResult(exit_code=0, stdout=b"", stderr=b"", stdout_bytes=0, stderr_bytes=0)

    log = MemoryLog()
    agent = make(FakeModel([assistant("", call(1, "a"), call(2, "b"), call(3, "c")), assistant("done")]), log, answer=sleep)
    agent.tools = [replace(tool, measure=limit.measure) for tool in agent.tools if isinstance(tool, FunctionTool)]
    agent.tool_time_limit = limit
    outcome = agent.run(STARTED, "s")
    assert (outcome.status, outcome.reason, outcome.steps) == ("failed", "timeout", 1)
    assert outcome.detail == "the tools took longer than 100 s altogether"
    assert commands == ["a", "b"]
    messages = [entry.event.message for entry in log.entries() if isinstance(entry.event, MessageAdded)]
    results = [message.results[0] for message in messages if message.results]
    assert [result.status for result in results] == ["completed", "completed", "interrupted"]


def test_later_user_messages_come_before_the_step_at_which_they_are_due() -> None:
    inbox = Inbox([LaterMessage(step=2, text="make it blue")])
    log = MemoryLog()
    model = FakeModel([assistant("", call(1)), assistant("", call(2)), assistant("blue")])
    make(model, log, inbox=inbox).run(STARTED, "s")
    assert [request.messages[-1].text for request in model.requests][1] == "make it blue"


def test_without_a_compaction_each_request_extends_the_one_before() -> None:
    model = FakeModel([*(assistant("", call(number)) for number in range(9)), assistant("ok")])
    log = MemoryLog()
    make(model, log).run(STARTED, "s")
    for before, after in itertools.pairwise(model.requests):
        assert after.messages[: len(before.messages)] == before.messages
    steps = [entry.event for entry in log.entries() if isinstance(entry.event, StepFinished)]
    lengths = [len(request.messages) for request in model.requests]
    assert [step.kept_prefix_messages for step in steps] == [0, *lengths[:-1]]
    assert len({step.request_digest for step in steps}) == len(steps)


def test_a_compaction_is_logged_before_its_step_and_breaks_the_prefix_at_the_summary() -> None:
    """S1.8: between two steps."""
    replies = [*(assistant("x" * 4_000, call(number)) for number in range(40)), assistant("ok")]
    model, log = FakeModel(replies, window_tokens=32_768), MemoryLog()
    agent = make(model, log, KeepLast(), FakeModel([assistant("sum")] * 9))
    assert agent.run(STARTED, "s").status == "completed"
    events = [entry.event for entry in log.entries()]
    rounds = [event for event in events if isinstance(event, Compaction)]
    assert [event.round for event in rounds] == list(range(1, len(rounds) + 1))
    assert len(rounds) >= 2
    for event in rounds:
        step = next(e for e in events if isinstance(e, StepFinished) and e.step == event.step)
        assert step.kept_prefix_messages == (1 if event.round == 1 else 2), "system, and from round 2 the synthetic turn"
        assert step.view_tokens == event.tokens_after
    summary = model.requests[rounds[0].step - 1].messages
    assert [message.role for message in summary[:3]] == ["system", "user", "assistant"]
    assert fold_all(log.entries()).rounds == len(rounds)


def test_the_states_of_a_call_are_pending_running_completed_and_compacted() -> None:
    """S3.7."""
    replies = [*(assistant("x" * 4_000, call(number)) for number in range(40)), assistant("ok")]
    log = MemoryLog()
    make(FakeModel(replies, window_tokens=32_768), log, KeepLast(), FakeModel([assistant("s")] * 9)).run(STARTED, "s")
    entries = list(log.entries())
    asked = next(at for at, entry in enumerate(entries) if isinstance(entry.event, MessageAdded) and entry.event.message.calls)
    assert compute_tool_states(entries[: asked + 1]) == {"c0": "pending"}
    assert compute_tool_states(entries[: asked + 2]) == {"c0": "running"}
    assert compute_tool_states(entries[: asked + 3]) == {"c0": "completed"}
    final = compute_tool_states(entries)
    assert (final["c0"], final["c39"]) == ("compacted", "completed")


def test_the_start_of_a_call_is_in_the_log_when_its_tool_runs_and_not_before() -> None:
    """S3.7."""
    log, seen = MemoryLog(), list[dict[str, str]]()
    agent = make(FakeModel([assistant("", call(1), call(2)), assistant("ok")]), log)
    agent.tools = [Calling(lambda _: seen.append(dict(compute_tool_states(log.entries()))))]
    agent.run(STARTED, "s")
    assert seen == [{"c1": "running", "c2": "pending"}, {"c1": "running", "c2": "running"}]


def test_calls_that_run_at_the_same_time_are_each_logged_as_running() -> None:
    """S3.7."""
    log, barrier = MemoryLog(), threading.Barrier(6, timeout=60)
    calls = [call(number) for number in range(6)]

    def meet(_: ToolCall) -> None:
        barrier.wait()
        assert compute_tool_states(log.entries()) == {call.call_id: "running" for call in calls}
        barrier.wait()

    agent = make(FakeModel([assistant("", *calls), assistant("ok")]), log, parallel_tools=True)
    agent.tools = [Calling(meet)]
    assert agent.run(STARTED, "s").reason == "replied"
    assert [entry.seq for entry in log.entries()] == list(range(1, len(log.entries()) + 1))


def test_an_agent_that_logs_steps_at_once_logs_no_start_and_each_step_in_one_transaction() -> None:
    """S3.7. Such a session can be run again, so it pays for no transaction that a crash makes useful."""
    appended = list[list[str]]()

    class Counted(MemoryLog):
        def append(self, events: Sequence[Event]) -> tuple[Entry, ...]:
            appended.append([event.kind for event in events])
            return super().append(events)

    agent = make(FakeModel([assistant("", call(1), call(2)), assistant("ok")]), Counted())
    agent.logs_steps_at_once = True
    agent.run(STARTED, "s")
    assert appended[1] == [*["message-added"] * 3, "step-finished"]
    assert "call-started" not in {kind for kinds in appended for kind in kinds}


class Times:
    """Time of day and time of a stopwatch, which pass only when a tool says so."""

    def __init__(self) -> None:
        self.day, self.watch = 1_000.0, 50.0

    def spend(self, seconds: float) -> None:
        self.day += seconds
        self.watch += seconds


def timed(times: Times, log: MemoryLog, calls: Sequence[ToolCall], act: Callable[[ToolCall], object], **rest: object) -> Agent:
    agent = make(FakeModel([assistant("", *calls), assistant("ok")]), log, **rest)  # type: ignore[arg-type]
    agent.clock, agent.stopwatch, agent.tools = lambda: times.day, lambda: times.watch, [Calling(act)]
    return agent


def list_timings(log: MemoryLog) -> list[CallTiming | None]:
    events = [entry.event for entry in log.entries()]
    return [event.timing for event in events if isinstance(event, MessageAdded) and event.message.role == "tool"]


@pytest.mark.parametrize("at_once", [False, True])
def test_calls_one_after_the_other_have_the_times_at_which_they_ran(at_once: bool) -> None:
    """S3.6. Also in a trial, which logs a step in one transaction."""
    times, log = Times(), MemoryLog()
    calls = [call(1), call(2)]
    agent = timed(times, log, calls, lambda one: times.spend(1.0 if one == calls[0] else 2.0))
    agent.logs_steps_at_once = at_once
    agent.run(STARTED, "s")
    assert list_timings(log) == [
        CallTiming(started_at_ms=1_000_000, seconds=1.0),
        CallTiming(started_at_ms=1_001_000, seconds=2.0),
    ]
    assert [entry.event.tool_seconds for entry in log.entries() if isinstance(entry.event, StepFinished)] == [3.0, 0.0]
    others = [entry.event for entry in log.entries() if isinstance(entry.event, MessageAdded) and not entry.event.message.results]
    assert {event.timing for event in others} == {None}


def test_calls_at_the_same_time_end_when_each_of_them_ended() -> None:
    """S1.3, S3.6."""
    times, log, barrier = Times(), MemoryLog(), threading.Barrier(6, timeout=60)
    calls = [call(number) for number in range(6)]
    turns = [threading.Event() for _ in range(7)]

    def act(one: ToolCall) -> None:
        barrier.wait()
        turns[0].set()
        assert turns[calls.index(one)].wait(60)
        times.spend(0.125)

    agent = timed(times, log, calls, act, parallel_tools=True)
    agent.save_result = lambda _step, result, _timing: turns[int(result.call_id[1:]) + 1].set()
    agent.run(STARTED, "s")
    assert list_timings(log) == [CallTiming(started_at_ms=1_000_000, seconds=0.125 * number) for number in range(1, 7)]
    assert [entry.event.tool_seconds for entry in log.entries() if isinstance(entry.event, StepFinished)] == [0.75, 0.0]


def test_a_clock_that_is_set_back_does_not_change_the_duration_of_a_call() -> None:
    times, log = Times(), MemoryLog()

    def act(_: ToolCall) -> None:
        times.watch += 2.0
        times.day -= 900.0

    timed(times, log, [call(1)], act).run(STARTED, "s")
    assert list_timings(log) == [CallTiming(started_at_ms=1_000_000, seconds=2.0)]
    assert [entry.event.tool_seconds for entry in log.entries() if isinstance(entry.event, StepFinished)] == [2.0, 0.0]


def test_a_call_that_the_sandbox_ended_has_a_time_and_a_call_that_never_started_has_none() -> None:
    times, log = Times(), MemoryLog()
    calls = [call(1), call(2), call(3)]

    def act(one: ToolCall) -> None:
        times.spend(1.0)
        if one == calls[1]:
            raise SandboxDied("gone")

    timed(times, log, calls, act).run(STARTED, "s")
    first, second = (CallTiming(started_at_ms=at_ms, seconds=1.0) for at_ms in (1_000_000, 1_001_000))
    assert list_timings(log) == [first, second, None]


def test_the_wait_for_a_decision_about_a_repeated_call_is_no_time_of_tools() -> None:
    times, log = Times(), MemoryLog()

    def decide(_call: ToolCall, _times: int) -> LoopDecision:
        times.spend(30.0)
        return "continue"

    agent = timed(times, log, [call(1), call(1), call(1)], lambda _: times.spend(1.0), loop_detector=LoopDetector(decide))
    agent.run(STARTED, "s")
    assert [entry.event.tool_seconds for entry in log.entries() if isinstance(entry.event, StepFinished)] == [3.0, 0.0]


@dataclass
class Hits:
    hits: int = 0
    hit_seconds: float = 0.0


def test_a_call_that_a_cache_answered_has_the_duration_of_the_original_run_and_a_mark() -> None:
    times, log, cache = Times(), MemoryLog(), Hits()

    def act(one: ToolCall) -> None:
        times.spend(0.25)
        if one.call_id != "c1":
            cache.hits += 1
            cache.hit_seconds += 4.0

    timed(times, log, [call(1), call(2)], act, cache_hits=cache).run(STARTED, "s")
    ran, cached = list_timings(log)
    assert ran == CallTiming(started_at_ms=1_000_000, seconds=0.25)
    assert cached == CallTiming(started_at_ms=1_000_250, seconds=4.25, cached_seconds=4.0)
    assert cached.ended_at_ms == 1_004_500


@pytest.mark.parametrize(("calls", "cut", "reason"), [((), False, "stop"), ((1,), False, "tool-calls"), ((1,), True, "length")])
def test_a_step_records_why_the_answer_ended(calls: tuple[int, ...], cut: bool, reason: str) -> None:
    """S3.6."""

    class Cutting(FakeModel):
        def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
            return replace(super().reply(request, listen), cut_short=cut)

    log = MemoryLog()
    make(Cutting([assistant("so", *map(call, calls)), assistant("ok")]), log).run(STARTED, "s")
    steps = [entry.event for entry in log.entries() if isinstance(entry.event, StepFinished)]
    assert steps[0].finish_reason == reason


def test_a_loop_of_equal_calls_ends_the_session_before_the_third_runs_if_a_policy_decides_so() -> None:
    outcome, events = run([assistant("", call(1)) for _ in range(9)], loop_detector=LoopDetector(decide_always("stop")))
    assert (outcome.status, outcome.reason, outcome.steps) == ("failed", "doom_loop", 3)
    assert "execute_command" in outcome.detail
    statuses = [event.message.results[0].status for event in events if isinstance(event, MessageAdded) and event.message.results]
    assert statuses == ["completed", "completed", "interrupted"]
    outcome, _ = run([*(assistant("", call(1)) for _ in range(9)), assistant("ok")])
    assert (outcome.reason, outcome.steps) == ("replied", 10), "nobody is asked by default"


class Stalling:
    """A model that answers only when the test allows it."""

    name, window = "stalling", Window(tokens=32_768, source="configuration")

    def __init__(self) -> None:
        self.asked, self.let_go = threading.Event(), threading.Event()

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        listen(TextDelta(text="I was about to"))
        self.asked.set()
        self.let_go.wait(600)
        usage = Usage(input_tokens=Measured(1), output_tokens=Measured(1))
        return Reply(message=assistant("too late"), usage=usage, seconds=0.0)


@pytest.mark.parametrize("where", ["model", "summarizer"])
def test_cancelling_does_not_wait_for_a_model_that_stalls_and_keeps_the_partial_text(where: str) -> None:
    stalling, cancellation, log = Stalling(), Cancellation(), MemoryLog()
    replies = [assistant("x" * 80_000, call(number)) for number in range(9)]
    model: Model = stalling if where == "model" else FakeModel(replies, window_tokens=32_768)
    agent = make(model, log, KeepLast(keep_last=1), stalling, cancellation=cancellation)
    done: list[Outcome] = []
    thread = threading.Thread(target=lambda: done.append(agent.run(STARTED, "s")))
    thread.start()
    assert stalling.asked.wait(60)
    cancellation.request()
    thread.join(60)
    ended_meanwhile = not thread.is_alive()
    stalling.let_go.set()
    assert ended_meanwhile
    assert done[0].reason == "cancelled"
    texts = [entry.event.message.text for entry in log.entries() if isinstance(entry.event, MessageAdded)]
    assert ("I was about to" in texts) == (where == "model")
    assert isinstance(list(log.entries())[-1].event, SessionEnded)


class Stuttering(Stalling):
    """A model whose reply breaks off and is requested again before it stalls."""

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        listen(TextDelta(text="I was ab"))
        listen(TextDelta(text="", anew=True))
        return super().reply(request, listen)


def test_the_partial_text_of_a_retried_answer_is_not_doubled() -> None:
    stuttering, cancellation, log = Stuttering(), Cancellation(), MemoryLog()
    agent = make(stuttering, log, cancellation=cancellation)
    thread = threading.Thread(target=lambda: agent.run(STARTED, "s"))
    thread.start()
    assert stuttering.asked.wait(60)
    cancellation.request()
    thread.join(60)
    stuttering.let_go.set()
    messages = [entry.event.message for entry in log.entries() if isinstance(entry.event, MessageAdded)]
    assert [message.text for message in messages if message.role == "assistant"] == ["I was about to"]


class Breaking(FakeModel):
    """A model that streams some pieces before each of its prepared errors."""

    def __init__(self, replies: list[Message | ModelError], *pieces: TextDelta) -> None:
        super().__init__(replies)
        self.pieces = pieces

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        try:
            return super().reply(request, ignore)
        except ModelError:
            for piece in self.pieces:
                listen(piece)
            raise


ANEW = TextDelta(text="", anew=True)
REFUSED = ProviderFailed("puppet", 500, "the connection broke")


@pytest.mark.parametrize("cancellable", [False, True])
@pytest.mark.parametrize(
    ("pieces", "kept"),
    [
        ([TextDelta(text="I was "), TextDelta(text="about to")], assistant("I was about to")),
        ([TextDelta(text="hm", part="reasoning")], assistant("", reasoning="hm")),
        ([TextDelta(text="First try"), ANEW, TextDelta(text="Second")], assistant("Second")),
        ([TextDelta(text="First try"), ANEW], assistant("First try")),
        ([ANEW], None),
        ([], None),
    ],
)
def test_a_failed_model_call_keeps_what_the_model_had_written(
    pieces: list[TextDelta], kept: Message | None, cancellable: bool
) -> None:
    """S3.8. In a trial, which cannot be cancelled, too; a failed call without any text leaves no message."""
    log = MemoryLog()
    agent = make(Breaking([assistant("", call(1)), REFUSED], *pieces), log, cancellation=Cancellation() if cancellable else None)
    outcome = agent.run(STARTED, "s")
    assert (outcome.status, outcome.reason) == ("failed", "model_error")
    events = [entry.event for entry in log.entries()]
    answers = [event for event in events if isinstance(event, MessageAdded) and event.message.role == "assistant"]
    assert [(event.message, event.step) for event in answers[1:]] == ([(kept, 2)] if kept else [])
    assert isinstance(events[-1], SessionEnded)


def test_a_session_goes_on_after_an_answer_that_broke_off() -> None:
    log = MemoryLog()
    model = Breaking([assistant("", call(1)), REFUSED, assistant("done")], TextDelta(text="I was about to"))
    session = Session(make(model, log))
    session.begin(STARTED, "Be a coding agent.")
    assert session.run_turn().reason == "model_error"
    assert session.usage is None
    continued = Session(make(model, log))
    assert continued.run_turn(MessageAdded(message=user("Go on."), step=2)).reason == "replied"
    assert [message.role for message in model.requests[-1].messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert find_violation(fold_all(log.entries()).messages) is None


def test_an_overflow_in_the_middle_of_an_answer_keeps_it_only_if_no_compaction_helps() -> None:
    overflow = ContextOverflow("puppet", 9, 8)
    pieces = [TextDelta(text="I was about to")]
    outcome, events = run_model(Breaking([overflow], *pieces))
    assert outcome.reason == "overflow"
    assert list_answers(events) == ["I was about to"]
    heard: list[object] = []
    steps = [assistant(f"step {number}", call(number, f"echo {'x' * 400}")) for number in range(1, 25)]
    replies: list[Message | ModelError] = [*steps, overflow, assistant("done")]
    outcome, events = run_model(Breaking(replies, *pieces), policy=RooSliding(), answer=lambda _: ECHOED, listen=heard.append)
    assert outcome.reason == "replied"
    assert list_answers(events)[-2:] == ["step 24", "done"]
    deltas = [one for one in heard if isinstance(one, TextDelta)]
    assert deltas == [*pieces, ANEW], "what was displayed is discarded"


def run_model(model: Model, **rest: object) -> tuple[Outcome, list[object]]:
    log = MemoryLog()
    outcome = make(model, log, **rest).run(STARTED, "Be a coding agent.")  # type: ignore[arg-type]
    return outcome, [entry.event for entry in log.entries()]


def list_answers(events: Sequence[object]) -> list[str]:
    messages = [event.message for event in events if isinstance(event, MessageAdded)]
    return [message.text for message in messages if message.role == "assistant"]


def test_an_answer_that_an_error_of_the_program_ended_is_kept() -> None:
    class Broken(FakeModel):
        def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
            listen(TextDelta(text="I was about to"))
            raise RuntimeError("a bug")

    log = MemoryLog()
    with pytest.raises(RuntimeError):
        make(Broken([]), log).run(STARTED, "s")
    assert list_answers([entry.event for entry in log.entries()]) == ["I was about to"]


@pytest.mark.slow  # litellm takes seconds to import
@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        ([Say(pieces=("I was ", "about ", "to"), reset_after=3)] * 4, "I was about "),
        ([Say(pieces=("First ", "try"), reset_after=3), *[Say(pieces=("Second ", "try"), reset_after=2)] * 3], "Second "),
        ([Say(pieces=("First ", "try"), reset_after=3), *[Refuse(status=500, error={"message": "down"})] * 3], "First try"),
        ([Say(pieces=("It ", "ends"), end_after=3)] * 4, "It ends"),
        ([Say(pieces=("I run it.",), calls=(("c1", "execute_command", '{"command": "ls"}'),), reset_after=3)] * 4, "I run it."),
    ],
)
def test_an_answer_over_a_real_socket_that_breaks_off_is_kept_without_its_calls(answers: list[Say | Refuse], kept: str) -> None:
    """S3.8, S3.12."""
    retry = Retry(sleep=lambda _: None, draw=lambda: 0.0)
    with serving(*answers) as stub:
        model = LitellmModel(
            name="hosted_vllm/stub", api_base=stub.base, api_key="none", window_tokens=32_768, retry=retry, timeout_seconds=60.0
        )
        outcome, events = run_model(model)
    assert outcome.reason == "model_error"
    [answer] = [event.message for event in events if isinstance(event, MessageAdded) and event.message.role == "assistant"]
    assert answer == assistant(kept)


def test_every_logged_entry_is_heard_in_order() -> None:
    heard: list[object] = []
    log = MemoryLog()
    make(FakeModel([assistant("", call(1)), assistant("ok")]), log, listen=heard.append).run(STARTED, "s")
    assert [entry for entry in heard if isinstance(entry, Entry)] == list(log.entries())


def test_a_policy_is_asked_before_a_turn_while_the_view_is_still_without_its_message() -> None:
    log, asked = MemoryLog(), list[tuple[str, int, int]]()
    agent = make(FakeModel([assistant("", call(1)), assistant("", call(2)), assistant("done")]), log)
    inner = agent.compactor

    class Watched:
        policy, budget, overflow_advice = inner.policy, inner.budget, inner.overflow_advice

        def compact(self, view: View, usage: Usage | None, step: int, moment: Hook, signal: object) -> None:
            asked.append((moment, step, len(view.items)))

    agent.compactor, agent.inbox = Watched(), Inbox((LaterMessage(step=3, text="and now this"),))
    assert agent.run(STARTED, "Be a coding agent.").status == "completed"
    assert asked == [("step", 1, 2), ("step", 2, 4), ("turn", 3, 6), ("step", 3, 7)]


def test_a_usage_report_is_forgotten_once_the_view_is_another() -> None:
    log, reports = MemoryLog(), list[tuple[str, bool]]()
    later = tuple(LaterMessage(step=step, text="more") for step in (2, 3))
    agent = make(FakeModel([assistant("", call(1)), assistant("", call(2)), assistant("done")]), log, inbox=Inbox(later))
    inner = agent.compactor

    class Masking:
        policy, budget, overflow_advice = inner.policy, inner.budget, inner.overflow_advice

        def compact(self, view: View, usage: Usage | None, step: int, moment: Hook, signal: object) -> Compaction | None:
            reports.append((moment, usage is not None))
            if moment != "turn" or step != 3:
                return None
            plan = Forget(middle=Middle(tail=LastMessages(count=2))).reduce(view, self.budget, "now")
            return SessionCompactor(policy=Fixed(plan), window=Window(tokens=0, source="unknown"), summarizer=None).compact(
                view, usage, step, moment, lambda _: None
            )

    agent.compactor = Masking()
    agent.run(STARTED, "Be a coding agent.")
    assert reports == [("step", False), ("turn", True), ("step", True), ("turn", True), ("step", False)]


def test_tool_results_before_a_stopped_answer_still_count() -> None:
    log, cancellation, stalling = MemoryLog(), Cancellation(), Stalling()

    class StallingLater(FakeModel):
        def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
            return super().reply(request, listen) if not self.requests else stalling.reply(request, listen)

    model = StallingLater([assistant("", call(1))])
    output = ExecResult(exit_code=0, stdout=b"x" * 8_000, stderr=b"", stdout_bytes=8_000, stderr_bytes=0)
    agent = make(model, log, cancellation=cancellation, answer=lambda _: output)
    session = Session(agent)
    session.begin(STARTED, "Be a coding agent.")
    thread = threading.Thread(target=session.run_turn)
    thread.start()
    assert stalling.asked.wait(60)
    cancellation.request()
    thread.join(60)
    stalling.let_go.set()
    for continued in (session, Session(agent)):
        view = continued.conversation.view
        assert [item.message.role for item in view.items][-2:] == ["tool", "assistant"]
        assert measure_tokens("reported-and-since", view, continued.usage) == view.tokens > 2_000
        assert measure_tokens("rescaled", view, continued.usage) == view.tokens


class Unreporting(FakeModel):
    """A model whose usage reports are zeros, as in some recordings."""

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        usage = Usage(input_tokens=Measured(0), output_tokens=Measured(0))
        return replace(super().reply(request, listen), usage=usage)


@pytest.mark.parametrize("policy", [InspectTrim(), Letta(), ClineClassic(spare_tokens=1_000)], ids=lambda policy: policy.kind)
def test_a_report_of_no_prompt_tokens_counts_as_no_report(policy: Policy) -> None:
    replies = [assistant("y" * 400, call(number)) for number in range(40)]
    model, log, usages = Unreporting([*replies, assistant("done")], window_tokens=4_000), MemoryLog(), list[ContextUsage]()
    summarizer = FakeModel([assistant("sum")] * 9)
    make(model, log, policy, summarizer, listen=lambda item: usages.append(item) if isinstance(item, ContextUsage) else None).run(
        STARTED, "s"
    )
    compactions = [entry.event for entry in log.entries() if isinstance(entry.event, Compaction)]
    assert any(event.status == "applied" for event in compactions)
    assert all(usage.tokens == usage.trailing_tokens > 0 for usage in usages)


def test_a_policy_is_given_the_report_of_the_last_step_and_never_a_sum() -> None:
    """S1.2."""
    log, given = MemoryLog(), list[Usage | None]()
    agent = make(FakeModel([*(assistant("x" * 50 * n, call(n)) for n in range(1, 5)), assistant("done")]), log)
    inner = agent.compactor

    class Listening:
        policy, budget, overflow_advice = inner.policy, inner.budget, inner.overflow_advice

        def compact(self, view: View, usage: Usage | None, step: int, moment: Hook, signal: object) -> Compaction | None:
            if moment == "step":
                given.append(usage)
            return None

    agent.compactor = Listening()
    agent.run(STARTED, "Be a coding agent.")
    reports = [entry.event.usage for entry in log.entries() if isinstance(entry.event, StepFinished)]
    assert given == [None, *reports[:-1]]
    assert len({usage.prompt_tokens for usage in reports}) == 5


class Fixed:
    """A policy that always returns the same plan."""

    clip_characters, counter, kind = 10_000, QuarterOfCharacters(), "fixed"

    def __init__(self, plan: CompactionPlan) -> None:
        self.proposal = plan

    def budget(self, window: Window) -> Budget:
        return Budget(window_tokens=0, reserved_tokens=0, threshold_tokens=None, rule="none")

    def plan(self, view: View, budget: Budget, usage: Usage | None, moment: Hook = "step") -> CompactionPlan | None:
        return self.proposal


def test_after_each_step_listeners_hear_how_full_the_context_is() -> None:
    """S2.10."""
    heard: list[Entry | TransientEvent] = []
    log = MemoryLog()
    make(FakeModel([assistant("", call(1)), assistant("done")]), log, listen=heard.append).run(STARTED, "s")
    usages = [one for one in heard if isinstance(one, ContextUsage)]
    reports = [entry.event.usage for entry in log.entries() if isinstance(entry.event, StepFinished)]
    assert [usage.usage_tokens for usage in usages] == [usage.prompt_tokens + usage.output_tokens for usage in reports]
    assert [usage.trailing_tokens for usage in usages] == [3, 0], "the result of the call, and nothing"


def test_listeners_hear_of_a_compaction_with_its_tokens_and_the_messages_that_went() -> None:
    """S2.7."""
    heard: list[Entry | TransientEvent] = []
    policy = MessageWindow(max_messages=3, preserve_last_n=1)
    replies = [*(assistant("", call(number)) for number in range(4)), assistant("done")]
    make(FakeModel(replies), MemoryLog(), policy, listen=heard.append).run(STARTED, "s")
    events = [one.event for one in heard if isinstance(one, Entry) and isinstance(one.event, Compaction)]
    assert [(event.step, len(event.patch.forget), event.messages_before - event.messages_after) for event in events] == [
        (3, 2, 2), (4, 2, 2), (5, 2, 2),
    ]  # fmt: skip
    assert all(event.tokens_after < event.tokens_before for event in events)
