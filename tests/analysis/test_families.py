"""Declared contrasts and looks: when outcomes may be shown, and that a comparison is a look like a report."""

import json

import pytest

from harness.analysis.comparison import compare
from harness.analysis.figures import FIGURES
from harness.analysis.tables import select
from harness.conversation import codec
from harness.errors import UsageError
from harness.experiment.contrasts import Family
from harness.experiment.interim_analyses import begin_record
from harness.inspection.loading import load
from harness.reporting.claims import judge_outcomes
from harness.reporting.experiment_report import report
from harness.reporting.page.document import write_page
from harness.store.journal import Journal
from tests.analysis.selections import results
from tests.reporting.test_claims import SUCCESS, Folder, rows
from tests.store.samples import trial


def looks(folder):
    return [one["trials"] for one in json.loads((folder / "looks.json").read_text())["looks"]]


def test_a_comparison_within_an_incomplete_plan_is_refused_with_a_way_to_go_on(tmp_path):
    begin_record(tmp_path)
    family = Family(contrasts=(SUCCESS,), planned_trials=20)
    for tables in (results(rows(family)), Folder(tmp_path, rows(family))):
        with pytest.raises(UsageError, match=r"^14 of 20 planned trials have finished.*harness run.*`looks = 2`"):
            compare(tables, "a", "b")
    assert looks(tmp_path) == []


def test_crashed_trials_run_again_and_are_not_finished(tmp_path):
    begin_record(tmp_path)
    broken = [
        row | ({"status": "crashed"} if at < 2 else {})
        for at, row in enumerate(rows(Family(contrasts=(SUCCESS,), planned_trials=14)))
    ]
    with pytest.raises(UsageError, match=r"^12 of 14 planned trials have finished; 2 crashed and run again next time, and"):
        compare(Folder(tmp_path, broken), "a", "b")
    assert looks(tmp_path) == []


@pytest.mark.slow
def test_a_comparison_is_recorded_as_a_look_once_for_the_same_trials(tmp_path):
    begin_record(tmp_path)
    interim = rows(Family(contrasts=(SUCCESS,), planned_trials=20, looks=2))
    for _ in range(2):
        assert compare(Folder(tmp_path, interim), "a", "b").difference == 1.0
    assert looks(tmp_path) == [14]
    judged = judge_outcomes(Folder(tmp_path, interim))
    assert judged is not None
    assert judged.analysis_number == 1


def test_a_grid_that_is_extended_after_a_comparison_claims_nothing(tmp_path):
    begin_record(tmp_path)
    small, large = (Family(contrasts=(SUCCESS,), planned_trials=count) for count in (14, 18))
    first = rows(small)
    compare(Folder(tmp_path, first), "a", "b")
    extended = Folder(tmp_path, first + [row for row in rows(large, tasks=9) if row["task"] in {"t7", "t8"}])
    judged = judge_outcomes(extended)
    assert judged is not None
    assert (judged.analysis_number, judged.claims) == (2, ())
    assert judged.refusal.startswith("this is look 2")


def test_some_trials_of_a_complete_plan_may_be_compared_and_the_look_is_at_all(tmp_path):
    begin_record(tmp_path)
    whole = Folder(tmp_path, rows(Family(contrasts=(SUCCESS,), planned_trials=14)))
    part = select(whole, whole.trials[whole.trials["task"] != "t0"])
    assert compare(part, "a", "b").counts.pairs == 6
    assert looks(tmp_path) == [14]


@pytest.mark.slow
def test_a_report_on_some_trials_of_a_complete_plan_shows_outcomes_and_claims_nothing(tmp_path):
    begin_record(tmp_path)
    whole = Folder(tmp_path, rows(Family(contrasts=(SUCCESS,), planned_trials=14)))
    part = select(whole, whole.trials[whole.trials["task"] != "t0"])
    document = report(part)
    assert "How the trials ended (L0 simulated)" in {section.heading for section in document.sections}
    assert document.claims is not None
    assert (document.claims.claims, document.claims.is_in_progress) == ((), False)
    assert document.claims.refusal.startswith("this report is on a selection of the trials")
    assert looks(tmp_path) == [14]


def test_a_report_on_some_trials_of_an_incomplete_plan_shows_the_progress_of_all(tmp_path):
    whole = Folder(tmp_path, rows(Family(contrasts=(SUCCESS,), planned_trials=20)))
    (section,) = report(select(whole, whole.trials[whole.trials["task"] != "t0"])).sections
    assert section.notes[0] == "14 of 20 planned trials have finished."


def test_an_experiment_without_declared_contrasts_is_compared_at_any_time(tmp_path):
    begin_record(tmp_path)
    assert compare(Folder(tmp_path, rows(Family(planned_trials=20))), "a", "b").counts.pairs == 7
    assert looks(tmp_path) == []


def test_an_unfinished_experiment_is_not_shown_because_it_is_joined_to_a_finished_one():
    done = [row | {"experiment": "first"} for row in rows(Family(contrasts=(SUCCESS,), planned_trials=14))]
    half = [row | {"experiment": "second"} for row in rows(Family(contrasts=(SUCCESS,), planned_trials=15), arms="cd")]
    with pytest.raises(UsageError, match="14 of 15 planned trials"):
        compare(results(done + half), "a", "b")


def store(folder, family, arms="ab"):
    """Return the output folder of an experiment with seven tasks, as a run leaves it."""
    output = folder / "output"
    with Journal.open(output / "journal.sqlite") as journal:
        for arm in arms:
            for task in range(7):
                place = {"experiment": folder.name, "arm": arm, "task": f"t{task}", "success": arm == "a"}
                origin = {"provenance_json": json.dumps({"family": codec.to_plain(family)})}
                journal.record_trial(trial(f"{folder.name}/{arm}/{task}", "", **place, **origin))
    begin_record(output)
    return output


@pytest.mark.slow
def test_a_comparison_of_two_experiments_is_a_look_at_each_of_them(tmp_path):
    plan = Family(contrasts=(SUCCESS,), planned_trials=14)
    first, second = (store(tmp_path / name, plan) for name in ("first", "second"))
    other = store(tmp_path / "other", Family(planned_trials=14))
    joined = load([tmp_path / name for name in ("first", "second", "other")])
    for _ in range(2):
        assert compare(joined, "first: a", "second: b").difference == 1.0
    assert [looks(one) for one in (first, second, other)] == [[14], [14], []]
    judged = judge_outcomes(joined)
    assert judged is not None
    assert (judged.claims, judged.is_in_progress) == ((), False)
    assert judged.refusal.startswith("3 experiments are joined here")
    alone = judge_outcomes(load(tmp_path / "first"))
    assert alone is not None
    assert (alone.analysis_number, alone.claims[0].is_shown) == (1, True), "the look at the joined results was at the same trials"


@pytest.mark.slow
@pytest.mark.parametrize("planned", [(14, 20), (20, 20)])
def test_joined_results_show_no_outcome_while_a_plan_of_theirs_is_unfinished(tmp_path, planned):
    outputs = [
        store(tmp_path / f"plan{place}", Family(contrasts=(SUCCESS,), planned_trials=count))
        for place, count in enumerate(planned)
    ]
    joined = load([output.parent for output in outputs])
    with pytest.raises(UsageError, match="14 of 20 planned trials"):
        compare(joined, "plan0: a", "plan1: a")
    (section,) = report(joined).sections
    assert section.heading == "Progress"
    assert section.notes[0] == f"28 of {sum(planned)} planned trials have finished."
    report(joined).write(tmp_path / "report")
    assert list((tmp_path / "report").rglob("*.png")) == []
    page = write_page(joined, tmp_path / "page.html").read_text("utf-8")
    assert "Progress only" in page
    assert "How the trials ended" not in page
    assert [looks(output) for output in outputs] == [[], []]


def test_experiments_with_one_plan_are_not_complete_because_their_trials_are_counted_together(tmp_path):
    plan = Family(contrasts=(SUCCESS,), planned_trials=28)
    outputs = [store(tmp_path / name, plan) for name in ("first", "second")]
    judged = judge_outcomes(load([output.parent for output in outputs]))
    assert judged is not None
    assert judged.is_in_progress


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_the_data_of_a_chart_is_a_look_and_is_refused_while_the_plan_is_unfinished(name, tmp_path):
    begin_record(tmp_path)
    half, whole = (Folder(tmp_path, rows(Family(contrasts=(SUCCESS,), planned_trials=count))) for count in (20, 14))
    with pytest.raises(UsageError, match="14 of 20 planned trials"):
        FIGURES[name].table(half)
    assert looks(tmp_path) == []
    FIGURES[name].table(whole)
    assert looks(tmp_path) == [14]
