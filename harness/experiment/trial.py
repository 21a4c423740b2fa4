"""One trial as a frozen value: everything that decides how a session goes, and the id that follows from it.

Two trials with equal configurations have equal ids wherever they were planned, so experiments share them and an
interrupted run knows what is missing. How a trial is *run* (workers, time limits, output folder) is no part of it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

from harness import codec
from harness.compaction.description import find_summarizer, name_policy
from harness.errors import UsageError
from harness.experiment.paths import list_paths, refuse_coerced, refuse_unknown_paths
from harness.models.factory import ToolCallMode, resolve_summarizer_name
from harness.policies import expand_shorthand, policy_from_plain, resolve_policy
from harness.protocols import Policy
from harness.sandboxes.backends import SandboxChoice
from harness.sandboxes.client import MAX_TIMEOUT_SECONDS
from harness.task import World
from harness.tasks import TASK_REVISIONS, hash_task_file
from harness.tools.session_tools import find_tool_revisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial(codec.StrictFields):
    """One arm on one task with one seed.

    Attributes:
        task: Name of the task template. Required.
        policy: The treatment, which names its summarizer itself. A public name such as `"codex"` stands for that policy's
            defaults. Required.
        seed: Draws the values of the task's facts; with `replicate` it also gives the model's seed. Default: `0`.
        world: The knobs of the task; every turn makes another problem, on which arms are paired as on another task. Default:
            `World()`.
        replicate: Runs the same configuration again with another model seed: the A/A arm. Default: `0`.
        model: `scripted` = the attentive scripted model of the trial's task; `scripted/…`, or any litellm name. Default:
            `'scripted'`.
        tool_calls: How a real model calls tools: by the provider's field for them, or in text (for models without). Default:
            `'native'`.
        window_tokens: Overrides the model's context window (S0.11); None = what is known of the model. Default: `None`.
        nominal_window_tokens: The window that the policy's constants were made for: they are scaled by window / nominal, so that
            the same geometry runs in a small window. None = they stand as they are. Default: `None`.
        max_steps: The session ends after so many model calls (S0.8). Default: `50`.
        parallel_tools: Whether the calls of one reply run at once (S1.3). Default: `False`.
        command_timeout_seconds: A command of the agent is killed after this time. Default: `60.0`.
        sandbox: Default: `SandboxChoice()`.
    """

    task: str
    policy: Policy
    seed: int = 0
    world: World = field(default_factory=World)
    replicate: int = 0
    model: str = "scripted"
    tool_calls: ToolCallMode = "native"
    window_tokens: int | None = None
    nominal_window_tokens: int | None = None
    max_steps: int = 50
    parallel_tools: bool = False
    command_timeout_seconds: float = 60.0
    sandbox: SandboxChoice = field(default_factory=SandboxChoice)

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        if (name := getattr(self.task, "name", None)) or callable(self.task):
            raise UsageError(f"task: a task goes by its name here, e.g. {name or 'flashcards'!r} (got {self.task!r:.60})")
        object.__setattr__(self, "policy", resolve_policy(self.policy))
        codec.refuse_mistyped_fields(self)
        least_values = {"seed": 0, "replicate": 0, "max_steps": 1, "window_tokens": 1, "nominal_window_tokens": 1}
        for name, least in least_values.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name}: must be at least {least} (got {value!r})")
        if not 0 < self.command_timeout_seconds < MAX_TIMEOUT_SECONDS:
            bounds = f"above 0 and below {MAX_TIMEOUT_SECONDS}"
            raise UsageError(f"command_timeout_seconds: must be {bounds} (got {self.command_timeout_seconds!r})")

    @property
    def trial_id(self) -> str:
        """Twenty hex digits that name the configuration, with all that the file of a task of one's own says.

        What such a file imports, and the code of policies and of this package, is no part of it. Where the behaviour of a
        policy, a task or a tool has changed since version 0.1, its revision is.
        """
        additions = {"task_file": hash_task_file(self.task), "revisions": self._revisions}
        present_additions = {name: value for name, value in additions.items() if value}
        return codec.hash_configuration({**codec.to_identity(self, to_plain(self)), **present_additions}, dict)

    @property
    def _revisions(self) -> dict[str, object]:
        """Revisions of all that decides the trial's course and is not part of its configuration."""
        revisions = {
            "policy": getattr(self.policy, "revision", 0),
            "task": TASK_REVISIONS.get(self.task, 0),
            "tools": find_tool_revisions(self.policy),
        }
        return {name: revision for name, revision in revisions.items() if revision}

    @property
    def problem(self) -> str:
        """Name of the task with the knobs that are turned, e.g. `long-march(steps=400)`: equal for what can be paired."""
        return format_problem(self.task, self.world)

    @property
    def policy_kind(self) -> str:
        """Name of the policy's family."""
        return name_policy(self.policy)

    @property
    def summarizer(self) -> str | None:
        """Name of the model that writes the summaries, with `same` resolved; None = the policy asks nobody."""
        summarizer_choice = find_summarizer(self.policy)
        return None if summarizer_choice is None else resolve_summarizer_name(summarizer_choice, self.model)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of all models that it asks, the agent's first."""
        return (self.model,) if self.summarizer in {None, self.model} else (self.model, str(self.summarizer))

    @property
    def model_seed(self) -> int:
        """Seed of the model's own randomness, another one than the task's."""
        return int.from_bytes(hashlib.sha256(f"model/{self.seed}/{self.replicate}".encode()).digest()[:4], "big")


def format_problem(task: str, world: World) -> str:
    """Return the name of a task with the values of the world that are set, e.g. `long-march(steps=400)`."""
    overrides = ", ".join(f"{name}={value!r}" for name, value in world.overrides.items())
    return f"{task}({overrides})" if overrides else task


_TABLE_DEFAULTS = {"sandbox": SandboxChoice(), "world": World()}
"""Fields that are tables, with all that they may hold."""
_FIELD_TYPES: dict[str, Any] = get_type_hints(Trial)
_FIELD_NAMES = tuple(one.name for one in fields(Trial))


def to_plain(trial: Trial) -> dict[str, object]:
    """A trial as nested tables, every default written out."""
    types = {**_FIELD_TYPES, "policy": type(trial.policy)}
    return {name: codec.to_plain(getattr(trial, name), types[name]) for name in _FIELD_NAMES}


def from_plain(plain: Mapping[str, object], location: str = "trial") -> Trial:
    """The trial of nested tables as they stand in a plan; what is left out has its default.

    Raises:
        UnknownName: a field, policy or limit that there is not; the nearest ones are offered.
        UsageError: a value of the wrong type or out of range; names the path, what stood there and what is allowed.
    """
    refuse_unknown_paths(plain, _FIELD_NAMES, location)
    for name in ("task", "policy"):
        if name not in plain:
            raise UsageError(f"{location}.{name}: every trial needs one")
    values = {name: _parse_field(name, value, f"{location}.{name}") for name, value in plain.items()}
    try:
        return Trial(**values)
    except UsageError as error:
        raise UsageError(f"{location}.{error}") from None


def _parse_field(name: str, value: object, location: str) -> Any:
    if name == "policy":
        value = expand_shorthand(value)
        if not isinstance(value, Mapping):
            raise UsageError(f"{location}: a kind, a number of messages or a table with a kind is needed (got {value!r:.80})")
        policy = policy_from_plain(value, location)
        refuse_coerced(value, codec.to_plain(policy), location)
        return policy
    if name in _TABLE_DEFAULTS and isinstance(value, Mapping):
        refuse_unknown_paths(list_paths(value), set(list_paths(codec.to_plain(_TABLE_DEFAULTS[name]))), location)
    parsed = codec.from_plain(_FIELD_TYPES[name], value, location)
    refuse_coerced(value, codec.to_plain(parsed, _FIELD_TYPES[name]), location)
    return parsed
