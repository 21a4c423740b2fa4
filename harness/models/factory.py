"""From a model's name in a plan to the model itself.

`scripted[:PROFILE]` and `scripted/TASK[:PROFILE]` are the agent that follows the trial's task; `scripted/oracle`,
`scripted/extractive`, `scripted/lossy-P` and `scripted/empty` are summarizers; `local/…` is a small real model on this
machine; anything else is a name that litellm knows.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from harness.errors import UnknownName, UsageError
from harness.events import Waiting
from harness.models.cassette import Taped
from harness.models.litellm_model import LitellmModel
from harness.models.local import weights
from harness.models.local.catalogue import is_local, weights_of
from harness.models.local.model import LocalModel
from harness.models.registry import check_model_name
from harness.models.scripted.agent import ScriptedModel
from harness.models.scripted.profiles import KNOWN, probability, profile
from harness.models.scripted.summarizers import ScriptedSummarizer, Summarize, empty, extractive, lossy, oracle
from harness.models.text_calls import RESULT_OPEN, TextCalls
from harness.models.wiring import PLAIN, ToolCalls, Wiring
from harness.protocols import Model
from harness.task import Task

SUMMARIZERS = ("empty", "extractive", "lossy-P", "oracle")
"""The scripted ones; P is a number from 0 to 1."""
LOSSY = re.compile(r"lossy-(.*)")
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


def open_model(name: str, *, task: Task | None, seed: int, window_tokens: int | None, wiring: Wiring = PLAIN) -> Model:
    """The agent's model.

    Args:
        name: see the module.
        task: what a scripted model works on; its script and patterns are used, never its values.
        seed: of a scripted model's own draws.
        window_tokens: overrides the window; None = the model's own.
        wiring: how a real model is reached.

    Raises:
        UnknownName: no such model, task or profile.
        MissingKey: a real model's key is not in the environment.
        UsageError: a scripted model without its task, a summarizer as an agent, a local model that is not installed, calls
            in text of a model that is scripted.
    """
    if not is_scripted(name):
        real = _real(name, window_tokens, wiring)
        return TextCalls(model=real) if wiring.tool_calls == "text" else real
    check_tool_calls(name, wiring.tool_calls)
    if task is None:
        raise UsageError(
            f"model {name!r} follows the script of a task, and none was given; name a task (--task), or a real model (--model)"
        )
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
    name: str, *, agent: Model, task: Task | None, seed: int, window_tokens: int | None, wiring: Wiring = PLAIN
) -> Model:
    """The model that writes a policy's summaries.

    Args:
        name: see the module; `same` is the agent's own model, or `scripted/extractive` where that only follows its script.
        agent: the agent's model.
        task: whose facts the oracle knows.
        seed: of the draws of `scripted/lossy-P`.
        window_tokens: overrides the window of a scripted summarizer, which is 128K, or the agent's if that is larger.
        wiring: how a real model is reached.

    Raises:
        As `open_model`; also UsageError for the oracle without a task.
    """
    if name == "same" and not is_scripted(agent.name):
        return agent
    name = summarizer_name(name, agent.name)
    if not is_scripted(name):
        return _real(name, None, wiring)
    return ScriptedSummarizer(
        name=name,
        summarize=_summarize(name, task, seed),
        profile=profile(DEFAULT_PROFILE),
        window_tokens=window_tokens or max(SCRIPTED_WINDOW_TOKENS, agent.window.tokens),
    )


def check_tool_calls(name: str, tool_calls: ToolCalls) -> None:
    """Refuse an agent that could not call its tools.

    Raises:
        UsageError: a scripted model has nothing to do with text.
    """
    if is_scripted(name) and tool_calls == "text":
        raise UsageError(f"tool_calls = 'text' is for real models; {name!r} makes its calls itself")


def listening(model: Model, listen: Callable[[Waiting], None]) -> Model:
    """The same model; a real one tells of each wait before a retry."""
    if isinstance(model, LitellmModel | LocalModel):
        return replace(model, waiting=listen)
    return replace(model, model=listening(model.model, listen)) if isinstance(model, Taped | TextCalls) else model


def _real(name: str, window_tokens: int | None, wiring: Wiring) -> Model:
    """A real model; one that is only replayed needs no key and no weights."""
    model: Model
    stop = (RESULT_OPEN,) if wiring.tool_calls == "text" else ()
    if is_local(name):
        if not wiring.replays:
            weights.check(weights_of(name))
        model = LocalModel(name=name, endpoint=wiring.endpoints.get(name), window_tokens=window_tokens, stop=stop)
    else:
        check_model_name(name, keys=not wiring.replays)
        model = LitellmModel(name=name, window_tokens=window_tokens, stop=stop, timeout_seconds=wiring.stall_seconds)
    return model if wiring.cassette is None else Taped(model=model, cassette=wiring.cassette, take=wiring.take)


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
