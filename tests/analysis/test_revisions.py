"""Results of different revisions are refused wherever trials are paired or pooled, and each arm is labelled."""

import json

import pytest

import harness
from harness.analysis.arms import order_arms, select_current
from harness.analysis.figures import axis_effects, cost_ratios, cost_score, heat_map, paired_differences, score_by_threshold
from harness.analysis.pilot import measure_assumptions
from harness.analysis.revisions import list_revisions, refuse_mixed_revisions
from harness.analysis.validity import find_repeats
from harness.errors import UsageError
from harness.reporting.best_arm import estimate_best_arm
from tests.analysis.selections import results

OLD, NEW = json.dumps({"policy keep-last": 1, "prices": 0}), json.dumps({"policy keep-last": 1, "prices": 1})
MIXED = r"different revisions \(prices: 0 and 1\), so they are not comparable and are never pooled"


def make_results(*revisions, seeds=12):
    """Return results with one arm for each text of revisions, named `a`, `b`, ..."""
    arms = zip("abcdef", revisions, strict=False)
    return results(
        [
            {
                "arm": arm,
                "seed": seed,
                "success": seed % 2 == 0,
                "score": seed / 12,
                "revisions": text,
                "trial_id": f"{arm}{seed}",
            }
            for arm, text in arms
            for seed in range(seeds)
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "pool",
    [
        lambda tables: harness.compare(tables, "a", "b"),
        lambda tables: harness.report(tables),
        lambda tables: estimate_best_arm(tables, "score"),
        lambda tables: measure_assumptions(tables.trials, "pilot"),
        lambda tables: paired_differences.table(tables, baseline="a"),
        lambda tables: cost_score.table(tables, baseline="a"),
        lambda tables: cost_ratios.table(tables, baseline="a"),
        lambda tables: heat_map.table(tables, baseline="a"),
    ],
)
def test_trials_of_different_revisions_are_not_pooled(pool):
    with pytest.raises(UsageError, match=MIXED):
        pool(make_results(OLD, NEW))
    pool(make_results(OLD, OLD))


def test_an_arm_with_two_revisions_is_refused():
    tables = make_results(OLD)
    tables.trials.loc[0, "revisions"] = NEW
    with pytest.raises(UsageError, match=MIXED):
        refuse_mixed_revisions(tables.trials)


def test_parts_that_only_one_arm_uses_may_have_any_revision():
    tables = make_results(OLD, json.dumps({"policy codex": 2, "prices": 0, "explorer": 3}))
    assert harness.compare(tables, "a", "b").counts.pairs == 12


def test_a_trial_of_another_revision_repeats_nothing():
    for text, repeats in ((OLD, {"b": "a"}), (NEW, {})):
        tables = make_results(OLD, text)
        trials = tables.trials.assign(replicate=(tables.trials["arm"] == "b").astype(int))
        assert find_repeats(trials) == repeats


def test_trials_of_other_studies_have_no_revisions():
    trials = make_results("", "").trials
    assert not any(list_revisions(trials))
    refuse_mixed_revisions(trials)


def test_arms_of_earlier_revisions_are_no_arms_of_today():
    rows = [
        {"arm": "a (earlier revision 0a1b2c)"},
        {"arm": "a (earlier plan 0a1b2c)"},
        {"arm": "z"},
        {"arm": "(earlier revision x)"},
    ]
    trials = results(rows).trials
    assert set(select_current(trials)["arm"]) == {"z", "(earlier revision x)"}
    assert order_arms(trials)[:2] == ["(earlier revision x)", "z"]


@pytest.mark.parametrize("figure", [axis_effects, score_by_threshold])
def test_figures_of_an_axis_refuse_trials_of_different_revisions(figure):
    def make(second):
        rows = [
            {"arm": f"threshold={value}", "seed": seed, "axes_json": json.dumps({"policy.threshold": value}), "revisions": text}
            | {"threshold_tokens": int(value * 20_000), "policy_json": json.dumps({"kind": "keep-last", "threshold": value})}
            for value, text in ((0.5, OLD), (0.8, second))
            for seed in range(12)
        ]
        return results(rows)

    assert len(figure.table(make(OLD)))
    with pytest.raises(UsageError, match=MIXED):
        figure.table(make(NEW))
