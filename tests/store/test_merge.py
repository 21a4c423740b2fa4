import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings

from harness.conversation.events import Entry, Event
from harness.errors import StoreError
from harness.store.journal import Journal
from harness.store.merge import merge
from harness.store.records import StepActions
from harness.store.sessions.cleanup import clean
from harness.testing.strategies import multi_turn_logs
from tests.store.samples import CONDUCT, ENDED, PROBES, begun, checks, compaction, opening, plain, step, trial

LONG = "the same long output\n" * 100


@pytest.fixture
def target(tmp_path: Path):
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        yield journal


def small(path: Path, session_id: str, events: list[Event], created_at_ms: int = 7) -> Path:
    with Journal.open(path) as journal:
        begun(journal, session_id, created_at_ms).append(events)
    return path


def content_of(path: Path) -> list[list[tuple[object, ...]]]:
    """Return the contents of a journal without keys, which depend on the order of insertion."""
    tables = ("whole_event", "version", "retired", "step", "compaction", "conduct", "step_conduct", "fact", "probe")
    return [
        plain(path, "SELECT * FROM sessions ORDER BY id"),
        plain(path, "SELECT * FROM text ORDER BY address"),
        plain(path, 'SELECT * FROM "check" ORDER BY trial_id, "check"'),
        plain(path, "SELECT trial_id, session_id FROM trial ORDER BY trial_id"),
        *(
            plain(path, f"SELECT s.id, t.* FROM {name} AS t JOIN session AS s ON s.key = t.session ORDER BY 1, 3, 4")
            for name in tables
        ),
    ]


def test_a_merged_session_is_the_same_in_every_table(tmp_path: Path, target: Journal) -> None:
    events = [*opening(), *step(1, LONG), *step(2), compaction(forget=[4, 5]), ENDED]
    source = small(tmp_path / "a.sqlite", "s", events)
    with Journal.open(source) as journal:
        journal.record_metrics("s", CONDUCT, PROBES)
        journal.record_trial(trial(), checks())
    merge(source, target)
    assert content_of(target.path) == content_of(source)
    assert [entry.event for entry in target.read_entries("s")] == events
    assert target.list_trials() == (trial(),)
    assert target.list_checks("t") == checks()


def test_texts_that_journals_share_are_kept_once(tmp_path: Path, target: Journal) -> None:
    for name in ("a", "b", "c"):
        merge(small(tmp_path / f"{name}.sqlite", name, [*opening(name), *step(1, LONG)]), target)
    assert plain(target.path, "SELECT count(*) FROM text") == [(1,)]
    assert set(target.list_session_ids()) == {"a", "b", "c"}
    assert [entry.event for entry in target.read_entries("c")] == [*opening("c"), *step(1, LONG)]


def test_merging_again_changes_nothing(tmp_path: Path, target: Journal) -> None:
    source = small(tmp_path / "a.sqlite", "s", [*opening(), *step(1, LONG)])
    with Journal.open(source) as journal:
        journal.record_trial(trial(), checks())
    merge(source, target)
    before = content_of(target.path), plain(target.path, "SELECT * FROM trial")
    merge(source, target)
    assert (content_of(target.path), plain(target.path, "SELECT * FROM trial")) == before


def test_a_session_that_was_run_again_replaces_the_older_one(tmp_path: Path, target: Journal) -> None:
    merge(small(tmp_path / "old.sqlite", "s", [*opening(), *step(1), *step(2)], created_at_ms=5), target)
    merge(small(tmp_path / "new.sqlite", "s", [*opening(), *step(9)], created_at_ms=6), target)
    assert [entry.event for entry in target.read_entries("s")] == [*opening(), *step(9)]
    merge(tmp_path / "old.sqlite", target)
    assert [entry.event for entry in target.read_entries("s")] == [*opening(), *step(9)]


def test_a_merged_session_that_continued_is_updated(tmp_path: Path, target: Journal) -> None:
    source = small(tmp_path / "a.sqlite", "s", opening())
    merge(source, target)
    with Journal.open(source) as journal:
        begun(journal).append(step(1))
    merge(source, target)
    assert len(list(target.read_entries("s"))) == 6


def test_merging_a_missing_journal_is_refused(tmp_path: Path, target: Journal) -> None:
    with pytest.raises(StoreError, match="no journal at"):
        merge(tmp_path / "none.sqlite", target)


def test_a_damaged_journal_is_named_and_nothing_is_merged(tmp_path: Path, target: Journal) -> None:
    source = small(tmp_path / "damaged.sqlite", "s", opening("s"))
    content = source.read_bytes()
    source.write_bytes(content[:100] + b"\xff" * 3_996 + content[4_096:])
    with pytest.raises(StoreError, match=r"damaged\.sqlite.*malformed"):
        merge(source, target)
    assert target.list_session_ids() == ()


def test_a_merge_that_fails_changes_nothing_and_another_may_follow(tmp_path: Path, target: Journal) -> None:
    source = small(tmp_path / "a.sqlite", "s", [*opening(), *step(1, LONG)])
    target.database.execute("CREATE TRIGGER full BEFORE INSERT ON step BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    with pytest.raises(StoreError, match="disk is full"):
        merge(source, target)
    assert target.list_session_ids() == ()
    assert plain(target.path, "SELECT count(*) FROM text") == [(0,)]
    target.database.execute("DROP TRIGGER full")
    merge(source, target)
    assert target.list_session_ids() == ("s",)


def test_counts_of_actions_are_merged_with_their_session(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "source.sqlite") as source:
        begun(source, "one").append([*opening(), *step(1), *step(2)])
        source.record_actions("one", [StepActions(1, 0, 1), StepActions(2, 3, 0)])
    with Journal.open(tmp_path / "target.sqlite") as target:
        begun(target, "other").append(opening())
        for _ in range(2):
            merge(tmp_path / "source.sqlite", target)
        rows = target.query("SELECT s.id, a.step, a.hits, a.misses FROM action AS a JOIN session AS s ON s.key = a.session")
        assert [tuple(row) for row in rows] == [("one", 1, 0, 1), ("one", 2, 3, 0)]


def test_saved_outputs_are_merged_with_their_session(tmp_path: Path, target: Journal) -> None:
    source = small(tmp_path / "a.sqlite", "s1", [*opening()])
    with Journal.open(source) as journal:
        name = journal.open_outputs("s1", lambda: 3.0).save(LONG)
    merge(source, target)
    merge(source, target)
    assert target.open_outputs("s1", lambda: 4.0).load(name) == LONG
    assert plain(target.path, "SELECT created_at_ms FROM saved_output") == [(3_000,)]


def test_the_sub_agents_of_a_trial_that_is_run_again_are_replaced_with_it(tmp_path: Path, target: Journal) -> None:
    """S3.20: a run that sent fewer sub-agents leaves none of the older ones behind."""
    for run, sub_agents in enumerate((("s.000001", "s.000002"), ("s.000001",))):
        path = small(tmp_path / f"{run}.sqlite", "s", [*opening(), *step(1)], created_at_ms=5 + run)
        for name in sub_agents:
            small(path, name, [*opening(name), *step(1 + run)], created_at_ms=5 + run)
        with Journal.open(path) as journal:
            journal.record_trial(replace(trial(), session_id="s"), checks())
        merge(path, target)
    assert set(target.list_session_ids()) == {"s", "s.000001"}
    assert [entry.event for entry in target.read_entries("s.000001")] == [*opening("s.000001"), *step(2)]


def test_sessions_of_no_trial_lose_no_other_session_whose_id_begins_alike(tmp_path: Path, target: Journal) -> None:
    merge(small(tmp_path / "other.sqlite", "s.mine", opening()), target)
    merge(small(tmp_path / "old.sqlite", "s", opening(), created_at_ms=5), target)
    merge(small(tmp_path / "new.sqlite", "s", [*opening(), *step(1)], created_at_ms=6), target)
    assert set(target.list_session_ids()) == {"s", "s.mine"}


def test_merging_one_session_leaves_the_other_sessions_of_the_target_unchanged(tmp_path: Path, target: Journal) -> None:
    merge(small(tmp_path / "old.sqlite", "other", opening(), created_at_ms=5), target)
    source = small(tmp_path / "new.sqlite", "other", [*opening(), *step(1)], created_at_ms=6)
    merge(small(source, "s", [*opening(), *step(2)], created_at_ms=6), target, only="s")
    assert [entry.event for entry in target.read_entries("other")] == opening()
    assert [entry.event for entry in target.read_entries("s")] == [*opening(), *step(2)]


def fill(journal: Journal, count: int) -> None:
    for number in range(count):
        begun(journal, f"{number}").append([*opening(f"{number}"), *step(1)])
        journal.record_trial(trial(f"t{number}", f"{number}"), checks(f"t{number}"))


def count_instructions(source: Path, target: Journal, only: str | None = None) -> int:
    """Return how many thousands of instructions SQLite executes to merge a journal into another."""
    calls: list[int] = []
    connection = target.database.execute("SELECT 1").connection
    connection.set_progress_handler(lambda: calls.append(1), 1_000)
    merge(source, target, only=only)
    connection.set_progress_handler(None, 0)
    return len(calls)


@pytest.mark.slow
@pytest.mark.parametrize("is_run_again", [False, True])
def test_the_cost_of_merging_a_trial_does_not_grow_with_the_target(tmp_path: Path, is_run_again: bool) -> None:
    """Otherwise an experiment of many trials would take time that grows with their square."""
    counts = []
    for size in (10, 1_000):
        with Journal.open(tmp_path / f"{size}.sqlite") as target:
            fill(target, size)
            source = tmp_path / f"source-{size}.sqlite"
            with Journal.open(source) as journal:
                session_id, trial_id = ("0", "t0") if is_run_again else ("s", "t")
                begun(journal, session_id, 9).append([*opening(session_id), *step(1, LONG)])
                journal.record_trial(trial(trial_id, session_id), checks(trial_id))
            counts.append(count_instructions(source, target))
    assert counts[1] <= counts[0] + 1, counts


@pytest.mark.slow
def test_the_cost_of_taking_one_session_out_does_not_grow_with_the_source(tmp_path: Path) -> None:
    counts = []
    for size in (10, 1_000):
        source = tmp_path / f"{size}.sqlite"
        with Journal.open(source) as journal:
            fill(journal, size)
        with Journal.open(tmp_path / f"target-{size}.sqlite") as target:
            counts.append(count_instructions(source, target, only="7"))
            assert target.list_session_ids() == ("7",)
            assert [trial.trial_id for trial in target.list_trials()] == ["t7"]
    assert counts[1] <= counts[0] + 1, counts


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=15)
@given(multi_turn_logs())
def test_equal_events_of_merged_sessions_are_stored_once_and_come_back_after_a_clean_up(entries: list[Entry]) -> None:
    events = [entry.event for entry in entries]
    with TemporaryDirectory() as folder, Journal.open(Path(folder) / "target.sqlite") as target:
        sources = [small(Path(folder) / f"{name}.sqlite", name, events) for name in ("a", "b")]
        for source in (*sources, sources[0]):
            merge(source, target)
        alone = plain(sources[0], "SELECT data FROM body ORDER BY data")
        assert plain(target.path, "SELECT data FROM body ORDER BY data") == alone == sorted(set(alone))
        for gone, kept in (("a", ["b"]), ("b", [])):
            clean(target, outputs_before_ms=0)
            target.database.execute("DELETE FROM session WHERE id = ?", (gone,))
            clean(target, outputs_before_ms=0)
            assert [[entry.event for entry in target.read_entries(name)] for name in kept] == [events] * len(kept)
        assert plain(target.path, "SELECT count(*) FROM body") == [(0,)]


def test_events_of_an_older_journal_are_read_and_merged_beside_new_ones(tmp_path: Path, target: Journal) -> None:
    source = small(tmp_path / "old.sqlite", "old", [*opening("old"), *step(1)])
    with closing(sqlite3.connect(source)) as connection:  # as in journals of schema 23
        connection.execute("UPDATE event SET body = (SELECT data FROM body WHERE key = body_key), body_key = NULL")
        connection.execute("DELETE FROM body")
        connection.commit()
    merge(source, target)
    begun(target, "new").append([*opening("old"), *step(1)])
    assert [list(target.read_entries(name)) for name in ("old", "new")] == [list(target.read_entries("new"))] * 2
    rows = [plain(target.path, f"SELECT role, content FROM messages WHERE session_id = '{name}'") for name in ("old", "new")]
    assert len(rows[0]) == 4
    assert rows[0] == rows[1]
