"""Reliability: pass@k rises and pass^k falls with k, per instance and averaged over instances."""

import json
from typing import Any

import pytest

from harness.analysis.figures import reliability
from harness.errors import UsageError
from tests.analysis.selections import results


def make_selection(successes=(3, 1), replicates=4):
    return results(
        [
            {"seed": seed, "replicate": replicate, "success": replicate < won}
            for seed, won in enumerate(successes)
            for replicate in range(replicates)
        ]
    )


def test_estimates_are_means_over_the_instances():
    table = reliability.table(make_selection())
    values = table.pivot_table(index="k", columns="measure", values="value")
    assert values["pass@k"].tolist() == pytest.approx([0.5, (1 + 0.5) / 2, (1 + 0.75) / 2, 1.0])
    assert values["pass^k"].tolist() == pytest.approx([0.5, 0.25, 0.125, 0.0])
    assert set(table["instances"]) == {2}


def test_a_repeated_arm_is_a_replicate_of_the_arm_with_the_same_policy():
    rows = [
        {"arm": arm, "replicate": place, "seed": seed, "success": seed == place}
        for place, arm in enumerate(("base", "A/A"))
        for seed in (0, 1)
    ]
    table = reliability.table(results(rows))
    assert set(table["group"]) == {"base"}
    assert table["k"].max() == 2


@pytest.mark.parametrize("configured", [True, False])
def test_arms_with_other_settings_are_no_replicates_of_each_other(configured):
    """Trials of another study have no recorded configuration."""
    rows = [
        {"arm": arm, "replicate": run, "seed": seed, "success": arm == "good"}
        | {"config_json": json.dumps({"explore": arm == "good", "replicate": run}) if configured else ""}
        for arm in ("good", "bad")
        for seed in (0, 1)
        for run in (0, 1)
    ]
    table = reliability.table(results(rows))
    assert table["k"].max() == 2
    assert table.groupby("group")["value"].agg(["min", "max"]).T.to_dict() == {
        "bad": {"min": 0.0, "max": 0.0},
        "good": {"min": 1.0, "max": 1.0},
    }


def test_both_measures_are_drawn_with_their_instances():
    figure: Any = reliability.draw(reliability.table(make_selection()))
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["pass@k: at least one of k succeeds", "pass^k: all of k succeed"]
    assert any("2 instances" in text.get_text() for text in figure.texts)


def test_a_chart_is_refused_if_all_replicates_have_the_same_outcome():
    with pytest.raises(UsageError, match="some succeeded and others failed"):
        reliability.draw(reliability.table(make_selection(successes=(4, 4))))


def test_seeds_are_no_replicates():
    with pytest.raises(UsageError, match="no instance of a task has several replicates"):
        reliability.draw(reliability.table(results([{"seed": 0}, {"seed": 1}])))
