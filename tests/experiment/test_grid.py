"""Tests of the grid: size, order, merging of equal trials, and names of arms."""

import itertools
import json
import math
import tracemalloc
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.codex import Codex
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.errors import UnknownName, UsageError
from harness.experiment.grid import Arm, Grid
from harness.experiment.paths import look_up_value, parse_repeated_arm
from harness.experiment.trial import Trial, from_plain, to_plain
from harness.policies import PRESETS
from harness.revisions import REVISIONS

BASE = Trial(task="flashcards", policy=KeepLast(summarizer="scripted/oracle"), window_tokens=32_768)
VALUES = {
    "seed": st.integers(0, 9),
    "max_steps": st.integers(1, 99),
    "policy.keep_last": st.integers(1, 40),
    "policy.threshold": st.floats(0.01, 1),
    "sandbox.limits.pids": st.integers(8, 999),
}
AXES = st.sets(st.sampled_from(sorted(VALUES))).flatmap(
    lambda paths: st.fixed_dictionaries({path: st.lists(VALUES[path], min_size=1, max_size=3, unique=True) for path in paths})
)


@given(AXES)
def test_a_grid_is_the_product_of_its_axes(axes):
    grid = Grid(BASE, axes)
    assert len(grid) == math.prod(len(values) for values in axes.values())
    points = {tuple(cell.axes[path] for path in sorted(axes)) for cell in grid}
    assert len(points) == len(grid)
    assert all(cell.axes[path] in axes[path] for cell in grid for path in axes)


@given(AXES)
def test_a_grid_runs_once_more_with_each_other_model(axes):
    grid, models = Grid(BASE, axes), ("scripted:typical", "gpt-5")
    repeated = Grid(BASE, axes, other_models=models)
    own = [cell for cell in repeated if not cell.other_model]
    assert [replace(cell, other_model="") for cell in own] == list(grid)
    assert len(repeated) == 3 * len(grid)
    for model in models:
        others = [cell for cell in repeated if cell.other_model == model]
        assert [parse_repeated_arm(cell.arm) for cell in others] == [(cell.arm, model) for cell in own]
        assert [replace(cell.trial, model=BASE.model) for cell in others] == [cell.trial for cell in own]
        assert {cell.trial.model for cell in others} == {model}
    assert len({cell.trial_id for cell in repeated}) == len(repeated)


@pytest.mark.parametrize(
    ("models", "axes", "arms", "message"),
    [
        (["scripted"], {}, [], "other_models: 'scripted' is listed twice, or is the model of the grid"),
        (["a", "a"], {}, [], "other_models: 'a' is listed twice"),
        ([" "], {}, [], "other_models: must be names of models"),
        (["a)"], {}, [], "other_models: must be names of models"),
        (["a"], {"model": ["b"]}, [], "so axes.model cannot set the model, too"),
        (["a"], {}, [Arm(name="x", trial={"model": "b"})], "so arms.x cannot set the model, too"),
        (["a"], {}, [Arm(name="x (with a)", trial={"max_steps": 3})], "'x .with a.' is the name of an arm that other_models"),
    ],
)
def test_other_models_that_would_mix_results_are_refused(models, axes, arms, message):
    with pytest.raises(UsageError, match=message):
        Grid(BASE, axes, arms, other_models=models)


@given(AXES)
def test_the_order_of_the_axes_does_not_matter(axes):
    backwards = dict(reversed(axes.items()))
    assert [cell.trial for cell in Grid(BASE, axes)] == [cell.trial for cell in Grid(BASE, backwards)]


@given(AXES)
def test_index_iteration_and_length_agree_and_ids_are_unique(axes):
    grid = Grid(BASE, axes)
    assert [grid[place] for place in range(len(grid))] == list(grid)
    assert len({cell.trial.trial_id for cell in grid}) == len(grid)
    assert grid[-1] == list(grid)[-1]


MORE_AXES = st.tuples(AXES, st.booleans(), st.sampled_from([(), ("flashcards", "slugify")]), st.booleans()).map(
    lambda drawn: (
        drawn[0] | ({"world.steps": [None, 40]} if drawn[1] else {}) | ({"task": list(drawn[2])} if drawn[2] else {}),
        [Arm(name="other seed", trial={"seed": 77})] if drawn[3] else [],
    )
)


@pytest.mark.slow
@given(MORE_AXES)
def test_trials_created_on_demand_equal_those_of_the_tables(axes_and_arms):
    axes, arms = axes_and_arms
    grid = Grid(BASE, axes, [Arm(name="control", trial={"policy": {"kind": "none"}}), *arms])
    seen = []
    for cell in grid:
        table = to_plain(cell.trial)
        assert from_plain(table) == cell.trial
        assert cell.trial_id == cell.trial.trial_id
        assert cell.axes == {path: look_up_value(table, path) for path in sorted(axes)}
        assert list(cell.axes) == sorted(axes)
        seen.append(cell)
    assert len({cell.trial_id for cell in seen}) == len(seen) == len(grid)
    assert list(grid.iter_trials()) == [cell.trial for cell in seen]
    assert sum(count for _, count in grid.iter_seed_groups()) == len(seen)
    groups, counts = Counter(replace(cell.trial, seed=0) for cell in seen), Counter[Trial]()
    for trial, count in grid.iter_seed_groups():
        assert trial in grid.iter_trials()
        counts[replace(trial, seed=0)] += count
    assert list(counts.items()) == list(groups.items())
    assert list(grid.arms) == list(dict.fromkeys(cell.arm for cell in seen))
    assert dict.fromkeys(grid.iter_problems()) == dict.fromkeys((cell.trial.problem, cell.trial.seed) for cell in seen)
    assert grid[1:3] == seen[1:3]


@pytest.mark.slow
def test_a_grid_of_a_million_trials_holds_none_of_them():
    tracemalloc.start()
    try:
        grid = Grid(BASE, {"seed": list(range(10_000)), "policy.keep_last": list(range(1, 101))})
        assert len(grid) == 1_000_000
        assert (grid[999_999].trial.seed, grid[-1].axes["policy.keep_last"]) == (9_999, 100)
        assert len({cell.trial_id for cell in itertools.islice(grid, 2_000)}) == 2_000
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "axes", [{"seed": [0, -1]}, {"seed": [0, 1.5]}, {"world.steps": [3, "many"]}, {"task": ["flashcards", 7]}]
)
def test_every_value_of_a_task_seed_or_world_is_checked(axes):
    (path,) = axes
    with pytest.raises(UsageError, match=rf"axes.{path}: must be"):
        Grid(BASE, {**axes, "policy.keep_last": [4, 10]})


def test_worlds_that_are_equal_are_one_cell_of_each_arm():
    assert len(Grid(BASE, {"world": [{}, {"steps": None}], "policy.keep_last": [4, 10]})) == 2


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("seed", [0, 0]),
        ("seed", [1, 2, 1.0]),
        ("policy", ["none", {"kind": "none"}]),
        ("policy", [KeepLast(), KeepLast()]),
        ("policy", ["gemini-cli-simplified", "seed-gemini"]),
    ],
)
def test_a_value_listed_twice_on_an_axis_is_refused(path, values):
    with pytest.raises(UsageError, match=f"axes.{path}: .* is listed twice; .* axis `replicate`"):
        Grid(BASE, {path: values})


def test_a_value_that_a_policy_refuses_is_reported_without_the_rest_of_the_policy():
    with pytest.raises(UsageError, match=r"threshold=2\.0 must be above 0") as caught:
        Grid(BASE, {"policy.threshold": [0.5, 2.0]})
    assert "summarizer" not in str(caught.value)


def test_equal_configurations_are_one_cell():
    assert len(Grid(BASE, {"seed": [0, 1]}, [Arm(name="base again", trial={"policy": {"keep_last": 10}})])) == 2


def test_overlapping_grids_share_the_ids_of_what_they_have_in_common():
    one = {cell.trial.trial_id for cell in Grid(BASE, {"seed": [0, 1], "policy.keep_last": [4, 10]})}
    other = {cell.trial.trial_id for cell in Grid(BASE, {"seed": [1, 2], "policy.keep_last": [10, 20]})}
    assert len(one & other) == 1


def test_every_block_of_a_seed_has_every_arm_and_blocks_stay_together():
    arms = [Arm(name="control", trial={"policy": {"kind": "none"}}), Arm(name="A/A", trial={"replicate": 1})]
    grid = Grid(BASE, {"policy.threshold": [0.5, 0.9], "seed": [3, 4]}, arms)
    assert [cell.trial.seed for cell in grid] == [3] * 4 + [4] * 4
    assert Counter(cell.arm for cell in grid) == {"threshold=0.5": 2, "threshold=0.9": 2, "control": 2, "A/A": 2}
    control = next(cell for cell in grid if cell.arm == "control")
    assert control.trial.policy == NoCompaction()
    assert control.axes == {"policy.threshold": None, "seed": 3}


def test_the_name_of_an_arm_is_the_same_for_all_seeds_and_tells_the_arms_apart():
    grid = Grid(BASE, {"policy.threshold": [0.5, 0.9], "policy.keep_last": [4, 9], "seed": [0, 1, 2]})
    assert set(Counter(cell.arm for cell in grid).values()) == {3}
    assert len({cell.arm for cell in grid}) == 4


def test_a_whole_policy_can_be_an_axis():
    grid = Grid(BASE, {"policy": [{"kind": "none"}, {"kind": "keep-last", "keep_last": 3}]})
    assert [cell.trial.policy for cell in grid] == [NoCompaction(), KeepLast(keep_last=3)]
    assert [cell.arm for cell in grid] == ["policy=none", "policy=keep-last"]


def test_the_policy_and_one_of_its_fields_can_both_be_axes():
    grid = Grid(BASE, {"policy": ["codex", {"kind": "keep-last", "keep_last": 3}], "policy.threshold": [0.5, 0.7]})
    policies = [cell.trial_table["policy"] for cell in grid]
    assert [(policy["kind"], policy["threshold"]) for policy in policies if isinstance(policy, dict)] == [
        (kind, threshold) for kind in ("codex@2026", "keep-last") for threshold in (0.5, 0.7)
    ]
    assert grid[2].trial.policy == KeepLast(keep_last=3, threshold=0.5)
    assert grid[0].arm == "policy=codex@2026 threshold=0.5"


def test_a_field_that_a_policy_lacks_cannot_vary_together_with_the_policy():
    words = r"axes: 'policy\.threshold' cannot be varied together .* 'none' has no field 'threshold'; add 'none' as an extra arm"
    with pytest.raises(UsageError, match=words):
        Grid(BASE, {"policy": ["keep-last", "none"], "policy.threshold": [0.5, 0.8]})


def test_axes_of_a_notebook_may_hold_policies_and_numbers_of_numpy():
    policies = [KeepLast(threshold=0.5), NoCompaction()]
    grid = Grid(BASE, axes={"policy": policies, "seed": list(np.arange(2)), "window_tokens": [np.int64(32_768)]})
    assert [(cell.trial.policy, cell.trial.seed) for cell in grid] == [(policy, seed) for seed in (0, 1) for policy in policies]
    as_plan: dict[str, list[object]] = {
        "policy": [{"kind": "keep-last", "threshold": 0.5}, "none"],
        "seed": [0, 1],
        "window_tokens": [32_768],
    }
    assert [cell.trial.trial_id for cell in grid] == [cell.trial.trial_id for cell in Grid(BASE, axes=as_plan)]


@pytest.mark.parametrize("policy", [Codex(), "codex", {"kind": "codex"}])
def test_an_arm_takes_a_policy_its_name_or_its_table(policy):
    arm = Arm(name="codex", trial={"policy": policy})
    assert json.dumps(dict(arm.trial))  # the plan of an experiment is stored as JSON
    assert [cell.trial_id for cell in Grid(BASE, {}, [arm])] == [BASE.trial_id, replace(BASE, policy=Codex()).trial_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unregistered(KeepLast):
    kind: str = "my-own"  # type: ignore[assignment]


def make_grid(base, axes=(), arms=()):
    return Grid(replace(BASE, policy=base), {"policy": list(axes)} if axes else {}, arms)


CONTROL = Arm(name="control", trial={"max_steps": 9})


@pytest.mark.parametrize(
    ("place", "grid"),
    [
        ("base", {"base": Unregistered()}),
        ("base", {"base": Unregistered(), "arms": [CONTROL]}),
        ("base", {"base": Unregistered(), "axes": ["codex"], "arms": [CONTROL]}),
        ("axes", {"base": "codex", "axes": ["none", Unregistered()]}),
        ("arms.own", {"base": "codex", "arms": [Arm(name="own", trial={"policy": Unregistered()})]}),
    ],
)
def test_a_policy_that_is_not_registered_is_reported_with_its_place(place, grid):
    with pytest.raises(UnknownName, match=f"unknown policy in {place}.policy: 'my-own'"):
        make_grid(**grid)


@pytest.mark.parametrize("values", [3, "0.5", {"a": 1}])
def test_an_axis_that_is_no_list_is_refused(values):
    with pytest.raises(UsageError, match=r"axes.seed: must be a list of values .*; write a single value as \[value\]"):
        Grid(BASE, axes={"seed": values})


def test_policies_of_one_kind_on_an_axis_are_named_by_their_differences():
    tables = [{"kind": "none"}, {"kind": "keep-last", "keep_last": 4}, {"kind": "keep-last", "keep_last": 9, "threshold": 0.5}]
    grid = Grid(BASE, {"policy": tables, "seed": [0, 1]})
    default = f"{KeepLast().threshold:g}"
    names = ["policy=none", f"policy=keep-last(keep_last=4,threshold={default})", "policy=keep-last(keep_last=9,threshold=0.5)"]
    assert Counter(cell.arm for cell in grid) == dict.fromkeys(names, 2)


def test_a_field_that_is_also_an_axis_is_named_once():
    grid = Grid(BASE, {"policy": [{"kind": "keep-last", "keep_last": 1}], "policy.keep_last": [4, 9]})
    assert [cell.arm for cell in grid] == ["policy=keep-last keep_last=4", "policy=keep-last keep_last=9"]


def test_numbers_that_are_nearly_equal_have_names_of_their_own():
    grid = Grid(BASE, {"policy.threshold": [0.5, 0.50000001]})
    assert [cell.arm for cell in grid] == ["threshold=0.5", "threshold=0.50000001"]


def test_an_arm_named_like_another_configuration_is_refused():
    axes: dict[str, list[object]] = {"policy.threshold": [0.5, 0.9], "seed": [0, 1]}
    with pytest.raises(UsageError, match=r"'threshold=0\.5' names two configurations that differ in .*keep_last"):
        Grid(BASE, axes, [Arm(name="threshold=0.5", trial={"policy.keep_last": 3})])


def test_replicates_of_a_configuration_belong_to_its_arm():
    axes: dict[str, list[object]] = {"policy.threshold": [0.5, 0.9], "replicate": [0, 1, 2], "seed": [0, 1]}
    again = {"policy.threshold": 0.9, "replicate": 4}
    grid = Grid(BASE, axes, [Arm(name="A/A", trial={"replicate": 3}), Arm(name="threshold=0.9", trial=again)])
    counts = Counter(cell.arm for cell in grid)
    assert counts == {"threshold=0.5": 6, "threshold=0.9": 6 + 2, "A/A": 2}
    assert len({cell.trial_id for cell in grid}) == 16


def test_a_backend_for_all_trials_goes_before_base_axes_and_arms():
    arms = [Arm(name="local", trial={"policy.keep_last": 3, "sandbox.backend": "local"})]
    grid = Grid(BASE, {"sandbox.backend": ["local", "docker"]}, arms, backend="bubblewrap")
    assert [(cell.arm, cell.trial.sandbox.backend) for cell in grid] == [
        ("backend=bubblewrap", "bubblewrap"),
        ("local", "bubblewrap"),
    ]


def test_a_grid_without_axes_contains_only_the_base_trial():
    (cell,) = Grid(BASE, {})
    assert cell.trial == BASE
    assert cell.arm == "keep-last"


def test_an_arm_without_changes_names_the_base_and_adds_no_trial():
    seeds = {"seed": [0, 1]}
    changed = Arm(name="early", trial={"policy.threshold": 0.5})
    unnamed, named = (Grid(BASE, seeds, arms) for arms in ([changed], [changed, Arm(name="base")]))
    assert [cell.arm for cell in named] == ["base", "early"] * 2
    assert [cell.trial_id for cell in named] == [cell.trial_id for cell in unnamed]
    varied = Grid(BASE, {"policy.threshold": [0.8, 0.5]}, [Arm(name="base")])
    assert [cell.arm for cell in varied] == ["threshold=0.8", "threshold=0.5"]


@pytest.mark.parametrize(
    ("axes", "kind", "words"),
    [
        ({"policy.treshold": [0.5]}, UnknownName, r"path in axes: 'policy\.treshold'; did you mean 'policy\.threshold'"),
        ({"polcy.threshold": [0.5]}, UnknownName, "polcy"),
        ({"policy.threshold": ["high"]}, UsageError, r"axes\.policy\.threshold: .*'high'"),
        ({"policy.threshold": [0.5, 2]}, UsageError, "threshold=2.* at most 1"),
        ({"seed": []}, UsageError, "axes.seed: at least one value"),
        ({"seed": ["0"]}, UsageError, "axes.seed: must be a number"),
    ],
)
def test_axes_that_cannot_be_are_refused(axes, kind, words):
    with pytest.raises(kind, match=words):
        Grid(BASE, axes)


@pytest.mark.parametrize(
    ("arms", "words"),
    [
        ([Arm(name="a", trial={"polcy": {"kind": "none"}})], "path in arms.a: 'polcy'; did you mean 'policy'"),
        ([Arm(name="a"), Arm(name="a")], "needs a unique name"),
        ([Arm(name=" ")], "needs a unique name"),
    ],
)
def test_arms_that_cannot_be_are_refused(arms, words):
    with pytest.raises(UsageError, match=words):
        Grid(BASE, {}, arms)


def test_ten_thousand_trials_are_expanded_lazily_enough_to_wait_for():
    assert len(Grid(BASE, {"seed": list(range(1000)), "policy.keep_last": list(range(1, 11))})) == 10_000


def test_knobs_of_the_world_are_problems_on_which_every_arm_is_run():
    grid = Grid(
        BASE, {"world.steps": [50, 100], "policy.keep_last": [4, 10]}, [Arm(name="control", trial={"policy": {"kind": "none"}})]
    )
    assert sorted({cell.arm for cell in grid}) == ["control", "keep_last=10", "keep_last=4"]
    for arm in ("control", "keep_last=4"):
        assert [cell.trial.world.steps for cell in grid if cell.arm == arm] == [50, 100]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(PRESETS))
def test_a_grid_gives_its_trials_the_ids_that_they_have_alone(kind):
    axes: dict[str, list[object]] = {
        "seed": [0, 1],
        "max_steps": [7, 50],
        "nominal_window_tokens": [None, 90_000],
        "sandbox": [{"backend": "local"}, {"image": "x:y"}],
    }
    base = Trial(task="long-march", policy=PRESETS[kind](), window_tokens=30_000)
    grid = Grid(base, axes, [Arm(name="of the file", trial={"task": f"{__file__}:nothing"})], backend="docker")
    assert len(grid) == 18
    assert [cell.trial_id for cell in grid] == [cell.trial.trial_id for cell in grid]
    assert {cell.trial.sandbox.backend for cell in grid} == {"docker"}


def test_values_that_are_equal_but_written_in_another_way_stay_apart():
    grid = Grid(Trial(task="flashcards", policy="keep-last"), {"command_timeout_seconds": [1, 2.0]})
    assert [cell.trial_id for cell in grid] == [cell.trial.trial_id for cell in grid]
    assert [cell.axes["command_timeout_seconds"] for cell in grid] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("part", "axes"),
    [
        ("tool explore", {"explore": [False, True]}),
        ("explorer", {"explore_model": ["scripted", "openai/gpt-5"]}),
        ("reader tolerant", {"reader": ["exact", "tolerant"]}),
        ("agent", {"model": ["scripted", "openai/gpt-5"]}),
        ("summarizer empty", {"policy.summarizer": ["scripted/empty", "scripted/oracle"]}),
    ],
)
def test_a_grid_gives_trials_the_revisions_of_their_parts(part, axes, monkeypatch):
    monkeypatch.setattr("harness.revisions.REVISIONS", {**REVISIONS, part: 99})
    grid = Grid(Trial(task="flashcards", policy="keep-last", explore=True), axes)
    assert [cell.trial_id for cell in grid] == [cell.trial.trial_id for cell in grid]
    assert sorted(cell.trial.revisions.get(part, 0) for cell in grid) == [0, 99]
