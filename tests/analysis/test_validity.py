"""Placebo check and A/A comparison: which differences they report, and which they must not report."""

import dataclasses

import pandas as pd
import pytest

from harness.analysis.comparison import compare
from harness.analysis.validity import RequestDigests, compare_repeats, find_repeats, find_separated_arms, pair_trials
from harness.errors import UsageError
from harness.reporting.experiment_report import report
from harness.reporting.headlines import list_threats
from tests.analysis.selections import results


def steps(trial_id, digests):
    return [{"trial_id": trial_id, "step": i, "request_digest": d} for i, d in enumerate(digests, 1)]


def applied(trial_id, step, status="applied"):
    return {"trial_id": trial_id, "round": 1, "step": step, "status": status}


def checked(a, b, compactions=()):
    selection = results(
        [{"arm": "a", "trial_id": "A"}, {"arm": "b", "trial_id": "B"}], [*steps("A", a), *steps("B", b)], compactions
    )
    return RequestDigests.from_results(selection).check_placebo(
        pair_trials(selection.trials.query("arm == 'a'"), selection.trials.query("arm == 'b'"))
    )


def test_equal_requests_until_the_first_compaction_pass():
    placebo = checked("abcXY", "abcPQ", [applied("A", 4)])
    assert placebo.has_passed
    assert (placebo.pairs, placebo.equal_pairs, placebo.compared_steps) == (1, 1, 3)
    assert "1 of 1 pair sent" in str(placebo)


def test_a_difference_just_before_the_first_compaction_is_seen():
    placebo = checked("abXYZ", "abPQR", [applied("A", 4), applied("B", 5)])
    assert not placebo.has_passed
    assert placebo.earliest_difference == 3
    assert "step 3" in str(placebo)


def test_an_attempt_that_changed_nothing_does_not_excuse_a_difference():
    assert not checked("abX", "abP", [applied("A", 3, "failed"), applied("A", 3, "no-op")]).has_passed
    assert checked("abX", "abP", [applied("A", 3)]).has_passed


def test_different_tasks_are_distinguished_from_a_difference_during_the_session():
    assert "tasks were not the same" in str(checked("xbc", "abc"))


def test_a_placebo_check_without_compared_steps_does_not_pass():
    placebo = checked("a", "a", [applied("A", 1)])
    assert not placebo.has_passed
    assert "no steps to compare" in str(placebo)


def test_a_session_that_ends_earlier_is_compared_as_far_as_it_goes():
    assert checked("abc", "abcde").compared_steps == 3


def test_requests_are_ordered_by_step_and_those_of_sub_agents_belong_to_no_trial():
    of_a, of_b, of_a_sub_agent = steps("A", "abc"), steps("B", "xy"), steps(None, "s")
    requests = RequestDigests.from_results(results([{"trial_id": "A"}], [*of_b, *of_a[::-1], *of_a_sub_agent]))
    assert {trial_id: list(digests) for trial_id, digests in requests.digests.items()} == {"A": ["a", "b", "c"], "B": ["x", "y"]}


def test_pairs_share_task_seed_and_replicate():
    selection = results(
        [{"arm": "a", "seed": 0}, {"arm": "a", "seed": 1}, {"arm": "b", "seed": 1}, {"arm": "b", "seed": 1, "replicate": 1}]
    )
    pairs = pair_trials(selection.trials.query("arm == 'a'"), selection.trials.query("arm == 'b'"))
    assert list(pairs["seed"]) == [1]


def test_repeats_are_recognised_by_their_configuration_whatever_their_name():
    selection = results(
        [
            {"arm": "x", "trial_id": "1", "success": True},
            {"arm": "A/A", "trial_id": "2", "replicate": 1, "success": False},
            {"arm": "other", "trial_id": "3", "policy_json": '{"kind":"none"}'},
        ],
        [*steps("1", "ab"), *steps("2", "ab"), *steps("3", "ab")],
    )
    aa = compare_repeats(selection)
    assert (aa.counts.pairs, aa.counts.only_a, aa.equal_request_pairs) == (1, 1, 1)
    assert "1 of 1" in str(aa)


@pytest.mark.slow
def test_the_noise_of_scores_is_shown_where_success_never_changes():
    selection = results(
        [
            {"arm": arm, "trial_id": f"{arm} {seed}", "seed": seed, "replicate": replicate, "success": False, "score": score}
            for arm, replicate, scores in (("x", 0, (0.5, 0.5)), ("A/A", 1, (0.25, 0.5)))
            for seed, score in enumerate(scores)
        ]
    )
    aa = compare_repeats(selection)
    assert "the score changed in 1 of 2 pairs, by 0.125 on average over all pairs" in aa.describe("score")
    assert "success changed in 0 of 2 pairs" in aa.describe("success")
    notes = [note for section in report(selection).sections if section.heading == "Validity" for note in section.notes]
    assert f"{aa.describe('score')}." in notes


def test_arms_of_another_study_are_no_repeats_of_each_other():
    """Such trials have no recorded configuration."""
    rows = [
        {"arm": arm, "seed": seed, "replicate": run, "success": arm == "good", "config_json": "", "policy_json": ""}
        for arm in ("good", "bad")
        for seed in range(3)
        for run in (0, 1)
    ]
    selection = results(rows)
    assert find_repeats(selection.trials) == {}
    aa = compare_repeats(selection)
    assert (aa.counts.pairs, aa.counts.discordant_pairs, aa.known_request_pairs) == (6, 0, 0)
    assert "requests" not in str(aa)


def test_an_arm_is_paired_with_the_arm_that_repeats_it():
    rows = [{"arm": arm, "seed": seed, "replicate": place} for place, arm in enumerate(("a", "A/A")) for seed in (0, 1)]
    trials = results(rows).trials
    pairs = pair_trials(trials.query("arm == 'A/A'"), trials.query("arm == 'a'"))
    assert pairs[["trial_id_a", "trial_id_b"]].to_numpy().tolist() == [
        ["A/A/flashcards/0/1", "a/flashcards/0/0"],
        ["A/A/flashcards/1/1", "a/flashcards/1/0"],
    ]


def test_the_noise_between_repeats_is_unknown_without_repeated_arms():
    assert "unknown" in str(compare_repeats(results([{}])))


@pytest.mark.parametrize("reason", ["sandbox_error", "cancelled"])
def test_a_lost_repeat_is_no_repeat(reason):
    assert compare_repeats(results([{}, {"replicate": 1, "status": "failed", "reason": reason}])).counts.pairs == 0


def test_two_configurations_under_one_name_are_never_paired():
    trials = results([{"arm": "a", "trial_id": "1"}, {"arm": "a", "trial_id": "2"}, {"arm": "b", "trial_id": "3"}]).trials
    one, two = trials.query("arm == 'b'"), trials.query("arm == 'a'")
    for a, b in ((one, two), (two, one)):
        with pytest.raises(UsageError, match="arm 'a' has several trials of task 'flashcards', seed 0"):
            pair_trials(a, b)


def test_a_repeat_is_one_of_exactly_the_same_configuration():
    first = {"trial_id": "1", "config_json": '{"replicate": 0, "parallel_tools": false}'}
    other = {"trial_id": "2", "config_json": '{"replicate": 0, "parallel_tools": true}'}
    again = {"trial_id": "3", "replicate": 1, "config_json": '{"replicate": 1, "parallel_tools": false}'}
    assert compare_repeats(results([first, other, again])).counts.pairs == 1


def date_runs(hours_by_arm):
    """Return results whose trials of each arm began at the given hours."""
    rows = [{"arm": arm, "seed": seed} for arm, hours in hours_by_arm.items() for seed in range(len(hours))]
    tables = results(rows)
    hours = [hour for several in hours_by_arm.values() for hour in several]
    started = pd.Timestamp("2026-03-01", tz="UTC") + pd.to_timedelta(hours, unit="h")
    return dataclasses.replace(tables, trials=tables.trials.assign(started_at=started))


DAY, NEXT_DAY = [float(hour) for hour in range(8)], [24.0 + hour for hour in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hours", "is_separated"),
    [
        ({"a": DAY, "b": NEXT_DAY}, True),
        ({"a": NEXT_DAY, "b": DAY}, True),
        ({"a": [*DAY[:7], 40.0], "b": NEXT_DAY}, True),  # one trial was repeated later
        ({"a": DAY, "b": [hour + 0.5 for hour in DAY]}, False),  # interleaved, as a grid runs
        ({"a": DAY, "b": DAY}, False),  # at the same time
        ({"a": [*DAY[:4], *NEXT_DAY[:4]], "b": [*DAY[4:], *NEXT_DAY[4:]]}, False),  # both arms on both days
        ({"a": [hour / 100 for hour in DAY], "b": [0.1 + hour / 100 for hour in DAY]}, False),  # within minutes
        ({"a": DAY[:2], "b": NEXT_DAY[:2]}, False),  # four trials are in such an order by chance, too
        ({"a": DAY}, False),
    ],
)
def test_arms_that_ran_at_separate_times_are_reported_and_interleaved_ones_are_not(hours, is_separated):
    tables = date_runs(hours)
    separated = find_separated_arms(tables.trials)
    assert bool(separated) is is_separated
    threats = [threat for threat in list_threats(tables.trials, []) if "at separate times" in threat]
    assert bool(threats) is is_separated
    if len(hours) == 2:
        assert ("the arms ran at separate times" in str(compare(tables, "a", "b"))) is is_separated


def test_trials_without_run_dates_give_no_warning_about_them():
    assert find_separated_arms(results([{"arm": arm, "seed": seed} for arm in "ab" for seed in range(8)]).trials) == []
