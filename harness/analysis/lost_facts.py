"""Sentences for the first lines of a report on the facts (values that the agent must remember) that summaries lost.

A summary is only blamed for facts that no kept message shows. Results written before this was recorded, and policies without a
summarizer, have a sentence on what compactions lost of all facts in view.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan

import pandas as pd

from harness.analysis.arms import ArmSummary
from harness.analysis.measures import measure_trial_retention
from harness.analysis.retention import measure_retention
from harness.analysis.tables import Tables
from harness.analysis.validity import pair_repeats

MAX_GROUPS = 4
"""Maximum number of summarizers or arms whose losses one sentence states; of more, it states the largest and the smallest."""
MAX_KINDS = 3
"""Maximum number of kinds of facts whose losses are stated: those of which the highest shares were lost."""
KIND_TEXTS: Mapping[str, str] = {
    **{kind: f"{kind}s" for kind in ("constraint", "goal", "decision", "artifact", "value", "error", "preference")},
    "progress": "records of finished work",
    "next-step": "next steps",
    "superseded": "values that replaced earlier ones",
}
"""Words for each kind of facts."""


def describe_lost_facts(results: Tables, arms: Sequence[ArmSummary]) -> Iterator[str]:
    """Yield a sentence on the facts that summaries lost, and one on what compactions lost in arms without a summarizer.

    If there are several summarizers, the arms of each are taken together. Repeated arms (A/A) are left out.

    Args:
        results: Tables of results of one fidelity level (how much of a run is real).
        arms: Summaries of the arms (configurations), in the order of the report.
    """
    repeated = {*pair_repeats(results.trials)["arm_b"]}
    first_runs = {one.arm: one for one in arms if one.arm not in repeated}
    kinds, probes = measure_retention(results, list(first_runs)), results.probes
    summarized_trials = set(probes.loc[probes["seen_in_kept"].notna(), "trial_id"])
    summarized = {arm for arm, one in first_runs.items() if one.trials["trial_id"].isin(summarized_trials).any()}
    only_in_summary = probes["seen_in_kept"].eq(other=False).fillna(value=False).astype(bool)
    for beginning, column, rows, described in (
        (
            "Lost by summaries: of the facts that only summarized messages stated,",
            "summarized",
            probes[only_in_summary],
            summarized,
        ),
        ("Lost by compactions: of the facts in view,", "kept", probes, first_runs.keys() - summarized),
    ):
        lost = 1 - measure_trial_retention(rows)
        shares = {arm: float(lost.reindex(one.trials["trial_id"]).mean()) for arm, one in first_runs.items() if arm in described}
        groups = _group_arms([first_runs[arm] for arm, share in shares.items() if not isnan(share)])
        if len(groups) > MAX_GROUPS:
            ordered = sorted(groups, key=lambda group: -max(shares[arm] for arm in groups[group]))
            groups = {group: groups[group] for group in (ordered[0], ordered[-1])}
        counts = {group: _count_lost(kinds[kinds["arm"].isin(members)], column) for group, members in groups.items()}
        listed = _choose_kinds(list(counts.values()))
        texts, heading = [], "kinds lost most"
        for group, members in groups.items():
            text = _format_shares(group, {arm: shares[arm] for arm in members})
            if len(of_kinds := counts[group].reindex(listed).dropna()):
                place = _describe_sum(len(members), has_repeats=bool(repeated))
                text, heading = f"{text} ({heading}: {_list_kinds(of_kinds, place)})", "the same kinds"
            texts.append(text)
        if texts:
            yield f"{beginning} {'; '.join(texts)}."


def _group_arms(arms: Iterable[ArmSummary]) -> dict[str, list[str]]:
    """Return the names of the arms of each summarizer, or each arm by itself if there is only one summarizer."""
    summarizers = {one.arm: json.loads(one.trials["policy_json"].iloc[0]).get("summarizer") or "no summarizer" for one in arms}
    if len({*summarizers.values()}) < 2:
        return {f'"{arm}"': [arm] for arm in summarizers}
    groups = dict[str, list[str]]()
    for arm, summarizer in summarizers.items():
        groups.setdefault(str(summarizer), []).append(arm)
    return groups


def _format_shares(group: str, shares: Mapping[str, float]) -> str:
    """Return the lost share of a group's arms: of its only arm, or of the arms with the lowest and the highest share."""
    low, high = (choose(shares, key=lambda arm: shares[arm]) for choose in (min, max))
    if len(shares) == 1:
        return f"{group} {100 * shares[low]:.0f} %"
    return f'{group} {100 * shares[low]:.0f} % in "{low}" to {100 * shares[high]:.0f} % in "{high}"'


def _count_lost(retention_table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the numbers of lost and of all facts (columns `lost` and `facts`) by kind, summed over arms."""
    rates = retention_table[column]
    counts = {"lost": [rate.trials - rate.successes for rate in rates], "facts": [rate.trials for rate in rates]}
    totals = pd.DataFrame(counts, index=retention_table["kind"].to_numpy()).groupby(level=0, sort=False).sum()
    return totals[totals["facts"] > 0]


def _choose_kinds(counts: Sequence[pd.DataFrame]) -> list[str]:
    """Return the kinds of which the highest shares were lost in all groups together, at most `MAX_KINDS`."""
    if not counts:
        return []
    totals = pd.concat(counts).groupby(level=0, sort=False).sum()
    shares = (totals["lost"] / totals["facts"]).sort_values(ascending=False, kind="stable")
    return [str(kind) for kind in shares[shares > 0].index[:MAX_KINDS]]


def _describe_sum(arm_count: int, *, has_repeats: bool) -> str:
    return "" if arm_count == 1 else f" in {arm_count} arms{', repeated arms not counted' if has_repeats else ''}"


def _list_kinds(counts: pd.DataFrame, place: str) -> str:
    """Return the share that was lost of each given kind, with the numbers of lost and of all facts.

    Args:
        counts: Numbers of lost and of all facts by kind; at least one kind.
        place: Words on the arms that the numbers are about, after the first of them.
    """
    shares, words = counts["lost"] / counts["facts"], [KIND_TEXTS.get(str(kind), kind) for kind in counts.index]
    numbers = [f"{lost:.0f} of {facts:.0f}" for lost, facts in zip(counts["lost"], counts["facts"], strict=True)]
    numbers[0] += place
    return "; ".join(f"{word} {100 * share:.0f} %, {text}" for word, share, text in zip(words, shares, numbers, strict=True))
