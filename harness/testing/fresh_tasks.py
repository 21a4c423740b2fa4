"""A template in a process of its own, where texts have other hashes: what it makes there, part by part, as digests.

It stands apart from the laws since that process loads it, and should load little else.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Literal, NamedTuple, TypeAlias

from harness.task import Task
from harness.tasks import load_task
from harness.testing.fresh_process import run_in_fresh_process, serve_one_request


class TaskPart(NamedTuple):
    """A part of a task that can differ alone."""

    kind: Literal["value", "fact", "step", "field"]
    name: str
    """Of the fact, the step or the field of `Task`; a field that has names inside stands for these names."""


Digests: TypeAlias = Mapping[TaskPart, str]


def digest_parts(task: Task) -> Digests:
    """The digest of each part of a task; equal parts have equal ones in every process."""
    plain = {one.name: getattr(task, one.name) for one in fields(task)}
    plain["values"] = sorted(task.values)
    plain["facts"] = [fact.name for fact in task.facts]
    plain["script"] = [step.name for step in task.script.steps], task.script.final_text
    parts: dict[TaskPart, object] = {TaskPart("value", name): value for name, value in task.values.items()}
    parts |= {TaskPart("fact", fact.name): fact for fact in task.facts}
    parts |= {TaskPart("step", step.name): step for step in task.script.steps}
    parts |= {TaskPart("field", name): value for name, value in plain.items()}
    return {part: hashlib.sha256(repr(value).encode(errors="replace")).hexdigest() for part, value in parts.items()}


def digest_in_fresh_process(name: str, seeds: Iterable[int]) -> dict[int, Digests]:
    """What a template makes of some seeds in one process of its own, whose hashes are not those of this one.

    Raises:
        UsageError: it makes no task there.
    """
    made = run_in_fresh_process(__name__, [name, list(seeds)], failure_text="the template makes no task")
    return {seed: {TaskPart(kind, name): digest for kind, name, digest in parts} for seed, parts in made}


def main() -> None:
    """The program of that process."""
    serve_one_request(_digest_tasks)


def _digest_tasks(arguments: tuple[str, list[int]]) -> object:
    """The digests of all parts of a template's tasks, JSON-ready."""
    name, seeds = arguments
    template = load_task(name)
    return [(seed, [(*part, digest) for part, digest in digest_parts(template(seed)).items()]) for seed in seeds]
