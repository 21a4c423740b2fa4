"""Pure functions that compute the state of a session from its log.

The functions find where turns and steps end, which user messages are queued, whether a turn is unfinished, and which facts of a
task (values that the agent has to remember) a compaction removed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.agent.loop import Stop
from harness.agent.tool_execution import make_interrupted_result
from harness.conversation.events import (
    Compaction,
    Entry,
    Event,
    MessageAdded,
    MessageQueued,
    MessageUnqueued,
    SessionEnded,
    SessionForked,
    SessionResumed,
    SessionStarted,
    StepFinished,
    TurnEnded,
    WorkspaceSaved,
)
from harness.conversation.messages import Message, assistant, sanitize_message, tool
from harness.conversation.tokens import Counter
from harness.conversation.truncation import name_output
from harness.conversation.view import drop_rolled_back
from harness.errors import UsageError, format_count
from harness.metrics.session_metrics import measure_session
from harness.models.scripted.profiles import EXACT, Reader
from harness.session.spec import find_setup
from harness.store.records import UnfinishedStep
from harness.task import LaterMessage, Task


def find_queued_messages(entries: Iterable[Entry]) -> dict[int, MessageQueued]:
    """Return the user messages that wait in the queue, by number of their log event, the next one first.

    A rollback (return to an earlier step) does not change the queue.
    """
    queued: dict[int, MessageQueued] = {}
    for seq, event in entries:
        if isinstance(event, MessageQueued):
            queued[seq] = event
        elif isinstance(event, MessageUnqueued):
            queued.pop(event.queued, None)
    return queued


def find_turn_number(entries: Iterable[Entry]) -> int:
    """Return the number of the session's newest turn, from 1."""
    return 1 + sum(_is_turn_start(event) for _, event in drop_rolled_back(entries))


def _is_turn_start(event: Event) -> bool:
    return isinstance(event, MessageUnqueued) and event.why == "taken"


def count_turn_steps(entries: Iterable[Entry]) -> int:
    """Return how many model calls of the newest turn count towards the maximum; interrupted calls count, too.

    The count begins anew after the maximum has ended the turn, so that a user can continue the turn nevertheless.
    """
    steps = 0
    for _, event in drop_rolled_back(entries):
        if _is_turn_start(event) or (isinstance(event, TurnEnded | SessionEnded) and event.reason == "max_steps"):
            steps = 0
        elif isinstance(event, MessageAdded) and event.message.role == "assistant":
            steps += 1
    return steps


def has_unfinished_turn(entries: Iterable[Entry]) -> bool:
    """Return whether the newest turn can be resumed: it was stopped, it failed, or its process was killed."""
    is_unfinished = False
    for _, event in drop_rolled_back(entries):
        if isinstance(event, TurnEnded):
            is_unfinished = event.status == "failed"
        elif isinstance(event, SessionEnded):  # a session can fail after its newest turn has ended
            is_unfinished = is_unfinished and event.status == "failed"
        elif isinstance(event, MessageAdded | StepFinished):
            is_unfinished = True
    return is_unfinished


def is_active(entries: Iterable[Entry]) -> bool:
    """Return whether a session is still active.

    A session is active unless its log records that the session, or its newest continuation, has ended.
    """
    kinds = SessionStarted | SessionResumed | SessionEnded
    lifecycle_events = [event for _, event in entries if isinstance(event, kinds)]
    return not lifecycle_events or not isinstance(lifecycle_events[-1], SessionEnded)


def find_last_stop(entries: Iterable[Entry]) -> Stop | None:
    """Return why the session's last turn ended or was stopped; None if it has not ended."""
    kinds = MessageAdded | StepFinished | TurnEnded | SessionEnded
    newest = next((event for _, event in reversed(drop_rolled_back(entries)) if isinstance(event, kinds)), None)
    return Stop(newest.reason, newest.detail) if isinstance(newest, TurnEnded | SessionEnded) else None


def find_last_step(entries: Iterable[Entry]) -> int:
    """Return the number of the last finished step (model call with its tool calls); 0 if there is none."""
    return next((event.step for _, event in reversed(drop_rolled_back(entries)) if isinstance(event, StepFinished)), 0)


def find_step_end(entries: Sequence[Entry], step: int) -> int:
    """Return the number of the last log event that belongs to a step (a model call with its tool calls).

    Args:
        entries: Entries of the session's log.
        step: Number of the step; 0 is the beginning of the session, before the first model call.

    Raises:
        UsageError: There is no such step.
    """
    last_kinds = StepFinished | WorkspaceSaved if step else MessageAdded | WorkspaceSaved
    ends = [seq for seq, event in drop_rolled_back(entries) if isinstance(event, last_kinds) and event.step == step]
    if not ends:
        raise UsageError(f"the session has no step {step}; it has steps 0 to {find_last_step(entries)}")
    return ends[-1]


def find_tree(entries: Iterable[Entry], to_event: int | None = None) -> str | None:
    """Return the id of the session's newest workspace snapshot; None if there is no snapshot.

    The id is empty if the newest attempt to save the workspace failed. With `to_event`, events after the event of that number are
    ignored.
    """
    saved = _find_saved(entries, to_event)
    return None if saved is None else saved.tree_id


def find_left_out(entries: Iterable[Entry], to_event: int | None = None) -> tuple[str, ...]:
    """Return lines on what the session's newest workspace snapshot lacks; the arguments are those of `find_tree`."""
    saved = _find_saved(entries, to_event)
    return () if saved is None else saved.left_out


def _find_saved(entries: Iterable[Entry], to_event: int | None) -> WorkspaceSaved | None:
    live_entries = [entry for entry in drop_rolled_back(entries) if to_event is None or entry.seq <= to_event]
    return next((event for _, event in reversed(live_entries) if isinstance(event, WorkspaceSaved)), None)


def list_trees(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the ids of all workspace snapshots of a session that were not rolled back, oldest first."""
    return tuple(event.tree_id for _, event in drop_rolled_back(entries) if isinstance(event, WorkspaceSaved) and event.tree_id)


def list_changed_files(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the paths of all files that steps of a session changed, sorted, also of files that were changed back.

    Steps that were rolled back do not count. Of each step, at most the first 1,000 files are known.
    """
    saved_events = (event for _, event in drop_rolled_back(entries) if isinstance(event, WorkspaceSaved) and event.step)
    return tuple(sorted({path for event in saved_events for path in event.changed_files}))


def find_session_trees(entries: Iterable[Entry]) -> tuple[str, str] | None:
    """Return the ids of the first and the last workspace snapshot of a session; None if there is none."""
    trees = list_trees(entries)
    return (trees[0], trees[-1]) if trees else None


def find_turn_trees(entries: Iterable[Entry], number: int | None = None) -> tuple[str, str] | None:
    """Return the ids of the workspace snapshots before and after a turn; None if the session has no snapshots.

    Args:
        entries: Entries of the session's log.
        number: Number of the turn, from 1; None is the newest turn.

    Raises:
        UsageError: There is no such turn.
    """
    live_entries = drop_rolled_back(entries)
    newest = find_turn_number(live_entries)
    turn_number = newest if number is None else number
    if not 1 <= turn_number <= newest:
        raise UsageError(f"the session has no turn {turn_number}; it has turns 1 to {newest}")
    trees_by_turn: list[list[str]] = [[]]
    for _, event in live_entries:
        if _is_turn_start(event):
            trees_by_turn.append(trees_by_turn[-1][-1:])
        elif isinstance(event, WorkspaceSaved) and event.tree_id:
            trees_by_turn[-1].append(event.tree_id)
    turn_trees = trees_by_turn[turn_number - 1]
    return (turn_trees[0], turn_trees[-1]) if turn_trees else None


def find_step_trees(entries: Iterable[Entry], step: int) -> tuple[str, str] | None:
    """Return the ids of the workspace snapshots before and after a step; None if the session has no snapshots."""
    saved_events = [event for _, event in drop_rolled_back(entries) if isinstance(event, WorkspaceSaved) and event.tree_id]
    trees_before = [event.tree_id for event in saved_events if event.step < step]
    trees_after = [event.tree_id for event in saved_events if event.step <= step]
    return (trees_before[-1], trees_after[-1]) if trees_before else None


def build_fork_events(entries: Sequence[Entry], session_id: str, to_event: int, setup: str = "") -> tuple[Event, ...]:
    """Return the log events of a fork: a new session that continues a copy of another session's first events.

    The new session starts with an empty queue of user messages.

    Args:
        entries: Entries of the original session's log.
        session_id: Name of the new session.
        to_event: Number of the last event that is copied from the original session.
        setup: Setup (stored configuration) of the new session as JSON; empty copies the setup of the original session.

    Raises:
        UsageError: The original session has not begun.
    """
    start_event = entries[0].event if entries else None
    if not isinstance(start_event, SessionStarted):
        raise UsageError("a session that has not begun cannot be forked; start it and send it a message first")
    prefix = entries[:to_event]
    withdrawals = (MessageUnqueued(queued=seq, why="withdrawn") for seq in find_queued_messages(prefix))
    setup = "" if setup == find_setup(prefix) else setup
    fork_event = SessionForked(session_id=start_event.session_id, step=find_last_step(prefix), setup_json=setup)
    return (replace(start_event, session_id=session_id), *(event for _, event in prefix[1:]), fork_event, *withdrawals)


def build_interrupted_entries(entries: Sequence[Entry], draft: UnfinishedStep | None) -> tuple[Entry, ...]:
    """Return the entries that a log lacks because the process of its session was killed during a step.

    The result is empty if the log lacks nothing. Otherwise, it has these entries, in this order:

    - The saved part of the model's answer, unless the answer is already in the log.
    - One result for each tool call of the answer. A call without a saved result counts as interrupted.
    - The workspace that was saved after the newest result.
    - The end of the turn.

    Args:
        entries: Entries of the session's log.
        draft: Saved parts of the unfinished step; None if nothing was saved.
    """
    answer, step = _find_unanswered(entries), 0
    if answer is not None:
        step, calls = answer.step, answer.message.calls
        events: list[Event] = []
    elif draft is not None:
        step, calls = draft.step, draft.calls
        message = assistant(draft.text, *calls, reasoning=draft.reasoning)
        events = [MessageAdded(message=sanitize_message(message), step=step)]
    else:
        return ()
    is_saved = draft is not None and draft.step == step
    saved_results = {result.call_id: result for result in draft.results} if draft and is_saved else {}
    timings = dict(zip(saved_results, draft.timings, strict=False)) if draft and is_saved else {}
    results = [saved_results.get(call.call_id) or make_interrupted_result(call) for call in calls]
    events += [
        MessageAdded(message=sanitize_message(tool(result)), step=step, timing=timings.get(result.call_id)) for result in results
    ]
    if draft and draft.tree_id is not None:
        events.append(WorkspaceSaved(step=step, tree_id=draft.tree_id))
    detail = "the process of the session ended during this answer; the part received so far is kept"
    if calls:
        lost_names = [call.name for call in calls if call.call_id not in saved_results]
        names = ", ".join(dict.fromkeys(lost_names or [call.name for call in calls]))
        kept_text = f"; {format_count(len(saved_results), 'result')} of {len(calls)} kept" if saved_results else ""
        detail = f"the process of the session ended during tool calls ({names}); their results and changes are lost{kept_text}"
        if not lost_names:
            detail = (
                f"the process of the session ended after tool calls ({names}); their results are kept, with the workspace as it "
                "was saved last"
            )
    events.append(TurnEnded(turn=find_turn_number(entries), status="failed", reason="broken_off", detail=detail))
    return tuple(Entry(seq, event) for seq, event in enumerate(events, entries[-1].seq + 1 if entries else 1))


def _find_unanswered(entries: Iterable[Entry]) -> MessageAdded | None:
    """Return the newest message if it is an answer with tool calls whose results are missing; else None."""
    live_entries = drop_rolled_back(entries)
    newest = next((event for _, event in reversed(live_entries) if isinstance(event, MessageAdded | StepFinished)), None)
    return newest if isinstance(newest, MessageAdded) and newest.message.calls else None


def select_due_messages(later_messages: Iterable[LaterMessage], entries: Iterable[Entry]) -> tuple[LaterMessage, ...]:
    """Return the user messages that a task still has to send, i.e. those that the session has not received yet."""
    live_entries = drop_rolled_back(entries)
    steps = find_last_step(live_entries)
    sent_keys = {(event.step, event.message.text) for _, event in live_entries if isinstance(event, MessageAdded)}
    return tuple(
        later_message
        for later_message in later_messages
        if later_message.step > steps and (later_message.step, later_message.text) not in sent_keys
    )


def list_offloaded_texts(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the tool outputs that compactions moved from a conversation into a store that the agent can read.

    The oldest output comes first. Outputs of compactions that were rolled back are included.
    """
    names = {name for _, event in entries if isinstance(event, Compaction) for name in event.offloaded}
    if not names:
        return ()
    outputs = (result.output for _, event in entries for message in _list_event_messages(event) for result in message.results)
    return tuple(dict.fromkeys(output for output in outputs if name_output(output) in names))


def _list_event_messages(event: Event) -> Iterable[Message]:
    """Return the message that an event adds, or the new versions of messages that a compaction shortened."""
    if isinstance(event, MessageAdded):
        return (event.message,)
    return (change.message for change in event.patch.replace) if isinstance(event, Compaction) else ()


def find_compaction(entries: Iterable[Entry], round_number: int) -> int:
    """Return the number of the log event that records one of a session's compactions, such as the second one.

    Args:
        entries: Entries of the session's log.
        round_number: Number of the compaction among the applied compactions of the session, from 1.

    Raises:
        UsageError: There is no such compaction.
    """
    attempts = [(seq, event) for seq, event in drop_rolled_back(entries) if isinstance(event, Compaction)]
    seq_by_round = {event.round: seq for seq, event in attempts if event.status == "applied"}
    if round_number not in seq_by_round:
        rounds = format_count(len(seq_by_round), "round")
        raise UsageError(f"the session has no compaction of round {round_number}; it has {rounds}")
    return seq_by_round[round_number]


def find_compaction_end(entries: Sequence[Entry], compaction_seq: int) -> int:
    """Return the number of the last log event that belongs to a compaction: the compaction, or the opening of the turn after it.

    A compaction at the beginning of a turn is logged before the user message that opens the turn.

    Args:
        entries: Entries of the session's log.
        compaction_seq: Number of the log event that records the compaction.
    """
    end = compaction_seq
    compaction = entries[compaction_seq - 1].event
    if isinstance(compaction, Compaction) and compaction.moment == "turn":
        for seq, event in entries[compaction_seq:]:
            if isinstance(event, MessageAdded) and event.message.role == "user":
                end = seq
            elif not isinstance(event, MessageQueued | MessageUnqueued):  # other threads may log these at any time
                break
    return end


def list_dropped_facts(
    entries: Sequence[Entry], task: Task, compaction_seq: int, counter: Counter, reader: Reader = EXACT
) -> tuple[str, ...]:
    """Return the names of the facts of a task that a compaction removed from the model's sight, in the order of the task.

    These are the facts whose newest value the model could see before the compaction but not after it.

    Args:
        entries: Entries of the session's log, at least up to the compaction.
        task: Task whose facts are searched for.
        compaction_seq: Number of the log event that records the compaction.
        counter: Token counter of the session's compaction policy.
        reader: Rule by which the scripted agent finds values in the texts that it sees.
    """
    live_entries = [entry for entry in drop_rolled_back(entries) if entry.seq <= compaction_seq]
    probes = measure_session(live_entries, task, counter, reader).probes
    names = {fact.number: fact.name for fact in probes.facts}
    dropped_numbers = [row.fact for row in probes.rows if row.event == compaction_seq and row.seen_before and not row.seen_after]
    return tuple(names[number] for number in sorted(dropped_numbers))
