"""Configuration of one session, and the form in which it is stored in the log.

`harness.session.assembly` builds an agent from a configuration. The stored form, called the setup, contains everything that is
needed to continue a session later. The person who reopens a session chooses three settings again, which are therefore not stored:
the journal, the folder for copied files, and the permission to run commands without a sandbox.
"""

import hashlib
import json
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

from harness.agent.loop import refuse_invalid_max_steps
from harness.agent.prompts import build_session_context
from harness.compaction.description import find_summarizer
from harness.compaction.field_help import inherit_field_help
from harness.compaction.scaling import check_output_limit_scale
from harness.conversation import codec
from harness.conversation.codec import OptionalPathField, refuse_mistyped_fields, required
from harness.conversation.events import Entry, SessionForked, SessionResumed, SessionStarted
from harness.errors import UnknownName, UsageError
from harness.models.cassette import Cassette
from harness.models.factory import (
    SAME_MODEL,
    ToolCallMode,
    Wiring,
    check_explore_model,
    find_provider,
    resolve_explore_model,
    resolve_summarizer_name,
)
from harness.models.litellm_model import STALL_SECONDS
from harness.models.local.catalogue import CATALOGUE, is_local
from harness.models.scripted.profiles import EXACT, Reader, add_options, is_scripted
from harness.policies import policy_from_stored, resolve_policy
from harness.protocols import PolicyField
from harness.sandboxes.backends import SandboxChoice
from harness.session.gaps import Gaps
from harness.task import DEFAULT_STEP_LIMIT, Grader, Runtime, Task, judge_old_session


@dataclass(frozen=True, kw_only=True)
class AgentSettings(codec.StrictFields):
    """Settings of an agent and of its sandbox, which a session and a trial share.

    Attributes:
        policy: Compaction policy, as an object or by its public name: `"codex"` is the policy `Codex` with its defaults. The
            policy also names the summarizer. Required.
        model: Name of the agent's model: `scripted` or `scripted:PROFILE`, such as `scripted:typical`, for a simulated agent, or
            any model name of litellm. Default: `'scripted'`.
        tool_calls: Format of a real model's tool calls: `native` uses the provider's API for tool calls, `text` reads them from
            the answer. Default: `'native'`.
        window_tokens: Context window in tokens. None uses the model's own window. Default: `None`.
        nominal_window_tokens: Window in tokens for which the policy's constants were chosen. They are multiplied by the ratio of
            the actual window to this window. None keeps the constants unchanged. Default: `None`.
        max_steps: Maximum number of model calls in a turn. None is the limit of the task (`Task.step_limit`), or 50 without a
            task. Default: `None`.
        parallel_tools: Whether the tool calls of one reply run in parallel. Default: `False`.
        command_timeout_seconds: Time in seconds after which a command of the agent is killed. Default: `60.0`.
        sandbox: Sandbox backend, image and resource limits. Default: `SandboxChoice()`.
        explore: Whether the agent has the tool `explore`, which lets a sub-agent with an empty context look around and return a
            short answer. Default: `False`.
        explore_model: Name of the sub-agents' model, as in `model`; `same` is the agent's own model. Needs `explore`. A scripted
            sub-agent looks up the facts of the task that the agent's question names. Default: `'same'`.
        reader: Rule by which a scripted model finds values in the texts that it sees: `exact` needs the wording of the task,
            `tolerant` also finds statements in other words, e.g. in a summary by a real model. Default: `'exact'`.
        notes: Whether a scripted model writes each fact that it sees into a file of the workspace, `.notes.md`, and reads this
            file at the start and after a compaction, as agents with a memory tool do. Default: `False`.
        output_limit_scale: Factor on the policy's limits on the length of tool outputs, such as `clip_characters`. The limits do
            not depend on `nominal_window_tokens`. Default: `1.0`.
        summarizer_seed: Seed of the random draws of a scripted summarizer, at least 0. Another seed repeats the compactions of a
            session with other losses; the draws of the agent do not depend on it. Default: `0`.
        gaps: Distribution of simulated times between an answer of the model and the next call, for policies that read the time;
            `claude-code` was measured in 400 sessions. Equal seeds draw equal times before equal steps. Nothing waits. `none`
            simulates no times: the steps of a trial have no time then, and those of a live session have the time of day.
            Default: `'none'`.
    """

    __slots__ = ()

    policy: PolicyField = required()
    model: str = "scripted"
    tool_calls: ToolCallMode = "native"
    window_tokens: int | None = None
    nominal_window_tokens: int | None = None
    max_steps: int | None = None
    parallel_tools: bool = False
    command_timeout_seconds: float = 60.0
    sandbox: SandboxChoice = field(default_factory=SandboxChoice)
    explore: bool = False
    explore_model: str = field(default=SAME_MODEL, metadata=codec.ADDED_LATER)
    reader: Reader = field(default=EXACT, metadata=codec.ADDED_LATER)
    notes: bool = field(default=False, metadata=codec.ADDED_LATER)
    output_limit_scale: float = field(default=1.0, metadata=codec.ADDED_LATER)
    summarizer_seed: int = field(default=0, metadata=codec.ADDED_LATER)
    gaps: Gaps = field(default="none", metadata=codec.ADDED_LATER)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        inherit_field_help(cls)

    def __post_init__(self) -> None:
        """Replace the name of a policy by the policy object, and refuse values with which no session could run."""
        object.__setattr__(self, "policy", resolve_policy(self.policy))
        refuse_mistyped_fields(self)
        self._refuse_invalid_values()

    def _refuse_invalid_values(self) -> None:
        """Refuse values of the right type with which no session could run.

        Raises:
            UsageError: A value is out of range, or two values contradict each other; the message names the field.
        """
        check_output_limit_scale(self.output_limit_scale)
        check_explore_model(self.explore, self.explore_model)
        add_options(self.model, self.reader, notes=self.notes)  # raises an error if the model cannot have these options
        if self.summarizer_seed < 0:
            raise UsageError(f"summarizer_seed: must be at least 0 (got {self.summarizer_seed!r})")

    @property
    def summarizer(self) -> str | None:
        """Name of the model that writes the summaries; None if the policy calls no summarizer.

        If the policy says `same`, this is the name of the agent's model.
        """
        summarizer_choice = find_summarizer(self.policy)
        return None if summarizer_choice is None else resolve_summarizer_name(summarizer_choice, self.model)

    @property
    def sub_agent_model(self) -> str | None:
        """Name of the model of the sub-agents; None if the agent has no tool that starts sub-agents."""
        return resolve_explore_model(self.explore, self.explore_model, self.model)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of all models that the agent and its sub-agents call, the agent's model first."""
        names = (self.model, self.summarizer, self.sub_agent_model)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def build_spec(self, task: Task, seed: int, wiring: Wiring, take: int = 0, journal: Path | None = None) -> "SessionSpec":
        """Return the configuration of a session in which the agent works on a task, without a user who could be asked.

        Args:
            task: Task of the session.
            seed: Seed of the random draws of a scripted model.
            wiring: Settings for calls to real models, such as cassette and time limit.
            take: Number of the recorded answer where a cassette holds several answers to equal requests, from 0.
            journal: Journal file for the session's log; None keeps the log in memory.
        """
        return SessionSpec._from_checked(
            **{setting.name: getattr(self, setting.name) for setting in fields(AgentSettings)},
            request=task.prompt,
            task=task,
            seed=seed,
            cassette=wiring.cassette,
            take=take,
            stall_seconds=wiring.stall_seconds,
            journal=journal,
            repeated="continue",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec(AgentSettings):
    """Configuration of one session: a request or a task, with a model and a policy.

    Attributes:
        request: First message to the agent. May be empty in a `LiveSession`, which then waits for the first message. Required.
        task: Task whose files are written before the start and whose checks are run after the end. A scripted model needs a task.
            Default: `None`.
        seed: Seed of the random draws of a scripted model. Default: `0`.
        instructions: Text that is added to the system prompt, e.g. the conventions of a project. Default: `''`.
        cassette: Recording of a real model's answers, to be written or replayed. None calls the model without recording.
            Default: `None`.
        take: Number of the recorded answer to write or replay where a cassette holds several answers to equal requests, from 0.
            Default: `0`.
        stall_seconds: Time in seconds after which a call to a silent provider is abandoned and repeated. Default: `300.0`.
        api_base: Address of the server of `model`, and of other models whose name begins with the same provider. It belongs to
            this session only, is never logged, and is passed again when the session is reopened. None uses the address in the
            environment, or else the provider's. Default: `None`.
        runtime: Runtime of the sandbox for a session without a task; a task has a runtime of its own. Default: `'python'`.
        unsafe_local: Permission to use the sandbox backend `local`, which does not isolate commands. Default: `False`.
        journal: Journal file for the session's log. None keeps the log in memory. Default: `None`.
        keep: New or empty folder into which the workspace is copied at the end. None discards the workspace with the sandbox.
            Default: `None`.
        snapshots: Whether to save the workspace after each step, so that a `LiveSession` can be rolled back, forked and reopened.
            Default: `True`.
        repeated: Reaction when the agent makes the same tool call three times in a row: `ask` the user (without a user, the call
            is made), `continue`, or `stop`. Default: `'ask'`.

    Raises:
        UnknownName: A field or the policy is unknown.
        UsageError: A value has the wrong type, or a model is chosen for sub-agents that the agent cannot send.

    Example::

        spec = harness.SessionSpec(
            request="Fix the failing test",
            policy=harness.policies.KeepLast(),
            model="openai/gpt-5",
        )
        session = harness.LiveSession(spec).start()
    """

    policy: PolicyField = required()  # again, since mypy reads a field that converts its argument only where it is declared
    request: str
    command_timeout_seconds: float = field(default=60.0, metadata=codec.ADDED_LATER)  # trials had it in version 0.1 already
    task: Task | None = None
    seed: int = 0
    instructions: str = ""
    cassette: Cassette | None = None
    take: int = field(default=0, metadata=codec.ADDED_LATER)
    stall_seconds: float = STALL_SECONDS
    api_base: str | None = field(default=None, repr=False)
    runtime: Runtime = "python"
    unsafe_local: bool = False
    journal: OptionalPathField = None  # type: ignore[assignment]
    keep: OptionalPathField = None  # type: ignore[assignment]
    snapshots: bool = True
    repeated: Literal["ask", "continue", "stop"] = "ask"

    def __post_init__(self) -> None:
        """Replace the name of a policy by the policy object and texts by paths, and refuse values of the wrong type."""
        for name in ("journal", "keep"):
            object.__setattr__(self, name, codec.to_path(getattr(self, name)))
        AgentSettings.__post_init__(self)  # `super()` finds no class in a dataclass with slots
        if self.max_steps is not None:
            refuse_invalid_max_steps(self.max_steps)
        if self.api_base is not None and (is_scripted(self.model) or is_local(self.model)):
            raise UsageError(f"api_base: the model {self.model!r} has no server to choose; leave api_base out")

    @property
    def name(self) -> str:
        """Name of the session's task. In a session without a task, the shortened request."""
        return self.task.name if self.task else textwrap.shorten(self.request, 60)

    @property
    def step_limit(self) -> int:
        """Maximum number of model calls in a turn, which is `max_steps`, or else the limit of the task, or 50 without a task."""
        return compute_step_limit(self.max_steps, self.task)

    @property
    def needed_runtime(self) -> Runtime:
        """Runtime, e.g. `python`, that the sandbox of the session must provide."""
        return self.task.runtime if self.task else self.runtime

    @property
    def session_context(self) -> str:
        """Second part of the agent's system prompt, with the environment and the instructions of this session."""
        return build_session_context(self.needed_runtime, self.instructions)

    @property
    def wiring(self) -> Wiring:
        """Settings for calls to real models, such as cassette and time limits, without the servers of local models."""
        return Wiring(
            tool_calls=self.tool_calls,
            cassette=self.cassette,
            take=self.take,
            stall_seconds=self.stall_seconds,
            api_bases={} if self.api_base is None else {find_provider(self.model): self.api_base},
        )


def derive_model_seed(seed: int, replicate: int) -> int:
    """Return the seed of a scripted model's random draws in a trial with a seed and a number of the repetition."""
    return int.from_bytes(hashlib.sha256(f"model/{seed}/{replicate}".encode()).digest()[:4], "big")


def compute_step_limit(max_steps: int | None, task: Task | None) -> int:
    """Return the maximum number of model calls in a turn, which is `max_steps`, or else that of the task, or else 50."""
    if max_steps is not None:
        return max_steps
    return DEFAULT_STEP_LIMIT if task is None else task.step_limit


DEFAULT_POLICY_WINDOW_TOKENS = 32_768
"""Smallest window in tokens for which the constants of the default policy, such as its reserves of 11,000 tokens, are meant."""


def choose_nominal_tokens(model: str, window_tokens: int | None) -> int | None:
    """Return the window in tokens from which the default policy is scaled, so that its reserves fit a small local model.

    Args:
        model: Name of the model.
        window_tokens: Window that the user has chosen; None is the model's own.

    Returns:
        32,768 for a local model with a smaller window, else None, which keeps the constants of the policy.
    """
    if model not in CATALOGUE:
        return None
    tokens = window_tokens or CATALOGUE[model].window_tokens
    return DEFAULT_POLICY_WINDOW_TOKENS if tokens < DEFAULT_POLICY_WINDOW_TOKENS else None


UNSTORED_FIELDS = frozenset({"request", "journal", "keep", "unsafe_local", "api_base"})
"""Fields of a session's configuration that are not stored with the configuration in the session's log.

The request is in the log anyway. The person who reopens the session chooses the other fields again.
"""
LIMIT_FIELDS = ("max_steps", "parallel_tools")
"""Fields that are stored together as a table `limits`, as in version 0.1."""
STORED_FIELDS: Mapping[str, Any] = {
    name: value_type for name, value_type in get_type_hints(SessionSpec).items() if name not in UNSTORED_FIELDS | {"policy"}
}
"""Types of the fields that are stored when a session's configuration is saved in its log.

The policy is stored as well, but is not listed here, because each policy has a type of its own.
"""
TASK_FIELDS_OF_0_1: Mapping[str, Mapping[str, str]] = {
    "": {"later": "later_messages"},
    "checks": {"rests_on": "required_facts"},
    "facts": {"former": "former_patterns", "word": "required_word"},
    "script": {"farewell": "final_text"},
    "script.steps": {"says": "text", "needs": "required_facts"},
    "script.steps.repairs": {"error": "error_pattern", "says": "text", "needs": "required_facts"},
    "script.steps.done": {
        "listed": "listed_paths",
        "named": "summary_pattern",
        "about": "required_text",
        "counted": "count_pattern",
        "count": "minimum_count",
    },
}
"""Current names of the task fields that version 0.1 stored under other names.

The keys locate the object inside the task, e.g. `script.steps`; the values map each old field name to the current one.
"""


def encode_setup(spec: SessionSpec) -> str:
    """Return the setup (the stored configuration) of a session as canonical JSON."""
    plain = {name: codec.to_plain(getattr(spec, name), kind) for name, kind in STORED_FIELDS.items()}
    stored = codec.to_identity(spec, plain)
    limits = {name: stored.pop(name) for name in LIMIT_FIELDS}
    return codec.to_canonical_json({**stored, "limits": limits, "policy": codec.to_plain(spec.policy)}, dict)


def find_setup(entries: Iterable[Entry]) -> str:
    """Return the newest stored configuration (setup) of a session, as the JSON text in its log.

    The text is empty for a trial and for a session of another program, which have no setup.
    """
    starts = [event for _, event in entries if isinstance(event, SessionStarted | SessionForked | SessionResumed)]
    return next((event.setup_json for event in reversed(starts) if event.setup_json), "")


def decode_setup(text: str) -> dict[str, Any]:
    """Return the fields of `SessionSpec` that a setup (the stored configuration of a session) contains.

    Raises:
        UsageError: The text is not a valid setup, or contains an unknown name.
    """
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the log is damaged: the stored configuration (setup) of the session is not JSON: {error}") from None
    if not isinstance(plain, dict):
        raise UsageError(
            f"the log is damaged: the stored configuration (setup) of the session is not a JSON object (got {text!r:.80})"
        )
    if isinstance(plain.get("task"), dict):
        plain["task"] = _rename_fields(plain["task"])
        if "judge" not in plain["task"].get("grader", {}):  # a program for the sandbox, as stored by version 0.1
            plain["task"]["grader"] = codec.to_plain(Grader(judge=judge_old_session))
    limits = plain.get("limits", {})
    if not isinstance(limits, dict):
        raise UsageError(f"setup.limits: must be a table (got {limits!r:.80})")
    for name in limits:
        if name not in LIMIT_FIELDS:
            raise UnknownName("field in setup.limits:", name, LIMIT_FIELDS)
    plain |= limits
    stored = [(name, kind) for name, kind in STORED_FIELDS.items() if name in plain]
    values = {name: codec.from_plain(kind, plain[name], f"setup.{name}") for name, kind in stored}
    return {**values, "policy": policy_from_stored(plain.get("policy", {}), "setup.policy")}


def _rename_fields(plain: Any, place: str = "") -> Any:
    """Return a stored task with the fields of an older version under their current names."""
    if isinstance(plain, list):
        return [_rename_fields(item, place) for item in plain]
    if not isinstance(plain, dict):
        return plain
    names = TASK_FIELDS_OF_0_1.get(place, {})
    return {names.get(name, name): _rename_fields(value, f"{place}.{name}".strip(".")) for name, value in plain.items()}
