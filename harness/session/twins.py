"""Results of the twins of a session: continuations from one of its compactions that differ only in what that compaction did.

`harness.session.twin_run` runs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

from harness.conversation.events import Entry
from harness.session.grading import GradedCheck
from harness.text import render_html_table

if TYPE_CHECKING:
    import pandas as pd

TwinArm: TypeAlias = Literal["as it was", "not compacted", "facts put back", "control text", "as it was again", "newest messages"]
"""Arm of a comparison of twins, besides other policies.

- `as it was`: The compaction takes place as it did.
- `not compacted`: The compaction does not take place.
- `facts put back`: The compaction takes place, and the lines with the facts that it lost are put back where they stood.
- `control text`: As `facts put back`, with a text of equal length that states no facts.
- `as it was again`: As `as it was`, with other seeds: the difference of the two is noise.
- `newest messages`: The newest messages with at most as many tokens as the compaction left, its summary included, stay instead,
  with the system message and, if the compaction kept it, the user's request: the control `recency@tokens` as a fork.
"""
TWIN_ARMS: tuple[TwinArm, ...] = get_args(TwinArm)
DEFAULT_ARMS: tuple[TwinArm, ...] = ("as it was", "not compacted", "facts put back", "control text")
FACT_ARMS: frozenset[str] = frozenset({"facts put back", "control text"})
"""Arms that exist only for sessions whose facts are known."""


class Twin(NamedTuple):
    """Result of one continuation of a session from a compaction."""

    arm: str
    """Name of the arm, or of the policy."""
    repetition: int
    """Number of the repetition, from 0. Twins of equal repetitions have equal seeds, except those of `as it was again`."""
    seed: int
    """Seed of the model's random draws."""
    reason: str
    """Stop reason of the last turn, e.g. `replied`."""
    steps: int
    """Number of steps after the compaction."""
    cost_usd: float | None
    """Cost in US dollars of the compaction and of everything after it; None if a price is unknown."""
    compactions: int
    """Number of compactions after the one under study."""
    checks: tuple[GradedCheck, ...]
    """Verdict on each check of the task; empty without a task."""
    entries: tuple[Entry, ...]
    """Log of the twin, which begins with the log of the session up to the compaction."""

    @property
    def score(self) -> float | None:
        """Share of the checks that passed; None without a task."""
        return sum(check.passed for check in self.checks) / len(self.checks) if self.checks else None

    @property
    def passed(self) -> bool | None:
        """Whether all checks passed; None without a task."""
        return all(check.passed for check in self.checks) if self.checks else None

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """Titles of the checks that failed."""
        return tuple(graded.check.title for graded in self.checks if not graded.passed)


class CheckCause(NamedTuple):
    """Check that the session failed, with how often its twins passed it."""

    name: str
    title: str
    passed_as_it_was: int
    passed_with_facts: int
    repetitions: int

    @property
    def is_failed_by_loss(self) -> bool:
        """Whether most twins pass the check with the lost facts put back, and most fail it without them."""
        return 2 * self.passed_with_facts > self.repetitions > 2 * self.passed_as_it_was


TABLE_COLUMNS = ("arm", "repetition", "score", "passed", "steps", "cost_usd", "compactions", "reason", "failed_checks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Twins:
    """Results of the twins of one compaction, arm by arm.

    Attributes:
        compaction: Number of the compaction, from 1. Required.
        step: Number of the step before which the compaction took place. Required.
        later_compactions: Whether later compactions were on, and the window as it was. Required.
        fact_names: Names of the facts that were put back. Required.
        runs: Results, ordered by arm and repetition. Required.
        notice: What a reader of the results must know; empty if nothing. Default: `''`.

    Example::

        twins = session.twins(compaction=4, arms=["as it was", "facts put back"], repetitions=8)
        twins.table.groupby("arm")["score"].mean()
    """

    compaction: int
    step: int
    later_compactions: bool
    fact_names: tuple[str, ...]
    runs: tuple[Twin, ...] = field(repr=False)
    notice: str = ""

    @property
    def table(self) -> "pd.DataFrame":
        """Table with one row per twin.

        The columns are `arm`, `repetition`, `score` (share of passed checks), `passed`, `steps` and `cost_usd` (both from the
        compaction on), `compactions` (later ones), `reason` and `failed_checks` (titles).
        """
        from harness.store.frames import build_frame

        return build_frame(TABLE_COLUMNS, [_build_row(run) for run in self.runs])

    def list_causes(self) -> tuple[CheckCause, ...]:
        """Return the checks that twins failed as it was, with how often they passed with and without the lost facts.

        Empty unless both arms were run.
        """
        arms = [[run for run in self.runs if run.arm == arm] for arm in ("as it was", "facts put back")]
        if not all(arms):
            return ()
        causes = []
        for place, graded in enumerate(arms[0][0].checks):
            as_it_was, with_facts = (sum(run.checks[place].passed for run in runs) for runs in arms)
            if as_it_was < len(arms[0]):
                causes.append(CheckCause(graded.check.name, graded.check.title, as_it_was, with_facts, len(arms[0])))
        return tuple(causes)

    def _repr_html_(self) -> str:
        return render_html_table(self._describe(), self._HEADINGS, self._render_rows(), (self.notice,) if self.notice else ())

    def render_text(self) -> str:
        """Return the results as a plain-text table with one row per arm, under a sentence that says what was compared.

        The failed checks of an arm stand in a line of their own below its row.
        """
        rows = [self._HEADINGS, *self._render_rows()]
        widths = [max(len(row[place]) for row in rows) for place in range(len(self._HEADINGS) - 1)]
        lines = [self._describe()]
        for row in rows:
            lines.append("  ".join(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)).rstrip())
            if row is not rows[0] and row[-1]:
                lines.append(f"  {self._HEADINGS[-1]}: {row[-1]}")
        return "\n".join([*lines, *([self.notice] if self.notice else [])])

    _HEADINGS: ClassVar = ("arm", "twins", "mean score", "passed", "mean steps", "mean cost (USD)", "failed checks")

    def _describe(self) -> str:
        later = "later compactions on" if self.later_compactions else "later compactions off, window lifted"
        return f"Twins of compaction {self.compaction}, before step {self.step} ({later})"

    def _render_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for arm in dict.fromkeys(run.arm for run in self.runs):
            runs = [run for run in self.runs if run.arm == arm]
            scores, costs = [run.score for run in runs], [run.cost_usd for run in runs]
            failures: dict[str, int] = {}
            for run in runs:
                for title in run.failed_checks:
                    failures[title] = failures.get(title, 0) + 1
            rows.append(
                (
                    arm,
                    str(len(runs)),
                    _format_mean(scores, ".2f"),
                    f"{sum(bool(run.passed) for run in runs)} of {len(runs)}" if runs[0].checks else "",
                    _format_mean([run.steps for run in runs], ".1f"),
                    _format_mean(costs, ".4f"),
                    "; ".join(f"{title} ({count})" for title, count in failures.items()),
                )
            )
        return rows


def _format_mean(values: Sequence[float | None], format_spec: str) -> str:
    known = [value for value in values if value is not None]
    return format(sum(known) / len(known), format_spec) if known and len(known) == len(values) else ""


def _build_row(run: Twin) -> list[Any]:
    return ["; ".join(run.failed_checks) if name == "failed_checks" else getattr(run, name) for name in TABLE_COLUMNS]
