"""A scripted model in a process of its own, which draws the task itself and answers one request."""

from typing import Any, NamedTuple

from harness import codec
from harness.models.factory import open_model
from harness.protocols import Reply, Request
from harness.tasks import make_task
from harness.testing.fresh_process import run_in_fresh_process, serve_one_request


class FreshModelSpec(NamedTuple):
    """Which model is asked."""

    task: str
    """By which that process finds its template, as in `load_task`."""
    task_seed: int
    model: str
    """Tells its profile, e.g. `scripted:typical`."""
    model_seed: int
    window_tokens: int


def answer_in_fresh_process(model_spec: FreshModelSpec, request: Request, hash_seed: int | None = None) -> object:
    """Message and usage, JSON-ready, that a new process answers to a request; it knows nothing else of the session.

    Args:
        asked: the model.
        request: what it sees.
        hash_seed: of that process; None = another one than that of this process.

    Raises:
        UsageError: it makes no task or no answer there.
    """
    given = [*model_spec, codec.to_plain(request)]
    return run_in_fresh_process(__name__, given, hash_seed=hash_seed, failure_text="the model gives no answer")


def encode_reply(reply: Reply) -> object:
    """An answer as `answer_in_fresh_process` gives it."""
    return [codec.to_plain(reply.message), codec.to_plain(reply.usage)]


def main() -> None:
    """The program of that process."""
    serve_one_request(_answer_request)


def _answer_request(arguments: list[Any]) -> object:
    *named, request = arguments
    asked = FreshModelSpec(*named)
    task = make_task(asked.task, asked.task_seed)
    model = open_model(asked.model, task=task, seed=asked.model_seed, window_tokens=asked.window_tokens)
    return encode_reply(model.reply(codec.from_plain(Request, request)))
