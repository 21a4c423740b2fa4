"""Colour and shape of each arm, the same in every chart, page and widget of an experiment.

A reader who has found an arm in one chart recognizes it in the next. The mark of an arm therefore depends on all arms of the
experiment in the order of the report, never on the arms that one chart shows. Up to twelve arms have a colour and a shape of
their own. Of more arms, those of the grid show one setting by colour, one by shape and one by which half is filled.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pandas as pd

from harness.analysis.arms import build_sort_key, order_arms, read_axes
from harness.analysis.axes import is_grid_arm
from harness.analysis.families import find_source
from harness.analysis.tables import Tables
from harness.experiment.paths import is_arm_setting, is_earlier_arm

COLOURS = ("blue", "vermilion", "green", "pink", "sky", "orange", "ink")
"""Names of the colours of arms, those of Okabe and Ito's palette for colour-blind readers without its yellow."""
SHAPES = ("circle", "square", "triangle", "diamond", "wedge", "plus", "cross", "star")
"""Names of the shapes of arms. Only arms outside a grid of many arms are stars."""
FILLS = ("full", "left", "top", "right", "bottom")
"""Parts of the shape that can be filled with the colour."""
STAR = SHAPES.index("star")
MAX_SINGLE_ARMS = 12
"""Largest number of arms that each have a colour and a shape of their own, which a legend can list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmMark:
    """Colour and shape by which a reader recognizes an arm, as places in `COLOURS`, `SHAPES` and `FILLS`."""

    colour: int
    shape: int
    fill: int = 0

    def __str__(self) -> str:
        words = (COLOURS[self.colour], SHAPES[self.shape], *([FILLS[self.fill]] if self.fill else []))
        return " ".join(words)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the mark with a text such as `blue circle` or `sky square left`."""
        colour, shape, *fill = text.split(" ")
        return cls(colour=COLOURS.index(colour), shape=SHAPES.index(shape), fill=FILLS.index(fill[0]) if fill else 0)

    @classmethod
    def from_number(cls, number: int) -> Self:
        """Return one of 245 different marks; the first seven differ in both colour and shape."""
        # Each round of colours shifts the shapes by one, so that all pairs of both occur. The star, the last shape, is not used.
        round_number, colour = divmod(number, len(COLOURS))
        return cls(colour=colour, shape=(number + round_number) % STAR, fill=round_number // STAR % len(FILLS))


def read_marks(results: Tables) -> dict[str, str]:
    """Return the text of each arm's mark by name of the arm, for the whole experiment from which results were selected."""
    return {arm: str(mark) for arm, mark in assign_marks(find_source(results).trials).items()}


def assign_marks(trials: pd.DataFrame) -> dict[str, ArmMark]:
    """Return the mark of each arm by name of the arm.

    Args:
        trials: Rows with the columns `arm`, `policy`, `replicate` and `axes_json`, at least one for each arm of the experiment.
    """
    arms = order_arms(trials)
    if sum(not is_earlier_arm(arm) for arm in arms) > MAX_SINGLE_ARMS:
        settings = list_settings(trials)
        axes = choose_axes(settings.values())
        if axes:
            return _mark_by_settings(arms, settings, axes)
    return {arm: ArmMark.from_number(number) for number, arm in enumerate(arms)}


def _mark_by_settings(
    arms: Sequence[str], settings: Mapping[str, Mapping[str, object]], axes: Sequence[str]
) -> dict[str, ArmMark]:
    values = [list_values(settings.values(), axis) for axis in axes]
    marks, stars = dict[str, ArmMark](), 0
    for arm in arms:
        if all(axis in settings.get(arm, {}) for axis in axes):
            places = [texts.index(json.dumps(settings[arm][axis])) for axis, texts in zip(axes, values, strict=True)]
            # one axis decides both colour and shape
            colour, shape, fill = (*(places if len(places) > 1 else places * 2), 0)[:3]
            marks[arm] = ArmMark(colour=colour, shape=shape, fill=fill)
        else:
            marks[arm] = ArmMark(colour=stars % len(COLOURS), shape=STAR, fill=stars // len(COLOURS) % len(FILLS))
            stars += 1
    return marks


def list_settings(trials: pd.DataFrame) -> dict[str, dict[str, object]]:
    """Return the values of the settings that differ between arms of the grid, by arm and dotted path.

    Arms that a plan adds to the grid are left out. A policy is given by its name.

    Args:
        trials: Rows with the columns `arm` and `axes_json`, at least one for each arm.
    """
    first = trials.drop_duplicates("arm")
    axes = read_axes(first)
    texts = dict(zip(first["arm"].astype(str), first["axes_json"].astype(str), strict=True))
    all_values = {
        arm: {path: value for path, value in axes[text].items() if is_arm_setting(path)}
        for arm, text in texts.items()
        if is_grid_arm(arm, json.loads(text or "{}"))
    }
    all_values = {arm: values for arm, values in all_values.items() if values}
    paths = sorted({path for values in all_values.values() for path in values})
    varied = [path for path in paths if len({json.dumps(values.get(path)) for values in all_values.values()}) > 1]
    return {arm: {path: values.get(path) for path in varied} for arm, values in all_values.items()}


def choose_axes(settings: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the dotted paths of the settings that colour, shape and filled half show, in this order; at most three.

    Settings with named values, such as the summarizer, come first. Settings with too many values are left out.
    """
    points = list(settings)
    values = {path: list_values(points, path) for path in (points[0] if points else {})}
    ordered = sorted(values, key=lambda path: (not any(text[0] in '"{' for text in values[path]), path))
    fitting = [path for path in ordered if 1 < len(values[path]) <= len(COLOURS)]
    return [*fitting[:2], *[path for path in fitting[2:] if len(values[path]) <= len(FILLS)][:1]]


def list_values(settings: Iterable[Mapping[str, object]], path: str) -> list[str]:
    """Return the different values of a setting as JSON texts: numbers first, then texts."""
    texts = {json.dumps(values[path]) for values in settings if path in values}
    return sorted(texts, key=lambda text: build_sort_key(json.loads(text)))
