"""Situations that users of agents report as failures of compaction, and the policies that fail in them.

`tests/contracts/test_public_reports.py` puts every policy of this package into each situation and holds this table against the
outcome, in both directions. The reference and the command `harness policies` show how many situations a policy passes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceCase:
    """Situation with a known right outcome."""

    name: str
    """Name of the situation, such as `open-call`."""
    outcome: str
    """Right outcome, as a phrase."""
    report: str = ""
    """Public issue, or source, that reports the failure; empty if there is none."""
    needs_summaries: bool = False
    """Whether only policies that request summaries can get into the situation."""


CASES: tuple[ConformanceCase, ...] = (
    ConformanceCase(
        name="floor-above-threshold",
        outcome="a floor above the threshold ends after at most three attempts",
        report="opencode 38102",
    ),
    ConformanceCase(
        name="floor-growth",
        outcome="the floor does not grow in eight compactions",
        report="scorecard of Hermes Agent, 2026-09-19",
    ),
    ConformanceCase(name="parallel-calls", outcome="parallel calls stay with all their results"),
    ConformanceCase(name="open-call", outcome="a call without a result keeps its place"),
    ConformanceCase(name="first-role", outcome="a message of the user follows the only system message"),
    ConformanceCase(name="signatures", outcome="reasoning stays with the answer that it was signed with", report="pi 9391"),
    ConformanceCase(name="huge-result", outcome="a result larger than the window does not end in a loop"),
    ConformanceCase(
        name="long-summary",
        outcome="a summary longer than its source is not applied",
        report="openai/codex 40619",
        needs_summaries=True,
    ),
    ConformanceCase(name="empty-summary", outcome="an empty summary leaves a valid conversation", needs_summaries=True),
    ConformanceCase(
        name="failing-summary",
        outcome="a failing summarizer leaves a valid conversation",
        report="openai/codex 17392",
        needs_summaries=True,
    ),
    ConformanceCase(name="cached-tokens", outcome="cached tokens count once", report="open-webui 28590"),
    ConformanceCase(
        name="tool-definitions",
        outcome="tokens of tool definitions, which only the provider's report has, count against the threshold",
    ),
    ConformanceCase(
        name="images",
        outcome="images count as many tokens as they cost, and go with the result that they belong to",
        report="openai/codex 24388",
    ),
    ConformanceCase(name="other-scripts", outcome="texts in other scripts are compacted and stay valid"),
    ConformanceCase(name="tiny-window", outcome="a window smaller than the reserves is refused or has a positive threshold"),
    ConformanceCase(
        name="late-rule",
        outcome="a rule that a tool loaded stays in view, or the summarizer reads it",
        report="claude-code 94564",
    ),
    ConformanceCase(name="waiting-message", outcome="a message that arrives during a compaction survives"),
)
"""All situations."""

_WITHOUT_SUMMARY = frozenset(
    {
        *("cline-basic", "complexity-trap-mask", "drop-all", "inspect-edit", "inspect-trim", "langchain-summary"),
        *("message-window", "openhands-v0", "pydantic-window", "random", "roo-sliding", "strands-window", "swe-agent"),
    }
)
FAULTS: Mapping[str, frozenset[str]] = {
    "floor-growth": frozenset({"complexity-trap-mask", "complexity-trap-summary", "inspect-edit", "swe-agent"}),
    "open-call": frozenset({"opencode@v1"}),
    "first-role": frozenset({"ratio", "seed-opencode"}),
    "tool-definitions": frozenset({"adaptive-headroom", "cline", "cline-basic", "seed-gemini"}),
    # Masking of Gemini CLI leaves images in view on purpose, and their results are short.
    "images": frozenset(
        {"gemini-masking", "langchain-clear-tool-uses", "langchain-summary", "pydantic-clear", "pydantic-summary"}
    ),
    "late-rule": _WITHOUT_SUMMARY,
}
"""Kinds of the policies that fail in a situation, by its name; no policy fails in the others."""


def list_cases(policy_class: type[Any]) -> tuple[ConformanceCase, ...]:
    """Return the situations into which a policy can get."""
    summarizes = "summarizer" in policy_class.__dataclass_fields__
    return tuple(case for case in CASES if summarizes or not case.needs_summaries)


def list_faults(kind: str) -> tuple[str, ...]:
    """Return the names of the situations in which a policy of this package fails.

    Args:
        kind: Kind of the policy, such as `codex@2026`.

    Example:
        >>> from harness.compaction.conformance import list_faults
        >>> list_faults("swe-agent")
        ('floor-growth', 'late-rule')
    """
    return tuple(case.name for case in CASES if kind in FAULTS.get(case.name, ()))
