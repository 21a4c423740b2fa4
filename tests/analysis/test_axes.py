"""Effects of axes: paired contrasts of arms that differ in one axis, without extra arms."""

import json
from math import sqrt

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import t as student

from harness.analysis.axes import contrast_axes, is_grid_arm
from tests.analysis.selections import grid, results


def row(arm, axes, seed, **more):
    return {"arm": arm, "seed": seed, "axes_json": json.dumps({f"policy.{name}": value for name, value in axes.items()})} | more


def cross(effect, seeds=6):
    """Return a grid of two axes in which `t=2` costs twice as much, and succeeds as `effect` says."""
    return [
        row(
            f"k={k} t={t}", {"k": k, "t": t}, seed, success=effect(k, t, seed), cost_usd=float(t * (1 + k) * (1 + 0.1 * seed * t))
        )
        for k in (1, 2)
        for t in (1, 2)
        for seed in range(seeds)
    ]


def test_an_effect_is_averaged_over_the_arms_within_each_seed():
    effects = contrast_axes(results(cross(lambda k, t, seed: t == 2 or (k == 2 and seed < 3))).trials)
    by_axis = {one.axis: one for one in effects}
    success = by_axis["policy.t"].effects[0]
    assert (by_axis["policy.t"].value, by_axis["policy.t"].baseline, by_axis["policy.t"].arm_pairs) == (2, 1, 2)
    assert success.unit_count == 6
    assert success.value == pytest.approx(0.75)
    cost = by_axis["policy.t"].effects[3]
    assert cost.value == pytest.approx(np.exp(np.mean([np.log(2 * (1 + 0.2 * seed) / (1 + 0.1 * seed)) for seed in range(6)])))
    assert cost.interval.low < cost.value < cost.interval.high


def test_a_seed_with_an_unknown_cost_in_one_arm_is_left_out_and_not_averaged_over_other_arms():
    rows = cross(lambda k, t, seed: True)
    rows[0] |= {"summarizer_cost_usd": None}
    (cost,) = (contrast.effects[3] for contrast in contrast_axes(results(rows).trials) if contrast.axis == "policy.t")
    assert (cost.unit_count, cost.excluded_pairs) == (5, 1)


@pytest.mark.slow
def test_replicates_of_an_arm_count_as_one_seed():
    rows = [
        one | {"replicate": replicate, "config_json": one["axes_json"]}
        for replicate in (0, 1)
        for one in cross(lambda k, t, seed: t == 2)
    ]
    effects, once = (
        [effect for axis in contrast_axes(results(one).trials) for effect in axis.effects]
        for one in (rows, cross(lambda k, t, seed: t == 2))
    )
    assert [(one.metric, one.unit_count) for one in effects] == [(one.metric, one.unit_count) for one in once]
    assert [one.value for one in effects] == pytest.approx([one.value for one in once])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["three-tiers", "k=1 t=2 without pins"])
def test_extra_arms_never_appear_under_a_value(name):
    rows = cross(lambda k, t, seed: True)
    rows += [row(name, {"k": 1, "t": 2}, seed, success=False) for seed in range(6)]
    effects, without = (contrast_axes(results(one).trials) for one in (rows, cross(lambda k, t, seed: True)))
    assert [str(one.effects) for one in effects] == [str(one.effects) for one in without]
    assert {one.arm_pairs for one in effects} == {2}


@pytest.mark.parametrize(
    ("arm", "is_grid"),
    [
        ("k=1 t=2", True),
        ("policy.k=1 policy.t=2", True),
        ("three-tiers", False),
        ("k=1", False),
        ("x k=1 t=2", False),
        ("k=1 t=2 again", False),
        ("k=1 t=3", False),
    ],
)
def test_arms_of_the_grid_are_known_by_their_names(arm, is_grid):
    assert is_grid_arm(arm, {"policy.k": 1, "policy.t": 2, "seed": 0}) is is_grid


@pytest.mark.slow
def test_an_axis_of_one_value_is_left_out_and_a_repeated_arm_forms_no_pair():
    effects = contrast_axes(grid().trials)
    assert {(one.axis, one.arm_pairs) for one in effects} == {
        ("policy.keep_last", 9),
        ("policy.summarizer", 9),
        ("policy.threshold", 9),
    }
    assert contrast_axes(results([row("k=1", {"k": 1}, seed) for seed in range(3)]).trials) == []


def test_a_regression_over_all_axes_has_the_same_estimates_and_a_wider_interval():
    """A GEE clustered by task with bias-reduced errors, t with T − 1 degrees of freedom, tells nothing else about a full grid."""
    tasks, rng = 7, np.random.default_rng(1)
    rows = [
        row(f"k={k} t={t}", {"k": k, "t": t}, seed, task=f"t{task}", score=0.1 * k + 0.05 * t * (task % 3) + 0.3 * rng.random())
        for k in (1, 2)
        for t in (1, 2, 3)
        for task in range(tasks)
        for seed in range(2)
    ]
    frame = pd.DataFrame([row | json.loads(row["axes_json"]) for row in rows])
    values = {"k=2": frame["policy.k"] == 2, "t=2": frame["policy.t"] == 2, "t=3": frame["policy.t"] == 3}
    design = pd.DataFrame({"intercept": 1.0, **values}, dtype=float)
    model = sm.GEE(frame["score"], design, groups=frame["task"], cov_struct=sm.cov_struct.Independence())
    fitted = model.fit(cov_type="bias_reduced")
    for contrast in contrast_axes(results(rows).trials, ["score"]):
        (effect,), name = contrast.effects, f"{contrast.axis[-1]}={contrast.value}"
        assert effect.value == pytest.approx(fitted.params[name])
        half_width = student.ppf(0.975, tasks - 1) * fitted.bse[name]
        assert half_width == pytest.approx(effect.half_width * sqrt(tasks / (tasks - 1)))


def test_values_of_a_policy_are_named_and_not_written_as_tables():
    policies = [{"kind": "none"}, {"kind": "keep-last", "threshold": 0.5}, {"kind": "keep-last", "threshold": 0.8}]
    names = ["none", "keep-last(threshold=0.5)", "keep-last(threshold=0.8)"]
    rows = [
        {"arm": f"policy={name}", "seed": seed, "axes_json": json.dumps({"policy": policy, "seed": seed})}
        for policy, name in zip(policies, names, strict=True)
        for seed in range(3)
    ]
    effects = contrast_axes(results(rows).trials)
    assert [(one.value, one.baseline) for one in effects] == [(names[2], names[1]), ("none", names[1])]
