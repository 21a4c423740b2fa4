"""Agreement of a model's next actions with the full and with the compacted view, less the noise of asking twice.

Sessions are the units: each counts alike, with the share of its boundaries at which the action is the same.
"""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from harness.analysis.formatting import format_points
from harness.analysis.intervals import Interval, compute_bounded_mean_bounds
from harness.errors import format_count
from harness.replay.probe import Probe
from harness.replay.sentences import describe_privacy
from harness.text import format_percent


class AgreementKind(NamedTuple):
    """Way of comparing two actions: by the name of the tool, or by the whole call.

    Args:
        column: Column of the answers to the compacted view; the one with `_again` has those to the full view asked again.
        text: Name in tables and sentences.
    """

    column: str
    text: str


KINDS = (AgreementKind("same_tool", "same tool"), AgreementKind("same_call", "same call"))
NOTE = (
    "The action is the first tool call of the answer. Same tool: its name is equal. Same call: its arguments are, too, whatever "
    "the order of their names. An answer without a call is an action as well: says something, whatever the words. Agreement: "
    "the compacted view leads to the action of the full view. Noise: the full view, asked again, does. Points below zero are "
    "what the compaction changes beyond chance. Each session counts alike; the intervals (95 %) are about sessions like these. "
    "A different action is not a worse one."
)
"""Explanation of the numbers of a probe, for readers of its table."""
HEADS = ("setting", "boundaries", "sessions", "same tool", "noise", "points", "same call", "noise", "points")
"""Column heads for the rows that `tabulate_probe` returns."""


def measure_view_agreement(probe: Probe) -> pd.DataFrame:
    """Return how far the actions with the compacted view agree with those with the full view, by setting.

    Returns:
        One row per setting: numbers of boundaries and sessions with answers; for each kind (`same_tool`, `same_call`) the number
        of boundaries with the same action, and of those with the same action when the full view was asked again (`…_again`);
        the mean share of each over sessions (`…_share`, `…_again_share`), the difference of the two (`…_change`, below 0 if the
        compaction changes more than chance), and the bounds of its 95 % interval (`…_low`, `…_high`). Shares are NaN without
        answers.
    """
    return pd.DataFrame(
        [
            _measure_setting(str(row.setting), probe.answers[probe.answers["setting"] == row.setting])
            for row in probe.counts.itertuples()
        ]
    )


def _measure_setting(setting: str, answers: pd.DataFrame) -> dict[str, object]:
    sessions = answers.groupby(["file", "session_id"], sort=True)
    row: dict[str, object] = {"setting": setting, "boundaries": len(answers), "sessions": sessions.ngroups}
    for kind in KINDS:
        same, again = kind.column, f"{kind.column}_again"
        row |= {same: int(answers[same].sum()), again: int(answers[again].sum())}
        if not len(answers):
            row |= {f"{same}_{name}": float("nan") for name in ("share", "again_share", "change", "low", "high")}
            continue
        shares = sessions[[same, again]].mean().to_numpy(np.float64)
        bounds = compute_bounded_mean_bounds(shares[:, 0] - shares[:, 1], -1.0, 1.0)
        row |= {
            f"{same}_share": float(shares[:, 0].mean()),
            f"{same}_again_share": float(shares[:, 1].mean()),
            f"{same}_change": float(bounds.value),
            f"{same}_low": float(bounds.low),
            f"{same}_high": float(bounds.high),
        }
    return row


def tabulate_probe(probe: Probe) -> list[tuple[str, ...]]:
    """Return a row of texts for each setting, below `HEADS`: counts, agreement, noise, and their difference with its interval."""
    rows = []
    for row in measure_view_agreement(probe).to_dict("records"):
        cells = [cell for kind in KINDS for cell in _format_kind(row, kind)] if row["boundaries"] else ["–"] * 3 * len(KINDS)
        rows.append((str(row["setting"]), f"{row['boundaries']:,}", f"{row['sessions']:,}", *cells))
    return rows


def _format_kind(row: Mapping[Hashable, Any], kind: AgreementKind) -> tuple[str, str, str]:
    name = kind.column
    interval = format_points(Interval(row[f"{name}_low"], row[f"{name}_high"]))
    shares = (format_percent(row[f"{name}_share"]), format_percent(row[f"{name}_again_share"]))
    return (*shares, f"{100 * row[f'{name}_change']:+z.0f} {interval}")


def describe_probe(probe: Probe) -> list[str]:
    """Return a sentence on each setting of a probe."""
    lines = []
    for row in measure_view_agreement(probe).to_dict("records"):
        if not row["boundaries"]:
            lines.append(f"{row['setting']}: no boundary was asked.")
            continue
        asked = f"{format_count(row['boundaries'], 'boundary')} in {format_count(row['sessions'], 'session')}"
        cells = [(kind.text, *_format_kind(row, kind)) for kind in reversed(KINDS)]
        kinds = "; ".join(f"{text} {share} (full view again: {noise}), {points} points" for text, share, noise, points in cells)
        lines.append(f"{row['setting']}, {asked}: {kinds}.")
    return lines


def describe_asking(probe: Probe) -> list[str]:
    """Return how often a probe asked, where texts went, and what was left out, in sentences."""
    known = f"; {probe.known_calls:,} answers were known" if probe.known_calls else ""
    asked = f"Asked {probe.model} {format_count(probe.calls, 'time')} for ${probe.spent_usd:,.2f}{known}."
    lines = [f"{asked} {describe_privacy(probe.hosts)}."]
    if probe.summarizer:
        first = "a policy's first summary of a stretch only, since later ones build on it"
        lines.append(f"Summaries were written by {probe.summarizer}: {first}.")
    derived = probe.sessions - probe.known_tools
    if derived:
        lines.append(
            f"Tools: in {derived:,} of {format_count(probe.sessions, 'session')} the recording has no descriptions, so they are "
            "derived from the calls (names of tools and arguments). System prompts are sent only where recorded."
        )
    sums = probe.counts[["too_long", "incomplete", "failed", "unasked"]].sum()
    reasons = "; ".join(f"{reason}: {count:,}" for reason, count in probe.failures)
    left = [
        f"{sums['too_long']:,} whose full view does not fit the model's window" if sums["too_long"] else "",
        f"{sums['incomplete']:,} with a tool call without its result" if sums["incomplete"] else "",
        f"{sums['failed']:,} failed ({reasons})" if sums["failed"] else "",
        f"{sums['unasked']:,} not asked" if sums["unasked"] else "",
    ]
    if any(left):
        lines.append(f"Boundaries left out: {', '.join(filter(None, left))}.")
    fallbacks = int(probe.answers["used_fallback"].sum())
    if fallbacks:
        lines.append(f"In {format_count(fallbacks, 'boundary')} the summary failed and the policy's own fallback was used.")
    if probe.stopped:
        lines.append(f"The probe stopped: {probe.stopped}.")
    return lines
