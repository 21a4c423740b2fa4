"""Retention of facts: how many values that the model saw before a compaction are still visible after it, by kind of fact.

A fact is a value that the agent must remember. It counts as kept if the task's regular expressions find its newest value in the
view. A value that they do not find may still be there in other words, and a visible fact is not necessarily used correctly later.
Kinds of facts are never pooled.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from harness.analysis.arms import order_arms, select_valid
from harness.analysis.estimands import choose_estimand
from harness.analysis.estimation import compute_mean_bounds
from harness.analysis.intervals import ALPHA
from harness.analysis.statistics import Rate, estimate_rate
from harness.analysis.tables import Tables, iterate_parts
from harness.analysis.trajectories import average_units

FACT_KINDS = (
    *("constraint", "goal", "decision", "artifact", "value"),
    *("error", "progress", "next-step", "preference", "superseded"),
)
"""Kinds of facts, in the order in which reports and charts show them."""


_UNIT_COLUMNS = ("task", "seed", "replicate")
"""Columns of the trials table that tell apart the units over which shares are averaged."""


def measure_retention(results: Tables) -> pd.DataFrame:
    """Return how often facts are still visible to the model after a compaction.

    The result has one row per arm and kind of fact. Its columns are `arm`, `kind` and five rates with intervals:

    - `kept`: Share of the facts visible before a compaction that are visible after it: counts of all facts, and the mean over
      tasks of the shares of their trials, since facts of one session are lost together.
    - `summarized`: Of the facts that only a summary could keep, the share that it kept. These are the facts visible before a
      compaction that called a summarizer and, after it, in no kept message. Counts and mean as in `kept`.
    - `unread`: Share of the lost values that still appear in the text in other words; only values long enough to be recognized.
    - `used_kept`: Share of correct uses among the next uses of kept facts.
    - `used_lost`: Share of correct uses among the next uses of lost facts.

    Args:
        results: Tables of results of one experiment.
    """
    valid = select_valid(results.trials)[["trial_id", "arm", *_UNIT_COLUMNS]]
    tallies = _tally_probes(valid, iterate_parts(results, "probes", _PROBE_COLUMNS))
    units = _Units(*(valid[name].to_numpy() for name in _UNIT_COLUMNS))
    rows = [
        {
            "arm": arm,
            "kind": kind,
            "kept": _estimate_kept_share(units, tally.all_facts),
            "summarized": _estimate_kept_share(units, tally.summarized_facts),
            **{name: estimate_rate(*tally.counts[name]) for name in _COUNTED},
        }
        for arm in order_arms(results.trials)
        for kind in FACT_KINDS
        if (tally := tallies.get((arm, kind))) is not None
    ]
    return pd.DataFrame(rows, columns=["arm", "kind", "kept", "summarized", *_COUNTED])


_PROBE_COLUMNS = ("trial_id", "kind", "seen_before", "seen_after", "seen_in_kept", "stands_after", "used")
_COUNTED = ("unread", "used_kept", "used_lost")
"""Rates of which only the counts of all facts are known, without those of each trial."""


class _Units(NamedTuple):
    """Task, seed and replicate of each trial."""

    tasks: np.ndarray
    seeds: np.ndarray
    replicates: np.ndarray


class _TrialCounts(NamedTuple):
    """Numbers of facts in view before the compactions of each of some trials, and how many of them were kept."""

    places: np.ndarray
    """Indices of the trials."""
    facts: np.ndarray
    kept: np.ndarray


class _Tally:
    """Counts of the facts of one arm and kind, which are added up over parts of the table of probes."""

    def __init__(self) -> None:
        self.all_facts: list[_TrialCounts] = []
        self.summarized_facts: list[_TrialCounts] = []
        self.counts = dict.fromkeys(_COUNTED, (0, 0))
        """Numbers of counted and of all facts of each rate in `_COUNTED`."""

    def add(self, name: str, flags: np.ndarray) -> None:
        """Count the facts of a rate, each with a flag that says whether the fact counts."""
        counted, total = self.counts[name]
        self.counts[name] = counted + int(flags.sum()), total + len(flags)


def _tally_probes(valid: pd.DataFrame, parts: Iterable[pd.DataFrame]) -> dict[tuple[str, str], _Tally]:
    """Count kept and lost facts by arm and kind.

    Args:
        valid: Valid trials with the columns `trial_id` and `arm`.
        parts: Parts of the table of probes with the columns `_PROBE_COLUMNS`, each with all rows of the trials in it.
    """
    tallies: dict[tuple[str, str], _Tally] = defaultdict(_Tally)
    arms = valid[["trial_id", "arm"]].assign(place=np.arange(len(valid), dtype=np.int32))
    for probes in parts:
        visible = probes.loc[probes["seen_before"], list(_PROBE_COLUMNS)].merge(arms, on="trial_id")
        is_kept, only_in_summary, stands, is_right = (
            visible[name].eq(value).to_numpy(dtype=bool, na_value=False)
            for name, value in (("seen_after", True), ("seen_in_kept", False), ("stands_after", True), ("used", "right"))
        )
        can_stand, is_used = (visible[name].notna().to_numpy() for name in ("stands_after", "used"))
        trials = visible["place"].to_numpy()
        for key, rows in visible.groupby(["arm", "kind"]).indices.items():
            tally, kept = tallies[key], is_kept[rows]
            tally.all_facts.append(_count_by_trial(trials[rows], kept))
            in_summary = only_in_summary[rows]
            tally.summarized_facts.append(_count_by_trial(trials[rows][in_summary], kept[in_summary]))
            tally.add("unread", stands[rows][~kept & can_stand[rows]])
            tally.add("used_kept", is_right[rows][kept & is_used[rows]])
            tally.add("used_lost", is_right[rows][~kept & is_used[rows]])
    return tallies


def _count_by_trial(trials: np.ndarray, is_kept: np.ndarray) -> _TrialCounts:
    """Return the counts of each trial, in the order in which the trials occur.

    Args:
        trials: Index of the trial of each fact.
        is_kept: Whether each fact was kept.
    """
    codes, places = pd.factorize(trials)
    return _TrialCounts(places, np.bincount(codes).astype(np.int32), np.bincount(codes, is_kept).astype(np.int32))


def _estimate_kept_share(units: _Units, counts: Sequence[_TrialCounts]) -> Rate:
    """Return the numbers of kept and of all facts of one arm and kind, and the mean of the shares of trials with its interval.

    Args:
        units: Task, seed and replicate of each trial.
        counts: Counts of facts of the trials; each trial occurs once.
    """
    places, facts, kept = (np.concatenate(parts) for parts in zip(*counts, strict=True))
    if not len(places):
        return estimate_rate(0, 0)
    tasks, seeds, replicates = (values[places] for values in units)
    shares = kept / facts
    averaged = average_units(shares, tasks.tolist(), seeds, lambda runs: replicates[runs].tolist())
    bounds = compute_mean_bounds("bounded", averaged, choose_estimand(len(averaged)))
    return Rate(
        successes=int(kept.sum()),
        trials=int(facts.sum()),
        share=float(bounds.value),
        low=float(bounds.low),
        high=float(bounds.high),
    )


def measure_lifetimes(probes: pd.DataFrame) -> pd.DataFrame:
    """Return for how many compactions each value of a fact stayed visible to the model.

    The result has one row per session and value:

    - `trial_id`, `fact`, `kind` and `version`: Session, and value of the fact.
    - `rounds`: Compaction that lost the value, or else the last one before which it was visible; counted from 1 for each value.
    - `lost`: Whether the value was lost; False if the session ended or a newer value was introduced before (censored).
    """
    keys = ["trial_id", "session_id", "fact", "version"]
    rows = probes.sort_values([*keys, "event"])
    rows = rows.assign(age=rows.groupby(keys).cumcount() + 1, lost=~rows["seen_after"])
    first_loss = rows[rows["lost"]].groupby(keys)["age"].min().rename("lost_at")
    ends = rows.groupby(keys).agg(kind=("kind", "first"), last=("age", "max")).join(first_loss).reset_index()
    lost = ends["lost_at"].notna()
    ends = ends.assign(rounds=ends["lost_at"].fillna(ends["last"]).astype(int), lost=lost)
    return ends[["trial_id", "fact", "kind", "version", "rounds", "lost"]]


def estimate_survival(lifetime_rows: pd.DataFrame, shown_rounds: Sequence[int] = ()) -> pd.DataFrame:
    """Return the Kaplan-Meier curve of how many compactions (rounds) values stay visible to the model.

    The columns are `rounds` (from 0), `alive` (0 to 1), `low`, `high`, `at_risk`, `lost` and `sessions_at_risk`.

    Facts of one session are lost together, so the session is the unit: the bounds are pointwise 95 % bounds on the log(-log)
    scale, with the sandwich estimator of the variance. Where no value or every value was lost, the open bound is that of Clopper
    and Pearson for sessions. With a single session, bounds other than 0 and 1 are NaN.

    Args:
        lifetime_rows: Rows about values of one kind of fact, as returned by `measure_lifetimes`; at least one.
        shown_rounds: Compactions at which the curve has a point though it does not fall there, up to its end.
    """
    rounds = lifetime_rows["rounds"].to_numpy(dtype=int)
    times, losses = np.unique(rounds[lifetime_rows["lost"].to_numpy(dtype=bool)], return_counts=True)
    lost, at_risk = losses.astype(float), (rounds[:, None] >= times).sum(axis=0).astype(float)
    alive = np.cumprod(1 - lost / at_risk)
    last = int(lifetime_rows["rounds"].max())
    whole_times = np.unique([*times, last, *(shown for shown in shown_rounds if shown <= last)])
    session_ends = lifetime_rows.groupby("trial_id")["rounds"].max().to_numpy()
    sessions = (session_ends[:, None] >= whole_times).sum(axis=0)
    error = _compute_clustered_error(lifetime_rows, times, at_risk, lost)
    places = np.searchsorted(times, whole_times, side="right")  # number of falls up to each point
    alive, error = np.append(1.0, alive)[places], np.append(0.0, error)[places]
    falls = np.isin(whole_times, times)
    at_risk = np.array([(rounds >= time).sum() for time in whole_times])
    lost = np.where(falls, np.append(0.0, lost)[places], 0)
    session_count = len(session_ends)
    low, high = _compute_bounds(alive, error, sessions, session_count)
    return pd.DataFrame(
        {
            "rounds": np.append(0, whole_times),
            "alive": np.append(1.0, alive),
            "low": np.append(1.0, low),
            "high": np.append(1.0, high),
            "at_risk": np.append(len(lifetime_rows), at_risk).astype(int),
            "lost": np.append(0, lost).astype(int),
            "sessions_at_risk": np.append(session_count, sessions),
        }
    )


def _compute_clustered_error(lifetime_rows: pd.DataFrame, times: np.ndarray, at_risk: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Return the standard error of the logarithm of a survival curve at each time, with the session as the unit.

    Each value contributes its loss minus the expected loss at each time. Contributions are summed per session and squared. If
    every session had one value, the result would be Greenwood's, up to the factor of a sample variance.
    """
    rounds, is_lost = lifetime_rows["rounds"].to_numpy(), lifetime_rows["lost"].to_numpy().astype(bool)
    codes, names = pd.factorize(lifetime_rows["trial_id"])
    remaining = np.where(at_risk > lost, at_risk - lost, np.nan)
    excess = (rounds[:, None] == times) * is_lost[:, None] - (rounds[:, None] >= times) * (lost / at_risk)
    by_session = np.zeros((len(names), len(times)))
    np.add.at(by_session, codes, np.cumsum(excess / remaining, axis=1))
    count = len(names)
    factor = count / (count - 1) if count > 1 else np.nan
    return np.asarray(np.sqrt(factor * (by_session**2).sum(axis=0)), dtype=float)


def _compute_bounds(
    alive: np.ndarray, error: np.ndarray, sessions_at_risk: np.ndarray, session_count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper 95 % bounds of a survival curve.

    Args:
        alive: Values of the curve.
        error: Standard errors of the logarithm of the curve.
        sessions_at_risk: Number of sessions whose values can still be lost.
        session_count: Number of sessions.
    """
    inside = (alive > 0) & (alive < 1)
    safe = np.where(inside, alive, 0.5)
    quantile = float(stdtrit(session_count - 1, 1 - ALPHA / 2)) if session_count > 1 else np.nan
    spread = quantile * np.where(inside, error, 0.0) / np.abs(np.log(safe))
    low, high = safe ** np.exp(spread), safe ** np.exp(-spread)
    all_kept = (ALPHA / 2) ** (1 / np.maximum(sessions_at_risk, 1))
    none_kept = 1 - (ALPHA / 2) ** (1 / max(session_count, 1))
    return (
        np.where(inside, low, np.where(alive >= 1, all_kept, 0.0)),
        np.where(inside, high, np.where(alive >= 1, 1.0, none_kept)),
    )


def find_cliff_round(curve: pd.DataFrame) -> int | None:
    """Return the first compaction after which fewer than half of the values are visible, or None."""
    below = curve[curve["alive"] < 0.5]
    return None if below.empty else int(below["rounds"].iloc[0])
