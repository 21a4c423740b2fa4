"""From a model's name in a plan to the model itself.

`scripted[:PROFILE]` and `scripted/TASK[:PROFILE]` are the agent that follows the trial's task; `scripted/oracle`,
`scripted/extractive`, `scripted/lossy-P` and `scripted/empty` are summarizers; `local/…` is a small real model on this
machine; anything else is a name that litellm knows.
"""

import re
from types import MappingProxyType

from harness.errors import UnknownName, UsageError
from harness.models.litellm_model import LitellmModel
from harness.models.local import weights
from harness.models.local.catalogue import is_local, weights_of
from harness.models.local.model import LocalModel
from harness.models.local.server import Endpoints
from harness.models.registry import check_model_name
from harness.models.scripted.agent import ScriptedModel
from harness.models.scripted.profiles import KNOWN, probability, profile
from harness.models.scripted.summarizers import ScriptedSummarizer, Summarize, empty, extractive, lossy, oracle
from harness.protocols import Model
from harness.task import Task

SUMMARIZERS = ("empty", "extractive", "lossy-P", "oracle")
"""The scripted ones; P is a number from 0 to 1."""
LOSSY = re.compile(r"lossy-(.*)")
DEFAULT_PROFILE = "attentive"
SCRIPTED_WINDOW_TOKENS = 128_000
"""Of a scripted model when none is configured: that of GPT-4o, the first design document's default."""

NOWHERE: Endpoints = MappingProxyType({})
"""No local model is served."""


def is_scripted(name: str) -> bool:
    """Whether a name is that of a scripted model or summarizer, rightly spelled or not."""
    return name.partition("/")[0].partition(":")[0] == "scripted"


def summarizer_name(named: str, agent: str) -> str:
    """The model behind a policy's `summarizer`: `same` is the agent's own, of a scripted agent `scripted/extractive`."""
    if named != "same":
        return named
    return "scripted/extractive" if is_scripted(agent) else agent


def open_model(name: str, *, task: Task | None, seed: int, window_tokens: int | None, endpoints: Endpoints = NOWHERE) -> Model:
    """The agent's model.

    Args:
        name: see the module.
        task: what a scripted model works on; its script and patterns are used, never its values.
        seed: of a scripted model's own draws.
        window_tokens: overrides the window; None = the model's own.
        endpoints: where local models are served; one that is not can tell its window and no more.

    Raises:
        UnknownName: no such model, task or profile.
        MissingKey: a real model's key is not in the environment.
        UsageError: a scripted model without its task, a summarizer as an agent, a local model that is not installed.
    """
    if not is_scripted(name):
        return _real(name, window_tokens, endpoints)
    if task is None:
        raise UsageError(f"model {name!r} follows the script of a task, and none was given; name a task")
    trade, _, profile_name = name.removeprefix("scripted").removeprefix("/").partition(":")
    if trade in SUMMARIZERS or LOSSY.fullmatch(trade):
        raise UsageError(f"model {name!r} writes summaries and cannot be the agent; use 'scripted/{task.name}:{DEFAULT_PROFILE}'")
    if trade not in {"", task.name}:
        raise UnknownName("scripted model", name, {f"scripted/{task.name}:{known}" for known in KNOWN})
    profile_name = profile_name or DEFAULT_PROFILE
    return ScriptedModel(
        name=f"scripted/{task.name}:{profile_name}",
        facts=task.facts,
        script=task.script,
        profile=profile(profile_name),
        seed=seed,
        window_tokens=window_tokens or SCRIPTED_WINDOW_TOKENS,
    )


def open_summarizer(
    name: str, *, agent: Model, task: Task | None, seed: int, window_tokens: int | None, endpoints: Endpoints = NOWHERE
) -> Model:
    """The model that writes a policy's summaries.

    Args:
        name: see the module; `same` is the agent's own model, or `scripted/extractive` where that only follows its script.
        agent: the agent's model.
        task: whose facts the oracle knows.
        seed: of the draws of `scripted/lossy-P`.
        window_tokens: overrides the window of a scripted summarizer, which is 128K, or the agent's if that is larger.
        endpoints: where local models are served.

    Raises:
        As `open_model`; also UsageError for the oracle without a task.
    """
    if name == "same" and not is_scripted(agent.name):
        return agent
    name = summarizer_name(name, agent.name)
    if not is_scripted(name):
        return _real(name, None, endpoints)
    return ScriptedSummarizer(
        name=name,
        summarize=_summarize(name, task, seed),
        profile=profile(DEFAULT_PROFILE),
        window_tokens=window_tokens or max(SCRIPTED_WINDOW_TOKENS, agent.window.tokens),
    )


def _real(name: str, window_tokens: int | None, endpoints: Endpoints) -> Model:
    if is_local(name):
        weights.check(weights_of(name))
        return LocalModel(name=name, endpoint=endpoints.get(name), window_tokens=window_tokens)
    check_model_name(name)
    return LitellmModel(name=name, window_tokens=window_tokens)


def _summarize(name: str, task: Task | None, seed: int) -> Summarize:
    kind = name.removeprefix("scripted/")
    if kind == "oracle":
        if task is None:
            raise UsageError("'scripted/oracle' keeps what a task's facts need, and no task was given")
        return oracle(task.facts, task.script)
    if lossy_kind := LOSSY.fullmatch(kind):
        return lossy(probability(name, lossy_kind[1]), seed)
    simple: dict[str, Summarize] = {"extractive": extractive, "empty": empty}
    if kind not in simple:
        raise UnknownName("scripted summarizer", name, {f"scripted/{known}" for known in SUMMARIZERS})
    return simple[kind]
