"""Lines of a chart: one per arm or, with many arms, one per value of a setting that the plan varies."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from harness.analysis.arm_marks import MAX_SINGLE_ARMS, ArmMark, choose_axes, list_settings, list_values, read_marks
from harness.analysis.arms import order_arms
from harness.analysis.families import find_source
from harness.analysis.figures.arm_rows import format_value
from harness.analysis.tables import Tables
from harness.text import escape_control_characters

MAX_OMITTED_NAMES = 3
"""Largest number of arms that the header of a chart names as not shown."""


class Groups(NamedTuple):
    """Lines of a chart."""

    labels: dict[str, str]
    """Label of the line to which each trial belongs, by trial id, in the order of the lines."""
    marks: dict[str, str]
    """Text of the mark of each line, by label."""
    omitted: tuple[str, ...]
    """Names of the arms that have no line."""

    @property
    def places(self) -> dict[str, int]:
        """Positions of the lines in the legend, from 0, by label."""
        return {label: place for place, label in enumerate(dict.fromkeys(self.labels.values()))}


def group_trials(trials: pd.DataFrame, results: Tables) -> Groups:
    """Group trials by arm or, with more than twelve arms, by the value of a setting that the plan varies.

    The setting is that which the colours of arms show. Without such a setting, each of the first twelve arms is a line.

    Args:
        trials: Trials to show.
        results: Results of the experiment, all of whose arms decide on the marks.
    """
    arms = order_arms(trials)
    places = {arm: place for place, arm in enumerate(arms)}
    rows = sorted(zip(trials["arm"], trials["trial_id"], strict=True), key=lambda row: places[row[0]])
    settings = list_settings(find_source(results).trials) if len(arms) > MAX_SINGLE_ARMS else {}
    axes = choose_axes(settings.values())
    if not axes:
        shown = arms[:MAX_SINGLE_ARMS]
        marks = read_marks(results)
        labels = {trial_id: arm for arm, trial_id in rows if places[arm] < len(shown)}
        return Groups(labels, {arm: marks[arm] for arm in shown}, tuple(arms[len(shown) :]))
    name, values = axes[0].rsplit(".", 1)[-1], list_values(settings.values(), axes[0])
    texts = {value: f"{name} {format_value(json.loads(value))}" for value in values}
    order = {text: place for place, text in enumerate(texts.values())}
    by_arm = {arm: texts[json.dumps(settings[arm][axes[0]])] for arm in arms if axes[0] in settings.get(arm, {})}
    return Groups(
        {
            trial_id: by_arm[arm]
            for arm, trial_id in sorted(rows, key=lambda row: order.get(by_arm.get(row[0], ""), 0))
            if arm in by_arm
        },
        {text: str(ArmMark(colour=place, shape=place)) for text, place in order.items()},
        tuple(arm for arm in arms if arm not in by_arm),
    )


def describe_omitted(arms: Sequence[str]) -> str:
    """Return a remark on the arms that a chart leaves out, such as `; not shown: A, B and 3 more`; empty if there are none."""
    if not arms:
        return ""
    names = ", ".join(escape_control_characters(arm) for arm in arms[:MAX_OMITTED_NAMES])
    return f"; not shown: {names}{f' and {len(arms) - MAX_OMITTED_NAMES} more' if len(arms) > MAX_OMITTED_NAMES else ''}"
