"""Configuration of one session outside of a grid: a user's request or a task, with any model and policy.

A frozen value, which a trial's configuration is translated into as well. `harness.session.assembly` makes an agent of it.
"""

import json
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_type_hints

from harness import codec
from harness.agent.loop import Limits
from harness.agent.prompts import build_system_prompt
from harness.codec import refuse_mistyped_fields
from harness.compaction.description import find_summarizer
from harness.errors import UsageError
from harness.events import Entry, SessionForked, SessionResumed, SessionStarted
from harness.models.cassette import Cassette
from harness.models.factory import ToolCallMode, Wiring, resolve_summarizer_name
from harness.models.litellm_model import STALL_SECONDS
from harness.policies import policy_from_plain, resolve_policy
from harness.protocols import Policy
from harness.sandboxes.backends import SandboxChoice
from harness.task import Runtime, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec(codec.StrictFields):
    """Everything that decides how a session goes.

    Attributes:
        request: First message to the agent. Required.
        policy: Required.
        model: Default: `'scripted'`.
        task: Task whose files are written before the start and whose checks are run after the end; a scripted model needs one.
            Default: `None`.
        seed: Seed of a scripted model's own draws. Default: `0`.
        window_tokens: Context window; None = the model's own. Default: `None`.
        instructions: Addition to the system prompt for this session alone, e.g. the conventions of a project. Default: `''`.
        tool_calls: How the model calls tools. Default: `'native'`.
        cassette: Recording of a real model's answers, to be written or replayed; None = no recording. Default: `None`.
        take: Which of several recorded answers to equal requests is written or replayed. Default: `0`.
        stall_seconds: Silence of a provider after which a call has stalled, which is then made again. Default: `300.0`.
        nominal_window_tokens: Window that the policy's constants were chosen for; None = the constants are not scaled. Default:
            `None`.
        limits: Default: `Limits()`.
        command_timeout_seconds: Time after which a command of the agent is killed. Default: `60.0`.
        runtime: Runtime of the sandbox where there is no task; a task brings its own. Default: `'python'`.
        sandbox: Default: `SandboxChoice()`.
        unsafe_local: Default: `False`.
        journal: File of the session's log; None = the log is not kept. Default: `None`.
        keep: Folder, new or empty, into which the workspace is copied at the end; None = the workspace goes with the sandbox.
            Default: `None`.
        snapshots: Keep the workspace after each step, so that a `LiveSession` can be rolled back, forked and resumed. Default:
            `True`.
        explore: Give the agent the tool `explore`: a sub-agent looks around with a context of its own and answers shortly
            (S3.20). Default: `False`.
        repeated: Reaction to the same call, three times in a row (S3.10). Where nobody can be asked, the call is made. Default:
            `'ask'`.
    """

    request: str
    policy: Policy
    model: str = "scripted"
    task: Task | None = None
    seed: int = 0
    window_tokens: int | None = None
    instructions: str = ""
    tool_calls: ToolCallMode = "native"
    cassette: Cassette | None = None
    take: int = 0
    stall_seconds: float = STALL_SECONDS
    nominal_window_tokens: int | None = None
    limits: Limits = field(default_factory=Limits)
    command_timeout_seconds: float = 60.0
    runtime: Runtime = "python"
    sandbox: SandboxChoice = field(default_factory=SandboxChoice)
    unsafe_local: bool = False
    journal: Path | None = None
    keep: Path | None = None
    snapshots: bool = True
    explore: bool = False
    repeated: Literal["ask", "continue", "stop"] = "ask"

    def __post_init__(self) -> None:
        """Refuse values of another type, and what is no policy."""
        object.__setattr__(self, "policy", resolve_policy(self.policy))
        for name in ("journal", "keep"):
            object.__setattr__(self, name, codec.to_path(getattr(self, name)))
        refuse_mistyped_fields(self)

    @property
    def name(self) -> str:
        """Name of the task, or a shortened request."""
        return self.task.name if self.task else textwrap.shorten(self.request, 60)

    @property
    def needed_runtime(self) -> Runtime:
        """Runtime that the sandbox must have."""
        return self.task.runtime if self.task else self.runtime

    @property
    def system_prompt(self) -> str:
        """System prompt without the session's own instructions."""
        return build_system_prompt(self.needed_runtime)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that are asked, the agent's first."""
        summarizer = find_summarizer(self.policy)
        return (self.model,) if summarizer is None else (self.model, resolve_summarizer_name(summarizer, self.model))

    @property
    def wiring(self) -> Wiring:
        """Connection to real models, without the servers of local ones."""
        return Wiring(tool_calls=self.tool_calls, cassette=self.cassette, take=self.take, stall_seconds=self.stall_seconds)


UNSTORED_FIELDS = frozenset({"request", "journal", "keep", "unsafe_local"})
"""Fields of `SessionSpec` that are not part of the setup; the request is in the log itself."""
STORED_FIELDS: Mapping[str, Any] = {
    name: value_type for name, value_type in get_type_hints(SessionSpec).items() if name not in UNSTORED_FIELDS | {"policy"}
}
"""Other fields by type, except the policy, whose type is the policy's own."""
NEW_FIELDS: Mapping[str, object] = {"take": 0, "command_timeout_seconds": 60.0}
"""Fields added since version 0.1, with their defaults: left out at the default, so that equal setups have equal texts."""


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
"""Fields of a task that version 0.1 stored under another name, by their place in it."""


def encode_setup(spec: SessionSpec) -> str:
    """Return the setup of a session as canonical JSON."""
    values = {name: getattr(spec, name) for name in STORED_FIELDS}
    changed = {name: value for name, value in values.items() if name not in NEW_FIELDS or value != NEW_FIELDS[name]}
    plain = {name: codec.to_plain(value, STORED_FIELDS[name]) for name, value in changed.items()}
    return codec.to_canonical_json({**plain, "policy": codec.to_plain(spec.policy)}, dict)


def find_setup(entries: Iterable[Entry]) -> str:
    """Return the newest setup in a log; empty = none, as in a trial or a session of another program."""
    starts = [event for _, event in entries if isinstance(event, SessionStarted | SessionForked | SessionResumed)]
    return next((event.setup_json for event in reversed(starts) if event.setup_json), "")


def decode_setup(text: str) -> dict[str, Any]:
    """Return the fields of `SessionSpec` that a setup holds.

    Raises:
        UsageError: the text is no setup, or names something unknown; says where and what.
    """
    try:
        plain = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the setup of the session is not JSON: {error}") from None
    if not isinstance(plain, dict):
        raise UsageError(f"the setup of the session is no object of JSON (got {text!r:.80})")
    if isinstance(plain.get("task"), dict):
        plain["task"] = _rename_fields(plain["task"])
    stored = [(name, kind) for name, kind in STORED_FIELDS.items() if name in plain]
    values = {name: codec.from_plain(kind, plain[name], f"setup.{name}") for name, kind in stored}
    return {**values, "policy": policy_from_plain(plain.get("policy", {}), "setup.policy")}


def _rename_fields(plain: Any, place: str = "") -> Any:
    """Return a stored task with the names that its fields have now."""
    if isinstance(plain, list):
        return [_rename_fields(one, place) for one in plain]
    if not isinstance(plain, dict):
        return plain
    names = TASK_FIELDS_OF_0_1.get(place, {})
    return {names.get(name, name): _rename_fields(value, f"{place}.{name}".strip(".")) for name, value in plain.items()}
