import sqlite3
from dataclasses import fields, replace
from pathlib import Path

import pytest

from harness.conversation.events import MessageAdded, MessageQueued, SessionEnded, SessionStarted
from harness.conversation.messages import ToolCall, ToolResult, tool
from harness.conversation.truncation import describe_location, name_output
from harness.errors import FileMissing, OutputExpired, StoreError, UsageError
from harness.store.columns import STEP_COUNTS
from harness.store.journal import Journal
from harness.store.records import FactRecord, ProbeRecord, SessionMetrics, StepMetrics, TrialRecord, UnfinishedStep
from tests.store.samples import CONDUCT, PROBES, begun, checks, compaction, opening, plain, step, trial


@pytest.fixture
def journal(tmp_path: Path):
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        yield journal


def test_a_stored_trial_is_read_back_with_its_checks(journal: Journal) -> None:
    journal.record_trial(trial(), checks())
    assert journal.list_trials() == (trial(),)
    assert journal.list_checks("t") == checks()


def test_a_newer_record_of_a_trial_takes_the_place_of_the_older(journal: Journal) -> None:
    journal.record_trial(trial(status="crashed", traceback="boom"), checks())
    journal.record_trial(trial("u"))
    journal.record_trial(trial(cost_usd=0.5), checks()[:1])
    assert journal.list_trials() == (trial("u"), trial(cost_usd=0.5))
    assert journal.list_checks("t") == checks()[:1]


def test_a_trial_whose_checks_cannot_be_kept_is_not_recorded(journal: Journal) -> None:
    with pytest.raises(StoreError):
        journal.record_trial(trial(), checks() * 2)
    assert journal.list_trials() == ()


def test_every_field_of_a_trial_has_a_column_of_its_own(journal: Journal) -> None:
    columns = {row["name"] for row in journal.query("PRAGMA table_info(trial)")}
    assert columns == {"revision", *(field.name for field in fields(TrialRecord))}


def test_metrics_are_kept_once_for_a_session(journal: Journal) -> None:
    begun(journal).append([*opening(), *step(1)])
    for _ in range(2):
        journal.record_metrics("s", CONDUCT, PROBES)
    counts = [plain(journal.path, f"SELECT count(*) FROM {table}") for table in ("conduct", "step_conduct", "fact", "probe")]
    assert counts == [[(1,)], [(2,)], [(2,)], [(2,)]]
    with pytest.raises(StoreError, match="no session 'other'"):
        journal.record_metrics("other", CONDUCT, PROBES)


@pytest.mark.parametrize(
    ("table", "record"),
    [("conduct", SessionMetrics), ("fact", FactRecord), ("probe", ProbeRecord)],
)
def test_every_field_of_the_metrics_has_a_column_of_its_own(journal: Journal, table: str, record: type) -> None:
    columns = {row["name"] for row in journal.query(f"PRAGMA table_info({table})")}
    assert columns == {"session", *(field.name for field in fields(record) if field.name != "steps")}


def test_every_count_of_a_step_has_a_column_and_every_column_a_count(journal: Journal) -> None:
    columns = {row["name"] for row in journal.query("PRAGMA table_info(step_conduct)")}
    assert columns == {"session", "step", *STEP_COUNTS}
    counts = dict.fromkeys(STEP_COUNTS, 0)
    with pytest.raises(
        UsageError, match=r"step 3 has counts without a column: colour; declare them in harness/store/columns\.py"
    ):
        StepMetrics(step=3, counts=counts | {"colour": 1})
    del counts["repeats"]
    with pytest.raises(UsageError, match="step 3 lacks counts that columns declare: repeats; compute them in"):
        StepMetrics(step=3, counts=counts)


def test_text_that_is_no_unicode_does_not_cost_a_trial(journal: Journal) -> None:
    journal.record_trial(trial(error="caf\udce9"))
    assert journal.list_trials()[0].error == "caf?"


def test_sessions_are_listed_oldest_first_and_read_by_name(journal: Journal) -> None:
    begun(journal, "late", created_at_ms=9).append(opening("late"))
    begun(journal, "early", created_at_ms=5)
    assert journal.list_session_ids() == ("early", "late")
    assert [entry.event for entry in journal.read_entries("late")] == opening("late")
    with pytest.raises(StoreError, match="no session 'none'"):
        journal.read_entries("none")


def test_a_journal_makes_its_folder_and_survives_being_closed_twice(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "deep" / "down" / "j.sqlite")
    journal.close()
    journal.close()
    assert journal.path.is_file()


def test_a_closed_journal_is_one_file(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j.sqlite") as journal:
        begun(journal).append(opening())
    assert [path.name for path in tmp_path.iterdir()] == ["j.sqlite"]


def test_the_file_is_safe_and_strict(journal: Journal) -> None:
    assert plain(journal.path, "PRAGMA journal_mode") == [("wal",)]
    assert journal.database.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert journal.database.execute("PRAGMA synchronous").fetchone() == (1,)
    with pytest.raises(sqlite3.IntegrityError):
        journal.database.execute("INSERT INTO event (session, seq, kind, at_ms) VALUES (99, 1, 'x', 0)")
    loose = (
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%' AND NOT strict"
    )
    assert plain(journal.path, loose) == []


def test_a_journal_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no journal at .*run the experiment"):
        Journal.open(tmp_path / "j.sqlite", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n" * 100)
    for read_only in (False, True):
        with pytest.raises(StoreError, match="the file is no journal; specify another path"):
            Journal.open(path, read_only=read_only)
    assert path.read_text() == "my notes\n" * 100


def test_a_path_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot create the folder"):
        Journal.open(tmp_path / "file" / "j.sqlite")
    with pytest.raises(StoreError, match="it is a pipe, a device or a folder"):
        Journal.open(tmp_path)
    for read_only in (False, True):
        with pytest.raises(StoreError, match="File name too long; specify another path"):
            Journal.open(tmp_path / f"{'x' * 300}.sqlite", read_only=read_only)


def test_a_reader_sees_what_is_committed_while_a_writer_works(journal: Journal) -> None:
    log = begun(journal)
    log.append(opening())
    with Journal.open(journal.path, read_only=True) as reader:
        assert len(list(reader.read_entries("s"))) == 3
        log.append(step(1))
        assert len(list(reader.read_entries("s"))) == 6
        with pytest.raises(StoreError, match="readonly"):
            reader.record_trial(trial())


def test_a_reader_whose_journal_changes_on_the_disk_gets_an_error_and_no_wrong_rows(tmp_path: Path) -> None:
    """A reader of a journal that nobody writes takes no locks, since they would create files."""
    path = tmp_path / "j.sqlite"
    with Journal.open(path) as journal:
        begun(journal).append(opening())
    with Journal.open(path, read_only=True) as reader:
        assert len(list(reader.read_entries("s"))) == 3
        with Journal.open(path) as journal:
            journal.open_session_log("s", created_at_ms=7, clock=lambda: 1.0).append(step(1))
            assert len(list(reader.read_entries("s"))) == 3, "the file itself has not changed yet"
        for read in (lambda: list(reader.read_entries("s")), lambda: reader.query("SELECT count(*) FROM event")):
            with pytest.raises(StoreError, match="another process changed the file while it was read; read it again"):
                read()
    with Journal.open(path, read_only=True) as reader:
        assert len(list(reader.read_entries("s"))) == 6
        path.unlink()
        assert len(list(reader.read_entries("s"))) == 6, "a deleted file does not change"


def test_a_reader_through_a_link_sees_what_is_committed_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "link.sqlite"
    link.symlink_to(tmp_path / "disk" / "journal.sqlite")
    with Journal.open(link) as writer:
        writer.record_trial(trial("t"))
        with Journal.open(link, read_only=True) as reader:
            assert [one.trial_id for one in reader.list_trials()] == ["t"]


def test_a_query_that_is_wrong_is_an_error_of_ours(journal: Journal) -> None:
    with pytest.raises(StoreError, match="no such column: colour; check the name; a new column that the journal stores needs"):
        journal.query("SELECT colour FROM messages")


def test_the_text_of_an_answer_that_is_coming_is_kept_until_the_agent_goes_on(journal: Journal) -> None:
    log = begun(journal)
    log.append(opening())
    assert journal.read_draft("s") is None
    calls = (ToolCall(call_id="c", name="write_file", arguments_json='{"path": "\\ud83d"'),)
    log.save_draft(UnfinishedStep(4, "I was"))
    log.save_draft(UnfinishedStep(4, "I was about \udc80 to", "hm", calls))
    log.append([MessageQueued(text="later")])
    assert journal.read_draft("s") == UnfinishedStep(4, "I was about ? to", "hm", calls)
    again = begun(journal)
    assert again.length == log.length == len(list(journal.read_entries("s")))
    again.append(step(1))
    assert journal.read_draft("s") is None
    assert plain(journal.path, "SELECT count(*) FROM draft") == [(0,)]
    with pytest.raises(StoreError, match="no session 'other'"):
        journal.read_draft("other")


def test_saved_outputs_belong_to_their_session_and_equal_ones_are_kept_once(journal: Journal) -> None:
    for session_id in ("s1", "s2"):
        begun(journal, session_id)
    one, other = journal.open_outputs("s1", lambda: 5.0), journal.open_outputs("s2", lambda: 5.0)
    name = one.save("long \udc80 text\n" * 500)
    assert one.save("long \udc80 text\n" * 500) == name
    assert one.load(name) == "long \udc80 text\n" * 500
    assert len(journal.query("SELECT * FROM saved_output")) == 1
    with pytest.raises(FileMissing, match=name):
        other.load(name)


def test_a_deleted_output_is_distinguished_from_one_that_was_never_saved(journal: Journal) -> None:
    """S3.1, S3.22: the reason is known from the mark in the log, or from the compaction that moved the output to the store."""
    log = begun(journal, "s1")
    outputs = journal.open_outputs("s1", lambda: 1.0)
    cut, moved = outputs.save("long text"), outputs.save("offloaded text")
    result = ToolResult(call_id="c", name="read_file", output=f"long\n\n{describe_location(cut)}")
    log.append([*opening("s1"), MessageAdded(step=1, message=tool(result)), replace(compaction(forget=[2]), offloaded=(moved,))])
    assert journal.list_saved_outputs("s1") == {cut, moved}
    assert journal.remove_outputs(2_000) == 2
    assert journal.list_saved_outputs("s1") == frozenset()
    for name in (cut, moved):
        with pytest.raises(OutputExpired, match="no longer exists: saved outputs are deleted after 7 days"):
            outputs.load(name)
    with pytest.raises(FileMissing, match="no such file"):
        outputs.load(name_output("never saved"))


def test_outputs_are_removed_when_they_were_kept_long_enough(journal: Journal) -> None:
    begun(journal, "s1")
    old, new = journal.open_outputs("s1", lambda: 1.0), journal.open_outputs("s1", lambda: 2.0)
    first, second = old.save("first"), new.save("second")
    assert journal.remove_outputs(2_000) == 1
    assert new.load(second) == "second"
    with pytest.raises(FileMissing):
        new.load(first)
    assert journal.remove_outputs(2_000) == 0


def test_only_an_active_session_is_marked_as_failed_and_one_that_has_begun_gets_a_last_event(tmp_path: Path) -> None:
    started = SessionStarted(
        session_id="s",
        task="t",
        model="m",
        policy_json="{}",
        window_tokens=1,
        threshold_tokens=None,
        budget_rule="",
        sandbox="none",
    )
    with Journal.open(tmp_path / "j.sqlite") as journal:
        for name in ("empty", "begun", "done"):
            log = journal.open_session_log(name, created_at_ms=1, clock=lambda: 0.001)
            log.append([] if name == "empty" else [replace(started, session_id=name)])
            log.append([SessionEnded(status="completed", reason="replied")] if name == "done" else [])
        for name in ("empty", "begun", "done", "unknown"):
            for _ in range(2):
                journal.fail_session(name, reason="sandbox_error", detail="no engine", clock=lambda: 0.002)
        rows = {row["id"]: tuple(row)[1:] for row in journal.query("SELECT id, status, reason, detail, ended_at FROM sessions")}
        ends = [entry.event for entry in journal.read_entries("begun")][1:]
        assert list(journal.read_entries("empty")) == []
        assert len(list(journal.read_entries("done"))) == 2
    failed = ("failed", "sandbox_error", "no engine", 2)
    assert rows == {"empty": failed, "begun": failed, "done": ("completed", "replied", "", 1)}
    assert ends == [SessionEnded(status="failed", reason="sandbox_error", detail="no engine")]
