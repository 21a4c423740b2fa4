"""Server of scripted models over HTTP, in the formats of OpenAI (chat completions, responses), Anthropic and Gemini.

The server can inject faults, such as rate limits. It listens on loopback only. Invalid requests get a 4xx status and a reason.
HTTP itself is the work of aiohttp in `application`, which is imported when a server starts.
"""

import re
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache

from harness.errors import UnknownName, UsageError
from harness.models.dialects import DialectModel
from harness.models.endpoint.faults import Fault
from harness.models.endpoint.model_endpoint import FindModel, ModelEndpoint
from harness.models.factory import (
    KNOWING_SUMMARIZERS,
    SURVIVAL,
    is_summarizer_variant,
    open_model,
    open_summarizer,
    split_scripted_name,
)
from harness.models.scripted.profiles import DEFAULT_PROFILE, is_scripted
from harness.models.survival_table import load_survival_table
from harness.protocols import Model
from harness.task import Task


@contextmanager
def serve_endpoint(
    find: FindModel,
    *,
    names: Iterable[str] = (),
    faults: Iterable[Fault] = (),
    key: str | None = None,
    port: int = 0,
    listening: socket.socket | None = None,
) -> Iterator[ModelEndpoint]:
    """Run an HTTP server for models while the context is open.

    Args:
        find: Function that returns the model with a given name.
        names: Names in the server's list of models.
        faults: Faults to inject; if several apply to a request, the first is used.
        key: Secret key that every request must contain; None accepts all requests.
        port: Port number of the server; 0 chooses a free port.
        listening: Socket that listens already, such as a Unix socket, in place of a port. The server closes it.

    Raises:
        UsageError: The port cannot be used.
    """
    try:
        endpoint = ModelEndpoint(find, tuple(names), tuple(faults), key=key, port=port, listening=listening)
    except (OSError, OverflowError) as error:
        advice = (
            "choose another port, or 0 for a free one, and give the new address to what uses the server, such as `--upstream`"
        )
        raise UsageError(f"port {port} cannot be used: {error}; {advice}") from None
    from harness.models.endpoint.application import ServerLoop  # noqa: PLC0415  aiohttp is slow to import

    loop = ServerLoop(endpoint)
    thread = threading.Thread(target=loop.run, name="harness-endpoint", daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        loop.stop()
        thread.join()


_SEEDED_NAME = re.compile(r"(?P<variant>[^@:]+)@(?P<seed>\d{1,18})(?P<rest>(:.*)?)")
MAX_OPEN_MODELS = 64
"""Maximum number of models that the server keeps; when there are more, the least recently used are created again on request."""


def list_model_names(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the model names that the server lists: a scripted agent for each task, and scripted summarizers."""
    agents = tuple(f"scripted/{task.name}:{DEFAULT_PROFILE}" for task in tasks)
    survival = tuple(f"{SURVIVAL}:{name}" for name in load_survival_table().profiles)
    summarizers = ("extractive", "lossy-0.3", "empty", *(("oracle", *survival) if len(tasks) == 1 else ()))
    return agents + tuple(f"scripted/{name}" for name in summarizers)


def add_seed(name: str, seed: int) -> str:
    """Return the name of a scripted model with the seed of its task, e.g. `scripted/flashcards@3:attentive`."""
    variant, colon, rest = name.partition(":")
    return f"{variant}@{seed}{colon}{rest}"


def make_seeded_finder(finders: Mapping[int, FindModel]) -> FindModel:
    """Return a function that creates scripted models by names that `add_seed` made.

    Args:
        finders: Function that creates the models of each seed by their plain names. A name without a seed goes to the first.
    """
    first = next(iter(finders.values()))

    def find(name: str) -> Model:
        match = _SEEDED_NAME.fullmatch(name)
        if match is None:
            return first(name)
        if int(match["seed"]) not in finders:
            raise UsageError(f"model {name!r}: the seed must be one of {', '.join(map(str, finders))}; see --seed and --seeds")
        return finders[int(match["seed"])](match["variant"] + match["rest"])

    return find


def make_model_finder(tasks: Sequence[Task], *, seed: int = 0, window_tokens: int | None = None) -> FindModel:
    """Return a function that creates scripted models by name: agents for the given tasks, and summarizers.

    Args:
        tasks: Tasks whose scripts the agents follow, at least one. The summarizers `scripted/oracle` and
            `scripted/survival:NAME`, which keep facts of the task, require exactly one.
        seed: Seed of the models' random draws.
        window_tokens: Context window of every agent in tokens; None uses the default. A summarizer has at least the same window.

    Raises:
        UsageError: There is no task.
    """
    by_name = {task.name: task for task in tasks}
    if not by_name:
        raise UsageError("a scripted model needs a task; specify at least one")

    @lru_cache(maxsize=MAX_OPEN_MODELS)
    def find(name: str) -> Model:
        variant, _ = split_scripted_name(name)
        if is_scripted(name) and is_summarizer_variant(variant):
            if variant in KNOWING_SUMMARIZERS and len(by_name) > 1:
                raise UsageError(f"model {name!r} writes summaries for the one task that it knows; serve a single task")
            agent = open_model("scripted", task=tasks[0], seed=seed, window_tokens=window_tokens)
            return open_summarizer(name, agent=agent, task=tasks[0], seed=seed, window_tokens=None)
        if not is_scripted(name) or variant not in by_name:
            raise UnknownName("model", name, list_model_names(tasks))
        return DialectModel(model=open_model(name, task=by_name[variant], seed=seed, window_tokens=window_tokens))

    return find
