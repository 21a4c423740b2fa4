"""Sections of a report on what compactions did to a session: what survived, how much room they made, and what came after them.

The numbers are means of the columns of trials that `harness.metrics` computes. Trials that an older version measured have no
value in these columns, which is shown as a dash and never as 0.
"""

from collections.abc import Iterator, Sequence
from math import isnan
from typing import NamedTuple

import pandas as pd

from harness.analysis.arms import ArmSummary
from harness.analysis.formatting import format_short_number
from harness.analysis.measures import Metric, MetricKind, estimate_cell
from harness.reporting.section import Section, make_arm_section

NOTHING = "–"
"""Text of a cell without a value."""


class _EffectColumn(NamedTuple):
    """Column of the table of trials, as a column of a section."""

    heading: str
    column: str
    kind: MetricKind
    """Kind of the values, which decides the interval; of `bounded` values, the cell shows a percentage."""
    has_interval: bool = True
    """Whether the cell has a 95 % interval; otherwise it has the mean alone."""


_SURVIVAL = (
    _EffectColumn("paths", "path_survival", "bounded"),
    _EffectColumn("commands", "command_survival", "bounded"),
    _EffectColumn("numbers", "number_survival", "bounded"),
    _EffectColumn("identifiers", "identifier_survival", "bounded"),
    _EffectColumn("decisions", "decision_survival", "bounded"),
    _EffectColumn("user's constraints", "user_constraint_survival", "bounded"),
)
_ROOM = (
    _EffectColumn("freed", "freed_share", "bounded"),
    _EffectColumn("floor growth, tokens", "floor_growth_tokens", "amount", has_interval=False),
    _EffectColumn("until stuck", "cycles_to_stuck", "amount", has_interval=False),
    _EffectColumn("size at trigger ÷ threshold", "trigger_error", "amount"),
    _EffectColumn("waited, s", "blocking_seconds", "amount"),
)
_AFTERWARDS = (
    _EffectColumn("prefix breaks per 100 steps", "prefix_breaks_per_100_steps", "amount"),
    _EffectColumn("stable prefix", "stable_prefix_share", "bounded"),
    _EffectColumn("duplicate calls", "duplicate_calls", "amount"),
    _EffectColumn("steps to resume", "resume_steps", "amount"),
    _EffectColumn("cut in a loop", "cuts_in_loop", "amount", has_interval=False),
)
_MEASURED = "prefix_breaks_per_100_steps"
"""Column that has a value in each trial with two requests or more, unless an older version measured it."""
_INTERVAL_NOTE = "Means over tasks, 95 % intervals in brackets. –: nothing to measure, or measured by an older version."
_UNMEASURED_NOTE = (
    "Not measured: the trials ran under a version without these numbers. Run them again to see what compactions did."
)
_SURVIVAL_NOTE = (
    "Share of the distinctive texts in the messages that a compaction removed which a message in view still had right after it, "
    "by kind. A text counts wherever it stands, so a masked call that still names a path keeps it."
)
_ROOM_NOTE = (
    "Freed: mean share of the tokens in view that a compaction freed. Floor growth: tokens by which the view right after a "
    "compaction grew to the next; below 0, it shrank. Until stuck: compactions before the first that freed less than a tenth, "
    "in the trials with such a one; never: in none. Size at trigger: the provider's count when a compaction was due; above 1, "
    "the policy acted late. Waited: simulated or real seconds for which the session waited for summaries."
)
_AFTERWARDS_NOTE = (
    "Prefix breaks: requests that did not begin with the whole previous request, so that the provider's cache could not be read "
    "up to its end. Stable prefix: share of the tokens before a compaction with which the next request still began. Duplicate "
    "calls: with the tool and the arguments of an earlier call. Steps to resume: from a compaction until the agent changed or "
    "ran something new. Cut in a loop: compactions of a trial while the newest test run had failed."
)


def build_effect_sections(arms: Sequence[ArmSummary]) -> Iterator[Section]:
    """Yield up to three sections, with one row for each arm that compacted; nothing if no arm did.

    A section is left out if no arm has a value for it. If that holds for all, one section says so.
    """
    compacting = [arm for arm in arms if pd.to_numeric(arm.trials["compactions"]).fillna(0).sum() > 0]
    if not compacting:
        return
    if not any(arm.trials[_MEASURED].notna().any() for arm in compacting):
        yield Section(heading="What compactions did", notes=(_UNMEASURED_NOTE,))
        return
    for heading, columns, note in (
        ("What survived a compaction, by kind", _SURVIVAL, _SURVIVAL_NOTE),
        ("Room that compactions made", _ROOM, _ROOM_NOTE),
        ("After a compaction", _AFTERWARDS, _AFTERWARDS_NOTE),
    ):
        shown = [column for column in columns if any(arm.trials[column.column].notna().any() for arm in compacting)]
        if shown:
            rows = {arm.arm: [_format_cell(arm.trials, column) for column in shown] for arm in compacting}
            absent = [column.heading for column in columns if column not in shown]
            yield make_arm_section(
                heading,
                [column.heading for column in shown],
                rows,
                (note, _INTERVAL_NOTE, *([f"Nothing to measure in any arm: {', '.join(absent)}."] if absent else [])),
            )


def _format_cell(trials: pd.DataFrame, column: _EffectColumn) -> str:
    """Return the mean of a column over an arm's trials, with its interval; a dash if no trial has a value."""
    values = pd.to_numeric(trials[column.column]).astype(float)
    known = int(values.notna().sum())
    if column.column == "cycles_to_stuck":
        return _format_cycles(values, trials)
    if not known:
        return NOTHING
    if not column.has_interval:
        return _format_number(float(values.mean()))
    metric = Metric(
        name=column.heading,
        column=column.column,
        label=column.heading,
        unit="",
        kind=column.kind,
        is_higher_better=True,
        description="",
    )
    cell = estimate_cell(trials.assign(**{column.column: values}), metric)
    if column.kind == "bounded":
        interval = "" if isnan(cell.low) else f" [{100 * cell.low:.0f}, {100 * cell.high:.0f}]"
        return f"{100 * cell.value:.0f} %{interval}"
    interval = "" if isnan(cell.low) else f" [{_format_number(cell.low)}, {_format_number(cell.high)}]"
    return f"{_format_number(cell.value)}{interval}"


def _format_cycles(cycles: pd.Series, trials: pd.DataFrame) -> str:
    measured = int(trials[_MEASURED].notna().sum())
    if not measured:
        return NOTHING
    known = cycles.dropna()
    return "never" if known.empty else f"{known.mean():.1f} ({len(known)} of {measured})"


def _format_number(value: float) -> str:
    if abs(value) >= 1_000:
        return format_short_number(value)
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2g}"
