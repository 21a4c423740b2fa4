"""Origin of each policy of this package: the version of the original that was read, its date, and the evidence of equality.

The table stands apart from the policies, because a test compares it with the differential tests and with the list of sources.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Evidence: TypeAlias = Literal["differential", "modelled", "own design"]
"""Evidence that a policy acts as its original.

* `differential`: tests run the original, or a function of it, beside the policy on the same conversations.
* `modelled`: the policy follows source text, documentation or recordings, but no test runs the original. Results of such a policy
  are results of the policy, and not of the system that it is modelled on.
* `own design`: the policy reproduces no other system.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Version of the original that a policy reproduces."""

    version: str
    """Release or commit that was read."""
    date: str
    """Date of that version; for a version without a known date, the date on which it was read, after the word `read`."""
    evidence: Evidence

    def __str__(self) -> str:
        return ", ".join(part for part in (self.evidence, self.version, self.date) if part)


OWN_DESIGN = Origin(version="", date="", evidence="own design")
OWN_KINDS = frozenset(
    {
        *("drop-all", "handoff", "keep-last", "message-window", "none", "oracle", "paced", "random", "ratio", "reserve-recent"),
        *("seed-gemini", "seed-opencode", "three-tiers"),
    }
)
"""Kinds of the policies that reproduce no other system."""
DIFFERENTIAL_KINDS = frozenset(
    {
        *("deepagents", "inspect-edit", "inspect-summary", "inspect-trim", "langchain-clear-tool-uses", "langchain-summary"),
        *("openai-agents", "openai-trimmer", "openhands", "pydantic-clear", "pydantic-summary", "pydantic-window"),
        *("strands-summary", "strands-window"),
    }
)
"""Kinds of the policies that `tests/peers` compares with their installed originals."""
_READ = "read 2026-11-23"
_VERSIONS: Mapping[str, tuple[str, str]] = {
    "adaptive-headroom": ("yologdev/yoagent, pull request 102", "2026-08-05"),
    "anthropic-clear-tool-uses": ("anthropic-sdk-python 009b0353", _READ),
    "claude-code": ("documentation of 2026-10-19", "2026-10-19"),
    "cline": ("21cb8d25", _READ),
    "cline-basic": ("21cb8d25", _READ),
    "cline-classic": ("01cfde0d", _READ),
    "codex@2025": ("just-every/code 6ad6d5c9", "2026-08-12"),
    "codex@2026": ("openai/codex 009bd870", "read 2026-11-29"),
    "complexity-trap-mask": ("1b07decf", _READ),
    "complexity-trap-summary": ("1b07decf", _READ),
    "copilot-inline": ("microsoft/vscode-copilot-chat, pull request 4956", "2026-04-03"),
    "crush": ("37f36e93", _READ),
    "deepagents": ("0.7.32", _READ),
    "dexto": ("ea2b1863", _READ),
    "frozen-ranked": ("profff/lost-in-compaction 08bfd88e", "read 2026-11-29"),
    "gemini-cli": ("5411f113", _READ),
    "gemini-masking": ("25137857", _READ),
    "goose": ("006bd233", _READ),
    "hermes-lean": ("notes on NousResearch/hermes-agent", "read 2026-11-29"),
    "inspect-edit": ("0.3.285", _READ),
    "inspect-summary": ("0.3.285", _READ),
    "inspect-trim": ("0.3.285", _READ),
    "kimi": ("MoonshotAI/kimi-code d723cc47", "read 2026-11-29"),
    "langchain-clear-tool-uses": ("1.4.7", _READ),
    "langchain-summary": ("1.4.7", _READ),
    "letta": ("56ba9c25", _READ),
    "maf-anchored": ("read in part: maf-compaction 0.9.0", "read 2026-11-29"),
    "mini-swe-agent": ("a83fcae8", _READ),
    "openai-agents": ("0.24.0", "read 2026-11-29"),
    "openai-trimmer": ("0.24.0", "read 2026-11-29"),
    "opencode@v1": ("fork 975d7312", "2026-07-20"),
    "opencode@v2": ("anomalyco/opencode 031a4a9c", "read 2026-11-29"),
    "opencode-prune": ("fork 975d7312", "2026-07-20"),
    "openhands": ("1.58.0", _READ),
    "openhands-v0": ("156d0686", _READ),
    "pi": ("83378aad", _READ),
    "pydantic-clear": ("0.62.0", _READ),
    "pydantic-summary": ("0.62.0", _READ),
    "pydantic-window": ("0.62.0", _READ),
    "roo-code": ("cb836567", _READ),
    "roo-sliding": ("cb836567", _READ),
    "strands-summary": ("1.62.0", "read 2026-11-29"),
    "strands-window": ("1.62.0", "read 2026-11-29"),
    "swe-agent": ("3ea751c0", _READ),
    "verbatim-lines": ("bastani-inc/atomic, pull request 1801", "2026-07-14"),
}
"""Version and date of the original of each policy that reproduces another system, by the policy's kind."""


def find_origin(kind: str) -> Origin | None:
    """Return the origin of a policy of this package; None for a policy of another package.

    Args:
        kind: Kind of the policy, such as `codex@2026`.

    Example:
        >>> from harness.compaction.origins import find_origin
        >>> str(find_origin("langchain-summary")), str(find_origin("keep-last"))
        ('differential, 1.4.7, read 2026-11-23', 'own design')
    """
    if kind in OWN_KINDS:
        return OWN_DESIGN
    if kind not in _VERSIONS:
        return None
    version, date = _VERSIONS[kind]
    return Origin(version=version, date=date, evidence="differential" if kind in DIFFERENTIAL_KINDS else "modelled")
