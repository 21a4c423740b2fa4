"""Checks and graders (the programs that decide the checks), built from a judge and an observer that a task supplies.

This module adds what prevents untrusted code of the agent from forging a verdict; see the rules in `harness.task.Grader`.

The judge is Python source that defines `verdicts() -> Iterable[(check, (passed, detail))]` and may call the functions of
`preamble.py.tmpl`. The observer is a program that runs the agent's code in a child process and prints JSON objects, one a line;
the judge receives the merged objects from `observed()`. A Python observer is forked before the judge is loaded, which avoids the
start of a second interpreter. An observer in another language is run by the command that the judge passes, e.g.
`observed("bun", "-e")`.
"""

import hashlib
from collections.abc import Mapping

from harness.task import Check, Grader
from harness.tasks.kit.texts import load_text

PRELOADED_MODULES = (
    *("argparse", "ast", "collections", "contextlib", "csv", "ctypes", "dataclasses", "datetime", "enum", "functools", "hashlib"),
    *("hmac", "inspect", "io", "json", "os", "pathlib", "re", "runpy", "select", "signal", "sqlite3", "tempfile", "time"),
    *("traceback", "types", "typing", "unittest", "urllib.parse", "zlib"),
)
"""Modules of Python's standard library that are loaded before the grader (the program that decides the checks) starts."""


def make_check(name: str, title: str, *required_facts: str) -> Check:
    """Make a check of the final workspace; `required_facts` names the values without which an agent passes only by luck."""
    return Check(name=name, title=title, required_facts=required_facts)


def describe_initial_files(files: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return data on the initial workspace, such as file digests, that a grader compares with the final workspace.

    `hashes` holds the digest of each selected file, `tests` the number of tests in the selected files, and `entries` the number
    of lines of the change log.

    Args:
        files: Text of each file in the initial workspace, by path.
        prefixes: Beginnings of the paths of the files whose digests and number of tests are returned.
    """
    texts = {path: text for path, text in files.items() if path.startswith(prefixes)}
    return {
        "hashes": repr({path: hashlib.sha256(text.encode()).hexdigest()[:16] for path, text in texts.items()}),
        "tests": str(sum(text.count("def test_") for text in texts.values())),
        "entries": str(len(files["CHANGELOG.md"].splitlines())),
    }


def build_grader(judge: str, observer: str = "", *, in_python: bool = True) -> Grader:
    """Build the grader of a task, the program that decides which checks pass, from the source of its two parts.

    Args:
        judge: Python source that decides which checks pass.
        observer: Source of the program that runs the agent's code and prints what it does; empty if no such code has to run.
        in_python: Whether the observer (the program that runs the agent's code) is written in Python.
    """
    judge_source = "\n\n".join((load_text(__package__, "preamble.py"), judge, load_text(__package__, "closing.py")))
    name = ".grade/observe.py" if in_python else ".grade/observe"
    observers = ((name, observer),) if observer else ()
    modules = PRELOADED_MODULES if observer and in_python else ()
    launcher = load_text(__package__, "launcher.py").replace("MODULES = ()", f"MODULES = {modules!r}")
    return Grader(
        files=((".grade/grade.py", launcher), (".grade/judge.py", judge_source), *observers),
        command="python3 -S -B .grade/grade.py",
        modules=modules,
    )
