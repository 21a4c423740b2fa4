"""Tests of what a report says about warnings before a run and about tool outputs that were cut."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from harness.conversation.advisories import Advisory, format_advisories
from harness.reporting.headlines import list_threats
from harness.reporting.treatments import (
    MAX_LISTED_WARNINGS,
    build_warning_section,
    describe_cut_outputs,
    describe_missed_targets,
    describe_modelled_policies,
    list_frequent_summaries,
    list_output_threats,
    list_warnings,
)
from tests.analysis.selections import trial

SHORT, LONG = '{"max_characters":1638}', '{"max_characters":10000}'


def tabulate(*rows):
    common = {"summaries": 0, "clipped_outputs": 0, "clipped_bytes": 0, "revisions": None, "started_at": pd.Timestamp(0)}
    return pd.DataFrame([{**common, **row} for row in rows])


def make_arm(name, limit, outputs, size_bytes, **changes):
    """Return two trials of an arm that cut the given number of outputs and bytes."""
    cut = {"clipped_outputs": outputs, "clipped_bytes": size_bytes}
    return [trial(arm=name, seed=seed, output_limits_json=limit, **changes) | cut for seed in (0, 1)]


def test_arms_with_different_limits_on_tool_outputs_are_the_first_threat_with_limits_and_bytes():
    trials = tabulate(*make_arm("plain", LONG, 12, 3_432_195), *make_arm("scaled", SHORT, 40, 2_778_025))
    (threat,) = list_output_threats(trials)
    assert threat.startswith("arms cut tool outputs at different limits: 10,000 characters in plain (3.43M bytes cut per trial)")
    assert "; 1,638 characters in scaled (2.78M bytes cut per trial); so a difference in results need not come from" in threat
    assert list_threats(trials, [])[0] == threat
    (note,) = describe_cut_outputs(trials)
    assert note == (
        "Cut from tool outputs, under limits that differ between arms: plain: 3.43M bytes of 12 outputs per trial; scaled: 2.78M "
        "bytes of 40 outputs per trial."
    )


def test_different_limits_that_cut_nothing_are_no_threat():
    trials = tabulate(*make_arm("plain", LONG, 0, 0), *make_arm("scaled", SHORT, 0, 0))
    assert [*list_output_threats(trials), *describe_cut_outputs(trials)] == []


@pytest.mark.parametrize(("size_bytes", "is_threat"), [(2_000, False), (2_001, True)])
def test_under_one_limit_an_arm_with_more_than_twice_the_bytes_cut_is_a_threat(size_bytes, is_threat):
    trials = tabulate(*make_arm("a", LONG, 2, 1_000), *make_arm("b", LONG, 2, size_bytes))
    threats = list(list_output_threats(trials))
    assert [text.partition(" were cut")[0] for text in threats] == ["very different numbers of bytes of tool outputs"] * is_threat
    (note,) = describe_cut_outputs(trials)
    assert note.startswith(
        "Cut from tool outputs, under the same limit in all arms (10,000 characters): a: 1k bytes of 2 outputs"
    )


def test_trials_of_older_versions_without_limits_and_bytes_are_compared_by_the_number_of_cut_outputs():
    trials = tabulate(*make_arm("a", None, 2, None), *make_arm("b", None, 5, None))
    (threat,) = list_output_threats(trials)
    assert threat.startswith("very different numbers of outputs were cut per trial (5 in b, 2 in a)")
    (note,) = describe_cut_outputs(trials)
    assert note.startswith("Cut from tool outputs: a: an unknown number of bytes of 2 outputs per trial")


def test_an_arm_that_summarizes_before_most_steps_is_a_threat_and_one_that_prunes_at_each_step_is_not():
    often = trial(arm="often", compactions=299, steps=300) | {"summaries": 299}
    pruning = trial(arm="pruning", compactions=299, steps=300) | {"summaries": 0}
    (text,) = list_frequent_summaries(tabulate(often, pruning))
    assert text.startswith("often wrote 299 summaries in 300 steps, so its policy does not fit the window")


def test_an_arm_whose_compactions_miss_their_target_is_named_with_what_was_left():
    trials = tabulate(trial(arm="own"), trial(arm="copy"))
    own, copy = trials["trial_id"]
    why = "compaction cannot reach its target here: it saved 9 of 900 tokens, fewer than 5 %; the system message has 700 tokens"
    compactions = pd.DataFrame(
        {
            "trial_id": [own, own, own, copy],
            "shortfall": ["", f"{why}, kept messages 100", f"{why}, kept messages 180", f"counts as fruitless: {why}"],
        }
    )
    (sentence,) = describe_missed_targets(trials, compactions)
    assert sentence == (
        "own: 2 of 3 compactions could not reach their target, e.g. it saved 9 of 900 tokens, fewer than 5 %; the system message "
        "has 700 tokens, kept messages 180."
    )


ADVISORY = Advisory(problem="policy 'p' is due at 9 tokens", advice="raise window_tokens", detail="task 'a' has 10 tokens")


def test_a_warning_is_listed_once_with_its_arms_and_the_number_of_its_tasks():
    other = replace(ADVISORY, detail="task 'b' has 11 tokens")

    def encode(*advisories):
        return json.dumps([{"problem": one.problem, "advice": one.advice, "detail": one.detail} for one in advisories])

    trials = tabulate(
        trial(arm="a", task="a", advisories_json=encode(ADVISORY)),
        trial(arm="a", task="b", advisories_json=encode(other)),
        trial(arm="b", task="a", advisories_json=encode(ADVISORY, Advisory(problem="policy 'p' never compacts"))),
        trial(arm="old", advisories_json=None),
        trial(arm="none", advisories_json="[]"),
    )
    assert list_warnings(trials) == [
        "a, b: policy 'p' is due at 9 tokens, because task 'a' has 10 tokens (likewise for 1 other task); raise window_tokens.",
        "b: policy 'p' never compacts.",
    ]
    (section,) = build_warning_section(trials)
    assert not section.is_detail
    assert list(build_warning_section(trials[trials["arm"].isin(["old", "none"])])) == []


def test_many_warnings_are_cut_with_their_number():
    plain = [{"problem": f"policy {number} never compacts"} for number in range(MAX_LISTED_WARNINGS + 2)]
    (section,) = build_warning_section(tabulate(trial(advisories_json=json.dumps(plain))))
    assert section.notes[-1] == "2 further warnings in the column `advisories_json` of the trials."
    assert len(section.notes) == MAX_LISTED_WARNINGS + 1


def test_warnings_with_equal_problems_are_formatted_as_one():
    advisories = [ADVISORY, replace(ADVISORY, detail="task 'b' has 11 tokens"), replace(ADVISORY, problem="other", detail="")]
    assert format_advisories(advisories) == (
        "policy 'p' is due at 9 tokens, because task 'a' has 10 tokens (likewise for 1 other task); raise window_tokens",
        "other; raise window_tokens",
    )
    assert str(ADVISORY) == "policy 'p' is due at 9 tokens, because task 'a' has 10 tokens; raise window_tokens"


def test_policies_that_no_test_compares_with_their_original_are_named():
    trials = pd.DataFrame(
        {"policy": ["none", "codex@2026", "langchain-summary", "codex@2026", "codex@2025", "of-another-package"]}
    )
    (note,) = describe_modelled_policies(trials)
    assert note.startswith("Modelled on other systems, without a test beside the original: codex, codex@2025. Results are")
    assert [*describe_modelled_policies(trials[trials["policy"] == "none"])] == []
