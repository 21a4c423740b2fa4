"""Workspaces in a journal: another connection reads them unchanged, and equal contents are stored once."""

import hashlib
import os
import sqlite3
import stat
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import SandboxError, StoreError
from harness.protocols import FileState, Snapshot
from harness.sandboxes import open_sandbox
from harness.sandboxes.snapshots import compute_tree_id
from harness.store.journal import Journal
from harness.store.merge import merge
from harness.store.workspaces import JournalWorkspaces, MemoryWorkspaces, copy_workspaces
from tests.store.test_texts import ENDLESS


@pytest.fixture(params=["journal", "memory"])
def kept(request, tmp_path):
    if request.param == "memory":
        yield MemoryWorkspaces()
    else:
        with closing(JournalWorkspaces(tmp_path / "j.sqlite")) as workspaces:
            yield workspaces


def snapshot_of(files):
    states = {
        path: FileState(mode=stat.S_IFREG | 0o644, sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
        for path, content in files.items()
    }
    return Snapshot(tree_id=compute_tree_id(states), files=states)


def put_all(workspaces, files):
    for content in files.values():
        workspaces.put(hashlib.sha256(content).hexdigest(), content)
    snapshot = snapshot_of(files)
    workspaces.save(snapshot)
    return snapshot


NAMES = st.binary(min_size=1, max_size=12).map(os.fsdecode)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.dictionaries(NAMES, st.binary(max_size=300), max_size=6))
def test_any_files_under_any_names_come_back_from_the_file(tmp_path_factory, files):
    path = tmp_path_factory.mktemp("kept") / "j.sqlite"
    with closing(JournalWorkspaces(path)) as workspaces:
        snapshot = put_all(workspaces, files)
    with closing(JournalWorkspaces(path)) as again:
        assert again.load(snapshot.tree_id) == snapshot
        assert list(again.load(snapshot.tree_id).files) == list(files), "in the order in which they came into being"
        assert {name: again.get(state.sha256) for name, state in snapshot.files.items()} == files


def test_a_missing_file_or_workspace_is_named_in_the_error(kept):
    with pytest.raises(SandboxError, match="no file content with hash abc"):
        kept.get("abc")
    with pytest.raises(StoreError, match="no workspace abc"):
        kept.load("abc")


def test_content_shared_by_two_workspaces_is_stored_once(tmp_path):
    with closing(JournalWorkspaces(tmp_path / "j.sqlite")) as workspaces:
        put_all(workspaces, {"a": b"same", "b": b"other"})
        put_all(workspaces, {"a": b"same", "c": b"third"})
        put_all(workspaces, {"a": b"same", "c": b"third"})
    with Journal.open(tmp_path / "j.sqlite", read_only=True) as journal:
        assert [journal.query(f"SELECT count(*) FROM {table}")[0][0] for table in ("blob", "tree")] == [3, 2]


@pytest.mark.parametrize("way", ["copied", "merged"])
def test_workspaces_go_with_their_sessions_to_another_journal(tmp_path, way):
    one, other = tmp_path / "one.sqlite", tmp_path / "other.sqlite"
    files = {"a": b"text", "empty": b""}
    with closing(JournalWorkspaces(one)) as source, closing(JournalWorkspaces(other)) as target:
        snapshot = put_all(source, files)
        if way == "copied":
            copy_workspaces([snapshot.tree_id], source, target)
        else:
            with Journal.open(other) as journal:
                merge(one, journal)
        assert target.load(snapshot.tree_id) == snapshot
        assert {name: target.get(state.sha256) for name, state in snapshot.files.items()} == files


@pytest.mark.bubblewrap
def test_a_workspace_is_restored_in_another_sandbox_with_links_modes_and_empty_files(tmp_path):
    path = tmp_path / "j.sqlite"
    command = "mkdir -p a/b none; printf x > a/b/c; touch empty; chmod 755 a/b/c; ln -s a/b/c link"
    with closing(JournalWorkspaces(path)) as kept, closing(open_sandbox("bubblewrap", session_id="one").use_blobs(kept)) as first:
        first.start()
        first.run(f"{command}; head -c 300000 /dev/urandom > large")
        snapshot = first.snapshot()
        kept.save(snapshot)
        digest = first.run("sha256sum large").stdout
    with (
        closing(JournalWorkspaces(path)) as kept,
        closing(open_sandbox("bubblewrap", session_id="two").use_blobs(kept)) as second,
    ):
        second.start()
        second.restore(kept.load(snapshot.tree_id))
        assert second.snapshot().tree_id == snapshot.tree_id
        assert second.run("sha256sum large").stdout == digest
        assert second.run("./a/b/c; readlink link; ls -d none").stdout == b"a/b/c\nnone\n"


def test_contents_that_are_too_large_are_refused_with_their_file(tmp_path):
    path = tmp_path / "j.sqlite"
    with closing(JournalWorkspaces(path)) as workspaces:
        snapshot = put_all(workspaces, {"a": b"content"})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE blob SET data = ?", (ENDLESS,))
        connection.execute("UPDATE tree SET data = ?", (ENDLESS,))
    with closing(JournalWorkspaces(path)) as workspaces:
        with pytest.raises(
            StoreError, match=rf"workspace {snapshot.tree_id} in journal '.*j\.sqlite' has 1,099,511,627,776 bytes"
        ):
            workspaces.load(snapshot.tree_id)
        with pytest.raises(
            StoreError, match=rf"file content with hash {snapshot.files['a'].sha256} in journal '.*j\.sqlite' has 1,0"
        ):
            workspaces.get(snapshot.files["a"].sha256)
