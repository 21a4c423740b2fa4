"""Trials grouped by arm: selection of valid trials, order of the arms, and summaries.

A trial is invalid only if it ended because of an infrastructure failure, which says nothing about its arm. Its recorded stop
reason alone decides this. Invalid trials are excluded before any comparison, and the report shows how many were excluded.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from math import isnan
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.estimands import choose_estimand
from harness.analysis.estimation import compute_rate_bounds
from harness.analysis.formatting import format_short_number
from harness.analysis.statistics import Rate, estimate_rate
from harness.analysis.tables import Tables, require_single_level, select
from harness.analysis.trajectories import list_units
from harness.conversation import codec
from harness.errors import UnknownName, UsageError, format_count
from harness.experiment.contrasts import Estimand
from harness.experiment.paths import (
    EARLIER_ARM_PATTERN,
    REPETITION_AXES,
    ValueNamer,
    flatten,
    is_arm_setting,
    is_block,
    is_earlier_arm,
)
from harness.policies import find_public_name
from harness.revisions import read_stored_kind
from harness.store.columns import TABLES
from harness.store.records import EXTERNAL_FAILURE_REASONS

MAX_NAMES_SHOWN = 8
"""Maximum number of arm names listed in an error message."""


POLICY_ERROR = "policy error"
"""Label of the number of trials that an error of their policy ended."""
BROKEN_REASONS = ("illegal_plan", "agent_failed", "repeated_crash")
"""Reasons of failure of trials that an error of the policy, the external agent or the code ended.

Whether the policy would have compacted is unknown, so such a trial does not count as one without compaction.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean, median, range and sum of a numeric column over the trials of one arm."""

    mean: float
    median: float
    low: float
    """Smallest known value of the table column among the trials of one arm."""
    high: float
    """Largest known value of the table column among the trials of one arm."""
    total: float

    def __str__(self) -> str:
        if isnan(self.median):
            return "–"
        number = format_short_number if self.high >= 1000 else "{:g}".format
        return f"{number(self.median)} [{number(self.low)}–{number(self.high)}]"

    @classmethod
    def from_values(cls, values: pd.Series) -> "Spread":
        """Summarize the known values of a table column; all numbers are NaN if no value is known."""
        known = pd.to_numeric(values).astype(float).dropna()
        low, high, total = float(known.min()), float(known.max()), float(known.sum(min_count=1))
        return cls(mean=float(known.mean()), median=float(known.median()), low=low, high=high, total=total)


COUNTED_VALUES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "never fired": ("activity", ("never fired",)),
    "no effect": ("activity", ("no effect",)),
    "summarizer unused": ("activity", ("summarizer never asked",)),
    "treatment missed": ("treatment", ("partly", "not at all")),
    "step limit": ("reason", ("max_steps",)),
    "overflow": ("reason", ("overflow",)),
    POLICY_ERROR: ("reason", ("illegal_plan",)),
}
"""Problems of trials that reports count for each arm, by label. A trial has the problem if the named column of the trials table
has one of the listed values."""


COST_COLUMNS = ("cost_usd", "summarizer_cost_usd", "sub_agent_cost_usd")
"""Columns of the trials table whose sum is the total cost of a trial."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArmSummary:
    """Summary of one arm: its valid trials, and its number of trials with each kind of problem."""

    arm: str
    trials: pd.DataFrame
    """Table of the trials of the arm that did not end because of an infrastructure failure."""
    counts: Mapping[str, int]
    """Number of trials of the arm by problem, as labelled in `COUNTED_VALUES`; `excluded` counts the invalid trials."""


def add_total_cost(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with the column `total_cost_usd`, the cost of agent, summarizer and sub-agents.

    Tables that an older version exported have no such column. The total is NaN if one of the costs is unknown.
    """
    return trials.assign(total_cost_usd=trials[list(COST_COLUMNS)].astype(float).sum(axis=1, skipna=False))


def select_outcomes(results: Tables) -> Tables:
    """Return the results of trials alone, without sessions outside of trials, whose outcome nobody checked.

    Raises:
        UsageError: There are only such sessions, so nothing can be said about outcomes.
    """
    has_outcome = results.trials["success"].notna()
    if has_outcome.all():
        return results
    if not has_outcome.any():
        raise UsageError(f"{describe_missing_outcomes(results.trials)}; {OUTCOME_ADVICE}")
    trials = results.trials[has_outcome]
    dtypes = {
        column.name: column.dtype for column in TABLES["trials"] if column.dtype in {"bool", "int64"} and column.name in trials
    }
    return select(results, trials.astype(dtypes))


OUTCOME_ADVICE = (
    "run the tasks in an experiment to compare outcomes (`harness run`); the tables, the alerts and the charts token_curves, "
    "context_composition, compaction_rounds and retention need no outcomes"
)


def describe_missing_outcomes(trials: pd.DataFrame) -> str:
    """Return a sentence that says that results have no outcomes, and why."""
    sessions = format_count(len(trials), "session")
    return f"these results have no outcomes: {sessions} outside of an experiment, and no checks say how each of them ended"


def select_valid(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the valid trials in the given order.

    A trial is valid unless it ended because of an infrastructure failure.
    """
    is_excluded = _is_excluded(trials)
    return trials[~is_excluded] if is_excluded.any() else trials  # avoids a slow copy


def select_excluded(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the invalid trials in the given order.

    A trial is invalid if it ended because of an infrastructure failure.
    """
    return trials[_is_excluded(trials)]


def drop_earlier_plans(results: Tables) -> Tables:
    """Return the results without the trials that ran under an earlier plan or with earlier revisions of their parts.

    Such trials ran under other conditions, even if their arms have the same settings. If no trial belongs to the current plan,
    all results are returned.
    """
    current = select_current(results.trials)
    return results if len(current) == len(results.trials) else select(results, current)


def select_current(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of the current plan with their current revisions, in the given order; all trials if there are none."""
    earlier = trials["arm"].astype(str).str.contains(EARLIER_ARM_PATTERN)
    return trials[~earlier] if earlier.any() and not earlier.all() else trials


def _is_excluded(trials: pd.DataFrame) -> pd.Series:
    is_failed = (trials["status"] == "crashed") | trials["reason"].isin(EXTERNAL_FAILURE_REASONS)
    return is_failed & trials["success"].notna()  # a session that its user stopped has no outcome that this could falsify


def read_axes(trials: pd.DataFrame) -> dict[str, dict[str, object]]:
    """Return the values of the settings that the plan varies (axes), by the text in the column `axes_json` and by dotted path.

    A policy is given by its name and the fields in which such policies differ, e.g. `keep-last(threshold=0.5)`.
    """
    axes: dict[str, dict[str, object]] = {text: json.loads(text or "{}") for text in trials["axes_json"].unique()}
    namer = ValueNamer(axes.values())
    return {text: namer.name_tables(table) for text, table in axes.items()}


def tabulate_axes(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a table of the settings that the plan varies (axes), with one row per trial and setting.

    Task, seed and repetitions are omitted.

    The columns are `trial_id`, `axis` (dotted path) and `value`, which for a policy is its name, as in `read_axes`.
    """
    axes = read_axes(trials)
    rows = [
        {"trial_id": trial_id, "axis": axis, "value": value}
        for trial_id, text in zip(trials["trial_id"], trials["axes_json"], strict=True)
        for axis, value in axes[text].items()
        if axis not in {"task", "seed", *REPETITION_AXES} and value is not None
    ]
    return pd.DataFrame(rows, columns=["trial_id", "axis", "value"]).astype({"value": object})


def read_policy_field(trials: pd.DataFrame, field: str) -> pd.Series:
    """Return the value of a field of each trial's compaction policy; None for a policy without that field."""
    policies = {text: json.loads(text or "{}") for text in trials["policy_json"].unique()}
    values: list[Any] = [policies[text].get(field) for text in trials["policy_json"]]
    return pd.Series(values, index=trials.index, dtype=object)


def read_specified_field(trials: pd.DataFrame, field: str) -> pd.Series:
    """Return a policy field of each trial as the plan specifies it, e.g. `q0.9` instead of a number of tokens.

    If the plan does not vary the field, the value in the trial's policy is returned.
    """
    axes = [json.loads(text or "{}") for text in trials["axes_json"]]
    wholes = [whole if isinstance(whole := settings.get("policy"), dict) else {} for settings in axes]
    specified_values = [settings.get(f"policy.{field}", whole.get(field)) for settings, whole in zip(axes, wholes, strict=True)]
    values = [
        own_value if specified_value is None else specified_value
        for specified_value, own_value in zip(specified_values, read_policy_field(trials, field), strict=True)
    ]
    return pd.Series(values, index=trials.index, dtype=object)


def order_arms(trials: pd.DataFrame) -> list[str]:
    """Return the names of all arms in the order of reports and charts.

    1. Arms without compaction.
    2. Arms with compaction, by the values of the settings that the plan varies.
    3. Arms that repeat another arm.
    4. Arms that ran under an earlier plan or with earlier revisions.
    """
    keys = {
        str(row.arm): (
            is_earlier_arm(row.arm),
            row.policy != "none",
            row.replicate > 0,
            [build_sort_key(value) for path, value in json.loads(row.axes_json or "{}").items() if is_arm_setting(path)],
            row.arm,
        )
        for row in _fill_replicates(trials[["arm", "policy", "replicate", "axes_json"]]).drop_duplicates("arm").itertuples()
    }
    return sorted(keys, key=lambda arm: keys[arm])


def _fill_replicates(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials in which sessions outside of trials, which have no replicate, count as the first one."""
    return trials.assign(replicate=trials["replicate"].fillna(0).astype(int))


def build_sort_key(value: object) -> tuple[int, float, str]:
    """Return a key that sorts the values of a setting: numbers first, then all others as text, a policy by its kind."""
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return (0, float(value), "")
    return (1, 0.0, f"{value.get('kind', '')} {value}" if isinstance(value, Mapping) else str(value))


def summarize_arms(results: Tables) -> list[ArmSummary]:
    """Summarize the trials of each arm, in the order in which reports show the arms.

    Raises:
        UsageError: There are no trials, or they have several fidelity levels.
    """
    require_single_level(results.trials)
    return [_summarize_arm(arm, results.trials[results.trials["arm"] == arm]) for arm in order_arms(results.trials)]


def _summarize_arm(arm: str, trials: pd.DataFrame) -> ArmSummary:
    valid = select_valid(trials)
    whole = valid[~valid["reason"].isin(BROKEN_REASONS)]
    counts = {
        label: int((whole if column == "activity" else valid)[column].isin(values).sum())
        for label, (column, values) in COUNTED_VALUES.items()
    }
    return ArmSummary(arm=arm, trials=valid, counts=counts | {"excluded": len(trials) - len(valid)})


def estimate_success(trials: pd.DataFrame, estimand: Estimand | None = None) -> Rate:
    """Return the success rate of an arm, averaged over its tasks, with its 95 % interval.

    A trial succeeds if every check of its task passed. Repeated trials of a seed are averaged and count as one observation.

    Args:
        trials: Trials of one arm, or pairs of trials, as `list_units` takes them with the column `success`.
        estimand: Whether the interval speaks about all `tasks like these` or about `these tasks` only. None means `tasks like
            these` if there are at least six tasks.
    """
    outcomes = list_units(trials, "success")
    if not outcomes:
        return estimate_rate(0, 0)
    bounds = compute_rate_bounds(outcomes, choose_estimand(len(outcomes), estimand))
    return Rate(
        successes=int(trials["success"].astype(bool).sum()),
        trials=len(trials),
        share=float(np.mean([task_outcomes.mean() for task_outcomes in outcomes])),
        low=float(bounds.low),
        high=float(bounds.high),
    )


def estimate_exposure(trials: pd.DataFrame) -> Rate:
    """Return the share of an arm's trials with at least one applied compaction, with its 95 % interval.

    Trials whose number of compactions is unknown, as in another study's table, are not counted.
    """
    known = trials["compactions"].dropna()
    return estimate_rate(int((known > 0).sum()), len(known))


def format_exposure(trials: pd.DataFrame) -> str:
    """Return how many of an arm's trials had at least one applied compaction, e.g. `3/5`; a dash if that is unknown."""
    exposure = estimate_exposure(trials)
    return f"{exposure.successes}/{exposure.trials}" if exposure.trials else "–"


def select_arm(trials: pd.DataFrame, arm: str) -> pd.DataFrame:
    """Return the rows of the trials table that belong to the arm with the given name.

    Raises:
        UnknownName: No trial has that arm; the message suggests similar names.
    """
    chosen = trials[trials["arm"] == arm]
    if chosen.empty:
        raise UnknownName("arm", arm, [str(name) for name in trials["arm"].unique()])
    return chosen


def find_arm(trials: pd.DataFrame, selection: str | Mapping[str, object]) -> str:
    """Return the name of the only arm with the given name or settings.

    Args:
        trials: Rows with the columns `arm`, `axes_json` and `config_json`.
        selection: Name of an arm, or values of settings by their dotted path in a trial's configuration, e.g.
            `{"policy.threshold": 0.5}`. The last part of a path is sufficient if it is unambiguous. Settings that the plan varies
            (axes) take priority over others; their values are given as in the plan. The value of `"policy"` is a policy, or the
            name of a kind of policy, which matches any values of its fields. Task, seed and world (the generated content of a
            task) vary within an arm and cannot be used.

    Raises:
        UnknownName: A path does not exist; the message suggests similar paths.
        UsageError: A path is ambiguous, or no arm or several arms have these values; the message lists the candidates.
    """
    matches = find_arms(trials, selection)
    if len(matches) > 1:
        raise UsageError(
            f"{selection!r} matches {len(matches)} arms: {list_names(matches)}; give more values or the name of an arm"
        )
    return matches[0]


def find_arms(trials: pd.DataFrame, selection: str | Mapping[str, object]) -> list[str]:
    """Return the names of all arms with the given name or settings, at least one.

    Args:
        trials: Rows with the columns `arm`, `axes_json` and `config_json`.
        selection: Name of an arm, or values of settings as in `find_arm`.

    Raises:
        UnknownName: A path does not exist; the message suggests similar paths.
        UsageError: A path is ambiguous, or no arm has these values.
    """
    if not isinstance(selection, str | Mapping):
        raise UsageError(f'an arm is selected by its name or by values such as {{"threshold": 0.5}} (got {selection!r:.80})')
    if isinstance(selection, str):
        return [str(select_arm(trials[["arm"]], selection)["arm"].iloc[0])]
    current = trials[~trials["arm"].map(is_earlier_arm)].drop_duplicates("arm")
    axes = {str(row.arm): _drop_blocks(json.loads(row.axes_json or "{}")) for row in current.itertuples()}
    configurations = {str(row.arm): _flatten_configuration(json.loads(row.config_json)) for row in current.itertuples()}
    values = {arm: {**configurations[arm], **axes[arm]} for arm in axes}
    axis_paths = sorted({path for arm in axes.values() for path in arm})
    all_paths = sorted({path for arm in values.values() for path in arm})
    wanted = {_complete_path(path, axis_paths, all_paths): value for path, value in selection.items()}
    matches = [arm for arm in values if all(_is_equal(values[arm].get(path, _ABSENT), wanted[path]) for path in wanted)]
    if not matches:
        raise UsageError(f"no arm has {dict(selection)!r}; the arms are {list_names(order_arms(trials))}")
    return matches


def complete_axes(trials: pd.DataFrame, selection: Mapping[str, object]) -> set[str]:
    """Return the whole paths of the settings in a selection of arms that the plan varies (axes)."""
    paths = sorted({path for text in trials["axes_json"].unique() for path in _drop_blocks(json.loads(text or "{}"))})
    return {path for path in paths for name in selection if path == name or path.endswith(f".{name}")}


_ABSENT = object()


def _flatten_configuration(configuration: Mapping[str, Any]) -> dict[str, object]:
    return _drop_blocks({**flatten(configuration), "policy": configuration.get("policy")})


def _is_equal(value: object, other: object) -> bool:
    """Return whether a setting has the wanted value.

    A policy's name matches the policy whatever the values of its fields.
    """
    if isinstance(value, Mapping) and isinstance(other, str):
        kind = read_stored_kind(str(value.get("kind")))
        return other in (kind, find_public_name(kind))
    if is_dataclass(other) and not isinstance(other, type):
        other = codec.to_plain(other)
    return bool(value == other)


def _drop_blocks(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values without task, seed and world (generated content of a task), which vary within an arm."""
    return {path: value for path, value in values.items() if not is_block(path)}


def _complete_path(path: str, axis_paths: Sequence[str], all_paths: Sequence[str]) -> str:
    if not isinstance(path, str):
        raise UsageError(f"the path of a value must be text such as 'policy.threshold' (got {path!r:.80})")
    if is_block(path):
        raise UsageError(
            f"{path!r} cannot select an arm, which contains all tasks and seeds; `compare` pairs trials of equal task and seed"
        )
    for paths in (axis_paths, all_paths):
        ends = [known_path for known_path in paths if known_path == path or known_path.endswith(f".{path}")]
        if path in ends or len(ends) == 1:
            return path if path in ends else ends[0]
        if ends:
            raise UsageError(f"{path!r} is ambiguous: {', '.join(ends)}; give the whole path")
    raise UnknownName("path of a trial:", path, all_paths)


def list_names(arms: Sequence[str]) -> str:
    """Return the names of arms for an error message, at most `MAX_NAMES_SHOWN` of them."""
    names = ", ".join(repr(arm) for arm in arms[:MAX_NAMES_SHOWN])
    return f"{names} and {len(arms) - MAX_NAMES_SHOWN} more" if len(arms) > MAX_NAMES_SHOWN else names
