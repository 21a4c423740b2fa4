"""The page of requirements explains each row that is named in the repository, and each test on the page exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import CHECKOUT

PAGE = CHECKOUT / "docs" / "requirements.md"
ROW = re.compile(r"^\*\*([SC]\d(?:\.\d+)?)\*\*: (.+?)(?=^\*\*[SC]\d|^## |\Z)", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
NAMED_ROW = re.compile(r"\bS\d\.\d+\b|(?<=^\"\"\")C\d\b", re.MULTILINE)
"""Names of rows; those of the project as a whole only at the beginning of a docstring, because `C4` can be a paper size."""


def read_rows(page: str) -> list[tuple[str, str]]:
    """Return name and text of each row."""
    return [(match[1], match[2]) for match in ROW.finditer(page)]


def list_texts(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the source files and pages of the repository."""
    for root in ("harness", "tests", "docs", "experiments"):
        for path in sorted((folder / root).rglob("*")):
            if path.suffix in {".py", ".md", ".toml", ".js"} and not {"_build", "generated"} & set(path.parts):
                yield path, path.read_text(encoding="utf-8")
    yield from ((path, path.read_text(encoding="utf-8")) for path in (*folder.glob("*.md"), *folder.glob("*.toml")))


def list_named_rows(text: str) -> set[str]:
    """Return the rows that a text names."""
    return set(NAMED_ROW.findall("\n".join(line.strip() for line in text.splitlines())))


def list_missing_tests(page: str, folder: Path) -> list[str]:
    """Return the tests that a page names and that do not exist."""
    functions: dict[str, set[str]] = {}
    for file in {match[1] for match in TEST.finditer(page)}:
        tree = ast.parse((folder / file).read_text(encoding="utf-8")) if (folder / file).is_file() else ast.Module([], [])
        functions[file] = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return [f"{file}::{name}" for file, name in TEST.findall(page) if name not in functions[file]]


def test_each_row_named_in_the_repository_stands_on_the_page():
    rows = {name for name, _ in read_rows(PAGE.read_text(encoding="utf-8"))}
    named = {path.relative_to(CHECKOUT): list_named_rows(text) - rows for path, text in list_texts(CHECKOUT)}
    assert {str(path): unknown for path, unknown in named.items() if unknown} == {}


def test_each_test_on_the_page_exists():
    assert list_missing_tests(PAGE.read_text(encoding="utf-8"), CHECKOUT) == []


def test_each_row_stands_once_and_names_a_test_or_says_that_there_is_none():
    rows = read_rows(PAGE.read_text(encoding="utf-8"))
    assert len(rows) == len({name for name, _ in rows}) == 68
    assert [name for name, text in rows if not TEST.search(text) and "No test checks" not in text] == []


@pytest.mark.parametrize(
    ("text", "rows"),
    [('"""S3.1."""', {"S3.1"}), ("# S0.4, S2.10", {"S0.4", "S2.10"}), ('    """C5."""', {"C5"}), ('sizes = ("C4", "C5")', set())],
)
def test_names_of_rows_are_recognised(text, rows):
    assert list_named_rows(text) == rows


def test_a_missing_test_is_seen(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text("def test_a(): ...\n")
    page = "**S0.1**: A row.\n\n- `tests/test_x.py::test_a`\n- `tests/test_x.py::test_b`\n- `tests/test_y.py::test_c`\n"
    assert read_rows(page)[0][0] == "S0.1"
    assert list_missing_tests(page, tmp_path) == ["tests/test_x.py::test_b", "tests/test_y.py::test_c"]
