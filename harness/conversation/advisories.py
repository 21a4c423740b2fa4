"""Warnings about a configuration, found before a session starts, each with advice on how to avoid its cause.

The log of a session and the record of a trial keep them, so that reports show the same warnings as the start of the run.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.errors import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """Warning that a compaction policy will not act as its configuration suggests, with advice on what to change."""

    problem: str
    """Clause that says what is wrong, with the values; the same for all tasks."""
    advice: str = ""
    """Clause that says what to change; empty if `problem` says it."""
    detail: str = ""
    """Clause with numbers that differ between tasks and cause the problem; empty if the problem is the same for all tasks."""

    def __str__(self) -> str:
        (text,) = format_advisories([self])
        return text


def format_advisories(advisories: Iterable[Advisory]) -> tuple[str, ...]:
    """Return warnings as texts, each problem once; of a problem with several details, the first detail is shown."""
    details: dict[tuple[str, str], dict[str, None]] = {}
    for advisory in advisories:
        known = details.setdefault((advisory.problem, advisory.advice), {})
        if advisory.detail:
            known[advisory.detail] = None
    return tuple(_format_text(problem, advice, list(known)) for (problem, advice), known in details.items())


def _format_text(problem: str, advice: str, details: list[str]) -> str:
    if details:
        suffix = f" (likewise for {format_count(len(details) - 1, 'other task')})" if len(details) > 1 else ""
        problem = f"{problem}, because {details[0]}{suffix}"
    return f"{problem}; {advice}" if advice else problem
