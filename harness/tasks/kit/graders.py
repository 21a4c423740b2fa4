"""Checks, and a grader from what a task adds to it: the verdicts, and what is observed of the agent's code in a child process.

The discipline that `harness.task.Grader` asks for stands here once. A judge is Python source that defines
`verdicts() -> Iterable[(check, (passed, detail))]`; it may call the functions of `preamble.py.tmpl`. An observer is Python source
that runs in a child and prints JSON objects on lines of their own; `observed()` gives them as one. The child is forked before
the judge is read, which spares the start of a second interpreter. An observer of another language is run by the program that
the judge names: `observed("bun", "-e")`.
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
"""Loaded before an observer in Python begins: those of the grader, and those that the agent's code uses in one task or other."""


def make_check(name: str, title: str, *required_facts: str) -> Check:
    """Make a check; without the facts it cannot pass (but by luck)."""
    return Check(name=name, title=title, required_facts=required_facts)


def describe_initial_files(files: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return what a judge compares a workspace with: hashes and number of tests of some files, lines of the change log.

    Args:
        files: text of every file as the agent finds it, by path.
        prefixes: beginnings of the paths that are hashed and searched for tests.
    """
    texts = {path: text for path, text in files.items() if path.startswith(prefixes)}
    return {
        "hashes": repr({path: hashlib.sha256(text.encode()).hexdigest()[:16] for path, text in texts.items()}),
        "tests": str(sum(text.count("def test_") for text in texts.values())),
        "entries": str(len(files["CHANGELOG.md"].splitlines())),
    }


def build_grader(judge: str, observer: str = "", *, in_python: bool = True) -> Grader:
    """Build the program that judges by `judge`; `observer` is empty if no code of the agent has to run."""
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
