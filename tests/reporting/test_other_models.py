"""Reports on grids that ran once more with other models: what is compared, marked and left out."""

import json

import pytest

from harness.analysis.arms import order_arms
from harness.analysis.formatting import describe_agent
from harness.analysis.other_models import split_other_models
from harness.conversation import codec
from harness.experiment.contrasts import Contrast, Family
from harness.experiment.paths import name_repeated_arm
from harness.reporting.experiment_report import report
from harness.reporting.other_models import OTHER_MODELS_HEADING
from harness.reporting.page.values import build_parts
from tests.analysis.selections import results
from tests.reporting.test_headlines import arm

OTHER = "scripted:typical"
ARMS = {"base": (0.8, 0.82), "early": (0.5, 0.52), "late": (0.8, 0.81)}


def with_other_model(other_scores, provenance=None):
    """Return results of three arms with the model of the grid, and with another model that gets other scores."""
    rows = [row for name, scores in ARMS.items() for row in arm(name, scores, cost_usd=1.0)]
    rows += [
        {**row, "arm": name_repeated_arm(row["arm"], OTHER), "score": row["score"] + other_scores[row["arm"]]} for row in rows
    ]
    more = {} if provenance is None else {"provenance_json": provenance}
    return results([{**row, "config_json": json.dumps({"model": "scripted"}), **more} for row in rows])


def find_section(document):
    (section,) = (section for section in document.sections if section.heading.startswith(OTHER_MODELS_HEADING))
    return section


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "verdict"), [(0.0, "same"), (0.3, "differs")])
def test_a_declared_contrast_says_whether_another_model_changes_its_verdict(shift, verdict):
    family = Family(contrasts=(Contrast(a="early", b="base", metric="score"),), planned_trials=84)
    tables = with_other_model(
        {"base": 0.0, "early": shift, "late": 0.0}, json.dumps({"family": codec.to_plain(family), "not_worse_margin": None})
    )
    document = report(tables)
    section = find_section(document)
    ((*_, row_verdict),) = section.rows
    assert row_verdict == verdict
    assert section.rows[0][:3] == ("early against base", "score", OTHER)
    assert section.notes[0] == (
        "42 trials ran with other models, on the same tasks and seeds. All other sections and charts are about scripted alone."
    )
    (line,) = (note for note in document.sections[0].notes if note.startswith("Difference shown in score: early − base"))
    assert (f"Another verdict with {describe_agent(OTHER)}: " in line) == (verdict == "differs")


@pytest.mark.slow
def test_without_contrasts_each_arm_is_compared_with_the_baseline_and_only_changed_verdicts_are_listed():
    section = find_section(report(with_other_model({"base": 0.0, "early": 0.3, "late": 0.0}), "base"))
    assert [row[0] for row in section.rows] == ["early against base"]
    assert section.notes[1].startswith("1 of 2 comparisons with the baseline have another verdict with another model; ")
    calm = find_section(report(with_other_model({"base": 0.0, "early": 0.0, "late": 0.0}), "base"))
    assert calm.rows == () == calm.columns
    assert calm.notes[1].startswith("0 of 2 comparisons")


@pytest.mark.slow
def test_no_table_of_a_report_pools_the_models():
    tables = with_other_model({"base": 0.1, "early": 0.2, "late": 0.1})
    own, (other,) = split_other_models(tables)
    assert (order_arms(own.trials), order_arms(other.results.trials)) == ([*ARMS], [*ARMS])
    assert set(own.trials["trial_id"]) | set(other.results.trials["trial_id"]) == set(tables.trials["trial_id"])
    document = report(tables)
    alone = report(results(own.trials.to_dict("records")))
    for heading in ("How the trials ended", "Effort"):
        shown, expected = (
            [section.rows for section in part.sections if section.heading.startswith(heading)] for part in (document, alone)
        )
        assert shown == expected
    assert document.title.endswith(": 84 trials")
    parts = build_parts(own, None, (), others=[other])
    assert [part["level"] for part in parts] == [
        "L0 simulated",
        "L0 simulated, agent that overlooks some visible facts (scripted:typical)",
    ]
    assert parts[1]["ran"] == f"{describe_agent(OTHER)} and a simulated summarizer (level L0)"
    assert [len(part["arms"]) for part in parts] == [3, 3]


def test_results_without_other_models_stay_as_they_are():
    tables = results(arm("base", (0.5,), cost_usd=1.0))
    assert split_other_models(tables) == (tables, ())
