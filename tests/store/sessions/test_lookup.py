import pytest

from harness.errors import StoreError, UsageError
from harness.session.ids import TimeOrderedIds
from harness.store.journal import Journal
from harness.store.sessions.lookup import find_session, iter_sessions, list_journals
from tests.store.samples import begun, opening, trial


def write(path, *names, trial_of=""):
    with Journal.open(path) as journal:
        for number, name in enumerate(names):
            begun(journal, name, created_at_ms=number).append(opening(name))
            if trial_of:
                journal.record_trial(trial(trial_of, name))
    return path


@pytest.mark.slow
def test_a_session_is_located_in_a_file_an_experiment_and_its_output(tmp_path):
    path = write(tmp_path / "tiny" / "output" / "journal.sqlite", "abc", trial_of="t-1")
    for place in (path, tmp_path / "tiny", tmp_path / "tiny" / "output"):
        for name in ("abc", "ab", "t-1", "t", ""):
            assert (
                find_session(name, [place]) == find_session(name, place) == find_session(name, str(place)) == (path, "abc", "t-1")
            )
    assert [entry.event for entry in find_session("abc", [path]).read_entries()] == opening("abc")


def test_an_exact_name_has_priority_over_the_beginning_of_others(tmp_path):
    path = write(tmp_path / "j.sqlite", "a", "ab", "abc")
    assert find_session("ab", [path]).session_id == "ab"
    with pytest.raises(UsageError, match="there are 3 sessions: a in"):
        find_session("", [path])


def test_a_beginning_that_several_share_is_refused_with_their_names(tmp_path):
    one, other = write(tmp_path / "one.sqlite", "abc", "abd"), write(tmp_path / "other.sqlite", "abe")
    with pytest.raises(UsageError, match=r"3 sessions match 'ab': abc in .*one.sqlite', abd in .* abe in .*; specify one"):
        find_session("ab", [one, other])
    with pytest.raises(UsageError, match="no session id begins or ends with 'x'"):
        find_session("x", [one, other])


def test_ids_that_sort_by_time_are_distinguished_by_their_ends(tmp_path):
    """S3.13. Such ids have the same beginning if their sessions began on the same day."""
    ids = TimeOrderedIds(iter([1.7e9, 1.7e9 + 3600, 1.7e9 + 3600]).__next__)
    morning, noon, child = ids.make_descending(), ids.make_descending(), ids.make_ascending()
    path = write(tmp_path / "j.sqlite", morning, noon, f"{noon}.{child}", "0123abcd")
    assert morning[:4] == noon[:4]
    with pytest.raises(UsageError, match=f"2 sessions match '{noon[:4]}'"):
        find_session(noon[:4], [path])
    for length in (8, 12, 26):
        assert [find_session(one[-length:], [path]).session_id for one in (morning, noon)] == [morning, noon]
    assert find_session(child[-8:], [path]).session_id == f"{noon}.{child}"
    assert find_session(f"{noon}.", [path]).session_id == f"{noon}.{child}"
    assert find_session("0123", [path]).session_id == find_session("abcd", [path]).session_id == "0123abcd"


def test_an_end_that_is_the_beginning_of_another_session_is_refused(tmp_path):
    path = write(tmp_path / "j.sqlite", "abc", "bcd")
    with pytest.raises(UsageError, match="2 sessions match 'bc'"):
        find_session("bc", [path])


def test_a_session_that_is_just_being_brought_in_is_there_once(tmp_path):
    output = tmp_path / "output"
    write(output / "journal.sqlite", "a", "b")
    write(output / "journals" / "b.sqlite", "b")
    (output / "journals" / "half.sqlite").write_bytes(b"")
    assert [one.session_id for one in iter_sessions([output])] == ["b", "a"]
    assert len(list_journals(output)) == 3


def test_a_folder_of_journals_is_a_place(tmp_path):
    one, other = write(tmp_path / "one.sqlite", "abc"), write(tmp_path / "other.sqlite", "abd")
    assert list_journals(tmp_path) == (one, other)
    assert find_session("abd", [tmp_path]).journal == other


def test_a_place_without_a_journal_is_refused(tmp_path):
    with pytest.raises(StoreError, match="there is no journal in"):
        list(iter_sessions([tmp_path]))
    broken = tmp_path / "output" / "journal.sqlite"
    broken.parent.mkdir()
    broken.write_text("no SQLite at all, but long enough to be looked at" * 10)
    with pytest.raises(StoreError, match="not a database"):
        find_session("", [tmp_path])
