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

from harness.analysis.arms import add_total_cost, order_arms, select_valid
from harness.analysis.paired_estimates import PairedDifference, compute_paired_difference
from harness.analysis.statistics import Interval, PairedCounts, compute_newcombe_interval
from harness.analysis.tables import Tables, require_single_level
from harness.analysis.validity import pair_trials

ORACLE_KIND = "oracle"
"""Kind of the clairvoyant policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """One arm above the oracle at the same budget."""

    arm: str
    oracle_arm: str
    """The arm that it is held against."""
    has_same_budget: bool
    """Every pair had the same window and threshold."""
    counts: PairedCounts
    """a = the arm, b = the oracle."""
    failure_difference: float
    """Failure rate of the arm less that of the oracle, -1 to 1."""
    failure_difference_interval: Interval
    """95 %, Newcombe's method 10."""
    cost_difference_usd: PairedDifference
    """Agent and summarizer, per trial."""
    step_difference: PairedDifference

    @property
    def is_negative(self) -> bool:
        """The arm failed less, made fewer steps or cost less: the oracle is no bound of it."""
        return self.failure_difference < 0 or self.step_difference.mean < 0 or self.cost_difference_usd.mean < 0


def compute_regrets(results: Tables) -> list[Regret]:
    """Every arm against the oracle arm of its budget, in the order in which arms are shown; empty when there is no such arm.

    With oracles at several thresholds an arm is held against that of its own threshold; an arm that shares a budget with
    none of them, such as one without compaction, against the first with which it has a pair.

    Raises:
        UsageError: trials of several levels.
    """
    trials = select_valid(results.trials)
    oracle_arms = [arm for arm in order_arms(trials) if (trials.loc[trials["arm"] == arm, "policy"] == ORACLE_KIND).all()]
    if not oracle_arms:
        return []
    require_single_level(trials)
    return list(_compute_each_regret(add_total_cost(trials), oracle_arms))


def _compute_each_regret(trials: pd.DataFrame, oracle_arms: list[str]) -> Iterator[Regret]:
    for arm in order_arms(trials):
        if arm in oracle_arms:
            continue
        pairs_by_oracle = [(bound, pairs) for bound in oracle_arms if len(pairs := _pair_with_oracle(trials, arm, bound))]
        if pairs_by_oracle:
            bound, pairs = next((one for one in pairs_by_oracle if _has_same_budget(one[1])), pairs_by_oracle[0])
            yield _compute_regret(arm, bound, pairs)


def _pair_with_oracle(trials: pd.DataFrame, arm: str, oracle_arm: str) -> pd.DataFrame:
    columns = ("total_cost_usd", "steps", "window_tokens", "threshold_tokens")
    return pair_trials(trials[trials["arm"] == arm], trials[trials["arm"] == oracle_arm], columns)


def _has_same_budget(pairs: pd.DataFrame) -> bool:
    a, b = (
        [list(pairs[f"{name}_{side}"].astype("Float64").fillna(-1)) for name in ("window_tokens", "threshold_tokens")]
        for side in "ab"
    )
    return a == b


def _compute_regret(arm: str, oracle_arm: str, pairs: pd.DataFrame) -> Regret:
    counts = PairedCounts.from_outcomes(list(pairs["success_a"]), list(pairs["success_b"]))
    low, high = compute_newcombe_interval(counts)
    known = pairs.dropna(subset=["total_cost_usd_a", "total_cost_usd_b"])
    return Regret(
        arm=arm,
        oracle_arm=oracle_arm,
        has_same_budget=_has_same_budget(pairs),
        counts=counts,
        failure_difference=0.0 - counts.difference,
        failure_difference_interval=Interval(-high, -low),
        cost_difference_usd=compute_paired_difference(known, "total_cost_usd"),
        step_difference=compute_paired_difference(pairs, "steps"),
    )
