"""Storage of actions: damage counts as a miss, the oldest entries are evicted, and processes may be killed at any time."""

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import StoreError
from harness.files.object_store import ObjectStore
from harness.protocols import ExecResult
from harness.sandboxes.action_cache.cache import CACHE_FILE, ActionCache
from harness.sandboxes.action_cache.entry import CacheEntry, ChangedPath, pack_entry, unpack_entry
from tests.sandboxes.action_cache.storing import key, make_entry
from tests.stores import STORES, open_store_url

WORKER = Path(__file__).with_name("storing.py")


paths = st.text(max_size=20)
entries = st.builds(
    CacheEntry,
    result=st.builds(
        ExecResult, exit_code=st.integers(0, 255), stdout=st.binary(), stderr=st.binary(), stdout_bytes=st.integers(0, 99),
        stderr_bytes=st.integers(0, 99), timed_out=st.just(False), oom_killed=st.just(False), seconds=st.floats(0, 9),
    ),
    deleted_paths=st.lists(paths).map(tuple),
    changed_paths=st.lists(st.builds(ChangedPath, path=paths, mode=st.integers(0, 2**16), content=st.binary())).map(tuple),
    name_orders=st.dictionaries(paths, st.lists(paths).map(tuple)),
    state_id=paths,
)  # fmt: skip


@given(entries, st.binary())
def test_an_entry_comes_back_as_it_was(entry, name):
    assert unpack_entry(name, pack_entry(name, entry)) == entry


@given(entries, st.data())
def test_any_damage_is_seen_and_so_is_the_wrong_key(entry, data):
    whole = pack_entry(b"key", entry)
    at = data.draw(st.integers(0, len(whole) - 1))
    bent = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert unpack_entry(b"key", bent) is unpack_entry(b"key", cut) is unpack_entry(b"other", whole) is None


def test_an_entry_stored_by_one_cache_object_is_found_by_another(tmp_path):
    with closing(ActionCache(tmp_path)) as one, closing(ActionCache(tmp_path)) as other:
        one.put(key(1), make_entry(1), task="t", command="c")
        assert other.get(key(1)) == make_entry(1)
        assert other.get(key(2)) is None
        one.put(key(1), make_entry(2), task="t", command="c")
        assert other.get(key(1)) == make_entry(2)
        other.flush()
        assert (one.read_summary().entries, one.read_summary().hits) == (1, 0 + 2)


def test_a_damaged_cache_entry_is_a_miss_and_is_removed(tmp_path):
    with closing(ActionCache(tmp_path)) as cache:
        cache.put(key(1), make_entry(1), task="t", command="c")
        with closing(sqlite3.connect(tmp_path / CACHE_FILE)) as connection, connection:
            connection.execute("UPDATE entry SET data = CAST(substr(data, 1, 40) || x'00' || substr(data, 42) AS BLOB)")
        assert cache.get(key(1)) is None
        assert cache.read_summary().entries == 0


@pytest.mark.parametrize("where", [0, 4096, 20_000])
def test_a_damaged_file_is_replaced_and_never_an_error(tmp_path, where):
    with closing(ActionCache(tmp_path)) as cache:
        for number in range(50):
            cache.put(key(number), make_entry(number, 2_000), task="t", command="c")
    file = tmp_path / CACHE_FILE
    content = file.read_bytes()
    file.write_bytes(content[:where] + bytes(random.Random(1).randbytes(8_192)) + content[where + 8_192 :])
    with closing(ActionCache(tmp_path)) as cache:
        for number in range(50):
            assert cache.get(key(number)) in (None, make_entry(number))
        for number in range(50, 150):
            cache.put(key(number), make_entry(number, 2_000), task="t", command="c")
        assert sum(cache.get(key(number)) == make_entry(number, 2_000) for number in range(50, 150)) >= 90
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_file_of_another_form_is_replaced(tmp_path):
    with closing(ActionCache(tmp_path)) as cache:
        cache.put(key(1), make_entry(1), task="t", command="c")
    with closing(sqlite3.connect(tmp_path / CACHE_FILE)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with closing(ActionCache(tmp_path)) as cache:
        assert cache.read_summary().entries == 0
        cache.put(key(1), make_entry(1), task="t", command="c")
        assert cache.get(key(1)) == make_entry(1)


def test_the_least_recently_used_entries_are_removed_to_keep_the_size_limit(tmp_path):
    with closing(ActionCache(tmp_path, max_bytes=100_000)) as cache:
        for number in range(300):
            cache.put(key(number), make_entry(number, 1_000), task="t", command="c")
            assert cache.get(key(0)) is not None
            cache.flush()
        left = [number for number in range(300) if cache.get(key(number))]
        assert left[0] == 0
        assert left[1:] == list(range(300 - len(left) + 1, 300))
        assert 60 < len(left) < 100
        assert cache.read_summary().size_bytes <= 100_000
        cache.put(key(999), make_entry(999, 20_000), task="t", command="c")
        assert cache.get(key(999)) is None
    assert (tmp_path / CACHE_FILE).stat().st_size < 400_000


def test_the_largest_entries_are_listed_by_task_and_clear_removes_all(tmp_path):
    with closing(ActionCache(tmp_path)) as cache:
        for number, task in enumerate(["a", "b", "a"]):
            cache.put(
                key(number), make_entry(number, 1_000 * (number + 1)), task=task, command=f"echo {number} \udcff" + "x" * 999
            )
        assert [kept.task for kept in cache.list_largest(2)] == ["a", "b"]
        assert [kept.command[:6] for kept in cache.list_largest(9, task="a")] == ["echo 2", "echo 0"]
        cache.clear()
        assert (cache.read_summary().entries, cache.read_summary().size_bytes) == (0, 0)
        assert cache.get(key(1)) is None


def test_only_the_user_can_read_it(tmp_path):
    folder = tmp_path / "made" / "here"
    with closing(ActionCache(folder)) as cache:
        cache.put(key(1), make_entry(1), task="t", command="c")
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}


def test_a_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file.*name another folder"):
        ActionCache(tmp_path / "file" / "below")


@pytest.mark.slow
def test_processes_that_race_and_are_killed_leave_a_sound_cache(tmp_path):
    killed = subprocess.run([sys.executable, str(WORKER), str(tmp_path)], capture_output=True, text=True, check=True)
    assert (killed.stdout.split(), killed.stderr) == (["-9"] * 24, "")
    with closing(ActionCache(tmp_path)) as cache, closing(sqlite3.connect(tmp_path / CACHE_FILE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT bytes FROM total").fetchone()[0] == cache.read_summary().size_bytes
        intact = [number for number in range(500) if (entry := cache.get(key(number))) and entry == make_entry(number, 3_000)]
        assert cache.read_summary().entries == len(intact) > 50
        assert cache.read_summary().hits > 0


@pytest.mark.parametrize("kind", STORES)
def test_an_entry_of_one_machine_is_a_hit_on_another_through_the_store(kind, tmp_path, monkeypatch):
    with open_store_url(kind, tmp_path, monkeypatch) as url:
        one, other = ActionCache(tmp_path / "one", store=url), ActionCache(tmp_path / "other", store=url)
        assert other.get(key(1)) is None
        one.put(key(1), make_entry(1), task="flashcards", command="ls")
        assert other.get(key(1)) == make_entry(1)
        assert other.list_largest(9)[0].task == "flashcards"
        ObjectStore(url).write(f"actions/{key(1).hex()[:2]}/{key(1).hex()}", b"{}\ndamaged")
        assert other.get(key(1)) == make_entry(1)  # copied to its own folder
        assert ActionCache(tmp_path / "third", store=url).get(key(1)) is None


def test_a_store_that_cannot_be_written_has_no_entries(tmp_path):
    (tmp_path / "file").write_text("")
    cache = ActionCache(tmp_path / "cache", store=f"file://{tmp_path}/file/store")
    cache.put(key(1), make_entry(1), task="t", command="c")
    assert cache.get(key(1)) == make_entry(1)
    assert cache.get(key(2)) is None
