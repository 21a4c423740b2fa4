"""Trials by arm: which trials are valid or excluded, the order of the arms, and the numbers of each arm."""

import json
import re
from math import isnan

import pytest

from harness.analysis.arms import (
    Spread,
    estimate_exposure,
    estimate_success,
    find_arm,
    order_arms,
    read_policy_field,
    select_arm,
    select_excluded,
    select_valid,
    summarize_arms,
    tabulate_axes,
)
from harness.errors import UnknownName, UsageError
from harness.experiment.grid import Grid
from harness.experiment.trial import Trial, to_plain
from harness.policies import KeepLast
from tests.analysis.selections import grid, results


@pytest.mark.parametrize("reason", ["sandbox_error", "store_error", "model_error", "cancelled", "crashed"])
def test_a_trial_that_the_machinery_lost_is_in_no_number_but_is_counted(reason):
    selection = results([{"seed": 0}, {"seed": 1, "status": "failed", "reason": reason, "success": False}])
    (arm,) = summarize_arms(selection)
    assert (estimate_success(arm.trials).successes, len(arm.trials), arm.counts["excluded"]) == (1, 1, 1)
    assert list(select_excluded(selection.trials)["reason"]) == [reason]


def test_a_crashed_trial_is_set_aside_whatever_reason_it_gives():
    selection = results([{"status": "crashed", "reason": "replied"}])
    assert select_valid(selection.trials).empty


@pytest.mark.parametrize(("reason", "label"), [("max_steps", "step limit"), ("overflow", "overflow")])
def test_a_failed_trial_counts_as_a_failure_of_its_arm(reason, label):
    (arm,) = summarize_arms(results([{"status": "failed", "reason": reason, "success": False, "score": 0.0}]))
    assert arm.counts[label] == 1
    assert (estimate_success(arm.trials).successes, len(arm.trials)) == (0, 1)


def test_repeated_trials_of_a_seed_are_no_further_evidence():
    rows = [{"seed": seed, "replicate": again, "success": seed != 0} for seed in range(4) for again in range(5)]
    (repeated,), (once,) = (summarize_arms(results(part)) for part in (rows, rows[::5]))
    many, few = estimate_success(repeated.trials), estimate_success(once.trials)
    assert (many.successes, many.trials, many.share) == (15, 20, 0.75)
    assert (many.low, many.high) == (few.low, few.high)


def test_a_missed_treatment_is_counted():
    (arm,) = summarize_arms(results([{"seed": 0, "treatment": "partly"}, {"seed": 1, "treatment": "not at all"}, {"seed": 2}]))
    assert arm.counts["treatment missed"] == 2


@pytest.mark.parametrize(
    ("activity", "label"),
    [("never fired", "never fired"), ("no effect", "no effect"), ("summarizer never asked", "summarizer unused")],
)
def test_an_inert_policy_is_counted_by_how_it_is_inert(activity, label):
    others = [{"seed": 1, "activity": "active"}, {"seed": 2, "activity": "control"}, {"seed": 3, "activity": None}]
    lost = {"seed": 4, "activity": activity, "status": "failed", "reason": "sandbox_error"}
    (arm,) = summarize_arms(results([{"seed": 0, "activity": activity}, *others, lost]))
    assert arm.counts[label] == sum(arm.counts[name] for name in ("never fired", "no effect", "summarizer unused")) == 1


@pytest.mark.parametrize("reason", ["illegal_plan", "agent_failed", "repeated_crash"])
def test_a_trial_that_an_error_ended_is_not_one_whose_policy_had_nothing_to_do(reason):
    broken = {"activity": "never fired", "status": "failed", "reason": reason}
    (arm,) = summarize_arms(results([{"seed": 0, **broken}, {"seed": 1, "activity": "never fired"}]))
    assert (arm.counts["never fired"], arm.counts["policy error"]) == (1, reason == "illegal_plan")


def test_exposure_is_the_share_with_a_compaction():
    trials = results([{"seed": 0, "compactions": 3}, {"seed": 1, "compactions": 0}]).trials
    assert (estimate_exposure(trials).successes, estimate_exposure(trials).trials) == (1, 2)


def test_spreads_are_of_single_trials_and_costs_are_summed():
    (arm,) = summarize_arms(results([{"seed": i, "steps": steps, "cost_usd": 2.0} for i, steps in enumerate((10, 40, 20))]))
    steps = Spread.from_values(arm.trials["steps"])
    assert (steps.median, steps.low, steps.high, Spread.from_values(arm.trials["cost_usd"]).total) == (20, 10, 40, 6)


def test_an_unknown_price_is_unknown_and_not_nothing():
    (arm,) = summarize_arms(results([{"cost_usd": None}]))
    assert isnan(Spread.from_values(arm.trials["cost_usd"]).total)


def test_levels_are_never_pooled():
    with pytest.raises(UsageError, match="'L0' and 'L3'"):
        summarize_arms(results([{"seed": 0, "level": "L0"}, {"seed": 1, "level": "L3"}]))


def test_arms_come_as_controls_then_by_number_then_repeats():
    assert order_arms(grid(thresholds=(0.5,), summarizers=("scripted/empty",)).trials) == [
        "no compaction",
        "keep_last=4 summarizer=scripted/empty threshold=0.5",
        "keep_last=10 summarizer=scripted/empty threshold=0.5",
        "keep_last=20 summarizer=scripted/empty threshold=0.5",
        "A/A",
    ]


def test_the_order_of_arms_does_not_depend_on_which_trial_comes_first():
    rows = [
        {"arm": f"threshold={share}", "seed": seed, "axes_json": f'{{"seed": {seed}, "policy.threshold": {share}}}'}
        for share in (0.5, 0.8)
        for seed in (0, 1)
    ]
    assert order_arms(results(rows).trials) == ["threshold=0.5", "threshold=0.8"]
    assert order_arms(results(rows[1:] + rows[:1]).trials) == ["threshold=0.5", "threshold=0.8"]


def test_arms_of_an_earlier_plan_come_last():
    selection = results(
        [{"arm": "none (earlier plan 0a1b2c)", "policy": "none"}, {"arm": "z"}, {"arm": "none", "policy": "none"}]
    )
    assert order_arms(selection.trials) == ["none", "z", "none (earlier plan 0a1b2c)"]


def test_a_field_that_a_policy_does_not_have_is_none():
    trials = results([{"policy_json": '{"kind":"none"}'}, {"seed": 1, "policy_json": '{"kind":"k","threshold":0.5}'}]).trials
    assert list(read_policy_field(trials, "threshold")) == [None, 0.5]


def test_an_unknown_arm_is_refused_with_the_nearest():
    with pytest.raises(UnknownName, match=r"did you mean 'threshold=0\.5'"):
        select_arm(results([{"arm": "threshold=0.5"}]).trials, "treshold=0.5")


def cell(threshold, keep_last):
    policy = {"kind": "keep-last", "threshold": threshold, "keep_last": keep_last}
    axes = {"policy.threshold": threshold, "policy.keep_last": keep_last, "seed": 0}
    configuration = {"policy": policy, "sandbox": {"limits": {"pids": 4}}}
    return {"arm": f"{threshold}, {keep_last}", "axes_json": json.dumps(axes), "config_json": json.dumps(configuration)}


CELLS = [
    *(cell(threshold, keep_last) for threshold in (0.5, 0.8) for keep_last in (4, 10)),
    {"arm": "control", "policy": "none", "config_json": json.dumps({"policy": {"kind": "none"}})},
]


@pytest.mark.parametrize(
    ("selection", "arm"),
    [
        ("control", "control"),
        ({"threshold": 0.5, "keep_last": 10}, "0.5, 10"),
        ({"policy.threshold": 0.8, "policy.keep_last": 4}, "0.8, 4"),
        ({"kind": "none"}, "control"),
        ({"policy": "none"}, "control"),
        ({"pids": 4, "limits.pids": 4, "threshold": 0.8, "keep_last": 10}, "0.8, 10"),
    ],
)
def test_an_arm_is_selected_by_its_name_or_its_values(selection, arm):
    assert find_arm(results(CELLS).trials, selection) == arm


@pytest.mark.parametrize(
    ("selection", "error", "words"),
    [
        ({"threshold": 0.5}, UsageError, "matches 2 arms: '0.5, 4', '0.5, 10'; give more values"),
        ({"threshold": 0.6}, UsageError, "no arm has {'threshold': 0.6}; the arms are 'control', '0.5, 4'"),
        ({"treshold": 0.5}, UnknownName, "policy.threshold"),
        ({"seed": 0}, UsageError, "'seed' cannot select an arm"),
        ({"policy": "codex"}, UsageError, "no arm has {'policy': 'codex'}"),
        ({5: 0}, UsageError, "must be text such as 'policy.threshold' (got 5)"),
        (["a"], UsageError, "by its name or by values"),
        ("contrl", UnknownName, "control"),
    ],
)
def test_values_that_leave_no_arm_or_several_are_refused_with_the_candidates(selection, error, words):
    with pytest.raises(error, match=re.escape(words)):
        find_arm(results(CELLS).trials, selection)


@pytest.mark.parametrize("axes", [{"policy": ["codex", KeepLast(threshold=0.5)]}, {"window_tokens": [16_384, 32_768]}])
def test_an_arm_is_selected_by_its_policy(axes):
    """The policy may be an axis or not, and may be given by its name or as an object."""
    grid = Grid(base=Trial(task="greeting", policy="codex"), axes=axes)
    rows = [
        {
            "arm": cell.arm,
            "axes_json": json.dumps({path: value for path, value in cell.axes.items() if path != "seed"}),
            "config_json": json.dumps(to_plain(cell.trial)),
        }
        for cell in grid
    ]
    trials = results(rows).trials
    for cell in grid:
        selection = {"policy": cell.trial.policy, "window_tokens": cell.trial.window_tokens}
        assert find_arm(trials, selection) == cell.arm
        assert find_arm(trials, selection | {"policy": cell.trial.policy_kind}) == cell.arm


def test_an_ambiguous_end_of_a_path_is_refused():
    rows = [{"config_json": json.dumps({"policy": {"size": 1}, "sandbox": {"size": 1}})}]
    with pytest.raises(UsageError, match=r"'size' is ambiguous: policy.size, sandbox.size; give the whole path"):
        find_arm(results(rows).trials, {"size": 1})


def test_policies_under_study_are_named_by_the_fields_in_which_they_differ():
    low, high = ({"kind": "keep-last", "threshold": threshold, "keep_last": 10} for threshold in (0.5, 0.8))
    rows = [{"arm": str(place), "axes_json": json.dumps({"policy": one, "seed": 0})} for place, one in enumerate((low, high))]
    rows.append({"arm": "none", "axes_json": json.dumps({"policy": {"kind": "none"}, "seed": 0})})
    table = tabulate_axes(results(rows).trials)
    assert table["value"].tolist() == ["keep-last(threshold=0.5)", "keep-last(threshold=0.8)", "none"]
