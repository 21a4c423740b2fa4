"""The information barrier: nothing in the scripted models knows which policy is at work."""

import ast
from pathlib import Path

import harness.models.scripted
from harness.compaction.presets import PRESETS

FILES = sorted(Path(harness.models.scripted.__file__).parent.glob("**/*.py"))


def test_no_scripted_model_names_a_policy() -> None:
    for path in FILES:
        strings = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert not strings & set(PRESETS), f"{path.name} names a policy"


def test_no_scripted_model_imports_the_compaction_room() -> None:
    assert len(FILES) > 3
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if "compaction" in name], f"{path.name} imports {names}"
