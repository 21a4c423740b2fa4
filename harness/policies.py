"""All compaction policies by their public names, and functions that build a policy from its description in a plan file.

A policy class of this package is registered by its name in `__all__`. Another package registers its policy class in the entry
point group `harness.policies`; the class must be a frozen dataclass with a `kind` (public name) of its own.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from harness.compaction.function_policy import PolicyFunction
from harness.compaction.pipeline import refuse_invalid_conditions
from harness.compaction.presets.adaptive_headroom import AdaptiveHeadroom
from harness.compaction.presets.bounds import DropAll, OracleRetention, RandomRetention
from harness.compaction.presets.claude_code import ClaudeCode
from harness.compaction.presets.cline import Cline, ClineBasic, ClineClassic
from harness.compaction.presets.codex import Codex, Codex2025
from harness.compaction.presets.crush import Crush
from harness.compaction.presets.dexto import Dexto
from harness.compaction.presets.frozen_ranked import FrozenRanked
from harness.compaction.presets.gemini import GeminiCli, GeminiMasking
from harness.compaction.presets.goose import Goose
from harness.compaction.presets.hermes import HermesLean
from harness.compaction.presets.inspect_ai import InspectEdit, InspectSummary, InspectTrim
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.kimi import Kimi
from harness.compaction.presets.langchain import AnthropicClear, DeepAgents, LangChainClear, LangChainSummary
from harness.compaction.presets.letta import Letta
from harness.compaction.presets.maf import MafAnchored
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.openai_agents import OpenAiAgents, OpenAiTrimmer
from harness.compaction.presets.opencode import OpenCode, OpenCodePrune, OpenCodeV1
from harness.compaction.presets.openhands import OpenHands, OpenHandsV0
from harness.compaction.presets.paced import Paced
from harness.compaction.presets.pi import Pi
from harness.compaction.presets.pydantic_ai import PydanticClear, PydanticSummary, PydanticWindow
from harness.compaction.presets.ratio import Ratio, SimplifiedGeminiCli, SimplifiedOpenCode
from harness.compaction.presets.recency import Recency
from harness.compaction.presets.reserve import ReserveRecent
from harness.compaction.presets.roo_code import RooCode, RooSliding
from harness.compaction.presets.session_brief import CopilotInline, Handoff
from harness.compaction.presets.strands import StrandsSummary, StrandsWindow
from harness.compaction.presets.swe_agent import ComplexityTrapMask, ComplexityTrapSummary, MiniSweAgent, SweAgent
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.compaction.presets.verbatim_lines import VerbatimLines
from harness.compaction.presets.window import MessageWindow
from harness.conversation.codec import from_plain
from harness.errors import UnknownName, UsageError, advise_moved_module
from harness.policy_file import (
    find_loaded_class,
    is_file_name,
    load_file_policy,
    wrap_function,
)
from harness.protocols import Policy
from harness.revisions import read_stored_kind

__all__ = [
    "ENTRY_POINT_GROUP",
    "PRESETS",
    "PUBLIC_NAMES",
    "REQUIRED_ATTRIBUTES",
    "WRAPPERS",
    "AdaptiveHeadroom",
    "AnthropicClear",
    "ClaudeCode",
    "Cline",
    "ClineBasic",
    "ClineClassic",
    "Codex",
    "Codex2025",
    "ComplexityTrapMask",
    "ComplexityTrapSummary",
    "CopilotInline",
    "Crush",
    "DeepAgents",
    "Dexto",
    "DropAll",
    "FrozenRanked",
    "GeminiCli",
    "GeminiMasking",
    "Goose",
    "Handoff",
    "HermesLean",
    "InspectEdit",
    "InspectSummary",
    "InspectTrim",
    "KeepLast",
    "Kimi",
    "LangChainClear",
    "LangChainSummary",
    "Letta",
    "MafAnchored",
    "MessageWindow",
    "MiniSweAgent",
    "NoCompaction",
    "OpenAiAgents",
    "OpenAiTrimmer",
    "OpenCode",
    "OpenCodePrune",
    "OpenCodeV1",
    "OpenHands",
    "OpenHandsV0",
    "OracleRetention",
    "Paced",
    "Pi",
    "PydanticClear",
    "PydanticSummary",
    "PydanticWindow",
    "RandomRetention",
    "Ratio",
    "Recency",
    "ReserveRecent",
    "RooCode",
    "RooSliding",
    "SimplifiedGeminiCli",
    "SimplifiedOpenCode",
    "StrandsSummary",
    "StrandsWindow",
    "SweAgent",
    "ThreeTiers",
    "VerbatimLines",
    "check_policy",
    "expand_shorthand",
    "find_kind",
    "find_public_name",
    "list_policy_names",
    "list_versions",
    "load_policy_class",
    "load_policy_classes",
    "policy_from_plain",
    "policy_from_stored",
    "refuse_unloaded",
    "resolve_policy",
]

ENTRY_POINT_GROUP = "harness.policies"
"""Name of the entry point group in which other installed packages register their compaction policies."""

REQUIRED_ATTRIBUTES = ("budget", "clip_characters", "counter", "plan")
"""Names of the attributes that a class must have to be used as a compaction policy."""

WRAPPERS: dict[str, type[Any]] = {"recency": Recency}
"""Classes of policies that only apply another policy in another way, by their `kind`."""
_EXPORTED: list[Any] = [
    value for name, value in globals().items() if name in __all__ and isinstance(value, type) and value not in WRAPPERS.values()
]
PRESETS: dict[str, type[Any]] = dict(sorted((preset.__dataclass_fields__["kind"].default, preset) for preset in _EXPORTED))
"""Policy classes of this package by their `kind`, which is stored with results, such as `keep-last`."""

PUBLIC_NAMES = {
    "codex@2026": "codex",
    "opencode@v2": "opencode",
    "seed-gemini": "gemini-cli-simplified",
    "seed-opencode": "opencode-simplified",
}
"""Public names of the policies whose `kind` is another; ids and stored results keep the kind, which is accepted as a name too.

The name of a policy without a version is its newest version.
"""
_KINDS = {name: kind for kind, name in PUBLIC_NAMES.items()}

SeedGemini, SeedOpenCode = SimplifiedGeminiCli, SimplifiedOpenCode  # names of these classes until version 0.2


def find_public_name(kind: str) -> str:
    """Return the public name of the policies of a kind, which for most kinds is the kind itself.

    Args:
        kind: Kind of a policy, as stored with results.

    Example:
        >>> from harness.policies import find_public_name
        >>> find_public_name("seed-gemini"), find_public_name("codex@2026"), find_public_name("codex@2025")
        ('gemini-cli-simplified', 'codex', 'codex@2025')
    """
    return PUBLIC_NAMES.get(kind, kind)


def find_kind(name: str) -> str:
    """Return the kind of the policies with a public name, which for most policies is the name itself.

    Args:
        name: Public name or kind of a policy.

    Example:
        >>> from harness.policies import find_kind
        >>> find_kind("codex"), find_kind("codex@2025"), find_kind("pi")
        ('codex@2026', 'codex@2025', 'pi')
    """
    return _KINDS.get(name, name)


def list_policy_names() -> tuple[str, ...]:
    """Return the public names of all policies, sorted.

    Policies of other installed packages are included, but not loaded.

    Example:
        >>> from harness.policies import list_policy_names
        >>> [name for name in list_policy_names() if name.startswith("cline")]
        ['cline', 'cline-basic', 'cline-classic']
    """
    return tuple(sorted({*map(find_public_name, PRESETS), *entry_points(group=ENTRY_POINT_GROUP).names}))


def list_versions(name: str) -> tuple[str, ...]:
    """Return the names with which a plan selects the versions of a policy, such as `codex@2026`, the newest version first.

    A policy with only one version has its public name alone. The result is empty for a name that no policy of this package has.

    Args:
        name: Public name of the policy, without a version.

    Example:
        >>> from harness.policies import list_versions
        >>> list_versions("codex"), list_versions("pi"), list_versions("none-such")
        (('codex@2026', 'codex@2025'), ('pi',), ())
    """
    if name not in map(find_public_name, PRESETS):
        return ()
    return tuple(sorted((kind for kind in PRESETS if kind.startswith(f"{name}@")), reverse=True)) or (name,)


def load_policy_classes() -> dict[str, type[Any]]:
    """Return every policy class by its public name.

    If another package uses a name of this package, the class of this package is returned.

    Raises:
        UsageError: The policy of an installed package cannot be loaded.

    Example:
        List the policies that write summaries:

        >>> from harness.policies import load_policy_classes
        >>> summarizing = [name for name, owner in load_policy_classes().items() if hasattr(owner, "summarizer")]
        >>> "codex" in summarizing, "swe-agent" in summarizing
        (True, False)
    """
    return {name: load_policy_class(name) for name in list_policy_names()}


def load_policy_class(name: str, where: str = "policy") -> type[Any]:
    """Return the policy class with a public name or kind.

    A policy of another installed package is loaded only if it has this name.

    Args:
        name: Public name or kind of the policy, such as `keep-last`, or `FILE.py:NAME`, whose file is then executed.
        where: Place of the policy in the configuration, which error messages name. Default: `'policy'`.

    Raises:
        UnknownName: No policy has this public name; the message lists the nearest names.
        UsageError: The class of an installed package cannot be loaded or is not a policy class.

    Example:
        >>> from harness.policies import load_policy_class
        >>> load_policy_class("keep-last")(threshold=0.5).keep_last
        10
    """
    kind = find_kind(name)
    if known := PRESETS.get(kind) or WRAPPERS.get(kind):
        return known
    if is_file_name(name):
        policy_class = load_file_policy(name, where)
        if missing := _describe_missing(policy_class):
            raise UsageError(f"{where}: the class {name!r} is not a policy: {missing}")
        return policy_class
    points = tuple(entry_points(group=ENTRY_POINT_GROUP, name=name))
    if not points and "@" in name and (versions := list_versions(name.partition("@")[0])):
        plain = name.partition("@")[0]
        advice = f"{plain!r} alone is the newest version" if len(versions) > 1 else f"{plain!r} has only one version"
        noun = "version of a policy" if where == "policy" else f"version of a policy in {where}:"
        raise UnknownName(noun, name, versions, advice)
    if not points:
        noun = "policy" if where == "policy" else f"policy in {where}:"
        own = f"one of your own is named FILE.py:NAME, or has an entry point in {ENTRY_POINT_GROUP!r}"
        advice = f"`harness policies` describes each policy; {own}"
        raise UnknownName(noun, name, list_policy_names(), advice)
    return _load_entry_point(points[0])


def _load_entry_point(point: EntryPoint) -> type[Any]:
    package = repr(point.dist.name) if point.dist else "an unknown package"
    subject = f"policy {point.name!r} ({point.value}) of package {package}"
    try:
        policy_class: type[Any] = point.load()
    except (Exception, SystemExit) as error:  # code of another package runs here
        reason = f"{type(error).__name__}: {error}{advise_moved_module(error)}"
        raise UsageError(f"{subject} cannot be loaded: {reason}; repair or remove that package") from error
    if defect := _describe_defect(policy_class, point.name):
        raise UsageError(f"{subject} is not a policy: {defect}; repair or remove that package")
    return policy_class


def _describe_defect(policy_class: object, name: str) -> str:
    """Return why a class cannot be used as a policy, as a phrase for an error message; empty if it can."""
    if not isinstance(policy_class, type) or not is_dataclass(policy_class):
        return "it must be a dataclass"
    if not policy_class.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return "it must be frozen, since its fields are its configuration"
    kind_defaults = [field.default for field in fields(policy_class) if field.name == "kind"]
    if kind_defaults != [name]:
        return f"its field `kind` must have the default {name!r}"
    return _describe_missing(policy_class)


def _describe_missing(policy: object) -> str:
    """Return which required attributes a policy lacks, as a phrase for an error message; empty if it has all."""
    own_fields = getattr(policy, "__dataclass_fields__", ())
    holders = (type(policy), policy)  # the class first, since reading a property of the policy would build its rules
    missing = [
        name for name in REQUIRED_ATTRIBUTES if name not in own_fields and not any(hasattr(holder, name) for holder in holders)
    ]
    return f"it has no {', no '.join(missing)} (see harness.protocols.Policy)" if missing else ""


def resolve_policy(policy: Policy | str | PolicyFunction, where: str = "policy") -> Policy:
    """Return a policy given as an object, by its public name, such as `"codex"` for `Codex()`, or as a function.

    Args:
        policy: Policy object; public name of a policy or `FILE.py:NAME`, which gets default fields; or a function
            `(messages, budget) -> messages`, which is called at 80 % of the available window.
        where: Place of the policy in the configuration, which error messages name. Default: `'policy'`.

    Raises:
        UnknownName: No policy has this public name; the message lists the nearest names.
        UsageError: The value is not a policy.

    Example:
        >>> from harness.policies import resolve_policy
        >>> resolve_policy("codex").threshold
        0.9
    """
    resolved: Any = policy
    if isinstance(policy, str):
        resolved = policy_from_plain({"kind": policy}, where)
    elif callable(policy) and not isinstance(policy, type) and not hasattr(policy, "plan"):
        resolved = wrap_function(policy, where)
    check_policy(resolved, where)
    checked: Policy = resolved
    return checked


def check_policy(value: object, where: str = "policy") -> None:
    """Check that a value is a policy, and not, for example, a policy class, a number or a table.

    Args:
        value: Value that should be a policy.
        where: Place of the policy in the configuration, which error messages name. Default: `'policy'`.

    Raises:
        UsageError: The value is not a policy; the message shows what to write instead.

    Example:
        >>> from harness.errors import UsageError
        >>> from harness.policies import KeepLast, check_policy
        >>> try:
        ...     check_policy(KeepLast)
        ... except UsageError as error:
        ...     print(error)
        policy: expected a policy, got the class KeepLast; write KeepLast(...)
    """
    if isinstance(value, type):
        raise UsageError(f"{where}: expected a policy, got the class {value.__name__}; write {value.__name__}(...)")
    if isinstance(value, str | int | Mapping):
        raise UsageError(f"{where}: expected a policy, got {value!r:.80}; convert a table with policy_from_plain")
    if missing := _describe_missing(value):
        raise UsageError(f"{where}: {type(value).__name__} is not a policy: {missing}; write e.g. KeepLast()")


def expand_shorthand(value: object) -> object:
    """Convert the short form of a policy in a plan file to a full table; return other values unchanged.

    A string such as `"none"` stands for the policy with this name and default fields. A whole number such as `30` stands for the
    policy `message-window` with this maximum number of messages. A public name is replaced by the kind of the policy.

    Args:
        value: Value that stands for a policy in a plan file, such as `"none"`, `30` or a table.

    Example:
        >>> from harness.policies import expand_shorthand
        >>> expand_shorthand("codex"), expand_shorthand(30)
        ({'kind': 'codex@2026'}, {'kind': 'message-window', 'max_messages': 30})
    """
    if isinstance(value, str):
        return {"kind": find_kind(value)}
    if isinstance(value, Mapping) and value.get("kind") in _KINDS:
        return {**value, "kind": _KINDS[value["kind"]]}
    if isinstance(value, int) and not isinstance(value, bool):
        return {"kind": "message-window", "max_messages": value}
    return value


def policy_from_stored(plain: Mapping[str, object], where: str = "policy") -> Policy:
    """Return the policy that is stored with results or in the log of a session.

    Releases that knew only one version of a policy stored no version. A stored `codex` is therefore `codex@2025`, while the name
    `codex` in a plan is the newest version. Stored data may not execute a file: a policy `FILE.py:NAME` is returned only if this
    process loaded it before.

    Args:
        plain: Values of the policy's fields by name, including `kind`.
        where: Place of the policy in the stored data, which error messages name. Default: `'policy'`.

    Raises:
        UnknownName: No policy has this kind, or the policy has no such field.
        UsageError: The kind is missing, a value is invalid, or the policy is in a file that was not loaded before.

    Example:
        >>> from harness.policies import policy_from_plain, policy_from_stored
        >>> policy_from_stored({"kind": "codex"}).kind, policy_from_plain({"kind": "codex"}).kind
        ('codex@2025', 'codex@2026')
    """
    refuse_unloaded(plain, where)
    kind = plain.get("kind")
    if kind == "recency" and isinstance(inner := plain.get("of"), Mapping):
        plain = {**plain, "of": policy_from_stored(inner, f"{where}.of")}
    return policy_from_plain({**plain, "kind": read_stored_kind(kind)} if isinstance(kind, str) else plain, where)


def refuse_unloaded(plain: object, where: str = "policy") -> None:
    """Raise UsageError if a stored table describes a policy in a file that this process did not load before.

    Args:
        plain: Table or name of the policy, from a log or from results.
        where: Place of the policy in the configuration, which error messages name. Default: `'policy'`.

    Raises:
        UsageError: The policy is in a file; the message says how to load it.

    Example:
        A policy of this package needs no file:

        >>> from harness.policies import refuse_unloaded
        >>> refuse_unloaded({"kind": "keep-last"})
    """
    kind = plain.get("kind") if isinstance(plain, Mapping) else plain
    if isinstance(kind, str) and is_file_name(kind) and find_loaded_class(kind) is None:
        advice = f"if you trust that file, call harness.policies.resolve_policy({kind!r}) before"
        raise UsageError(f"{where}: the policy is {kind!r}, and stored data may not run a file; {advice}")


def policy_from_plain(plain: Mapping[str, object], where: str = "policy") -> Policy:
    """Return the policy that a table such as `{"kind": "keep-last", "threshold": 0.8}` describes.

    Args:
        plain: Values of the policy's fields by name, including `kind`, the public name or kind of the policy.
        where: Place of the policy in the configuration, which error messages name. Default: `'policy'`.

    Raises:
        UnknownName: No policy has this public name, or the policy has no such field.
        UsageError: The kind is missing, a value has the wrong type or is out of range, or a package's policy is broken.

    Example:
        >>> from harness.policies import policy_from_plain
        >>> policy = policy_from_plain({"kind": "keep-last", "threshold": 0.5})
        >>> policy.threshold, policy.keep_last
        (0.5, 10)
    """
    kind = plain.get("kind")
    if not isinstance(kind, str):
        raise UsageError(f"{where}.kind: a policy needs a kind, one of {', '.join(list_policy_names())}")
    policy_class = load_policy_class(kind, where)
    allowed = set(policy_class.__dataclass_fields__)
    for field in plain:
        if field not in allowed:
            raise UnknownName(f"field {where}.{field} of policy {kind!r}:", field, allowed)
    refuse_invalid_conditions(policy_class, plain, where)
    if policy_class is Recency and "of" in plain and isinstance(inner := expand_shorthand(plain["of"]), Mapping):
        plain = {**plain, "of": policy_from_plain(inner, f"{where}.of")}
    policy: Policy = from_plain(policy_class, {**plain, "kind": find_kind(kind)}, where)
    return policy
