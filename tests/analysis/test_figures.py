"""What holds for every chart: an arm has one colour and shape, texts differ, and nothing leaves its axes."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from harness.analysis.arm_marks import ArmMark, read_marks
from harness.analysis.figures import (
    FIGURES,
    compaction_rounds,
    completion_by_calls,
    cost_ratios,
    cost_score,
    heat_map,
    token_curves,
)
from harness.analysis.figures.files import build_table
from harness.analysis.figures.style import THEMES
from harness.analysis.tables import select
from tests.analysis.selections import results
from tests.analysis.test_retention import probe

ARMS = ("none", "base", "keep-last 30", "lossy summaries", "threshold 0.5", "base again (A/A)")


def make_selection(arms=ARMS, **changes):
    """Return results of arms with different scores, costs, steps, compactions and lost facts, and with replicates."""
    rows, steps, drops, probes = [], [], [], []
    for number, arm in enumerate(arms):
        for seed in range(3):
            trial_id, last = f"{arm}/{seed}", 8 + number + seed
            score = min(1.0, 0.1 + 0.15 * number + 0.1 * seed)
            rows.append(
                {"arm": arm, "trial_id": trial_id, "seed": seed, "score": score, "success": seed < number - 1, "steps": last}
                | {"policy": "none" if number == 0 else "keep-last", "compactions": number, "cost_usd": 1.0 + number + 0.1 * seed}
                | {"summarizer_cost_usd": 0.0, "replicate": int("again" in arm), "axes_json": "{}"}
                | changes
            )
            steps += [{"trial_id": trial_id, "step": step, "view_tokens": 900 * step} for step in range(1, last + 1)]
            drops += [
                {"trial_id": trial_id, "step": 5, "round": 1, "status": "applied", "tokens_before": 4800, "tokens_after": 900}
            ]
            probes += [
                probe(trial_id, fact="a", event=event, seen_after=event < number) for event in range(1, max(2, number + 1))
            ]
    return results(rows, steps, drops, probes)


def list_marks(table: pd.DataFrame) -> dict[str, str]:
    """Return the mark of each arm of a chart's table."""
    column = "arm" if "arm" in table else "group"
    return dict(zip(table[column], table["mark"], strict=True)) if "mark" in table else {}


@pytest.mark.slow
@pytest.mark.parametrize("part", [slice(None), slice(1, 4), slice(3, None)])
def test_an_arm_has_the_same_colour_and_shape_in_every_chart_whichever_arms_it_shows(part):
    whole = make_selection()
    marks = read_marks(whole)
    shown = select(whole, whole.trials[whole.trials["arm"].isin(ARMS[part])])
    charts = 0
    for name in FIGURES:
        in_chart = list_marks(build_table(name, shown))
        charts += bool(in_chart)
        assert in_chart.items() <= marks.items()
    assert charts >= 6


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_and_lines_are_drawn_in_the_colour_of_their_arm(theme):
    whole = make_selection()
    marks = {arm: ArmMark.from_text(text) for arm, text in read_marks(whole).items()}
    palette = THEMES[theme].palette
    for name in ("cost_score", "completion_by_calls", "retention"):
        figure: Any = FIGURES[name].draw(build_table(name, whole), theme=theme)
        legend = figure.legends[0]
        entries = {text.get_text(): handle for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)}
        named = {arm: entries[label] for arm in marks for label in (arm, f"{arm} (baseline)") if label in entries}
        assert len(named) >= 4
        assert all(to_hex(handle.get_color()) == palette[marks[arm].colour].lower() for arm, handle in named.items())
    for module in (compaction_rounds, cost_ratios, token_curves):
        table = module.table(whole)
        figure = module.draw(table, theme=theme)
        drawn = {to_hex(line.get_color()) for ax in figure.axes for line in ax.lines if line.get_linestyle() == "None"}
        assert {palette[ArmMark.from_text(mark).colour].lower() for mark in table["mark"]} <= drawn


def list_outside(ax: Any) -> list[tuple[float, float]]:
    """Return the points of lines that lie outside of axes, among those that the axes' scales place."""
    (left, right), (low, high) = sorted(ax.get_xlim()), sorted(ax.get_ylim())
    points = np.concatenate(
        [line.get_xydata() for line in ax.lines if line.get_transform() == ax.transData and len(line.get_xdata())]
    )
    points = points[~np.isnan(points).any(axis=1)]
    is_outside = (points[:, 0] < left) | (points[:, 0] > right) | (points[:, 1] < low) | (points[:, 1] > high)
    return [tuple(point) for point in points[is_outside]]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 12])
def test_no_interval_leaves_its_axes(count):
    whole = make_selection(arms=tuple(f"arm {number}" for number in range(count)))
    for module in (cost_score, completion_by_calls, cost_ratios):
        for ax in module.draw(module.table(whole)).axes:
            assert list_outside(ax) == []


def test_an_interval_of_a_score_ends_at_the_bounds_of_the_score():
    table = cost_score.table(make_selection(), metric="score")
    assert table["low"].min() >= 0
    assert table["high"].max() <= 1


@pytest.mark.slow
def test_long_names_that_begin_alike_are_different_texts_in_every_chart():
    arms = tuple(f"{'a policy with a long name that says much ' * 2}{end}" for end in ("none", "0.12", "0.13", "0.14"))
    whole = make_selection(arms=arms)
    for name in ("cost_score", "paired_differences", "completion_by_calls", "compaction_rounds", "token_curves", "retention"):
        figure: Any = FIGURES[name].draw(build_table(name, whole))
        texts = [" ".join(text.get_text().split()) for text in figure.findobj(Text)]
        assert all(sum(arm in text for text in texts) for arm in (" ".join(arm.split()) for arm in arms[1:]))
        assert not any("…" in text for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["token_curves", "retention", "heat_map"])
def test_each_row_of_panels_has_the_labels_of_its_axes(name):
    whole = make_selection() if name != "heat_map" else make_cells([(0.4, 0.5, 0.6)] * 9)
    figure: Any = FIGURES[name].draw(build_table(name, whole), width="paper")
    panels = [
        ax for ax in figure.axes if ax.get_visible() and ax.get_subplotspec() is not None and ax.get_xlabel() + ax.get_ylabel()
    ]
    grids = {id(ax.get_subplotspec().get_gridspec()): ax.get_subplotspec().get_gridspec() for ax in panels}
    for gridspec in grids.values():
        inside = [
            ax for ax in figure.axes if ax.get_subplotspec() is not None and ax.get_subplotspec().get_gridspec() is gridspec
        ]
        shown = [ax for ax in inside if ax.get_visible()]
        for row in {ax.get_subplotspec().rowspan.start for ax in shown}:
            assert any(ax.get_ylabel() for ax in shown if ax.get_subplotspec().rowspan.start == row)
        for column in {ax.get_subplotspec().colspan.start for ax in shown}:
            assert any(ax.get_xlabel() for ax in shown if ax.get_subplotspec().colspan.start == column)


def make_cells(scores):
    """Return results whose policies differ in the threshold, with a score for each seed."""
    rows = [
        {"arm": f"t{number}", "seed": seed, "score": score, "success": False}
        | {"policy_json": f'{{"kind": "keep-last", "threshold": 0.{number + 1}, "keep_last": 10, "summarizer": "r{number % 5}"}}'}
        for number, cell in enumerate(scores)
        for seed, score in enumerate(cell)
    ]
    return results(rows)


@pytest.mark.parametrize("baseline", [None, "t0"])
def test_colours_of_a_heat_map_do_not_show_differences_within_the_intervals(baseline):
    table = heat_map.table(make_cells([(0.42, 0.50, 0.58), (0.44, 0.52, 0.60)]), metric="score", baseline=baseline)
    figure = heat_map.draw(table)
    norm: Any = figure.axes[0].images[0].norm
    shades = [float(norm(value)) for value in table["value"]]
    assert abs(shades[1] - shades[0]) < 0.2
    bar = figure.axes[-1]
    labels = [label.get_text() for label in bar.get_yticklabels()]
    assert len(labels) >= 2
    assert len(set(labels)) == len(labels)


def test_labels_of_a_low_heat_map_cover_neither_its_title_nor_its_footer():
    figure: Any = heat_map.draw(heat_map.table(make_cells([(0.4, 0.5, 0.6)])))
    figure.draw_without_rendering()
    others = [text.get_window_extent() for text in (*figure.texts, figure._supxlabel)]
    for ax in figure.axes:
        box = ax.yaxis.label.get_window_extent()
        assert box.x1 <= figure.bbox.width
        assert not any(box.overlaps(other) for other in others)


@pytest.mark.slow
@pytest.mark.parametrize(("success", "words"), [(False, "no trial passed every check"), (True, "every trial passed every check")])
def test_a_panel_of_successes_that_are_all_alike_is_left_out_with_a_word(success, words):
    figure: Any = completion_by_calls.draw(completion_by_calls.table(make_selection(success=success)))
    assert [ax.get_title(loc="left").partition(":")[0] for ax in figure.axes] == ["finished"]
    assert any(words in " ".join(text.get_text().split()) for text in figure.texts)
    both: Any = completion_by_calls.draw(completion_by_calls.table(make_selection()))
    assert len(both.axes) == 2


@pytest.mark.slow
def test_arms_and_repeats_that_a_chart_leaves_out_are_named():
    arms = tuple(f"arm {number:02}" for number in range(15))
    figure: Any = completion_by_calls.draw(completion_by_calls.table(make_selection(arms=arms)))
    texts = " ".join(" ".join(text.get_text() for text in figure.texts).split())
    assert "not shown: arm 12, arm 13, arm 14" in texts
    repeated: Any = completion_by_calls.draw(completion_by_calls.table(make_selection()))
    texts = " ".join(" ".join(text.get_text() for text in repeated.texts).split())
    assert "(without 3 A/A repeats)" in texts
