"""Hypothesis strategies for conversations, logs and whole sessions, for property tests of policies."""

import itertools
from dataclasses import replace
from typing import Literal

from hypothesis import strategies as st

from harness.agent.conversation import Inbox
from harness.conversation import events
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Estimated, Measured, Usage
from harness.protocols import Policy
from harness.session.assembly import SessionResources, assemble_session
from harness.session.history import find_last_step, find_queued_messages, find_step_end
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog, MemoryOutputs
from harness.task import LaterMessage
from harness.testing.fakes import FakeModel, FakeTool, MemorySandbox

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=400)
"""Hypothesis strategy for texts of 0 to 400 characters, without surrogates (which UTF-8 cannot encode)."""


# Each strategy is made once, because Hypothesis takes longer to make a strategy than to draw from it.
_KINDS_OF_STEP = st.integers(0, 9)
_CALLED_TOOLS = st.lists(st.sampled_from(["execute_command", "read_file", "write_file"]), max_size=3)
_SESSION_TOOLS = st.lists(st.sampled_from(["execute_command", "read_file"]), min_size=1, max_size=3)
_REPETITIONS = st.integers(1, 12)
_RESULT_STATUSES: st.SearchStrategy[Literal["completed", "error"]] = st.sampled_from(["completed", "error"])
_CUTS = st.sampled_from([(0, 0), (0, 0), (700, 900), (700, 0)])
"""Numbers of characters and bytes cut from a tool output; version 0.2 logged no bytes."""


def _draw_step(draw: st.DrawFn, number: int) -> list[Message]:
    if draw(_KINDS_OF_STEP) == 0:
        return [user(draw(TEXTS) or "go on")]
    calls = [
        ToolCall(call_id=f"c{number}-{index}", name=name, arguments_json=f'{{"path": "f{index}.py"}}')
        for index, name in enumerate(draw(_CALLED_TOOLS))
    ]
    results = [_draw_result(draw, call) for call in calls]
    return [assistant(draw(TEXTS), *calls), *map(tool, results)]


def _draw_result(draw: st.DrawFn, call: ToolCall) -> ToolResult:
    output = draw(TEXTS) * draw(_REPETITIONS)
    return ToolResult(call_id=call.call_id, name=call.name, output=output, status=draw(_RESULT_STATUSES))


def _cut_result(draw: st.DrawFn, result: ToolResult) -> ToolResult:
    characters, size_bytes = draw(_CUTS)
    return replace(result, clipped_characters=characters, clipped_bytes=size_bytes)


@st.composite
def conversations(draw: st.DrawFn, max_steps: int = 30, *, begin_with_request: bool = True) -> tuple[Message, ...]:
    """Draw a random conversation that providers accept.

    The conversation has a system message, a user message, and steps in which every tool call has a result.

    Args:
        draw: Function that draws values; supplied by Hypothesis.
        max_steps: Maximum number of steps after the first user message. Default: `30`.
        begin_with_request: Whether a user message follows the system message. If not, the conversation begins with any step, like
            a recording whose beginning is missing. Default: `True`.

    Example:
        >>> from hypothesis import given
        >>> from harness.testing import conversations
        >>> @given(conversations(max_steps=3))
        ... def test_a_conversation_begins_with_the_system_message(messages):
        ...     assert messages[0].role == "system"
    """
    steps = [_draw_step(draw, number) for number in range(draw(st.integers(0, max_steps)))]
    opening = [system(draw(TEXTS) or "be good")]
    if begin_with_request:
        opening.append(user(draw(TEXTS) or "build it"))
    return tuple(opening + [message for step in steps for message in step])


@st.composite
def logs(draw: st.DrawFn, max_steps: int = 30, *, begin_with_request: bool = True) -> tuple[events.Entry, ...]:
    """Draw the log of a random session without compactions; the log entries are numbered from 1.

    Args:
        draw: Function that draws values; supplied by Hypothesis.
        max_steps: Maximum number of steps after the first user message. Default: `30`.
        begin_with_request: Whether a user message follows the system message, as in `conversations`. Default: `True`.

    Example:
        Test that the view of a log without compactions has every message:

        >>> from hypothesis import given
        >>> from harness.conversation.events import MessageAdded
        >>> from harness.testing import logs
        >>> from harness.conversation.tokens import QuarterOfCharacters
        >>> from harness.conversation.view import fold_all
        >>> @given(logs(max_steps=3))
        ... def test_the_view_shows_every_message(log):
        ...     messages = [entry.event.message for entry in log if isinstance(entry.event, MessageAdded)]
        ...     assert list(fold_all(log, QuarterOfCharacters()).messages) == messages
        >>> test_the_view_shows_every_message()
    """
    drawn: list[events.MessageAdded | events.StepFinished] = []
    step = 0
    for message in draw(conversations(max_steps, begin_with_request=begin_with_request)):
        if message.role == "assistant":
            step += 1
            drawn.append(make_step_finished(step))
        drawn.append(events.MessageAdded(message=message, step=step))
    return tuple(events.Entry(seq, event) for seq, event in enumerate(drawn, start=1))


_ACTIONS = ("step", "step", "change", "queue", "take", "withdraw", "end", "back")
"""Actions from which the random sessions with several turns are built; an action listed twice is drawn twice as often."""


@st.composite
def multi_turn_logs(draw: st.DrawFn) -> tuple[events.Entry, ...]:
    """Draw the log of a session with several turns; the session id is `s`.

    A turn is a user message and the agent's work on it. User messages are queued, delivered or withdrawn, the workspace changes,
    and the session may be rolled back to an earlier step.

    Args:
        draw: Function that draws values; supplied by Hypothesis.

    Example:
        >>> from hypothesis import given
        >>> from harness.testing import multi_turn_logs
        >>> @given(multi_turn_logs())
        ... def test_entries_are_numbered_from_1(log):
        ...     assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
        >>> test_entries_are_numbered_from_1()
    """
    drawn: list[events.Event] = [
        make_session_started("s"),
        events.MessageAdded(message=user("build it"), step=0),
        events.WorkspaceSaved(step=0, tree_id="t0"),
    ]
    step, turn, trees = 0, 1, 0

    def build_entries() -> tuple[events.Entry, ...]:
        return tuple(events.Entry(seq, event) for seq, event in enumerate(drawn, 1))

    for act in draw(st.lists(st.sampled_from(_ACTIONS), max_size=25)):
        waits = list(find_queued_messages(build_entries()))
        if act in {"step", "change"}:
            step += 1
            drawn += [events.MessageAdded(message=assistant(f"step {step}"), step=step), make_step_finished(step)]
            if act == "change":
                trees += 1
                changed = draw(st.sampled_from([(), (f"f{trees}.py",)]))
                patch_hash = draw(st.sampled_from([None, f"p{trees}"])) if changed else ""
                drawn.append(events.WorkspaceSaved(step=step, tree_id=f"t{trees}", changed_files=changed, patch_hash=patch_hash))
        elif act == "queue":
            drawn.append(events.MessageQueued(text=f"message {len(drawn)}"))
        elif act == "take" and waits:
            drawn += [
                events.MessageUnqueued(queued=waits[0], why="taken"),
                events.MessageAdded(message=user(find_queued_messages(build_entries())[waits[0]].text), step=step + 1),
            ]
            turn += 1
        elif act == "withdraw" and waits:
            drawn.append(events.MessageUnqueued(queued=draw(st.sampled_from(waits)), why="withdrawn"))
        elif act == "end":
            drawn.append(events.TurnEnded(turn=turn, status=draw(st.sampled_from(["completed", "failed"])), reason="replied"))
        elif act == "back":
            back = draw(st.integers(0, find_last_step(build_entries())))
            drawn.append(events.RolledBack(step=back, to_event=find_step_end(build_entries(), back)))
            step = find_last_step(build_entries())
    return build_entries()


def make_session_started(session_id: str) -> events.SessionStarted:
    """Return the first event of a session, filled with ordinary example values."""
    return events.SessionStarted(
        session_id=session_id,
        task="build it",
        model="scripted",
        policy_json='{"kind":"none"}',
        window_tokens=32_768,
        threshold_tokens=None,
        budget_rule="",
        sandbox="memory",
    )


def make_step_finished(step: int) -> events.StepFinished:
    """Return the event that ends a step, with zeros for all token counts, times and costs."""
    return events.StepFinished(
        step=step,
        view_tokens=Estimated(0),
        view_messages=0,
        usage=Usage(input_tokens=Measured(0), output_tokens=Measured(0)),
        cost_usd=0.0,
        request_digest="",
        kept_prefix_messages=0,
        kept_prefix_tokens=Estimated(0),
        calls=0,
        call_errors=0,
        model_seconds=0.0,
        tool_seconds=0.0,
    )


WINDOW_TOKENS = 16_000
"""Context window in tokens of the model in the random sessions."""
SUMMARY_COUNT = 60
"""Number of summaries that are prepared for a random session; no such session requests more."""


@st.composite
def sessions(draw: st.DrawFn, policy: Policy, max_steps: int = 12) -> tuple[events.Entry, ...]:
    """Draw the complete log of a random session that was run under a compaction policy.

    The session runs in the real agent loop; the model, the tools and the summarizer give drawn answers.

    Args:
        draw: Function that draws values; supplied by Hypothesis.
        policy: Compaction policy under which the session runs.
        max_steps: Maximum number of steps with tool calls. Default: `12`.

    Example:
        Test that a policy never removes all messages that the model sees:

        >>> from hypothesis import given, settings
        >>> from harness.conversation.events import Compaction
        >>> from harness.policies import KeepLast
        >>> from harness.testing import sessions
        >>> @settings(max_examples=5, deadline=None)
        ... @given(sessions(KeepLast(threshold=0.2, keep_last=2)))
        ... def test_messages_stay_in_view(log):
        ...     assert all(entry.event.messages_after > 0 for entry in log if isinstance(entry.event, Compaction))
        >>> test_messages_stay_in_view()
    """
    replies, outputs = [], {}
    for number in range(draw(st.integers(0, max_steps))):
        names = draw(_SESSION_TOOLS)
        calls = [
            ToolCall(call_id=f"c{number}-{index}", name=name, arguments_json='{"path": "a"}') for index, name in enumerate(names)
        ]
        replies.append(assistant(draw(TEXTS), *calls))
        drawn = [_cut_result(draw, _draw_result(draw, call)) for call in calls]
        outputs.update({result.call_id: result for result in drawn})
    later = draw(st.lists(st.builds(LaterMessage, step=st.integers(1, max_steps), text=TEXTS.filter(str.strip)), max_size=3))
    summaries = draw(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=4))
    resources = SessionResources(
        session_id="made",
        log=MemoryLog(),
        clock=itertools.count().__next__,
        sandbox=MemorySandbox(),
        outputs=MemoryOutputs(),
        model=FakeModel([*replies, assistant("done")], window_tokens=WINDOW_TOKENS),
        summarizer=FakeModel(itertools.islice(itertools.cycle(map(assistant, summaries)), SUMMARY_COUNT)),
        tools=[FakeTool(name, outputs) for name in ("execute_command", "read_file")],
    )
    session = assemble_session(SessionSpec(request=draw(TEXTS) or "build it", policy=policy), resources)
    session.agent.inbox = Inbox(later)
    session.agent.run(session.start_event, draw(TEXTS) or "be good")
    return tuple(session.agent.log.entries())


@st.composite
def sessions_with_rollback(draw: st.DrawFn, policy: Policy) -> tuple[events.Entry, ...]:
    """Draw the log of a random session that was rolled back to one of its steps and then continued for one turn.

    Args:
        draw: Function that draws values; supplied by Hypothesis.
        policy: Compaction policy under which the session runs.

    Example:
        Test that providers accept the messages that the model sees after a rollback:

        >>> from hypothesis import given, settings
        >>> from harness.policies import KeepLast
        >>> from harness.testing import sessions_with_rollback
        >>> from harness.conversation.tokens import QuarterOfCharacters
        >>> from harness.conversation.view import find_violation, fold_all
        >>> @settings(max_examples=5, deadline=None)
        ... @given(sessions_with_rollback(KeepLast(threshold=0.2, keep_last=2)))
        ... def test_the_view_is_legal(log):
        ...     assert find_violation(fold_all(log, QuarterOfCharacters()).messages) is None
        >>> test_the_view_is_legal()
    """
    log = draw(sessions(policy))
    seq, step = draw(st.sampled_from([(seq, event.step) for seq, event in log if isinstance(event, events.StepFinished)]))
    later_events: tuple[events.Event, ...] = (
        events.RolledBack(step=step, to_event=seq),
        events.MessageAdded(message=user(draw(TEXTS)), step=step),
        events.MessageAdded(message=assistant(draw(TEXTS)), step=step + 1),
        make_step_finished(step + 1),
        events.TurnEnded(turn=2, status="completed", reason="replied"),
    )
    return (*log, *(events.Entry(len(log) + number, event) for number, event in enumerate(later_events, 1)))
