"""Arms that are called not worse: only by a margin that the plan declared, and only if the whole interval lies above it."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from harness.analysis.arms import summarize_arms
from harness.analysis.comparison import ArmComparer
from harness.reporting.experiment_report import report
from harness.reporting.not_worse import describe_not_worse, rank_arms, read_margin
from harness.reporting.page.values import build_parts
from tests.analysis.selections import results

MARGIN = 0.05


def run(name, scores, *, tasks=1, cost_usd=1.0, margin=MARGIN, **more):
    """Return the trials of an arm on several tasks, with one score for each seed."""
    provenance = json.dumps({"not_worse_margin": margin})
    return [
        {"arm": name, "task": f"task-{task}", "seed": seed, "score": float(score), "success": score == 1.0}
        | {"cost_usd": cost_usd, "provenance_json": provenance}
        | more
        for task in range(tasks)
        for seed, score in enumerate(scores)
    ]


def rank(rows, **tables):
    selection = results(rows, **tables)
    comparer = ArmComparer(selection)
    ranking = rank_arms(selection, summarize_arms(selection), comparer, None)
    assert ranking is not None
    return ranking, describe_not_worse(ranking, comparer)


def find_reason(rows, arm):
    (standing,) = (standing for standing in rank(rows)[0].standings if standing.arm == arm)
    return standing.full_reason


def spread(mean, count=20, seed=0):
    """Return scores with a given mean that hardly vary."""
    noise = np.random.default_rng(seed).normal(0, 0.005, count)
    return mean + noise - noise.mean()


def vary(rows, arm, size=0.004):
    """Return trials in which an arm is a bit better on every second task and as much worse on the others."""
    return [
        row | {"score": row["score"] + size * (row["arm"] == arm) * (-1) ** int(row["task"].removeprefix("task-"))}
        for row in rows
    ]


def list_badges(rows):
    (part,) = build_parts(results(rows), None, [])
    return {arm["name"]: arm["badge"] for arm in part["arms"] if arm["badge"]}


@pytest.mark.slow
@pytest.mark.parametrize("margin", [None, MARGIN])
def test_three_pairs_label_no_arm_that_lost_most_of_its_score(margin):
    control = run("no compaction", [1.0] * 3, cost_usd=2.0, margin=margin, policy="none", compactions=0)
    rows = [*control, *run("drop-all", [0.3] * 3, margin=margin)]
    assert list_badges(rows) == {}
    ranking, text = rank(rows)
    assert not ranking.not_worse
    if margin is None:
        assert text == (
            "Not worse in score than no compaction, the highest observed: no arm is called so, since no margin was declared "
            "before the first run (not_worse_margin under [experiment] in the plan)."
        )
    else:
        assert text == (
            "Not worse in score than no compaction, the highest observed, by the declared margin of 0.05: no arm. Not called so: "
            "drop-all (1.00 USD): could not have shown a loss of 0.05 (too few pairs: if all agreed, p would be 0.25)."
        )


@pytest.mark.slow
@pytest.mark.parametrize("margin", [None, MARGIN])
def test_an_arm_whose_interval_excludes_equality_is_not_recommended_however_many_arms_there_are(margin):
    """With ten arms, a loss in 8 of 8 pairs is not shown after the correction for their number."""
    others = [row for number in range(8) for row in run(f"other {number}", [0.9, 0.8] * 4, cost_usd=3.0 + number, margin=margin)]
    rows = [*run("keep", [1.0] * 8, cost_usd=2.0, margin=margin), *run("drop-all", [0.4] * 8, margin=margin), *others]
    assert not rank(rows)[0].not_worse
    if margin is not None:
        assert find_reason(rows, "drop-all") == "the interval excludes 0 (-0.600 [-0.747, -0.013])"


@pytest.mark.slow
def test_an_arm_whose_interval_lies_above_the_margin_is_not_worse_on_the_page_and_in_the_report():
    rows = vary([*run("dear", spread(0.81), tasks=8, cost_usd=9.0), *run("cheap", spread(0.809, seed=1), tasks=8)], "cheap")
    ranking, text = rank(rows)
    assert [standing.arm for standing in ranking.not_worse] == ["cheap"]
    assert text.startswith(
        "Not worse in score than dear, the highest observed, by the declared margin of 0.05: cheap, 1.00 USD per trial"
    )
    assert text in report(results(rows)).sections[0].notes
    assert list_badges(rows) == {"cheap": "cheapest not worse in score than dear, the highest observed"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"compactions": 0}, "never compacted"),
        ({"doom_loop": "same call"}, "looped (in 160 of 160 trials)"),
        ({"reason": "max_steps"}, "stopped at the maximum number of steps (in 160 of 160 trials)"),
        ({"reason": "overflow"}, "window full at the end (of 160 of 160 trials)"),
        ({"compactions": None}, ""),
        ({}, ""),
    ],
)
def test_an_arm_that_had_no_fair_trial_is_not_called_not_worse(more, reason):
    rows = [*run("dear", spread(0.81), tasks=8, cost_usd=9.0), *run("cheap", spread(0.809), tasks=8)]
    selection = results(vary(rows, "cheap"))
    is_cheap = selection.trials["arm"] == "cheap"
    changed = selection.trials.astype({"compactions": "Int64"}).assign(
        **{name: selection.trials[name].astype(object).mask(is_cheap, value) for name, value in more.items()}
    )
    tables = dataclasses.replace(selection, trials=changed)
    ranking = rank_arms(tables, summarize_arms(tables), ArmComparer(tables), None)
    assert ranking is not None
    (standing,) = ranking.standings
    assert standing.full_reason == reason


@pytest.mark.parametrize(("stopped", "is_labelled"), [(7, True), (8, False)])
def test_a_third_of_the_trials_stopped_at_the_maximum_number_of_steps_is_too_many(stopped, is_labelled):
    rows = vary([*run("dear", spread(0.81, 3), tasks=8, cost_usd=9.0), *run("cheap", spread(0.809, 3, 1), tasks=8)], "cheap")
    cheap = [place for place, row in enumerate(rows) if row["arm"] == "cheap"]
    for place in cheap[:stopped]:
        rows[place]["reason"] = "max_steps"
    assert bool(rank(rows)[0].not_worse) is is_labelled


@pytest.mark.slow
def test_a_wide_interval_says_that_the_loss_could_not_have_been_shown_and_a_narrow_one_that_it_is_possible():
    rows = [*run("best", [0.9, 1.0] * 4), *run("wide", [1.0, 0.8] * 4)]
    assert find_reason(rows, "wide").startswith("could not have shown a loss of 0.05 (its interval is ±0.")
    close = vary([*run("best", [0.9], tasks=24), *run("close", [0.899], tasks=24)], "close")
    assert find_reason(close, "close") == ""
    declared = [row | {"provenance_json": json.dumps({"not_worse_margin": 0.001})} for row in close]
    assert find_reason(declared, "close").startswith("could not have shown a loss of 0.001 (its interval is ±0.00")


@pytest.mark.slow
def test_lost_trials_that_may_have_failed_take_the_label_away():
    rows = vary([*run("best", [0.9], tasks=24), *run("close", [0.899], tasks=24)], "close")
    assert find_reason(rows, "close") == ""
    for row in rows[-2:]:
        row |= {"status": "crashed", "reason": "crashed"}
    assert find_reason(rows, "close").startswith("lost other trials than the highest arm, which may have failed (then the diff")


@pytest.mark.slow
def test_the_margin_of_the_first_run_counts_and_later_ones_are_printed():
    rows = [*run("dear", spread(0.81), tasks=7), *run("cheap", spread(0.80), tasks=7, margin=0.3)]
    selection = results(rows)
    later = pd.to_datetime(["2026-01-01"] * 140 + ["2026-01-02"] * 140, utc=True)
    for order, (first, change) in enumerate([(0.05, "from 0.05 to 0.3"), (0.3, "from 0.3 to 0.05")]):
        tables = dataclasses.replace(selection, trials=selection.trials.assign(started_at=later if order == 0 else later[::-1]))
        margin = read_margin(tables)
        assert (margin.value, margin.describe_change()) == (
            first,
            f"The margin was changed after the first run, {change}; the first one counts.",
        )
        assert any(margin.describe_change() in note for note in report(tables).sections[0].notes)


def test_a_margin_that_was_declared_after_the_first_run_labels_no_arm():
    rows = [*run("dear", spread(0.81), tasks=7, margin=None), *run("cheap", spread(0.81), tasks=7)]
    ranking, text = rank(rows)
    assert not ranking.not_worse
    assert text.endswith(" The margin was changed after the first run, from none to 0.05; the first one counts.")


def test_joined_experiments_with_different_margins_label_no_arm():
    rows = [*run("dear", spread(0.81, 3), experiment="first"), *run("cheap", spread(0.81, 3), margin=0.1, experiment="second")]
    ranking, text = rank(rows)
    assert ranking.margin.differs
    assert text.endswith(": no arm is called so, since the joined experiments declared different margins.")


def test_an_arm_without_another_one_on_its_tasks_and_seeds_is_not_compared():
    ranking, text = rank(run("alone", [1.0] * 3))
    assert ranking.standings == ()
    assert text.endswith(": there is no other arm to compare.")
    apart = [*run("a", [0.5] * 2), *[row | {"seed": row["seed"] + 2} for row in run("b", [0.4] * 2)]]
    assert find_reason(apart, "b") == "no task and seed in common with a"
