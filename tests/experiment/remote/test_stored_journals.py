"""Journals of trials in a store, a folder or S3: workers write them there, and a later run finds them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from harness.errors import StoreError
from harness.experiment.output import PACKED_SUFFIX, open_output, read_finished_trial
from harness.experiment.remote.executor_workers import ExecutorWorkers
from harness.experiment.remote.parcel import compress_journal
from harness.experiment.remote.stored_journals import fetch_journals, list_missing, store_journal
from harness.files.object_store import ObjectStore
from harness.testing.sample_jobs import make_sample_job, run_sample_job
from tests.stores import STORES, open_store_url


@pytest.fixture(params=STORES)
def store(request, tmp_path, monkeypatch):
    with open_store_url(request.param, tmp_path, monkeypatch) as url:
        yield ObjectStore(url)


@pytest.mark.slow
def test_a_later_run_imports_what_workers_left_in_the_store(store, tmp_path):
    jobs = [make_sample_job("finish", 0, tmp_path / "journals"), make_sample_job("die", 1, tmp_path / "journals")]
    with ThreadPoolExecutor(1) as executor:
        workers = ExecutorWorkers(executor, None, run_sample_job, 60.0, store.url)
        finished, died = (workers.submit(job) for job in jobs)
        assert finished.result(60) == read_finished_trial(jobs[0].journal)  # fetched from the store
        assert died.exception(60) is not None
        workers.close()
    assert len(store.list_names("journals")) == 2
    with open_output(tmp_path / "other") as output:
        assert list_missing(output, store) == {job.trial_id for job in jobs}
        fetch_journals(output, store, [job.trial_id for job in jobs])
        assert [record.trial_id for record in output.journal.list_trials()] == [jobs[0].trial_id]
        assert output.journal.list_session_ids() == (jobs[0].trial_id,)
        assert list_missing(output, store) == {jobs[1].trial_id}
        assert list((tmp_path / "other" / "journals").iterdir()) == []


def test_a_trial_of_this_machine_is_stored_before_its_journal_is_deleted(store, tmp_path):
    with open_output(tmp_path / "output", partial(store_journal, store=store)) as output:
        job = make_sample_job("finish", 0, tmp_path / "output" / "journals")
        output.import_trial(run_sample_job(job))
        assert not job.journal.exists()
    with open_output(tmp_path / "other") as output:
        fetch_journals(output, store, list_missing(output, store))
        assert output.list_finished(retry_failed=False) == {job.trial_id}


def test_a_trial_that_could_not_be_stored_is_stored_by_the_next_run(store, tmp_path):
    def refuse(output, trial_id):
        raise StoreError("the store cannot be reached")

    job = make_sample_job("finish", 0, tmp_path / "output" / "journals")
    with open_output(tmp_path / "output", refuse) as output:
        finished = run_sample_job(job)
        for move in (lambda: output.import_trial(finished), output.recover_journals):
            with pytest.raises(StoreError, match="cannot be reached"):
                move()
        assert output.list_stored() == set()
    job.journal.with_suffix(PACKED_SUFFIX).write_bytes(b"half a journal")
    with open_output(tmp_path / "output", partial(store_journal, store=store)) as output:
        assert output.list_stored() == {job.trial_id}
        assert list((tmp_path / "output" / "journals").iterdir()) == []
    with open_output(tmp_path / "other") as output:
        assert list_missing(output, store) == {job.trial_id}


def test_a_finished_trial_that_a_run_could_not_read_from_the_store_is_imported_by_the_next_run(tmp_path):
    store, job = ObjectStore(f"file://{tmp_path}/store"), make_sample_job("finish", 0, tmp_path / "first" / "journals")
    with open_output(tmp_path / "first", partial(store_journal, store=store)) as output:
        finished = run_sample_job(job)
        output.import_trial(finished)
    with open_output(tmp_path / "output") as output:
        unread = replace(finished.record, status="failed", reason="store_error", session_id="")
        output.import_trial(finished._replace(record=unread))
        assert list_missing(output, store) == {job.trial_id}
        fetch_journals(output, store, [job.trial_id])
        assert output.journal.list_trials() == (finished.record,)
        assert list_missing(output, store) == set()


@pytest.mark.slow
def test_a_journal_that_cannot_be_stored_is_returned_with_the_result(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "journals").write_text("a file where the folder should be")
    job = make_sample_job("finish", 0, tmp_path / "journals")
    with ThreadPoolExecutor(1) as executor:
        workers = ExecutorWorkers(executor, None, run_sample_job, 60.0, f"file://{tmp_path}/store")
        assert workers.submit(job).result(60) == read_finished_trial(job.journal)
        workers.close()


def test_the_journal_of_another_trial_is_refused(store, tmp_path):
    jobs = [make_sample_job("finish", seed, tmp_path / "made") for seed in (0, 1)]
    run_sample_job(jobs[0])
    packed = tmp_path / "packed"
    compress_journal(jobs[0].journal, packed)
    store.write_file(f"journals/{jobs[1].trial_id}.sqlite.zst", packed)
    with open_output(tmp_path / "other") as output, pytest.raises(StoreError, match="holds the journal of another trial"):
        fetch_journals(output, store, [jobs[1].trial_id])


def test_a_damaged_journal_in_the_store_is_an_error(store, tmp_path):
    store.write("journals/abc.sqlite.zst", b"no journal")
    with open_output(tmp_path / "output") as output, pytest.raises(StoreError, match=r"abc\.sqlite cannot be stored"):
        fetch_journals(output, store, ["abc"])
