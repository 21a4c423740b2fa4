"""Creation of models from the names that are used in the plan of an experiment.

- `scripted[:PROFILE]` and `scripted/TASK[:PROFILE]` follow the script of the trial's task; the profile is a reading ability.
- `scripted/oracle`, `scripted/extractive`, `scripted/lossy-P`, `scripted/survival:NAME` and `scripted/empty` write summaries
  without a real model.
- `local/…` is a small real model on this machine.
- Any other name is a model of litellm.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.conversation.events import Waiting
from harness.errors import UnknownName, UsageError
from harness.models.cassette import Cassette, CassetteModel
from harness.models.litellm_model import STALL_SECONDS, LitellmModel
from harness.models.local import weights
from harness.models.local.catalogue import is_local, look_up_weights
from harness.models.local.model import LocalModel
from harness.models.local.server import Endpoint
from harness.models.registry import check_model_name
from harness.models.scripted.agent import ScriptedModel
from harness.models.scripted.profiles import DEFAULT_PROFILE, PROFILE_NAMES, is_scripted, look_up_profile, parse_probability
from harness.models.scripted.sub_agent import ScriptedSubAgent
from harness.models.scripted.summarizers import (
    EMPTY_SUMMARY,
    ScriptedSummarizer,
    Summarize,
    build_lossy_summarize,
    build_oracle_summarize,
    summarize_extractively,
)
from harness.models.scripted.survival import build_survival_summarize
from harness.models.survival_table import parse_survival_name
from harness.models.text_calls import RESULT_OPEN, TextCallModel
from harness.models.wrapped_model import WrappedModel
from harness.protocols import Model, ignore
from harness.task import Task

ToolCallMode = Literal["native", "text"]
"""Form of a model's tool calls: `native` uses the provider's tool interface, `text` writes the calls as plain text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Settings with which a model is created, besides its name, e.g. a file of recorded answers or a time limit."""

    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    """Addresses of the local models that are being served on this machine, by model name.

    A local model without an address reports its window but answers nothing.
    """
    tool_calls: ToolCallMode = "native"
    """Form of the agent's tool calls, `native` or `text`."""
    cassette: Cassette | None = None
    """File for the recorded answers of real models (cassette); None calls the models and records nothing."""
    take: int = 0
    """Number that distinguishes the recorded answers to equal requests, such as those of two repetitions of a trial."""
    stall_seconds: float = STALL_SECONDS
    """Time in seconds without data from a provider after which a call is repeated. Local models have a limit of their own."""

    api_bases: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Addresses of servers of real models by provider, i.e. the beginning of the model's name; may contain credentials."""

    on_replay: Callable[[float], None] = ignore
    """Listener that is called for each answer that a cassette replays, with its cost in US dollars less the money paid for it."""

    def __post_init__(self) -> None:
        if not self.stall_seconds > 0:
            raise UsageError(f"stall_seconds: must be above 0 (got {self.stall_seconds!r})")

    @property
    def is_replay(self) -> bool:
        """Whether answers of real models come from a cassette (a recording) only, without calls to the models."""
        return self.cassette is not None and self.cassette.mode == "replay"


DEFAULT_WIRING = Wiring()
"""Default settings, for models that need nothing but their name."""


SAME_MODEL = "same"
"""Name that stands for the agent's own model where the model of a summarizer or sub-agent is chosen."""
SUMMARIZERS = ("empty", "extractive", "lossy-P", "oracle", "survival:NAME")
"""Names of the scripted summarizers.

P stands for a number from 0 to 1, and NAME for a profile that `harness models survival` lists.
"""
SURVIVAL = "survival"
"""Kind of the summarizer that loses facts at published rates, before the `:` in its name."""
KNOWING_SUMMARIZERS = frozenset({"oracle", SURVIVAL})
"""Kinds of scripted summarizers that know the text patterns of one task's facts."""
LOSSY_PATTERN = re.compile(r"lossy-(.*)")
SCRIPTED_WINDOW_TOKENS = 128_000
"""Default context window of scripted models in tokens, equal to the window of GPT-4o."""


def split_scripted_name(name: str) -> tuple[str, str]:
    """Split the name of a scripted model, e.g. `scripted/flashcards:typical` into `flashcards` and `typical`.

    Returns:
        The name of a task or summarizer, and the name of a profile. Each may be empty.
    """
    variant, _, profile_name = name.removeprefix("scripted").removeprefix("/").partition(":")
    return variant, profile_name


def resolve_summarizer_name(name: str, agent_name: str) -> str:
    """Return the name of the model that writes summaries, given a policy's setting `summarizer`.

    The setting `same` means the agent's own model, or `scripted/extractive` if the agent is scripted.
    """
    if name != SAME_MODEL:
        return name
    return "scripted/extractive" if is_scripted(agent_name) else agent_name


def list_summarizer_parts(name: str) -> tuple[str, ...]:
    """Return the kinds of the scripted summarizers whose code writes the summaries of a scripted summarizer.

    Example:
        >>> from harness.models.factory import list_summarizer_parts
        >>> list_summarizer_parts("scripted/lossy-0.5")
        ('extractive', 'lossy')
    """
    kind = split_scripted_name(name)[0]
    return ("extractive", "lossy") if LOSSY_PATTERN.fullmatch(kind) else (kind,)


def check_explore_model(explore: bool, name: str) -> None:
    """Check that a model for sub-agents is named only if the agent has a tool that starts sub-agents.

    Raises:
        UsageError: A model is named, but `explore` is false.
    """
    if name != SAME_MODEL and not explore:
        raise UsageError(f"explore_model: has no effect unless explore is true (got {name!r}); set explore, or leave it out")


def resolve_explore_model(explore: bool, name: str, agent_name: str) -> str | None:
    """Return the name of the sub-agents' model; None if the agent has no sub-agents.

    The setting `same` stands for the agent's own model.
    """
    return None if not explore else agent_name if name == SAME_MODEL else name


def open_model(name: str, *, task: Task | None, seed: int, window_tokens: int | None, wiring: Wiring = DEFAULT_WIRING) -> Model:
    """Create the model of an agent from the model's name.

    Args:
        name: Name of the model: `scripted`, `scripted:PROFILE`, `local/…`, or a name of litellm such as
            `anthropic/claude-sonnet-4-5`.
        task: Task whose script a scripted model follows; the model never sees the task's values. None for real models.
        seed: Seed of a scripted model's own random draws.
        window_tokens: Context window in tokens; None uses the model's own window.
        wiring: Settings for calls to real models, such as cassette and time limit.

    Raises:
        UnknownName: There is no such model, task or profile.
        MissingKey: The key of a real model is not in the environment.
        UsageError: A scripted model has no task or is asked for tool calls in text, the name is that of a summarizer, or a local
            model is not installed.

    Example:
        >>> from harness import open_model
        >>> from harness.tasks import make_task
        >>> open_model("scripted:typical", task=make_task("flashcards", 1), seed=1, window_tokens=32_000).name
        'scripted/flashcards:typical'
    """
    if not is_scripted(name):
        real = _open_real_model(name, window_tokens, wiring)
        return TextCallModel(model=real) if wiring.tool_calls == "text" else real
    if wiring.tool_calls == "text":
        raise UsageError(f"tool_calls = 'text' applies to real models only; leave it out for the scripted model {name!r}")
    task, profile_name = _parse_agent_name(name, task)
    return ScriptedModel(
        name=f"scripted/{task.name}:{profile_name}",
        facts=task.facts,
        script=task.script,
        profile=look_up_profile(profile_name),
        seed=seed,
        window_tokens=window_tokens or SCRIPTED_WINDOW_TOKENS,
    )


def open_sub_agent(name: str, *, agent: Model, task: Task | None, seed: int, wiring: Wiring = DEFAULT_WIRING) -> Model:
    """Create the model of sub-agents, which look around for an agent and answer its questions.

    Args:
        name: Name of the model, as for an agent, or `same` for the agent's own model. A scripted model does not follow the script
            of the task, but looks up the facts (values of the task) that a question names.
        agent: Model of the agent. With the name `same`, a scripted sub-agent takes over its profile and its context window.
            With any other name, the sub-agent has a window of its own.
        task: Task whose facts a scripted model looks up. None for real models.
        seed: Seed of a scripted model's own random draws.
        wiring: Settings for calls to real models, such as cassette and time limit.

    Raises:
        UnknownName: There is no such model, task or profile.
        MissingKey: The key of a real model is not in the environment.
        UsageError: A scripted model has no task, the name is that of a summarizer, or a local model is not installed.

    Example:
        >>> from harness.models.factory import open_sub_agent, open_model
        >>> from harness.tasks import make_task
        >>> task = make_task("flashcards", 1)
        >>> agent = open_model("scripted", task=task, seed=1, window_tokens=32_000)
        >>> open_sub_agent("scripted:typical", agent=agent, task=task, seed=1).name
        'scripted/flashcards:typical'
    """
    is_same = name == SAME_MODEL
    if is_same and not is_scripted(agent.name):
        return agent
    name = agent.name if is_same else name
    if not is_scripted(name):
        return open_model(name, task=None, seed=seed, window_tokens=None, wiring=wiring)
    task, profile_name = _parse_agent_name(name, task)
    return ScriptedSubAgent(
        name=f"scripted/{task.name}:{profile_name}",
        facts=task.facts,
        profile=look_up_profile(profile_name),
        seed=seed,
        window_tokens=agent.window.tokens if is_same else SCRIPTED_WINDOW_TOKENS,
    )


def _parse_agent_name(name: str, task: Task | None) -> tuple[Task, str]:
    """Return the task, which must not be None, and the profile in the name of a scripted agent, or else the default profile."""
    if task is None:
        raise UsageError(f"model {name!r} follows a task, but no task was given; add --task or choose a real model (--model)")
    variant, profile_name = split_scripted_name(name)
    if is_summarizer_variant(variant):
        raise UsageError(f"model {name!r} writes summaries and cannot be the agent; use 'scripted/{task.name}:{DEFAULT_PROFILE}'")
    if variant not in {"", task.name}:
        raise UnknownName("scripted model", name, {f"scripted/{task.name}:{known}" for known in PROFILE_NAMES})
    return task, profile_name or DEFAULT_PROFILE


def open_summarizer(
    name: str,
    *,
    agent: Model,
    task: Task | None,
    seed: int,
    window_tokens: int | None,
    summarizer_seed: int = 0,
    wiring: Wiring = DEFAULT_WIRING,
) -> Model:
    """Create the model that writes the summaries of a compaction policy.

    Args:
        name: Name of a scripted summarizer such as `scripted/extractive`, name of a real model, or `same`. `same` means the
            agent's own model, or `scripted/extractive` if the agent is scripted.
        agent: Model of the agent whose messages are summarized.
        task: Task whose facts the summarizers `scripted/oracle` and `scripted/survival:NAME` find; None for other summarizers.
        seed: Seed of the random draws of `scripted/lossy-P`.
        summarizer_seed: Seed of the random draws of `scripted/survival:NAME`, and second seed of `scripted/lossy-P`.
        window_tokens: Context window of a scripted summarizer in tokens; None uses 128,000 tokens, or the agent's window if that
            is larger.
        wiring: Settings for calls to real models, such as cassette and time limit.

    Raises:
        UnknownName: There is no such model or summarizer.
        MissingKey: The key of a real model is not in the environment.
        UsageError: `scripted/oracle` or `scripted/survival:NAME` has no task, or a local model is not installed.

    Example:
        >>> from harness import open_model, open_summarizer
        >>> from harness.tasks import make_task
        >>> task = make_task("flashcards", 1)
        >>> agent = open_model("scripted", task=task, seed=1, window_tokens=32_000)
        >>> open_summarizer("same", agent=agent, task=task, seed=1, window_tokens=None).name
        'scripted/extractive'
    """
    if name == SAME_MODEL and not is_scripted(agent.name):
        return agent
    name = resolve_summarizer_name(name, agent.name)
    if not is_scripted(name):
        return _open_real_model(name, None, wiring)
    return ScriptedSummarizer(
        name=name,
        summarize=build_summarize(name, task, seed, summarizer_seed),
        profile=look_up_profile(DEFAULT_PROFILE),
        window_tokens=window_tokens or max(SCRIPTED_WINDOW_TOKENS, agent.window.tokens),
    )


def with_wait_listener(model: Model, on_wait: Callable[[Waiting], None]) -> Model:
    """Return a copy of a model that calls `on_wait` before each wait; only real models wait."""
    if isinstance(model, LitellmModel | LocalModel):
        return replace(model, on_wait=on_wait)
    return replace(model, model=with_wait_listener(model.model, on_wait)) if isinstance(model, WrappedModel) else model


def find_provider(name: str) -> str:
    """Return the beginning of a real model's name, up to the first `/`, for which an address can be chosen."""
    return name.partition("/")[0]


def _open_real_model(name: str, window_tokens: int | None, wiring: Wiring) -> Model:
    """Create a real model; a replay of recorded answers needs neither an API key nor weights."""
    model: Model
    stop = (RESULT_OPEN,) if wiring.tool_calls == "text" else ()
    if is_local(name):
        if not wiring.is_replay:
            weights.check(look_up_weights(name))
        model = LocalModel(name=name, endpoint=wiring.endpoints.get(name), window_tokens=window_tokens, stop=stop)
    else:
        api_base = wiring.api_bases.get(find_provider(name))
        check_model_name(name, keys=not wiring.is_replay, has_address=api_base is not None)
        model = LitellmModel(
            name=name, window_tokens=window_tokens, api_base=api_base, stop=stop, timeout_seconds=wiring.stall_seconds
        )
    if wiring.cassette is None:
        return model
    return CassetteModel(model=model, cassette=wiring.cassette, take=wiring.take, on_replay=wiring.on_replay)


def is_summarizer_variant(variant: str) -> bool:
    """Return whether a part of a model's name, such as `oracle` in `scripted/oracle`, names a summarizer."""
    return variant == SURVIVAL or variant in SUMMARIZERS or LOSSY_PATTERN.fullmatch(variant) is not None


def build_summarize(name: str, task: Task | None, seed: int, summarizer_seed: int = 0) -> Summarize:
    """Return the function with which a scripted summarizer writes a summary.

    Raises:
        UnknownName: There is no summarizer or survival profile of that name.
        UsageError: `scripted/oracle` or `scripted/survival:NAME` has no task, the P of `scripted/lossy-P` is not a probability,
            or the SPREAD of `scripted/survival:NAME-SPREAD` is not a number of at least 0.
    """
    kind = name.removeprefix("scripted/")
    survival_choice = parse_survival_name(name) if kind.partition(":")[0] == SURVIVAL else None
    if survival_choice is not None or kind == "oracle":
        if task is None:
            raise UsageError(f"the summarizer {name!r} keeps facts of a task, but no task was given; choose another summarizer")
        if survival_choice is not None:
            return build_survival_summarize(task.facts, task.script, survival_choice.build_rates(), summarizer_seed)
        return build_oracle_summarize(task.facts, task.script)
    if lossy_kind := LOSSY_PATTERN.fullmatch(kind):
        return build_lossy_summarize(parse_probability(name, lossy_kind[1]), seed, summarizer_seed)
    if kind == "extractive":
        return summarize_extractively
    if kind == "empty":
        return lambda _prompt, _limit_tokens: EMPTY_SUMMARY
    raise UnknownName("scripted summarizer", name, {f"scripted/{known}" for known in SUMMARIZERS})
