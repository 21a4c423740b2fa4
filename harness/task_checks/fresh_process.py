"""Make tasks in a new Python process with another hash seed.

A difference from the results of the current process shows that a task depends on the state of its process. The new process
receives everything as JSON, such as the name of the task template. This module imports little, because each new process imports
it; `fresh_model` does the same for scripted models.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, TypeAlias

from harness.errors import UsageError
from harness.task import Difficulty, Task
from harness.task_checks import shifted_clock
from harness.task_checks.observation import Observation, observe_template
from harness.tasks import choose_difficulty, load_task

Circumstance: TypeAlias = Literal["hash seed", "working directory", "environment", "date"]
"""Property in which a new process can differ from the current one, and on which a task must not depend."""
CIRCUMSTANCES: Mapping[Circumstance, str] = {
    "hash seed": "where hashes and the order of sets differ",
    "working directory": "in another working directory",
    "environment": "with another user, home directory and time zone",
    "date": "on another day",
}
"""Phrase for messages about each circumstance in which a new process can differ, e.g. `on another day` for the date."""
_ONLY_HASHES: tuple[Circumstance, ...] = ("hash seed",)
_SAME_HASH_SEED = "3"
"""Value of `PYTHONHASHSEED` in new processes that must all have the same hash seed."""
SERVE = f"from {__name__} import serve\nfrom {{module}} import {{function}}\nserve({{function}})"
"""Program of a new process."""
OTHER_ENVIRONMENT = {"USER": "someone", "LOGNAME": "someone", "TZ": "Etc/GMT-11"}
"""Environment variables, besides the home directory, of a new process that differs in its environment."""


class TaskPart(NamedTuple):
    """Part of a task whose digest is compared separately, such as a value, a fact or a step of the script."""

    kind: Literal["value", "fact", "step", "field"]
    name: str
    """Name of the value, the fact, the step, or the field of `Task`.

    For the fields `facts`, `values` and `script`, the part contains only names, since each fact, value and step is a part of its
    own.
    """


Digests: TypeAlias = Mapping[TaskPart, str]
"""SHA-256 digest, in hexadecimal, of each part of a task."""


def digest_parts(task: Task) -> Digests:
    """Return a digest of each part of a task, such as a fact or a step.

    Equal parts have equal digests in every process.
    """
    plain = {field.name: getattr(task, field.name) for field in fields(task)}
    plain["values"] = sorted(task.values)
    grader = task.grader  # the representation of a function contains its address
    plain["grader"] = getattr(grader.judge, "__qualname__", ""), grader.expected, grader.interviews
    plain["facts"] = [fact.name for fact in task.facts]
    plain["script"] = [step.name for step in task.script.steps], task.script.final_text
    parts: dict[TaskPart, object] = {TaskPart("value", name): value for name, value in task.values.items()}
    parts |= {TaskPart("fact", fact.name): fact for fact in task.facts}
    parts |= {TaskPart("step", step.name): step for step in task.script.steps}
    parts |= {TaskPart("field", name): value for name, value in plain.items()}
    return {part: hashlib.sha256(repr(value).encode(errors="replace")).hexdigest() for part, value in parts.items()}


def digest_in_fresh_process(
    name: str,
    seeds: Iterable[int],
    differing: Collection[Circumstance] = CIRCUMSTANCES.keys(),
    *,
    difficulty: Difficulty = "standard",
) -> dict[int, Digests]:
    """Make tasks from several seeds in one new process, and return the digests of their parts.

    Args:
        name: Name of the task template, as for `load_task`.
        seeds: Seeds of the tasks.
        differing: Circumstances, such as the date, in which the new process differs from this one. Default: all. Without
            `hash seed`, the new process has a fixed hash seed; compare its results with those of another such process. The date
            stays the same where `libfaketime` is not installed.
        difficulty: Level of the tasks' demands on the agent's memory.

    Raises:
        UsageError: The template makes no task in the new process.
    """
    arguments = [_resolve_name(name), difficulty, list(seeds)]
    parts_by_seed = run_in_fresh_process(_digest_tasks, arguments, differing=differing, failure_text="the template makes no task")
    return {seed: {TaskPart(kind, name): digest for kind, name, digest in parts} for seed, parts in parts_by_seed}


def _digest_tasks(arguments: tuple[str, Difficulty, list[int]]) -> object:
    name, difficulty, seeds = arguments
    template = choose_difficulty(name, load_task(name), difficulty)
    return [(seed, [(*part, digest) for part, digest in digest_parts(template(seed)).items()]) for seed in seeds]


def observe_in_fresh_process(name: str, difficulty: Difficulty = "standard") -> Observation:
    """Make tasks of one difficulty in a new process, and return what the template does, e.g. where it reads the clock.

    Raises:
        UsageError: The template makes no task in the new process.
    """
    arguments = [_resolve_name(name), difficulty]
    observed = run_in_fresh_process(_observe_template, arguments, failure_text="the template makes no task")
    return Observation(*observed)


def _observe_template(arguments: tuple[str, Difficulty]) -> object:
    name, difficulty = arguments
    return observe_template(lambda: choose_difficulty(name, load_task(name), difficulty))


def _resolve_name(name: str) -> str:
    # The new process may have another working directory, so the path of the file must be absolute.
    path, colon, function = name.rpartition(":")
    return f"{Path(path).resolve()}:{function}" if colon else name


def run_in_fresh_process(
    handle: Callable[[Any], object],
    arguments: object,
    *,
    hash_seed: int | None = None,
    differing: Collection[Circumstance] = _ONLY_HASHES,
    failure_text: str,
) -> Any:
    """Call a function in a new Python process, and return its result; arguments and result are sent as JSON.

    Args:
        handle: Function at the top level of a module.
        arguments: Argument of the function.
        hash_seed: Value of `PYTHONHASHSEED` in the new process; None chooses a value that differs from the current process.
        differing: Circumstances in which the new process differs from this one.
        failure_text: Beginning of the message of the error, e.g. `the template makes no task`.

    Raises:
        UsageError: The function raised an exception, or the process died.
    """
    seed = hash_seed or (2 if os.environ.get("PYTHONHASHSEED") == "1" else 1)
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)  # noqa: PTH100  (an empty path is the working directory)
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": paths}
        environment["PYTHONHASHSEED"] = str(seed) if "hash seed" in differing else _SAME_HASH_SEED
        environment |= {**OTHER_ENVIRONMENT, "HOME": folder} if "environment" in differing else {}
        library = shifted_clock.find_library() if "date" in differing else None
        environment |= shifted_clock.build_environment(library) if library else {}
        with subprocess.Popen(
            [sys.executable, "-P", "-c", SERVE.format(module=handle.__module__, function=handle.__name__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",  # foreign code may print
            env=environment,
            cwd=folder if "working directory" in differing else None,
        ) as process:
            stdout, stderr = process.communicate(json.dumps(arguments))
        shifted_clock.remove_leftovers(process.pid)
    if process.returncode or not stdout:
        _, _, error = stderr.strip().rpartition("\n")
        raise UsageError(f"in a new process {failure_text}: {error}")
    return json.loads(stdout.splitlines()[-1])


def serve(handle: Callable[[Any], object]) -> None:
    """Call a function with JSON arguments from standard input, and print its result as the last line, as JSON."""
    arguments = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):  # foreign code may print
        result = handle(arguments)
    sys.stdout.write(f"\n{json.dumps(result)}\n")
