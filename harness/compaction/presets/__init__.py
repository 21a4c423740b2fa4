"""The presets: every policy that can be named in a plan.

`PRESETS` lists ours. Another package adds a policy class, a frozen dataclass with a `kind` of its own, by the entry point
group `harness.policies` (S3.21).
"""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from harness.codec import from_plain
from harness.compaction.presets.bounds import DropAll, OracleRetention, RandomRetention
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.peers.langchain import LangChainClear, LangChainSummary
from harness.compaction.presets.peers.openhands import OpenHands, OpenHandsV0
from harness.compaction.presets.ratio import Ratio, SeedGemini, SeedOpenCode
from harness.compaction.presets.reserve import ReserveRecent
from harness.compaction.presets.window import MessageWindow
from harness.errors import UnknownName, UsageError
from harness.protocols import Policy

PRESETS: dict[str, type[Any]] = {
    "drop-all": DropAll,
    "keep-last": KeepLast,
    "langchain-clear-tool-uses": LangChainClear,
    "langchain-summary": LangChainSummary,
    "message-window": MessageWindow,
    "none": NoCompaction,
    "openhands": OpenHands,
    "openhands-v0": OpenHandsV0,
    "oracle": OracleRetention,
    "random": RandomRetention,
    "ratio": Ratio,
    "reserve-recent": ReserveRecent,
    "seed-gemini": SeedGemini,
    "seed-opencode": SeedOpenCode,
}


def policy_kinds() -> dict[str, type[Any]]:
    """Every policy by its kind: ours, and those of installed packages (ours win a clash of names).

    Raises:
        UsageError: a package's policy cannot be loaded.
    """
    plugins = {point.name: point for point in entry_points(group="harness.policies")}
    return {name: _loaded(point) for name, point in plugins.items() if name not in PRESETS} | PRESETS


def _loaded(point: EntryPoint) -> type[Any]:
    try:
        kind: type[Any] = point.load()
    except (Exception, SystemExit) as error:  # foreign code is run here
        package = repr(point.dist.name) if point.dist else "an unknown package"
        raise UsageError(
            f"policy {point.name!r} ({point.value}) of package {package} cannot be loaded: {type(error).__name__}: {error}; "
            "repair or remove that package"
        ) from error
    return kind


def policy_from_plain(plain: Mapping[str, object], where: str = "policy") -> Policy:
    """The policy of a table such as `{"kind": "keep-last", "threshold": 0.8}`.

    Raises:
        UnknownName: no such kind, or a field that the kind does not have.
        UsageError: no kind, or a value of the wrong type or out of range; names the path.
    """
    kind = plain.get("kind")
    if not isinstance(kind, str):
        raise UsageError(f"{where}.kind: a policy needs a kind, one of {', '.join(sorted(PRESETS))}")
    kinds = PRESETS if kind in PRESETS else policy_kinds()
    if kind not in kinds:
        raise UnknownName(f"policy at {where}.kind", kind, kinds)
    allowed = set(kinds[kind].__dataclass_fields__)
    for field in plain:
        if field not in allowed:
            raise UnknownName(f"field {where}.{field} of policy {kind!r}:", field, allowed)
    policy: Policy = from_plain(kinds[kind], plain, where)
    return policy
