"""Harm of single compactions, from the results of their twins: size, concentration in few compactions, and what explains it.

The table of twins has one row per twin: the columns that identify the compaction, `arm`, `repetition`, and the outcomes. Twins of
equal repetitions have equal seeds, so they are compared pairwise. What is chosen on the data is measured on other data: a ranking
of compactions on other repetitions, a model of the harm on other tasks.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.errors import UsageError

Floats: TypeAlias = NDArray[np.float64]
Outcome: TypeAlias = Literal["score", "steps", "cost_usd"]
OUTCOMES: tuple[Outcome, ...] = ("score", "steps", "cost_usd")
CONTRASTS: dict[str, tuple[str, str]] = {
    "the compaction": ("as it was", "not compacted"),
    "lost facts": ("control text", "facts put back"),
    "more text": ("as it was", "control text"),
    "noise": ("as it was again", "as it was"),
}
"""Contrasts by name: the arm that may be harmed, and the arm that it is compared with."""
EVENT_COLUMNS = ("session", "round")


def compute_harm(twins: pd.DataFrame, contrast: str = "the compaction") -> pd.DataFrame:
    """Return the harm to each outcome in each pair of twins: the loss in score, and the gain in steps and cost.

    Args:
        twins: Table of twins with the columns `session`, `round`, `arm`, `repetition` and the outcomes.
        contrast: Name of the contrast, from `CONTRASTS`.

    Returns:
        Table with one row per compaction and repetition, with `session`, `round`, `repetition` and the outcomes as columns.

    Raises:
        UsageError: A compaction lacks a twin of one of the two arms.
    """
    harmed, compared = CONTRASTS[contrast]
    index = [*EVENT_COLUMNS, "repetition"]
    first, second = (twins[twins["arm"] == arm].set_index(index)[list(OUTCOMES)].astype(float) for arm in (harmed, compared))
    if not first.index.sort_values().equals(second.index.sort_values()):
        raise UsageError(f"twins: the arms {harmed!r} and {compared!r} do not have the same compactions and repetitions")
    difference = first - second.reindex(first.index)
    difference["score"] = -difference["score"]
    return difference.reset_index()


def split_halves(harm: pd.DataFrame, outcome: Outcome) -> tuple[Floats, Floats]:
    """Return the mean harm of each compaction over the even and over the odd repetitions, in the order of the compactions.

    Raises:
        UsageError: There is only one repetition.
    """
    if harm["repetition"].nunique() < 2:
        raise UsageError("harm: at least two repetitions are needed, one to choose and one to measure")
    by_half = harm.assign(half=harm["repetition"] % 2).pivot_table(index=list(EVENT_COLUMNS), columns="half", values=outcome)
    return by_half[0].to_numpy(dtype=float), by_half[1].to_numpy(dtype=float)


class Concentration(NamedTuple):
    """Share of the harm of all compactions that the most harmful ones have."""

    share_of_events: float
    """Share of the compactions that are counted as the most harmful, from 0 to 1."""
    share_of_harm: float
    """Share of the total harm that they have in the repetitions by which they were not chosen; NaN without harm in total."""
    apparent_share: float
    """The same in the repetitions by which they were chosen, which noise makes too large."""


def measure_concentration(halves: tuple[Floats, Floats], share_of_events: float) -> Concentration:
    """Return how much of the harm the most harmful compactions have, which are chosen on the other half of the repetitions.

    Both directions are averaged. Compactions with equal harm are chosen in their order.

    Args:
        halves: Harm of each compaction in each half of the repetitions.
        share_of_events: Share of the compactions that are counted as the most harmful; at least one compaction is.
    """
    count = max(1, round(share_of_events * len(halves[0])))
    shares, apparent = [], []
    for chosen, measured in (halves, halves[::-1]):
        worst = np.argsort(-chosen, kind="stable")[:count]
        shares.append(measured[worst].sum() / measured.sum() if measured.sum() > 0 else np.nan)
        apparent.append(chosen[worst].sum() / chosen.sum() if chosen.sum() > 0 else np.nan)
    return Concentration(share_of_events, float(np.mean(shares)), float(np.mean(apparent)))


def measure_reliability(halves: tuple[Floats, Floats]) -> float:
    """Return the reliability of the mean harm over both halves, by the correction of Spearman and Brown; NaN without variance."""
    first, second = halves
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    correlation = float(np.corrcoef(first, second)[0, 1])
    return 2 * correlation / (1 + correlation) if correlation > -1 else float("nan")


class Explanation(NamedTuple):
    """Share of the variance of harm between compactions that a linear model explains on tasks that it has not seen."""

    held_out_r2: float
    """Share of the variance explained on held-out tasks, negative if the mean of the other tasks predicts better."""
    reliability: float
    """Reliability of the harm, the largest share that any model can be expected to explain."""

    @property
    def reliable_share(self) -> float:
        """Explained share of the reliable variance; NaN if the harm is not reliable at all."""
        return self.held_out_r2 / self.reliability if self.reliability > 0 else float("nan")


def explain_harm(harm: pd.DataFrame, outcome: Outcome, events: pd.DataFrame, predictors: Sequence[str]) -> Explanation:
    """Return how much of the harm of single compactions a linear model explains on held-out tasks.

    For each task, the model is fitted to the compactions of all other tasks. What it explains is measured against the mean of
    those other tasks, so that a model without any predictor explains 0.

    Args:
        harm: Harm of each compaction and repetition, as `compute_harm` returns it.
        outcome: Outcome whose harm is explained.
        events: Table with one row per compaction: `session`, `round`, `task` and the predictors.
        predictors: Names of the columns by which the harm is explained.

    Raises:
        UsageError: All compactions belong to one task, or there is only one repetition.
    """
    reliability = measure_reliability(split_halves(harm, outcome))
    means = harm.groupby(list(EVENT_COLUMNS), as_index=False)[outcome].mean()
    table = means.merge(events, on=list(EVENT_COLUMNS))
    if table["task"].nunique() < 2:
        raise UsageError("harm: held-out tasks need compactions of at least two tasks")
    values, errors, base_errors = table[outcome].to_numpy(dtype=float), [], []
    inputs = np.column_stack([np.ones(len(table)), table[list(predictors)].to_numpy(dtype=float)])
    for task in table["task"].unique():
        is_held_out = (table["task"] == task).to_numpy()
        weights = np.linalg.lstsq(inputs[~is_held_out], values[~is_held_out], rcond=None)[0]
        errors.append(values[is_held_out] - inputs[is_held_out] @ weights)
        base_errors.append(values[is_held_out] - values[~is_held_out].mean())
    total = float(np.sum(np.concatenate(base_errors) ** 2))
    return Explanation(1 - float(np.sum(np.concatenate(errors) ** 2)) / total if total else float("nan"), reliability)
