"""Clean-up removes unneeded data and nothing else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.store.journal import Journal
from harness.store.sessions.cleanup import clean
from tests.store.samples import begun, events, opening, step, ticking


@settings(max_examples=40)
@given(st.lists(events(), min_size=1, max_size=3))
def test_a_journal_that_is_cleaned_says_the_same_as_before(tmp_path_factory, logs):
    with Journal.open(tmp_path_factory.mktemp("j") / "j.sqlite") as journal:
        for number, batches in enumerate(logs):
            log = begun(journal, f"s{number}")
            for batch in batches:
                log.append(batch)
        before = [list(journal.read_entries(name)) for name in journal.list_session_ids()]
        done = clean(journal, outputs_before_ms=0, quiet_before_ms=10**13)
        assert (done.outputs, done.texts) == (0, 0)
        assert [list(journal.read_entries(name)) for name in journal.list_session_ids()] == before


def test_old_outputs_and_the_texts_of_deleted_sessions_go_and_their_space_comes_back(tmp_path):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        for name in ("kept", "gone"):
            log = begun(journal, name)
            log.append(opening(name))
            for number in range(1, 60):
                log.append(step(number, f"{name} {number} {'x' * 5_000}{number * 'yz'}"))
        outputs = journal.open_outputs("kept", ticking(1_000.0).__next__)
        outputs.save("old" * 5_000)
        journal.open_outputs("kept", ticking(9_000.0).__next__).save("new" * 5_000)
        journal.database.execute("DELETE FROM session WHERE id = 'gone'")
        done = clean(journal, outputs_before_ms=5_000_000, quiet_before_ms=0)
        assert (done.outputs, done.texts) == (1, 59)
        assert done.freed_bytes > 0
        assert len(list(journal.read_entries("kept"))) == 3 + 3 * 59
        assert clean(journal, outputs_before_ms=5_000_000, quiet_before_ms=0)[:3] == (0, 0, 0)
