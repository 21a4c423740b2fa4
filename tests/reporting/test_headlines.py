"""First lines of a report: they say what is shown, what is not, and what to do next, in at most ten lines."""

import json
import re

import pytest

from harness.analysis.comparison import compare
from harness.analysis.outcomes import load_outcomes
from harness.conversation import codec
from harness.experiment.contrasts import Contrast, Family
from harness.inspection.loading import load
from harness.reporting.experiment_report import report
from harness.reporting.headlines import list_threats
from harness.reporting.next_step import NEW_FOLDER
from harness.store.journal import Journal
from harness.store.records import TrialRecord
from tests.analysis.selections import grid, results, trial


def headlines(trials, **options):
    section = report(trials, **options).sections[0]
    assert section.heading == "In short"
    assert len(section.notes) <= 10
    return section.notes


def arm(name, scores, *, cost_usd, tasks=7, **more):
    """Return trials of an arm on several tasks, with one score for each seed, plus a small effect of the arm on the task."""
    return [
        {
            "arm": name,
            "task": f"task-{task}",
            "seed": seed,
            "score": score + (task * len(name) % 5 - 2) / 100,
            "success": False,
            "cost_usd": cost_usd,
            **more,
        }
        for task in range(tasks)
        for seed, score in enumerate(scores)
    ]


@pytest.mark.slow
def test_the_cheapest_arm_that_is_not_worse_is_named_with_its_price():
    trials = results(
        declare_margin(
            [
                *arm("dear", (0.80, 0.82), cost_usd=9.0),
                *arm("cheap", (0.82, 0.82), cost_usd=1.0),
                *arm("bad", (0.20, 0.25), cost_usd=0.1),
            ]
        )
    )
    notes = headlines(trials)
    assert notes[0] == (
        "Score lies between 0.22 (bad) and 0.81 (dear). No comparison was declared before the run, so no difference is a "
        "finding. In 2 comparisons of arms, no requests before a compaction are known, so that the placebo check is missing."
    )
    assert notes[-1] == (
        "3 arms (compared settings) on 7 tasks × 2 seeds, 42 trials, with a simulated agent and a simulated summarizer (level "
        "L0). None of 42 trials passed every check (success), so arms are compared by score (share of checks passed)."
    )
    assert any("Highest observed score: dear, 0.81 (mean over these tasks, 14 trials)" in note for note in notes)
    (cheapest,) = (note for note in notes if note.startswith("Not worse "))
    assert cheapest == (
        "Not worse in score than dear, the highest observed, by the declared margin of 0.05: cheap, 1.00 USD per trial (ratio of "
        "dear, which costs 9.00 USD, averaged over tasks: 9.00); cheap − dear is -0.010 [-0.026, +0.006]. Cheaper, but not "
        "called so: bad (0.10 USD): shown to be worse in score than dear."
    )
    more = results([*trials.trials.to_dict("records"), *arm("dearest", (0.80, 0.81), cost_usd=12.0)])
    (cheapest,) = (note for note in headlines(more) if note.startswith("Not worse "))
    assert ". Also not worse, but not cheaper: dearest (12.00 USD). Cheaper, but not called so: bad" in cheapest


@pytest.mark.slow
def test_a_difference_that_a_declared_comparison_states_is_not_stated_again():
    family = Family(contrasts=(Contrast(a="dear", b="cheap", metric="score"),), planned_trials=28)
    provenance = json.dumps({"family": codec.to_plain(family), "not_worse_margin": 0.05})
    rows = [*arm("dear", (0.80, 0.82), cost_usd=9.0), *arm("cheap", (0.82, 0.82), cost_usd=1.0)]
    notes = headlines(results([row | {"provenance_json": provenance} for row in rows]))
    (claim,) = (note for note in notes if "difference shown in score: dear − cheap = " in note)
    assert "; 9.00 against 1.00 USD per trial." in claim
    (cheapest,) = (note for note in notes if note.startswith("Not worse "))
    assert cheapest == (
        "Not worse in score than dear, the highest observed, by the declared margin of 0.05: cheap, 1.00 USD per trial (ratio of "
        "dear, which costs 9.00 USD, averaged over tasks: 9.00)."
    )


def declare_margin(rows, margin=0.05):
    """Return trials whose plan declared a margin up to which an arm is called not worse."""
    return [row | {"provenance_json": json.dumps({"not_worse_margin": margin})} for row in rows]


@pytest.mark.slow
def test_a_repeated_arm_is_neither_the_highest_nor_the_cheapest():
    rows = [*arm("base", (0.5, 0.5), cost_usd=2.0), *arm("other", (0.4, 0.4), cost_usd=3.0)]
    again = [row | {"arm": "again", "replicate": 1, "score": row["score"] + 0.1, "cost_usd": 1.0} for row in rows[:14]]
    other = [row | {"policy_json": json.dumps({"kind": "none"})} if row["arm"] == "other" else row for row in rows]
    notes = headlines(results([*other, *again]))
    assert any(note.startswith("Highest observed score: base, 0.5") and "; 1 A/A arm left out)" in note for note in notes)
    assert not any("again" in note for note in notes)


@pytest.mark.slow
def test_an_arm_that_knows_the_future_is_no_recommendation():
    oracle = arm("all-knowing", (1.0, 1.0), cost_usd=0.1)
    written = [
        {"trial_id": row["trial_id"], "event": 1, "status": "applied", "summarizer": "scripted/oracle"}
        for row in results(oracle).trials.to_dict("records")
    ]
    rows = [*oracle, *arm("real", (0.5, 0.6), cost_usd=1.0), *arm("other", (0.4, 0.6), cost_usd=2.0)]
    notes = headlines(results(rows, compactions=written))
    assert any("Highest observed score: real, 0.5" in note and "1 arm with an oracle left out" in note for note in notes)
    assert not any("all-knowing" in note for note in notes)


@pytest.mark.slow
@pytest.mark.parametrize("arms", [1, 2])
def test_the_advice_counts_the_seeds_that_narrow_the_interval(arms):
    others = [row for name in ("one", "other")[:arms] for row in arm(name, (0.4, 0.6), cost_usd=1.0)]
    uneven = [row | {"score": row["score"] * (0.5 if row["task"] in ("task-1", "task-2") else 1.0)} for row in others]
    notes = headlines(results([*arm("best", (0.9, 0.8), cost_usd=1.0), *uneven]))
    (advice,) = (note for note in notes if note.startswith("Run next: "))
    size = rf"\d+ seeds of each task instead of 2 \(\d+ trials in all\), {NEW_FOLDER}"
    goal = r"The interval of one − best would then be about ±0\.05 in score \(now ±0\.\d\d\)\."
    assert re.fullmatch(rf"Run next: {size}\. {goal}", advice), advice


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task_count", "scores", "beginning", "reason"),
    [  # a difference that is another one on each task, and few tasks whose seeds differ much
        (
            8,
            lambda task, seed: 0.5 + (-1) ** task * 0.2 + seed / 500,
            "4 new seeds of each task, as",
            "no number of seeds narrows",
        ),
        (8, lambda task, seed: 0.5 + (-1) ** (task + seed) * 0.5, "the same tasks and seeds with", "even 60 seeds of each task"),
        (2, lambda task, seed: 0.5 + (-1) ** (task + seed) * 0.5, "at least 6 of the 8 tasks", "even 60 seeds of each task"),
    ],
)
def test_the_advice_begins_with_what_can_be_run_and_another_design_comes_after_it(task_count, scores, beginning, reason):
    others = [
        row | {"score": scores(int(row["task"][5:]), row["seed"])}
        for row in arm("b", (0, 0, 0, 0), cost_usd=1.0, tasks=task_count)
    ]
    best = [row | {"score": 0.9} for row in arm("a", (0, 0, 0, 0), cost_usd=1.0, tasks=task_count)]
    notes = headlines(results([*best, *others]))
    (advice,) = (note.removeprefix("Run next: ") for note in notes if note.startswith("Run next: "))
    first, _, second = advice.partition(". ")
    assert advice.startswith(beginning), advice
    assert "another design" not in first
    assert "another design" in second
    assert reason in second, advice


@pytest.mark.slow
def test_few_tasks_and_seeds_are_the_largest_threat_and_the_advice_is_more_tasks():
    notes = headlines(grid(keeps=(4, 10), summarizers=("scripted/empty", "scripted/oracle")))
    assert "1 task only: nothing is shown about other tasks, which needs at least 6." in notes[0]
    assert any(note.startswith("Run next: ") and "at least 6 of the 8 tasks of the suite" in note for note in notes)
    assert any(note.startswith("Declared contrasts: none") for note in notes)


@pytest.mark.slow
def test_a_placebo_check_without_requests_is_missing_and_has_not_failed():
    rows = [*arm("one", (0.5, 0.6), cost_usd=1.0), *arm("two", (0.4, 0.6), cost_usd=2.0)]
    tables = results(rows)
    (threat,) = list_threats(tables.trials, [compare(tables, "one", "two")])
    assert threat.startswith("in 1 comparison of arms, no requests before a compaction are known")
    ids = list(results([rows[0], rows[14]]).trials["trial_id"])
    sent = [{"trial_id": name, "step": 1, "request_digest": name} for name in ids]
    differing = results([rows[0], rows[14]], sent)
    first, *_ = list_threats(differing.trials, [compare(differing, "one", "two")])
    assert first.startswith("in 1 comparison of arms, requests differed before any compaction")


@pytest.mark.slow
def test_the_highest_arm_is_that_of_the_highest_mean_over_tasks_whatever_the_number_of_their_trials():
    rows = [
        {"arm": arm, "task": task, "seed": seed, "success": False, "score": scores[task]}
        for arm, scores in (("even", {"one": 0.5, "two": 0.5}), ("often", {"one": 0.8, "two": 0.1}))
        for task, seeds in (("one", 9), ("two", 1))
        for seed in range(seeds)
    ]
    notes = report(results(rows)).sections[0].notes
    assert any(note.startswith("Highest observed score: even, 0.50") for note in notes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("score", "reason", "advice"),
    [
        (1.0, "declared", 'the same arms at difficulty hard (`world = { difficulty = "hard" }`) or a smaller window, since'),
        (0.5, "declared", "several seeds of each task instead of 1, as an experiment of another name"),
        (0.0, "declared", 'the same arms at difficulty easy (`world = { difficulty = "easy" }`) or a larger window, since'),
        (0.0, "max_steps", "the same arms with a higher max_steps (now 300)"),
    ],
)
def test_equal_means_name_no_highest_arm(score, reason, advice):
    rows = [*arm("one", (score,), cost_usd=1.0, reason=reason), *arm("two", (score,), cost_usd=2.0, reason=reason)]
    notes = headlines(results([row | {"score": score} for row in rows]))
    (highest,) = (note for note in notes if note.startswith("Highest observed score: "))
    assert highest.startswith(f"Highest observed score: {score:.2f} in all 2 arms, so it does not tell them apart.")
    assert not any("It is also the highest." in note for note in notes)
    assert highest.endswith("apart.")
    (next_step,) = (note for note in notes if note.startswith("Run next: "))
    assert next_step.startswith(f"Run next: {advice}")


def test_the_headlines_of_a_single_arm_say_that_nothing_can_be_compared():
    notes = headlines(results([{"arm": "a", "seed": seed} for seed in range(3)]))
    assert "Cannot be said: how the arms differ, since there is only one arm with valid trials." in notes


@pytest.mark.slow
def test_arms_that_are_left_out_are_not_called_arms_without_shared_tasks():
    rows = [{"arm": name, "seed": seed, "policy": policy} for name, policy in (("a", "mask"), ("b", "oracle")) for seed in (0, 1)]
    notes = headlines(results(rows))
    assert "Cannot be said: how the arms differ, since only a is compared, since 1 arm with an oracle is left out." in notes
    apart = [{"arm": name, "seed": seed} for name, seed in (("a", 0), ("a", 1), ("b", 2), ("b", 3))]
    assert "Cannot be said: how the arms differ, since no other arm has a valid trial on a task and seed of a." in headlines(
        results(apart)
    )


@pytest.mark.slow
def test_an_arm_whose_window_overflows_is_no_bargain_and_stopped_sessions_are_a_threat():
    broken = arm("full", (0.775, 0.795), cost_usd=0.1, status="failed", reason="overflow")
    stopped = arm("stopped", (0.77, 0.79), cost_usd=3.0, reason="max_steps")
    notes = headlines(results(declare_margin([*arm("whole", (0.80, 0.82), cost_usd=9.0), *broken, *stopped])))
    (cheapest,) = (note for note in notes if note.startswith("Not worse "))
    assert cheapest == (
        "Not worse in score than whole, the highest observed, by the declared margin of 0.05: no arm. Not called so: full (0.10 "
        "USD): window full at the end (of 14 of 14 trials); stopped (3.00 USD): stopped at the maximum number of steps (in 14 of "
        "14 trials)."
    )
    threats = list_threats(results([*arm("whole", (0.8, 0.8), cost_usd=9.0), *stopped]).trials, [])
    assert threats == [
        "14 of 14 trials of stopped were stopped at the maximum number of steps, so its score and cost depend on that number."
    ]


def test_all_arms_that_were_often_stopped_are_one_threat_in_any_order_of_the_trials():
    one, two = (arm(name, (0.8,), cost_usd=9.0, reason="max_steps") for name in ("one", "two"))
    two[0]["reason"] = "declared"
    expected = (
        "7 of 7 trials of one, 6 of 7 of two were stopped at the maximum number of steps, so their scores and costs depend on "
        "that number."
    )
    assert [list_threats(results(rows).trials, []) for rows in ([*one, *two], [*two, *one])] == [[expected]] * 2
    single = results([one[0] | {"task": "task-7"}, *arm("three", (0.8,), cost_usd=9.0)]).trials
    assert list_threats(single, []) == [
        "1 of 1 trial of one was stopped at the maximum number of steps, so its score and cost depend on that number."
    ]


@pytest.mark.slow
def test_an_arm_with_fewer_tasks_has_intervals_of_its_own():
    lost = arm("short", (0.5, 0.6), cost_usd=1.0)
    rows = [*arm("one", (0.5, 0.6), cost_usd=1.0), *arm("two", (0.5, 0.6), cost_usd=1.0), *lost[:8]]
    (table,) = (section for section in report(results(rows)).sections if section.heading.startswith("How the trials ended"))
    (note,) = (note for note in table.notes if note.startswith("Intervals are for "))
    assert note.startswith("Intervals are for tasks like these: the mean over all tasks like the 7 that ran")
    assert "; those of short for these tasks: the mean over these 4 tasks only" in note


@pytest.mark.slow
def test_an_arm_that_lost_its_expensive_tasks_does_not_look_cheap():
    rows = [
        {"arm": name, "task": f"task-{task}", "seed": seed, "success": False, "score": 0.5 + (name == "lossy") * seed / 100}
        | {"cost_usd": (10.0 if task > 3 else 1.0) * (1.1 if name == "lossy" else 1.0)}
        | ({"status": "crashed", "reason": "crashed"} if name == "lossy" and task > 3 else {})
        for name in ("plain", "lossy")
        for task in range(8)
        for seed in range(3)
    ]
    notes = headlines(results(rows))
    (highest,) = (note for note in notes if note.startswith("Highest observed score"))
    assert "lossy, 0.51 (mean over the tasks and seeds that all these arms have, 12 trials)" in highest


@pytest.mark.slow
@pytest.mark.parametrize(("success", "clause"), [(False, "None of 28 trials"), (True, "All of 28 trials")])
def test_constant_success_is_left_out_and_the_report_says_why(success, clause):
    rows = [*arm("one", (0.5, 0.6), cost_usd=1.0), *arm("two", (0.4, 0.6), cost_usd=2.0)]
    text_report = report(results([row | {"success": success} for row in rows]))
    assert f"{clause} passed every check (success), so arms are compared by score (share of" in text_report.sections[0].notes[-1]
    (table,) = (section for section in text_report.sections if section.heading.startswith("How the trials ended"))
    assert table.columns[1:3] == ("trials", "score, 95 %, range")
    assert not any("success" in column for column in table.columns)
    assert f"{clause} passed every check (success), so success is left out." in table.notes
    assert table.rows[0][2].startswith("0.55 [0.5")


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "trials"), [("keep-last", "no trial"), ("none", "no trial of a compaction policy")])
def test_a_finding_of_zero_trials_excludes_arms_without_a_policy(policy, trials):
    rows = [*arm("one", (0.5, 0.6), cost_usd=1.0), *arm("two", (0.4, 0.6), cost_usd=2.0, policy=policy)]
    (table,) = (section for section in report(results(rows)).sections if section.heading.startswith("How the trials ended"))
    assert any(note.startswith(f"Found in {trials}: ") for note in table.notes), table.notes


@pytest.mark.slow
def test_a_contrast_on_cost_states_no_costs_beside_its_ratio():
    family = Family(contrasts=(Contrast(a="dear", b="cheap", metric="total_cost_usd"),), planned_trials=28)
    provenance = json.dumps({"family": codec.to_plain(family)})
    rows = [*arm("dear", (0.80, 0.82), cost_usd=9.0), *arm("cheap", (0.82, 0.82), cost_usd=1.0)]
    notes = headlines(results([row | {"provenance_json": provenance} for row in rows]))
    (claim,) = (note for note in notes if "dear ÷ cheap = 9.00" in note)
    assert "USD per trial" not in claim


@pytest.mark.slow
def test_settings_that_names_of_arms_do_not_say_are_listed_once():
    def policy(**fields):
        return json.dumps({"kind": "keep-last", "threshold": 0.8, "keep_last": 10, **fields})

    base = arm("base", (0.5, 0.6), cost_usd=1.0, policy_json=policy())
    again = arm("again", (0.5, 0.6), cost_usd=1.0, policy_json=policy())
    early = arm("early", (0.4, 0.6), cost_usd=1.0, policy_json=policy(threshold=0.5))
    named = arm("keep-last 30", (0.4, 0.6), cost_usd=1.0, policy_json=policy(keep_last=30))
    notes = headlines(results([*base, *again, *early, *named]))
    assert notes[-1].endswith(
        " Settings, unless an arm's name says otherwise: threshold 0.8 (share of the available window at "
        'which messages are compacted), keep_last 10 (number of newest messages left as they are); in "early": threshold 0.5.'
    )


@pytest.fixture(scope="module")
def large_report():
    return report(grid())


@pytest.mark.slow
@pytest.mark.parametrize("full", [False, True])
def test_the_short_report_fits_a_screen_and_names_what_it_leaves_out(full, large_report):
    text_report = large_report
    text = text_report.render_text(full=full)
    headings = [section.heading for section in text_report.sections]
    assert all(
        (heading in text.split("Further sections")[0].splitlines()) == (full or not section.is_detail)
        for heading, section in zip(headings, text_report.sections, strict=True)
    )
    assert ("Further sections" in text) is not full
    if not full:
        assert len(text.splitlines()) <= 120


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "beginning"),
    [
        ('[experiment]\ntitle = "Is a lower threshold cheaper?"', "Question: Is a lower threshold cheaper? 1 arm on"),
        ('[experiment]\ntitle = "Two thresholds"', "Question: Two thresholds. 1 arm on"),
        ('[experiment]\ntitle = "\\u001b[31mred"', "Question: \\x1b[31mred. 1 arm on"),
        ("[experiment]", "1 arm on"),
        ("[[[", "1 arm on"),
        (None, "1 arm on"),
    ],
)
def test_the_title_of_the_plan_is_the_question_of_the_report(tmp_path, plan, beginning):
    with Journal.open(tmp_path / "output" / "journal.sqlite") as journal:
        journal.record_trial(TrialRecord(**trial(arm="a")), ())
    if plan is not None:
        (tmp_path / "plan.toml").write_text(plan)
    section = report(load(tmp_path)).sections[0]
    assert section.notes[-1].startswith(beginning)
    assert len(section.notes) <= 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("summarizer", "meaning"),
    [
        ("lossy-0.8", "an extractive summary that loses each line with probability 0.8"),
        ("survival:all-strings", "a summary that loses facts at published rates, which `harness models survival` lists"),
    ],
)
def test_the_name_of_a_summarizer_that_loses_facts_is_explained(summarizer, meaning):
    policies = [json.dumps({"kind": "keep-last", "summarizer": f"scripted/{name}"}) for name in ("extractive", summarizer)]
    rows = [
        *arm("base", (0.5,), cost_usd=1.0, policy_json=policies[0]),
        *arm("worse", (0.4,), cost_usd=1.0, policy_json=policies[1]),
    ]
    again = arm("base again", (0.5,), cost_usd=1.0, policy_json=policies[0])
    text = f'in "worse": summarizer scripted/{summarizer} ({meaning}).'
    assert headlines(results([*rows, *again]))[-1].endswith(text)


@pytest.mark.slow
def test_an_arm_that_names_the_oracle_but_never_calls_it_is_an_ordinary_arm():
    """The arms of `experiments/three_tiers`: three of them name the oracle as their summarizer, and one of these calls it."""
    policy = json.dumps({"kind": "three-tiers", "summarizer": "scripted/oracle"})
    rows = [
        {"arm": name, "seed": seed, "score": score + seed / 100, "success": False, "policy_json": json.dumps({"kind": "none"})}
        | ({} if name == "none" else {"policy": "three-tiers", "policy_json": policy})
        for name, score in (("none", 0.27), ("truncation", 0.52), ("pruning", 0.94), ("three-tiers", 0.96))
        for seed in range(3)
    ]
    written = [{"trial_id": f"three-tiers/flashcards/{seed}/0", "event": 9, "status": "applied"} for seed in (0, 2)]
    tables = results(rows, compactions=[row | {"summarizer": "scripted/oracle"} for row in written])
    notes = headlines(tables)
    assert any(
        note.startswith("Highest observed score: pruning, 0.95 (mean over these tasks, 3 trials; 1 arm with an oracle left out)")
        for note in notes
    )
    assert not any("no two of them" in note or "only one arm" in note for note in notes)


@pytest.mark.slow
def test_a_quantity_that_was_not_recorded_is_not_reported_as_zero_trials(tmp_path):
    runs = "task,arm,ok\n" + "".join(f"t{task},{arm},{task % 2}\n" for arm in "ab" for task in range(6))
    (tmp_path / "runs.csv").write_text(runs)
    study = load_outcomes(tmp_path / "runs.csv", task="task", arm="arm", success="ok")
    (table,) = (section for section in report(study).sections if section.heading.startswith("How the trials ended"))
    (note,) = (note for note in table.notes if note.startswith("Found in no trial"))
    assert note == "Found in no trial: an infrastructure failure ended the trial."


def test_a_policy_whose_plans_were_refused_is_the_first_threat_and_not_called_inert():
    broken = {"activity": "never fired", "status": "failed", "reason": "illegal_plan", "error": "policy x: illegal view."}
    rows = [{"arm": "a", "seed": seed, **broken} for seed in range(3)]
    rows += [{"arm": "b", "seed": seed, "activity": "never fired"} for seed in range(2)]
    rows += [{"arm": "b", "seed": 2, **broken}]
    first, *others = list_threats(results(rows).trials, [])
    assert (
        first == "every trial of a and 1 of 3 trials of b ended by an error of the policy, the first by: policy x: illegal view."
    )
    assert not any("changed nothing" in threat for threat in others)
    notes = headlines(results(rows))
    assert f" E{first[1:]}" in notes[0]


def test_an_arm_is_not_called_inert_because_of_the_trials_that_have_pairs():
    rows = [{"arm": arm, "seed": seed, "activity": "never fired"} for arm in "ab" for seed in range(3)]
    assert any("the policy changed nothing in any trial of a, b." in threat for threat in list_threats(results(rows).trials, []))
    extra = [*rows, {"arm": "a", "seed": 3, "activity": "active"}, {"arm": "b", "seed": 4, "activity": "active"}]
    tables = results(extra)
    assert not any("changed nothing" in threat for threat in list_threats(tables.trials, [compare(tables, "a", "b")]))
