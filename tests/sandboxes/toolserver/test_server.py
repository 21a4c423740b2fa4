"""Requirements on the source of the tool server, which runs in arbitrary images; the contract tests cover its behavior."""

import ast
import hashlib
import json
import marshal
import os
import re
import struct
import subprocess
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sandboxes.framing import BOOTSTRAP
from harness.sandboxes.toolserver import compile_source, server

SOURCE = Path(server.__file__).read_text(encoding="utf-8")


def test_its_syntax_is_that_of_python_3_8():
    ast.parse(SOURCE, feature_version=(3, 8))


def test_the_tool_server_imports_only_the_standard_library():
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(SOURCE))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    assert imported <= sys.stdlib_module_names


def test_the_argument_that_starts_it_is_short_and_names_nothing_of_ours():
    assert len(BOOTSTRAP) < 300
    assert not re.search("harness|token|key", BOOTSTRAP)


@pytest.mark.parametrize("sent", [b"", b"\0\0", struct.pack(">I", 100) + b"half a source"])
def test_a_harness_that_dies_while_it_starts_a_server_leaves_none(sent):
    result = subprocess.run([sys.executable, "-I", "-S", "-c", BOOTSTRAP], input=sent, check=False)
    assert result.returncode == 3


def frame_parts(*parts):
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def start_server(sent):
    command = [sys.executable, "-I", "-S", "-c", BOOTSTRAP]
    return subprocess.run(command, input=sent, capture_output=True, check=False)


@pytest.mark.parametrize("number", [MAGIC_NUMBER, b"none"])
def test_the_tool_server_ends_if_the_harness_dies_before_the_first_request(number):
    result = start_server(frame_parts(SOURCE.encode(), number, compile_source("server")))
    assert (result.returncode, result.stdout) == (0, b"")


@pytest.mark.parametrize(("number", "expected"), [(MAGIC_NUMBER, b"code"), (b"none", b"source")])
def test_code_is_used_only_by_the_version_of_python_that_compiled_it(number, expected):
    code = marshal.dumps(compile("print('code', end='')", "", "exec"))
    assert start_server(frame_parts(b"print('source', end='')", number, code)).stdout == expected


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()) | st.just('a\udc80"\\\n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(value=JSON_VALUES)
def test_the_json_of_the_tool_server_is_that_of_the_module(value):
    text = server.write_json(value)
    assert text == json.dumps(value)
    assert server.parse_json(text.encode()) == json.loads(text)


def test_the_tool_server_starts_without_modules_whose_import_is_slow():
    program = f"import sys\nexec(compile({SOURCE!r}, 'server', 'exec'), {{'__name__': 'server'}})\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert {"_ctypes", "_json"} <= {*done.stdout.split()}
    assert {*done.stdout.split()}.isdisjoint({"re", "enum", "json", "signal", "contextlib", "collections", "functools", "ctypes"})


@pytest.mark.parametrize("size", [0, server.LARGE_FILE_BYTES - 1, server.LARGE_FILE_BYTES])
def test_small_and_large_contents_have_the_same_kind_of_digest(tmp_path, size):
    (tmp_path / "f").write_bytes(bytes(size))
    fd = os.open(tmp_path, os.O_PATH)
    entries = [entry for entry, _ in server.Tree(fd, 10).scan_changes()]
    os.close(fd)
    assert entries[0][3] == hashlib.sha256(bytes(size)).hexdigest()


@given(chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=12), most=st.integers(0, 99))
def test_both_ends_of_a_long_output_are_kept_however_it_arrives(chunks, most):
    """S3.1."""
    whole, (read_fd, write_fd) = b"".join(chunks), os.pipe()
    stream = server.Stream(read_fd, most)
    try:
        for chunk in chunks:
            os.write(write_fd, chunk)
            stream.drain()
            assert stream.kept_bytes <= most
    finally:
        os.close(read_fd)
        os.close(write_fd)
    tail = stream.tail_bytes
    assert stream.produced_bytes == len(whole)
    assert bytes(stream.head + stream.tail) == (
        whole if len(whole) <= most else whole[: most - tail] + whole[len(whole) - tail :]
    )
    assert tail == (most // 2 if len(whole) > most else 0)


class TestWorkspacePaths:
    @pytest.fixture
    def workspace(self, tmp_path):
        return server.Workspace(str(tmp_path))

    @pytest.mark.parametrize("path", ["/workspace/a/b", "a/b", "./a//b/", "/workspace//a/./b"])
    def test_a_path_has_the_same_parts_however_it_is_written(self, workspace, path):
        assert workspace.split_path(path) == ["a", "b"]

    def test_the_real_root_may_be_named_too(self, workspace, tmp_path):
        assert workspace.split_path(f"{tmp_path}/a") == ["a"]

    @pytest.mark.parametrize("path", ["/", "/workspacex", "/etc", "//workspace/../etc"])
    def test_other_absolute_paths_are_refused(self, workspace, path):
        with pytest.raises(server.RequestError):
            workspace.split_path(path)


class TestTree:
    @pytest.fixture
    def outside(self, tmp_path):
        outside = tmp_path / "outside"
        (outside / "inner").mkdir(parents=True)
        for name in ("secret", "inner/secret"):
            (outside / name).write_text("secret")
        return outside

    @pytest.fixture
    def root(self, tmp_path):
        root = tmp_path / "root"
        (root / "d" / "inner").mkdir(parents=True)
        for name in ("d/secret", "d/inner/secret"):
            (root / name).write_text("ours")
        return root

    @pytest.fixture
    def tree(self, root):
        fd = os.open(root, os.O_PATH)
        yield server.Tree(fd, 1_000)
        os.close(fd)

    @pytest.mark.parametrize("number", range(4))
    def test_a_scan_does_not_leave_the_workspace_when_a_directory_becomes_a_link(self, tree, root, outside, number):
        entries = []
        for position, (entry, content) in enumerate(tree.scan_changes()):
            entries.append((entry[0], content))
            if position == number:
                (root / "d").rename(root.parent / "moved")
                (root / "d").symlink_to(outside)
        assert ("d", b"") in entries
        assert b"secret" not in [content for _, content in entries]

    def test_a_file_that_becomes_a_pipe_is_left_out(self, tree, root):
        scan = tree.scan_changes()
        assert next(scan)[0][0] == "d"
        (root / "d" / "inner" / "secret").unlink()
        os.mkfifo(root / "d" / "inner" / "secret")
        assert "d/inner/secret" not in [entry[0] for entry, _ in scan]
        assert tree.is_incomplete

    @pytest.mark.parametrize("name", ["new", "secret", "inner"])
    def test_a_restore_does_not_write_through_a_link(self, tree, root, outside, name):
        (root / "d").rename(root.parent / "moved")
        (root / "d").symlink_to(outside)
        before = sorted(outside.rglob("*"))
        for mode in (0o100644, 0o040700, 0o120777):
            with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
                tree.put(f"d/{name}", mode, b"x" if mode != 0o040700 else b"", append=False, sparse=False)
            with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
                tree.delete(f"d/{name}")
        assert sorted(outside.rglob("*")) == before
        assert (outside / "secret").read_text() == "secret"

    def test_a_directory_below_the_greatest_depth_marks_the_snapshot_as_incomplete(self, tree, root):
        (root / "/".join(["d"] * 210)).mkdir(parents=True)
        list(tree.scan_changes())
        assert tree.is_incomplete

    @pytest.mark.slow
    def test_a_tree_deeper_than_open_files_and_paths_allow_is_deleted(self, tree, root):
        fd = os.open(root / "d", os.O_RDONLY)
        for _ in range(3_000):
            os.mkdir("moved-1", dir_fd=fd)
            below = os.open("moved-1", os.O_RDONLY, dir_fd=fd)
            os.close(os.open("file", os.O_CREAT, dir_fd=fd))
            os.close(fd)
            fd = below
        os.close(fd)
        try:
            tree.delete("d")
            assert list(root.iterdir()) == []
        finally:  # pytest cannot delete a tree of this depth
            subprocess.run(["rm", "-rf", root / "d"], check=True)
