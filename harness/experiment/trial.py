"""Configuration of one trial as an immutable value, with an id that is a hash of the configuration.

Trials with equal configurations have equal ids in all plans. Experiments can therefore share trials, and an interrupted run can
be continued. Settings of the *run*, such as workers, time limits and the output folder, are not part of the configuration.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

from harness import revisions
from harness.compaction.description import choose_truncation, find_summarizer, inspect_abilities, name_policy, reads_time
from harness.conversation import codec
from harness.errors import UsageError
from harness.experiment.paths import list_paths, refuse_unknown_paths
from harness.models.factory import list_summarizer_parts, resolve_summarizer_name
from harness.models.rule_prices import check_rule_name
from harness.models.scripted.profiles import is_scripted
from harness.policies import expand_shorthand, policy_from_plain, refuse_unloaded
from harness.policy_file import MEMORY_PREFIX, hash_policy_file
from harness.protocols import Policy, PolicyField
from harness.sandboxes.backends import SandboxChoice
from harness.sandboxes.bubblewrap import BACKEND as BUBBLEWRAP
from harness.sandboxes.client import MAX_TIMEOUT_SECONDS
from harness.session.external_agent import ExternalAgent
from harness.session.spec import AgentSettings, derive_model_seed
from harness.task import World
from harness.tasks import ADDED_TOOLS, hash_task_file
from harness.tools.session_tools import list_tool_names

_POLICY_ADVICE = (
    "write e.g. policy='keep-last' or policy='none'; if an axis varies the policy, give one of its values, "
    "which the axis replaces"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial(AgentSettings):
    """Configuration of one trial, in which an agent with a compaction policy works on one task with one seed.

    Attributes:
        task: Name of the task, e.g. `'flashcards'`, or `FILE.py:FUNCTION` for a task of your own. Required.
        seed: Seed from which the task is drawn: the values to remember (facts) and, in many tasks, the work that is asked for and
            the places where facts are stated. With `replicate`, also the seed for a scripted model. Default: `0`.
        world: Settings that vary the task, such as its number of steps or its difficulty. Configurations are compared on equal
            tasks, worlds and seeds only. Default: `World()`.
        replicate: Number of the repetition: the same task, seed and configuration with other random draws of the model, e.g. to
            compare a configuration with itself, or to estimate pass@k. Default: `0`.
        compaction_snapshots: Whether to save the workspace at each compaction, so that `results.twins` can continue the trial
            from there under other conditions. The results of the trial do not depend on it. Default: `False`.
        price_rule: Price rule under which the prompt cache of a scripted agent is simulated, such as `anthropic-2026-10` or, with
            one of its lifetimes, `anthropic-2026-10:1h`; `harness price --list` lists the rules. Reads, writes and costs of the
            trial then follow from the rule. The empty text simulates no cache: all input has the nominal price. Twins of a trial
            are run without a rule. Real models report their own use, so a rule is refused there. Default: `''`.
        agent: Program that works on the task in place of this project's own loop, e.g.
            `ExternalAgent(command="mini -m openai/harness -t {prompt} -y --exit-immediately")`. It runs in a sandbox of
            bubblewrap without a network. Its requests are compacted by `policy` and answered by `model`. Without a command, this
            project's own loop works. Default: `ExternalAgent()`.

    Raises:
        UnknownName: A field or the policy is unknown.
        UsageError: A value has the wrong type or is out of range, or `explore_model` is given although `explore` is off.

    Example:
        >>> from harness import Trial
        >>> trial = Trial(task="flashcards", policy="keep-last", window_tokens=16_384, seed=3)
        >>> trial.policy.kind
        'keep-last'
    """

    policy: PolicyField = codec.required(metadata={"advice": _POLICY_ADVICE})
    task: str
    seed: int = 0
    world: World = field(default_factory=World)
    replicate: int = 0
    compaction_snapshots: bool = field(default=False, metadata=codec.ADDED_LATER)
    price_rule: str = field(default="", metadata=codec.ADDED_LATER)
    explore: bool = field(default=False, metadata=codec.ADDED_LATER)  # sessions had it in version 0.1 already
    agent: ExternalAgent = field(default_factory=ExternalAgent, metadata=codec.ADDED_LATER)

    def __post_init__(self) -> None:
        """Replace the name of a policy by the policy object, and refuse values with which no session could run."""
        if (name := getattr(self.task, "name", None)) or callable(self.task):
            raise UsageError(f"task: must be the name of a task, e.g. {name or 'flashcards'!r} (got {self.task!r:.60})")
        AgentSettings.__post_init__(self)  # `super()` finds no class in a dataclass with slots

    def _refuse_invalid_values(self) -> None:
        """Refuse values of the right type with which no trial could run.

        Raises:
            UsageError: A value is out of range, or two values contradict each other; the message names the field.
        """
        AgentSettings._refuse_invalid_values(self)
        refuse_function_without_file(self.policy)
        if reads_time(self.policy) and self.gaps == "none":
            advice = 'set gaps under [trial], e.g. gaps = "claude-code"'
            raise UsageError(f"policy: {self.policy_kind!r} decides by the time between steps, and a trial has none; {advice}")
        if self.agent.command:
            self._refuse_for_agent()
        if self.price_rule:
            check_rule_name(self.price_rule)
            if not is_scripted(self.model):
                advice = "leave price_rule out, and price the stored sessions with `harness price`"
                raise UsageError(f"price_rule: the model {self.model!r} reports its own use of a cache; {advice}")
        least_values = {"seed": 0, "replicate": 0, "max_steps": 1, "window_tokens": 1, "nominal_window_tokens": 1}
        for name, least in least_values.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name}: must be at least {least} (got {value!r})")
        if not 0 < self.command_timeout_seconds < MAX_TIMEOUT_SECONDS:
            bounds = f"above 0 and below {MAX_TIMEOUT_SECONDS}"
            raise UsageError(f"command_timeout_seconds: must be {bounds} (got {self.command_timeout_seconds!r})")

    def _refuse_for_agent(self) -> None:
        """Refuse settings of this project's own loop, which an external agent has no part in."""
        for name in _OWN_LOOP_SETTINGS:
            if (value := getattr(self, name)) != (default := self.__dataclass_fields__[name].default):
                raise UsageError(
                    f"{name}: an external agent has its own loop and tools, so it must be {default!r} (got {value!r})"
                )
        if hasattr(self.policy, "with_oracle"):
            raise UsageError(
                f"policy: {self.policy_kind!r} predicts the steps of this project's own loop, not of an external agent"
            )
        if self.sandbox.backend not in {"auto", BUBBLEWRAP} or self.sandbox.image:
            got = f"{self.sandbox.backend!r}, image {self.sandbox.image!r}"
            raise UsageError(f"sandbox: an external agent needs the backend {BUBBLEWRAP!r} without an image (got {got})")
        if self.sandbox.limits.network:
            raise UsageError(
                "sandbox.limits.network: an external agent has no network, only its model; it must be False (got True)"
            )

    @property
    def trial_id(self) -> str:
        """Id of the trial's configuration, as twenty hexadecimal digits.

        The id of a trial with a task or a policy in a file of your own depends on the content of that file and of the modules
        beside it that it imports. The id also depends on revision numbers, which are increased when the behaviour of a policy,
        task or tool changes.
        """
        return codec.hash_configuration({**codec.to_identity(self, to_plain(self)), **self.find_additions()}, dict)

    def find_additions(self) -> dict[str, object]:
        """Return the data besides the fields on which the trial's id depends: hashes of the user's files, and code revisions."""
        raised = {_ID_NAMES.get(part.partition(" ")[0], part): number for part, number in self._number_parts() if number}
        digests = {"task_file": hash_task_file(self.task), "policy_file": hash_policy_file(self.policy_kind)}
        additions = {**digests, "revisions": raised}
        return {name: value for name, value in additions.items() if value}

    @property
    def revisions(self) -> dict[str, int | str]:
        """Revision of each part that the trial uses, by name of the part, such as `policy codex` or `task flashcards`.

        A revision counts how often the behaviour of the part has changed since version 0.1 (see `harness.revisions`). In place of
        the revision, a task or a policy in a file of your own has the beginning of the hash of that file.
        """
        digests = {f"task {self.task}": hash_task_file(self.task)}
        digests[f"policy {self.policy_kind}"] = hash_policy_file(self.policy_kind)
        own = {part: digest[:FILE_DIGEST_CHARACTERS] for part, digest in digests.items() if digest}
        return {**dict(self._number_parts()), **own}

    def _number_parts(self) -> Iterator[tuple[str, int]]:
        """Yield each part that the trial uses with its revision."""
        parts = dict.fromkeys(self._list_parts())
        for policy in (self.policy, getattr(self.policy, "of", None)):  # the policy of a control decides what the control does
            if policy is not None:
                yield f"policy {revisions.find_stored_kind(name_policy(policy))}", getattr(policy, "revision", 0)
        for part in parts:
            if part in revisions.REVISIONS:  # tasks and tools of other origin have no revision
                yield part, revisions.REVISIONS[part]

    def _list_parts(self) -> Iterator[str]:
        """Yield the names of the parts in `REVISIONS` that decide what the trial sends, counts and pays; some occur twice."""
        agents = [name for name in (self.model, self.sub_agent_model) if name is not None]
        is_simulated = all(map(is_scripted, self.models))
        yield from (f"task {self.task}", f"{self.world.difficulty} {self.task}", "prices")
        yield "external agent" if self.agent.command else "system prompt"
        if self.price_rule:
            yield "prompt cache"
        if self.nominal_window_tokens is not None:
            yield "scaling"
        if not self.agent.command:
            saves_outputs = choose_truncation(self.policy).saved
            yield from (f"tool {name}" for name in list_tool_names(saves_outputs, explore=self.explore))
            yield from (f"tool {name}" for name in ADDED_TOOLS.get(self.task, ()))
        if not is_simulated:
            yield "listed prices"
        if is_scripted(self.model):
            yield "agent"
        else:
            yield "checks"
        if self.sub_agent_model is not None and is_scripted(self.sub_agent_model):
            yield "explorer"
        if any(map(is_scripted, agents)) or hasattr(self.policy, "with_oracle"):
            yield f"reader {self.reader}"
        if (choice := find_summarizer(self.policy)) is None:
            return
        for agent in agents:
            if is_scripted(summarizer := resolve_summarizer_name(choice, agent)):
                yield from (f"summarizer {kind}" for kind in list_summarizer_parts(summarizer))

    @property
    def problem(self) -> str:
        """Name of the task, with the settings that vary it (its world) if any are set, e.g. `long-march(steps=400)`.

        Configurations are compared on trials with equal problems and seeds.
        """
        return format_problem(self.task, self.world)

    @property
    def policy_kind(self) -> str:
        """Kind of the trial's compaction policy, e.g. `keep-last`."""
        return name_policy(self.policy)

    @property
    def is_reference(self) -> bool:
        """Whether the trial is a control, which never compacts, or a repetition of another trial.

        Such trials are always graded anew, so that a fault of the cache cannot affect all configurations of a comparison alike.
        """
        return self.replicate > 0 or not inspect_abilities(self.policy).can_act

    @property
    def model_seed(self) -> int:
        """Seed of the scripted model's random draws, derived from the fields `seed` and `replicate`."""
        return derive_model_seed(self.seed, self.replicate)


def format_problem(task: str, world: World) -> str:
    """Return the name of a task with the settings that vary it (its world), e.g. `long-march(steps=400)`."""
    overrides = ", ".join(f"{name}={value!r}" for name, value in world.changes.items())
    return f"{task}({overrides})" if overrides else task


FILE_DIGEST_CHARACTERS = 12
"""Number of hexadecimal digits by which the file of a task is identified in `Trial.revisions`."""


def refuse_function_without_file(policy: Policy, where: str = "policy") -> None:
    """Raise `UsageError` if a policy is a function that no file defines, which worker processes could not find."""
    if (kind := name_policy(policy)).startswith(MEMORY_PREFIX):
        name = kind.removeprefix(MEMORY_PREFIX)
        advice = "write it into a file (in a notebook: %%writefile mine.py) and pass policy='mine.py:NAME'"
        raise UsageError(f"{where}: worker processes cannot find the function {name!r}, since no file defines it; {advice}")


_ID_NAMES = {"policy": "policy", "task": "task"}
"""Names of the revisions of a trial's policy and task in the data from which the trial's id is computed."""
_OWN_LOOP_SETTINGS = (
    *("explore", "parallel_tools", "tool_calls", "gaps", "price_rule", "compaction_snapshots", "output_limit_scale"),
    "command_timeout_seconds",
)
"""Fields of a trial that only this project's own loop reads."""
_TABLE_DEFAULTS = {"agent": ExternalAgent(), "sandbox": SandboxChoice(), "world": World()}
"""Default values of the trial fields that are written as tables of their own in a plan file, such as `sandbox`."""
_FIELD_TYPES: dict[str, Any] = get_type_hints(Trial)
_SETTINGS = tuple(field.name for field in fields(AgentSettings) if field.name != "policy")
FIELD_NAMES = ("task", "policy", "seed", "world", "replicate", *_SETTINGS, "compaction_snapshots", "price_rule", "agent")
"""Names of the fields of a trial, in the order in which plans and code show them."""


def to_plain(trial: Trial) -> dict[str, object]:
    """Return the configuration of a trial as nested tables (dicts), with every default written out."""
    types = {**_FIELD_TYPES, "policy": type(trial.policy)}
    return {name: codec.to_plain(getattr(trial, name), types[name]) for name in FIELD_NAMES}


def encode_additions(additions: Mapping[str, object]) -> list[str]:
    """Return data besides a trial's fields, as in `Trial.find_additions`, as members of canonical JSON."""
    return [codec.to_canonical_json({name: value}, dict)[1:-1] for name, value in additions.items() if value]


_NO_SEED = codec.EncodedField(None, None, "")


class SharedFields:
    """Store of field values that trials share, so that each value is parsed and hashed only once."""

    def __init__(self) -> None:
        self._parsed: dict[tuple[str, str], Any] = {}
        self._encoded: dict[tuple[str, int], codec.EncodedField] = {}
        """Fields by name and by the `id` of their value, which the field keeps, so that no other object gets it."""
        self._additions: dict[tuple[object, ...], list[str]] = {}
        self._revisions: dict[tuple[object, ...], Mapping[str, int | str]] = {}
        self._last_seed = _NO_SEED
        """Last seed; other seeds are not kept, because an experiment may have a million."""

    def parse(self, name: str, value: object, location: str) -> Any:
        """Parse the value of a trial's field from plain data; equal data give the same object.

        Raises:
            UnknownName: A name in the value is unknown.
            UsageError: The value is invalid.
        """
        if name == "seed":
            self._last_seed = _parse_field(name, value, location)
            return self._last_seed.value
        try:
            key = name, json.dumps(value)  # unlike equality, JSON distinguishes 1, 1.0 and true
        except (TypeError, ValueError):
            return _parse_field(name, value, location).value
        if key not in self._parsed:
            field = _parse_field(name, value, location)
            self._parsed[key] = field.value
            self._encoded[name, id(field.value)] = field
        return self._parsed[key]

    def to_plain(self, trial: Trial, name: str) -> object:
        """Return the value of a trial's field as plain data. Trials share this object, so it must not be changed."""
        return self._encode(trial, name).plain

    def compute_trial_id(self, trial: Trial, additions: Sequence[str] | None = None) -> str:
        """Return the id of a trial, the same as `Trial.trial_id` but computed faster for the many trials of a grid.

        Args:
            trial: Trial whose fields are hashed.
            additions: Data besides the fields, as `encode_additions` returns them, e.g. with older revisions; None uses the data
                of today.
        """
        if additions is None:
            key = self.make_parts_key(trial)
            if key not in self._additions:
                self._additions[key] = encode_additions(trial.find_additions())
            additions = self._additions[key]
        members = [self._encode(trial, name).text for name in FIELD_NAMES]
        return codec.hash_canonical_json(f"{{{','.join(sorted(text for text in (*members, *additions) if text))}}}")

    def find_revisions(self, trial: Trial) -> Mapping[str, int | str]:
        """Return the same as `Trial.revisions`, computed once for trials that use the same parts."""
        key = self.make_parts_key(trial)
        if key not in self._revisions:
            self._revisions[key] = trial.revisions
        return self._revisions[key]

    def make_parts_key(self, trial: Trial) -> tuple[object, ...]:
        """Return everything that `Trial.revisions` and `Trial.find_additions` read."""
        policy = id(self._encode(trial, "policy").value)
        parts = trial.nominal_window_tokens is not None, bool(trial.price_rule), bool(trial.agent.command)
        task = trial.task, trial.world.difficulty
        return *task, trial.model, trial.explore, trial.explore_model, trial.reader, *parts, policy

    def _encode(self, trial: Trial, name: str) -> codec.EncodedField:
        value = getattr(trial, name)
        if name == "seed":
            if self._last_seed.value != value:
                self._last_seed = codec.encode_field(Trial, name, value)
            return self._last_seed
        key = name, id(value)
        if key not in self._encoded:
            self._encoded[key] = codec.encode_field(Trial, name, value, None if name == "policy" else _FIELD_TYPES[name])
        return self._encoded[key]


def from_plain(plain: Mapping[str, object], location: str = "trial", shared: SharedFields | None = None) -> Trial:
    """Return the trial that nested tables of a plan describe; missing fields get their defaults.

    Args:
        plain: Configuration of the trial as nested tables, as in the plan file.
        location: Dotted path of the tables in the plan, for error messages.
        shared: Field values of other trials, which the trial reuses; None parses all values anew.

    Raises:
        UnknownName: A field, a policy or a limit is unknown.
        UsageError: A value has the wrong type or is out of range; the message names the path and the allowed values.
    """
    refuse_unknown_paths(plain, FIELD_NAMES, location)
    for name in ("task", "policy"):
        if name not in plain:
            raise UsageError(f"{location}.{name}: missing; every trial needs a {name}, also where an axis replaces it")
    shared = shared or SharedFields()
    trial = Trial._from_checked(**{name: shared.parse(name, value, f"{location}.{name}") for name, value in plain.items()})
    try:
        trial._refuse_invalid_values()
    except UsageError as error:
        raise UsageError(f"{location}.{error}") from None
    return trial


def from_stored(plain: Mapping[str, object], shared: SharedFields | None = None) -> Trial:
    """Return the trial with a stored configuration, which may not execute a file with a policy.

    Args:
        plain: Configuration of the trial as nested tables, as stored with its results.
        shared: Field values of other trials, which the trial reuses; None parses all values anew.

    Raises:
        UnknownName: A field, a policy or a limit is unknown.
        UsageError: A value has the wrong type or is out of range.
    """
    plain_table: object = plain  # a damaged record may hold any JSON
    policy = plain_table.get("policy") if isinstance(plain_table, Mapping) else None
    refuse_unloaded(policy, "trial.policy")
    if isinstance(policy, Mapping) and isinstance(kind := policy.get("kind"), str):
        plain = {**plain, "policy": {**policy, "kind": revisions.read_stored_kind(kind)}}
    return from_plain(plain, shared=shared)


def _parse_field(name: str, value: object, location: str) -> codec.EncodedField:
    kind: Any = None if name == "policy" else _FIELD_TYPES[name]
    if name == "policy":
        value = expand_shorthand(value)
        if not isinstance(value, Mapping):
            raise UsageError(f"{location}: must be a name, a number of messages or a table with a kind (got {value!r:.80})")
        parsed: Any = policy_from_plain(value, location)
    else:
        if name in _TABLE_DEFAULTS and isinstance(value, Mapping):
            refuse_unknown_paths(list_paths(value), set(list_paths(codec.to_plain(_TABLE_DEFAULTS[name]))), location)
        parsed = codec.from_plain(kind, value, location)
    field = codec.encode_field(Trial, name, parsed, kind)
    codec.refuse_coerced(value, field.plain, location)
    return field
