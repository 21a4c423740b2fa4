"""From a model's name in a plan to the model itself.

`scripted` and `scripted/TASK[:PROFILE]` are the agent that follows the trial's task; `scripted/oracle`, `scripted/extractive`
and `scripted/empty` are summarizers; anything else is a name that litellm knows.
"""

from harness.errors import UnknownName, UsageError
from harness.models.litellm_model import LitellmModel
from harness.models.registry import check_model_name
from harness.models.scripted.agent import ScriptedModel
from harness.models.scripted.profiles import PROFILES, profile
from harness.models.scripted.summarizers import ScriptedSummarizer, Summarize, empty, extractive, oracle
from harness.protocols import Model
from harness.task import Task

SUMMARIZERS = ("empty", "extractive", "oracle")
DEFAULT_PROFILE = "attentive"
SCRIPTED_WINDOW_TOKENS = 128_000
"""Of a scripted model when none is configured: that of GPT-4o, the first design document's default."""


def is_scripted(name: str) -> bool:
    """Whether a name is that of a scripted model or summarizer, rightly spelled or not."""
    return name.partition("/")[0].partition(":")[0] == "scripted"


def summarizer_name(named: str, agent: str) -> str:
    """The model behind a policy's `summarizer`: `same` is the agent's own, of a scripted agent `scripted/extractive`."""
    if named != "same":
        return named
    return "scripted/extractive" if is_scripted(agent) else agent


def open_model(name: str, *, task: Task | None, seed: int, window_tokens: int | None) -> Model:
    """The agent's model.

    Args:
        name: see the module.
        task: what a scripted model works on; its script and patterns are used, never its values.
        seed: of a scripted model's own draws.
        window_tokens: overrides the window; None = the model's own.

    Raises:
        UnknownName: no such model, task or profile.
        MissingKey: a real model's key is not in the environment.
        UsageError: a scripted model without its task, or a summarizer as an agent.
    """
    if not is_scripted(name):
        check_model_name(name)
        return LitellmModel(name=name, window_tokens=window_tokens)
    if task is None:
        raise UsageError(f"model {name!r} follows the script of a task, and none was given; name a task")
    rest = "" if name == "scripted" else name.removeprefix("scripted/")
    trade, _, profile_name = rest.partition(":")
    if trade in SUMMARIZERS:
        raise UsageError(f"model {name!r} writes summaries and cannot be the agent; use 'scripted/{task.name}:{DEFAULT_PROFILE}'")
    if trade not in {"", task.name}:
        raise UnknownName("scripted model", name, {f"scripted/{task.name}:{known}" for known in PROFILES})
    profile_name = profile_name or DEFAULT_PROFILE
    return ScriptedModel(
        name=f"scripted/{task.name}:{profile_name}",
        facts=task.facts,
        script=task.script,
        profile=profile(profile_name),
        seed=seed,
        window_tokens=window_tokens or SCRIPTED_WINDOW_TOKENS,
    )


def open_summarizer(name: str, *, agent: Model, task: Task | None, window_tokens: int | None) -> Model:
    """The model that writes a policy's summaries.

    `same` is the agent's own model; a scripted agent, which only follows its script, summarizes by `scripted/extractive`.

    Raises:
        As `open_model`; also UsageError for the oracle without a task.
    """
    if name == "same" and not is_scripted(agent.name):
        return agent
    name = summarizer_name(name, agent.name)
    if not is_scripted(name):
        check_model_name(name)
        return LitellmModel(name=name)
    _, _, kind = name.partition("/")
    if kind not in SUMMARIZERS:
        raise UnknownName("scripted summarizer", name, {f"scripted/{known}" for known in SUMMARIZERS})
    return ScriptedSummarizer(
        name=name,
        summarize=_summarize(kind, task),
        profile=profile(DEFAULT_PROFILE),
        window_tokens=window_tokens or SCRIPTED_WINDOW_TOKENS,
    )


def _summarize(kind: str, task: Task | None) -> Summarize:
    if kind == "oracle":
        if task is None:
            raise UsageError("'scripted/oracle' keeps what a task's facts need, and no task was given")
        return oracle(task.facts, task.script)
    return extractive if kind == "extractive" else empty
