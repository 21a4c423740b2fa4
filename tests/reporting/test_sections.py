"""Sections of the report, and information that no report may leave out."""

import json
import re
from functools import cache

import pytest

from harness.analysis.comparison import compare
from harness.analysis.formatting import format_p
from harness.conversation import codec
from harness.errors import UnknownName
from harness.experiment.contrasts import Contrast, Family
from harness.reporting.claims import judge_contrasts
from harness.reporting.sections import PATHOLOGY_LABELS, build_sections
from tests.analysis.selections import grid, results
from tests.analysis.test_regret import arm
from tests.analysis.test_retention import probe

WATCHED = dict.fromkeys(("execution_calls", *PATHOLOGY_LABELS), 0) | {"thrash": False}
BEHAVIOUR = ("Facts kept", "Behaviour of the agents", "Oracle regret")
"""Beginnings of the headings of sections about behaviour."""


@cache
def small():
    return grid(keeps=(4, 10), summarizers=("scripted/empty", "scripted/oracle"))


@cache
def small_sections():
    return tuple(build_sections(small()))


def write_out(sections):
    return "\n".join(
        line
        for section in sections
        for line in (section.heading, " | ".join(section.columns), *(" | ".join(row) for row in section.rows), *section.notes)
    )


def render(tables):
    return write_out(build_sections(tables))


@pytest.mark.slow
def test_every_arm_has_its_row_in_every_table_about_arms():
    headings = ("How the trials ended", "Effort")
    tables = [section for section in small_sections() if section.heading.startswith(headings)]
    assert [len(section.rows) for section in tables] == [small().trials["arm"].nunique()] * 2


@pytest.mark.slow
def test_rows_are_as_wide_as_their_table():
    for section in small_sections():
        assert {len(row) for row in section.rows} <= {len(section.columns)}


def test_validity_notes_are_part_of_every_report():
    text = write_out(small_sections())
    for part in ("A/A (", "Placebo check (", "p would be", "not evidence of equality", "Simulated", "Exploratory"):
        assert part in text


def test_controls_and_repeated_arms_are_what_others_are_compared_with():
    headings = [one.heading for one in small_sections()]
    assert any(heading.endswith("against: no compaction") for heading in headings)
    assert any("keep_last=10 summarizer=scripted/oracle threshold=0.8" in heading for heading in headings)


@pytest.mark.slow
def test_an_arm_that_differs_in_a_setting_without_a_column_is_no_repeated_arm():
    rows = [
        {"arm": arm, "replicate": replicate, "config_json": json.dumps({"parallel_tools": parallel, "replicate": replicate})}
        for arm, replicate, parallel in (("a", 0, False), ("A/A", 1, False), ("b", 0, True))
    ]
    headings = [section.heading for section in build_sections(results(rows)) if "against: " in section.heading]
    assert [heading.rpartition("against: ")[2] for heading in headings] == ["a"]


def test_every_table_of_estimates_names_what_its_numbers_speak_about():
    for section in small_sections():
        if section.heading.startswith(("How the trials ended", "By axis", "Paired comparison")):
            assert "these tasks: this one task only" in " ".join(section.notes)


@pytest.mark.slow
def test_effects_that_survive_the_adjustment_for_the_whole_table_are_marked_as_exploratory():
    rows = [{"arm": arm, "seed": seed, "success": arm == "a"} for arm in "abc" for seed in range(12)]
    (section,) = [section for section in build_sections(results(rows), "b") if section.heading.startswith("Paired")]
    cells = {row[0]: row[3] for row in section.rows}
    assert cells["a"].endswith("*")
    assert not cells["c"].endswith("*")
    assert any(note.startswith("*: p ≤ 0.05, adjusted for the ") and note.endswith("not a claim.") for note in section.notes)
    single = compare(results(rows), "a", "b").p_value
    assert {row[0]: row[4] for row in section.rows} == {"a": format_p(single * 4), "c": "1"}, "success and score of two arms"


@pytest.mark.slow
def test_a_declared_contrast_keeps_the_verdict_of_its_family_in_the_table_of_all_comparisons():
    contrasts = (Contrast(a="a", b="b", metric="score"),)
    plain = codec.to_plain(Family(contrasts=contrasts, planned_trials=16, looks=1))
    rows = [
        {"arm": arm, "task": f"task-{task}", "score": score, "success": False, "provenance_json": json.dumps({"family": plain})}
        for task in range(8)
        for arm, score in (("a", 0.5), ("b", 0.9 + task / 100))
    ]
    tables = results(rows)
    (section,) = [
        section for section in build_sections(tables, "b", judge_contrasts(tables)) if section.heading.startswith("Paired")
    ]
    assert section.columns == ("arm", "pairs", "score", "tokens", "cost")
    assert section.rows[0][2].endswith("]†")
    assert any(note.startswith("†: declared contrast; its verdict") for note in section.notes)
    (undeclared,) = [section for section in build_sections(tables, "b") if section.heading.startswith("Paired")]
    assert undeclared.rows[0][2].endswith("]*")


@pytest.mark.slow
def test_another_arm_can_be_asked_for():
    arm = "keep_last=4 summarizer=scripted/oracle threshold=0.5"
    headings = [section.heading for section in build_sections(small(), arm) if "against" in section.heading]
    assert headings == [f"Paired comparison on the same task and seed, against: {arm}"]
    with pytest.raises(UnknownName):
        list(build_sections(small(), "no such arm"))


def test_a_control_that_overflowed_has_a_note_on_its_full_window():
    assert "ended because the window was full" in write_out(small_sections())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activity", "column", "said_of_it"),
    [
        ("never fired", "never fired", "never triggered, so the arm is a control"),
        ("no effect", "no effect", "never changed the view, so the arm is a control"),
        ("summarizer never asked", "summarizer unused", "the summarizer was never called"),
    ],
)
def test_an_arm_that_is_inert_in_every_trial_is_named_and_one_that_is_in_some_is_counted(activity, column, said_of_it):
    idle = [{"arm": "idle", "seed": seed, "activity": activity} for seed in (0, 1)]
    some = [{"arm": "some", "seed": seed, "activity": kind} for seed, kind in enumerate((activity, "active"))]
    tables = results([*idle, *some])
    text = render(tables)
    assert f"Without effect in every trial: idle: {said_of_it}" in text.replace("the policy was ", "").replace(
        "triggered but ", ""
    )
    outcomes = list(build_sections(tables))[1]
    at = outcomes.columns.index(column)
    assert [row[at] for row in outcomes.rows] == ["2", "1"]


@pytest.mark.slow
def test_inert_policies_are_not_mentioned_when_every_policy_acted():
    assert "Without effect" not in render(results([{"seed": 0, "activity": "active"}, {"seed": 1, "activity": "control"}]))


@pytest.mark.slow
def test_the_width_of_a_single_comparison_is_stated_once():
    rows = [{"arm": arm, "task": f"t{task}", "success": arm == "a" and task > 2} for arm in "ab" for task in range(8)]
    assert re.search(r"Intervals of differences in success: ±\d+ points\.", render(results(rows)))


@pytest.mark.slow
def test_lost_trials_are_listed_with_their_reasons():
    text = render(results([{"seed": 0}, {"seed": 1, "status": "failed", "reason": "sandbox_error"}]))
    assert "1 of 2 trials are excluded" in text
    assert "1 × sandbox_error" in text


@pytest.mark.slow
def test_the_short_report_shows_worst_case_bounds_if_arms_lost_different_trials():
    rows = [{"arm": arm, "seed": seed, "success": arm == "a", "score": 0.5} for arm in "abcdef" for seed in range(4)]
    assert "whatever the excluded trials" not in render(results(rows))
    lost = [row | ({"status": "crashed"} if row["arm"] == "a" and row["seed"] == 0 else {}) for row in rows]
    validity = list(build_sections(results(lost), "a"))[-1]
    assert (validity.heading, validity.is_detail) == ("Validity", False)
    bounds = "success a − b is between -100 and -75 points and score a − b between -0.12 and +0.12."
    assert (
        f"Different trials were lost in b (a) and a (b): whatever the excluded trials would have shown, {bounds}"
        in validity.notes
    )
    assert any(note.startswith("2 further comparisons also lost different trials") for note in validity.notes)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "is_detail"), [(3, True), (4, False)])
def test_each_declared_contrast_has_its_verdict_in_the_short_report(count, is_detail):
    contrasts = [Contrast(a=a, b="b", metric=metric) for metric in ("success", "score") for a in "ac"][:count]
    plain = json.dumps({"family": codec.to_plain(Family(contrasts=tuple(contrasts), planned_trials=24))})
    rows = [
        {"arm": arm, "task": f"t{task}", "success": arm == "a", "provenance_json": plain} for task in range(8) for arm in "abc"
    ]
    tables = results(rows)
    (section,) = [
        section for section in build_sections(tables, "b", judge_contrasts(tables)) if section.heading.startswith("Declared")
    ]
    assert (len(section.rows), section.is_detail) == (count, is_detail)


@pytest.mark.slow
def test_the_first_arm_is_the_baseline_without_a_control_or_repeated_arm():
    sections = list(build_sections(results([{"arm": arm, "seed": seed} for arm in ("a", "b") for seed in (0, 1)])))
    assert [one.heading for one in sections if "against" in one.heading] == [
        "Paired comparison on the same task and seed, against: a"
    ]


@pytest.mark.slow
def test_an_experiment_of_one_arm_is_reported_without_comparisons():
    text = render(results([{"seed": s} for s in range(3)]))
    assert "3/3, 100 % [29, 100]" in text
    assert "there is no other arm to compare" in text
    assert "against" not in text


@pytest.mark.slow
def test_an_experiment_whose_trials_were_all_lost_is_reported():
    assert "0/0" in render(results([{"status": "crashed", "reason": "crashed"}]))


@pytest.mark.slow
@pytest.mark.parametrize(("level", "warned"), [("L0", "Simulated"), ("L1", "scripted"), ("L2-open", "not success"), ("L3", None)])
def test_each_level_says_what_it_is_no_evidence_of(level, warned):
    text = render(results([{"level": level}]))
    assert warned in text if warned else "Simulated" not in text


def behaviour_of(trials, probes=()):
    sections = build_sections(results(trials, probes=probes))
    return {section.heading.split(":")[0].split(",")[0]: section for section in sections if section.heading.startswith(BEHAVIOUR)}


@pytest.mark.slow
def test_the_section_on_behaviour_is_left_out_if_it_would_be_empty():
    assert behaviour_of([*arm("a", "keep-last", [True]), *arm("none", "none", [True])]) == {}


@pytest.mark.slow
def test_retention_has_a_column_for_each_kind_and_a_row_for_each_arm_with_probes():
    section = behaviour_of(
        [*arm("a", "keep-last", [True]), *arm("none", "none", [True])],
        [probe(), probe(fact="b", seen_after=False), probe(fact="c", kind="value")],
    )["Facts kept in view by compactions"]
    assert section.columns == ("arm", "n", "constraint", "value")
    assert section.rows == (("a", "3", "50", "100"),), "a single session has no interval"


@pytest.mark.slow
def test_values_in_other_words_have_a_column_where_there_are_any():
    rows = [
        probe(fact="b", seen_after=False, stands_after=True),
        probe(fact="c", kind="value", seen_after=False, stands_after=False),
    ]
    section = behaviour_of([*arm("a", "keep-last", [True]), *arm("none", "none", [True])], rows)[
        "Facts kept in view by compactions"
    ]
    assert section.columns[-1] == "lost, but in text"
    assert section.rows[0][-1] == "1 of 2"
    assert section.notes[-1].startswith("Lost, but in text")


@pytest.mark.slow
def test_facts_kept_only_by_summaries_have_a_table_of_the_arms_with_summaries():
    mask = [probe("mask/flashcards/0/0", fact="b"), probe("mask/flashcards/0/0", fact="c", kind="value", seen_after=False)]
    kept = [
        probe("a/flashcards/0/0", fact="b", seen_in_kept=True),
        probe("a/flashcards/0/0", fact="c", seen_in_kept=False),
        probe("a/flashcards/0/0", fact="d", seen_in_kept=False, seen_after=False),
        probe("a/flashcards/0/0", fact="e", kind="goal", seen_in_kept=True),
    ]
    trials = [*arm("a", "keep-last", [True]), *arm("mask", "mask", [True])]
    section = behaviour_of(trials, [*kept, *mask])["Facts kept by summaries"]
    assert section.columns == ("arm", "n", "constraint")
    assert section.rows == (("a", "2", "50"),)
    assert "Facts kept by summaries" not in behaviour_of(trials, mask)


@pytest.mark.slow
def test_only_metrics_of_calls_that_distinguish_an_arm_from_the_control_are_shown():
    trials = [
        *arm("a", "keep-last", [True, True], **WATCHED | {"reacquisitions": 3, "thrash": True, "retrieval_calls": 7}),
        *arm("none", "none", [True, True], **WATCHED | {"retrieval_calls": 7}),
    ]
    section = behaviour_of(trials)["Behaviour of the agents"]
    assert section.columns == ("arm", "n", "fetched again", "thrash")
    assert section.rows == (("none", "2", "0 [0–0]", "0"), ("a", "2", "3 [3–3]", "2"))


@pytest.mark.slow
def test_arms_that_behave_alike_have_no_section():
    assert behaviour_of([*arm("a", "keep-last", [True], **WATCHED), *arm("none", "none", [True], **WATCHED)]) == {}


@pytest.mark.slow
def test_regret_names_the_oracle_and_marks_another_budget():
    trials = [
        *arm("a", "keep-last", [False]),
        *arm("none", "none", [True], threshold_tokens=None),
        *arm("best", "oracle", [True]),
    ]
    section = behaviour_of(trials)["Oracle regret"]
    assert [row[:4] for row in section.rows] == [
        ("none", "best *", "1", "+0 points"),
        ("a", "best", "1", "-100 points"),
    ]
    assert "another window or threshold" in section.notes[-1]


@pytest.mark.slow
def test_the_report_says_that_the_oracle_is_no_upper_bound_if_an_arm_did_better():
    best = arm("best", "oracle", [True, False], steps=90)
    heading = "Oracle regret"
    worse, better = ({"steps": steps} for steps in (90, 89))
    assert len(behaviour_of([*best, *arm("a", "keep-last", [True, False], **worse)])[heading].notes) == 1
    for done in (arm("a", "keep-last", [True, True], **worse), arm("a", "keep-last", [True, False], **better)):
        assert "the arm did better than the oracle" in behaviour_of([*best, *done])[heading].notes[-1]
