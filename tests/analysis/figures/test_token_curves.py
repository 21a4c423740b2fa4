"""Token curves: every step and compaction is in its panel of the table and in the drawing."""

import json
from itertools import product
from typing import Any

import pytest

from harness.analysis.figures import token_curves
from harness.compaction.description import describe_measures
from harness.errors import UsageError
from harness.policies import PRESETS
from tests.analysis.selections import grid, results


def lines(figure):
    return [line for ax in figure.axes for line in ax.lines if line.get_linestyle() != "None" and len(line.get_xdata()) > 2]


def test_every_step_has_its_row_and_every_drop_its_mark():
    selection = grid(seeds=(0,))
    table = token_curves.table(selection)
    counted = selection.trials.query("replicate == 0")["trial_id"]
    assert len(table) == selection.steps["trial_id"].isin(counted).sum()
    drops = selection.compactions[selection.compactions["trial_id"].isin(counted)]
    assert table["tokens_before"].count() == len(drops)


def test_the_axes_of_a_grid_become_rows_columns_and_colours():
    table = token_curves.table(grid(seeds=(0,)))
    inside = table[~table["reference"]]
    assert set(inside["row"]) == {"threshold 0.5", "threshold 0.8", "threshold 0.95"}
    assert set(inside["column"]) == {"scripted/empty", "scripted/extractive", "scripted/oracle"}
    assert set(inside["line"]) == {"keep_last 4", "keep_last 10", "keep_last 20"}
    assert set(table[table["reference"]]["line"]) == {"no compaction"}


@pytest.mark.slow
def test_every_arm_has_a_panel_if_the_plan_has_no_grid():
    rows = [{"arm": arm, "trial_id": arm} for arm in ("x", "y")]
    steps = [{"trial_id": arm, "step": i, "view_tokens": 100 * i} for arm in ("x", "y") for i in (1, 2, 3)]
    table = token_curves.table(results(rows, steps))
    assert set(table["column"]) == {"x", "y"}
    assert [ax.get_title(loc="left").strip() for ax in token_curves.draw(table).axes] == ["x", "y"]


def test_a_curve_climbs_to_the_compaction_and_falls_at_its_step():
    steps = [{"trial_id": "t", "step": i, "view_tokens": v} for i, v in enumerate((100, 200, 50, 80), 1)]
    drop = {"trial_id": "t", "round": 1, "step": 3, "status": "applied", "tokens_before": 260, "tokens_after": 50}
    failed = drop | {"step": 2, "status": "failed", "tokens_before": 999}
    figure = token_curves.draw(token_curves.table(results([{"trial_id": "t"}], steps, [drop, failed])))
    (line,) = lines(figure)
    assert line.get_xydata().tolist() == [[1, 100], [2, 200], [3, 260], [3, 50], [4, 80]]


def test_threshold_and_window_are_drawn_at_their_tokens():
    steps = [{"trial_id": "t", "step": i, "view_tokens": 100} for i in (1, 2)]
    figure: Any = token_curves.draw(token_curves.table(results([{"trial_id": "t"}], steps)))
    levels = {line.get_ydata()[0] for line in figure.axes[0].lines if line.get_ydata()[0] == line.get_ydata()[-1]}
    assert {17414, 32768} <= levels


@pytest.mark.parametrize("missing", [{"threshold_tokens": None}, {"window_tokens": 0}])
def test_unknown_values_are_not_drawn(missing):
    steps = [{"trial_id": "t", "step": i, "view_tokens": 100} for i in (1, 2)]
    figure = token_curves.draw(token_curves.table(results([{"trial_id": "t"} | missing], steps)))
    assert len(figure.axes[0].texts) == 1


@pytest.mark.slow
def test_axes_at_the_edges_have_units_and_the_chart_its_level():
    figure: Any = token_curves.draw(token_curves.table(grid(seeds=(0,))))
    places = [(ax.get_subplotspec().rowspan.start, ax.get_subplotspec().colspan.start) for ax in figure.axes]
    assert sorted(places) == list(product(range(3), range(3)))
    for (row, column), ax in zip(places, figure.axes, strict=True):
        assert ax.get_xlabel() == ("step (number)" if row == 2 else "")
        assert ax.get_ylabel() == ("view (tokens)" if column == 0 else "")
    assert "L0 simulated" in {text.get_text() for text in figure.texts}


@pytest.mark.parametrize("repeats", [0, 2])
def test_repeats_that_are_left_out_are_counted_beside_the_sessions(repeats):
    first = [{"trial_id": str(i), "seed": i} for i in range(5 - repeats)]
    rows = first + [{"trial_id": str(4 - i), "seed": i, "arm": "A/A", "replicate": 1} for i in range(repeats)]
    steps = [{"trial_id": str(i), "step": s, "view_tokens": 9} for i in range(5) for s in (1, 2)]
    figure = token_curves.draw(token_curves.table(results(rows, steps)))
    caption = "3 sessions (without 2 A/A repeats), one line each" if repeats else "5 sessions, one line each"
    assert any(caption in text.get_text() for text in figure.texts)


@pytest.mark.slow
def test_a_grid_too_wide_to_read_says_what_it_left_out():
    rows = [{"trial_id": str(i), "arm": str(i), "axes_json": json.dumps({"max_steps": i})} for i in range(30)]
    steps = [{"trial_id": str(i), "step": s, "view_tokens": 9} for i in range(30) for s in (1, 2)]
    figure = token_curves.draw(token_curves.table(results(rows, steps)))
    assert any("24 of 30 panels" in text.get_text() for text in figure.texts)


@pytest.mark.slow
def test_panels_with_an_equal_setting_stand_in_line_although_one_setting_has_many_values():
    arms = list(product((0.5, 0.8), "abcdef"))
    axes = [json.dumps({"policy.threshold": threshold, "policy.summarizer": name}) for threshold, name in arms]
    rows = [{"trial_id": text, "arm": text, "axes_json": text} for text in axes]
    steps = [{"trial_id": text, "step": step, "view_tokens": 9} for text in axes for step in (1, 2)]
    panels = [ax for ax in token_curves.draw(token_curves.table(results(rows, steps))).axes if ax.get_visible()]
    places: dict[str, Any] = {panel.get_title(loc="left").strip(): panel.get_subplotspec() for panel in panels}
    assert len(places) == len(arms)
    for title, place in places.items():
        threshold, name = title.split(", ")
        assert place.colspan.start == ["threshold 0.5", "threshold 0.8"].index(threshold)
        assert place.rowspan.start == "abcdef".index(name)


@pytest.mark.slow
def test_sessions_can_be_drawn_into_axes_of_the_caller():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert token_curves.draw(token_curves.table(grid(seeds=(0,))), ax) is ax.figure
    assert lines(ax.figure)


def test_an_empty_table_is_refused_with_the_reason():
    with pytest.raises(UsageError, match="no token curve"):
        token_curves.draw(token_curves.table(results([{}])))


def test_the_table_is_empty_if_no_trial_is_valid():
    assert token_curves.table(results([{"status": "crashed", "reason": "crashed", "success": False}])).empty


def draw_policies(*policies):
    estimating = {"keep-last": {"measure": "estimate"}}
    acts_on = {kind: describe_measures(PRESETS[kind](**estimating.get(kind, {}))) for kind in policies if kind in PRESETS}
    rows = [{"arm": f"{i}", "trial_id": f"{i}", "policy": kind, "acts_on": acts_on.get(kind)} for i, kind in enumerate(policies)]
    steps = [{"trial_id": f"{i}", "step": step, "view_tokens": 9} for i in range(len(rows)) for step in (1, 2)]
    figure: Any = token_curves.draw(token_curves.table(results(rows, steps)))
    return " ".join(" ".join(text.get_text() for text in figure.texts).split())


@pytest.mark.slow
def test_the_header_names_policies_whose_threshold_applies_to_another_count():
    keep_last, codex, clear = "keep-last", "codex@2026", "langchain-clear-tool-uses"
    estimate, own = "tokens as estimated by the policy", "the model's own token count"
    assert "act" not in draw_policies(keep_last, "of another package").partition(estimate)[2]
    assert f"{estimate}, which acts on {own}" in draw_policies(codex, codex)
    assert f"{estimate}; codex@2026 acts on {own}; {clear} acts on an estimate of" in draw_policies(
        codex, keep_last, clear
    ).replace("- ", "-")
    assert f"{estimate}; codex@2026, goose act on {own}" in draw_policies(codex, keep_last, "goose")
    assert f"{estimate}; 4 policies act on {own}" in draw_policies(codex, "goose", "crush", "letta", "none")


def test_panels_are_named_after_policies():
    policies = [{"kind": "codex", "threshold": 0.5}, {"kind": "codex", "threshold": 0.9}, {"kind": "none"}]
    rows = [{"arm": f"{i}", "trial_id": f"{i}", "axes_json": json.dumps({"policy": policy})} for i, policy in enumerate(policies)]
    steps = [{"trial_id": f"{i}", "step": step, "view_tokens": 9} for i in range(3) for step in (1, 2)]
    figure: Any = token_curves.draw(token_curves.table(results(rows, steps)))
    assert [ax.get_title(loc="left").strip() for ax in figure.axes] == ["codex(threshold=0.5)", "codex(threshold=0.9)", "none"]
