import dataclasses
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.conversation.codec import to_canonical_json
from harness.conversation.events import CallTiming, Event, MessageAdded, StepFinished
from harness.conversation.messages import Message, ToolResult, assistant, tool
from harness.conversation.tokens import Usage
from harness.conversation.view import fold_all
from harness.errors import StoreError
from harness.protocols import Log
from harness.store.journal import Journal
from harness.store.log import MemoryLog, SessionLog
from tests.store.samples import ENDED, TIMINGS, begun, compaction, content, events, finished, flat, opening, plain, step, ticking


@pytest.fixture
def journal(tmp_path: Path):
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        yield journal


@pytest.fixture(params=["journal", "memory"])
def log(request: pytest.FixtureRequest, journal: Journal) -> Log:
    return begun(journal) if request.param == "journal" else MemoryLog()


def test_a_log_numbers_its_events_from_one_without_gaps(log: Log) -> None:
    first = log.append(opening())
    second = log.append(step(1))
    assert [entry.seq for entry in (*first, *second)] == [1, 2, 3, 4, 5, 6]


def test_a_log_gives_back_what_was_appended(log: Log) -> None:
    appended = [*opening(), *step(1, "x" * 5_000), compaction(forget=[4, 5]), *step(2), ENDED]
    given_back = log.append(appended)
    assert tuple(log.entries()) == given_back
    assert [entry.event for entry in given_back] == appended


def test_a_log_without_events_has_no_entries(log: Log) -> None:
    log.append([])
    assert list(log.entries()) == []


def test_a_log_may_be_closed_twice(log: Log) -> None:
    log.close()
    log.close()


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(events())
def test_any_events_come_back_and_fold_to_the_same_view(batches: list[list[Event]]) -> None:
    memory = MemoryLog()
    with TemporaryDirectory() as folder, Journal.open(Path(folder) / "j.sqlite") as journal:
        log = begun(journal)
        for batch in batches:
            assert log.append(batch) == memory.append(batch)
        assert tuple(log.entries()) == memory.entries()
        assert [entry.event for entry in log.entries()] == list(flat(batches))
        assert [to_canonical_json(entry.event) for entry in log.entries()] == [
            to_canonical_json(event) for event in flat(batches)
        ]
        view = fold_all(memory.entries())
        rows = journal.query("SELECT role, content, token_count FROM messages WHERE NOT is_compacted ORDER BY place, sequence")
        assert [tuple(row) for row in rows] == [(item.message.role, content(item.message), item.tokens) for item in view.items]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=25)
@given(events())
def test_a_log_that_is_opened_again_goes_on_as_if_it_had_stayed_open(batches: list[list[Event]]) -> None:
    with TemporaryDirectory() as folder, Journal.open(Path(folder) / "j.sqlite") as journal:
        stayed = begun(journal, "stayed")
        for batch in batches:
            assert begun(journal, "again").append(batch) == stayed.append(batch)
        columns = "sequence, role, content, token_count, is_compacted, place, step"
        both = [
            [tuple(row) for row in journal.query(f"SELECT {columns} FROM messages WHERE session_id = ? ORDER BY sequence", name)]
            for name in ("stayed", "again")
        ]
        assert both[0] == both[1]


TABLES = ("event", "body", "text", "version", "retired", "step", "compaction", "rollback", "session")


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=25)
@given(events(), st.sampled_from([0.0, 2.5, 1e9]))
def test_events_that_are_written_together_leave_the_same_tables(batches: list[list[Event]], interval: float) -> None:
    tables = []
    for write_interval_seconds in (0.0, interval):
        with TemporaryDirectory() as folder, Journal.open(Path(folder) / "j.sqlite") as journal:
            log = journal.open_session_log(
                "s", created_at_ms=7, clock=ticking().__next__, write_interval_seconds=write_interval_seconds
            )
            for batch in batches:
                log.append(batch)
            log.close()
            with Journal.open(journal.path, read_only=True) as reader:
                tables.append([list(map(tuple, reader.query(f"SELECT * FROM {table} ORDER BY 1, 2"))) for table in TABLES])
    assert tables[0] == tables[1]


def test_events_wait_until_the_first_append_after_the_write_interval(journal: Journal) -> None:
    times = iter([10.0, 10.4, 10.9, 11.0])
    log = journal.open_session_log("s", created_at_ms=7, clock=times.__next__, write_interval_seconds=1.0)

    written = []
    for batch in (opening(), step(1), step(2), step(3)):
        log.append(batch)
        written.append(len(plain(journal.path, "SELECT 1 FROM event")))
    assert written == [3, 3, 3, 12]


def test_the_end_of_a_session_and_a_read_write_what_waits(journal: Journal) -> None:
    log = journal.open_session_log("s", created_at_ms=7, clock=lambda: 1.0, write_interval_seconds=1.0)
    log.append(opening())
    log.append(step(1))
    assert len(plain(journal.path, "SELECT 1 FROM event")) == 3
    assert [entry.seq for entry in journal.read_entries("s")] == [1, 2, 3, 4, 5, 6]
    assert len(plain(journal.path, "SELECT 1 FROM event")) == 6
    log.append(step(2))
    log.append([ENDED])
    assert len(plain(journal.path, "SELECT 1 FROM event")) == 10


def test_events_that_could_not_be_written_later_are_not_in_the_log(journal: Journal) -> None:
    log = journal.open_session_log("s", created_at_ms=7, clock=lambda: 1.0, write_interval_seconds=1.0)
    log.append(opening())
    log.append(step(1))
    journal.database.execute(f"PRAGMA max_page_count = {journal.database.fetch('PRAGMA page_count')[0][0]}")
    log.append(step(2, "".join(map(chr, range(1_000, 40_000)))))
    with pytest.raises(StoreError, match="full"):
        log.close()
    assert [entry.seq for entry in log.entries()] == [1, 2, 3, 4, 5, 6]


def test_a_failed_append_writes_nothing_and_the_log_can_continue(journal: Journal) -> None:
    log = begun(journal)
    log.append(opening())
    unwritable = finished(1, cost_usd=0.5)
    object.__setattr__(unwritable, "view_messages", 2**70)
    with pytest.raises(StoreError, match="too large"):
        log.append([*step(1)[:2], unwritable])
    assert len(list(log.entries())) == 3
    assert plain(journal.path, "SELECT count(*) FROM messages") == [(2,)]
    assert [entry.seq for entry in log.append(step(1))] == [4, 5, 6]


def test_a_full_disk_is_reported_with_advice_and_loses_only_that_append(journal: Journal) -> None:
    log = begun(journal)
    log.append(opening())
    (pages,) = journal.database.execute("PRAGMA page_count").fetchone()
    journal.database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="full; free some space"):
        fill(log)
    kept = list(log.entries())
    assert len(kept) % 3 == 0
    journal.database.execute("PRAGMA max_page_count = 100000")
    assert log.append(step(900))[0].seq == kept[-1].seq + 1


def fill(log: SessionLog) -> None:
    for number in range(1, 200):
        log.append(step(number, f"{number}" * 3_000))


def test_two_writers_of_one_session_are_detected(journal: Journal) -> None:
    first, second = begun(journal), begun(journal)
    first.append(opening())
    with pytest.raises(StoreError, match="another process writes the same session"):
        second.append(opening())
    assert len(list(first.entries())) == 3


def test_text_that_is_no_unicode_and_zero_bytes_come_back(journal: Journal) -> None:
    odd = "caf\udce9 \0 " * 200
    log = begun(journal)
    log.append(
        [
            MessageAdded(step=1, message=assistant("\udc80 short")),
            MessageAdded(step=1, message=assistant(odd)),
            MessageAdded(step=1, message=tool(ToolResult(call_id="c", name="n", output=odd))),
            compaction(summary=odd),
            dataclasses.replace(ENDED, detail="\udcff"),
        ]
    )
    messages = [entry.event.message for entry in log.entries() if isinstance(entry.event, MessageAdded)]
    assert [content(message) for message in messages] == ["\udc80 short", odd, odd]
    assert len(journal.query("SELECT content FROM messages")) == 4


def test_a_step_is_held_whole_by_its_typed_table() -> None:
    ours = {field.name for field in dataclasses.fields(StepFinished)} - {"kind", "usage"}
    ours |= {field.name for field in dataclasses.fields(Usage)}
    with TemporaryDirectory() as folder, Journal.open(Path(folder) / "j.sqlite") as journal:
        columns = {row["name"] for row in journal.query("PRAGMA table_info(step)")}
    assert columns == ours | {"session", "seq"}


def test_a_message_event_holds_nothing_but_message_step_and_timing() -> None:
    assert {field.name for field in dataclasses.fields(MessageAdded)} == {"message", "step", "timing", "kind"}


@given(st.lists(st.none() | TIMINGS, min_size=1, max_size=4))
def test_the_timings_of_calls_are_read_back_and_do_not_enter_the_texts_of_messages(timings: list[CallTiming | None]) -> None:
    message = tool(ToolResult(call_id="c", name="run", output="x" * 5_000))
    results = [MessageAdded(message=message, step=1, timing=timing) for timing in timings]
    with TemporaryDirectory() as folder, Journal.open(Path(folder) / "j.sqlite") as journal:
        begun(journal).append([*opening(), *results])
        known: dict[str, Message] = {}
        for _ in range(2):
            read = [entry.event for entry in journal.read_entries("s", known) if isinstance(entry.event, MessageAdded)]
            assert [event.timing for event in read[-len(timings) :]] == timings
        assert len(journal.query("SELECT DISTINCT body_key FROM event WHERE role = 'tool'")) == 1


def test_messages_that_were_read_before_are_not_decoded_again(journal: Journal) -> None:
    for name in ("a", "b"):
        journal.open_session_log(name, created_at_ms=0, clock=lambda: 0.0).append(opening("s"))
    known: dict[str, Message] = {}
    first, second = (list(journal.read_entries(name, known)) for name in ("a", "b"))
    assert [first, second] == [list(journal.read_entries(name)) for name in ("a", "b")]
    messages = [
        [entry.event.message for entry in entries if isinstance(entry.event, MessageAdded)] for entries in (first, second)
    ]
    assert [id(message) for message in messages[0]] == [id(message) for message in messages[1]]


def test_an_unreadable_event_is_an_error_of_ours(journal: Journal) -> None:
    log = begun(journal)
    log.append(opening())
    journal.database.execute('UPDATE event SET body = \'{"role": "king"}\' WHERE seq = 2')
    with pytest.raises(StoreError, match="event 2 cannot be read by this version"):
        list(log.entries())
