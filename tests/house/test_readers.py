"""Everything from outside is read through `harness.files.bounded_input`, which limits sizes and refuses pipes and devices."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.house.source import modules

READERS = {"click.File", "input", "json.load", "os.fdopen", "os.open", "pickle.load", "tomllib.load", "urlopen"}
"""Functions that read without a limit, or open what others read; `open` and methods are recognised in `find_readers`."""
METHODS = {"read_bytes", "read_csv", "read_feather", "read_json", "read_parquet", "read_table", "readlines"}

ELSEWHERE = {
    "harness/files/bounded_input.py": "the reader with a limit itself",
    "harness/sandboxes/toolserver/": "runs inside the sandbox, whose memory is limited, and reads with limits of its own",
    "harness/testing/": "runs in tests: programs for sandboxes, and files of this package",
    "harness/task_checks/": "runs in checks of tasks: programs for sandboxes, and files of this package",
}
"""Files and folders that are not searched, with the reason."""

LIST = Path(__file__).with_name("readers.txt")
"""Calls that read in another way, one on a line: file, call, and what it reads or why that is safe."""


def is_reader(call: ast.Call) -> bool:
    """Return whether a call reads, or opens for reading, without a limit."""
    name, method = ast.unparse(call.func), call.func.attr if isinstance(call.func, ast.Attribute) else ""
    first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    if name == "open" or (method == "open" and name != "os.open"):
        mode = call.args[len(call.args) > 1 and name == "open"] if call.args else None
        if mode is None or (name == "open" and len(call.args) == 1):
            return True
        if not (isinstance(mode, ast.Constant) and isinstance(mode.value, str)):
            return False  # a method of another kind, such as Journal.open(path)
        return "+" in mode.value or not set("wxa") & set(mode.value)
    if method == "read":
        return not (call.args or call.keywords) or ast.unparse(call).endswith("(-1)")
    if method == "read_text":  # the method of this name in `harness.recordings` takes the name of a field
        return not call.args or first in ("utf-8", "utf8")
    return name in READERS or name.removeprefix("urllib.request.") in READERS or method in METHODS


def find_readers(tree: ast.AST) -> list[str]:
    return [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call) and is_reader(node)]


@cache
def list_calls() -> set[tuple[str, str]]:
    """Return all calls of this package that read without a limit, each with its file."""
    searched = [module for module in modules() if not module.path.startswith(tuple(ELSEWHERE))]
    return {(module.path, call) for module in searched for call in find_readers(module.tree)}


def read_list() -> dict[tuple[str, str], str]:
    """Return the reasons of the listed calls, by file and call."""
    reasons = {}
    for line in LIST.read_text().splitlines():
        place, _, reason = line.rpartition("  # ")
        path, _, call = place.partition(": ")
        reasons[path, call] = reason
    return reasons


def test_every_place_that_reads_without_a_limit_is_listed_with_its_reason():
    assert list_calls() - read_list().keys() == set(), f"read through files.bounded_input, or list the call in {LIST.name}"


def test_no_listed_place_is_gone_or_without_a_reason():
    assert all(read_list().values())
    assert read_list().keys() - list_calls() == set()


@pytest.mark.parametrize(
    "call",
    [
        "path.read_text()", "path.read_text('utf-8')", "path.read_bytes()", "path.open()", "path.open('rb')", "open(path)",
        "open(path, 'r+')", "json.load(file)", "tomllib.load(file)", "file.read()", "sys.stdin.read()", "file.read(-1)",
        "file.readlines()", "input()", "pd.read_csv(path)", "pd.read_parquet(path)", "urllib.request.urlopen(url)",
        "click.File(encoding='utf-8')", "os.open(path, os.O_RDONLY)", "path.open(encoding='utf-8')",
    ],
)  # fmt: skip
def test_every_way_to_read_without_a_limit_is_recognised(call):
    assert find_readers(ast.parse(call)) == [call]


@pytest.mark.parametrize(
    "call",
    [
        "read_input(path, 10)", "file.read(10)", "path.open('wb')", "path.open('a')", "open(path, 'x')",
        "file.read(columns=names)", "submission.read_text('a.py')", "json.loads(text)", "Journal.open(path)",
    ],
)  # fmt: skip
def test_reading_with_a_limit_and_writing_are_not_restricted(call):
    assert find_readers(ast.parse(call)) == []
