"""Events, logs and records for the tests of the store."""

import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from hypothesis import strategies as st

from harness.conversation.events import (
    CallStarted,
    CallTiming,
    Compaction,
    Event,
    Insert,
    ItemId,
    MessageAdded,
    MessageQueued,
    MessageUnqueued,
    ModelCallFailed,
    Patch,
    Replace,
    RolledBack,
    SessionEnded,
    SessionForked,
    SessionResumed,
    SessionStarted,
    StepFinished,
    SubAgentEnded,
    TurnEnded,
    WorkspaceSaved,
)
from harness.conversation.messages import (
    CompactionMarker,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Subtask,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    extract_part_text,
    system,
    tool,
    user,
)
from harness.conversation.tokens import Estimated, Measured, Usage
from harness.store.columns import STEP_COUNTS
from harness.store.journal import Journal
from harness.store.log import SessionLog
from harness.store.records import CheckRecord, FactRecord, ProbeRecord, Probes, SessionMetrics, StepMetrics, TrialRecord


def ticking(start: float = 1_000.0) -> "itertools.count[float]":
    return itertools.count(start, 0.5)


def begun(journal: Journal, session_id: str = "s", created_at_ms: int = 7) -> SessionLog:
    return journal.open_session_log(session_id, created_at_ms=created_at_ms, clock=ticking().__next__)


def started(session_id: str = "s", task: str = "build it") -> SessionStarted:
    return SessionStarted(
        session_id=session_id,
        task=task,
        model="scripted",
        policy_json='{"kind":"none"}',
        window_tokens=32_768,
        threshold_tokens=20_000,
        budget_rule="0.8 of what is free",
        sandbox="bubblewrap",
    )


def opening(session_id: str = "s") -> list[Event]:
    return [
        started(session_id),
        MessageAdded(step=0, message=system("be good")),
        MessageAdded(step=0, message=user("build it")),
    ]


def step(number: int, output: str = "done", status: str = "completed") -> list[Event]:
    call = ToolCall(call_id=f"call-{number}", name="execute_command", arguments_json='{"command": "ls"}')
    result = ToolResult(call_id=call.call_id, name=call.name, output=output, status=status)  # type: ignore[arg-type]
    return [
        MessageAdded(step=number, message=assistant(f"step {number}", call)),
        MessageAdded(step=number, message=tool(result)),
        finished(number),
    ]


def finished(number: int, cost_usd: float | None = 0.25) -> StepFinished:
    return StepFinished(
        step=number,
        view_tokens=Estimated(100 * number),
        view_messages=2 * number,
        usage=Usage(
            input_tokens=Measured(10),
            output_tokens=Measured(5),
            cache_read_tokens=Measured(90 * number),
            cache_write_tokens=Measured(3),
        ),
        cost_usd=cost_usd,
        request_digest=f"{number:064x}",
        kept_prefix_messages=2 * number - 2,
        kept_prefix_tokens=Estimated(90 * number),
        calls=1,
        call_errors=0,
        model_seconds=1.5,
        tool_seconds=0.25,
    )


def compaction(
    *, forget: Sequence[int] = (), after: int = 2, summary: str = "what was done", number: int = 1, before_step: int = 1
) -> Compaction:
    insert = Insert(message=assistant(summary), after=ItemId(after), stands_for=tuple(ItemId(event) for event in forget))
    return Compaction(
        round=number,
        step=before_step,
        moment="step",
        status="applied",
        reason="20,001 tokens ≥ 20,000",
        patch=Patch(forget=tuple(ItemId(event) for event in forget), insert=(insert,)),
        tokens_before=Estimated(20_001),
        tokens_after=Estimated(900),
        messages_before=40,
        messages_after=6,
        summary=summary,
        summarizer="scripted/extractive",
        summarizer_usage=Usage(input_tokens=Measured(700), output_tokens=Measured(80)),
        summarizer_cost_usd=0.125,
        summarizer_seconds=2.0,
    )


ENDED = SessionEnded(status="completed", reason="replied")


def trial(trial_id: str = "t", session_id: str = "s", **changes: object) -> TrialRecord:
    values: dict[str, object] = {
        "trial_id": trial_id,
        "session_id": session_id,
        "experiment": "quickstart",
        "arm": "keep-last 0.8",
        "task": "flashcards",
        "seed": 3,
        "replicate": 0,
        "model": "scripted",
        "policy": "keep-last",
        "policy_json": '{"kind":"keep-last"}',
        "config_json": "{}",
        "axes_json": '{"policy.threshold":0.8}',
        "window_tokens": 32_768,
        "max_steps": 300,
        "level": "L0",
        "status": "completed",
        "reason": "replied",
        "success": True,
        "score": 1.0,
        "steps": 2,
        "compactions": 1,
        "prompt_tokens": 1_000,
        "output_tokens": 100,
        "cost_usd": None,
        "peak_context_tokens": 500,
        "treatment": "as planned",
        "sandbox": "bubblewrap",
        "started_at_ms": 1_700_000_000_123,
        "wall_seconds": 2.5,
    }
    return TrialRecord(**{**values, **changes})  # type: ignore[arg-type]


def checks(trial_id: str = "t") -> tuple[CheckRecord, ...]:
    return (
        CheckRecord(trial_id=trial_id, check="app-runs", title="The app starts", passed=True),
        CheckRecord(trial_id=trial_id, check="port", title="It listens where it should", passed=False, detail="8080, not 8081"),
    )


def count_calls(step: int, **counts: int) -> StepMetrics:
    """Return the numbers counted in a step; all others are 0."""
    return StepMetrics(step=step, counts=dict.fromkeys(STEP_COUNTS, 0) | counts)


CONDUCT = SessionMetrics(
    evicted_tokens=200,
    close_compactions=1,
    repeated_dead_ends=2,
    loop_rule="alternation",
    loop_onset_step=2,
    fact_uses=4,
    wrong_uses=1,
    stale_uses=1,
    constraint_violations=0,
    steps=(
        count_calls(1, executions=1, retrievals=1),
        count_calls(3, retrievals=2, repeats=2, redundant=1, reacquisitions=2, reacquired_tokens=50, reacquired_steps=3),
    ),
)
PROBES = Probes(
    facts=(
        FactRecord(number=0, name="port", kind="constraint", said_in="prompt", reacquisition_calls=None),
        FactRecord(number=3, name="table", kind="artifact", said_in="file", reacquisition_calls=2),
    ),
    rows=(
        ProbeRecord(event=10, fact=0, version=2, seen_before=True, seen_after=False, used_step=3, used="stale"),
        ProbeRecord(event=10, fact=3, version=1, seen_before=True, seen_after=True, seen_in_kept=False, stands_after=True),
    ),
)
"""Probes of a session whose event 10 is an applied compaction."""


def plain(path: Path, sql: str) -> list[tuple[object, ...]]:
    """Return the rows of a query as any SQLite program sees them."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def content(message: Message) -> str:
    return "\n".join(extract_part_text(part) for part in message.parts)


# --- random logs -----------------------------------------------------------------------------------------------------

_WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
_TEXTS = st.builds(lambda text, times: text * times, _WORDS, st.sampled_from([1, 1, 3, 40, 700]))
_NAMES = st.text("abcdef-_0123456789", min_size=1, max_size=8)
_COUNTS = st.integers(0, 2**53)
_MONEY = st.none() | st.floats(0, 1e6)
_PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, text=_TEXTS),
    st.builds(Reasoning, text=_TEXTS),
    st.builds(ToolCall, call_id=_NAMES, name=_NAMES, arguments_json=_TEXTS),
    st.builds(
        ToolResult,
        call_id=_NAMES,
        name=_NAMES,
        output=_TEXTS,
        status=st.sampled_from(["completed", "error", "interrupted"]),
        clipped_characters=_COUNTS,
        clipped_bytes=_COUNTS,
    ),
    st.builds(File, path=_TEXTS, content=_TEXTS),
    st.builds(Subtask, prompt=_TEXTS, answer=_TEXTS),
    st.builds(Image, text=_TEXTS, tokens=_COUNTS, drawing=_TEXTS),
    st.builds(CompactionMarker, text=_TEXTS, round=st.integers(1, 99)),
)
_MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    parts=st.lists(_PARTS, min_size=1, max_size=3).map(tuple),
)
_USAGES = st.builds(Usage, input_tokens=_COUNTS, output_tokens=_COUNTS, reasoning_tokens=_COUNTS, cache_read_tokens=_COUNTS)


def _items(seq: int) -> st.SearchStrategy[ItemId]:
    return st.builds(ItemId, st.integers(1, max(seq, 1)), st.sampled_from([0, 0, 0, 1]))


@st.composite
def _compactions(draw: st.DrawFn, seq: int) -> Compaction:
    some = st.lists(_items(seq), max_size=4).map(tuple)
    patch = Patch(
        forget=draw(some),
        replace=draw(st.lists(st.builds(Replace, item=_items(seq), message=_MESSAGES), max_size=3).map(tuple)),
        insert=draw(st.lists(st.builds(Insert, message=_MESSAGES, after=_items(seq), stands_for=some), max_size=2).map(tuple)),
    )
    return draw(
        st.builds(
            Compaction,
            round=st.integers(0, 99),
            step=st.integers(0, 99),
            moment=st.sampled_from(["turn", "step", "overflow"]),
            status=st.sampled_from(["applied", "applied", "applied", "no-op", "failed"]),
            reason=_TEXTS,
            patch=st.just(patch),
            tokens_before=_COUNTS,
            tokens_after=_COUNTS,
            messages_before=_COUNTS,
            messages_after=_COUNTS,
            summary=_TEXTS,
            summarizer=_NAMES,
            summarizer_usage=st.none() | _USAGES,
            summarizer_cost_usd=_MONEY,
            summarizer_seconds=st.floats(0, 1e6),
            wall_seconds=st.floats(0, 1e6),
        )
    )


TIMINGS = st.builds(
    CallTiming,
    started_at_ms=st.integers(0, 2**42),
    seconds=st.floats(0, 1e6),
    cached_seconds=st.none() | st.floats(0, 1e6),
)
"""Timings of tool calls."""

_STEPS = st.builds(
    StepFinished,
    step=st.integers(1, 999),
    view_tokens=_COUNTS,
    view_messages=_COUNTS,
    usage=_USAGES,
    cost_usd=_MONEY,
    request_digest=_NAMES,
    kept_prefix_messages=_COUNTS,
    kept_prefix_tokens=_COUNTS,
    calls=_COUNTS,
    call_errors=_COUNTS,
    model_seconds=st.floats(0, 1e6),
    tool_seconds=st.floats(0, 1e6),
    finish_reason=st.sampled_from([None, "stop", "tool-calls", "length", "content-filter"]),
)


_OF_TURNS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TurnEnded, turn=st.integers(1, 99), status=st.just("failed"), reason=st.just("doom_loop"), detail=_TEXTS),
    st.builds(MessageQueued, text=_TEXTS, files=st.lists(st.builds(File, path=_TEXTS, content=_TEXTS), max_size=1).map(tuple)),
    st.builds(CallStarted, step=st.integers(1, 99), call_id=_NAMES),
    st.builds(ModelCallFailed, step=st.integers(1, 99), cost_usd=_MONEY, detail=_TEXTS, is_overflow=st.booleans()),
    st.builds(MessageUnqueued, queued=st.integers(1, 99), why=st.sampled_from(["taken", "withdrawn"])),
    st.builds(
        SubAgentEnded,
        step=st.integers(1, 99),
        session_id=_NAMES,
        steps=_COUNTS,
        prompt_tokens=_COUNTS,
        output_tokens=_COUNTS,
        cost_usd=st.none() | st.floats(0, 1e6),
        call_id=_NAMES | st.just(""),
    ),
    st.builds(
        WorkspaceSaved,
        step=st.integers(0, 99),
        tree_id=_NAMES,
        changed_files=st.lists(_TEXTS, max_size=3).map(tuple),
        patch_hash=st.none() | _NAMES,
    ),
    st.builds(SessionForked, session_id=_NAMES, step=st.integers(0, 99), setup_json=_TEXTS),
    st.builds(
        SessionResumed,
        model=_NAMES,
        policy_json=_TEXTS,
        window_tokens=_COUNTS,
        threshold_tokens=st.none() | _COUNTS,
        budget_rule=_NAMES,
        sandbox=_NAMES,
        setup_json=_TEXTS,
    ),
)


@st.composite
def events(draw: st.DrawFn) -> list[list[Event]]:
    """Generate batches of any events that the types allow, including patches of missing items."""
    seq = 0
    batches: list[list[Event]] = []
    for size in draw(st.lists(st.integers(1, 4), max_size=6)):
        batch: list[Event] = []
        for _ in range(size):
            seq += 1
            batch.append(
                draw(
                    st.one_of(
                        st.builds(MessageAdded, message=_MESSAGES, step=st.integers(0, 99), timing=st.none() | TIMINGS),
                        st.builds(MessageAdded, message=_MESSAGES, step=st.integers(0, 99), timing=st.none() | TIMINGS),
                        _STEPS,
                        _compactions(seq),
                        st.builds(started, session_id=_NAMES, task=_TEXTS),
                        _OF_TURNS,
                        st.builds(RolledBack, step=st.integers(0, 99), to_event=st.integers(0, seq - 1)),
                        st.builds(
                            SessionEnded,
                            status=st.sampled_from(["completed", "failed"]),
                            reason=st.sampled_from(["replied", "max_steps", "overflow"]),
                            detail=_TEXTS,
                        ),
                    )
                )
            )
        batches.append(batch)
    return batches


def flat(batches: Sequence[Sequence[Event]]) -> Iterator[Event]:
    return itertools.chain.from_iterable(batches)
