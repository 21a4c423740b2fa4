"""SQL views over a journal: sessions, messages, compactions (S0.7), parts and their states (S3.6, S3.7)."""

import hashlib
import json
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings

from harness.conversation.events import (
    CallStarted,
    CallTiming,
    Compaction,
    Entry,
    ItemId,
    MessageAdded,
    Patch,
    Replace,
    RolledBack,
    SessionEnded,
    SubAgentEnded,
    WorkspaceSaved,
)
from harness.conversation.messages import (
    CompactionMarker,
    File,
    Message,
    Reasoning,
    Subtask,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool,
)
from harness.conversation.view import compute_tool_states, fold_all
from harness.errors import NewerVersion
from harness.recordings.session_file import build_step_parts
from harness.store.journal import Journal
from harness.store.records import UnfinishedStep
from harness.store.schema import MIGRATIONS, SCRATCH_MIGRATIONS, Migration, migrate, refuse_newer
from harness.testing.strategies import multi_turn_logs
from tests.store.samples import ENDED, begun, compaction, content, finished, opening, plain, started, step

LONG = "line of output\n" * 200


@pytest.fixture
def journal(tmp_path: Path):
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        yield journal


# --- the eight key operations (S0.7), seen by any SQLite program -----------------------------------------------------


def test_a_new_session_is_active_with_its_time(journal: Journal) -> None:
    begun(journal, "one", created_at_ms=1_234)
    assert plain(journal.path, "SELECT id, created_at, status, reason FROM sessions") == [("one", 1_234, "active", None)]


def test_a_session_shows_the_task_verbatim(journal: Journal) -> None:
    task = "Build 'it'\n" * 100
    begun(journal).append([started(task=task)])
    assert plain(journal.path, "SELECT task, model, window_tokens FROM sessions") == [(task, "scripted", 32_768)]


def test_saved_messages_get_the_next_sequence_and_an_estimate(journal: Journal) -> None:
    begun(journal).append([*opening(), *step(1)])
    rows = plain(journal.path, "SELECT id, sequence, role, content, token_count, created_at, step FROM messages")
    assert rows == [
        ("s/000001", 1, "system", "be good", 2, 1_000_000, 0),
        ("s/000002", 2, "user", "build it", 2, 1_000_000, 0),
        ("s/000003", 3, "assistant", 'step 1\nexecute_command {"command": "ls"}', 10, 1_000_000, 1),
        ("s/000004", 4, "tool", "done", 1, 1_000_000, 1),
    ]


def test_the_active_messages_are_the_view(journal: Journal) -> None:
    log = begun(journal)
    log.append([*opening(), *step(1), *step(2), compaction(forget=[3, 4, 5]), *step(3)])
    log.append([compaction(forget=[7, 8], number=2), *step(4)])
    rows = plain(journal.path, "SELECT role, content FROM messages WHERE is_compacted = 0 ORDER BY place")
    assert rows == [(message.role, content(message)) for message in fold_all(log.entries()).messages]
    assert len(rows) == 7


def test_a_compaction_marks_exactly_what_it_forgot_and_never_the_system_message(journal: Journal) -> None:
    begun(journal).append([*opening(), *step(1), *step(2), compaction(forget=[3, 4, 5])])
    assert plain(journal.path, "SELECT sequence, role FROM messages WHERE is_compacted") == [
        (2, "user"),
        (3, "assistant"),
        (4, "tool"),
    ]


def test_a_summary_is_an_assistant_message_whose_place_is_apart_from_its_sequence(journal: Journal) -> None:
    begun(journal).append([*opening(), *step(1), compaction(forget=[3, 4, 5], summary="so far")])
    assert plain(journal.path, "SELECT sequence, role, content FROM messages ORDER BY sequence DESC LIMIT 1") == [
        (5, "assistant", "so far")
    ]
    assert plain(journal.path, "SELECT sequence FROM messages WHERE NOT is_compacted ORDER BY place") == [(1,), (5,)]


def test_a_compaction_is_recorded_with_its_tokens_and_the_latest_is_returned(journal: Journal) -> None:
    log = begun(journal)
    log.append([*opening(), *step(1), compaction(forget=[3, 4, 5], summary="first " * 200)])
    log.append([*step(2), compaction(forget=[8, 9], number=2, summary="second " * 200)])
    row = plain(
        journal.path,
        "SELECT id, session_id, round, created_at, tokens_before, tokens_after, summary_content"
        " FROM compaction_events WHERE session_id = 's' ORDER BY round DESC LIMIT 1",
    )
    assert row == [("s/round/0002", "s", 2, 1_000_500, 20_001, 900, "second " * 200)]


def test_an_ended_session_has_its_status_and_its_reason_apart(journal: Journal) -> None:
    begun(journal, "good").append([*opening("good"), ENDED])
    begun(journal, "bad").append([*opening("bad"), SessionEnded(status="failed", reason="max_steps", detail="300 steps")])
    assert plain(journal.path, "SELECT id, status, reason, detail FROM sessions ORDER BY id") == [
        ("bad", "failed", "max_steps", "300 steps"),
        ("good", "completed", "replied", ""),
    ]


# --- further columns and views ----------------------------------------------------------------------------------------


def test_a_fruitless_attempt_is_no_compaction_event(journal: Journal) -> None:
    failed = Compaction(
        round=0,
        step=1,
        moment="step",
        status="failed",
        reason="no summary",
        patch=Patch(forget=(ItemId(3),)),
        tokens_before=10,  # type: ignore[arg-type]
        tokens_after=10,  # type: ignore[arg-type]
        messages_before=2,
        messages_after=2,
    )
    begun(journal).append([*opening(), failed])
    assert plain(journal.path, "SELECT count(*) FROM compaction_events") == [(0,)]
    assert plain(journal.path, "SELECT count(*) FROM messages WHERE is_compacted") == [(0,)]
    assert plain(journal.path, "SELECT status, reason FROM compaction") == [("failed", "no summary")]


def test_a_replaced_message_is_compacted_and_its_replacement_stands_in_its_place(journal: Journal) -> None:
    stub = tool(ToolResult(call_id="call-1", name="execute_command", output="[old output]"))
    masking = Compaction(
        round=1,
        step=2,
        moment="turn",
        status="applied",
        reason="masking",
        patch=Patch(replace=(Replace(item=ItemId(5), message=stub),)),
        tokens_before=10,  # type: ignore[arg-type]
        tokens_after=5,  # type: ignore[arg-type]
        messages_before=4,
        messages_after=4,
    )
    begun(journal).append([*opening(), *step(1, LONG), masking])
    rows = plain(journal.path, "SELECT content, is_compacted FROM messages WHERE role = 'tool' ORDER BY sequence")
    assert [compacted for _, compacted in rows] == [1, 0]
    assert rows[1][0] == "[old output]"
    assert plain(journal.path, "SELECT count(*) FROM messages WHERE NOT is_compacted") == [(4,)]


def test_any_program_sees_the_head_of_a_packed_text_and_the_journal_shows_it_whole(journal: Journal) -> None:
    begun(journal).append([*opening(), *step(1, LONG)])
    sql = "SELECT content FROM messages WHERE role = 'tool'"
    ((shown,),) = plain(journal.path, sql)
    assert str(shown).startswith(LONG[:60])
    assert str(shown).endswith("[3000 characters in all, packed]")
    assert [row["content"] for row in journal.query(sql)] == [LONG]


def test_equal_texts_are_kept_once(journal: Journal) -> None:
    for name in ("one", "two"):
        begun(journal, name).append([*opening(name), *step(1, LONG), *step(2, LONG)])
    assert plain(journal.path, "SELECT count(*) FROM text") == [(1,)]


def test_every_part_of_the_seed_that_a_log_holds_is_shown(journal: Journal) -> None:
    """S3.6."""
    parts = (
        Reasoning(text="hm"),
        File(path="a.py", content="x = 1"),
        Subtask(prompt="why?", answer="so"),
        CompactionMarker(text="compacted here", round=1),
    )
    log = begun(journal)
    log.append([*opening(), MessageAdded(step=1, message=Message(role="user", parts=parts)), *step(1), compaction()])
    rows = plain(journal.path, "SELECT DISTINCT type FROM parts ORDER BY type")
    assert [kind for (kind,) in rows] == [
        *("compaction", "file", "reasoning", "step-finish", "step-start", "subtask", "text", "tool", "tool-result")
    ]
    assert plain(journal.path, "SELECT text FROM parts WHERE type = 'file'") == [("a.py\nx = 1",)]


def sub_agent_ended(number: int, call_id: str) -> SubAgentEnded:
    return SubAgentEnded(
        step=number, session_id="s.000001", steps=3, prompt_tokens=90, output_tokens=8, cost_usd=0.5, call_id=call_id
    )


def test_a_step_has_its_snapshots_reason_tokens_cost_patch_and_sub_agent_as_parts_of_its_answer(journal: Journal) -> None:
    """S3.6, S3.11, S3.20."""
    asked = ToolCall(call_id="call-1", name="explore", arguments_json='{"question": "Where is it?"}')
    begun(journal, "s.000001").append([replace(started("s.000001", task="Where is it?"), model="small")])
    log = begun(journal)
    saved = WorkspaceSaved(step=1, tree_id="tree-1", changed_files=("a.py", "b/c.txt"), patch_hash="f00d")
    log.append([*opening(), WorkspaceSaved(step=0, tree_id="tree-0")])
    log.append(
        [MessageAdded(step=1, message=assistant("I ask.", asked, reasoning="hm")), step(1)[1], sub_agent_ended(1, "call-1")]
    )
    log.append([replace(finished(1), finish_reason="tool-calls"), saved])
    log.append(
        [MessageAdded(step=2, message=assistant("All of it is")), replace(finished(2, None), calls=0, finish_reason="length")]
    )
    rows = plain(
        journal.path,
        "SELECT id, message_id, type, text, call_id, data_json FROM parts WHERE session_id = 's' AND step > 0 ORDER BY id",
    )
    data = [json.loads(str(row[5] or "{}")) for row in rows]
    assert [row[:5] for row in rows] == [
        ("s/000003/0000", "s/000003", "step-start", None, None),
        ("s/000003/0001", "s/000003", "reasoning", "hm", None),
        ("s/000003/0002", "s/000003", "text", "I ask.", None),
        ("s/000003/0003", "s/000003", "tool", 'explore {"question": "Where is it?"}', "call-1"),
        ("s/000003/0004", "s/000003", "subtask", "Where is it?", "call-1"),
        ("s/000003/0005", "s/000003", "step-finish", None, None),
        ("s/000003/0006", "s/000003", "patch", "a.py\nb/c.txt", None),
        ("s/000004/0000", "s/000004", "tool-result", "done", "call-1"),
        ("s/000005/0000", "s/000005", "step-start", None, None),
        ("s/000005/0001", "s/000005", "text", "All of it is", None),
        ("s/000005/0002", "s/000005", "step-finish", None, None),
    ]
    assert data[0] == {"snapshot": "tree-0"}
    cost, tokens = {"input": 90, "output": 8}, {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 90, "write": 3}}
    assert data[4] == {"agent": "explore", "model": "small", "session": "s.000001", "steps": 3, "tokens": cost, "cost": 0.5}
    assert data[5] == {"reason": "tool-calls", "snapshot": "tree-1", "tokens": tokens, "cost": 0.25}
    assert data[6] == {"hash": "f00d", "files": ["a.py", "b/c.txt"]}
    assert data[8] == {"snapshot": "tree-1"}
    assert (data[10]["reason"], data[10]["snapshot"], data[10]["cost"]) == ("length", "tree-1", None)


def test_the_prompt_of_a_sub_agent_whose_session_is_not_in_the_journal_is_that_of_its_call(journal: Journal) -> None:
    """S3.6, S3.20."""
    question = "Where is it? " * 300
    asked = ToolCall(call_id="call-1", name="explore", arguments_json=json.dumps({"question": question}))
    begun(journal).append([*opening(), MessageAdded(step=1, message=assistant("", asked)), sub_agent_ended(1, "call-1")])
    sql = "SELECT text FROM parts WHERE type = 'subtask'"
    assert [row["text"] for row in journal.query(sql)] == [question]
    assert plain(journal.path, sql) == [(None,)], "other programs cannot unpack the call"


def test_a_file_of_a_message_and_a_call_show_their_kind_and_times(journal: Journal) -> None:
    """S3.2, S3.6."""
    attached = MessageAdded(step=1, message=Message(role="user", parts=(File(path="a.py", content="x = 1"),)))
    log = begun(journal)
    log.append([*opening(), attached])
    answer, result, finished = step(1)
    assert isinstance(result, MessageAdded)
    timed = replace(result, timing=CallTiming(started_at_ms=1_001_001, seconds=0.25, cached_seconds=0.125))
    for batch in ([answer], [CallStarted(step=1, call_id="call-1")], [timed, finished], [compaction(forget=[5, 7])]):
        log.append(batch)
    rows = plain(journal.path, "SELECT type, data_json FROM parts WHERE type IN ('file', 'tool', 'compaction') ORDER BY id")
    assert [(kind, json.loads(str(data))) for kind, data in rows] == [
        ("file", {"mime": "text/plain"}),
        (
            "tool",
            {"time": {"start": 1_001_001, "end": 1_001_251, "compacted": 1_002_000}, "seconds": 0.25, "cached_seconds": 0.125},
        ),
        ("compaction", {"auto": True, "round": 1, "tokens_before": 20_001, "tokens_after": 900, "messages_removed": 2}),
    ]


def read_call_data(journal: Journal) -> list[dict[str, object]]:
    rows = plain(journal.path, "SELECT data_json FROM parts WHERE type = 'tool' ORDER BY id")
    return [json.loads(str(data)) for (data,) in rows]


def test_the_end_of_a_call_is_unknown_until_its_result_is_saved_and_in_old_journals(journal: Journal) -> None:
    """S3.6."""
    log = begun(journal)
    log.append([*opening(), step(1)[0]])
    pending = {"time": {"start": None, "end": None, "compacted": None}, "seconds": None, "cached_seconds": None}
    assert read_call_data(journal) == [pending]
    log.append([CallStarted(step=1, call_id="call-1")])
    running = {**pending, "time": {"start": 1_000_500, "end": None, "compacted": None}}
    assert read_call_data(journal) == [running]
    added = step(1)[1]
    assert isinstance(added, MessageAdded)
    timing = CallTiming(started_at_ms=1_001_002, seconds=2.0)
    log.save_draft(UnfinishedStep(1, "", results=added.message.results, timings=(timing,)))
    ended = {**pending, "time": {"start": 1_001_002, "end": 1_003_002, "compacted": None}, "seconds": 2.0}
    assert read_call_data(journal) == [ended]
    log.append(step(1)[1:])  # as an older version logs it
    assert read_call_data(journal) == [running]


def log_rollback_after_a_step() -> tuple[Entry, ...]:
    """Return the log of a session that is rolled back before the workspace is saved after its second step."""
    first = WorkspaceSaved(step=0, tree_id="t0", changed_files=(), patch_hash=None)
    second = WorkspaceSaved(step=1, tree_id="t1", changed_files=(), patch_hash="")
    events = [*opening(), first, *step(1), second, *step(2), RolledBack(step=0, to_event=4)]
    return tuple(Entry(seq, event) for seq, event in enumerate(events, start=1))


@pytest.mark.slow
@settings(max_examples=40)
@given(multi_turn_logs())
@example(log_rollback_after_a_step())
def test_the_parts_of_steps_are_those_of_an_export_also_after_rollbacks(log: tuple[Entry, ...]) -> None:
    """S3.6, S3.13."""
    exported = [part for parts in build_step_parts(log).values() for part in parts]
    with TemporaryDirectory() as folder, Journal.open(Path(folder) / "j.sqlite") as journal:
        begun(journal).append([entry.event for entry in log])
        rows = journal.query(
            "SELECT id, type, data_json FROM parts WHERE type IN ('step-start', 'step-finish', 'patch') ORDER BY id"
        )
        ids = [row["id"] for row in journal.query("SELECT id FROM parts")]
        created = [row["created_at"] for row in journal.query("SELECT created_at FROM messages ORDER BY id")]
    assert [{"type": row["type"], **json.loads(row["data_json"])} for row in rows] == exported
    assert len(set(ids)) == len(ids)
    assert created == sorted(created)


def test_ids_of_messages_and_parts_sort_by_time(journal: Journal) -> None:
    """S3.13."""
    log = begun(journal)
    log.append(opening())
    many = Message(role="user", parts=tuple(Text(text=f"part {number}") for number in range(12)))
    for number in range(1, 15):
        log.append([*step(number), MessageAdded(step=number, message=many)])
    messages = plain(journal.path, "SELECT id, created_at, sequence FROM messages")
    assert [row[2] for row in sorted(messages)] == list(range(1, len(messages) + 1))
    parts = plain(journal.path, "SELECT id, text FROM parts WHERE message_id = 's/000005' ORDER BY id")
    assert [text for _, text in parts] == [f"part {number}" for number in range(12)]


def test_the_state_of_a_tool_part_is_that_of_the_log(journal: Journal) -> None:
    """S3.7."""
    log = begun(journal)
    log.append([*opening(), *step(1), *step(2, status="error"), *step(3), *step(4, status="interrupted")])
    log.append([compaction(forget=[4, 5]), step(5)[0], CallStarted(step=5, call_id="call-5"), *step(5)[1:]])
    log.append([step(6)[0], CallStarted(step=6, call_id="call-6"), RolledBack(step=5, to_event=20)])
    log.append([step(7)[0], CallStarted(step=7, call_id="call-7")])
    rows = {call: state for call, state in plain(journal.path, "SELECT call_id, state FROM parts WHERE type = 'tool'")}  # noqa: C416
    assert {call: state for call, state in rows.items() if call != "call-6"} == dict(compute_tool_states(log.entries()))
    assert list(rows.values()) == ["compacted", "error", "completed", "error", "completed", "running", "running"]
    log.append([*step(7)[1:], step(8)[0]])
    assert plain(journal.path, "SELECT call_id, state FROM parts WHERE type = 'tool' AND step > 6") == [
        ("call-7", "completed"),
        ("call-8", "pending"),
    ]


def test_parallel_calls_have_states_of_their_own(journal: Journal) -> None:
    calls = step(1)[0], step(2)[0]
    both = assistant("", *(call for event in calls for call in event.message.calls))  # type: ignore[union-attr]
    begun(journal).append([*opening(), MessageAdded(step=1, message=both), step(1, status="error")[1], step(2)[1]])
    assert plain(journal.path, "SELECT call_id, state FROM parts WHERE type = 'tool'") == [
        ("call-1", "error"),
        ("call-2", "completed"),
    ]


# --- migrations -------------------------------------------------------------------------------------------------------


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    broken = ("CREATE TABLE half (done INTEGER)", "not SQL")
    connection = sqlite3.connect(tmp_path / "j.sqlite", isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, (*MIGRATIONS, broken))
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").fetchone() == (0,)
    connection.close()


def test_only_missing_migrations_run(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "j.sqlite", isolation_level=None)
    migrate(connection, (("CREATE TABLE one (a INTEGER)",),))
    migrate(connection, (("CREATE TABLE one (b INTEGER)",), ("CREATE TABLE two (c INTEGER)",)))
    tables = connection.execute("SELECT sql FROM sqlite_schema").fetchall()
    assert tables == [("CREATE TABLE one (a INTEGER)",), ("CREATE TABLE two (c INTEGER)",)]
    connection.close()


def list_schema(migrations: Sequence[Migration]) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, migrations)
        return connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()


@pytest.mark.slow
@pytest.mark.parametrize("form", range(1, len(MIGRATIONS)))
def test_a_file_of_every_older_form_is_brought_to_the_newest(form: int) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:form])
        migrate(connection)
        schema = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()
    assert schema == list_schema(MIGRATIONS)


def test_a_migration_that_renews_the_views_works_on_a_file_without_them() -> None:
    renewed = (*MIGRATIONS, tuple(sql for sql in MIGRATIONS[22] if " VIEW " in sql))
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, SCRATCH_MIGRATIONS)
        migrate(connection, renewed)
        schema = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()
    assert schema == list_schema(renewed)


def test_the_migrations_of_the_first_release_never_change() -> None:
    """Columns that a declaration adds are included. Views, comments and white space may change."""
    tables = [re.sub(r"--.*", "", sql).split() for name, sql in list_schema(MIGRATIONS[:12]) if sql.startswith("CREATE TABLE")]
    statements = [" ".join(words).replace("( ", "(").replace(" )", ")") for words in tables]
    digest = hashlib.sha256("\n".join(statements).encode()).hexdigest()
    assert (len(tables), digest[:16]) == (20, "4a0641cc7dfa8b07")


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    Journal.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    for read_only in (False, True):
        with pytest.raises(NewerVersion, match=r"j\.sqlite' has schema 99, but this version of harness reads schemas up to"):
            Journal.open(path, read_only=read_only)


def test_a_journal_whose_events_hold_their_json_is_read_as_it_is_and_written_on(tmp_path: Path, journal: Journal) -> None:
    begun(journal).append([*opening(), *step(1, LONG), compaction(forget=[3]), *step(2, LONG)])
    older = tmp_path / "older.sqlite"
    with closing(sqlite3.connect(older, isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:23])
        connection.execute("ATTACH ? AS newer", (str(journal.path),))
        for table in ("session", "event", "text", "version", "retired", "step", "compaction"):
            columns = ", ".join(name for _, name, *_ in connection.execute(f"PRAGMA main.table_info({table})"))
            source = "whole_event" if table == "event" else table
            connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newer.{source}")
    views = [f"SELECT * FROM {view} ORDER BY id" for view in ("sessions", "messages", "parts", "compaction_events")]
    bodies = plain(older, "SELECT seq, body FROM event ORDER BY seq")
    for read_only in (True, False):
        with Journal.open(older, read_only=read_only) as opened:
            assert list(opened.read_entries("s")) == list(journal.read_entries("s"))
            assert [opened.query(view) for view in views] == [journal.query(view) for view in views]
    with Journal.open(older) as opened:
        begun(opened).append(step(3))
        assert [entry.event for entry in opened.read_entries("s")][-3:] == step(3)
    assert plain(older, "SELECT seq, body FROM event WHERE body IS NOT NULL") == [row for row in bodies if row[1]]


def test_a_version_that_does_not_know_stored_json_of_events_refuses_the_journal_in_words(journal: Journal) -> None:
    older_text = r"has schema \d+, but this version of harness reads schemas up to 23; update harness"
    with closing(sqlite3.connect(journal.path)) as connection, pytest.raises(NewerVersion, match=older_text):
        refuse_newer(connection, 23)
