"""Bars behind the first lines of a report on the facts that summaries lost.

A summary is only blamed for facts that no kept message shows. Results written before this was recorded, and policies without a
summarizer, have bars for what compactions lost of all facts in view.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from harness.analysis.arms import ArmSummary
from harness.analysis.tables import Tables, iterate_parts
from harness.analysis.validity import find_repeats
from harness.errors import format_count
from harness.reporting.not_worse import find_looping_arms
from harness.reporting.section import Section
from harness.text import format_percent

SUMMARIES_HEADING = "What summaries lost: share of the facts that stood only in replaced messages"
"""Heading of the bars for summaries."""
COMPACTIONS_HEADING = "What compactions lost: share of the facts in view"
"""Heading of the bars for compactions without a summary."""
MAX_GROUPS = 4
"""Maximum number of summarizers or arms whose losses are shown; of more, only the largest and the smallest."""
MAX_KINDS = 3
"""Maximum number of kinds of facts that are shown as lost most; the kind that was lost least is shown, too."""
SIMILAR_SHARES = 0.15
"""Largest difference between the lost shares of two kinds of facts at which no kind is shown by itself."""
MAX_NAMED_ARMS = 3
"""Maximum number of arms of one summarizer that a row names; more are only counted."""
NO_SUMMARIZER = "no summarizer"
"""Name of the group of compactions in which no summarizer was called."""
COUNTING = "A fact that survives a compaction counts again at the next, so these are shares per compaction."
_PROBE_COLUMNS = ("trial_id", "event", "kind", "seen_before", "seen_after", "seen_in_kept")
KIND_TEXTS: Mapping[str, str] = {
    **{kind: f"{kind}s" for kind in ("constraint", "goal", "decision", "artifact", "value", "preference")},
    "error": "error messages",
    "progress": "records of finished work",
    "next-step": "next steps",
    "superseded": "latest values of changed facts",
}
"""Words for each kind of facts."""


def build_lost_fact_sections(results: Tables, arms: Sequence[ArmSummary]) -> Iterator[Section]:
    """Yield a section with bars on the facts that summaries lost, and one on what compactions lost in trials without a summary.

    Losses are stated for each model that wrote the summaries, whatever name the configuration gives it, or for each arm if a
    single model wrote them. Repeated arms (A/A) are left out, and so are arms that looped in at least a third of their trials,
    because their many compactions of the same messages would hide all others.

    Args:
        results: Tables of results of one fidelity level.
        arms: Summaries of the arms, in the order of the report.
    """
    repeated, looping = find_repeats(results.trials), find_looping_arms(arms)
    chosen = [arm for arm in arms if arm.arm not in repeated and arm.arm not in looping]
    summarized_arms = _find_summarized_arms(results, chosen)
    others = [arm for arm in chosen if arm.arm not in summarized_arms]
    parts = {
        SUMMARIES_HEADING: _count_losses(results, chosen, only_in_summaries=True),
        COMPACTIONS_HEADING: _count_losses(results, others, only_in_summaries=False),
    }
    remarks = [COUNTING, *_describe_looping(looping, arms)]
    for heading, part in parts.items():
        rows = _list_rows(part, has_repeats=bool(repeated))
        if rows:
            yield Section(
                heading=heading,
                columns=("summary by, kind of fact", "lost", "of facts", "compactions"),
                rows=tuple(row.cells for row in rows),
                bars=tuple(row.share for row in rows),
                notes=(" ".join(remarks),),
                is_detail=False,
            )
            remarks = [COUNTING]


class _Losses(NamedTuple):
    """Facts in view before compactions that could be lost, and the compactions, as counts."""

    counts: pd.DataFrame
    """Numbers of lost and of all facts (columns `lost` and `facts`) by `arm`, `writer` and `kind`.

    The rows are in the order of the arms and of their trials, because the order of probes is that in which trials happened to
    finish. A compaction without a summarizer has the writer `no summarizer`.
    """
    compactions: Counter[tuple[str, str]]
    """Numbers of compactions of each writer and of each arm, by the name of the column and its value."""


def _iterate_visible(results: Tables, arms: Sequence[ArmSummary]) -> Iterator[pd.DataFrame]:
    """Yield the facts that the model saw before the compactions of some arms, in parts with all facts of their trials.

    The columns `arm` and `order`, the place of the trial among those of all arms, are added to the table of probes. Facts are in
    this order.
    """
    if not arms:
        return
    trials = pd.concat([arm.trials[["trial_id", "arm"]] for arm in arms])
    trials = trials.assign(order=np.arange(len(trials)))
    for probes in iterate_parts(results, "probes", _PROBE_COLUMNS):
        yield trials.merge(probes[probes["seen_before"].astype(bool)], on="trial_id")


def _find_summarized_arms(results: Tables, arms: Sequence[ArmSummary]) -> set[str]:
    """Return the arms with a compaction of which it is known which facts stood only in replaced messages."""
    return {
        str(arm)
        for probes in _iterate_visible(results, arms)
        for arm in probes.loc[probes["seen_in_kept"].notna(), "arm"].unique()
    }


def _count_losses(results: Tables, arms: Sequence[ArmSummary], *, only_in_summaries: bool) -> _Losses:
    """Count lost and kept facts of some arms.

    Args:
        results: Tables of results.
        arms: Summaries of the arms.
        only_in_summaries: Whether only facts are counted that no kept message shows.
    """
    columns = (results.compactions[name].tolist() for name in ("trial_id", "event", "summarizer"))
    writers = {
        (trial, event): writer for trial, event, writer in zip(*columns, strict=True) if isinstance(writer, str) and writer
    }
    counts = [pd.DataFrame({"arm": [], "writer": [], "kind": [], "lost": [], "facts": [], "order": []})]
    compactions = Counter[tuple[str, str]]()
    for visible in _iterate_visible(results, arms):
        is_counted = visible["seen_in_kept"].eq(False).to_numpy(dtype=bool, na_value=False)
        probes = visible[is_counted] if only_in_summaries else visible
        keys = zip(probes["trial_id"].tolist(), probes["event"].tolist(), strict=True)
        writer = pd.Series([writers.get(key, NO_SUMMARIZER) for key in keys], index=probes.index, dtype=object)
        probes = probes.assign(writer=writer, lost=~probes["seen_after"].astype(bool))
        groups = probes.groupby(["arm", "writer", "kind"], sort=False)
        counts.append(groups.agg(lost=("lost", "sum"), facts=("lost", "size"), order=("order", "min")).reset_index())
        for name in ("writer", "arm"):
            events = probes[[name, "trial_id", "event"]].drop_duplicates()
            compactions.update({(name, str(value)): count for value, count in events[name].value_counts().items()})
    ordered = pd.concat(counts[1:] or counts).sort_values("order", kind="stable")
    return _Losses(ordered.groupby(["arm", "writer", "kind"], sort=False)[["lost", "facts"]].sum().reset_index(), compactions)


def _describe_looping(looping: Mapping[str, int], arms: Sequence[ArmSummary]) -> Iterator[str]:
    """Yield a sentence on the arms that were left out because they looped, if there are any."""
    counts = {arm.arm: len(arm.trials) for arm in arms}
    if len(looping) > MAX_NAMED_ARMS:
        yield f"{len(looping)} arms that looped in a third of their trials or more are left out."
    elif looping:
        texts = [f"{arm}, which looped in {looped} of {format_count(counts[arm], 'trial')}" for arm, looped in looping.items()]
        yield f"Left out: {'; '.join(texts)}."


class _Row(NamedTuple):
    """Row of a table of losses, with the length of its bar."""

    cells: tuple[str, ...]
    share: float


def _list_rows(losses: _Losses, *, has_repeats: bool) -> list[_Row]:
    """Return a row for each group of facts, followed by rows for the kinds of facts that were lost most and least.

    The groups are the models that wrote summaries, or the arms if there is only one such model.

    Args:
        losses: Counts of the facts that could be lost.
        has_repeats: Whether repeated arms (A/A) are left out.
    """
    column = "writer" if losses.counts["writer"].nunique() > 1 else "arm"
    groups = {str(name): group for name, group in losses.counts.groupby(column, sort=False)}
    counts = {name: group.groupby("kind", sort=False)[["lost", "facts"]].sum() for name, group in groups.items()}
    totals = {name: group_counts.sum() for name, group_counts in counts.items()}
    if len(totals) > MAX_GROUPS:
        ordered = sorted(totals, key=lambda name: -totals[name]["lost"] / totals[name]["facts"])
        totals = {name: totals[name] for name in (ordered[0], ordered[-1])}
    chosen = _choose_kinds([counts[name] for name in totals])
    rows = []
    for name, total in totals.items():
        quote = "" if column == "writer" else '"'
        label = f"{quote}{name}{quote}{_list_arms(groups[name], has_repeats=has_repeats)}"
        rows.append(_make_row(label, total, f"{losses.compactions[column, name]:,}"))
        shares = counts[name]["lost"] / counts[name]["facts"]
        if len(shares) > 1 and shares.max() - shares.min() > SIMILAR_SHARES:
            kinds = dict.fromkeys(kind for kind in (*chosen.most, chosen.least) if kind in shares)
            rows += [_make_row(f"– {KIND_TEXTS.get(kind, kind)}", counts[name].loc[kind], "") for kind in kinds]
    return rows


def _make_row(label: str, counts: pd.Series, compactions: str) -> _Row:
    share = counts["lost"] / counts["facts"]
    return _Row((label, format_percent(share), f"{counts['facts']:,}", compactions), float(share))


def _list_arms(counts: pd.DataFrame, *, has_repeats: bool) -> str:
    arms = list(dict.fromkeys(counts["arm"]))
    if len(arms) < 2:
        return ""
    if len(arms) > MAX_NAMED_ARMS:
        return f" ({len(arms)} arms together{', without A/A' if has_repeats else ''})"
    *first, last = arms
    return f" ({', '.join(first)} and {last} together)"


class _ChosenKinds(NamedTuple):
    """Kinds of facts whose losses are stated."""

    most: Sequence[str]
    """Kinds of which the highest shares were lost, in falling order."""
    least: str
    """Kind of which the lowest share was lost; empty if there are at most `MAX_KINDS` kinds."""


def _choose_kinds(counts: Sequence[pd.DataFrame]) -> _ChosenKinds:
    """Return the kinds that were lost most in all groups together, at most `MAX_KINDS`, and the kind that was lost least."""
    if not counts:
        return _ChosenKinds([], "")
    totals = pd.concat(counts).groupby(level=0, sort=False).sum()
    shares = (totals["lost"] / totals["facts"]).sort_values(ascending=False, kind="stable")
    kinds = [str(kind) for kind in shares[shares > 0].index[:MAX_KINDS]]
    return _ChosenKinds(kinds, str(shares.index[-1]) if len(shares) > MAX_KINDS else "")
