"""Effects of the settings that a plan varies (the axes).

Arms that combine values of these settings form a grid. Two arms of the grid that differ in only one setting are compared on each
task and seed. The differences are averaged over all such pairs of arms. Extra arms, which a plan adds to the grid, never count.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.arms import add_total_cost, build_sort_key, read_axes, select_valid
from harness.analysis.effects import Effect, estimate_effect
from harness.analysis.validity import PAIR_COLUMNS, drop_repeats
from harness.errors import UsageError
from harness.experiment.paths import REPETITION_AXES, format_short, is_arm_setting

AXIS_METRICS = ("success", "score", "prompt_tokens", "total_cost_usd")
"""Columns of the trials table on which the values of an axis are compared."""
UNIT_COLUMNS = ("success", "score", "retention")
"""Columns with values from 0 to 1, which are compared by differences; all others are amounts, compared by ratios."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AxisContrast:
    """Comparison of two values of a setting that the plan varies (axis).

    It is averaged over all pairs of arms that differ in this setting only.
    """

    axis: str
    value: object
    """Value of the axis whose effect is estimated; a policy by its name, e.g. `keep-last(threshold=0.5)`."""
    baseline: object
    """Value of the axis with which `value` is compared: the first one in sorted order."""
    arm_pairs: int
    """Number of pairs of arms that differ in this axis only."""
    effects: tuple[Effect, ...]
    """Effects on the metrics: by default success, score, prompt tokens and total cost."""


def contrast_axes(trials: pd.DataFrame, metrics: Sequence[str] = AXIS_METRICS) -> list[AxisContrast]:
    """Compare each value of a setting that the plan varies (an axis) with the setting's first value.

    Args:
        trials: Table of trials with the columns of the metrics; the total cost is added.
        metrics: Columns of the trials table to compare.
    """
    valid = add_total_cost(drop_repeats(select_valid(trials)))
    is_in_grid = [is_grid_arm(arm, json.loads(text or "{}")) for arm, text in zip(valid["arm"], valid["axes_json"], strict=True)]
    valid = valid[np.array(is_in_grid, dtype=bool)]
    values = read_axes(valid)
    points = {arm: _encode_point(values[text]) for arm, text in zip(valid["arm"], valid["axes_json"], strict=True)}
    axes = sorted({path for point in points.values() for path in point})
    return [axis_contrast for axis in axes for axis_contrast in _contrast_axis(valid, points, axis, metrics)]


def match_arms(trials: pd.DataFrame, a: Sequence[str], b: Sequence[str], chosen_axes: Collection[str]) -> list[tuple[str, str]]:
    """Return the pairs of arms of two groups that have equal values of all settings that the plan varies but the chosen ones.

    Extra arms, which a plan adds to the grid, and repeated arms belong to no pair.

    Args:
        trials: Table of trials.
        a: Names of the arms of the first group.
        b: Names of the arms of the second group.
        chosen_axes: Dotted paths of the settings by which the groups were selected.

    Raises:
        UsageError: An arm matches several arms of the other group.
    """
    rows = drop_repeats(trials).drop_duplicates("arm")
    values = read_axes(rows)
    points = {
        str(arm): tuple(sorted((path, text) for path, text in _encode_point(values[axes]).items() if path not in chosen_axes))
        for arm, axes in zip(rows["arm"], rows["axes_json"], strict=True)
        if is_grid_arm(str(arm), json.loads(axes or "{}"))
    }
    by_point: dict[tuple[tuple[str, str], ...], str] = {}
    for group in (a, b):
        by_point = {}
        for arm in group:
            if arm in points and by_point.setdefault(points[arm], arm) != arm:
                raise UsageError(
                    f"{by_point[points[arm]]!r} and {arm!r} differ in no setting but the selected ones, so that arms cannot be "
                    "matched one to one; give a value for each setting in which they differ, or the names of two arms"
                )
    return [(arm, by_point[points[arm]]) for arm in a if arm in points and points[arm] in by_point]


def is_grid_arm(arm: str, axes: Mapping[str, Any]) -> bool:
    """Return whether an arm has the name of its combination of varied settings, such as `keep_last=4 threshold=0.5`.

    These combinations form the grid of a plan. Extra arms, which a plan adds to the grid, have names of their own. Names may
    begin alike: `keep_last=4 threshold=0.5 again` is an extra arm.

    Args:
        arm: Name of the arm.
        axes: The arm's value of each setting that the plan varies, by dotted path.
    """
    paths = [path for path in axes if is_arm_setting(path)]
    if not paths:
        return True
    values = {path: _match_value(axes[path]) for path in paths}
    short = " ".join(f"{re.escape(path.rsplit('.', 1)[-1])}={values[path]}" for path in paths)
    full = " ".join(f"{re.escape(path)}={values[path]}" for path in paths)
    return re.fullmatch(f"(?s:{short}|{full})", arm) is not None


def _match_value(value: object) -> str:
    """Return a pattern for the value of a setting in the name of an arm; a policy or a list has names that are not checked."""
    if not isinstance(value, str | int | float):
        return ".*"
    return f"(?:{re.escape(format_short(value))}|{re.escape(str(value))})"


def _encode_point(axes: Mapping[str, object]) -> dict[str, str]:
    # JSON texts, unlike the values, can always be compared and sorted.
    return {path: json.dumps(value) for path, value in axes.items() if is_arm_setting(path)}


def _contrast_axis(
    trials: pd.DataFrame, points: Mapping[str, Mapping[str, str]], axis: str, metrics: Sequence[str]
) -> Iterator[AxisContrast]:
    values = sorted(
        {point[axis] for point in points.values() if axis in point}, key=lambda text: build_sort_key(json.loads(text))
    )
    by_point = {tuple(sorted(point.items())): arm for arm, point in points.items()}
    for value in values[1:]:
        arm_pairs = [
            (arm, other)
            for arm, point in points.items()
            if point.get(axis) == value and (other := by_point.get(tuple(sorted({**point, axis: values[0]}.items())))) is not None
        ]
        if arm_pairs:
            pairs = average_arm_pairs(trials, arm_pairs, metrics)
            yield AxisContrast(
                axis=axis,
                value=json.loads(value),
                baseline=json.loads(values[0]),
                arm_pairs=len(arm_pairs),
                effects=tuple(estimate_effect(pairs, metric, is_bounded=metric in UNIT_COLUMNS) for metric in metrics),
            )


def average_arm_pairs(
    trials: pd.DataFrame, arm_pairs: list[tuple[str, str]], metrics: Sequence[str] = AXIS_METRICS
) -> pd.DataFrame:
    """Average each metric over the first and over the second arms of several pairs.

    The result has one row per task and seed, also if both arms ran it several times (replicates). Amounts, such as tokens, are
    averaged as logarithms, so that the ratio of the two means is the typical ratio within a pair. The column `course` is equal
    for seeds on which all arms took the same courses.

    Args:
        trials: Valid trials with the columns of the metrics.
        arm_pairs: Pairs of names of arms that differ in only one setting.
        metrics: Columns of the trials table to average.
    """
    keys = [*PAIR_COLUMNS]
    courses = trials["trajectory"].fillna("").astype(str) if "trajectory" in trials else ""
    trials = trials.assign(course=courses)
    rows = {arm: part[[*keys, "course", *metrics]] for arm, part in trials.groupby("arm")}
    both = pd.concat([rows[a].merge(rows[b], on=keys, suffixes=("_a", "_b"), validate="one_to_one") for a, b in arm_pairs])
    both = both.drop(columns=[*REPETITION_AXES])
    both_courses = both.pop("course_a") + "|" + both.pop("course_b")
    is_known = not both_courses.str.startswith("|").any() and not both_courses.str.endswith("|").any()
    seed_courses = both_courses.groupby([both["task"], both["seed"]]).agg(" ".join)
    amounts = [f"{metric}_{side}" for metric in metrics if metric not in UNIT_COLUMNS for side in "ab"]
    numbers = both.set_index(["task", "seed"]).astype(float)
    numbers[amounts] = np.log(numbers[amounts].where(numbers[amounts] > 0))
    means = numbers.groupby(level=["task", "seed"]).agg(lambda values: values.mean(skipna=False))
    means[amounts] = np.exp(means[amounts])
    return means.assign(course=seed_courses, is_trajectory_known=is_known).reset_index()
