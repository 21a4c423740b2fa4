"""Tables of results that are copied to a store, a folder or S3, and read from there by DuckDB."""

import pandas as pd
import pyarrow.parquet as pq
import pytest

import harness
from harness.errors import StoreError
from harness.files.object_store import ObjectStore
from harness.store.columns import TABLES
from harness.store.published import publish_tables
from harness.store.results import MANIFEST
from harness.store.sessions.lookup import JOURNAL_FILE
from harness.store.tables import export
from tests.bench.large import write_experiment
from tests.stores import STORES, open_store_url


@pytest.fixture(params=STORES)
def store(request, tmp_path, monkeypatch):
    with open_store_url(request.param, tmp_path, monkeypatch) as url:
        yield ObjectStore(url)


@pytest.fixture
def output(tmp_path):
    experiment = write_experiment(tmp_path / "experiment", 20, steps=4)
    export(experiment.output / JOURNAL_FILE, experiment.output / "results")
    return experiment.output


@pytest.mark.slow
def test_tables_in_a_store_are_those_of_the_folder(store, output):
    assert len(publish_tables(output / "results", store)) == len(TABLES)
    here, there = harness.load(output), harness.load(store.url)
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(there, name), getattr(here, name))
    query = "SELECT arm, count(*) AS steps FROM trials JOIN steps USING (trial_id) GROUP BY arm ORDER BY arm"
    pd.testing.assert_frame_equal(there.sql(query), here.sql(query))
    assert harness.load(store.url).sql("SELECT count(*) AS n FROM messages")["n"][0] == len(here.messages)


@pytest.mark.slow
def test_only_changed_files_are_copied_again(store, output):
    publish_tables(output / "results", store)
    assert publish_tables(output / "results", store) == ()
    store.write("results/steps/000000.parquet", b"stopped in the middle")
    store.write(MANIFEST, b"{}")
    assert len(publish_tables(output / "results", store)) == len(TABLES)
    assert len(harness.load(store.url).steps) == len(harness.load(output).steps)


def test_an_empty_store_is_an_error_that_says_how_to_fill_it(store):
    with pytest.raises(StoreError, match=r"no results in the store .* `store` set to this URL"):
        harness.load(store.url)


@pytest.mark.slow
def test_tables_of_an_older_version_have_missing_values_in_newer_columns(store, output):
    (file,) = (output / "results" / "trials").glob("*.parquet")
    pq.write_table(pq.read_table(file).drop_columns(["revisions", "harness_version"]), file)
    publish_tables(output / "results", store)
    results = harness.load(store.url)
    assert list(results.trials.columns) == [column.name for column in TABLES["trials"]]
    assert results.trials[["revisions", "harness_version"]].isna().all(axis=None)
    assert results.sql("SELECT count(*) AS n FROM trials WHERE revisions IS NULL")["n"].item() == len(results.trials) > 0


@pytest.mark.slow
def test_tables_of_a_newer_version_are_refused_by_the_names_of_their_columns(store, output):
    (file,) = (output / "results" / "trials").glob("*.parquet")
    table = pq.read_table(file)
    pq.write_table(table.append_column("mood", table["arm"]), file)
    publish_tables(output / "results", store)
    with pytest.raises(StoreError, match=r"written by a newer version of harness, .*\(mood\); update harness"):
        _ = harness.load(store.url).trials
