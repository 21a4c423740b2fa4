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
from harness.session.setup import recorded
from harness.store.records import Draft
from harness.task import LaterMessage
from harness.truncation import name_output
from harness.view import drop_rolled_back


def waiting(entries: Iterable[Entry]) -> dict[int, str]:
    """The messages that wait, by the event that queued them, the next one first; a rollback leaves them alone."""
    found: dict[int, str] = {}
    for seq, event in entries:
        if isinstance(event, MessageQueued):
            found[seq] = event.text
        elif isinstance(event, MessageUnqueued):
            found.pop(event.queued, None)
    return found


def turn(entries: Iterable[Entry]) -> int:
    """The number of the newest turn, from 1."""
    return 1 + sum(_begins_turn(event) for _, event in drop_rolled_back(entries))


def _begins_turn(event: Event) -> bool:
    return isinstance(event, MessageUnqueued) and event.why == "taken"


def unfinished(entries: Iterable[Entry]) -> bool:
    """Whether the newest turn can be gone on with: it was stopped, it failed, or its process was killed."""
    last: bool = False
    for _, event in drop_rolled_back(entries):
        if isinstance(event, TurnEnded | SessionEnded):
            last = event.status == "failed"
        elif isinstance(event, MessageAdded | StepFinished):
            last = True
    return last


def last_stop(entries: Iterable[Entry]) -> Stop | None:
    """Why the newest turn that was ended was; None = it is not finished, or nothing was."""
    counts = drop_rolled_back(entries)
    ends = [event for _, event in counts if isinstance(event, TurnEnded | SessionEnded)]
    return Stop(ends[-1].reason, ends[-1].detail) if ends and not unfinished(counts) else None


def last_step(entries: Iterable[Entry]) -> int:
    """The newest step that was finished; 0 = none."""
    return next((event.step for _, event in reversed(drop_rolled_back(entries)) if isinstance(event, StepFinished)), 0)


def end_of_step(entries: Sequence[Entry], step: int) -> int:
    """The last event of a step that counts: all of it is logged by then, and nothing that came after.

    Args:
        entries: the log.
        step: 0 = the beginning, before the first model call.

    Raises:
        UsageError: no such step.
    """
    counts = drop_rolled_back(entries)
    begun = next((at for at, (_, event) in enumerate(counts) if isinstance(event, StepFinished) and event.step == step), None)
    if step == 0:
        begun = next((at for at, (_, event) in enumerate(counts) if isinstance(event, MessageAdded)), None)
    if begun is None:
        raise UsageError(f"the session has no step {step}; there are 0 to {last_step(entries)}")
    end = begun
    while end + 1 < len(counts) and _belongs(counts[end + 1].event, step):
        end += 1
    return counts[end].seq


def _belongs(event: Event, step: int) -> bool:
    return (isinstance(event, WorkspaceSaved) and event.step == step) or (
        step == 0 and isinstance(event, MessageAdded) and event.step == 0
    )


def tree_at(entries: Iterable[Entry], to_event: int | None = None) -> str | None:
    """The name of the workspace as it stood after an event, None = now; None when it was never kept."""
    found = trees(entry for entry in drop_rolled_back(entries) if to_event is None or entry.seq <= to_event)
    return found[-1] if found else None


def trees(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The names of all workspaces that count, oldest first."""
    return tuple(event.tree_id for _, event in drop_rolled_back(entries) if isinstance(event, WorkspaceSaved))


def trees_of_turn(entries: Iterable[Entry], number: int | None = None) -> tuple[str, str] | None:
    """The workspace before and after a turn, None = the newest; None when it was never kept.

    Raises:
        UsageError: no such turn.
    """
    counts = drop_rolled_back(entries)
    newest = turn(counts)
    wanted = newest if number is None else number
    if not 1 <= wanted <= newest:
        raise UsageError(f"the session has no turn {wanted}; there are 1 to {newest}")
    of_turns: list[list[str]] = [[]]
    for _, event in counts:
        if _begins_turn(event):
            of_turns.append(of_turns[-1][-1:])
        elif isinstance(event, WorkspaceSaved):
            of_turns[-1].append(event.tree_id)
    mine = of_turns[wanted - 1]
    return (mine[0], mine[-1]) if mine else None


def trees_of_step(entries: Iterable[Entry], step: int) -> tuple[str, str] | None:
    """The workspace before and after a step, from 1; None when it was never kept."""
    kept = [event for _, event in drop_rolled_back(entries) if isinstance(event, WorkspaceSaved)]
    before = [event.tree_id for event in kept if event.step < step]
    return (before[-1], [event.tree_id for event in kept if event.step <= step][-1]) if before else None


def forked(entries: Sequence[Entry], session_id: str, to_event: int, setup: str = "") -> tuple[Event, ...]:
    """The events of a new session that is the old one up to an event; what waited in the old one waits there.

    Args:
        entries: of the old one.
        session_id: names the new one.
        to_event: the last event that both have.
        setup: of the new one, as JSON; empty = that of the old one.

    Raises:
        UsageError: the log has no beginning.
    """
    first = entries[0].event if entries else None
    if not isinstance(first, SessionStarted):
        raise UsageError("a session that has not begun cannot be forked")
    prefix = entries[:to_event]
    withdrawn = (MessageUnqueued(queued=seq, why="withdrawn") for seq in waiting(prefix))
    setup = "" if setup == recorded(prefix) else setup
    origin = SessionForked(session_id=first.session_id, step=last_step(prefix), setup_json=setup)
    return (replace(first, session_id=session_id), *(event for _, event in prefix[1:]), origin, *withdrawn)


def broken_off(entries: Sequence[Entry], draft: Draft) -> tuple[Entry, ...]:
    """What goes behind a log whose process was killed in the middle of a step: what it had come to, and why it is not over."""
    said = assistant(draft.text, *draft.calls, reasoning=draft.reasoning)
    messages = (said, *(tool(make_interrupted_result(call)) for call in draft.calls))
    detail = "its process ended in the middle of this answer; what had come of it by then is kept"
    if draft.calls:
        names = ", ".join(dict.fromkeys(call.name for call in draft.calls))
        detail = f"its process ended while calls of this answer ran ({names}); what they gave and changed is lost"
    ended = TurnEnded(turn=turn(entries), status="failed", reason="broken_off", detail=detail)
    events: list[Event] = [MessageAdded(message=sanitize_message(message), step=draft.step) for message in messages]
    return tuple(Entry(seq, event) for seq, event in enumerate([*events, ended], entries[-1].seq + 1 if entries else 1))


def still_due(later: Iterable[LaterMessage], entries: Iterable[Entry]) -> tuple[LaterMessage, ...]:
    """The later messages of a task that were not said yet."""
    counts = drop_rolled_back(entries)
    steps = last_step(counts)
    said = {(event.step, event.message.text) for _, event in counts if isinstance(event, MessageAdded)}
    return tuple(message for message in later if message.step > steps and (message.step, message.text) not in said)


def offloaded(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The texts that compactions moved into the saved outputs, oldest first, also those that a rollback took back."""
    names = {name for _, event in entries if isinstance(event, Compaction) for name in event.offloaded}
    if not names:
        return ()
    logged = (result.output for _, event in entries for message in _written(event) for result in message.results)
    return tuple(dict.fromkeys(output for output in logged if name_output(output) in names))


def _written(event: Event) -> Iterable[Message]:
    """The messages that an event brought into view; an edit may have been moved in its turn."""
    if isinstance(event, MessageAdded):
        return (event.message,)
    return (change.message for change in event.patch.replace) if isinstance(event, Compaction) else ()
