"""The scripted models of some tasks by name, as the endpoint finds them."""

from collections.abc import Sequence
from functools import lru_cache

from harness.errors import UnknownName, UsageError
from harness.models.endpoint.server import FindModel
from harness.models.factory import DEFAULT_PROFILE, is_summarizer_variant, open_model, open_summarizer, split_scripted_name
from harness.models.scripted.profiles import is_scripted
from harness.protocols import Model
from harness.task import Task

MAX_OPEN_MODELS = 64
"""Models that are kept; more are made again when they are asked for."""


def list_model_names(tasks: Sequence[Task]) -> tuple[str, ...]:
    """The names that are worth listing: an agent for each task, and the summarizers."""
    agents = tuple(f"scripted/{task.name}:{DEFAULT_PROFILE}" for task in tasks)
    summarizers = ("extractive", "lossy-0.3", "empty", *(["oracle"] if len(tasks) == 1 else []))
    return agents + tuple(f"scripted/{name}" for name in summarizers)


def make_model_finder(tasks: Sequence[Task], *, seed: int = 0, window_tokens: int | None = None) -> FindModel:
    """Finds the scripted agent of any of the tasks, with any profile, and the scripted summarizers.

    Args:
        tasks: whose scripts are followed, at least one; the oracle knows the facts of one task and needs to know which.
        seed: of the models' own draws.
        window_tokens: of every agent; None = their default. A summarizer's is at least as large.

    Raises:
        UsageError: no task.
    """
    by_name = {task.name: task for task in tasks}
    if not by_name:
        raise UsageError("there is no scripted model without a task; name one")

    @lru_cache(maxsize=MAX_OPEN_MODELS)
    def find(name: str) -> Model:
        variant, _ = split_scripted_name(name)
        if is_scripted(name) and is_summarizer_variant(variant):
            if variant == "oracle" and len(by_name) > 1:
                raise UsageError("model 'scripted/oracle' knows the facts of one task; serve that task alone")
            agent = open_model("scripted", task=tasks[0], seed=seed, window_tokens=window_tokens)
            return open_summarizer(name, agent=agent, task=tasks[0], seed=seed, window_tokens=None)
        if not is_scripted(name) or variant not in by_name:
            raise UnknownName("model", name, list_model_names(tasks))
        return open_model(name, task=by_name[variant], seed=seed, window_tokens=window_tokens)

    return find
