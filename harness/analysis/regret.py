"""Oracle regret: what an arm takes and loses beyond the clairvoyant policy, which knows what will be needed.

What lies above it a better choice of messages would have saved; there may be a better one still. For the policy is no tight
bound: it keeps whole messages and writes no summary, which may hold more in less; it takes them one by one, by when they are
needed next, which is not the best set; it fills its `keep_share` of the threshold, by default half, whatever an arm keeps; and
where what one step needs does not fit, it reads in circles (see `harness.compaction.presets.bounds.OracleRetention`). So regret
may be negative: an arm that fails early takes less, and a good summary may do better. Pairs share task, seed, window and
threshold. Only a simulation has such an arm. Source: RESEARCH 2.3 and 5.6.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from harness.analysis.arms import counting, in_order
from harness.analysis.paired_estimates import PairedDifference, paired_difference
from harness.analysis.statistics import Interval, PairedCounts, newcombe
from harness.analysis.tables import Tables, one_level
from harness.analysis.validity import pair

ORACLE = "oracle"
"""Kind of the clairvoyant policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """One arm above the oracle at the same budget."""

    arm: str
    oracle: str
    """The arm that it is held against."""
    same_budget: bool
    """Every pair had the same window and threshold."""
    counts: PairedCounts
    """a = the arm, b = the oracle."""
    failures: float
    """Failure rate of the arm less that of the oracle, -1 to 1."""
    failures_interval: Interval
    """95 %, Newcombe's method 10."""
    cost_usd: PairedDifference
    """Agent and summarizer, per trial."""
    steps: PairedDifference

    @property
    def negative(self) -> bool:
        """The arm failed less, made fewer steps or cost less: the oracle is no bound of it."""
        return self.failures < 0 or self.steps.mean < 0 or self.cost_usd.mean < 0


def regrets(results: Tables) -> list[Regret]:
    """Every arm against the oracle arm of its budget, in the order in which arms are shown; empty when there is no such arm.

    With oracles at several thresholds an arm is held against that of its own threshold; an arm that shares a budget with
    none of them, such as one without compaction, against the first with which it has a pair.

    Raises:
        UsageError: trials of several levels.
    """
    trials = counting(results.trials)
    bounds = [arm for arm in in_order(trials) if (trials.loc[trials["arm"] == arm, "policy"] == ORACLE).all()]
    if not bounds:
        return []
    one_level(trials)
    costs = trials[["cost_usd", "summarizer_cost_usd"]].astype(float)
    priced = trials.assign(total_cost_usd=costs["cost_usd"] + costs["summarizer_cost_usd"])
    return list(_each(priced, bounds))


def _each(trials: pd.DataFrame, bounds: list[str]) -> Iterator[Regret]:
    for arm in in_order(trials):
        if arm in bounds:
            continue
        found = [(bound, pairs) for bound in bounds if len(pairs := _pairs(trials, arm, bound))]
        if found:
            bound, pairs = next((one for one in found if _same_budget(one[1])), found[0])
            yield _regret(arm, bound, pairs)


def _pairs(trials: pd.DataFrame, arm: str, bound: str) -> pd.DataFrame:
    columns = ("total_cost_usd", "steps", "window_tokens", "threshold_tokens")
    return pair(trials[trials["arm"] == arm], trials[trials["arm"] == bound], columns)


def _same_budget(pairs: pd.DataFrame) -> bool:
    a, b = (
        [list(pairs[f"{name}_{side}"].astype("Float64").fillna(-1)) for name in ("window_tokens", "threshold_tokens")]
        for side in "ab"
    )
    return a == b


def _regret(arm: str, bound: str, pairs: pd.DataFrame) -> Regret:
    counts = PairedCounts.of(list(pairs["success_a"]), list(pairs["success_b"]))
    low, high = newcombe(counts)
    known = pairs.dropna(subset=["total_cost_usd_a", "total_cost_usd_b"])
    return Regret(
        arm=arm,
        oracle=bound,
        same_budget=_same_budget(pairs),
        counts=counts,
        failures=0.0 - counts.difference,
        failures_interval=Interval(-high, -low),
        cost_usd=paired_difference(known, "total_cost_usd"),
        steps=paired_difference(pairs, "steps"),
    )
