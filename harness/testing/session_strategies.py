"""Hypothesis strategy for whole sessions: the real loop under a real policy, with a model, tools and summaries that are drawn."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from harness.agent.inbox import Inbox
from harness.events import Entry, Event, MessageAdded, RolledBack, StepFinished, TurnEnded
from harness.messages import Message, ToolCall, ToolResult, assistant, user
from harness.protocols import Policy, ToolSpec
from harness.session.assembly import assemble_session
from harness.session.resources import SessionResources
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog, MemoryOutputs
from harness.task import LaterMessage
from harness.testing.fake_model import FakeModel
from harness.testing.memory_sandbox import MemorySandbox
from harness.testing.strategies import TEXTS, make_step_finished

WINDOW_TOKENS = 16_000
SUMMARY_COUNT = 60
"""More than a session of the longest kind could ask for."""


@dataclass(frozen=True, slots=True)
class FakeTool:
    """A tool that answers as it was told to."""

    name: str
    outputs: Mapping[str, ToolResult]

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        return ToolSpec(name=self.name, description="", parameters_json="{}")

    def run(self, call: ToolCall) -> ToolResult:
        """The prepared result of this call."""
        return self.outputs[call.call_id]


@st.composite
def sessions(draw: st.DrawFn, policy: Policy, max_steps: int = 12) -> tuple[Entry, ...]:
    """The log of a session under a policy, from its beginning to its end."""
    replies, outputs = [], {}
    for number in range(draw(st.integers(0, max_steps))):
        names = draw(st.lists(st.sampled_from(["execute_command", "read_file"]), min_size=1, max_size=3))
        calls = [ToolCall(call_id=f"c{number}-{at}", name=name, arguments_json='{"path": "a"}') for at, name in enumerate(names)]
        replies.append(assistant(draw(TEXTS), *calls))
        outputs.update({call.call_id: draw(_results(call)) for call in calls})
    later = draw(st.lists(st.builds(LaterMessage, step=st.integers(1, max_steps), text=TEXTS.filter(str.strip)), max_size=3))
    resources = SessionResources(
        session_id="made",
        log=MemoryLog(),
        clock=itertools.count().__next__,
        sandbox=MemorySandbox(),
        outputs=MemoryOutputs(),
        model=FakeModel([*replies, assistant("done")], window_tokens=WINDOW_TOKENS),
        summarizer=FakeModel(_draw_summaries(draw)),
        tools=[FakeTool(name, outputs) for name in ("execute_command", "read_file")],
    )
    session = assemble_session(SessionSpec(request=draw(TEXTS) or "build it", policy=policy), resources)
    session.agent.inbox = Inbox(later)
    session.agent.run(session.start_event, draw(TEXTS) or "be good")
    return tuple(session.agent.log.entries())


@st.composite
def sessions_with_rollback(draw: st.DrawFn, policy: Policy) -> tuple[Entry, ...]:
    """The log of a session that was rolled back to one of its steps and gone on with."""
    log = draw(sessions(policy))
    seq, step = draw(st.sampled_from([(seq, event.step) for seq, event in log if isinstance(event, StepFinished)]))
    more: tuple[Event, ...] = (
        RolledBack(step=step, to_event=seq),
        MessageAdded(message=user(draw(TEXTS)), step=step),
        MessageAdded(message=assistant(draw(TEXTS)), step=step + 1),
        make_step_finished(step + 1),
        TurnEnded(turn=2, status="completed", reason="replied"),
    )
    return (*log, *(Entry(len(log) + number, event) for number, event in enumerate(more, 1)))


def _results(call: ToolCall) -> st.SearchStrategy[ToolResult]:
    return st.builds(
        lambda text, times, status, cut: ToolResult(
            call_id=call.call_id, name=call.name, output=text * times, status=status, clipped_characters=cut
        ),
        TEXTS,
        st.integers(1, 12),
        st.sampled_from(["completed", "error"]),
        st.sampled_from([0, 0, 700]),
    )


def _draw_summaries(draw: st.DrawFn) -> list[Message]:
    texts = draw(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=4))
    return [assistant(text) for text in itertools.islice(itertools.cycle(texts), SUMMARY_COUNT)]
