"""Declared contrasts: what is claimed, and what is refused because it was not declared, not complete, or looked at before."""

import json

from harness import codec
from harness.analysis.claims import build_claim_section, judge_contrasts
from harness.experiment.contrasts import Contrast, Family
from tests.analysis.made import results

SUCCESS = Contrast(a="a", b="b")
SCORE = Contrast(a="b", b="a", metric="score", margin=0.2)


def rows(family, tasks=7, arms="ab"):
    provenance = json.dumps({"family": codec.to_plain(family)})
    return [
        {
            "arm": arm,
            "task": f"t{task}",
            "success": arm == "a",
            "score": 1.0 - 0.01 * task * (arm == "b"),
            "provenance_json": provenance,
        }
        for arm in arms
        for task in range(tasks)
    ]


def test_declared_contrasts_are_claimed_after_holms_correction():
    judged = judge_contrasts(results(rows(Family(contrasts=(SUCCESS, SCORE), planned_trials=14))))
    assert judged is not None
    success, score = judged.claims
    assert (success.p_value, success.holm_p, success.is_shown) == (2**-6, 2**-5, True)
    assert score.is_shown
    (section,) = build_claim_section(judge_contrasts(results(rows(Family(contrasts=(SUCCESS, SCORE), planned_trials=14)))))
    assert [row[-1] for row in section.rows] == ["shown", "shown: not worse"]
    assert section.rows[0][2] == "tasks like these"


def test_declared_looks_divide_the_level():
    judged = judge_contrasts(results(rows(Family(contrasts=(SUCCESS,), planned_trials=14, looks=4))))
    assert judged is not None
    assert (judged.claims[0].holm_p, judged.claims[0].is_shown) == (2**-4, False)


def test_an_arm_beyond_the_margin_is_not_called_no_worse():
    contrast = Contrast(a="b", b="a", metric="success", margin=0.2)
    judged = judge_contrasts(results(rows(Family(contrasts=(contrast,), planned_trials=14))))
    assert judged is not None
    assert not judged.claims[0].is_shown


def test_nothing_is_claimed_of_an_incomplete_an_extended_or_a_changed_plan():
    family = Family(contrasts=(SUCCESS,), planned_trials=20)
    incomplete = judge_contrasts(results(rows(family)))
    extended = judge_contrasts(results(rows(Family(contrasts=(SUCCESS,), planned_trials=7), arms="a") + rows(family, arms="b")))
    changed = judge_contrasts(results(rows(Family(planned_trials=7), arms="a") + rows(family, arms="b")))
    assert [one.refusal for one in (incomplete, extended, changed) if one] == [
        "14 of 20 trials have finished",
        "the grid was extended after trials had run, and the plan declared 1 look(s)",
        "some trials ran under another declaration, so all contrasts are exploratory",
    ]


def test_an_experiment_without_declared_contrasts_has_no_section():
    assert judge_contrasts(results([{"arm": "a"}, {"arm": "b"}])) is None
    assert list(build_claim_section(judge_contrasts(results([{"arm": "a"}, {"arm": "b"}])))) == []
