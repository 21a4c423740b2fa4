"""The work of a session grows no faster than n · log n with its steps, also under policies that edit it at every step.

Work is the number of lines of this package that are executed, so the result is the same on every machine.
"""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import harness
from harness.compaction.presets.langchain import AnthropicClear, LangChainClear
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.swe_agent import ComplexityTrapMask, SweAgent
from harness.conversation.events import Compaction, Entry, MessageAdded
from harness.conversation.messages import assistant
from harness.conversation.view import fold
from harness.inspection.counterfactual import CounterfactualRun, CounterfactualSpec, SessionTrace
from harness.inspection.recorded_session import RecordedSession
from harness.metrics.session_metrics import measure_session
from harness.protocols import Policy
from harness.session.assembly import SessionResources, assemble_session
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog
from harness.tasks import load_task
from tests.bench import planning
from tests.bench.editing import CountingModel, InstantSummarizer
from tests.bench.overhead import InstantTool
from tests.bench.workload import TOOL

pytestmark = pytest.mark.slow

PACKAGE = str(Path(harness.__file__).parent)
SHORT, LONG = 50, 200
EDITING = [SweAgent(), ComplexityTrapMask(), LangChainClear(trigger_tokens=1_000), AnthropicClear(trigger_tokens=1_000)]


@contextmanager
def count_lines(counts: list[int]) -> Iterator[None]:
    """Append the number of lines of the package that the `with` block executes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        nonlocal count
        count += event == "line"
        return trace if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
    counts.append(count)


def run_session(policy: Policy, steps: int) -> MemoryLog:
    """Run a session whose tool outputs have 400 characters, and measure it as a trial does."""
    task = replace(load_task("flashcards")(1), later_messages=())
    model, log = CountingModel(steps), MemoryLog()
    outputs = (f"output {number}\n" * 35 for number in range(steps))
    resources = SessionResources(
        session_id="growth", log=log, clock=lambda: 0.0, on_event=model.listen, model=model, summarizer=InstantSummarizer(),
        tools=[InstantTool(TOOL, iter(outputs))],
    )  # fmt: skip
    session = assemble_session(SessionSpec(request=task.prompt, task=task, policy=policy, max_steps=steps), resources)
    session.agent.logs_steps_at_once = True
    assert session.agent.run(session.start_event, "You are an agent.").steps == steps
    measure_session(log.entries(), task, policy.counter)
    return log


def count_compactions(log: MemoryLog) -> int:
    return sum(isinstance(event, Compaction) and event.status == "applied" for _, event in log.entries())


@pytest.mark.parametrize("policy", EDITING, ids=lambda policy: policy.kind)
def test_the_work_of_a_session_grows_no_faster_than_n_log_n(policy: Policy) -> None:
    counts: list[int] = []
    for steps in (SHORT, LONG):
        with count_lines(counts):
            log = run_session(policy, steps)
        assert count_compactions(log) > 0.7 * steps
    assert counts[1] / counts[0] < LONG * math.log(LONG) / (SHORT * math.log(SHORT))


@pytest.mark.parametrize("policy", EDITING[:2], ids=lambda policy: policy.kind)
def test_the_work_of_a_counterfactual_run_grows_no_faster_than_n_log_n(policy: Policy) -> None:
    counts: list[int] = []
    for steps in (SHORT, LONG):
        entries = tuple(run_session(NoCompaction(), steps).entries())
        spec = CounterfactualSpec(policy=policy, window_tokens=65_536)
        run = CounterfactualRun(RecordedSession(name="growth", entries=entries), SessionTrace(entries), spec)
        with count_lines(counts):
            run.advance()
        assert len(run.attempts) > 0.7 * steps
    assert counts[1] / counts[0] < LONG * math.log(LONG) / (SHORT * math.log(SHORT))


@pytest.mark.parametrize(("policy", "hook"), planning.idlers(), ids=lambda value: getattr(value, "kind", value))
def test_the_work_to_find_out_that_nothing_is_due_does_not_grow(policy, hook):
    counts: list[int] = []
    for size in (100, 1_000):
        view, budget = planning.at_rest(policy, hook, planning.conversation(size)), policy.budget(planning.HUGE)
        policy.plan(view, budget, planning.USAGE, hook)
        entry = Entry(planning.MANY + 1, MessageAdded(message=assistant("Well."), step=1))
        grown = fold(view, entry, policy.counter)
        with count_lines(counts):
            policy.plan(grown, budget, planning.USAGE, hook)
    assert counts[1] <= 1.2 * counts[0] + 10, counts
