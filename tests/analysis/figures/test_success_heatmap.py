"""Success heat map: one row per cell with its interval, one panel per summarizer, numbers in every cell."""

import json

import pytest

from harness.analysis.figures import success_heatmap
from harness.errors import UsageError
from tests.analysis.made import grid, results


def test_cells_hold_successes_trials_and_wilsons_interval():
    found = grid()
    table = success_heatmap.table(found)
    assert len(table) == 27
    assert set(table["trials"]) == {2}
    gridded = found.trials.query("policy == 'keep-last' and replicate == 0")
    assert table["successes"].sum() == gridded["success"].sum()
    assert ((table["low"] <= table["share"]) & (table["share"] <= table["high"])).all()


def test_every_cell_shows_what_it_rests_on():
    figure = success_heatmap.draw(success_heatmap.table(results([{"seed": s, "success": s < 3} for s in range(4)])))
    assert [text.get_text() for text in figure.axes[0].texts] == ["3/4", "75 %", "[30, 95]"]


def test_kept_messages_and_thresholds_rise_along_their_axes():
    ax = success_heatmap.draw(success_heatmap.table(grid())).axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["4", "10", "20"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0.5", "0.8", "0.95"]


def test_repeats_that_are_left_out_are_counted_beside_the_trials():
    rows = [{"seed": seed, "replicate": replicate} for seed in range(4) for replicate in (0, 1)]
    figure = success_heatmap.draw(success_heatmap.table(results(rows)))
    assert any("4 trials (without 4 A/A repeats)" in text.get_text() for text in figure.texts)


def test_there_is_a_panel_for_each_summarizer_in_units():
    figure = success_heatmap.draw(success_heatmap.table(grid()))
    titles = [ax.get_title(loc="left") for ax in figure.axes[:3]]
    assert titles == ["summarizer scripted/empty", "summarizer scripted/extractive", "summarizer scripted/oracle"]
    assert figure.axes[0].get_xlabel() == "keep-last (messages)"
    assert figure.axes[0].get_ylabel() == "threshold (share of available window)"
    assert figure.axes[3].get_ylabel() == "successful trials (%)"
    assert "L0 simulated" in {text.get_text() for text in figure.texts}


def test_a_trigger_in_tokens_is_shown_as_it_was_told():
    tokens = {"q0.5": 9_000, "q0.9": 20_000, 12_000: 12_000, None: None}
    rows = [
        {
            "arm": str(told),
            "policy_json": json.dumps(
                {"kind": "keep-last", "threshold": 0.8, "trigger_tokens": number, "keep_last": 10, "summarizer": "same"}
            ),
            "axes_json": json.dumps({"policy.trigger_tokens": told}),
        }
        for told, number in tokens.items()
    ]
    table = success_heatmap.table(results(rows))
    assert list(table["threshold"]) == [0.8, 12_000, "q0.5", "q0.9"]
    ax = success_heatmap.draw(table).axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0.8", "12,000", "q0.5", "q0.9"]
    assert ax.get_ylabel() == "threshold (share of available window, or tokens; q = quantile of uncompressed contexts)"
    numbers = success_heatmap.draw(table.query("threshold == 12_000")).axes[0]
    assert numbers.get_ylabel() == "threshold (tokens)"


def test_a_cell_that_was_not_run_stays_empty():
    found = grid(keeps=(4, 10), thresholds=(0.5, 0.8), summarizers=("scripted/empty",))
    table = success_heatmap.table(found).query("not (threshold == 0.5 and keep_last == 4)")
    assert len(success_heatmap.draw(table).axes[0].texts) == 3 * 3


def test_other_policies_have_no_such_map():
    table = success_heatmap.table(results([{"policy_json": '{"kind":"none"}'}]))
    assert table.empty
    with pytest.raises(UsageError, match="no heat map"):
        success_heatmap.draw(table)


def test_one_ax_holds_one_summarizer():
    from matplotlib.figure import Figure

    table = success_heatmap.table(grid())
    with pytest.raises(UsageError, match="3 summarizers"):
        success_heatmap.draw(table, Figure().subplots())
    ax = Figure().subplots()
    success_heatmap.draw(table.query("summarizer == 'scripted/empty'"), ax)
    assert len(ax.texts) == 27
