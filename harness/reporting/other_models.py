"""Comparisons of a report once more with other models, and whether their verdicts are the same.

A verdict that holds with one agent only is a property of that agent. A plan names further models in `other_models`; what it
declares is claimed only of the model of the grid, and the report marks what another model contradicts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from harness.analysis.arms import order_arms, select_valid
from harness.analysis.comparison import format_effect
from harness.analysis.formatting import format_label
from harness.analysis.measures import choose_metric
from harness.analysis.other_models import OtherModel
from harness.analysis.tables import Tables
from harness.analysis.validity import find_repeats
from harness.errors import HarnessError, format_count
from harness.experiment.contrasts import Contrast, Family
from harness.reporting.claims import Claim, ClaimReport, judge_family
from harness.reporting.section import Section

OTHER_MODELS_HEADING = "With other models"
"""First words of the heading of the section that repeats the comparisons with other models."""
MAX_UNDECLARED_ROWS = 12
"""Maximum number of comparisons with another verdict that are listed if the plan declares no contrasts."""
_VERDICTS = {1: "higher", -1: "lower", 0: "not shown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedComparison:
    """One comparison with the model of the grid and with another model."""

    model: str
    """Name of the other model."""
    own: Claim
    """Result with the model of the grid."""
    other: Claim
    """Result with the other model, whose p-values are corrected among the same comparisons with that model."""
    is_declared: bool
    """Whether the plan declared the comparison, so that its verdict rests on the corrected p-value."""

    @property
    def differs(self) -> bool:
        """Whether the two models lead to different verdicts."""
        return _judge(self.own, self.is_declared) != _judge(self.other, self.is_declared)


def repeat_comparisons(
    results: Tables, others: Sequence[OtherModel], judged: ClaimReport | None, baseline: str
) -> tuple[RepeatedComparison, ...]:
    """Return the comparisons of a report with the model of the grid and with each other model.

    These are the declared contrasts or, if the plan declares none, the comparisons of each arm with the baseline.

    Args:
        results: Results with the model of the grid.
        others: Results with each other model.
        judged: Results of the declared contrasts; None if none was declared.
        baseline: Arm with which the others are compared if nothing was declared.
    """
    if judged is not None:
        own_claims, family = judged.claims, judged.family
    else:
        family = Family(contrasts=tuple(_list_contrasts(results, baseline)))
        own_claims = tuple(_judge_all(results, family))
    repeated = []
    for other in others:
        claims = {claim.contrast: claim for claim in _judge_all(other.results, family)}
        repeated += [
            RepeatedComparison(model=other.model, own=claim, other=claims[claim.contrast], is_declared=judged is not None)
            for claim in own_claims
            if claim.contrast in claims
        ]
    return tuple(repeated)


def build_other_model_section(
    comparisons: Sequence[RepeatedComparison], others: Sequence[OtherModel], model: str, judged: ClaimReport | None
) -> Section:
    """Build the section that shows the comparisons with other models, and which verdicts differ.

    Args:
        comparisons: Comparisons with both models, as `repeat_comparisons` returns them.
        others: Results with each other model.
        model: Name of the model of the grid.
        judged: Results of the declared contrasts; None if none was declared.
    """
    is_declared = judged is not None
    shown = [comparison for comparison in comparisons if is_declared or comparison.differs]
    listed = shown if is_declared else shown[:MAX_UNDECLARED_ROWS]
    rows = tuple(
        (
            f"{comparison.own.contrast.a} against {comparison.own.contrast.b}",
            comparison.own.contrast.metric,
            comparison.model,
            _format(comparison.own, is_declared),
            _format(comparison.other, is_declared),
            "differs" if comparison.differs else "same",
        )
        for comparison in listed
    )
    trial_count = sum(len(other.results.trials) for other in others)
    ran = f"{format_count(trial_count, 'trial')} ran with other models, on the same tasks and seeds"
    notes = [f"{ran}. All other sections and charts are about {model} alone.", *_describe_verdicts(comparisons, is_declared)]
    if judged is not None and judged.refusal:
        notes.append(f"Nothing is compared: {judged.refusal}.")
    if len(listed) < len(shown):
        notes.append(f"{format_count(len(shown) - len(listed), 'further comparison')} with another verdict.")
    columns = ("comparison", "metric", "other model", f"with {format_label(model)}", "with the other model", "verdict")
    return Section(
        heading=f"{OTHER_MODELS_HEADING}: does the choice of the agent's model change a verdict?",
        columns=columns if rows else (),
        rows=rows,
        notes=tuple(notes),
        is_detail=False,
    )


def group_contradictions(comparisons: Sequence[RepeatedComparison]) -> Mapping[Contrast, tuple[RepeatedComparison, ...]]:
    """Return the repeated comparisons with another verdict, by the contrast that they repeat."""
    grouped: dict[Contrast, tuple[RepeatedComparison, ...]] = {}
    for comparison in comparisons:
        if comparison.differs:
            grouped[comparison.own.contrast] = (*grouped.get(comparison.own.contrast, ()), comparison)
    return grouped


def _list_contrasts(results: Tables, baseline: str) -> list[Contrast]:
    """Return a comparison of each arm with the baseline, by the metric that the report chooses for its arms."""
    valid, repeats = select_valid(results.trials), find_repeats(results.trials)
    names = [arm for arm in order_arms(results.trials) if arm not in repeats]
    metric = choose_metric([valid[valid["arm"] == arm] for arm in names]).name
    return [Contrast(a=arm, b=baseline, metric=metric) for arm in names if arm != baseline]  # type: ignore[arg-type]


def _judge_all(results: Tables, family: Family) -> list[Claim]:
    """Return the results of those comparisons of which both arms have valid trials."""
    known = set(select_valid(results.trials)["arm"])
    contrasts = tuple(contrast for contrast in family.contrasts if {contrast.a, contrast.b} <= known)
    if not contrasts:
        return []
    try:
        return list(judge_family(results, Family(contrasts=contrasts, looks=family.looks)))
    except HarnessError:  # e.g. no two trials on the same task and seed have finished yet
        return []


def _judge(claim: Claim, is_declared: bool) -> int:
    """Return the sign of a difference that is shown; 0 if none is. With a margin, 1 means shown to be not worse."""
    is_shown = claim.is_shown if is_declared else claim.effect.is_significant
    if not is_shown or isnan(claim.effect.value):
        return 0
    if claim.contrast.margin is not None:
        return 1
    null = 1.0 if claim.effect.scale == "ratio" else 0.0
    return 1 if claim.effect.value > null else -1


def _format(claim: Claim, is_declared: bool) -> str:
    verdict = _judge(claim, is_declared)
    text = "not worse" if verdict and claim.contrast.margin is not None else _VERDICTS[verdict]
    return f"{format_effect(claim.effect)}, {text}"


def _describe_verdicts(comparisons: Sequence[RepeatedComparison], is_declared: bool) -> list[str]:
    if not comparisons:
        return []
    differing = sum(comparison.differs for comparison in comparisons)
    kind = "declared contrast" if is_declared else "comparison"
    rule = (
        "p is corrected among the comparisons with the same model; only those with the model of the grid are claims"
        if is_declared
        else "a verdict is an uncorrected p of at most 0.05; nothing was declared, so none is a claim"
    )
    against = "" if is_declared else " with the baseline"
    return [f"{differing} of {format_count(len(comparisons), kind)}{against} have another verdict with another model; {rule}."]
