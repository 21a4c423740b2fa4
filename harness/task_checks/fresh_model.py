"""Answer requests with scripted models in a new Python process with another hash seed.

A difference from the answers in the current process shows that a model depends on the state of its process. The new process
receives everything as JSON: the names of the task template and the model, and one request.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from harness.conversation import codec
from harness.models.factory import open_model
from harness.protocols import Reply, Request
from harness.task import Difficulty, World
from harness.task_checks.fresh_process import run_in_fresh_process
from harness.tasks import make_task


class FreshModelSpec(NamedTuple):
    """Settings from which a new process creates the scripted model that answers a request."""

    task: str
    """Name of the task template that the model works on, as for `load_task`."""
    difficulty: Difficulty
    task_seed: int
    model: str
    """Name of the scripted model with its profile, e.g. `scripted:typical`."""
    model_seed: int
    window_tokens: int


def answer_in_fresh_process(model_spec: FreshModelSpec, request: Request, hash_seed: int | None = None) -> object:
    """Answer a request with a scripted model in a new process, and return the answer as JSON-ready values.

    The values are those of `encode_reply`.

    Args:
        model_spec: Settings of the scripted model that answers.
        request: Request in the form in which the session sent it to the model.
        hash_seed: Value of `PYTHONHASHSEED` in the new process; None chooses a value that differs from the current process.

    Raises:
        UsageError: The new process makes no task or no answer.
    """
    arguments = [*model_spec, codec.to_plain(replace(request, messages=tuple(request.messages)))]
    return run_in_fresh_process(_answer_request, arguments, hash_seed=hash_seed, failure_text="the model gives no answer")


def encode_reply(reply: Reply) -> object:
    """Return the message and the token usage of a model's reply as JSON-ready values."""
    return [codec.to_plain(reply.message), codec.to_plain(reply.usage)]


def _answer_request(arguments: list[Any]) -> object:
    *named, request = arguments
    model_spec = FreshModelSpec(*named)
    task = make_task(model_spec.task, model_spec.task_seed, World(difficulty=model_spec.difficulty))
    model = open_model(model_spec.model, task=task, seed=model_spec.model_seed, window_tokens=model_spec.window_tokens)
    return encode_reply(model.reply(codec.from_plain(Request, request)))
