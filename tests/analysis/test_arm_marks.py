"""Marks of arms: all different, and those of the whole experiment wherever a part of it is shown."""

import json
import re
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

import harness.widgets
from harness.analysis.arm_marks import COLOURS, FILLS, SHAPES, ArmMark, assign_marks, read_marks
from harness.analysis.figures.marks import DASHES, MARKERS
from harness.analysis.figures.style import THEMES
from harness.analysis.formatting import label_arms
from harness.analysis.tables import select
from tests.analysis.selections import grid, results

SCRIPTS = Path(harness.widgets.__file__).parent / "js"


def list_rows(*axes, **named):
    """Return rows of trials of a grid, with the names that a plan gives its arms, and of arms outside of the grid."""
    points = [dict(zip(named, values, strict=True)) for values in product(*named.values())]
    rows = [
        {
            "arm": " ".join(f"{name}={value}" for name, value in point.items()),
            "axes_json": json.dumps({f"policy.{name}": value for name, value in point.items()}),
        }
        for point in points
    ]
    return pd.DataFrame(rows + [{"arm": arm, "axes_json": "{}"} for arm in axes]).assign(policy="keep-last", replicate=0)


def test_numbered_marks_are_all_different_and_can_be_read_back():
    marks = [ArmMark.from_number(number) for number in range(len(COLOURS) * (len(SHAPES) - 1) * len(FILLS))]
    assert len(set(marks)) == len(marks) == 245
    assert [ArmMark.from_text(str(mark)) for mark in marks] == marks
    assert len({(mark.colour, mark.shape) for mark in marks[:49]}) == 49


@pytest.mark.parametrize(
    "rows",
    [
        list_rows(*(f"arm {number}" for number in range(12))),
        list_rows(*(f"arm {number}" for number in range(40))),
        list_rows(keep=(4, 10, 20), reader=("a", "b", "c"), threshold=(0.5, 0.8, 0.9)),
        list_rows("control", "again", "bound", keep=(4, 10, 20, 30), reader=("a", "b", "c", "d", "e")),
        list_rows(threshold=tuple(range(30))),
    ],
)
def test_no_two_arms_of_an_experiment_look_the_same(rows):
    marks = assign_marks(rows)
    assert set(marks) == set(rows["arm"])
    assert len(set(marks.values())) == len(marks)


def test_each_value_of_a_setting_of_a_large_grid_has_one_colour_or_one_shape():
    rows = list_rows(keep=(4, 10, 20), reader=("a", "b", "c"), threshold=(0.5, 0.8, 0.9))
    marks = assign_marks(rows)
    for reader in "abc":
        assert len({mark.colour for arm, mark in marks.items() if f"reader={reader} " in arm}) == 1
    for keep in (4, 10, 20):
        assert len({mark.shape for arm, mark in marks.items() if arm.startswith(f"keep={keep} ")}) == 1


@pytest.mark.slow
def test_marks_do_not_depend_on_which_part_of_the_results_is_shown():
    for whole in (grid(seeds=(0,)), results([{"arm": f"arm {number}"} for number in range(5)])):
        marks = read_marks(whole)
        for arm in list(marks)[::3]:
            part = select(whole, whole.trials[whole.trials["arm"] == arm])
            assert read_marks(select(part, part.trials)) == marks


def test_the_order_of_the_trials_does_not_matter():
    rows = list_rows("control", keep=(4, 10), reader=("a", "b"))
    assert assign_marks(rows) == assign_marks(rows.iloc[::-1])


def test_page_and_widgets_draw_the_colours_and_shapes_of_the_figures():
    style, script = ((SCRIPTS / name).read_text("utf-8") for name in ("surface.css", "arm_marks.js"))
    colours = re.findall(r"\.h-arm-(\w+) \{ --h-arm: light-dark\((#\w+), (#\w+)\); \}", style)
    light, dark = THEMES["light"].palette, THEMES["dark"].palette
    assert colours == [(name, a.lower(), b.lower()) for name, a, b in zip(COLOURS, light, dark, strict=True)]
    shapes = re.findall(r'^  (\w+): "M', script, re.MULTILINE)
    assert shapes == list(SHAPES)
    assert all(f".h-arm-{fill} " in style for fill in FILLS[1:])
    assert len(set(MARKERS)) == len({str(dash) for dash in DASHES}) == len(SHAPES)


@pytest.mark.parametrize("length", [20, 200])
def test_labels_of_long_names_with_equal_beginnings_differ_and_cut_no_value(length):
    names = [f"{'policy with a long name ' * (length // 20)}threshold {value}" for value in ("0.123456789", "0.123456788")]
    labels = label_arms(names)
    assert len(set(labels.values())) == 2
    assert all("".join(labels[name].split()) == "".join(name.split()) for name in names)


def test_labels_show_the_values_that_differ():
    assert label_arms(["policy=none", "policy=codex"]) == {"policy=none": "none", "policy=codex": "codex"}
    assert label_arms(["keep_last=4 summarizer=same"]) == {"keep_last=4 summarizer=same": "keep_last 4, same"}
    assert len(set(label_arms(["a=1", "b=1", "a 1"]).values())) == 3
    assert len(set(label_arms(["a  b", "a b"]).values())) == 2


def test_the_label_of_an_endless_name_still_fits_on_a_page():
    names = ["<" * 30_000 + f"{number}" + "<" * 30_000 for number in range(2)]
    labels = label_arms(names)
    assert all(len(label) < 400 for label in labels.values())
    assert len(set(labels.values())) == 2
