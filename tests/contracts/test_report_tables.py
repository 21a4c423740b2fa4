"""Tables from which reports are made: fewer columns and less memory than the tables of results, and the same report."""

import json
from types import SimpleNamespace
from typing import NamedTuple, cast

import numpy as np
import pandas as pd
import pytest

from harness.analysis.alerts import evaluate_alerts
from harness.analysis.arms import summarize_arms
from harness.analysis.figures.files import write_figures
from harness.analysis.measures import add_measures
from harness.analysis.overhead import measure_overhead
from harness.analysis.retention import measure_retention
from harness.analysis.rule_costs import price_trials
from harness.analysis.tables import Tables, iterate_parts, select
from harness.analysis.trajectories import CHECK_COLUMNS, list_verdicts
from harness.analysis.validity import RequestDigests
from harness.inspection.loading import load
from harness.reporting import lost_facts
from harness.reporting.experiment_report import report, write_charts
from harness.reporting.lost_facts import build_lost_fact_sections
from harness.reporting.page.document import write_page
from harness.store import block_states, frames
from harness.store import results as results_module
from harness.store.columns import TABLES, UNREPORTED_COLUMNS
from harness.store.frames import share_configurations
from harness.store.results import JoinedResults, ReportTables, Results
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
            if column == "config_json":
                for text, seed, stored in zip(reduced[column], whole["seed"], whole[column], strict=True):
                    settings = json.loads(text)
                    assert json.loads(stored) == (settings | {"seed": seed} if "seed" in settings else settings)
            elif column == "request_digest":
                assert (pd.factorize(reduced[column])[0] == pd.factorize(whole[column])[0]).all()
            else:
                pd.testing.assert_series_equal(reduced[column], whole[column], check_dtype=False)


def test_equal_texts_are_one_string(results):
    arms = results.report_tables.trials["arm"]
    assert len(arms) > len({id(arm) for arm in arms}) == arms.nunique()
    trial_ids = {id(trial_id) for trial_id in results.report_tables.trials["trial_id"]}
    assert {id(trial_id) for trial_id in results.report_tables.steps["trial_id"]} <= trial_ids


def test_text_charts_and_page_of_a_report_read_no_whole_table(results, tmp_path):
    document = report(results)
    assert document.render_text(full=True)
    assert write_charts(results, tmp_path / "charts")
    write_page(results, tmp_path / "page.html", document=document)
    assert not set(NAMES) & results.__dict__.keys()


def test_tables_of_several_experiments_are_joined_in_the_same_way(tmp_path, results):
    joined = load([results.output, write_experiment(tmp_path / "other", experiment="other").output])
    assert isinstance(joined, JoinedResults)
    assert list(joined.report_tables.trials["arm"]) == list(joined.trials["arm"])
    assert [part.output for part in joined.report_tables.parts] == [part.output for part in joined.parts]
    digests = joined.report_tables.steps["request_digest"].to_numpy()
    assert (pd.factorize(digests)[0] == pd.factorize(joined.steps["request_digest"])[0]).all()
    assert digests.dtype == np.uint64


def test_configurations_that_differ_in_the_seed_only_are_one_string():
    texts = ['{"seed":12,"task":"a"}', '{"seed":3,"task":"a"}', '{"seed":3,"task":"b"}', '{"task":"a"}', None]
    texts += ['{"seed":1,"world":{"seed":2}}', '{"world":{"seed":2}}']
    parts = [pd.Series(texts[:2], dtype=object), pd.Series(texts[2:], dtype=object)]
    shared = share_configurations(parts, pd.Series(["{}"] * len(texts)))
    assert list(shared) == ['{"seed":0,"task":"a"}'] * 2 + ['{"seed":0,"task":"b"}', *texts[3:]]
    assert shared[0] is shared[1]
    assert list(share_configurations(parts, pd.Series(["{}"] * (len(texts) - 1) + [""]))) == texts


WHOLE_COLUMNS = {
    "steps": ("trial_id", "step", "view_tokens", "writing_seconds"),
    "checks": ("trial_id", "check", "passed"),
    "probes": ("trial_id", "event", "seen_in_kept", "used_step"),
    "compactions": ("trial_id", "status"),
}


class Both(NamedTuple):
    """Tables of one experiment that are read in parts, and the same tables as whole data frames."""

    parts: Results
    whole: Tables


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Write 60 finished trials, exported to blocks of seven trials or sessions, which are read one by one."""
    folder = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_states, "BLOCK_SIZE", 7)
        patch.setattr(results_module, "FILES_AT_ONCE", 1)
        large.write_experiment(folder, 60, steps=12)
        export(folder / "output" / "journal.sqlite", folder / "output" / "results")
        results = load(folder / "output")
        tables = {name: getattr(results, name) for name in NAMES}
        yield cast("Tables", SimpleNamespace(output=results.output, message_sizes=results.message_sizes, **tables))


@pytest.fixture
def both(whole):
    """Load the tables anew for each test, since a table that was read as a whole stays in memory as one part."""
    return Both(load(whole.output), whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE_COLUMNS)
def test_the_parts_of_a_table_are_the_table_and_no_trial_is_in_two(both, name):
    columns = WHOLE_COLUMNS[name]
    parts = list(iterate_parts(both.parts.report_tables, name, columns))
    assert len(parts) > 5
    assert list(pd.concat(parts)) == list(columns)
    pd.testing.assert_frame_equal(
        pd.concat(parts, ignore_index=True), getattr(both.whole, name)[list(columns)], check_dtype=False
    )
    of_part = [set(part["trial_id"].dropna()) for part in parts]
    assert sum(map(len, of_part)) == len(set.union(*of_part))
    chosen = both.whole.trials.iloc[::3]
    rows = getattr(both.whole, name)
    expected = rows.loc[rows["trial_id"].isin(chosen["trial_id"]), list(columns)]
    for tables in (select(both.parts.report_tables, chosen), select(both.whole, chosen)):
        chosen_rows = pd.concat(iterate_parts(tables, name, columns))
        pd.testing.assert_frame_equal(chosen_rows.reset_index(drop=True), expected.reset_index(drop=True), check_dtype=False)
        assert len(getattr(tables, name)) == len(expected)


@pytest.mark.slow
def test_a_table_that_is_in_memory_already_is_one_part(both):
    tables = ReportTables(both.parts)
    assert len(tables.checks) == len(both.whole.checks)
    assert [len(part) for part in iterate_parts(tables, "checks", ("trial_id",))] == [len(tables.checks)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "compute",
    [
        lambda tables: measure_retention(tables).map(repr),  # without an interval, bounds are NaN
        evaluate_alerts,
        measure_overhead,
        lambda tables: add_measures(tables)[["trial_id", "retention"]],
        lambda tables: price_trials(tables).sort_index(),
        lambda tables: list_verdicts(tables.trials, iterate_parts(tables, "checks", CHECK_COLUMNS)).to_frame(),
        lambda tables: pd.DataFrame(
            [
                (trial_id, place, step)
                for trial_id, digests in sorted(RequestDigests.from_results(tables).digests.items())
                for place, step in enumerate(pd.factorize(digests)[0])
            ]
        ),
    ],
    ids=["retention", "alerts", "overhead", "retention of a trial", "prices", "verdicts", "requests"],
)
def test_what_is_computed_in_parts_is_what_the_whole_tables_give(both, compute):
    pd.testing.assert_frame_equal(compute(both.parts.report_tables), compute(both.whole), check_dtype=False)


@pytest.mark.slow
def test_lost_facts_are_counted_as_in_the_whole_table_of_probes(both):
    whole = both.whole
    sections = [list(build_lost_fact_sections(tables, summarize_arms(tables))) for tables in (both.parts.report_tables, whole)]
    assert sections[0] == sections[1]
    arms = summarize_arms(whole)
    losses = lost_facts._count_losses(both.parts.report_tables, arms, only_in_summaries=False)
    trials = pd.concat([arm.trials[["trial_id", "arm"]] for arm in arms])
    probes = trials.merge(whole.probes, on="trial_id")
    probes = probes[probes["seen_before"]]
    groups = probes.assign(lost=~probes["seen_after"]).groupby(["arm", "kind"], sort=False)["lost"].agg(["sum", "size"])
    assert list(zip(losses.counts["arm"], losses.counts["kind"], strict=True)) == groups.index.to_list()
    assert losses.counts[["lost", "facts"]].to_numpy().tolist() == groups.to_numpy().tolist()
    events = probes[["arm", "trial_id", "event"]].drop_duplicates()["arm"].value_counts()
    assert {arm: losses.compactions["arm", arm] for arm in events.index} == events.to_dict()


@pytest.mark.slow
def test_a_report_is_the_same_as_from_the_whole_tables(both):
    document, of_whole = report(both.parts), report(both.whole)
    assert document.render_text(full=True) == of_whole.render_text(full=True)
    assert document.render_markdown() == of_whole.render_markdown()
    assert not {"steps", "checks", "probes"} & set(vars(both.parts.report_tables))


@pytest.mark.slow
def test_charts_are_the_same_as_from_the_whole_tables(both, tmp_path):
    drawn, of_whole = (write_figures(tables, tmp_path / name) for name, tables in (("parts", both.parts), ("whole", both.whole)))
    assert [path.name for path in drawn] == [path.name for path in of_whole] != []
    assert [path.read_bytes() for path in drawn] == [path.read_bytes() for path in of_whole]
    assert not set(NAMES) & set(vars(both.parts)), "a whole table was read beside those of the report"
