"""Trials gathered by arm: which of them count, in which order arms are shown, and one row of numbers for each arm.

A trial that the machinery lost says nothing about its arm. Such trials are set aside before anything is compared, by the
reason alone, and are counted where everyone sees them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.formatting import format_short_number
from harness.analysis.statistics import Rate, estimate_rate
from harness.analysis.tables import Tables, require_single_level, select
from harness.errors import UnknownName, UsageError
from harness.experiment.paths import flatten
from harness.store.records import EXTERNAL_FAILURE_REASONS

MAX_NAMES_SHOWN = 8
"""Arms that a message lists."""
EARLIER_PLAN_MARKER = " (earlier plan "
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

    def __str__(self) -> str:
        if isnan(self.median):
            return "–"
        number = format_short_number if self.high >= 1000 else "{:g}".format
        return f"{number(self.median)} [{number(self.low)}–{number(self.high)}]"

    @classmethod
    def from_values(cls, values: pd.Series) -> "Spread":
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
    untreated_trials: int
    """Trials that were due a compaction and did not get all of them."""
    never_fired: int
    """Trials in which the policy was never due, though it has rules."""
    no_effect: int
    """Trials in which it was due and never changed the view."""
    never_asked: int
    """Trials in which it changed the view and never asked for the summary that it could ask for."""
    step_limit_trials: int
    overflow_trials: int
    excluded_trials: int
    """Trials that do not count; in none of the numbers above."""


def add_total_cost(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with `total_cost_usd`: the cost of agent and summarizer, NaN where either is not known."""
    costs = trials[["cost_usd", "summarizer_cost_usd"]].astype(float)
    return trials.assign(total_cost_usd=costs["cost_usd"] + costs["summarizer_cost_usd"])


def select_valid(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that count, in the order given."""
    return trials[~_is_excluded(trials)]


def select_excluded(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that do not count, in the order given."""
    return trials[_is_excluded(trials)]


def drop_earlier_plans(results: Tables) -> Tables:
    """Without the trials of earlier plans: their conditions were others, though axes and policies may be the same.

    Everything where nothing of today's plan is there.
    """
    earlier = results.trials["arm"].str.contains(EARLIER_PLAN_MARKER, regex=False)
    return select(results, results.trials[~earlier]) if earlier.any() and not earlier.all() else results


def _is_excluded(trials: pd.DataFrame) -> pd.Series:
    return (trials["status"] == "crashed") | trials["reason"].isin(EXTERNAL_FAILURE_REASONS)


def tabulate_axes(trials: pd.DataFrame) -> pd.DataFrame:
    """One row per trial and axis: trial_id, axis (dotted path), value; task and seed, which pair trials, are left out."""
    rows = [
        {"trial_id": trial_id, "axis": axis, "value": value}
        for trial_id, text in zip(trials["trial_id"], trials["axes_json"], strict=True)
        for axis, value in json.loads(text or "{}").items()
        if axis not in {"task", "seed", "replicate"} and value is not None
    ]
    return pd.DataFrame(rows, columns=["trial_id", "axis", "value"]).astype({"value": object})


def read_policy_field(trials: pd.DataFrame, field: str) -> pd.Series:
    """A field of each trial's policy; None where the policy has no such field."""
    policies = {text: json.loads(text or "{}") for text in trials["policy_json"].unique()}
    values: list[Any] = [policies[text].get(field) for text in trials["policy_json"]]
    return pd.Series(values, index=trials.index, dtype=object)


def read_specified_field(trials: pd.DataFrame, field: str) -> pd.Series:
    """The same, but where an axis tells it the value of that axis: `q0.9`, where the policy has the number of tokens."""
    axes = [json.loads(text or "{}") for text in trials["axes_json"]]
    wholes = [whole if isinstance(whole := one.get("policy"), dict) else {} for one in axes]
    specified_values = [one.get(f"policy.{field}", whole.get(field)) for one, whole in zip(axes, wholes, strict=True)]
    values = [own if one is None else one for one, own in zip(specified_values, read_policy_field(trials, field), strict=True)]
    return pd.Series(values, index=trials.index, dtype=object)


def order_arms(trials: pd.DataFrame) -> list[str]:
    """Names of the arms: controls without compaction first, then grid arms by their axes, then arms beside the grid.

    Those of an earlier plan come last.
    """
    first = trials.drop_duplicates("arm")
    keys = {
        arm: (
            EARLIER_PLAN_MARKER in arm,
            policy != "none",
            replicate > 0,
            [build_sort_key(v) for v in json.loads(axes or "{}").values()],
            arm,
        )
        for arm, policy, replicate, axes in zip(
            first["arm"], first["policy"], first["replicate"], first["axes_json"], strict=True
        )
    }
    return sorted(keys, key=lambda arm: keys[arm])


def build_sort_key(value: object) -> tuple[int, float, str]:
    """A key by which values of an axis are put in order: numbers first, then what is left by its words."""
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return (0, float(value), "")
    return (1, 0.0, str(value))


def summarize_arms(results: Tables) -> list[ArmSummary]:
    """One summary per arm, in the order in which arms are shown.

    Raises:
        UsageError: no trials, or trials of several levels.
    """
    level = require_single_level(results.trials)
    return [_summarize_arm(arm, level, results.trials[results.trials["arm"] == arm]) for arm in order_arms(results.trials)]


def _summarize_arm(arm: str, level: str, trials: pd.DataFrame) -> ArmSummary:
    valid = select_valid(trials)
    return ArmSummary(
        arm=arm,
        level=level,
        success=estimate_success(valid),
        score=Spread.from_values(valid["score"]),
        exposure=estimate_exposure(valid),
        rounds=Spread.from_values(valid["compactions"]),
        steps=Spread.from_values(valid["steps"]),
        prompt_tokens=Spread.from_values(valid["prompt_tokens"]),
        cost_usd=Spread.from_values(valid["cost_usd"]),
        summarizer_cost_usd=Spread.from_values(valid["summarizer_cost_usd"]),
        untreated_trials=int((valid["treatment"] != "as planned").sum()),
        never_fired=int((valid["activity"] == "never fired").sum()),
        no_effect=int((valid["activity"] == "no effect").sum()),
        never_asked=int((valid["activity"] == "summarizer never asked").sum()),
        step_limit_trials=int((valid["reason"] == "max_steps").sum()),
        overflow_trials=int((valid["reason"] == "overflow").sum()),
        excluded_trials=len(trials) - len(valid),
    )


def estimate_success(trials: pd.DataFrame) -> Rate:
    """Trials whose every check passed."""
    return estimate_rate(int(trials["success"].astype(bool).sum()), len(trials))


def estimate_exposure(trials: pd.DataFrame) -> Rate:
    """Trials with at least one applied compaction."""
    return estimate_rate(int((trials["compactions"] > 0).sum()), len(trials))


def summarize_axes(trials: pd.DataFrame) -> pd.DataFrame:
    """One row per axis and value, over everything else and without repeats.

    Columns: axis, value, trials, success (Rate), rounds and prompt_tokens (Spread).

    Trials of one task and seed stand in many rows of a grid and resemble each other, so these intervals are too narrow.
    """
    valid = select_valid(trials).query("replicate == 0")
    long = tabulate_axes(valid).merge(valid, on="trial_id")
    rows = [
        {
            "axis": axis,
            "value": group["value"].iloc[0],
            "trials": len(group),
            "success": estimate_success(group),
            "rounds": Spread.from_values(group["compactions"]),
            "prompt_tokens": Spread.from_values(group["prompt_tokens"]),
        }
        for axis, values in long.groupby("axis", sort=True)
        if values["value"].map(str).nunique() > 1
        for group in sorted((group for _, group in values.groupby(values["value"].map(str))), key=_build_group_sort_key)
    ]
    return pd.DataFrame(rows, columns=["axis", "value", "trials", "success", "rounds", "prompt_tokens"])


def _build_group_sort_key(group: pd.DataFrame) -> tuple[int, float, str]:
    return build_sort_key(group["value"].iloc[0])


def select_arm(trials: pd.DataFrame, arm: str) -> pd.DataFrame:
    """Return the trials of one arm.

    Raises:
        UnknownName: no trial of that arm; the nearest names are offered.
    """
    chosen = trials[trials["arm"] == arm]
    if chosen.empty:
        raise UnknownName("arm", arm, [str(name) for name in trials["arm"].unique()])
    return chosen


def find_arm(trials: pd.DataFrame, selection: str | Mapping[str, object]) -> str:
    """Return the name of the one arm that has the given name or the given values.

    Args:
        trials: rows with the columns `arm`, `axes_json` and `config_json`.
        selection: name of an arm, or values by dotted path into a trial, e.g. `{"policy.threshold": 0.5}`. The last part of a
            path is enough where no other path ends alike; axes go first. The value of an axis is the one in the plan. Task,
            seed and world vary within an arm and select nothing.

    Raises:
        UnknownName: no such path; the nearest ones are offered.
        UsageError: a path is ambiguous, or no arm or several have these values; names the candidates.
    """
    if isinstance(selection, str):
        return str(select_arm(trials, selection)["arm"].iloc[0])
    current = trials[~trials["arm"].str.contains(EARLIER_PLAN_MARKER, regex=False)].drop_duplicates("arm")
    axes = {row.arm: _drop_blocks(json.loads(row.axes_json or "{}")) for row in current.itertuples()}
    configurations = {row.arm: _drop_blocks(flatten(json.loads(row.config_json))) for row in current.itertuples()}
    values = {arm: {**configurations[arm], **axes[arm]} for arm in axes}
    axis_paths = sorted({path for arm in axes.values() for path in arm})
    all_paths = sorted({path for arm in values.values() for path in arm})
    wanted = {_complete_path(path, axis_paths, all_paths): value for path, value in selection.items()}
    matches = [arm for arm in values if all(path in values[arm] and values[arm][path] == wanted[path] for path in wanted)]
    if len(matches) == 1:
        return str(matches[0])
    if matches:
        raise UsageError(
            f"{dict(selection)!r} leaves {len(matches)} arms: {_list_names(matches)}; give more values or an arm's name"
        )
    raise UsageError(f"no arm has {dict(selection)!r}; the arms are {_list_names(order_arms(trials))}")


def _drop_blocks(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values that belong to an arm: all but those of the task, the seed and the world."""
    return {path: value for path, value in values.items() if path.partition(".")[0] not in {"task", "seed", "world"}}


def _complete_path(path: str, axis_paths: Sequence[str], all_paths: Sequence[str]) -> str:
    """Return the dotted path that ends in the given one."""
    for known in (axis_paths, all_paths):
        ends = [one for one in known if one == path or one.endswith(f".{path}")]
        if path in ends or len(ends) == 1:
            return path if path in ends else ends[0]
        if ends:
            raise UsageError(f"{path!r} may be any of {', '.join(ends)}; write the whole path")
    raise UnknownName("path of a trial:", path, all_paths)


def _list_names(arms: Sequence[str]) -> str:
    names = ", ".join(repr(arm) for arm in arms[:MAX_NAMES_SHOWN])
    return f"{names} and {len(arms) - MAX_NAMES_SHOWN} more" if len(arms) > MAX_NAMES_SHOWN else names
