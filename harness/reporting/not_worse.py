"""Arms that may be called not worse than the highest observed arm, and the reasons why others may not.

An interval that contains 0 shows no equality, so an arm is called not worse only if its whole interval lies above a margin that
the plan declared before its first trial ran. This module alone decides; the report and the page show its result.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path

import pandas as pd

from harness.analysis.arms import ArmSummary, add_total_cost
from harness.analysis.baselines import find_bounds
from harness.analysis.comparison import ArmComparer, format_effect
from harness.analysis.effects import Effect, compute_null_p, estimate_effect
from harness.analysis.families import find_source, list_experiments, read_plan_table
from harness.analysis.formatting import format_p, format_usd
from harness.analysis.intervals import ALPHA
from harness.analysis.measures import METRICS, Cell, choose_metric, estimate_cell
from harness.analysis.statistics import adjust_holm
from harness.analysis.tables import Tables
from harness.analysis.validity import find_repeats
from harness.errors import UsageError, format_count
from harness.experiment.contrasts import MARGIN_KEY, compute_smallest_p, parse_margin
from harness.experiment.margins import read_margins
from harness.reporting.claims import ClaimReport

TROUBLED_SHARE = 1 / 3
"""Share of an arm's trials, 0 to 1, from which loops or the maximum number of steps decide how the arm is described."""
FULL_SHARE = 1 / 2
"""Share of an arm's trials, 0 to 1, above which sessions that end with a full window make the arm cheap only because it fails."""
MAX_LISTED_ARMS = 5
"""Maximum number of arms that the sentences list by name; of more, they count the reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredMargin:
    """Margin up to which an arm may be called not worse, as stored with the trials of the first run."""

    value: float | None
    """Margin of the first run, as a difference in the metric; None if its plan declared none."""
    changes: tuple[float | None, ...] = ()
    """Other margins that later runs or the plan file declare, in this order; None if they declare none."""
    differs: bool = False
    """Whether results of several experiments were joined whose first runs declared different margins, so that none counts."""

    def describe_change(self) -> str:
        """Return a sentence that says how the margin was changed after the first run; empty if it was not."""
        if not self.changes:
            return ""
        before, *others = (("none" if margin is None else f"{margin:g}") for margin in (self.value, *self.changes))
        return f"The margin was changed after the first run, from {before} to {', then '.join(others)}; the first one counts."


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Result of one arm: whether it may be called not worse than the highest observed arm, or why not."""

    arm: str
    cost_usd: float
    """Mean cost of a trial on the tasks and seeds that all arms ran; NaN if unknown."""
    effect: Effect
    """Effect of the arm against the highest observed one."""
    reason: str = ""
    """Reason why the arm is not called not worse, without numbers of its own; empty if it is called so."""
    detail: str = ""
    """Numbers of the reason; may be empty."""

    @property
    def is_not_worse(self) -> bool:
        """Whether the arm is called not worse than the highest observed arm."""
        return not self.reason

    @property
    def full_reason(self) -> str:
        """Reason together with its numbers."""
        return f"{self.reason}{f' ({self.detail})' if self.detail else ''}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranking:
    """Highest observed arm of an experiment, and whether each other arm may be called not worse than it."""

    metric: str
    """Metric by which the arms are compared: `success` or `score`."""
    best: str
    """Arm with the highest mean of the metric over the tasks and seeds that all arms ran."""
    margin: DeclaredMargin
    cells: Mapping[str, Cell]
    """Mean of the metric of each compared arm; arms that know the future and repeated arms are left out."""
    costs_usd: Mapping[str, float]
    """Mean cost of a trial of each compared arm; NaN if unknown."""
    standings: tuple[Standing, ...]
    """Result of each compared arm but the highest, in the order of the report."""
    is_complete: bool
    """Whether all compared arms ran the same tasks and seeds, so that the means include all of their trials."""
    has_only_bounds: bool
    """Whether all arms know what the task needs later, so that they are compared with each other."""
    bounds: tuple[str, ...]
    """Arms that were left out because they know what the task needs later."""
    repeats: tuple[str, ...]
    """Arms that were left out because they repeat another arm (A/A)."""

    @property
    def not_worse(self) -> list[Standing]:
        """Arms that are called not worse than the highest, the cheapest first; arms of unknown cost are last."""
        chosen = [standing for standing in self.standings if standing.is_not_worse]
        return sorted(chosen, key=lambda standing: (isnan(standing.cost_usd), standing.cost_usd))

    @property
    def effects(self) -> dict[str, Effect]:
        """Effect of each other arm against the highest one, by name of the arm."""
        return {standing.arm: standing.effect for standing in self.standings}


def read_margin(results: Tables) -> DeclaredMargin:
    """Return the margin that the plan declared, as stored with the trials of the first run, and later changes of it.

    The first run is that of the trial that started first. Trials of earlier plans and versions are ignored. Results that store no
    margin, such as those of other studies, have none.

    Raises:
        StoreError: The record of margins in the output folder cannot be read.
    """
    source = find_source(results)
    margins = [_read_stored_margins(part.trials) for part in list_experiments(source)]
    if len({part[0] for part in margins}) > 1:
        return DeclaredMargin(value=None, differs=True)
    later = [*read_margins(output)] if isinstance(output := getattr(source, "output", None), Path) else []
    table = read_plan_table(source)
    if table is not None:
        with suppress(UsageError):  # an invalid plan file declares nothing
            later.append(parse_margin(table.get(MARGIN_KEY)))
    first, *changes = dict.fromkeys([*(margin for part in margins for margin in part), *later])
    return DeclaredMargin(value=first, changes=tuple(changes))


def _read_stored_margins(trials: pd.DataFrame) -> list[float | None]:
    """Return the margins under which trials ran, each once, in the order in which the trials started."""
    ordered = trials.sort_values("started_at", kind="stable")["provenance_json"]
    margins = dict.fromkeys(json.loads(text or "{}").get(MARGIN_KEY) for text in dict.fromkeys(ordered))
    return list(margins) or [None]


def rank_arms(results: Tables, arms: Sequence[ArmSummary], comparer: ArmComparer, judged: ClaimReport | None) -> Ranking | None:
    """Find the highest observed arm, and decide which other arms may be called not worse than it; None without valid trials.

    Arms that know what the task needs later, and repeated arms, take no part, unless there are no others.

    Args:
        results: Tables of results of one fidelity level.
        arms: Summaries of the arms, in the order of the report.
        comparer: Object that compares two arms on the same tasks and seeds.
        judged: Results of the declared contrasts; None if none was declared.
    """
    known = [arm for arm in arms if len(arm.trials)]
    if not known:
        return None
    metric = choose_metric([arm.trials for arm in known]).name
    repeats, bounds = find_repeats(results.trials), find_bounds(results)
    first_runs = [arm for arm in known if arm.arm not in repeats]
    candidates = [arm for arm in first_runs if arm.arm not in bounds] or first_runs
    shared = _select_shared(candidates)
    cells = {arm: estimate_cell(rows, METRICS[metric]) for arm, rows in shared.items()}
    costs_usd = {arm: float(add_total_cost(rows)["total_cost_usd"].mean()) for arm, rows in shared.items()}
    best = max(candidates, key=lambda arm: cells[arm.arm].value).arm
    others = [candidate for candidate in candidates if candidate.arm != best]
    pairs = {other.arm: comparer.pair(other.arm, best) for other in others}
    effects = {arm: estimate_effect(rows, metric) for arm, rows in pairs.items()}
    better = {**dict.fromkeys(_find_worse(effects), best), **_find_claimed_losers(judged, metric)}
    margin = read_margin(results)
    standings = []
    for other in others:
        reason, detail = _find_reason(other, effects[other.arm], best, margin, better)
        if not reason and margin.value is not None:
            worst = comparer.bound_attrition(other.arm, best, metric)
            p_value = compute_null_p(pairs[other.arm], metric, -margin.value)
            if not p_value <= ALPHA:
                reason, detail = f"no test excludes a loss of {margin.value:g}", f"p {format_p(p_value)}"
            elif worst is not None and worst.low <= -margin.value:
                reason = "lost other trials than the highest arm, which may have failed"
                detail = f"then the difference would be {worst.low:+.2f}"
        standings.append(
            Standing(arm=other.arm, cost_usd=costs_usd[other.arm], effect=effects[other.arm], reason=reason, detail=detail)
        )
    return Ranking(
        metric=metric,
        best=best,
        margin=margin,
        cells=cells,
        costs_usd=costs_usd,
        standings=tuple(standings),
        is_complete=all(len(shared[candidate.arm]) == len(candidate.trials) for candidate in candidates),
        has_only_bounds=all(arm.arm in bounds for arm in first_runs),
        bounds=tuple(arm.arm for arm in first_runs if arm.arm not in cells),
        repeats=tuple(arm.arm for arm in known if arm.arm in repeats),
    )


def _find_reason(
    arm: ArmSummary, effect: Effect, best: str, margin: DeclaredMargin, better: Mapping[str, str]
) -> tuple[str, str]:
    """Return the first reason why an arm is not called not worse than the highest one, with its numbers; empty if none holds.

    Args:
        arm: Summary of the arm.
        effect: Effect of the arm against the highest one.
        best: Name of the highest arm.
        margin: Margin that the plan declared.
        better: Arms that are shown to be worse than another one, each with that arm.
    """
    if margin.value is None:
        return "no margin was declared", ""
    if troubles := list(_list_troubles(arm)):
        return " and ".join(trouble for trouble, _ in troubles), ", ".join(detail for _, detail in troubles if detail)
    if arm.arm in better:
        return f"shown to be worse in {effect.metric} than {better[arm.arm]}", ""
    if not effect.pair_count:
        return f"no task and seed in common with {best}", ""
    could_not = f"could not have shown a loss of {margin.value:g}"
    if effect.refusal:
        return could_not, f"no interval: {effect.refusal}"
    smallest = compute_smallest_p(effect.task_count, effect.unit_count // effect.task_count, effect.estimand, effect.metric)
    if smallest > ALPHA:
        return could_not, f"too few pairs: if all agreed, p would be {smallest:.2g}"
    if effect.interval.high < 0:
        return "the interval excludes 0", format_effect(effect)
    if effect.interval.low > -margin.value:
        return "", ""
    if effect.half_width >= margin.value:
        return could_not, f"its interval is ±{effect.half_width:.2f}"
    return f"the interval reaches a loss of {margin.value:g}", format_effect(effect)


def _list_troubles(arm: ArmSummary) -> Iterator[tuple[str, str]]:
    """Yield each reason why the results of an arm say little about its policy, with its numbers."""
    trials, count = arm.trials, format_count(len(arm.trials), "trial")
    compactions = trials["compactions"].dropna()
    looped, stopped, full = count_loops(trials), arm.counts["step limit"], arm.counts["overflow"]
    if len(compactions) and not compactions.any():
        yield "never compacted", ""
    if looped >= TROUBLED_SHARE * len(trials):
        yield "looped", f"in {looped} of {count}"
    if stopped >= TROUBLED_SHARE * len(trials):
        yield "stopped at the maximum number of steps", f"in {stopped} of {count}"
    if full > FULL_SHARE * len(trials):
        yield "window full at the end", f"of {full} of {count}"


def count_loops(trials: pd.DataFrame) -> int:
    """Return the number of trials in which the agent looped."""
    return int((trials["doom_loop"].fillna("").astype(str) != "").sum())


def find_looping_arms(arms: Sequence[ArmSummary]) -> dict[str, int]:
    """Return the arms that looped in at least a third of their trials, each with the number of these trials."""
    counts = {arm.arm: (count_loops(arm.trials), len(arm.trials)) for arm in arms}
    return {arm: looped for arm, (looped, count) in counts.items() if looped and looped >= TROUBLED_SHARE * count}


def _select_shared(arms: Sequence[ArmSummary]) -> dict[str, pd.DataFrame]:
    """Return the trials of each arm on the tasks and seeds that all arms have.

    An arm that lost its trials of an expensive task would otherwise look cheap. If the arms share no task and seed, all their
    trials are returned.
    """
    places = [set(zip(arm.trials["task"], arm.trials["seed"], strict=True)) for arm in arms]
    shared = set.intersection(*places) or set.union(*places)
    return {
        arm.arm: arm.trials[[place in shared for place in zip(arm.trials["task"], arm.trials["seed"], strict=True)]]
        for arm in arms
    }


def _find_worse(effects: Mapping[str, Effect]) -> set[str]:
    """Return the arms that are shown to be worse than the best one, with p-values corrected for the number of arms."""
    p_values = adjust_holm([1.0 if isnan(effect.p_value) else effect.p_value for effect in effects.values()])
    return {
        arm
        for (arm, effect), p_value in zip(effects.items(), p_values, strict=True)
        if not effect.refusal and effect.interval.high < 0 and p_value <= ALPHA
    }


def _find_claimed_losers(judged: ClaimReport | None, metric: str) -> dict[str, str]:
    """Return each arm that a declared comparison shows to be worse than another arm, with the other arm."""
    losers = {}
    for claim in () if judged is None or judged.refusal else judged.claims:
        if claim.is_shown and claim.contrast.metric == metric and claim.contrast.margin is None:
            loser, winner = claim.contrast.a, claim.contrast.b
            if claim.effect.value > 0:
                loser, winner = winner, loser
            losers[loser] = winner
    return losers


def describe_not_worse(ranking: Ranking, comparer: ArmComparer, claimed_pairs: Sequence[frozenset[str]] = ()) -> str:
    """Return sentences on the arms that are called not worse than the highest one, and why the others are not.

    Args:
        ranking: Result of `rank_arms`.
        comparer: Object that compares two arms on the same tasks and seeds.
        claimed_pairs: Pairs of arms whose difference an earlier line states.
    """
    beginning = f"Not worse in {ranking.metric} than {ranking.best}, the highest observed"
    change = ranking.margin.describe_change()
    end = f" {change}" if change else ""
    if ranking.margin.value is None:
        why = (
            "the joined experiments declared different margins"
            if ranking.margin.differs
            else (f"no margin was declared before the first run ({MARGIN_KEY} under [experiment] in the plan)")
        )
        return f"{beginning}: no arm is called so, since {why}.{end}"
    beginning = f"{beginning}, by the declared margin of {ranking.margin.value:g}"
    if not ranking.standings:
        return f"{beginning}: there is no other arm to compare.{end}"
    labelled = ranking.not_worse
    others = [standing for standing in ranking.standings if not standing.is_not_worse]
    if not labelled:
        return f"{beginning}: no arm.{_list_reasons(others, 'Not called so')}{end}"
    first, *further = labelled
    text = f"{beginning}: {first.arm}, {_describe_price(first, ranking, comparer)}"
    if frozenset({first.arm, ranking.best}) not in claimed_pairs:
        text += f"; {first.arm} − {ranking.best} is {format_effect(first.effect)}"
    if 0 < len(further) <= MAX_LISTED_ARMS:
        names = ", ".join(f"{standing.arm} ({format_usd(standing.cost_usd)} USD)" for standing in further)
        text += f". Also not worse, but not cheaper: {names}"
    elif further:
        text += f". {format_count(len(further), 'further arm')} are not worse either, but not cheaper"
    cheaper = [standing for standing in others if standing.cost_usd < first.cost_usd]
    return f"{text}.{_list_reasons(cheaper, 'Cheaper, but not called so')}{end}"


def _describe_price(standing: Standing, ranking: Ranking, comparer: ArmComparer) -> str:
    price, best = f"{format_usd(standing.cost_usd)} USD per trial", ranking.best
    best_usd = ranking.costs_usd.get(best, nan)
    if isnan(best_usd) or isnan(standing.cost_usd):
        return price
    ratio = estimate_effect(comparer.pair(best, standing.arm), "total_cost_usd")
    averaged = ", averaged over tasks" if ratio.task_count > 1 else ""
    return f"{price} (ratio of {best}, which costs {format_usd(best_usd)} USD{averaged}: {format_effect(ratio)})"


def _list_reasons(standings: Sequence[Standing], beginning: str) -> str:
    """Return a sentence with the reason of each arm, the cheapest first, or the numbers of arms by reason if there are many."""
    if not standings:
        return ""
    if len(standings) <= MAX_LISTED_ARMS:
        ordered = sorted(standings, key=lambda standing: (isnan(standing.cost_usd), standing.cost_usd))
        texts = [f"{standing.arm} ({format_usd(standing.cost_usd)} USD): {standing.full_reason}" for standing in ordered]
    else:
        reasons = pd.Series([standing.reason for standing in standings]).value_counts(sort=True)
        texts = [f"{format_count(int(count), 'arm')}: {reason}" for reason, count in reasons.items()]
    return f" {beginning}: {'; '.join(texts)}."
