"""The house's sizes: a module, a function and a folder stop somewhere. A longer one needs its reason here."""

from collections import Counter
from pathlib import PurePosixPath

import pytest

from tests.house.source import Module, body_lines, is_command, modules, parameters, parse

MODULE_LINES = 350
BODY_LINES = 50
PARAMETERS = 6
MODULES_IN_FOLDER = 12

LONGER_MODULES = {
    "harness/sandboxes/inside/server.py": (750, "it is sent into the sandbox as one source text, so it cannot be two files"),
}
SHORTER_MODULES = {
    "harness/agent/loop.py": (200, "it is what a newcomer reads first"),
}
LONGER_BODIES: dict[str, str] = {}
MORE_PARAMETERS: dict[str, str] = {}
FULLER_FOLDERS: dict[str, str] = {
    "harness/compaction/presets": "one file a family of policies; they do not know each other",
    "harness/cli": "one file a command; they do not know each other",
    "harness/replay": "one file a recorded format; they do not know each other",
    "harness/analysis/figures": "one file a figure; they do not know each other",
    "harness/tasks": "one folder or file a task; they do not know each other",
}


def too_long(module: Module) -> str | None:
    stop, _ = (LONGER_MODULES | SHORTER_MODULES).get(module.path, (MODULE_LINES, ""))
    length = len(module.code_lines)
    return f"{module.path}: {length} code lines, stop at {stop}" if length > stop else None


def long_bodies(module: Module) -> list[str]:
    return [
        f"{module.path}:{function.lineno} {function.name}: {body_lines(module, function)} code lines, stop at {BODY_LINES}"
        for function in module.functions
        if body_lines(module, function) > BODY_LINES and f"{module.path}:{function.name}" not in LONGER_BODIES
    ]


def wide_signatures(module: Module) -> list[str]:
    return [
        f"{module.path}:{function.lineno} {function.name}: {len(parameters(function))} parameters, stop at {PARAMETERS}"
        for function in module.functions
        if len(parameters(function)) > PARAMETERS
        and not is_command(function)
        and f"{module.path}:{function.name}" not in MORE_PARAMETERS
    ]


def test_no_module_is_longer_than_a_sitting():
    assert [long for module in modules() if (long := too_long(module))] == []


def test_no_function_body_is_longer_than_a_page():
    assert [long for module in modules() for long in long_bodies(module)] == []


def test_no_function_takes_more_than_six_parameters():
    assert [wide for module in modules() for wide in wide_signatures(module)] == []


def test_no_folder_holds_more_than_twelve_modules():
    paths = (PurePosixPath(module.path) for module in modules())
    counts = Counter(str(path.parent) for path in paths if path.name != "__init__.py")
    full = {folder: count for folder, count in counts.items() if count > MODULES_IN_FOLDER}
    assert {folder: count for folder, count in full.items() if folder not in FULLER_FOLDERS} == {}


def test_every_granted_exception_is_still_used():
    by_path = {module.path: module for module in modules()}
    functions = {f"{module.path}:{function.name}" for module in modules() for function in module.functions}
    needless = [path for path in LONGER_MODULES if path in by_path and len(by_path[path].code_lines) <= MODULE_LINES]
    missing = [name for name in [*LONGER_BODIES, *MORE_PARAMETERS] if name not in functions]
    assert needless + missing == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('"""A module."""\n\nx = 1\n', 1),
        ("# why\nx = [\n    1,\n\n    2,\n]\n", 4),
        ('def f():\n    """Says.\n\n    More.\n    """\n    return 1\n', 2),
        ('class A:\n    x: int\n    """What it is."""\n', 2),
        ('x = """\na text\n"""\n', 3),
    ],
)
def test_code_lines_are_counted_without_docstrings_comments_and_blanks(text, lines):
    assert len(parse(text, "x.py").code_lines) == lines


def test_what_is_too_long_or_too_wide_is_seen():
    body = "".join(f"    x{number} = {number}\n" for number in range(BODY_LINES + 1))
    module = parse(f"def f(a, b, c, *, d, e, f, **g):\n{body}", "harness/made_up.py")
    assert len(long_bodies(module)) == len(wide_signatures(module)) == 1
    assert too_long(module) is None
    assert too_long(parse("x = 1\n" * (MODULE_LINES + 1), "harness/made_up.py")) is not None
