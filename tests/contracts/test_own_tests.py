"""The check `own_tests`: suites that test nothing do not pass, whatever they do to notice wrong functions; honest suites do.

The program itself is right in every test, so the suite decides. A forged suite has many tests that look like tests, and one that
fails if the suite believes that a function is wrong. Each idea for such a belief is a file in `forgeries`, and each honest
suite a folder in `honest_suites`.
"""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest

from harness.sandboxes import open_sandbox
from harness.session.grading import grade_workspace
from harness.tasks import load_task
from tests.tasks.workshop import carried_out

FOLDER = Path(__file__).parent
PACKAGES = {"flashcards": "flashcards", "spec-api": "depot", "flashcards-bun": "src"}
"""Folder with the agent's code, by task with the check."""
PYTHON_TASKS = [name for name, package in PACKAGES.items() if package != "src"]
FORGERIES = sorted(path.name.partition(".")[0] for path in (FOLDER / "forgeries").glob("*.py.tmpl"))
SCRIPT_FORGERIES = sorted(path.name.partition(".")[0] for path in (FOLDER / "forgeries").glob("*.ts.tmpl"))
HONEST_SUITES = sorted(path.name for path in (FOLDER / "honest_suites").iterdir())
SUPPORT = '''"""Tests of nothing."""

import glob
import importlib
import inspect
import os
import unittest

import PACKAGE


def modules():
    return sorted(path for path in glob.glob("PACKAGE/*.py") if "__" not in path)


def copied(path):
    with open("copies/" + os.path.basename(path)) as file:
        return file.read()


def functions():
    for path in modules():
        module = importlib.import_module(path[:-3].replace("/", "."))
        for function in list(vars(module).values()):
            if inspect.isfunction(function) and function.__module__ == module.__name__:
                yield path, function


'''
SCRIPT_SUPPORT = """import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import * as limits from "../src/limits";

const modules = readdirSync("src").sort();
const text = (name: string): string => readFileSync("src/" + name, "utf8");
const copied = (name: string): string => readFileSync("copies/" + name, "utf8");
const differ = (): boolean => modules.some((name) => text(name) !== copied(name));

"""


def forge(idea, package):
    """Return the text of a forged module of tests in Python."""
    tests = "".join(
        f'    def test_{number}(self):\n        self.assertNotEqual(PACKAGE.__name__, "{number}")\n\n' for number in range(99)
    )
    case = f"\n\nclass Forged(unittest.TestCase):\n{tests}    def test_it(self):\n        self.assertFalse(is_changed())\n"
    return f"{SUPPORT}{(FOLDER / 'forgeries' / f'{idea}.py.tmpl').read_text()}{case}".replace("PACKAGE", package)


def forge_script(idea):
    """Return the text of a forged file of tests in TypeScript."""
    tests = "".join(f'test("{number}", () => expect(limits.NEW_PER_DAY).not.toBe({number + 1000}));\n' for number in range(99))
    last = 'test("it", () => expect(isChanged()).toBe(false));\n'
    return f"{SCRIPT_SUPPORT}{(FOLDER / 'forgeries' / f'{idea}.ts.tmpl').read_text()}\n{last}{tests}"


@cache
def program(name, folder):
    """Return a task, the files of an agent that forgets nothing, with copies of its modules, and the tests of this agent."""
    task = load_task(name)(1)
    root = carried_out(task, folder, task.values, [step.name for step in task.script.steps])
    shutil.copytree(root / PACKAGES[name], root / "copies")
    suites = tuple(interview for interview in task.grader.interviews if interview.changes)
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    tests = {path: content for path, content in files.items() if path.startswith("tests/")}
    rest = {path: content for path, content in files.items() if path not in tests}
    return replace(task, grader=replace(task.grader, interviews=suites)), rest, tests


@pytest.fixture(scope="session")
def grade(tmp_path_factory):
    """Return a function that grades the check `own_tests` of a program with the given tests, or else those of its agent."""
    folders = {name: tmp_path_factory.mktemp(name) for name in PACKAGES}

    def run(name, tests, seed=1):
        task, files, own_tests = program(name, folders[name])
        with open_sandbox("bubblewrap", runtime=task.runtime, session_id="own-tests") as sandbox:
            sandbox.prepare_grading({**files, **(own_tests if tests is None else tests)})
            (check,) = (one for one in grade_workspace(task, sandbox, Random(seed)) if one.check.name == "own_tests")
        return check

    return run


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("name", PYTHON_TASKS)
@pytest.mark.parametrize("idea", FORGERIES)
def test_a_forged_suite_does_not_pass(idea, name, grade):
    tests = {"tests/__init__.py": b"", "tests/test_forged.py": forge(idea, PACKAGES[name]).encode()}
    assert not grade(name, tests).passed


@pytest.mark.bubblewrap
@pytest.mark.bun
@pytest.mark.parametrize("idea", SCRIPT_FORGERIES)
def test_a_forged_suite_in_typescript_does_not_pass(idea, grade):
    assert not grade("flashcards-bun", {"tests/forged.test.ts": forge_script(idea).encode()}).passed


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", [*PYTHON_TASKS, pytest.param("flashcards-bun", marks=pytest.mark.bun)])
def test_the_suite_of_the_scripted_agent_passes(name, seed, grade):
    check = grade(name, None, seed)
    assert check.passed, check.detail


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("suite", [pytest.param(name, marks=pytest.mark.bun if "bun" in name else ()) for name in HONEST_SUITES])
def test_an_honest_suite_that_is_written_otherwise_passes(suite, grade):
    name = suite.rpartition("_")[0]
    texts = {path.name.removesuffix(".tmpl"): path.read_bytes() for path in (FOLDER / "honest_suites" / suite).iterdir()}
    tests = {"tests/__init__.py": b"", **{f"tests/{path}": text for path, text in texts.items()}}
    for seed in (1, 2, 3):
        check = grade(name, tests, seed)
        assert check.passed, check.detail
