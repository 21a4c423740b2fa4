"""Blob stores, tree ids and line counts."""

import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import SandboxError
from harness.files.blobs import TemporaryBlobStore
from harness.protocols import FileState, Snapshot
from harness.sandboxes.snapshots import MAX_LISTED_FILES, compute_tree_id, diff_snapshots, format_path, summarize_patch


def snapshot_of(blobs, files):
    states = {}
    for path, content in files.items():
        sha256 = hashlib.sha256(content).hexdigest()
        blobs.put(sha256, content)
        states[path] = FileState(sha256=sha256, mode=0o100644, size_bytes=len(content))
    return Snapshot(tree_id=compute_tree_id(states), files=states)


LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=12)


@given(LINES, LINES)
def test_added_minus_removed_is_the_growth_and_equal_files_are_not_named(old, new):
    blobs = TemporaryBlobStore()
    diff = diff_snapshots(
        blobs, snapshot_of(blobs, {"f": b"\n".join(old) + b"\n"}), snapshot_of(blobs, {"f": b"\n".join(new) + b"\n"})
    )
    if (old or [b""]) == (new or [b""]):
        assert diff == ()
    else:
        (change,) = diff
        assert change.added_lines - change.removed_lines == len(new or [b""]) - len(old or [b""])
        assert 0 < change.added_lines + change.removed_lines <= len(old or [b""]) + len(new or [b""])


@pytest.mark.slow
def test_a_large_change_is_counted_in_reasonable_time():
    blobs = TemporaryBlobStore()
    older = snapshot_of(blobs, {"f": b"\n".join(b"%d" % n for n in range(100_000))})
    newer = snapshot_of(blobs, {"f": b"\n".join(b"%d" % (n * 2) for n in range(100_000))})
    (change,) = diff_snapshots(blobs, older, newer)
    assert (change.added_lines, change.removed_lines) == (50_000, 50_000)


def make_snapshot(contents):
    """Return a snapshot of files with given contents; a path that ends with a slash is a directory."""
    files = {
        path: FileState(
            sha256=hashlib.sha256(text.encode()).hexdigest(), mode=0o40755 if path.endswith("/") else 0o100644, size_bytes=9
        )
        for path, text in contents.items()
    }
    return Snapshot(tree_id=compute_tree_id(files), files=files)


TREES = st.dictionaries(st.sampled_from(["a", "b", "c", "d/", "\n"]), st.sampled_from(["", "x", "y"]))


@given(TREES, TREES, TREES)
def test_the_hash_of_a_patch_depends_on_the_changes_alone_and_its_files_are_those_that_differ(older, newer, unchanged):
    """S3.6, S3.11."""
    patch = summarize_patch(make_snapshot(older), make_snapshot(newer))
    differing = {path for path in older.keys() | newer.keys() if older.get(path) != newer.get(path) and not path.endswith("/")}
    assert patch.changed_files == tuple(format_path(path) for path in sorted(differing))
    assert bool(patch.patch_hash) == bool(differing)
    beside = {f"other/{path}": text for path, text in unchanged.items()}
    assert summarize_patch(make_snapshot({**older, **beside}), make_snapshot({**newer, **beside})) == patch
    back = summarize_patch(make_snapshot(newer), make_snapshot(older))
    assert back.changed_files == patch.changed_files
    assert (back.patch_hash == patch.patch_hash) == (not differing)


def test_a_patch_of_very_many_files_lists_the_first_of_them():
    many = {f"{number:05}": "x" for number in range(MAX_LISTED_FILES + 5)}
    patch = summarize_patch(make_snapshot({}), make_snapshot(many))
    assert patch.changed_files == tuple(sorted(many))[:MAX_LISTED_FILES]
    assert patch.patch_hash != summarize_patch(make_snapshot({}), make_snapshot({**many, "01004": "y"})).patch_hash


@given(paths=st.dictionaries(st.sampled_from(["a", "a/b", "é", "\udc80x", "z y"]), st.integers(0, 3)))
def test_a_tree_id_is_the_digest_of_one_record_for_each_file_in_order_of_paths(paths):
    files = {path: FileState(sha256=f"{number}", mode=0o100644 + number, size_bytes=number) for path, number in paths.items()}
    digest = hashlib.sha256()
    for path, number in sorted(paths.items()):
        digest.update(b"%o %d %s\0" % (0o100644 + number, number, os.fsencode(path)))
    assert compute_tree_id(files) == digest.hexdigest()


def test_a_tree_id_does_not_depend_on_order_but_on_path_mode_and_content():
    state = FileState(sha256="0" * 64, mode=0o100644, size_bytes=1)
    other = FileState(sha256="0" * 64, mode=0o100755, size_bytes=1)
    assert compute_tree_id({"a": state, "b": other}) == compute_tree_id({"b": other, "a": state})
    ids = {compute_tree_id(files) for files in ({"a": state}, {"b": state}, {"a": other}, {"a": state, "b": state}, {})}
    assert len(ids) == 5


def test_a_content_that_is_not_there_is_an_error():
    with pytest.raises(SandboxError, match="0000"):
        TemporaryBlobStore().get("0" * 64)


def test_paths_that_are_not_utf8_are_shown_escaped():
    assert format_path("a\udcffb") == "a\\xffb"
    assert format_path("ü") == "ü"
