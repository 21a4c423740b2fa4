"""Sentences for the first lines of a report on the facts (values that the agent must remember) that summaries lost.

A summary is only blamed for facts that no kept message shows. Results written before this was recorded, and policies without a
summarizer, have a sentence on what compactions lost of all facts in view.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from harness.analysis.arms import ArmSummary
from harness.analysis.tables import Tables
from harness.analysis.validity import find_repeats

MAX_GROUPS = 4
"""Maximum number of summarizers or arms whose losses one sentence states; of more, it states the largest and the smallest."""
MAX_KINDS = 3
"""Maximum number of kinds of facts that a sentence lists as lost most; the kind that was lost least is listed, too."""
SIMILAR_SHARES = 0.15
"""Largest difference between the lost shares of two kinds of facts at which only their range is stated."""
MAX_NAMED_ARMS = 3
"""Maximum number of arms of one summarizer that a sentence names; more are only counted."""
COUNTING = "A fact that survives a compaction counts again at the next, so these are shares per compaction."
KIND_TEXTS: Mapping[str, str] = {
    **{kind: f"{kind}s" for kind in ("constraint", "goal", "decision", "artifact", "value", "preference")},
    "error": "error messages",
    "progress": "records of finished work",
    "next-step": "next steps",
    "superseded": "latest values of changed facts",
}
"""Words for each kind of facts."""


def describe_lost_facts(results: Tables, arms: Sequence[ArmSummary], kept_facts: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on the facts that summaries lost, and one on what compactions lost in arms without a summarizer.

    If there are several summarizers, the arms of each are taken together. Repeated arms (A/A) are left out.

    Args:
        results: Tables of results of one fidelity level (how much of a run is real).
        arms: Summaries of the arms (configurations), in the order of the report.
        kept_facts: Rates at which arms kept facts, as `measure_retention` returns them.
    """
    repeated = find_repeats(results.trials)
    first_runs = [arm for arm in arms if arm.arm not in repeated]
    probes = results.probes
    summarized_trials = set(probes.loc[probes["seen_in_kept"].notna(), "trial_id"])
    is_summarized = {arm.arm: arm.trials["trial_id"].isin(summarized_trials).any() for arm in first_runs}
    summarized = [arm for arm in first_runs if is_summarized[arm.arm]]
    others = [arm for arm in first_runs if not is_summarized[arm.arm]]
    facts = "facts found only in replaced messages"
    losses = _list_losses(summarized, kept_facts.assign(rate=kept_facts["summarized"]), facts, has_repeats=bool(repeated))
    if losses:
        yield f"Lost by summaries: {'; '.join(losses)}. {COUNTING}"
    facts = "facts in view"
    losses = _list_losses(others, kept_facts.assign(rate=kept_facts["kept"]), facts, has_repeats=bool(repeated))
    if losses:
        yield f"Lost by compactions: {'; '.join(losses)}. {COUNTING}"


def _list_losses(arms: Sequence[ArmSummary], rates: pd.DataFrame, facts: str, *, has_repeats: bool) -> list[str]:
    """Return a clause for each group of arms on the share of facts that was lost, and on the kinds that were lost most.

    Args:
        arms: Arms that are described.
        rates: Rate at which each arm kept each kind of these facts, in the columns `arm`, `kind` and `rate`.
        facts: Words for the facts that could be lost.
        has_repeats: Whether repeated arms (A/A) are left out.
    """
    groups = _group_arms(arms)
    counts = {name: _count_lost(rates[rates["arm"].isin([member.arm for member in members])]) for name, members in groups.items()}
    totals = {name: arm_counts.sum() for name, arm_counts in counts.items() if len(arm_counts)}
    if len(totals) > MAX_GROUPS:
        ordered = sorted(totals, key=lambda name: -totals[name]["lost"] / totals[name]["facts"])
        totals = {name: totals[name] for name in (ordered[0], ordered[-1])}
    chosen = _choose_kinds([counts[name] for name in totals])
    return [
        f"{name}{_list_arms(groups[name], has_repeats=has_repeats)} lost {100 * total['lost'] / total['facts']:.0f} % of "
        f"{total['facts']:,}{'' if index else f' {facts}'}{_list_kinds(counts[name], chosen)}"
        for index, (name, total) in enumerate(totals.items())
    ]


def _list_arms(arms: Sequence[ArmSummary], *, has_repeats: bool) -> str:
    if len(arms) < 2:
        return ""
    if len(arms) > MAX_NAMED_ARMS:
        return f" ({len(arms)} arms together{', without A/A' if has_repeats else ''})"
    *first, last = (arm.arm for arm in arms)
    return f" ({', '.join(first)} and {last} together)"


def _group_arms(arms: Iterable[ArmSummary]) -> dict[str, list[ArmSummary]]:
    """Return the arms of each summarizer, or each arm by itself if there is only one summarizer."""
    arms = list(arms)
    summarizers = [json.loads(arm.trials["policy_json"].iloc[0]).get("summarizer") or "no summarizer" for arm in arms]
    groups = dict[str, list[ArmSummary]]()
    for arm, summarizer in zip(arms, summarizers, strict=True):
        groups.setdefault(str(summarizer) if len({*summarizers}) > 1 else f'"{arm.arm}"', []).append(arm)
    return groups


def _count_lost(rates: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of lost and of all facts (columns `lost` and `facts`) by kind, summed over arms."""
    counts = {"lost": [rate.trials - rate.successes for rate in rates["rate"]], "facts": [rate.trials for rate in rates["rate"]]}
    totals = pd.DataFrame(counts, index=rates["kind"].to_numpy()).groupby(level=0, sort=False).sum()
    return totals[totals["facts"] > 0]


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
    most = [str(kind) for kind in shares[shares > 0].index[:MAX_KINDS]]
    return _ChosenKinds(most, str(shares.index[-1]) if len(shares) > MAX_KINDS else "")


def _list_kinds(counts: pd.DataFrame, chosen: _ChosenKinds) -> str:
    """Return a remark with the share that was lost of each chosen kind, or with the range of all kinds if they are similar."""
    shares = counts["lost"] / counts["facts"]
    if len(shares) > 1 and shares.max() - shares.min() <= SIMILAR_SHARES:
        least, most = (f"{100 * share:.0f} %" for share in (shares.min(), shares.max()))
        return " (of each kind)" if least == most else f" ({least} to {most}, depending on the kind)"
    texts = {kind: f"{100 * share:.0f} % of {KIND_TEXTS.get(kind, kind)}" for kind, share in shares.items()}
    most = ", ".join(texts[kind] for kind in chosen.most if kind in texts)
    least = texts.get(chosen.least, "")
    return f" (most: {most}; least: {least})" if most and least else f" ({most})" if most else ""
