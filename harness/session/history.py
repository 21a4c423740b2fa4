"""What a log tells of a session of several turns: where its turns and steps end, what waits, what is not finished. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.agent.loop import Stop
from harness.agent.tool_execution import make_interrupted_result
from harness.errors import UsageError
from harness.events import (
    Compaction,
    Entry,
    Event,
    MessageAdded,
    MessageQueued,
    MessageUnqueued,
    SessionEnded,
    SessionForked,
    SessionStarted,
    StepFinished,
    TurnEnded,
    WorkspaceSaved,
)
from harness.messages import Message, assistant, sanitize_message, tool
from harness.session.setup import find_setup
from harness.store.records import Draft
from harness.task import LaterMessage
from harness.truncation import name_output
from harness.view import drop_rolled_back


def find_queued_messages(entries: Iterable[Entry]) -> dict[int, str]:
    """The messages that wait, by the event that queued them, the next one first; a rollback leaves them alone."""
    queued: dict[int, str] = {}
    for seq, event in entries:
        if isinstance(event, MessageQueued):
            queued[seq] = event.text
        elif isinstance(event, MessageUnqueued):
            queued.pop(event.queued, None)
    return queued


def find_turn_number(entries: Iterable[Entry]) -> int:
    """The number of the newest turn, from 1."""
    return 1 + sum(_is_turn_start(event) for _, event in drop_rolled_back(entries))


def _is_turn_start(event: Event) -> bool:
    return isinstance(event, MessageUnqueued) and event.why == "taken"


def has_unfinished_turn(entries: Iterable[Entry]) -> bool:
    """Whether the newest turn can be gone on with: it was stopped, it failed, or its process was killed."""
    is_unfinished: bool = False
    for _, event in drop_rolled_back(entries):
        if isinstance(event, TurnEnded | SessionEnded):
            is_unfinished = event.status == "failed"
        elif isinstance(event, MessageAdded | StepFinished):
            is_unfinished = True
    return is_unfinished


def find_last_stop(entries: Iterable[Entry]) -> Stop | None:
    """Why the newest turn that was ended was; None = it is not finished, or nothing was."""
    live_entries = drop_rolled_back(entries)
    ends = [event for _, event in live_entries if isinstance(event, TurnEnded | SessionEnded)]
    return Stop(ends[-1].reason, ends[-1].detail) if ends and not has_unfinished_turn(live_entries) else None


def find_last_step(entries: Iterable[Entry]) -> int:
    """The newest step that was finished; 0 = none."""
    return next((event.step for _, event in reversed(drop_rolled_back(entries)) if isinstance(event, StepFinished)), 0)


def find_step_end(entries: Sequence[Entry], step: int) -> int:
    """The last event of a step that counts: all of it is logged by then, and nothing that came after.

    Args:
        entries: the log.
        step: 0 = the beginning, before the first model call.

    Raises:
        UsageError: no such step.
    """
    live_entries = drop_rolled_back(entries)
    step_index = next(
        (at for at, (_, event) in enumerate(live_entries) if isinstance(event, StepFinished) and event.step == step), None
    )
    if step == 0:
        step_index = next((at for at, (_, event) in enumerate(live_entries) if isinstance(event, MessageAdded)), None)
    if step_index is None:
        raise UsageError(f"the session has no step {step}; there are 0 to {find_last_step(entries)}")
    end = step_index
    while end + 1 < len(live_entries) and _belongs_to_step(live_entries[end + 1].event, step):
        end += 1
    return live_entries[end].seq


def _belongs_to_step(event: Event, step: int) -> bool:
    return (isinstance(event, WorkspaceSaved) and event.step == step) or (
        step == 0 and isinstance(event, MessageAdded) and event.step == 0
    )


def find_tree(entries: Iterable[Entry], to_event: int | None = None) -> str | None:
    """The name of the workspace as it stood after an event, None = now; None when it was never kept."""
    tree_ids = list_trees(entry for entry in drop_rolled_back(entries) if to_event is None or entry.seq <= to_event)
    return tree_ids[-1] if tree_ids else None


def list_trees(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The names of all workspaces that count, oldest first."""
    return tuple(event.tree_id for _, event in drop_rolled_back(entries) if isinstance(event, WorkspaceSaved))


def find_session_trees(entries: Iterable[Entry]) -> tuple[str, str] | None:
    """Return the first workspace of a session and the last; None when no workspace was kept."""
    trees = list_trees(entries)
    return (trees[0], trees[-1]) if trees else None


def find_turn_trees(entries: Iterable[Entry], number: int | None = None) -> tuple[str, str] | None:
    """The workspace before and after a turn, None = the newest; None when it was never kept.

    Raises:
        UsageError: no such turn.
    """
    live_entries = drop_rolled_back(entries)
    newest = find_turn_number(live_entries)
    turn_number = newest if number is None else number
    if not 1 <= turn_number <= newest:
        raise UsageError(f"the session has no turn {turn_number}; there are 1 to {newest}")
    trees_by_turn: list[list[str]] = [[]]
    for _, event in live_entries:
        if _is_turn_start(event):
            trees_by_turn.append(trees_by_turn[-1][-1:])
        elif isinstance(event, WorkspaceSaved):
            trees_by_turn[-1].append(event.tree_id)
    turn_trees = trees_by_turn[turn_number - 1]
    return (turn_trees[0], turn_trees[-1]) if turn_trees else None


def find_step_trees(entries: Iterable[Entry], step: int) -> tuple[str, str] | None:
    """The workspace before and after a step, from 1; None when it was never kept."""
    saved_events = [event for _, event in drop_rolled_back(entries) if isinstance(event, WorkspaceSaved)]
    earlier_trees = [event.tree_id for event in saved_events if event.step < step]
    return (earlier_trees[-1], [event.tree_id for event in saved_events if event.step <= step][-1]) if earlier_trees else None


def build_fork_events(entries: Sequence[Entry], session_id: str, to_event: int, setup: str = "") -> tuple[Event, ...]:
    """The events of a new session that is the old one up to an event; what waited in the old one waits there.

    Args:
        entries: of the old one.
        session_id: names the new one.
        to_event: the last event that both have.
        setup: of the new one, as JSON; empty = that of the old one.

    Raises:
        UsageError: the log has no beginning.
    """
    start_event = entries[0].event if entries else None
    if not isinstance(start_event, SessionStarted):
        raise UsageError("a session that has not begun cannot be forked")
    prefix = entries[:to_event]
    withdrawals = (MessageUnqueued(queued=seq, why="withdrawn") for seq in find_queued_messages(prefix))
    setup = "" if setup == find_setup(prefix) else setup
    fork_event = SessionForked(session_id=start_event.session_id, step=find_last_step(prefix), setup_json=setup)
    return (replace(start_event, session_id=session_id), *(event for _, event in prefix[1:]), fork_event, *withdrawals)


def build_interrupted_entries(entries: Sequence[Entry], draft: Draft) -> tuple[Entry, ...]:
    """What goes behind a log whose process was killed in the middle of a step: what it had come to, and why it is not over."""
    answer = assistant(draft.text, *draft.calls, reasoning=draft.reasoning)
    messages = (answer, *(tool(make_interrupted_result(call)) for call in draft.calls))
    detail = "its process ended in the middle of this answer; what had come of it by then is kept"
    if draft.calls:
        names = ", ".join(dict.fromkeys(call.name for call in draft.calls))
        detail = f"its process ended while calls of this answer ran ({names}); what they gave and changed is lost"
    turn_end = TurnEnded(turn=find_turn_number(entries), status="failed", reason="broken_off", detail=detail)
    events: list[Event] = [MessageAdded(message=sanitize_message(message), step=draft.step) for message in messages]
    return tuple(Entry(seq, event) for seq, event in enumerate([*events, turn_end], entries[-1].seq + 1 if entries else 1))


def select_due_messages(later_messages: Iterable[LaterMessage], entries: Iterable[Entry]) -> tuple[LaterMessage, ...]:
    """The later messages of a task that were not said yet."""
    live_entries = drop_rolled_back(entries)
    steps = find_last_step(live_entries)
    sent_messages = {(event.step, event.message.text) for _, event in live_entries if isinstance(event, MessageAdded)}
    return tuple(
        message for message in later_messages if message.step > steps and (message.step, message.text) not in sent_messages
    )


def list_offloaded_texts(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The texts that compactions moved into the saved outputs, oldest first, also those that a rollback took back."""
    names = {name for _, event in entries if isinstance(event, Compaction) for name in event.offloaded}
    if not names:
        return ()
    outputs = (result.output for _, event in entries for message in _list_event_messages(event) for result in message.results)
    return tuple(dict.fromkeys(output for output in outputs if name_output(output) in names))


def _list_event_messages(event: Event) -> Iterable[Message]:
    """The messages that an event brought into view; an edit may have been moved in its turn."""
    if isinstance(event, MessageAdded):
        return (event.message,)
    return (change.message for change in event.patch.replace) if isinstance(event, Compaction) else ()
