"""Tests of the contrasts that the author of a plan declared before its trials ran.

The p-values are corrected for the number of declared contrasts and for the declared interim analyses.
The declaration is read from the provenance stored with each trial. Nothing is claimed unless every trial ran under the same
declaration and the results were looked at no more often than declared. Unless interim analyses were declared, only the progress
of an incomplete plan is shown, because to see its outcomes would be an interim analysis.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from math import isnan, log

import pandas as pd

from harness.analysis.arms import add_total_cost, drop_earlier_plans, select_excluded
from harness.analysis.comparison import ArmComparer, format_effect
from harness.analysis.effects import Effect, compute_null_p
from harness.analysis.families import (
    find_newest,
    find_unfinished,
    find_withheld,
    is_selection,
    list_experiments,
    read_families,
    record_interim_analyses,
)
from harness.analysis.formatting import format_p, format_usd
from harness.analysis.intervals import ALPHA
from harness.analysis.statistics import adjust_holm
from harness.analysis.tables import Tables
from harness.errors import UsageError, format_count
from harness.experiment.contrasts import SHARE_METRICS, Contrast, Family
from harness.experiment.interim_analyses import TRANSCRIPTS_NOTE, InterimAnalysis, explain_withheld
from harness.reporting.reader_counts import find_reading_gap
from harness.reporting.section import AGAINST, Section

PROGRESS_HEADING = "Progress"
"""Heading of the section on progress, the only one shown until all trials of a plan with declared contrasts have finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Result of a declared contrast: effect, corrected p-value, and whether it can be claimed."""

    contrast: Contrast
    effect: Effect
    p_value: float
    """Two-sided p-value for no effect or, if the contrast has a margin, for an effect as bad as the margin; not corrected."""
    holm_p: float
    """Two-sided p-value after Holm's correction for all contrasts and Bonferroni's correction for the interim analyses."""

    lost_trials: str = ""
    """Reason why the trials that only one arm lost could reverse the result; empty if they could not or if there are none."""
    reading_gap: str = ""
    """Reason why differences of the scripted agent's reader could explain the result; empty if they could not."""

    @property
    def is_shown(self) -> bool:
        """Whether the result can be claimed.

        The corrected p-value is at most 0.05, arm a is not worse by the margin of the contrast if it has one, no outcome of
        trials that only one of the arms lost would reverse the result, and no difference of the reader could explain it.
        """
        return not self.lost_trials and not self.reading_gap and self.passes_test

    @property
    def passes_test(self) -> bool:
        """Whether the result could be claimed if both arms had lost the same trials and were read equally well."""
        return self.holm_p <= ALPHA and (self.contrast.margin is None or is_within_margin(self.contrast, self.effect))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReport:
    """Results of the declared contrasts, or the reason why they are not tested."""

    family: Family
    claims: tuple[Claim, ...] = ()
    refusal: str = ""
    """Reason why nothing is claimed; empty if the contrasts were tested."""
    is_in_progress: bool = False
    """Whether the plan is incomplete and declares no interim analysis, so that only its progress may be shown."""
    analysis_number: int | None = None
    """Number, from 1, of this analysis of the results; None if inspections are not recorded."""


def judge_contrasts(results: Tables, analysis: InterimAnalysis | None = None) -> ClaimReport | None:
    """Test the declared contrasts; return None if there are none.

    Args:
        results: Tables of results of one experiment with all its fidelity levels, without trials of earlier plans.
        analysis: Entry for these results in the record of how often results were inspected; None if there is no record.
    """
    families = read_families(results)
    newest = find_newest(families)
    if newest is None:
        return None
    number = None if analysis is None else analysis.number
    if len({family.digest for family in families}) > 1:
        refusal = "some trials ran under another declaration, so all contrasts are exploratory"
        return ClaimReport(family=newest, analysis_number=number, refusal=refusal)
    if unfinished := find_unfinished(results.trials):
        return ClaimReport(family=newest, analysis_number=number, refusal=str(unfinished), is_in_progress=True)
    declared_analyses = f"the plan declared {format_count(newest.looks, 'look')}"
    if analysis is not None and analysis.number > newest.looks:
        refusal = f"this is look {analysis.number} at the results, after other trials had been seen, and {declared_analyses}"
        return ClaimReport(family=newest, analysis_number=number, refusal=refusal)
    if len(families) > newest.looks and not (analysis is not None and analysis.is_recorded_from_start):
        return ClaimReport(
            family=newest, analysis_number=number, refusal=f"the grid was extended after trials had run, and {declared_analyses}"
        )
    try:
        claims = tuple(judge_family(results, newest))
    except UsageError as error:  # e.g. no trial of an arm has finished before an interim analysis
        return ClaimReport(
            family=newest, analysis_number=number, refusal=f"a declared contrast cannot be tested: {error}".rstrip("?")
        )
    return ClaimReport(family=newest, analysis_number=number, claims=claims)


def judge_outcomes(results: Tables) -> ClaimReport | None:
    """Test the declared contrasts, and record that their outcomes were seen.

    The record is in the output folder. Nothing is recorded for results that do not come from such a folder, or if only the
    progress may be shown. Joined results of several experiments count as an interim analysis of each of them, and nothing is
    claimed. Neither is anything claimed from a selection of trials, which counts as an interim analysis of all of them. The
    result is None if the plan declares no comparisons.

    Args:
        results: Tables of results, which may contain trials of earlier plans, or a selection from them.

    Raises:
        StoreError: The record of how often results were seen cannot be read.
    """
    withheld = find_withheld(results)
    analyses = record_interim_analyses(results) if withheld is None else []
    experiment_count = len(list_experiments(results))
    is_selected = is_selection(results)
    if experiment_count == 1 and not is_selected:
        return judge_contrasts(drop_earlier_plans(results), analyses[0] if analyses else None)
    newest = find_newest(read_families(drop_earlier_plans(results)))
    if newest is None:
        return None
    if withheld is not None:
        return ClaimReport(family=withheld.family, refusal=str(withheld), is_in_progress=True)
    if is_selected:
        refusal = "this report is on a selection of the trials, and only the report on all trials tests the contrasts"
    else:
        refusal = f"{experiment_count} experiments are joined here, and only the report on one experiment tests its contrasts"
    return ClaimReport(family=newest, refusal=refusal)


def restrict_claims(judged: ClaimReport | None, arms: Collection[str]) -> ClaimReport | None:
    """Keep only the results of those declared contrasts that name at least one of the given arms."""
    if judged is None:
        return None
    return replace(judged, claims=tuple(claim for claim in judged.claims if {claim.contrast.a, claim.contrast.b} & set(arms)))


def judge_family(results: Tables, family: Family) -> Iterator[Claim]:
    """Yield the result of each contrast of a family, with p-values corrected within the family.

    Raises:
        UnknownName: A contrast names an arm without trials.
        UsageError: A contrast cannot be tested, e.g. since no trial of one of its arms has finished.
    """
    comparer = ArmComparer(results)
    tests = [_test_contrast(comparer, contrast) for contrast in family.contrasts]
    p_values = adjust_holm([1.0 if isnan(p) else p for _, p in tests])
    for contrast, (effect, p_value), holm_p in zip(family.contrasts, tests, p_values, strict=True):
        yield Claim(
            contrast=contrast,
            effect=effect,
            p_value=p_value,
            holm_p=min(1.0, holm_p * family.looks),
            lost_trials=_find_reversal(comparer, contrast),
            reading_gap=find_reading_gap(results, contrast, effect),
        )


def _test_contrast(comparer: ArmComparer, contrast: Contrast) -> tuple[Effect, float]:
    effect = comparer.estimate(contrast.a, contrast.b, contrast.metric, contrast.estimand)
    if contrast.margin is None:
        return effect, effect.p_value
    null = log(contrast.margin) if effect.scale == "ratio" else -contrast.margin
    return effect, compute_null_p(comparer.pair(contrast.a, contrast.b), contrast.metric, null, contrast.estimand)


def _find_reversal(comparer: ArmComparer, contrast: Contrast) -> str:
    """Return the reason why trials that only one arm lost could reverse the result of a contrast; empty if they could not.

    Lost trials have an unknown success or score from 0 to 1. Their tokens, steps and costs have no upper bound, so that they
    could reverse any result.
    """
    if contrast.metric not in SHARE_METRICS:
        has_lost = comparer.bound_attrition(contrast.a, contrast.b, "success") is not None
        return f"the {contrast.metric} of trials that only one arm lost is unknown" if has_lost else ""
    worst = comparer.bound_attrition(contrast.a, contrast.b, contrast.metric)
    null = -(contrast.margin or 0.0)
    is_reversed = worst is not None and worst.low <= null and (contrast.margin is not None or worst.high >= null)
    if worst is None or not is_reversed:
        return ""
    return f"whatever the lost trials would have shown, the difference is between {worst.low:+.2f} and {worst.high:+.2f}"


def is_within_margin(contrast: Contrast, effect: Effect) -> bool:
    """Return whether arm a is estimated to be better than b, or worse by less than a contrast's margin.

    A contrast is a comparison of two arms that the plan declared.
    """
    margin = contrast.margin or 0.0
    return effect.value < margin if effect.scale == "ratio" else effect.value > -margin


def build_claim_section(judged: ClaimReport | None) -> Iterator[Section]:
    """Yield the report's section on the declared contrasts; yield nothing if the plan declared none."""
    if judged is None:
        return
    if judged.refusal:
        yield Section(heading="Declared contrasts", notes=(f"Nothing is claimed: {judged.refusal}.",))
        return
    if not judged.claims:
        yield Section(heading="Declared contrasts", notes=("No declared contrast concerns the arms of this level.",))
        return
    yield Section(
        heading="Declared contrasts: comparisons that the plan named before the trials ran",
        columns=("contrast", "metric", "about", "effect, 95 %", "p", "p, corrected", "result"),
        rows=tuple(_format_claim(claim) for claim in judged.claims),
        sources=tuple(f"{claim.contrast.a}{AGAINST}{claim.contrast.b}" for claim in judged.claims),
        notes=tuple(_describe_family(judged)),
    )


def _format_claim(claim: Claim) -> tuple[str, ...]:
    contrast = claim.contrast
    if claim.is_shown:
        result = "shown" if contrast.margin is None else "shown: not worse"
    else:
        result = "not shown" if contrast.margin is None else "not shown to be no worse"
        if claim.passes_test:
            result += " (lost trials)" if claim.lost_trials else " (reader)"
    margin = "" if contrast.margin is None else f", margin {contrast.margin:g}"
    return (
        f"{contrast.a} against {contrast.b}",
        f"{contrast.metric}{margin}",
        claim.effect.estimand,
        format_effect(claim.effect),
        format_p(claim.p_value),
        format_p(claim.holm_p),
        result,
    )


def _describe_family(judged: ClaimReport) -> Iterator[str]:
    family = judged.family
    yield (
        f"p, corrected: by Holm's method, for the {format_count(len(family.contrasts), 'declared contrast')}"
        + (f" and {family.looks} declared looks" if family.looks > 1 else "")
        + f"; the declaration, {family.digest[:12]}, is recorded with every trial."
    )
    if family.looks > 1 and judged.analysis_number is not None:
        yield f"This is look {judged.analysis_number} of {family.looks}; a look is a set of trials whose outcomes are shown."
    if any(claim.contrast.margin is not None for claim in judged.claims):
        yield "With a margin, a small p shows that the first arm is not worse than the second by more than the margin."
    for claim in judged.claims:
        if claim.lost_trials and claim.passes_test:
            yield (
                f"{claim.contrast.a} against {claim.contrast.b} is not claimed, since the arms lost different trials: "
                f"{claim.lost_trials}. `harness run --retry-failed` runs lost trials again."
            )
        if claim.reading_gap and claim.passes_test:
            yield f"{claim.contrast.a} against {claim.contrast.b} is not claimed, since {claim.reading_gap}."
    yield "Each interval alone has the level 95 %. Everything else in this report is exploratory: not declared, so not a claim."


def build_progress_section(trials: pd.DataFrame, family: Family) -> Section:
    """Build the section on the progress of a plan whose outcomes may not be shown yet.

    Args:
        trials: Trials that have finished.
        family: Contrasts that the plan declares, with its number of trials.
    """
    rows = [(str(arm), str(len(part)), str(len(select_excluded(part)))) for arm, part in trials.groupby("arm", sort=False)]
    total_usd = add_total_cost(trials)["total_cost_usd"].sum(min_count=1)
    return Section(
        heading=PROGRESS_HEADING,
        columns=("arm", "finished", "excluded"),
        rows=tuple(rows),
        notes=(
            f"{len(trials)} of {format_count(family.planned_trials, 'planned trial')} have finished.",
            f"Cost of all arms together: {format_usd(total_usd)} USD.",
            explain_withheld(family.looks),
            TRANSCRIPTS_NOTE,
        ),
        is_detail=False,
    )
