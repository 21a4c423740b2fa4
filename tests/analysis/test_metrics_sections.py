"""What the report says of behaviour."""

from harness.analysis.metrics_sections import PATHOLOGY_LABELS, build_metrics_sections
from tests.analysis.made import results
from tests.analysis.test_regret import arm
from tests.analysis.test_retention import probe

COUNTED = ("execution_calls", *PATHOLOGY_LABELS)
WATCHED = dict.fromkeys(COUNTED, 0) | {"thrash": False}


def told(trials, probes=()):
    return {one.heading.split(":")[0].split(",")[0]: one for one in build_metrics_sections(results(trials, probes=probes))}


def test_nothing_is_shown_where_there_is_nothing_to_tell():
    assert told([*arm("a", "keep-last", [True]), *arm("none", "none", [True])]) == {}


def test_retention_has_a_column_for_each_kind_and_a_row_for_each_arm_with_probes():
    section = told(
        [*arm("a", "keep-last", [True]), *arm("none", "none", [True])],
        [probe(), probe(fact="b", seen_after=False), probe(fact="c", kind="value")],
    )["What compactions kept in view"]
    assert section.columns == ("arm", "n", "constraint", "value")
    assert section.rows == (("a", "3", "50 [9, 91]", "100 [21, 100]"),)


def test_values_in_other_words_have_a_column_where_there_are_any():
    rows = [
        probe(fact="b", seen_after=False, stands_after=True),
        probe(fact="c", kind="value", seen_after=False, stands_after=False),
    ]
    section = told([*arm("a", "keep-last", [True]), *arm("none", "none", [True])], rows)["What compactions kept in view"]
    assert section.columns[-1] == "lost, but in text"
    assert section.rows[0][-1] == "1 of 2"
    assert section.notes[-1].startswith("Lost, but in text")


def test_only_pathologies_that_tell_an_arm_from_the_control_are_shown():
    trials = [
        *arm("a", "keep-last", [True, True], **WATCHED | {"reacquisitions": 3, "thrash": True, "retrieval_calls": 7}),
        *arm("none", "none", [True, True], **WATCHED | {"retrieval_calls": 7}),
    ]
    section = told(trials)["How the agents behaved"]
    assert section.columns == ("arm", "n", "fetched again", "thrash")
    assert section.rows == (("none", "2", "0 [0–0]", "0"), ("a", "2", "3 [3–3]", "2"))


def test_arms_that_behave_alike_have_no_section():
    assert told([*arm("a", "keep-last", [True], **WATCHED), *arm("none", "none", [True], **WATCHED)]) == {}


def test_regret_names_the_oracle_and_marks_another_budget():
    trials = [
        *arm("a", "keep-last", [False]),
        *arm("none", "none", [True], threshold_tokens=None),
        *arm("best", "oracle", [True]),
    ]
    section = told(trials)["Above the clairvoyant policy at the same budget (oracle regret)"]
    assert [row[:4] for row in section.rows] == [
        ("none", "best *", "1", "+0 [-79, +79]"),
        ("a", "best", "1", "+100 [-12, +100]"),
    ]
    assert "another window or threshold" in section.notes[-1]


def test_that_the_oracle_is_no_bound_of_every_policy_is_said_where_an_arm_did_better():
    best = arm("best", "oracle", [True, False], steps=90)
    heading = "Above the clairvoyant policy at the same budget (oracle regret)"
    worse, better = ({"steps": steps} for steps in (90, 89))
    assert len(told([*best, *arm("a", "keep-last", [True, False], **worse)])[heading].notes) == 1
    for done in (arm("a", "keep-last", [True, True], **worse), arm("a", "keep-last", [True, False], **better)):
        assert "an arm did better than the oracle" in told([*best, *done])[heading].notes[-1]
