"""Requirements on the source of the tool server, which runs in arbitrary images; the contract tests cover its behavior."""

import ast
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from harness.sandboxes.framing import BOOTSTRAP
from harness.sandboxes.toolserver import server

SOURCE = Path(server.__file__).read_text(encoding="utf-8")


def test_its_syntax_is_that_of_python_3_8():
    ast.parse(SOURCE, feature_version=(3, 8))


def test_it_imports_nothing_but_the_standard_library():
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
    result = subprocess.run([sys.executable, "-I", "-S", "-c", BOOTSTRAP], input=sent, timeout=20, check=False)
    assert result.returncode == 3


def test_a_harness_that_dies_before_the_first_request_leaves_none():
    source = SOURCE.encode()
    sent = struct.pack(">I", len(source)) + source
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", BOOTSTRAP], input=sent, capture_output=True, timeout=20, check=False
    )
    assert (result.returncode, result.stdout) == (0, b"")


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
