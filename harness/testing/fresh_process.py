"""Build tasks and ask scripted models in a new Python process with another hash seed.

The comparison with the current process shows whether a task or a model depends on state of the process. The new process receives
everything as JSON: the name of the template and, for a model, its profile and one request.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import fields
from typing import Any, Literal, NamedTuple, TypeAlias

from harness import codec
from harness.errors import UsageError
from harness.models.factory import open_model
from harness.protocols import Reply, Request
from harness.task import Task
from harness.tasks import load_task, make_task


class TaskPart(NamedTuple):
    """Part of a task (a fact, a step or a field) that is digested and compared separately."""

    kind: Literal["value", "fact", "step", "field"]
    name: str
    """Name of the fact, of the step, or of the field of `Task`.

    Of fields with facts, values or steps, only the names of these are compared.
    """


Digests: TypeAlias = Mapping[TaskPart, str]
"""SHA-256 digest, in hexadecimal, of each part of a task."""


class FreshModelSpec(NamedTuple):
    """Settings from which a new process creates the scripted model that answers a request."""

    task: str
    """Name of the task template that the model works on, as for `load_task`."""
    task_seed: int
    model: str
    """Name of the scripted model with its profile, e.g. `scripted:typical`."""
    model_seed: int
    window_tokens: int


def digest_parts(task: Task) -> Digests:
    """Return the digest of each part of a task (facts, steps and fields). Equal parts have equal digests in every process."""
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
    """Make tasks from several seeds in one new process, and return the digests of their parts.

    Raises:
        UsageError: the template makes no task in the new process.
    """
    made = _run_in_fresh_process(_digest_tasks, [name, list(seeds)], failure_text="the template makes no task")
    return {seed: {TaskPart(kind, name): digest for kind, name, digest in parts} for seed, parts in made}


def _digest_tasks(arguments: tuple[str, list[int]]) -> object:
    name, seeds = arguments
    template = load_task(name)
    return [(seed, [(*part, digest) for part, digest in digest_parts(template(seed)).items()]) for seed in seeds]


def answer_in_fresh_process(model_spec: FreshModelSpec, request: Request, hash_seed: int | None = None) -> object:
    """Answer a request with a scripted model in a new process, and return the answer as `encode_reply` does.

    Args:
        model_spec: Settings of the scripted model that answers.
        request: Request in the form in which the session sent it to the model.
        hash_seed: Value of `PYTHONHASHSEED` in the new process; None chooses a value that differs from the current process.

    Raises:
        UsageError: the new process makes no task or no answer.
    """
    arguments = [*model_spec, codec.to_plain(request)]
    return _run_in_fresh_process(_answer_request, arguments, hash_seed=hash_seed, failure_text="the model gives no answer")


def encode_reply(reply: Reply) -> object:
    """Return the message and the token usage of a model's reply as JSON-ready values."""
    return [codec.to_plain(reply.message), codec.to_plain(reply.usage)]


def _answer_request(arguments: list[Any]) -> object:
    *named, request = arguments
    asked = FreshModelSpec(*named)
    task = make_task(asked.task, asked.task_seed)
    model = open_model(asked.model, task=task, seed=asked.model_seed, window_tokens=asked.window_tokens)
    return encode_reply(model.reply(codec.from_plain(Request, request)))


def _run_in_fresh_process(
    handle: Callable[[Any], object], arguments: object, *, hash_seed: int | None = None, failure_text: str
) -> Any:
    """Call a function of this module in a new Python process and return its result; arguments and result are sent as JSON."""
    seed = hash_seed or (2 if os.environ.get("PYTHONHASHSEED") == "1" else 1)
    run = subprocess.run(
        [sys.executable, "-P", "-c", f"from {__name__} import {handle.__name__}, serve; serve({handle.__name__})"],
        input=json.dumps(arguments),
        capture_output=True,
        encoding="utf-8",
        errors="replace",  # foreign code may print
        check=False,
        env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if run.returncode or not run.stdout:
        _, _, error = run.stderr.strip().rpartition("\n")
        raise UsageError(f"in a new process {failure_text}: {error}")
    return json.loads(run.stdout.splitlines()[-1])


def serve(handle: Callable[[Any], object]) -> None:
    """Run a function with arguments from standard input, and print its result as the last line of standard output."""
    arguments = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):  # foreign code may print
        result = handle(arguments)
    sys.stdout.write(f"\n{json.dumps(result)}\n")
