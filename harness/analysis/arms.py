"""Trials gathered by arm: which of them count, in which order arms are shown, and one row of numbers for each arm.

A trial that the machinery lost says nothing about its arm. Such trials are set aside before anything is compared, by the
reason alone, and are counted where everyone sees them.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.statistics import Rate, wilson
from harness.analysis.tables import Tables, one_level, select
from harness.errors import UnknownName
from harness.store.records import NO_FAULT_OF_THE_ARM

EARLIER_PLAN = " (earlier plan "
"""In the names of arms that stand in the journal and not in the plan any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Where the values of one arm lie, without pretending that they are normal."""

    mean: float
    median: float
    low: float
    """The least value."""
    high: float
    """The greatest value."""
    total: float

    @classmethod
    def of(cls, values: pd.Series) -> "Spread":
        """The spread of a column; unknown values are left out, and all are NaN when none is known."""
        known = pd.to_numeric(values).astype(float).dropna()
        return cls(
            mean=float(known.mean()),
            median=float(known.median()),
            low=float(known.min()),
            high=float(known.max()),
            total=float(known.sum(min_count=1)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSummary:
    """What one arm came to."""

    arm: str
    level: str
    success: Rate
    score: Spread
    """Share of checks passed, 0–1."""
    exposure: Rate
    """Trials with at least one applied compaction: the share that had anything done to it."""
    rounds: Spread
    """Applied compactions per trial."""
    steps: Spread
    prompt_tokens: Spread
    """Tokens of all prompts of the agent, per trial, by the provider's count."""
    cost_usd: Spread
    """Of the agent, per trial."""
    summarizer_cost_usd: Spread
    untreated: int
    """Trials that were due a compaction and did not get all of them."""
    never_fired: int
    """Trials in which the policy was never due, though it has rules."""
    no_effect: int
    """Trials in which it was due and never changed the view."""
    never_asked: int
    """Trials in which it changed the view and never asked for the summary that it could ask for."""
    at_step_limit: int
    overflowed: int
    set_aside: int
    """Trials that do not count; in none of the numbers above."""


def counting(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that count, in the order given."""
    return trials[~_lost(trials)]


def set_aside(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that do not count, in the order given."""
    return trials[_lost(trials)]


def of_today(results: Tables) -> Tables:
    """Without the trials of earlier plans: their conditions were others, though axes and policies may be the same.

    Everything where nothing of today's plan is there.
    """
    earlier = results.trials["arm"].str.contains(EARLIER_PLAN, regex=False)
    return select(results, results.trials[~earlier]) if earlier.any() and not earlier.all() else results


def _lost(trials: pd.DataFrame) -> pd.Series:
    return (trials["status"] == "crashed") | trials["reason"].isin(NO_FAULT_OF_THE_ARM)


def axes_of(trials: pd.DataFrame) -> pd.DataFrame:
    """One row per trial and axis: trial_id, axis (dotted path), value; task and seed, which pair trials, are left out."""
    rows = [
        {"trial_id": trial_id, "axis": axis, "value": value}
        for trial_id, text in zip(trials["trial_id"], trials["axes_json"], strict=True)
        for axis, value in json.loads(text or "{}").items()
        if axis not in {"task", "seed", "replicate"} and value is not None
    ]
    return pd.DataFrame(rows, columns=["trial_id", "axis", "value"]).astype({"value": object})


def policy_field(trials: pd.DataFrame, field: str) -> pd.Series:
    """A field of each trial's policy; None where the policy has no such field."""
    read = {text: json.loads(text or "{}") for text in trials["policy_json"].unique()}
    values: list[Any] = [read[text].get(field) for text in trials["policy_json"]]
    return pd.Series(values, index=trials.index, dtype=object)


def field_as_told(trials: pd.DataFrame, field: str) -> pd.Series:
    """The same, but where an axis tells it the value of that axis: `q0.9`, where the policy has the number of tokens."""
    axes = [json.loads(text or "{}") for text in trials["axes_json"]]
    wholes = [whole if isinstance(whole := one.get("policy"), dict) else {} for one in axes]
    told = [one.get(f"policy.{field}", whole.get(field)) for one, whole in zip(axes, wholes, strict=True)]
    values = [own if one is None else one for one, own in zip(told, policy_field(trials, field), strict=True)]
    return pd.Series(values, index=trials.index, dtype=object)


def in_order(trials: pd.DataFrame) -> list[str]:
    """Names of the arms: controls without compaction first, then grid arms by their axes, then arms beside the grid.

    Those of an earlier plan come last.
    """
    first = trials.drop_duplicates("arm")
    keys = {
        arm: (
            EARLIER_PLAN in arm,
            policy != "none",
            replicate > 0,
            [sortable(v) for v in json.loads(axes or "{}").values()],
            arm,
        )
        for arm, policy, replicate, axes in zip(
            first["arm"], first["policy"], first["replicate"], first["axes_json"], strict=True
        )
    }
    return sorted(keys, key=lambda arm: keys[arm])


def sortable(value: object) -> tuple[int, float, str]:
    """A key by which values of an axis are put in order: numbers first, then what is left by its words."""
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return (0, float(value), "")
    return (1, 0.0, str(value))


def summarize(results: Tables) -> list[ArmSummary]:
    """One summary per arm, in the order in which arms are shown.

    Raises:
        UsageError: no trials, or trials of several levels.
    """
    level = one_level(results.trials)
    return [_summary(arm, level, results.trials[results.trials["arm"] == arm]) for arm in in_order(results.trials)]


def _summary(arm: str, level: str, trials: pd.DataFrame) -> ArmSummary:
    valid = counting(trials)
    return ArmSummary(
        arm=arm,
        level=level,
        success=success(valid),
        score=Spread.of(valid["score"]),
        exposure=exposure(valid),
        rounds=Spread.of(valid["compactions"]),
        steps=Spread.of(valid["steps"]),
        prompt_tokens=Spread.of(valid["prompt_tokens"]),
        cost_usd=Spread.of(valid["cost_usd"]),
        summarizer_cost_usd=Spread.of(valid["summarizer_cost_usd"]),
        untreated=int((valid["treatment"] != "as planned").sum()),
        never_fired=int((valid["activity"] == "never fired").sum()),
        no_effect=int((valid["activity"] == "no effect").sum()),
        never_asked=int((valid["activity"] == "summarizer never asked").sum()),
        at_step_limit=int((valid["reason"] == "max_steps").sum()),
        overflowed=int((valid["reason"] == "overflow").sum()),
        set_aside=len(trials) - len(valid),
    )


def success(trials: pd.DataFrame) -> Rate:
    """Trials whose every check passed."""
    return wilson(int(trials["success"].astype(bool).sum()), len(trials))


def exposure(trials: pd.DataFrame) -> Rate:
    """Trials with at least one applied compaction."""
    return wilson(int((trials["compactions"] > 0).sum()), len(trials))


def by_axis(trials: pd.DataFrame) -> pd.DataFrame:
    """One row per axis and value, over everything else and without repeats.

    Columns: axis, value, trials, success (Rate), rounds and prompt_tokens (Spread).

    Trials of one task and seed stand in many rows of a grid and resemble each other, so these intervals are too narrow.
    """
    valid = counting(trials).query("replicate == 0")
    long = axes_of(valid).merge(valid, on="trial_id")
    rows = [
        {
            "axis": axis,
            "value": group["value"].iloc[0],
            "trials": len(group),
            "success": success(group),
            "rounds": Spread.of(group["compactions"]),
            "prompt_tokens": Spread.of(group["prompt_tokens"]),
        }
        for axis, values in long.groupby("axis", sort=True)
        if values["value"].map(str).nunique() > 1
        for group in sorted((group for _, group in values.groupby(values["value"].map(str))), key=_first_value)
    ]
    return pd.DataFrame(rows, columns=["axis", "value", "trials", "success", "rounds", "prompt_tokens"])


def _first_value(group: pd.DataFrame) -> tuple[int, float, str]:
    return sortable(group["value"].iloc[0])


def of_arm(trials: pd.DataFrame, arm: str) -> pd.DataFrame:
    """The trials of one arm.

    Raises:
        UnknownName: no trial of that arm; the nearest names are offered.
    """
    chosen = trials[trials["arm"] == arm]
    if chosen.empty:
        raise UnknownName("arm", arm, [str(name) for name in trials["arm"].unique()])
    return chosen
