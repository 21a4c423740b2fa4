"""Heat map: one row per cell with its interval, one panel per summarizer, numbers in every cell, colours of the data."""

import json
from typing import Any

import pytest

from harness.analysis.figures import heat_map
from harness.errors import UsageError
from tests.analysis.selections import grid, results


@pytest.mark.slow
def test_cells_hold_successes_trials_and_wilsons_interval():
    selection = grid()
    table = heat_map.table(selection, metric="success")
    assert len(table) == 27
    assert set(table["n"]) == {2}
    gridded = selection.trials.query("policy == 'keep-last' and replicate == 0")
    assert (table["value"] * table["n"]).sum() == gridded["success"].sum()
    assert ((table["low"] <= table["value"]) & (table["value"] <= table["high"])).all()


@pytest.mark.slow
def test_every_cell_shows_what_it_rests_on():
    figure = heat_map.draw(heat_map.table(results([{"seed": s, "success": s < 3} for s in range(4)])))
    assert [text.get_text() for text in figure.axes[0].texts] == ["75 %", "[30, 95]", "n = 4"]


def test_kept_messages_and_thresholds_rise_along_their_axes():
    ax = heat_map.draw(heat_map.table(grid())).axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["4", "10", "20"]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "0.5\n10.9k tokens",
        "0.8\n17.4k tokens",
        "0.95\n20.7k tokens",
    ]


def test_repeats_that_are_left_out_are_counted_beside_the_trials():
    rows = [{"arm": arm, "seed": seed, "replicate": place} for seed in range(4) for place, arm in enumerate(("a", "A/A"))]
    figure = heat_map.draw(heat_map.table(results(rows)))
    assert any("4 trials (without 4 A/A repeats)" in text.get_text() for text in figure.texts)


def test_replicates_of_an_arm_count():
    rows = [{"seed": seed, "replicate": replicate} for seed in range(4) for replicate in (0, 1)]
    (cell,) = heat_map.table(results(rows)).itertuples()
    assert cell.n == 8


def test_an_extra_arm_is_in_no_cell_of_the_grid():
    axes = {"policy.threshold": 0.8}
    rows = [{"arm": "threshold=0.8", "seed": seed, "axes_json": json.dumps(axes)} for seed in range(4)]
    extra = [row | {"arm": "threshold=0.8 without pins", "success": False, "score": 0.0} for row in rows]
    (cell,) = heat_map.table(results(rows + extra), metric="score").itertuples()
    assert (cell.n, cell.value) == (4, 1.0)


@pytest.mark.slow
def test_there_is_a_panel_for_each_summarizer_in_units():
    figure = heat_map.draw(heat_map.table(grid(), metric="success"))
    titles = [ax.get_title(loc="left") for ax in figure.axes[:3]]
    assert titles == ["summarizer scripted/empty", "summarizer scripted/extractive", "summarizer scripted/oracle"]
    assert figure.axes[0].get_xlabel() == "keep-last (messages)"
    assert figure.axes[0].get_ylabel() == "threshold (share of available window)"
    assert figure.axes[3].get_ylabel() == "success (% of trials)"
    assert "L0 simulated" in {text.get_text() for text in figure.texts}


def test_a_trigger_in_tokens_is_shown_as_configured():
    tokens = {"q0.5": 9_000, "q0.9": 20_000, 12_000: 12_000, None: None}
    rows = [
        {
            "arm": str(threshold),
            "policy_json": json.dumps(
                {"kind": "keep-last", "threshold": 0.8, "trigger_tokens": number, "keep_last": 10, "summarizer": "same"}
            ),
            "axes_json": json.dumps({"policy.trigger_tokens": threshold}),
        }
        for threshold, number in tokens.items()
    ]
    table = heat_map.table(results(rows))
    assert list(table["threshold"]) == [0.8, 12_000, "q0.5", "q0.9"]
    ax = heat_map.draw(table).axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        *("0.8\n17.4k tokens", "12,000", "q0.5\n17.4k tokens", "q0.9\n17.4k tokens")
    ]
    label = " ".join(ax.get_ylabel().split())
    assert label == "threshold (share of available window, or tokens; q = quantile of uncompacted contexts)"
    numbers = heat_map.draw(table.query("threshold == 12_000")).axes[0]
    assert numbers.get_ylabel() == "threshold (tokens)"


def test_a_cell_that_was_not_run_stays_empty():
    selection = grid(keeps=(4, 10), thresholds=(0.5, 0.8), summarizers=("scripted/empty",))
    table = heat_map.table(selection).query("not (threshold == 0.5 and keep_last == 4)")
    assert len(heat_map.draw(table).axes[0].texts) == 3 * 3


def test_a_heat_map_of_policies_without_its_settings_is_refused():
    table = heat_map.table(results([{"policy_json": '{"kind":"none"}'}]))
    assert table.empty
    with pytest.raises(UsageError, match="no heat map"):
        heat_map.draw(table)


def test_axes_for_a_single_summarizer_are_refused_for_several():
    from matplotlib.figure import Figure

    table = heat_map.table(grid())
    with pytest.raises(UsageError, match="3 summarizers"):
        heat_map.draw(table, Figure().subplots())
    ax = Figure().subplots()
    heat_map.draw(table.query("summarizer == 'scripted/empty'"), ax)
    assert len(ax.texts) == 27


def test_score_is_shown_where_success_is_the_same_in_most_cells():
    rows = [{"seed": seed, "success": False, "score": 0.25 * seed} for seed in range(3)]
    assert set(heat_map.table(results(rows))["metric"]) == {"score"}
    assert set(heat_map.table(results(rows), metric="cost")["metric"]) == {"cost"}


@pytest.mark.slow
def test_colours_span_the_data_and_the_widest_interval_and_bright_is_better():
    table = heat_map.table(grid(), metric="score")
    image: Any = heat_map.draw(table).axes[0].images[0]
    assert image.norm.vmin <= table["value"].min()
    assert image.norm.vmax >= table["value"].max()
    assert image.norm.vmax - image.norm.vmin >= (table["high"] - table["low"]).max()
    cost = heat_map.draw(heat_map.table(grid(), metric="cost")).axes[0].images[0]
    assert (image.cmap.name, cost.cmap.name) == ("cividis", "cividis_r")


@pytest.mark.slow
def test_a_baseline_is_subtracted_with_paired_intervals_and_colours_diverge_from_it():
    selection = grid(seeds=(0, 1, 2, 3))
    baseline = "keep_last=10 summarizer=scripted/oracle threshold=0.8"
    table = heat_map.table(selection, metric="score", baseline=baseline)
    own = table.query("summarizer == 'scripted/oracle' and threshold == 0.8 and keep_last == 10").iloc[0]
    assert own["value"] == 0
    assert own[["low", "high"]].isna().all()
    other = table.query("summarizer == 'scripted/empty' and threshold == 0.5 and keep_last == 4").iloc[0]
    scores = selection.trials.set_index(["arm", "seed"])["score"]
    expected = (scores["keep_last=4 summarizer=scripted/empty threshold=0.5"] - scores[baseline]).mean()
    assert other["value"] == pytest.approx(expected)
    assert other["low"] < other["value"] < other["high"]
    norm: Any = heat_map.draw(table).axes[0].images[0].norm
    assert norm.vmin == -norm.vmax < 0


@pytest.mark.slow
def test_a_cost_is_divided_by_that_of_the_baseline():
    table = heat_map.table(grid(), metric="cost", baseline="no compaction")
    assert (table["value"] > 0).all()
    labels = [text.get_text() for text in heat_map.draw(table).axes[0].texts]
    assert labels[0].startswith("×")
