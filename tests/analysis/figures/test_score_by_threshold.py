"""Score over threshold: balanced groups of arms, one line per task, and an isotonic fit from six thresholds on."""

import json
from typing import Any

import numpy as np
import pytest

from harness.analysis.figures import score_by_threshold
from harness.errors import UsageError
from tests.analysis.selections import results


def make_rows(scores, tasks=("x", "y"), **policy):
    """Return results with the given mean score at each threshold, and two seeds that deviate from it in opposite directions."""
    return [
        {"task": task, "seed": seed, "arm": f"{threshold} {policy}", "score": score + (0.05 if seed else -0.05), "success": False}
        | {"policy_json": json.dumps({"kind": "keep-last", "threshold": threshold, "keep_last": 4} | policy)}
        | {"threshold_tokens": int(threshold * 10_000), "window_tokens": 20_000}
        for threshold, score in scores.items()
        for task in tasks
        for seed in (0, 1)
    ]


def test_the_mean_and_each_task_have_a_row_per_threshold_as_a_share_of_the_whole_window():
    table = score_by_threshold.table(results(make_rows({0.5: 0.3, 0.8: 0.6})))
    mean = table[table["task"] == ""]
    assert mean["threshold"].tolist() == [0.25, 0.4]
    assert mean["value"].tolist() == pytest.approx([0.3, 0.6])
    assert (mean["low"] < mean["value"]).all()
    assert sorted(table["task"].unique()) == ["", "x", "y"]


def test_arms_that_differ_in_more_than_the_threshold_are_not_pooled():
    alone = make_rows({0.8: 0.9}, keep_last=30)
    table = score_by_threshold.table(results(make_rows({0.5: 0.3, 0.8: 0.6}) + alone))
    assert table.loc[table["task"] == "", "value"].tolist() == pytest.approx([0.3, 0.6])
    both = make_rows({0.5: 0.5, 0.8: 0.9}, keep_last=30)
    table = score_by_threshold.table(results(make_rows({0.5: 0.3, 0.8: 0.6}) + both))
    mean = table[table["task"] == ""]
    assert mean["value"].tolist() == pytest.approx([0.4, 0.75])
    assert mean["groups"].tolist() == [2, 2]


def test_arms_with_another_setting_than_the_policy_are_not_pooled():
    rows = make_rows({0.5: 0.3, 0.8: 0.6})
    others = [row | {"arm": f"{row['arm']} explore", "config_json": '{"explore": true}'} for row in rows]
    table = score_by_threshold.table(results(rows + others))
    assert table.loc[table["task"] == "", "groups"].tolist() == [2, 2]


def test_more_groups_of_arms_do_not_count_as_more_seeds():
    once = score_by_threshold.table(results(make_rows({0.5: 0.3, 0.8: 0.6})))
    rows = [row for keep in (4, 10, 20, 30) for row in make_rows({0.5: 0.3, 0.8: 0.6}, keep_last=keep)]
    often = score_by_threshold.table(results(rows))
    assert often["high"].dropna().tolist() == pytest.approx(once["high"].dropna().tolist())


@pytest.mark.slow
def test_the_fit_is_isotonic_and_needs_six_thresholds():
    values = dict(zip(np.linspace(0.3, 0.8, 6).round(2).tolist(), [0.2, 0.3, 0.25, 0.5, 0.45, 0.7], strict=True))
    fit = score_by_threshold.table(results(make_rows(values))).query("task == ''")["fit"]
    assert fit.tolist() == pytest.approx([0.2, 0.275, 0.275, 0.475, 0.475, 0.7])
    falling = dict(zip(values, list(values.values())[::-1], strict=True))
    assert (np.diff(score_by_threshold.table(results(make_rows(falling))).query("task == ''")["fit"]) <= 0).all()
    assert score_by_threshold.table(results(make_rows(dict(list(values.items())[:5]))))["fit"].isna().all()


def test_tasks_are_named_and_thresholds_have_tokens_and_share():
    figure: Any = score_by_threshold.draw(score_by_threshold.table(results(make_rows({0.5: 0.3, 0.8: 0.6}))))
    (ax,) = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["x", "y", "mean over tasks"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["25 %\n5k", "40 %\n8k"]


def test_a_chart_with_a_single_threshold_is_refused():
    with pytest.raises(UsageError, match="no two arms differ in the threshold only"):
        score_by_threshold.draw(score_by_threshold.table(results(make_rows({0.5: 0.3}))))
