"""What compactions kept of the facts that were in view, kind by kind; kinds are never pooled.

Kept means that the newest value of a fact can still be read in the view by the task's patterns, as a scripted agent reads.
What cannot may stand there in other words all the same (retained in text). Whether it is used rightly later is another
question, since presence is not effect. Source: RESEARCH 2.6.
"""

import numpy as np
import pandas as pd
from scipy.stats import norm
from statsmodels.duration.survfunc import SurvfuncRight

from harness.analysis.arms import order_arms, select_valid
from harness.analysis.statistics import estimate_rate
from harness.analysis.tables import Tables

FACT_KINDS = (
    *("constraint", "goal", "decision", "artifact", "value"),
    *("error", "progress", "next-step", "preference", "superseded"),
)
"""In the order in which they are shown."""


def measure_retention(results: Tables) -> pd.DataFrame:
    """One row per arm and kind: arm, kind, and the Rates kept, unread, used_kept, used_lost.

    `kept`: of the facts in view before a compaction those in view after it;
    `unread`: values that still stand in the text, among those that cannot be read any more and are long enough to tell;
    `used_kept`: right uses among the next uses of facts that the compaction kept; `used_lost`: of those that it lost.
    """
    probes = _select_valid_probes(results)
    visible_probes = probes.loc[probes["seen_before"], ["arm", "kind", "seen_after", "stands_after", "used"]]
    groups = dict(iter(visible_probes.groupby(["arm", "kind"])))
    rows = [
        {
            "arm": arm,
            "kind": kind,
            "kept": estimate_rate(int(group["seen_after"].sum()), len(group)),
            "unread": _estimate_text_rate(group.loc[~group["seen_after"], "stands_after"]),
            "used_kept": _estimate_right_use(group["used"][group["seen_after"]]),
            "used_lost": _estimate_right_use(group["used"][~group["seen_after"]]),
        }
        for arm in order_arms(results.trials)
        for kind in FACT_KINDS
        if (group := groups.get((arm, kind))) is not None
    ]
    return pd.DataFrame(rows, columns=["arm", "kind", "kept", "unread", "used_kept", "used_lost"])


def _select_valid_probes(results: Tables) -> pd.DataFrame:
    return results.probes.merge(select_valid(results.trials)[["trial_id", "arm"]], on="trial_id")


def _estimate_text_rate(values: pd.Series) -> object:
    known = values.dropna()
    return estimate_rate(int(known.sum()), len(known))


def _estimate_right_use(uses: pd.Series) -> object:
    used = uses.dropna()
    return estimate_rate(int((used == "right").sum()), len(used))


def measure_lifetimes(probes: pd.DataFrame) -> pd.DataFrame:
    """One row per value of a fact in a session: how many compactions it outlived since it was told.

    Columns: trial_id, fact, kind, version, rounds (the compaction that lost it, or the last that it was seen at; counted from
    its telling, from 1), lost (False = censored: the session ended or a newer value was told).
    """
    keys = ["trial_id", "session_id", "fact", "version"]
    rows = probes.sort_values([*keys, "event"])
    rows = rows.assign(age=rows.groupby(keys).cumcount() + 1, lost=~rows["seen_after"])
    first_loss = rows[rows["lost"]].groupby(keys)["age"].min().rename("lost_at")
    ends = rows.groupby(keys).agg(kind=("kind", "first"), last=("age", "max")).join(first_loss).reset_index()
    lost = ends["lost_at"].notna()
    ends = ends.assign(rounds=ends["lost_at"].fillna(ends["last"]).astype(int), lost=lost)
    return ends[["trial_id", "fact", "kind", "version", "rounds", "lost"]]


def estimate_survival(lifetime_rows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Kaplan-Meier curve of values of one kind, from round 0 to the last at which one was seen.

    Columns: rounds, alive (0-1), low, high, at_risk, lost. The bounds are Greenwood's on the log(-log) scale. Facts of one
    session are lost together, so they are too narrow.

    Args:
        lifetime_rows: rows of `measure_lifetimes`, at least one.
        confidence: level of the bounds, for each round by itself.
    """
    estimate = SurvfuncRight(lifetime_rows["rounds"].to_numpy(), lifetime_rows["lost"].to_numpy().astype(int))
    alive, error = np.asarray(estimate.surv_prob, dtype=float), np.asarray(estimate.surv_prob_se, dtype=float)
    low, high = _compute_bounds(alive, error, float(norm.ppf(0.5 + confidence / 2)))
    whole = pd.DataFrame(
        {
            "rounds": np.append(0, estimate.surv_times).astype(int),
            "alive": np.append(1.0, alive),
            "low": np.append(1.0, low),
            "high": np.append(1.0, high),
            "at_risk": np.append(len(lifetime_rows), estimate.n_risk).astype(int),
            "lost": np.append(0, estimate.n_events).astype(int),
        }
    )
    last = int(lifetime_rows["rounds"].max())
    if last > whole["rounds"].iloc[-1]:
        end = whole.tail(1).assign(rounds=last, at_risk=int((lifetime_rows["rounds"] == last).sum()), lost=0)
        whole = pd.concat([whole, end], ignore_index=True)
    return whole


def _compute_bounds(alive: np.ndarray, error: np.ndarray, z: float) -> tuple[np.ndarray, np.ndarray]:
    """Nothing is known beyond the estimate where all or none survive."""
    inside = (alive > 0) & (alive < 1)
    safe = np.where(inside, alive, 0.5)
    spread = z * np.where(inside, error, 0.0) / (safe * np.abs(np.log(safe)))
    return np.where(inside, safe ** np.exp(spread), alive), np.where(inside, safe ** np.exp(-spread), alive)


def find_cliff_round(curve: pd.DataFrame) -> int | None:
    """The first round after which fewer than half are alive; None = never seen."""
    below = curve[curve["alive"] < 0.5]
    return None if below.empty else int(below["rounds"].iloc[0])
