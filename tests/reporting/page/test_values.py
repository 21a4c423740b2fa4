"""Values of the page: the estimates of the analysis, the Pareto front, the baselines and the layout of the arms."""

import json
from dataclasses import replace
from math import isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.arms import select_valid
from harness.analysis.intervals import Interval
from harness.analysis.measures import METRICS, add_measures, estimate_cell, estimate_change, find_front
from harness.experiment.contrasts import Contrast
from harness.reporting.claims import Claim
from harness.reporting.page.values import build_parts, choose_baselines, judge_effect, lay_out_arms, mark_declared
from tests.analysis.selections import results as make_results
from tests.reporting.page.experiments import write_experiment


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return write_experiment(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def part(results):
    (part,) = build_parts(results, None, [])
    return part


def is_same(value, expected):
    return value is None if isnan(expected) else value == pytest.approx(expected, rel=1e-5)


def test_cells_are_the_estimates_of_the_analysis(results, part):
    valid = select_valid(add_measures(results))
    for arm in part["arms"]:
        rows = valid[valid["arm"] == arm["name"]]
        for name, metric in METRICS.items():
            cell = estimate_cell(rows, metric)
            n, value, low, high, text, interval = arm["cells"][name]
            assert n == cell.n
            assert is_same(value, cell.value)
            assert is_same(low, cell.low)
            assert is_same(high, cell.high)
            assert (text, interval) == (metric.format_value(cell.value), metric.format_interval(cell.low, cell.high))


@pytest.mark.slow
def test_effects_are_the_estimates_of_the_analysis(results, part):
    valid = select_valid(add_measures(results))
    names = [arm["name"] for arm in part["arms"]]
    assert set(part["effects"]) == set(names)
    for baseline, effects in part["effects"].items():
        for name in METRICS:
            for index, (pairs, value, low, high, text, _, verdict, estimand) in effects[name].items():
                rows, other = (valid[valid["arm"] == one] for one in (names[index], baseline))
                effect = estimate_change(rows, other, METRICS[name])
                assert (pairs, estimand) == (effect.pair_count, effect.estimand)
                assert is_same(value, effect.value)
                assert is_same(low, effect.interval.low)
                assert is_same(high, effect.interval.high)
                assert text == METRICS[name].format_effect(effect)
                assert verdict in {judge_effect(METRICS[name], effect), "not shown"}


@pytest.mark.slow
def test_the_verdicts_on_several_arms_need_p_values_that_are_adjusted_for_all_of_them():
    shares = {"a": [0.5] * 7, "b": [0.6, 0.7, 0.6, 0.65, 0.6, 0.7, 0.62], "c": [0.5, 0.4, 0.6, 0.5, 0.45, 0.55, 0.5]}
    for others, verdict in (("b", "better"), ("bcdefg", "not shown")):  # p is 0.0156, or six times as much
        rows = [
            {"arm": arm, "task": f"t{task}", "score": shares.get(arm, shares["c"])[task]}
            for arm in f"a{others}"
            for task in range(7)
        ]
        (part,) = build_parts(make_results(rows), "a", [])
        assert part["effects"]["a"]["score"][1][6] == verdict


@pytest.mark.parametrize(
    ("metric", "value", "low", "high", "p", "verdict"),
    [
        ("score", 0.2, 0.1, 0.3, 0.01, "better"),
        ("score", -0.2, -0.3, -0.1, 0.01, "worse"),
        ("score", 0.2, -0.1, 0.3, 0.01, "not shown"),
        ("score", 0.2, 0.1, 0.3, 0.06, "not shown"),
        ("score", 0.2, nan, nan, nan, "not shown"),
        ("cost", 1.2, 1.1, 1.3, 0.01, "worse"),
        ("cost", 0.8, 0.7, 0.9, 0.01, "better"),
        ("cost", 0.8, 0.7, 1.1, 0.01, "not shown"),
    ],
)
def test_verdicts_need_interval_and_test_and_follow_the_better_direction(results, metric, value, low, high, p, verdict):
    valid = select_valid(add_measures(results))
    effect = estimate_change(valid[valid["arm"] == "c"], valid[valid["arm"] == "a"], METRICS[metric])
    changed = replace(effect, value=value, interval=Interval(low, high), p_value=p)
    assert judge_effect(METRICS[metric], changed) == verdict


@pytest.mark.slow
def test_the_page_says_to_which_tasks_the_intervals_of_arms_apply(part):
    assert part["about"] == "these tasks"
    many = [{"arm": "a", "task": f"t{task}"} for task in range(6)]
    few = [{"arm": "b", "task": f"t{task}"} for task in range(2)]
    assert build_parts(make_results(many), None, ())[0]["about"] == "tasks like these"
    assert build_parts(make_results(many + few), None, ())[0]["about"] == "tasks like these and these tasks"


def test_cells_by_task_have_one_row_per_arm_and_one_column_per_task(results, part):
    valid = select_valid(add_measures(results))
    assert part["tasks"] == ["t1", "t2"]
    cells = part["task_cells"]["score"]
    assert [len(row) for row in cells] == [2, 2, 2]
    rows = valid[(valid["arm"] == "b") & (valid["task"] == "t2")]
    place = [arm["name"] for arm in part["arms"]].index("b")
    assert cells[place][1][1] == pytest.approx(estimate_cell(rows, METRICS["score"]).value)


def test_effects_on_a_task_are_those_of_its_pairs_and_change_their_sign_with_the_baseline(results, part):
    valid = select_valid(add_measures(results))
    names = [arm["name"] for arm in part["arms"]]
    rows = valid[valid["task"] == "t2"]
    for metric in METRICS.values():
        effect = estimate_change(rows[rows["arm"] == "b"], rows[rows["arm"] == "a"], metric)
        if not effect.pair_count:
            continue
        pairs, value, low, _, text, _ = part["task_effects"]["a"][metric.name][names.index("b")][1]
        assert (pairs, text) == (effect.pair_count, metric.format_effect(effect))
        assert is_same(value, effect.value)
        assert is_same(low, effect.interval.low)
    turned = part["task_effects"]["b"]["score"][names.index("a")][1]
    assert turned[1] == pytest.approx(-part["task_effects"]["a"]["score"][names.index("b")][1][1])


@pytest.mark.slow
def test_an_arm_that_was_run_again_is_compared_with_its_first_run_only():
    rows = [
        {"arm": arm, "task": f"t{task}", "replicate": replicate, "score": score, "policy_json": policy}
        for arm, replicate, score, policy in (
            ("base", 0, 0.5, '{"kind": "keep-last"}'),
            ("base again", 1, 0.4, '{"kind": "keep-last"}'),
            ("other", 0, 0.9, '{"kind": "keep-last", "keep_last": 3}'),
        )
        for task in range(6)
    ]
    (part,) = build_parts(make_results(rows), None, [])
    names = [arm["name"] for arm in part["arms"]]
    again = names.index("base again")
    assert {arm["name"]: arm["repeats"] for arm in part["arms"]} == {"base": "", "base again": "base", "other": ""}
    assert part["effects"]["base"]["score"][again][:2] == [6, pytest.approx(-0.1)]
    assert part["effects"]["base again"]["score"][names.index("base")][1] == pytest.approx(0.1)
    assert again not in part["effects"]["other"]["score"]


@pytest.mark.parametrize(
    ("margin", "shown", "verdict"), [(None, True, "worse"), (None, False, "not shown"), (0.2, True, "worse")]
)
def test_a_declared_contrast_has_the_verdict_of_its_family(results, margin, shown, verdict):
    valid = select_valid(add_measures(results))
    effect = replace(estimate_change(valid[valid["arm"] == "b"], valid[valid["arm"] == "a"], METRICS["score"]), value=-0.1)
    contrast = Contrast(a="b", b="a", metric="score", margin=margin)
    claim = Claim(contrast=contrast, effect=effect, p_value=0.01, holm_p=0.03 if shown else 0.2)
    names = ["a", "b"]
    effects = {
        arm: {"score": {1 - place: [4, sign * 0.1, 0, 0, "", "", "worse", effect.estimand]}}
        for place, (arm, sign) in enumerate((("a", -1), ("b", 1)))
    }
    mark_declared(effects, [claim], names)
    cell = effects["a"]["score"][1]
    assert cell[6] == verdict
    if margin is None:
        assert cell[8] == ("worse (declared)" if shown else "no difference shown (declared)")
        assert effects["b"]["score"][0][6] == ("better" if shown else "not shown")
    else:
        assert cell[8] == "shown to be worse by less than 0.2 (declared)"
        assert len(effects["b"]["score"][0]) == 8


def test_the_trials_are_complete_and_refer_to_their_blocks(results):
    (part,) = build_parts(results, None, ["s0-0-1", "s2-1-0"])
    trials = part["trials"]
    assert sorted(trials["id"]) == sorted(results.trials["trial_id"])
    by_session = dict(zip(trials["session"], trials["block"], strict=True))
    assert by_session["s0-0-1"] == 0
    assert by_session["s2-1-0"] == 1
    assert sum(block >= 0 for block in trials["block"]) == 2


def test_levels_are_parts_of_their_own():
    parts = build_parts(make_results([{"level": level, "seed": seed} for level in ("L0", "L3") for seed in (0, 1)]), None, [])
    assert [part["level"][:2] for part in parts] == ["L0", "L3"]
    assert [len(part["trials"]["id"]) for part in parts] == [2, 2]


@given(st.lists(st.tuples(st.floats(0, 10) | st.just(nan), st.floats(0, 1) | st.just(nan)), max_size=12))
def test_no_arm_beats_an_arm_of_the_front_and_every_other_is_beaten(points):
    named = {str(place): point for place, point in enumerate(points)}
    known = {arm: point for arm, point in named.items() if not any(map(isnan, point))}
    front = find_front(named, METRICS["score"])
    beats = lambda a, b: a[0] <= b[0] and a[1] >= b[1] and a != b  # noqa: E731
    assert not [arm for arm in front if any(beats(other, known[arm]) for other in known.values())]
    values = {known[arm] for arm in front}
    assert all(point in values or any(beats(one, point) for one in values) for point in known.values())


def test_the_first_baseline_is_the_requested_arm_or_else_a_declared_one_or_else_a_control():
    contrasts = [{"a": "x", "b": "y"}, {"a": "z", "b": "y"}]
    provenance = json.dumps({"family": {"contrasts": contrasts, "planned_trials": 3, "looks": 1}})
    arms = [{"arm": arm, "provenance_json": provenance} for arm in ("x", "y", "z")]
    arms.append({"arm": "control", "policy": "none", "provenance_json": provenance})
    tables = make_results(arms)
    names = ["control", "x", "y", "z"]
    assert choose_baselines(tables, names, {}, None)[:2] == ["y", "control"]
    assert choose_baselines(tables, names, {}, "z")[0] == "z"
    undeclared = make_results([{"arm": "x"}, {"arm": "control", "policy": "none"}])
    assert choose_baselines(undeclared, ["control", "x"], {}, None)[0] == "control"
    assert choose_baselines(undeclared, ["control", "w", "x"], {"again": "x"}, None)[:2] == ["control", "x"]


@pytest.mark.slow
def test_arms_of_a_grid_are_laid_out_by_their_last_two_axes():
    trials = []
    for summarizer in ("p", "q"):
        for threshold in (0.5, 0.8):
            for keep in (4, 10, 20):
                arm = f"summarizer={summarizer} threshold={threshold} keep_last={keep}"
                axes = {"policy.summarizer": summarizer, "policy.threshold": threshold, "policy.keep_last": keep, "seed": 0}
                trials.append({"arm": arm, "axes_json": json.dumps(axes)})
    trials.append({"arm": "extra", "axes_json": json.dumps({"seed": 0})})
    arm_results = make_results(trials)
    tables = lay_out_arms(arm_results.trials)
    assert [table["title"] for table in tables] == ["policy.summarizer = p", "policy.summarizer = q"]
    assert [(table["rows"], table["columns"]) for table in tables] == [(["0.5", "0.8"], ["4", "10", "20"])] * 2
    names = [arm["name"] for arm in build_parts(arm_results, None, [])[0]["arms"]]
    for table, summarizer in zip(tables, "pq", strict=True):
        for row, threshold in zip(table["cells"], table["rows"], strict=True):
            for index, keep in zip(row, table["columns"], strict=True):
                assert names[index] == f"summarizer={summarizer} threshold={threshold} keep_last={keep}"
    assert lay_out_arms(make_results([{"arm": "x"}, {"arm": "y"}]).trials) == []


@pytest.mark.slow
def test_an_arm_that_knows_the_future_is_on_no_front():
    def list_front(policies):
        rows = [
            {"arm": policy, "policy": policy, "seed": seed, "score": score, "cost_usd": 1.0}
            for policy, score in policies.items()
            for seed in range(3)
        ]
        (only_part,) = build_parts(make_results(rows), None, [])
        names = [arm["name"] for arm in only_part["arms"]]
        return {names[place] for place in only_part["fronts"]["score"]}

    assert list_front({"keep-last": 0.5, "oracle": 0.9}) == {"keep-last"}
    assert list_front({"oracle": 0.9}) == {"oracle"}
