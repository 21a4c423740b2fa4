"""Tables from which reports are made: fewer columns and less memory than the tables of results, and the same report."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from harness.inspection.loading import load
from harness.reporting.experiment_report import report
from harness.store import frames
from harness.store.columns import TABLES, UNREPORTED_COLUMNS
from harness.store.results import JoinedResults
from harness.store.tables import export
from tests.bench import large
from tests.reporting.page.experiments import write_experiment

NAMES = ("trials", "steps", "compactions", "checks", "probes")


@pytest.fixture(params=["journal", "parquet"])
def results(request, tmp_path):
    experiment = write_experiment(tmp_path / "output")
    if request.param == "parquet":
        export(tmp_path / "output" / "journal.sqlite", tmp_path / "output" / "results")
    return load(experiment.output)


def test_columns_without_a_use_are_columns_of_their_tables():
    for name, unused in UNREPORTED_COLUMNS.items():
        assert unused < {column.name for column in TABLES[name]}


@pytest.mark.parametrize("batch_rows", [3, frames.BATCH_ROWS])
def test_the_other_columns_have_the_values_of_the_whole_table(results, batch_rows, monkeypatch):
    monkeypatch.setattr(frames, "BATCH_ROWS", batch_rows)
    for name in NAMES:
        whole, reduced = getattr(results, name), getattr(results.report_tables, name)
        kept = [column for column in whole if column not in UNREPORTED_COLUMNS.get(name, ())]
        assert list(reduced) == kept
        for column in kept:
            if column == "request_digest":
                assert (pd.factorize(reduced[column])[0] == pd.factorize(whole[column])[0]).all()
            else:
                pd.testing.assert_series_equal(reduced[column], whole[column], check_dtype=False)


def test_equal_texts_are_one_string(results):
    arms = results.report_tables.trials["arm"]
    assert len(arms) > len({id(arm) for arm in arms}) == arms.nunique()
    trial_ids = {id(trial_id) for trial_id in results.report_tables.trials["trial_id"]}
    assert {id(trial_id) for trial_id in results.report_tables.steps["trial_id"]} <= trial_ids


def test_tables_of_several_experiments_are_joined_in_the_same_way(tmp_path, results):
    joined = load([results.output, write_experiment(tmp_path / "other", experiment="other").output])
    assert isinstance(joined, JoinedResults)
    assert list(joined.report_tables.trials["arm"]) == list(joined.trials["arm"])
    assert [part.output for part in joined.report_tables.parts] == [part.output for part in joined.parts]
    digests = joined.report_tables.steps["request_digest"].to_numpy()
    assert (pd.factorize(digests)[0] == pd.factorize(joined.steps["request_digest"])[0]).all()
    assert digests.dtype == np.uint64


@pytest.mark.slow
def test_a_report_is_the_same_as_from_the_whole_tables(tmp_path):
    large.write_experiment(tmp_path, 60, steps=12)
    results = load(tmp_path / "output")
    whole = SimpleNamespace(
        output=results.output, message_sizes=results.message_sizes, **{name: getattr(results, name) for name in NAMES}
    )
    document, of_whole = report(results), report(whole)
    assert document.render_text(full=True) == of_whole.render_text(full=True)
    assert document.render_markdown() == of_whole.render_markdown()
