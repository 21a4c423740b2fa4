"""Claims: tests of the comparisons (contrasts) that the author of a plan declared before its trials ran.

The p-values are corrected for the number of declared contrasts and for the declared looks (how often the results are inspected).
The contrasts are read from the provenance stored with each trial. Nothing is claimed unless every trial of the experiment ran
under the same declaration and the plan is complete.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan, log

from harness import codec
from harness.analysis.comparison import ArmComparer, format_effect
from harness.analysis.effects import Effect, compute_null_p
from harness.analysis.formatting import Section, format_p
from harness.analysis.intervals import ALPHA
from harness.analysis.statistics import adjust_holm
from harness.analysis.tables import Tables
from harness.experiment.contrasts import Contrast, Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Result of a contrast (a comparison declared in the plan): effect, corrected p-value, and whether it can be claimed."""

    contrast: Contrast
    effect: Effect
    p_value: float
    """Two-sided p-value of no effect or, with a margin, of an effect as bad as the margin; not corrected."""
    holm_p: float
    """Two-sided p-value after Holm's correction for all declared contrasts and Bonferroni's correction for the declared looks."""

    @property
    def is_shown(self) -> bool:
        """Whether the corrected p-value is at most 0.05 and, with a margin, arm a is not worse than the margin."""
        return self.holm_p <= ALPHA and (self.contrast.margin is None or is_within_margin(self.contrast, self.effect))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReport:
    """Results of the contrasts (comparisons) that an experiment declared, or the reason why they are not tested."""

    family: Family
    claims: tuple[Claim, ...] = ()
    refusal: str = ""
    """Reason why nothing is claimed; empty if the contrasts were tested."""


def judge_contrasts(results: Tables) -> ClaimReport | None:
    """Test the contrasts that the plan of an experiment declared; return None if it declared none.

    Args:
        results: Tables of results of one experiment and one fidelity level, without trials of earlier plans.
    """
    families = read_families(results)
    declared = [family for family in families if family.contrasts]
    if not declared:
        return None
    newest = max(declared, key=lambda family: family.planned_trials)
    if len({family.digest for family in families}) > 1:
        return ClaimReport(family=newest, refusal="some trials ran under another declaration, so all contrasts are exploratory")
    if len(families) > newest.looks:
        return ClaimReport(
            family=newest, refusal=f"the grid was extended after trials had run, and the plan declared {newest.looks} look(s)"
        )
    finished = len(results.trials)
    if finished < newest.planned_trials and newest.looks == 1:
        return ClaimReport(family=newest, refusal=f"{finished} of {newest.planned_trials} trials have finished")
    return ClaimReport(family=newest, claims=tuple(_test_family(ArmComparer(results), newest)))


def read_families(results: Tables) -> list[Family]:
    """Return the distinct sets of contrasts that the trials' provenance declares; one set unless the plan was changed."""
    families = dict[str, Family]()
    for text in results.trials["provenance_json"].unique():
        plain = json.loads(text or "{}").get("family") or {}
        families.setdefault(json.dumps(plain, sort_keys=True), codec.from_plain(Family, plain, "family"))
    return list(families.values())


def _test_family(comparer: ArmComparer, family: Family) -> Iterator[Claim]:
    tested = [_test_contrast(comparer, contrast) for contrast in family.contrasts]
    corrected = adjust_holm([1.0 if isnan(p) else p for _, p in tested])
    for contrast, (effect, p_value), holm_p in zip(family.contrasts, tested, corrected, strict=True):
        yield Claim(contrast=contrast, effect=effect, p_value=p_value, holm_p=min(1.0, holm_p * family.looks))


def _test_contrast(comparer: ArmComparer, contrast: Contrast) -> tuple[Effect, float]:
    effect = comparer.compare(contrast.a, contrast.b, contrast.estimand).find_effect(contrast.metric)
    if contrast.margin is None:
        return effect, effect.p_value
    null = log(contrast.margin) if effect.scale == "ratio" else -contrast.margin
    return effect, compute_null_p(comparer.pair(contrast.a, contrast.b), contrast.metric, null, contrast.estimand)


def is_within_margin(contrast: Contrast, effect: Effect) -> bool:
    """Return whether, by its estimate, arm a of a contrast is not worse than arm b by more than the contrast's margin."""
    margin = contrast.margin or 0.0
    return effect.value < margin if effect.scale == "ratio" else effect.value > -margin


def build_claim_section(judged: ClaimReport | None) -> Iterator[Section]:
    """Yield the section of a report on the declared contrasts; yield nothing if the plan declared none."""
    if judged is None:
        return
    if judged.refusal:
        yield Section(heading="Declared contrasts", notes=(f"Nothing is claimed: {judged.refusal}.",))
        return
    yield Section(
        heading="Declared contrasts (confirmatory)",
        columns=("contrast", "metric", "estimand", "effect, 95 %", "p", "Holm", "result"),
        rows=tuple(_format_claim(one) for one in judged.claims),
        notes=tuple(_describe_family(judged.family, judged.claims)),
    )


def _format_claim(claim: Claim) -> tuple[str, ...]:
    contrast = claim.contrast
    if claim.is_shown:
        result = "shown" if contrast.margin is None else "shown: not worse"
    else:
        result = "not shown" if contrast.margin is None else "not shown to be no worse"
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


def _describe_family(family: Family, claims: Sequence[Claim]) -> Iterator[str]:
    yield (
        f"Holm: p corrected for the {len(claims)} declared contrasts"
        + (f" and {family.looks} declared looks" if family.looks > 1 else "")
        + f"; declaration {family.digest[:12]}, recorded in the provenance of every trial."
    )
    if any(one.contrast.margin is not None for one in claims):
        yield "With a margin, p tests an effect as bad as the margin: a small p shows that the first arm is not worse than that."
    yield "Intervals have the level 95 % each. Everything else in this report is exploratory."
