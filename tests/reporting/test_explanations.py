"""Explanation of a row of a report: its queries compute the numbers that the report prints."""

import json

import pytest

from harness.analysis.measures import METRICS
from harness.analysis.row_queries import list_arm_queries, list_pair_queries
from harness.errors import UnknownName, UsageError
from harness.inspection.loading import load
from harness.reporting.explanations import explain_row
from harness.reporting.methods import write_methods
from harness.store.journal import Journal
from harness.store.records import TrialRecord
from tests.analysis.selections import trial
from tests.reporting.page.experiments import declare

pytestmark = pytest.mark.slow


def write_trials(folder, rows):
    """Write trials to a journal, and return its results."""
    with Journal.open(folder / "journal.sqlite") as journal:
        for row in rows:
            journal.record_trial(TrialRecord(**trial(**row)), ())
    return load(folder)


def list_rows(arms=("it's a", "b"), tasks=7, seeds=3):
    """Return trials with replicates, uneven numbers of seeds, costs of summaries, and an excluded trial."""
    rows = [
        {"arm": arm, "task": f"t{task}", "seed": seed, "replicate": replicate, "steps": 10 + task + 3 * number + replicate}
        | {"score": round(0.3 + 0.1 * number + 0.05 * seed + 0.01 * task, 3), "success": (task + seed + number) % 3 == 0}
        | {"cost_usd": 1.0 + number + 0.3 * seed, "summarizer_cost_usd": 0.1 * task, "prompt_tokens": 1_000 * (1 + task + number)}
        | {"trial_id": f"{number}-{task}-{seed}-{replicate}", "session_id": f"s{number}-{task}-{seed}-{replicate}"}
        | {"policy_json": json.dumps({"kind": "keep-last", "keep_last": 4 + number})}
        for number, arm in enumerate(arms)
        for task in range(tasks)
        for seed in range(seeds - task % 2)
        for replicate in range(1 + (seed == 0))
    ]
    return [*rows[:-1], rows[-1] | {"status": "crashed", "reason": "crashed", "score": 0.0}]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return write_trials(tmp_path_factory.mktemp("rows") / "output", list_rows())


def test_each_query_of_an_arm_returns_the_number_that_the_report_prints(results):
    for arm in ("it's a", "b"):
        queries = list_arm_queries(results, arm)
        assert len(queries) == 10
        for query in queries:
            (values,) = results.sql(query.sql).to_numpy().tolist()
            name, _, kind = query.number.partition(", ")
            if kind == "mean over tasks":
                assert query.value.startswith(f"{METRICS[name].format_value(values[0])} [")
            elif "median" in query.number:
                assert query.value == "{:,.10g} [{:,.10g}–{:,.10g}]".format(*values)
            else:
                assert float(query.value) == pytest.approx(values[0], abs=0.005)


def test_each_query_of_a_comparison_returns_the_number_that_the_report_prints(results):
    queries = list_pair_queries(results, "it's a", "b")
    assert [query.number.partition(",")[0] for query in queries][:3] == ["pairs", "success", "score"]
    for query in queries:
        ((value,),) = results.sql(query.sql).to_numpy().tolist()
        if query.number.startswith("success"):
            assert query.value.startswith(f"{100 * value:+.0f} points [")
        elif query.number == "pairs":
            assert int(query.value) == value
        else:
            shown = f"{value:.2f}" if "ratio" in query.number else f"{value:+.3f}"
            assert query.value.startswith(f"{shown} [")


def test_an_explanation_lists_the_trials_of_the_row_and_says_which_are_left_out(results):
    numbers, trials, queries = explain_row(results, "b")
    assert numbers.columns == ("number", "in the report", "query returns")
    assert trials.heading == "Trials of b"
    assert len(trials.rows) == 25
    assert [row[0] for row in trials.rows if row[3].startswith("left out")] == ["1-6-2-0"]
    assert "1 trial left out because of infrastructure failures." in numbers.notes
    assert len(queries.notes) == len(numbers.rows)
    _, *lists, _ = explain_row(results, "it's a against b")
    assert [section.heading for section in lists] == ["Trials of it's a", "Trials of b"]


@pytest.mark.parametrize("row", ["c", "b against c", "against", ""])
def test_an_unknown_row_is_refused_with_the_rows_that_exist(results, row):
    with pytest.raises(UnknownName, match=r"unknown row of the report .*A comparison is named “A against B”\."):
        explain_row(results, row)


def test_outcomes_that_may_not_be_shown_are_not_explained_either(tmp_path):
    rows = [row | {"provenance_json": declare(planned_trials=99)} for row in list_rows(arms=("a", "b"))]
    half = write_trials(tmp_path / "output", rows)
    for show in (lambda: explain_row(half, "a"), lambda: write_methods(half)):
        with pytest.raises(UsageError, match="run the other trials first"):
            show()


def test_the_methods_name_versions_levels_estimands_and_exclusions(results):
    text = " ".join(write_methods(results).split())
    assert "compares 2 arms (b, it's a) on 7 tasks" in text
    assert "agent and summarizer were simulated by scripts (level L0)" in text.replace("Agent", "agent")
    assert "tasks like these: the mean over all tasks like the 7 that ran" in text
    assert "No comparison was declared before the run, so every comparison is exploratory." in text
    assert "1 trial that ended by an infrastructure failure (crashed 1) was excluded." in text


def test_the_methods_state_what_was_declared_and_which_software_ran(tmp_path):
    software = {"git_commit": "0123456789abcdef", "python": "3.12.1", "platform": "Linux x86_64", "price_table": "nominal-1"}
    provenance = json.dumps(json.loads(declare(planned_trials=12)) | software)
    rows = [row | {"provenance_json": provenance} for row in list_rows(arms=("a", "b"), tasks=2)]
    text = " ".join(write_methods(write_trials(tmp_path / "output", rows)).split())
    assert "commit 0123456789ab, Python 3.12.1 on Linux x86_64, prices nominal-1." in text
    assert "1 comparison was declared before the first trial (a against b in score; declaration " in text
