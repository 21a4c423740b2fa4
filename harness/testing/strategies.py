"""Hypothesis strategies for conversations and logs, for property tests of policies (ours and anyone's)."""

from hypothesis import strategies as st

from harness.events import (
    Entry,
    Event,
    MessageAdded,
    MessageQueued,
    MessageUnqueued,
    RolledBack,
    SessionStarted,
    StepFinished,
    TurnEnded,
    WorkspaceSaved,
)
from harness.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.session.history import find_last_step, find_queued_messages, find_step_end
from harness.tokens import Estimated, Measured, Usage

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=400)


@st.composite
def step_messages(draw: st.DrawFn, number: int) -> list[Message]:
    """One step of an agent: an answer with up to three calls and their results, or a user message."""
    if draw(st.integers(0, 9)) == 0:
        return [user(draw(TEXTS) or "go on")]
    names = draw(st.lists(st.sampled_from(["execute_command", "read_file", "write_file"]), max_size=3))
    calls = [
        ToolCall(call_id=f"c{number}-{index}", name=name, arguments_json=f'{{"path": "f{index}.py"}}')
        for index, name in enumerate(names)
    ]
    results = [
        ToolResult(
            call_id=call.call_id,
            name=call.name,
            output=draw(TEXTS) * draw(st.integers(1, 12)),
            status=draw(st.sampled_from(["completed", "error"])),
        )
        for call in calls
    ]
    return [assistant(draw(TEXTS), *calls), *map(tool, results)]


@st.composite
def conversations(draw: st.DrawFn, max_steps: int = 30) -> tuple[Message, ...]:
    """A legal conversation: system, user, then steps whose calls all have their results."""
    steps = [draw(step_messages(number)) for number in range(draw(st.integers(0, max_steps)))]
    opening = [system(draw(TEXTS) or "be good"), user(draw(TEXTS) or "build it")]
    return tuple(opening + [message for step in steps for message in step])


@st.composite
def logs(draw: st.DrawFn, max_steps: int = 30) -> tuple[Entry, ...]:
    """The log of a session without compactions."""
    events: list[MessageAdded | StepFinished] = []
    step = 0
    for message in draw(conversations(max_steps)):
        if message.role == "assistant":
            step += 1
            events.append(make_step_finished(step))
        events.append(MessageAdded(message=message, step=step))
    return tuple(Entry(seq, event) for seq, event in enumerate(events, start=1))


_ACTIONS = ("step", "step", "change", "queue", "take", "withdraw", "end", "back")


@st.composite
def multi_turn_logs(draw: st.DrawFn) -> tuple[Entry, ...]:
    """The log of a session `s` of several turns: messages queue, are taken or withdrawn, workspaces change, it is rolled back."""
    events: list[Event] = [
        make_session_started("s"),
        MessageAdded(message=user("build it"), step=0),
        WorkspaceSaved(step=0, tree_id="t0"),
    ]
    step, turn, trees = 0, 1, 0

    def build_entries() -> tuple[Entry, ...]:
        return tuple(Entry(seq, event) for seq, event in enumerate(events, 1))

    for act in draw(st.lists(st.sampled_from(_ACTIONS), max_size=25)):
        waits = list(find_queued_messages(build_entries()))
        if act in {"step", "change"}:
            step += 1
            events += [MessageAdded(message=assistant(f"step {step}"), step=step), make_step_finished(step)]
            if act == "change":
                trees += 1
                events.append(WorkspaceSaved(step=step, tree_id=f"t{trees}"))
        elif act == "queue":
            events.append(MessageQueued(text=f"message {len(events)}"))
        elif act == "take" and waits:
            events += [
                MessageUnqueued(queued=waits[0], why="taken"),
                MessageAdded(message=user(find_queued_messages(build_entries())[waits[0]]), step=step + 1),
            ]
            turn += 1
        elif act == "withdraw" and waits:
            events.append(MessageUnqueued(queued=draw(st.sampled_from(waits)), why="withdrawn"))
        elif act == "end":
            events.append(TurnEnded(turn=turn, status=draw(st.sampled_from(["completed", "failed"])), reason="replied"))
        elif act == "back":
            back = draw(st.integers(0, find_last_step(build_entries())))
            events.append(RolledBack(step=back, to_event=find_step_end(build_entries(), back)))
            step = find_last_step(build_entries())
    return build_entries()


def make_session_started(session_id: str) -> SessionStarted:
    """The first event of a session about which nothing is remarkable."""
    return SessionStarted(
        session_id=session_id,
        task="build it",
        model="scripted",
        policy_json='{"kind":"none"}',
        window_tokens=32_768,
        threshold_tokens=None,
        budget_rule="",
        sandbox="memory",
    )


def make_step_finished(step: int) -> StepFinished:
    """The end of a step about which nothing is remarkable."""
    return StepFinished(
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
