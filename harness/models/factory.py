"""From a model's name in a plan to the model itself.

`scripted[:PROFILE]` and `scripted/TASK[:PROFILE]` are the agent that follows the trial's task; `scripted/oracle`,
`scripted/extractive`, `scripted/lossy-P` and `scripted/empty` are summarizers; `local/…` is a small real model on this
machine; anything else is a name that litellm knows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.errors import UnknownName, UsageError
from harness.events import Waiting
from harness.models.cassette import Cassette, CassetteModel
from harness.models.litellm_model import STALL_SECONDS, LitellmModel
from harness.models.local import weights
from harness.models.local.catalogue import is_local, look_up_weights
from harness.models.local.model import LocalModel
from harness.models.local.server import Endpoint
from harness.models.registry import check_model_name
from harness.models.scripted.agent import ScriptedModel
from harness.models.scripted.profiles import PROFILE_NAMES, is_scripted, look_up_profile
from harness.models.scripted.summarizers import ScriptedSummarizer, build_summarize, is_summarizer_variant
from harness.models.text_calls import RESULT_OPEN, TextCallModel
from harness.models.wrapped_model import WrappedModel
from harness.protocols import Model
from harness.task import Task

ToolCallMode = Literal["native", "text"]
"""`native` by the provider's own field for tools; `text` by the protocol of `harness.models.text_calls`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """All that decides how a name becomes a model, beside the name."""

    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    """Where local models are served; one that is not can tell its window and no more."""
    tool_calls: ToolCallMode = "native"
    """How the agent's model calls tools."""
    cassette: Cassette | None = None
    """None = every answer is asked for, and none is kept."""
    take: int = 0
    """Which of several answers to equal requests is recorded or played."""
    stall_seconds: float = STALL_SECONDS
    """Silence of a provider after which a call has stalled, which is then made again; a model of this machine has its own."""

    def __post_init__(self) -> None:
        """Refuse what no call could be made with."""
        if not self.stall_seconds > 0:
            raise UsageError(f"stall_seconds: must be above 0 (got {self.stall_seconds!r})")

    @property
    def is_replay(self) -> bool:
        """Whether no real model is asked."""
        return self.cassette is not None and self.cassette.mode == "replay"


DEFAULT_WIRING = Wiring()
"""Names alone."""


DEFAULT_PROFILE = "attentive"
SCRIPTED_WINDOW_TOKENS = 128_000
"""Of a scripted model when none is configured: that of GPT-4o, the first design document's default."""


def split_scripted_name(name: str) -> tuple[str, str]:
    """Return the task or summarizer that the name of a scripted model holds, and the profile; each may be empty."""
    variant, _, profile_name = name.removeprefix("scripted").removeprefix("/").partition(":")
    return variant, profile_name


def resolve_summarizer_name(name: str, agent_name: str) -> str:
    """The model behind a policy's `summarizer`: `same` is the agent's own, of a scripted agent `scripted/extractive`."""
    if name != "same":
        return name
    return "scripted/extractive" if is_scripted(agent_name) else agent_name


def open_model(name: str, *, task: Task | None, seed: int, window_tokens: int | None, wiring: Wiring = DEFAULT_WIRING) -> Model:
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
        real = _open_real_model(name, window_tokens, wiring)
        return TextCallModel(model=real) if wiring.tool_calls == "text" else real
    if wiring.tool_calls == "text":
        raise UsageError(f"tool_calls = 'text' is for real models; {name!r} makes its calls itself")
    if task is None:
        raise UsageError(
            f"model {name!r} follows the script of a task, and none was given; name a task (--task), or a real model (--model)"
        )
    variant, profile_name = split_scripted_name(name)
    if is_summarizer_variant(variant):
        raise UsageError(f"model {name!r} writes summaries and cannot be the agent; use 'scripted/{task.name}:{DEFAULT_PROFILE}'")
    if variant not in {"", task.name}:
        raise UnknownName("scripted model", name, {f"scripted/{task.name}:{known}" for known in PROFILE_NAMES})
    profile_name = profile_name or DEFAULT_PROFILE
    return ScriptedModel(
        name=f"scripted/{task.name}:{profile_name}",
        facts=task.facts,
        script=task.script,
        profile=look_up_profile(profile_name),
        seed=seed,
        window_tokens=window_tokens or SCRIPTED_WINDOW_TOKENS,
    )


def open_summarizer(
    name: str, *, agent: Model, task: Task | None, seed: int, window_tokens: int | None, wiring: Wiring = DEFAULT_WIRING
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
    name = resolve_summarizer_name(name, agent.name)
    if not is_scripted(name):
        return _open_real_model(name, None, wiring)
    return ScriptedSummarizer(
        name=name,
        summarize=build_summarize(name, task, seed),
        profile=look_up_profile(DEFAULT_PROFILE),
        window_tokens=window_tokens or max(SCRIPTED_WINDOW_TOKENS, agent.window.tokens),
    )


def with_wait_listener(model: Model, on_wait: Callable[[Waiting], None]) -> Model:
    """The same model; a real one tells of each wait before a retry."""
    if isinstance(model, LitellmModel | LocalModel):
        return replace(model, on_wait=on_wait)
    return replace(model, model=with_wait_listener(model.model, on_wait)) if isinstance(model, WrappedModel) else model


def _open_real_model(name: str, window_tokens: int | None, wiring: Wiring) -> Model:
    """A real model; one that is only replayed needs no key and no weights."""
    model: Model
    stop = (RESULT_OPEN,) if wiring.tool_calls == "text" else ()
    if is_local(name):
        if not wiring.is_replay:
            weights.check(look_up_weights(name))
        model = LocalModel(name=name, endpoint=wiring.endpoints.get(name), window_tokens=window_tokens, stop=stop)
    else:
        check_model_name(name, keys=not wiring.is_replay)
        model = LitellmModel(name=name, window_tokens=window_tokens, stop=stop, timeout_seconds=wiring.stall_seconds)
    return model if wiring.cassette is None else CassetteModel(model=model, cassette=wiring.cassette, take=wiring.take)
