"""The surveyor counts the tests of an agent from their source, and finds functions, without running anything."""

import ast
import subprocess
import sys

import pytest

from harness.sandboxes.toolserver import load_source, surveyor

HEAD = "import unittest\n\nimport app\n\n\nclass T(unittest.TestCase):\n"
HELPED = """import unittest

from app import port
from tests.helpers import Case, expect_port


def good(value):
    assert value == port()


class Base:
    def test_inherited(self):
        self.same(1)


class One(Base, Case):
    def same(self, number):
        good(number)

    def test_helper_of_the_module(self):
        good(3)

    def test_helper_of_another_module(self):
        expect_port(4)

    def test_fixture(self):
        self.assertEqual(self.value, 5)


class Two(One):
    NUMBER = 2


class Plain:
    def test_no_case(self):
        good(6)
"""
HELPERS = """import unittest

import app


def expect_port(number):
    if app.port() != number:
        raise AssertionError


class Case(unittest.TestCase):
    def setUp(self):
        self.value = app.port()
"""
SCRIPT = """import { expect, it, test } from "bun:test";
import { port } from "../src/app";
// test("in a comment", () => expect(port()).toBe(1));
test("one", () => expect(port()).toBe(1));
it("the same code", () => expect(port()).toBe(1));
test("empty", () => {});
test.skip("skipped", () => expect(port()).toBe(2));
test.each([
  [1, "a,b"],
  [2, "("],
  [3, "c"],
])("each %i", (number) => { expect(port()).toBe(number); });
"""


def count(folder, monkeypatch, **files):
    """Return the number of tests in files, whose names have an underscore in place of the last dot."""
    (folder / "tests").mkdir()
    for name, text in files.items():
        (folder / "tests" / ".".join(name.rsplit("_", 1))).write_text(text)
    monkeypatch.chdir(folder)
    path = "app.py" if "test_it_py" in files else "src/app.ts"
    return surveyor.survey({"functions": [[path, "x"]], "tests": ["tests"]})["tests"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("def test_a(self):\n        self.assertEqual(app.port(), 1)", 1),
        ("def test_a(self):\n        assert app.port() == 1", 1),
        ("async def test_a(self):\n        self.assertEqual(await app.port(), 1)", 1),
        ("def test_a(self):\n        with self.assertRaises(ValueError):\n            app.port()", 1),
        ("def test_a(self):\n        from app import port\n        self.assertEqual(port(), 1)", 1),
        ("def test_a(self):\n        self.assertIn('1', run('python3 -m app'))", 1),
        ("def test_a(self):\n        pass", 0),
        ("def test_a(self):\n        app.port()", 0),
        ("def test_a(self):\n        self.assertEqual(1, 1)", 0),
        ("@unittest.skip('later')\n    def test_a(self):\n        self.assertEqual(app.port(), 1)", 0),
        ("def test_a(self):\n        self.assertTrue(app)\n\n    def test_b(self):\n        self.assertTrue(app)", 1),
        ("def test_a(self):\n        'One.'\n        assert app\n\n    def test_b(self):\n        assert app", 1),
        ("def check(self):\n        self.assertEqual(app.port(), 1)", 0),
        ("pass\n\n\nfor n in range(99):\n    setattr(T, f'test_{n}', lambda self: self.assertTrue(app))", 0),
        ("def test_a(self):\n        self.assertTrue(app)\n\n\ndef load_tests(*_):\n    return [1] * 99", 1),
        ("def test_a(self", 0),
        ("def test_a(self):\n        self.assertTrue(app" + ".x" * 50_000 + ")", 0),
    ],
)
def test_a_test_counts_if_it_uses_the_program_and_asserts_something(body, expected, tmp_path, monkeypatch):
    assert count(tmp_path, monkeypatch, test_it_py=f"{HEAD}    {body}\n") == expected


def test_helpers_fixtures_and_inherited_tests_are_followed(tmp_path, monkeypatch):
    """Each of the two classes has four tests, one of them inherited from a class that is no test case itself."""
    assert count(tmp_path, monkeypatch, test_it_py=HELPED, helpers_py=HELPERS) == 8


def test_tests_in_typescript_are_counted_with_the_rows_of_their_tables(tmp_path, monkeypatch):
    assert count(tmp_path, monkeypatch, **{"app.test_ts": SCRIPT}) == 4


def test_a_file_that_imports_no_module_of_the_agent_has_no_tests(tmp_path, monkeypatch):
    assert count(tmp_path, monkeypatch, **{"app.test_ts": SCRIPT.replace("../src/app", "./app")}) == 0


@pytest.mark.parametrize("act", ["mkfifo app.py", "ln -s /etc/passwd app.py", "mkdir app.py", "printf '\\377' > app.py", ":"])
def test_a_path_that_is_no_readable_text_has_no_functions(act, tmp_path, monkeypatch):
    subprocess.run(act, shell=True, check=True, cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    assert surveyor.survey({"functions": [["app.py", ""]], "tests": []}) == {"texts": {}, "functions": [], "tests": 0}


def test_the_surveyor_imports_only_the_standard_library():
    nodes = [node for node in ast.walk(ast.parse(load_source("surveyor"))) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_its_syntax_is_that_of_python_3_8():
    ast.parse(load_source("surveyor"), feature_version=(3, 8))
