"""Retention of facts: how many values that the model could see before a compaction are still visible after it, by kind of fact.

A fact is a value that the agent must remember. It counts as kept if the task's regular expressions find its newest value in the
view (the messages that the model sees). A value that they do not find may still be there in other words, and a fact in view is
not necessarily used correctly later. Kinds of facts are never pooled.
"""

import numpy as np
import pandas as pd
from scipy.stats import norm
from statsmodels.duration.survfunc import SurvfuncRight

from harness.analysis.arms import order_arms, select_valid
from harness.analysis.intervals import ALPHA
from harness.analysis.statistics import Rate, estimate_rate
from harness.analysis.tables import Tables

FACT_KINDS = (
    *("constraint", "goal", "decision", "artifact", "value"),
    *("error", "progress", "next-step", "preference", "superseded"),
)
"""Kinds of facts (values that the agent must remember), in the order in which reports and charts show them."""


def measure_retention(results: Tables) -> pd.DataFrame:
    """Return a table of how often facts are still visible to the model after a compaction, with one row per arm and kind of fact.

    The columns are `arm`, `kind` and four rates with intervals:

    - `kept`: share of the facts in view before a compaction that are in view after it.
    - `unread`: share of the lost values that still appear in the text in other words; only values long enough to be recognized.
    - `used_kept`: share of correct uses among the next uses of kept facts.
    - `used_lost`: share of correct uses among the next uses of lost facts.
    """
    probes = results.probes.merge(select_valid(results.trials)[["trial_id", "arm"]], on="trial_id")
    visible_probes = probes.loc[probes["seen_before"], ["arm", "kind", "seen_after", "stands_after", "used"]]
    groups = dict(iter(visible_probes.groupby(["arm", "kind"])))
    rows = [
        {
            "arm": arm,
            "kind": kind,
            "kept": _estimate_share(group["seen_after"]),
            "unread": _estimate_share(group.loc[~group["seen_after"], "stands_after"].dropna()),
            "used_kept": _estimate_share(group.loc[group["seen_after"], "used"].dropna() == "right"),
            "used_lost": _estimate_share(group.loc[~group["seen_after"], "used"].dropna() == "right"),
        }
        for arm in order_arms(results.trials)
        for kind in FACT_KINDS
        if (group := groups.get((arm, kind))) is not None
    ]
    return pd.DataFrame(rows, columns=["arm", "kind", "kept", "unread", "used_kept", "used_lost"])


def _estimate_share(flags: pd.Series) -> Rate:
    return estimate_rate(int(flags.sum()), len(flags))


def measure_lifetimes(probes: pd.DataFrame) -> pd.DataFrame:
    """Return a table of how many compactions each value of a fact stayed visible to the model: one row per session and value.

    Columns: `trial_id`, `fact`, `kind`, `version`, `rounds` (compaction that lost the value, or else the last compaction at which
    it was in view; counted from 1) and `lost` (False if censored: the session ended or a newer value was introduced).
    """
    keys = ["trial_id", "session_id", "fact", "version"]
    rows = probes.sort_values([*keys, "event"])
    rows = rows.assign(age=rows.groupby(keys).cumcount() + 1, lost=~rows["seen_after"])
    first_loss = rows[rows["lost"]].groupby(keys)["age"].min().rename("lost_at")
    ends = rows.groupby(keys).agg(kind=("kind", "first"), last=("age", "max")).join(first_loss).reset_index()
    lost = ends["lost_at"].notna()
    ends = ends.assign(rounds=ends["lost_at"].fillna(ends["last"]).astype(int), lost=lost)
    return ends[["trial_id", "fact", "kind", "version", "rounds", "lost"]]


def estimate_survival(lifetime_rows: pd.DataFrame) -> pd.DataFrame:
    """Return the Kaplan-Meier curve of how long values stay visible to the model, by round (number of compactions) from 0.

    Columns: `rounds`, `alive` (0 to 1), `low`, `high`, `at_risk`, `lost`. The bounds are pointwise 95 % bounds by Greenwood's
    formula on the log(-log) scale. They are too narrow, since facts of one session are lost together.

    Args:
        lifetime_rows: Rows about values of one kind of fact, as returned by `measure_lifetimes`; at least one.
    """
    estimate = SurvfuncRight(lifetime_rows["rounds"].to_numpy(), lifetime_rows["lost"].to_numpy().astype(int))
    alive, error = np.asarray(estimate.surv_prob, dtype=float), np.asarray(estimate.surv_prob_se, dtype=float)
    low, high = _compute_bounds(alive, error, float(norm.ppf(1 - ALPHA / 2)))
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
    """Return the lower and upper 95 % bounds of a survival curve; where the curve is 1 or 0, both bounds equal the curve."""
    inside = (alive > 0) & (alive < 1)
    safe = np.where(inside, alive, 0.5)
    spread = z * np.where(inside, error, 0.0) / (safe * np.abs(np.log(safe)))
    return np.where(inside, safe ** np.exp(spread), alive), np.where(inside, safe ** np.exp(-spread), alive)


def find_cliff_round(curve: pd.DataFrame) -> int | None:
    """Return the first round (number of compactions) after which fewer than half of the values are visible, or None."""
    below = curve[curve["alive"] < 0.5]
    return None if below.empty else int(below["rounds"].iloc[0])
