"""Bars behind the first lines of a report on the facts that summaries lost.

A summary is only blamed for facts that no kept message shows. Results written before this was recorded, and policies without a
summarizer, have bars for what compactions lost of all facts in view.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from harness.analysis.arms import ArmSummary
from harness.analysis.tables import Tables
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
    probes = _join_writers(results, chosen)
    was_summarized = probes["trial_id"].isin(set(probes.loc[probes["seen_in_kept"].notna(), "trial_id"]))
    is_lonely = probes["seen_in_kept"].eq(False).to_numpy(dtype=bool, na_value=False)
    has_summarized_arm = set(probes.loc[was_summarized, "arm"])
    parts = {
        SUMMARIES_HEADING: probes[is_lonely],
        COMPACTIONS_HEADING: probes[~probes["arm"].isin(has_summarized_arm)],
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


def _join_writers(results: Tables, arms: Sequence[ArmSummary]) -> pd.DataFrame:
    """Return the facts that the model saw before the compactions of some arms, with the model that wrote each summary.

    The columns `arm` and `writer` are added to the table of probes. A compaction without a summarizer has the writer
    `no summarizer`.
    """
    trials = (
        pd.concat([arm.trials[["trial_id", "arm"]] for arm in arms]) if arms else results.trials.iloc[:0][["trial_id", "arm"]]
    )
    # in the order of the arms, because the order of probes is that in which trials happened to finish
    probes = trials.merge(results.probes, on="trial_id")
    probes = probes[probes["seen_before"].astype(bool)]
    columns = (results.compactions[name].tolist() for name in ("trial_id", "event", "summarizer"))
    writers = {
        (trial, event): writer for trial, event, writer in zip(*columns, strict=True) if isinstance(writer, str) and writer
    }
    keys = zip(probes["trial_id"].tolist(), probes["event"].tolist(), strict=True)
    return probes.assign(writer=pd.Series([writers.get(key, NO_SUMMARIZER) for key in keys], index=probes.index, dtype=object))


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


def _list_rows(probes: pd.DataFrame, *, has_repeats: bool) -> list[_Row]:
    """Return a row for each group of probes, followed by rows for the kinds of facts that were lost most and least.

    Args:
        probes: Facts that could be lost, with the columns `arm`, `writer`, `kind` and `seen_after`.
        has_repeats: Whether repeated arms (A/A) are left out.
    """
    groups = _group_probes(probes)
    counts = {name: _count_lost(group) for name, group in groups.items()}
    totals = {name: group_counts.sum() for name, group_counts in counts.items()}
    if len(totals) > MAX_GROUPS:
        ordered = sorted(totals, key=lambda name: -totals[name]["lost"] / totals[name]["facts"])
        totals = {name: totals[name] for name in (ordered[0], ordered[-1])}
    chosen = _choose_kinds([counts[name] for name in totals])
    rows = []
    for name, total in totals.items():
        label = f"{name}{_list_arms(groups[name], has_repeats=has_repeats)}"
        compactions = len(groups[name][["trial_id", "event"]].drop_duplicates())
        rows.append(_make_row(label, total, f"{compactions:,}"))
        shares = counts[name]["lost"] / counts[name]["facts"]
        if len(shares) > 1 and shares.max() - shares.min() > SIMILAR_SHARES:
            kinds = dict.fromkeys(kind for kind in (*chosen.most, chosen.least) if kind in shares)
            rows += [_make_row(f"– {KIND_TEXTS.get(kind, kind)}", counts[name].loc[kind], "") for kind in kinds]
    return rows


def _make_row(label: str, counts: pd.Series, compactions: str) -> _Row:
    share = counts["lost"] / counts["facts"]
    return _Row((label, format_percent(share), f"{counts['facts']:,}", compactions), float(share))


def _list_arms(probes: pd.DataFrame, *, has_repeats: bool) -> str:
    arms = list(dict.fromkeys(probes["arm"]))
    if len(arms) < 2:
        return ""
    if len(arms) > MAX_NAMED_ARMS:
        return f" ({len(arms)} arms together{', without A/A' if has_repeats else ''})"
    *first, last = arms
    return f" ({', '.join(first)} and {last} together)"


def _group_probes(probes: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the probes of each model that wrote summaries, or of each arm if there is only one such model."""
    if probes["writer"].nunique() > 1:
        return {str(writer): group for writer, group in probes.groupby("writer", sort=False)}
    return {f'"{arm}"': group for arm, group in probes.groupby("arm", sort=False)}


def _count_lost(probes: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of lost and of all facts (columns `lost` and `facts`) by kind."""
    is_lost = ~probes["seen_after"].astype(bool)
    return is_lost.groupby(probes["kind"], sort=False).agg(lost="sum", facts="size")


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
