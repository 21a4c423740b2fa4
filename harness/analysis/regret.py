"""Oracle regret: excess failures and cost of an arm compared with the oracle, a policy that knows the future.

Regret shows how much could be saved if a policy chose better which messages to retain. The arm and the oracle are compared on
trials with the same task, seed, context window and threshold. Only simulated sessions, whose future is known, can have an oracle.
The oracle is not the best possible policy, so regret may be negative:

- the oracle keeps whole messages and writes no summary, which may hold more in fewer tokens;
- the oracle chooses messages one by one, by the next step that needs them, which is not always the best set;
- the oracle fills a fixed share of the threshold (`keep_share`, by default half), however much the other arm keeps;
- if one step needs more than the oracle may keep, the agent reads the same content again and again;
- an arm that fails early makes fewer steps and costs less.

See `harness.compaction.presets.bounds.OracleRetention`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from harness.analysis.arms import add_total_cost, order_arms, select_current, select_valid
from harness.analysis.effects import Effect, estimate_effect
from harness.analysis.statistics import PairedCounts
from harness.analysis.tables import Tables, iterate_parts, require_single_level
from harness.analysis.trajectories import CHECK_COLUMNS, add_trajectories, list_verdicts
from harness.analysis.validity import pair_trials

ORACLE_KIND = "oracle"
"""Value of the column `policy` for the oracle, a policy with access to the future of the simulation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """Differences in failures, steps and cost between an arm and the oracle, a policy that knows what comes later."""

    arm: str
    oracle_arm: str
    """Name of the oracle arm with which this arm is compared."""
    has_same_budget: bool
    """Whether in every pair of trials the arm and the oracle had the same context window and the same compaction threshold."""
    counts: PairedCounts
    """Number of pairs of trials in which both, only one or neither succeeded; `a` is the arm and `b` the oracle."""
    success: Effect
    """Effect on success: success rate of the arm minus that of the oracle; below 0 if the oracle failed less often."""
    cost_usd: Effect
    """Mean cost of a trial of the arm minus that of the oracle, in US dollars; covers agent, summarizer and sub-agents."""
    steps: Effect

    @property
    def is_negative(self) -> bool:
        """Whether the arm failed less often, made fewer steps or cost less than the oracle."""
        return self.success.value > 0 or self.steps.value < 0 or self.cost_usd.value < 0


def compute_regrets(results: Tables) -> list[Regret]:
    """Return how much more each arm failed and cost than the oracle, a policy that knows the simulation's future.

    If several arms have the oracle policy, an arm is compared with the one that has the same context window and threshold. If
    there is none, as for an arm without compaction, it is compared with the first one that ran on one of its tasks and seeds. The
    result is empty if no arm has the oracle policy.

    Raises:
        UsageError: The trials have several fidelity levels.
    """
    trials = select_valid(select_current(results.trials))
    oracle_arms = [arm for arm in order_arms(trials) if (trials.loc[trials["arm"] == arm, "policy"] == ORACLE_KIND).all()]
    if not oracle_arms:
        return []
    require_single_level(trials)
    trials = add_total_cost(trials)
    trials = trials.assign(verdicts=list_verdicts(trials, iterate_parts(results, "checks", CHECK_COLUMNS)))
    return list(_compute_each_regret(trials, oracle_arms))


def _compute_each_regret(trials: pd.DataFrame, oracle_arms: list[str]) -> Iterator[Regret]:
    for arm in order_arms(trials):
        if arm in oracle_arms:
            continue
        pairs_by_oracle = {oracle: pairs for oracle in oracle_arms if len(pairs := _pair_with_oracle(trials, arm, oracle))}
        if pairs_by_oracle:
            suitable = (oracle for oracle, pairs in pairs_by_oracle.items() if _has_same_budget(pairs))
            oracle_arm = next(suitable, next(iter(pairs_by_oracle)))
            yield _compute_regret(arm, oracle_arm, pairs_by_oracle[oracle_arm])


def _pair_with_oracle(trials: pd.DataFrame, arm: str, oracle_arm: str) -> pd.DataFrame:
    columns = ("score", "trajectory", "verdicts", "total_cost_usd", "steps", "window_tokens", "threshold_tokens")
    return add_trajectories(pair_trials(trials[trials["arm"] == arm], trials[trials["arm"] == oracle_arm], columns))


def _has_same_budget(pairs: pd.DataFrame) -> bool:
    a, b = (
        [list(pairs[f"{name}_{side}"].astype("Float64").fillna(-1)) for name in ("window_tokens", "threshold_tokens")]
        for side in "ab"
    )
    return a == b


def _compute_regret(arm: str, oracle_arm: str, pairs: pd.DataFrame) -> Regret:
    return Regret(
        arm=arm,
        oracle_arm=oracle_arm,
        has_same_budget=_has_same_budget(pairs),
        counts=PairedCounts.from_outcomes(list(pairs["success_a"]), list(pairs["success_b"])),
        success=estimate_effect(pairs, "success"),
        cost_usd=estimate_effect(pairs, "total_cost_usd", scale="difference"),
        steps=estimate_effect(pairs, "steps", scale="difference"),
    )
