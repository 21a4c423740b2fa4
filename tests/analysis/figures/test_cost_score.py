"""Cost against score: means and paired intervals of each arm, and the Pareto front of the arms that can be chosen."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.analysis.effects import estimate_effect
from harness.analysis.figures import cost_score
from harness.analysis.figures.style import render
from harness.analysis.validity import pair_trials
from harness.errors import UnknownName, UsageError
from tests.analysis.selections import grid, name_writers, results


def make_selection(**points):
    """Return results in which each arm has the given cost and score, with equal spread over four seeds."""
    rows = [
        {"arm": arm, "seed": seed, "cost_usd": cost + 0.01 * seed, "score": score + 0.01 * seed, "success": False}
        | {"summarizer_cost_usd": 0.0, "policy": "none" if arm == "control" else "keep-last"}
        for arm, (cost, score) in points.items()
        for seed in range(4)
    ]
    return results(rows)


def test_points_are_the_means_of_the_arms_and_bars_the_paired_intervals():
    selection = make_selection(control=(1.0, 0.5), better=(2.0, 0.8))
    selection = replace(selection, trials=selection.trials.assign(score=[0.5, 0.5, 0.6, 0.6, 0.7, 0.8, 0.9, 0.9]))
    table = cost_score.table(selection)
    assert set(table["metric"]) == {"score"}
    assert set(table["baseline"]) == {"control"}
    means = selection.trials.groupby("arm")["score"].mean()
    for row in table.itertuples():
        assert row.value == pytest.approx(means[row.arm])
    arm, baseline = (selection.trials[selection.trials["arm"] == name] for name in ("better", "control"))
    effect = estimate_effect(pair_trials(arm, baseline, ["score"]), "score")
    better = table.set_index("arm").loc["better"]
    bars = [min(max(means["control"] + bound, 0.0), 1.0) for bound in effect.interval]
    assert (better["low"], better["high"]) == pytest.approx(bars)
    assert np.isnan(table.set_index("arm").loc["control", "low"])


def test_a_line_joins_a_policy_with_the_control_that_retained_as_many_tokens():
    points: dict[str, Any] = {"none": (1.0, 0.5), "codex": (2.0, 0.8), "recency@tokens of codex": (1.5, 0.6), "pi": (3.0, 0.7)}
    table = cost_score.table(make_selection(**points))
    figure = cost_score.draw(table)
    ax = figure.axes[0]
    means = table.set_index("arm")[["cost_usd", "value"]]
    joined = [[tuple(point) for point in np.asarray(line.get_xydata())] for line in ax.lines if line.get_zorder() == 1.8]
    assert joined == [[tuple(means.loc["recency@tokens of codex"]), tuple(means.loc["codex"])]]
    assert "equally many tokens" in render(figure, "svg").decode()
    plain = cost_score.draw(table[table["arm"] != "recency@tokens of codex"])
    assert not [line for line in plain.axes[0].lines if line.get_zorder() == 1.8]


def test_a_baseline_whose_trials_were_all_excluded_leaves_an_empty_table():
    selection = make_selection(control=(1.0, 0.5), better=(2.0, 0.8), other=(2.0, 0.7))
    lost = selection.trials["arm"] == "control"
    selection = replace(selection, trials=selection.trials.assign(status=selection.trials["status"].where(~lost, "crashed")))
    assert cost_score.table(selection).empty


def test_amounts_are_shown_as_means_too():
    selection = make_selection(control=(1.0, 0.5), other=(2.0, 0.8))
    selection = replace(selection, trials=selection.trials.assign(steps=[10, 20, 30, 100, 5, 50, 40, 80]))
    table = cost_score.table(selection, metric="steps").set_index("arm")
    assert table["value"].to_dict() == {"control": 40.0, "other": 43.75}
    arm, baseline = (selection.trials[selection.trials["arm"] == name] for name in ("other", "control"))
    effect = estimate_effect(pair_trials(arm, baseline, ["steps"]), "steps", scale="difference")
    assert (table.loc["other", "low"], table.loc["other", "high"]) == pytest.approx(
        [max(40.0 + one, 0.0) for one in effect.interval]
    )


def test_the_front_has_the_arms_that_no_other_beats_in_both():
    table = cost_score.table(make_selection(control=(1, 0.1), cheap=(0.5, 0.1), good=(2, 0.9), dear=(3, 0.9), middle=(1.5, 0.5)))
    assert set(table.loc[table["is_on_front"], "arm"]) == {"cheap", "good", "middle"}


@pytest.mark.slow
def test_an_arm_that_knows_the_future_is_shown_but_never_on_the_front():
    selection = name_writers(grid(seeds=(0, 1, 2)))
    table = cost_score.table(selection)
    assert table["is_bound"].sum() == 9
    assert not (table["is_bound"] & table["is_on_front"]).any()


@pytest.mark.slow
def test_few_arms_are_named_and_many_are_distinguished_by_their_axes():
    few: Any = cost_score.draw(cost_score.table(make_selection(control=(1, 0.1), other=(2, 0.9))))
    assert [text.get_text() for text in few.legends[0].get_texts()] == ["control (baseline)", "other", "Pareto front"]
    many: Any = cost_score.draw(cost_score.table(grid()))
    labels = [text.get_text() for text in many.legends[0].get_texts()]
    assert {"summarizer scripted/empty", "keep_last 4", "keep_last 20"} <= set(labels)
    assert "Front (keep_last, summarizer, threshold): 1:" in many.legends[0].get_title().get_text().replace("\n", " ")
    assert len(labels) == 3 * 3 + 2 + 1  # three values of three settings, two arms outside of the grid, the front


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["success", "tokens", "steps"])
def test_every_metric_can_be_drawn_against_cost(metric):
    table = cost_score.table(grid(), metric=metric)
    figures = [cost_score.draw(table, theme="dark", width="paper") for _ in range(2)]
    assert figures[0].axes[0].get_ylabel().startswith(f"{metric} (")
    assert render(figures[0]) == render(figures[1])


def test_a_chart_needs_two_arms_with_known_costs():
    table = cost_score.table(make_selection(control=(1, 0.5)))
    with pytest.raises(UsageError, match="no two arms with known costs"):
        cost_score.draw(table)
    assert cost_score.table(make_selection(control=(float("nan"), 0.5), other=(1, 0.5))).empty


def test_unknown_names_are_refused():
    with pytest.raises(UnknownName, match="other"):
        cost_score.table(make_selection(control=(1, 0.5), other=(1, 0.5)), baseline="othr")
    with pytest.raises(UnknownName, match="score"):
        cost_score.table(make_selection(control=(1, 0.5), other=(1, 0.5)), metric="scores")
