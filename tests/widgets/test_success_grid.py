"""The heat map of a grid: every arm has its place, and every finished trial counts once."""

from dataclasses import replace

import pytest
from scipy.stats import ttest_1samp

from harness.analysis.arm_marks import read_marks
from harness.analysis.measures import METRICS
from harness.compaction.presets.keep_last import KeepLast
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.job import encode_axes
from harness.experiment.trial import Trial
from harness.widgets.success_grid import SuccessGrid
from tests.analysis.selections import results
from tests.experiment.records import record

BASE = Trial(task="flashcards", policy=KeepLast())
AXES: dict[str, list[object]] = {
    "seed": [0, 1],
    "policy.threshold": [0.5, 0.8],
    "policy.keep_last": [4, 10, 20],
    "policy.summarizer": ["scripted/oracle", "scripted/empty"],
}
TASKS = ["bug-hunt", "flashcards", "log-forensics", "long-march", "rename-sweep", "spec-api"]
ARMS = (Arm(name="control", trial={"policy": {"kind": "none"}}),)


def experiment(**axes: list[object]):
    return Experiment(name="e", base=BASE, axes=axes or AXES, arms=ARMS)


def records(grid, **changes):
    return [record(trial_id=cell.trial.trial_id, arm=cell.arm, seed=cell.trial.seed, **changes) for cell in grid]


def places(plan):
    return [arm for table in plan["tables"] for _, _, arm in table["places"]] + plan["beside"]


@pytest.mark.parametrize("count", range(5))
def test_every_arm_has_one_place_whatever_the_axes_are(count):
    plan = SuccessGrid(experiment(**dict(list(AXES.items())[:count]))).build_layout()
    assert sorted(places(plan)) == list(range(len(plan["arms"])))
    for table in plan["tables"]:
        assert len({(row, column) for row, column, _ in table["places"]}) == len(table["places"])
        assert all(row < len(table["rows"]) and column < len(table["columns"]) for row, column, _ in table["places"])


@pytest.mark.parametrize("count", [2, 4])
def test_arms_have_the_marks_that_they_have_in_the_figures_of_their_results(count):
    whole = experiment(**dict(list(AXES.items())[:count]))
    plan = SuccessGrid(whole).build_layout()
    rows = [
        {"arm": cell.arm, "seed": cell.trial.seed, "policy": cell.trial.policy_kind, "axes_json": encode_axes(cell.axes)}
        for cell in whole.grid
    ]
    assert dict(zip(plan["arms"], plan["marks"], strict=True)) == read_marks(results(rows[::-1]))


def test_the_last_two_axes_span_tables_and_the_others_name_them():
    plan = SuccessGrid(experiment()).build_layout()
    assert [table["title"] for table in plan["tables"]] == [f"policy.keep_last = {value}" for value in (4, 10, 20)]
    assert {(table["down"], table["across"]) for table in plan["tables"]} == {("policy.summarizer", "policy.threshold")}
    assert plan["tables"][0]["columns"] == ["0.5", "0.8"]
    assert [plan["arms"][arm] for arm in plan["beside"]] == ["control"]


def test_the_interval_of_success_takes_the_tasks_as_units_and_not_the_trials():
    whole = Experiment(name="e", base=BASE, axes={"task": TASKS, "seed": list(range(20))})
    grid, rates = SuccessGrid(whole), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    grid.add(
        record(trial_id=one.trial_id, task=one.trial.task, seed=one.trial.seed, success=one.trial.seed % 10 < 10 * rate)
        for one in whole.grid
        if (rate := rates[TASKS.index(one.trial.task)]) or one.trial.seed < 10
    )
    (arm,) = grid.list_arms()
    half = ttest_1samp(rates, 0.5).confidence_interval(0.95).high - 0.5
    assert (arm["share"], arm["low"], arm["high"]) == pytest.approx((0.5, 0.5 - half, 0.5 + half))
    assert arm["succeeded"] / arm["finished"] != pytest.approx(0.5), "a mean over trials would be another number"


def test_a_grid_of_one_axis_is_one_row():
    [table] = SuccessGrid(Experiment(name="e", base=BASE, axes={"seed": [0, 1], "policy.keep_last": [4, 10, 20]})).build_layout()[
        "tables"
    ]
    assert (table["columns"], len(table["rows"])) == (["4", "10", "20"], 1)
    assert [(row, column) for row, column, _ in table["places"]] == [(0, 0), (0, 1), (0, 2)]


def test_a_grid_of_seeds_alone_is_one_cell():
    plan = SuccessGrid(Experiment(name="e", base=BASE, axes={"seed": [0, 1]})).build_layout()
    assert [len(table["places"]) for table in plan["tables"]] == [1]
    assert plan["beside"] == []


def test_arms_fill_as_trials_finish():
    grid = experiment()
    board = SuccessGrid(grid)
    first, second = [record for record in records(grid.grid, success=True, score=1.0) if record.arm == "control"]
    (item,) = board.add([first])
    control = list(board.arms).index("control")
    assert item | {"low": 0, "high": 0} == {
        "kind": "arm",
        "arm": control,
        "planned": 2,
        "finished": 1,
        "n": 1,
        "succeeded": 1,
        "share": 1.0,
        "low": 0,
        "high": 0,
        "score": 1.0,
    }
    assert 0 < item["low"] < item["high"] == pytest.approx(1.0)
    arm, failure = board.add([replace(second, success=False, score=0.5, reason="max_steps", error="<b>\nno more")])
    assert (arm["finished"], arm["succeeded"], arm["score"]) == (2, 1, 0.75)
    assert (failure["arm"], failure["error"], failure["over"]) == ("control", "<b>\nno more", False)
    assert board.finished_trials == 2


def test_a_trial_that_an_infrastructure_failure_ended_is_in_no_rate():
    board = SuccessGrid(experiment())
    first, second = [record for record in records(board.experiment.grid, success=True, score=1.0) if record.arm == "control"]
    lost = replace(second, status="failed", reason="model_error", success=False, score=0.0)
    arm = [one for one in board.add([first, lost]) if one["kind"] == "arm"][-1]
    assert (arm["finished"], arm["n"], arm["succeeded"], arm["share"], arm["score"]) == (2, 1, 1, 1.0, 1.0)
    board.metric = METRICS["score"]
    assert board.list_arms()[arm["arm"]]["value"] == 1.0
    only_lost = SuccessGrid(experiment())
    (arm, _) = only_lost.add([lost])
    assert (arm["n"], "share" in arm) == (0, False)


def test_a_trial_counts_once_and_one_that_was_run_again_counts_anew():
    grid = experiment()
    board = SuccessGrid(grid)
    crashed = records(grid.grid, status="crashed", error="killed")[0]
    assert [item["kind"] for item in board.add([crashed])] == ["arm", "failure"]
    assert board.add([crashed]) == []
    arm, failure = board.add([replace(crashed, status="completed", success=True, score=1.0, error="")])
    assert (arm["finished"], arm["succeeded"]) == (1, 1)
    assert (failure["trial"], failure["over"]) == (crashed.trial_id, True)
    assert board.failures == []


def test_trials_of_another_grid_are_left_out():
    board = SuccessGrid(experiment())
    assert board.add([record(trial_id="strange")]) == []
    assert board.finished_trials == 0


def test_levels_are_named_and_never_pooled():
    grid = experiment()
    board = SuccessGrid(grid)
    one, two, *_ = records(grid.grid)
    board.add([one, replace(two, level="L1")])
    assert board.level == "L0 and L1"


@pytest.mark.parametrize(
    ("name", "changes", "value", "text"),
    [
        ("score", {"score": 0.25}, 0.25, "0.25"),
        ("steps", {"steps": 12}, 12.0, "12 steps"),
        ("tokens", {"prompt_tokens": 900, "output_tokens": 60, "summarizer_prompt_tokens": 40}, 1000.0, "1k tokens"),
        ("cost", {"cost_usd": 0.5, "summarizer_cost_usd": 0.25}, 0.75, "0.75 USD"),
        ("cost", {"cost_usd": None}, None, "unknown"),
    ],
)
def test_a_cell_shows_the_chosen_metric_with_the_numbers_of_the_report(name, changes, value, text):
    success_grid = SuccessGrid(Experiment(name="e", base=BASE, axes={"seed": [0, 1, 2]}), metric=METRICS[name])
    [arm] = success_grid.add(records(success_grid.experiment.grid, success=True, **changes))
    assert (arm["value"], arm["finished"]) == (value, 3)
    assert arm["text"] == text
    assert "value" not in replace(success_grid, metric=METRICS["success"]).list_arms()[0]


@pytest.mark.slow
def test_every_offered_metric_can_be_measured_in_a_running_grid():
    success_grid = SuccessGrid(experiment())
    success_grid.add(records(list(success_grid.experiment.grid)[::2], cost_usd=0.5))
    success_grid.retention = dict.fromkeys(success_grid._arm_by_trial, 0.5)
    for metric in METRICS.values():
        success_grid.metric = metric
        shown = [arm for arm in success_grid.list_arms() if arm["finished"]]
        assert shown
        assert all(metric.name == "success" or arm["value"] is not None for arm in shown), metric.name
    assert [name for name, _ in success_grid.build_layout()["metrics"]] == list(METRICS)


def test_retention_is_unknown_for_trials_without_a_compaction():
    success_grid = SuccessGrid(Experiment(name="e", base=BASE, axes={"seed": [0, 1, 2]}), metric=METRICS["retention"])
    ids = [cell.trial_id for cell in success_grid.experiment.grid]
    success_grid.retention = {ids[0]: 0.75, ids[1]: 0.25, ids[2]: float("nan")}
    [arm] = success_grid.add(records(success_grid.experiment.grid, success=True))
    assert (arm["value"], arm["n"], arm["finished"], arm["text"]) == (0.5, 2, 3, "0.50")
    again = records(success_grid.experiment.grid, success=True, steps=7)[0]
    [arm, _] = success_grid.add([again])
    assert (arm["value"], arm["n"]) == (0.25, 1), "the figure of the earlier run of the trial is forgotten"


@pytest.mark.slow
def test_hidden_outcomes_are_in_no_item_for_the_page():
    grid = experiment()
    hidden, shown = SuccessGrid(grid, hides_outcomes=True), SuccessGrid(grid)
    good, bad, broken = records(grid.grid, cost_usd=0.5)[:3]
    good = replace(good, success=True, score=1.0)
    broken = replace(broken, status="crashed", reason="crashed", error="killed")
    items = hidden.add([good, bad, broken])
    arms = [item for item in items if item["kind"] == "arm"]
    assert [set(arm) for arm in arms] == [{"kind", "arm", "planned", "finished"}] * len(arms)
    assert sum(arm["finished"] for arm in arms) == 3
    assert [(item["trial"], "crashed" in item["text"], "score" in item["text"]) for item in items[len(arms) :]] == [
        (broken.trial_id, True, False)
    ]
    seen = {key: None for item in shown.add([good, bad]) for key in item}
    hidden.add([replace(bad, success=True)])
    assert {"share", "score", "succeeded"} <= set(seen)
    assert not {"share", "score", "succeeded"} & {key for item in hidden.list_arms() + hidden.list_failures() for key in item}
    for number in range(len(hidden.arms)):
        assert all(text.startswith(("finished", "crashed")) for _, _, text in hidden.list_trials(number)["trials"])


def test_arms_are_shaded_by_their_place_among_all_arms_and_not_while_outcomes_are_hidden():
    whole = Experiment(name="e", base=BASE, axes={"seed": [0, 1], "policy.keep_last": [4, 10, 20]})
    grid, arms = SuccessGrid(whole), list(dict.fromkeys(cell.arm for cell in whole.grid))
    assert (grid.shade_arms(), grid.count_successes()) == ([None] * 3, 0)
    grid.add(replace(one, success=one.arm == arms[0], steps=10 * (1 + arms.index(one.arm))) for one in records(whole.grid))
    assert (grid.shade_arms(), grid.count_successes()) == ([7, 0, 0], 2)
    grid.metric = METRICS["steps"]
    grid.list_arms()
    best, _, worst = grid.shade_arms()
    assert (best, worst) == (7, 0), "fewer steps are better"
    grid.hides_outcomes = True
    grid.list_arms()
    assert (grid.shade_arms(), grid.count_successes()) == ([None] * 3, None)


def test_trials_that_are_listed_as_failures_leave_the_list_when_outcomes_are_hidden():
    grid = SuccessGrid(experiment())
    crashed, failed, succeeded = records(grid.experiment.grid)[:3]
    crashed = replace(crashed, status="crashed", reason="crashed", error="killed", success=False)
    grid.add([crashed, replace(failed, success=False), replace(succeeded, success=True)])
    assert {item["trial"]: item["over"] for item in grid.list_failures()} == {crashed.trial_id: False, failed.trial_id: False}
    grid.hides_outcomes = True
    assert {item["trial"]: item["over"] for item in grid.list_failures()} == {crashed.trial_id: False, failed.trial_id: True}


def test_failures_that_no_page_has_listed_stay_unknown_while_outcomes_are_hidden():
    grid = SuccessGrid(experiment(), hides_outcomes=True)
    failed, succeeded = records(grid.experiment.grid)[:2]
    grid.add([replace(failed, success=False), replace(succeeded, success=True)])
    assert grid.list_failures() == []
