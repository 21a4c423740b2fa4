"""Declared contrasts: what is claimed, and what is refused because it was not declared, not complete, or looked at before."""

import json

import numpy as np
import pytest
from scipy.stats import permutation_test, ttest_1samp

from harness.analysis.families import find_unfinished
from harness.conversation import codec
from harness.errors import StoreError, UsageError
from harness.experiment.contrasts import Contrast, Family
from harness.experiment.interim_analyses import begin_record
from harness.reporting.claims import build_claim_section, judge_contrasts, judge_outcomes
from harness.reporting.experiment_report import report
from harness.reporting.reader_counts import store_reader_counts
from tests.analysis.selections import results

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


@pytest.mark.parametrize(
    ("metric", "margin", "is_shown"),
    [
        ("score", 0.3, True),
        ("score", 0.16, False),  # within the margin, but not shown to be
        ("score", 0.1, False),  # worse than the margin
        ("total_cost_usd", 1.5, True),
        ("total_cost_usd", 1.22, False),
        ("total_cost_usd", 1.1, False),
    ],
)
def test_a_margin_is_tested_at_its_own_value(metric, margin, is_shown):
    family = Family(contrasts=(Contrast(a="b", b="a", metric=metric, margin=margin),), planned_trials=14)
    spread = np.array([-0.04, 0.03, 0.01, -0.02, 0.04, -0.03, 0.02])
    changed = [
        row | ({"score": 0.8, "cost_usd": 1.0} if row["arm"] == "a" else {"score": 0.65 + one, "cost_usd": 1.2 + one})
        for row, one in zip(rows(family), [*spread, *spread], strict=True)
    ]
    judged = judge_contrasts(results(changed))
    assert judged is not None
    (claim,) = judged.claims
    assert claim.is_shown is is_shown
    values, null = (spread - 0.15, -margin) if metric == "score" else (np.log(1.2 + spread), np.log(margin))
    flips = permutation_test((values - null,), np.mean, permutation_type="samples", n_resamples=2**8)
    assert claim.p_value == pytest.approx(max(ttest_1samp(values, null).pvalue, flips.pvalue))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "margin", "lost", "is_shown"),
    [
        ("score", None, 0, True),
        ("score", None, 6, True),  # at worst, the difference is 0.01
        ("score", None, 7, False),  # at worst, it is -0.02
        ("score", 0.1, 7, True),
        ("score", 0.1, 11, False),
        ("total_cost_usd", None, 0, True),
        ("total_cost_usd", None, 1, False),
    ],
)
def test_a_result_that_lost_trials_could_reverse_is_not_claimed(metric, margin, lost, is_shown):
    family = Family(contrasts=(Contrast(a="a", b="b", metric=metric, margin=margin),), planned_trials=2 * (8 + lost))
    changed = [
        row
        | {"score": 0.9 + 0.001 * place if row["arm"] == "a" else 0.5, "success": False, "cost_usd": 2.0 + (row["arm"] == "a")}
        | ({"status": "failed", "reason": "model_error"} if row["arm"] == "a" and row["task"] in LAST[:lost] else {})
        for place, row in enumerate(rows(family, tasks=8 + lost))
    ]
    changed = [row | {"cost_usd": row["cost_usd"] + 0.01 * (place % 3)} for place, row in enumerate(changed)]
    judged = judge_contrasts(results(changed))
    assert judged is not None
    (claim,) = judged.claims
    assert (claim.is_shown, claim.passes_test) == (is_shown, True)
    notes = [note for section in build_claim_section(judged) for note in section.notes]
    assert any("not claimed, since the arms lost different trials" in note for note in notes) is not is_shown
    if metric == "score" and margin is None and not is_shown:
        headlines = report(results(changed)).sections[0].notes
        assert any("; not claimed, since the arms lost different trials: whatever the lost trials" in note for note in headlines)
    overflow = [row | ({"reason": "overflow"} if row.get("reason") == "model_error" else {}) for row in changed]
    judged = judge_contrasts(results(overflow))
    assert judged is not None
    assert judged.claims[0].lost_trials == ""


LAST = [f"t{task}" for task in range(8, 30)]
"""Tasks whose trials of one arm are lost."""


def test_no_claim_is_made_for_an_incomplete_extended_or_changed_plan():
    family, whole = (Family(contrasts=(SUCCESS,), planned_trials=count) for count in (20, 14))
    incomplete = judge_contrasts(results(rows(family)))
    assert find_unfinished(results(rows(family)).trials) is not None
    assert find_unfinished(results(rows(whole)).trials) is None
    extended = judge_contrasts(results(rows(Family(contrasts=(SUCCESS,), planned_trials=7), arms="a") + rows(whole, arms="b")))
    changed = judge_contrasts(results(rows(Family(planned_trials=7), arms="a") + rows(family, arms="b")))
    assert [one.refusal for one in (incomplete, extended, changed) if one] == [
        "14 of 20 planned trials have finished",
        "the grid was extended after trials had run, and the plan declared 1 look",
        "some trials ran under another declaration, so all contrasts are exploratory",
    ]


@pytest.mark.slow
def test_a_plan_with_looks_states_the_smallest_possible_p(tmp_path):
    contrasts = (Contrast(a="b", b="a", metric="success"), Contrast(a="b", b="a", metric="score"))
    for family, expected in (
        (
            Family(contrasts=contrasts, planned_trials=14, looks=2),
            "corrected for 2 comparisons and 2 declared looks (with 7",
        ),
        (Family(contrasts=(SUCCESS,), planned_trials=14, looks=2), "corrected for 2 declared looks (with 7"),
    ):
        smallest = len(family.contrasts) * 2 * 2 / 2**7
        text = report(Folder(tmp_path, rows(family))).render_text(full=True).replace("\n", " ")
        assert f"{expected} tasks it cannot be below {smallest:.3g})" in text, text
        assert "; in brackets, the uncorrected 95 % interval for " in text, text


class Folder:
    """Results in an output folder."""

    def __init__(self, output, rows):
        tables = results(rows)
        self.output, self.trials, self.steps = output, tables.trials, tables.steps
        self.compactions, self.probes, self.message_sizes = tables.compactions, tables.probes, tables.message_sizes


def headings(*arguments):
    return [section.heading for section in report(Folder(*arguments)).sections]


@pytest.mark.slow
def test_a_grid_that_is_extended_after_a_look_claims_nothing_more_unless_looks_were_declared(tmp_path):
    for looks, shown in ((1, False), (2, True)):
        output = tmp_path / str(looks)
        output.mkdir()
        begin_record(output)
        small, large = (Family(contrasts=(SUCCESS,), planned_trials=count, looks=looks) for count in (16, 20))
        first = rows(small, tasks=8)
        extended = first + [row for row in rows(large, tasks=10) if row["task"] in {"t8", "t9"}]
        for _ in range(2):  # a report that is drawn again is no other look
            judged = judge_outcomes(Folder(output, first))
            assert judged is not None
            assert (judged.analysis_number, judged.refusal, judged.claims[0].is_shown) == (1, "", True)
        judged = judge_outcomes(Folder(output, extended))
        assert judged is not None
        assert judged.analysis_number == 2
        assert (judged.refusal == "") is shown
        assert [claim.is_shown for claim in judged.claims] == [True] * shown
        if not shown:
            assert (
                judged.refusal == "this is look 2 at the results, after other trials had been seen, and the plan declared 1 look"
            )
        assert headings(output, first)[1] == "Declared contrasts: comparisons that the plan named before the trials ran"


def test_a_grid_that_is_extended_before_its_first_look_is_complete(tmp_path):
    begin_record(tmp_path)
    small, large = (Family(contrasts=(SUCCESS,), planned_trials=count) for count in (16, 20))
    extended = rows(small, tasks=8) + [row for row in rows(large, tasks=10) if row["task"] in {"t8", "t9"}]
    judged = judge_outcomes(Folder(tmp_path, extended))
    assert judged is not None
    assert [claim.is_shown for claim in judged.claims] == [True]


@pytest.mark.slow
def test_an_incomplete_plan_shows_its_progress_only_unless_interim_looks_were_declared(tmp_path):
    begin_record(tmp_path)
    family = Family(contrasts=(SUCCESS,), planned_trials=20)
    document = report(Folder(tmp_path, rows(family)))
    (section,) = document.sections
    assert (section.heading, section.rows[0]) == ("Progress", ("a", "7", "0"))
    assert section.notes[:2] == ("14 of 20 planned trials have finished.", "Cost of all arms together: 42.00 USD.")
    assert document.write(tmp_path / "report")
    assert not (tmp_path / "report" / "charts" / "success_heatmap.png").exists()
    assert json.loads((tmp_path / "looks.json").read_text())["looks"] == []
    interim = rows(Family(contrasts=(SUCCESS,), planned_trials=20, looks=2))
    assert "Declared contrasts: comparisons that the plan named before the trials ran" in headings(tmp_path, interim)


@pytest.mark.slow
def test_a_plan_with_scripted_and_real_summarizers_is_complete_and_can_compare_them(tmp_path):
    contrasts = (SUCCESS, Contrast(a="a", b="b", metric="success", margin=0.2))
    family = Family(contrasts=contrasts, planned_trials=14)
    begin_record(tmp_path)
    store_reader_counts(tmp_path, "b", summaries=20, stated=60, read=55)
    mixed = Folder(tmp_path, [row | {"level": "L1" if row["arm"] == "b" else "L0"} for row in rows(family)])
    judged = judge_outcomes(mixed)
    assert judged is not None
    assert (judged.refusal, [claim.is_shown for claim in judged.claims]) == ("", [True, True])
    contrast_sections = [section for section in report(mixed).sections if section.heading.startswith("Declared contrasts")]
    assert [section.heading for section in contrast_sections] == [
        "Declared contrasts: comparisons that the plan named before the trials ran"
    ] * 2


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ({}, "nobody has counted what the scripted agent reads in summaries of 'a' and 'b'"),
        ({"a": (60, 58)}, "nobody has counted what the scripted agent reads in summaries of 'b'"),
        ({"a": (60, 58), "b": (60, 2)}, "the agent's reader may differ between the arms by up to 0.9"),
        ({"a": (60, 58), "b": (60, 55)}, ""),
    ],
)
def test_a_contrast_that_a_reader_could_explain_is_shown_and_not_claimed(tmp_path, counts, reason):
    family = Family(contrasts=(SUCCESS,), planned_trials=14)
    for arm, (stated, read) in counts.items():
        store_reader_counts(tmp_path, arm, summaries=20, stated=stated, read=read)
    begin_record(tmp_path)
    changed = rows(family)
    changed[-1] = changed[-1] | {"success": bool(reason)}  # an effect of 6 in 7, which a gap of 0.9 could explain
    judged = judge_outcomes(Folder(tmp_path, [row | {"level": "L1"} for row in (changed if reason else rows(family))]))
    assert judged is not None
    (claim,) = judged.claims
    assert claim.reading_gap.startswith(reason)
    assert bool(claim.reading_gap) is bool(reason)
    assert claim.is_shown is (not reason)
    assert (claim.effect.value > 0.8, claim.passes_test) == (True, claim.holm_p <= 0.05)


def test_counts_of_a_reader_are_possible_numbers_of_enough_summaries(tmp_path):
    for wrong in ({"summaries": 19, "stated": 5, "read": 5}, {"summaries": 20, "stated": 5, "read": 6}):
        with pytest.raises(UsageError, match="arm 'a'"):
            store_reader_counts(tmp_path, "a", **wrong)
    (tmp_path / "reader-counts.json").write_text("[")
    with pytest.raises(StoreError, match="correct or delete the file"):
        store_reader_counts(tmp_path, "a", summaries=20, stated=5, read=5)


@pytest.mark.slow
def test_a_contrast_that_cannot_be_tested_is_named_instead_of_breaking_the_report(tmp_path):
    begin_record(tmp_path)
    family = Family(contrasts=(SUCCESS,), planned_trials=14, looks=2)
    judged = judge_outcomes(Folder(tmp_path, rows(family, arms="a")))
    assert judged is not None
    assert judged.refusal.startswith("a declared contrast cannot be tested: unknown arm 'b'")
    assert not judged.refusal.endswith("?")
    few = Family(contrasts=(Contrast(a="a", b="b", estimand="tasks like these"),), planned_trials=14, looks=2)
    (first, *_) = report(results(rows(few, tasks=3))).sections
    assert "'tasks like these' needs at least 6 tasks (got 3)" in " ".join(first.notes)


def test_an_experiment_without_declared_contrasts_has_no_section():
    assert judge_contrasts(results([{"arm": "a"}, {"arm": "b"}])) is None
    assert list(build_claim_section(judge_contrasts(results([{"arm": "a"}, {"arm": "b"}])))) == []
