"""A template in a process of its own, where texts have other hashes: what it makes there, part by part, as digests.

It stands apart from the laws since that process loads it, and should load little else.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import fields
from typing import Literal, NamedTuple, TypeAlias

from harness.errors import UsageError
from harness.task import Task
from harness.tasks import load_task

PROGRAM = f"from {__name__} import main; main()"


class Part(NamedTuple):
    """A part of a task that can differ alone."""

    kind: Literal["value", "fact", "step", "field"]
    name: str
    """Of the fact, the step or the field of `Task`; a field that has names inside stands for these names."""


Digests: TypeAlias = Mapping[Part, str]


def digests(task: Task) -> Digests:
    """The digest of each part of a task; equal parts have equal ones in every process."""
    plain = {one.name: getattr(task, one.name) for one in fields(task)}
    plain["values"] = sorted(task.values)
    plain["facts"] = [fact.name for fact in task.facts]
    plain["script"] = [step.name for step in task.script.steps], task.script.farewell
    parts: dict[Part, object] = {Part("value", name): value for name, value in task.values.items()}
    parts |= {Part("fact", fact.name): fact for fact in task.facts}
    parts |= {Part("step", step.name): step for step in task.script.steps}
    parts |= {Part("field", name): value for name, value in plain.items()}
    return {part: hashlib.sha256(repr(value).encode(errors="replace")).hexdigest() for part, value in parts.items()}


def made_afresh(name: str, seeds: Iterable[int]) -> dict[int, Digests]:
    """What a template makes of some seeds in one process of its own, whose hashes are not those of this one.

    Raises:
        UsageError: it makes no task there.
    """
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    run = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        input=json.dumps([name, list(seeds)]),
        capture_output=True,
        encoding="utf-8",
        errors="replace",  # foreign code may print
        check=False,
        env={**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if run.returncode or not run.stdout:
        _, _, said = run.stderr.strip().rpartition("\n")
        raise UsageError(f"in a process of its own the template makes no task: {said}")
    made = json.loads(run.stdout.splitlines()[-1])
    return {seed: {Part(kind, name): digest for kind, name, digest in parts} for seed, parts in made}


def main() -> None:
    """The program of that process: name and seeds come by standard input, digests go to the last line of standard output."""
    name, seeds = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):  # foreign code may print
        template = load_task(name)
        made = [(seed, [(*part, digest) for part, digest in digests(template(seed)).items()]) for seed in seeds]
    sys.stdout.write(f"\n{json.dumps(made)}\n")
