"""Tests of the workers of a Dask cluster, with a scheduler and workers in processes of their own."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.errors import UsageError, WorkerDied, WorkersUnavailable
from harness.experiment.experiment import connect_cluster
from harness.experiment.job import collect_provenance
from harness.experiment.output import read_finished_trial
from harness.experiment.progress import NoDisplay
from harness.experiment.remote.dask_workers import DaskWorkers
from harness.files.object_store import ObjectStore
from harness.models.prices import identify_price_table
from harness.testing import WorkersContract
from harness.testing.sample_jobs import make_sample_job, run_sample_job
from tests.experiment.remote.clusters import (
    ROOT,
    find_children,
    find_folders,
    make_certificate,
    open_cluster,
    wait_until,
)
from tests.experiment.remote.comparison import check_equal
from tests.experiment.run_grid import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.bubblewrap]


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory):
    with open_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shared_client(shared_cluster):
    with shared_cluster.open_client() as client:
        client.wait_for_workers(2)
        yield client


class TestContract(WorkersContract):
    @pytest.fixture
    def open_workers(self, shared_cluster, shared_client):
        yield lambda run_job, timeout_seconds: DaskWorkers(shared_client, run_job, timeout_seconds)
        assert find_children(shared_cluster.folder) == []
        assert find_folders(shared_cluster.folder) == []


def test_a_large_journal_is_fetched_in_chunks(shared_cluster, shared_client, tmp_path):
    workers = DaskWorkers(shared_client, run_sample_job, 60.0, inline_bytes=0)
    jobs = [make_sample_job("finish", 0, tmp_path), make_sample_job("die after recording", 1, tmp_path)]
    for job in jobs:
        workers.submit(job).exception(60)
        assert read_finished_trial(job.journal)
    workers.close()
    assert find_folders(shared_cluster.folder) == []


def test_workers_write_journals_to_the_store_that_they_are_given(shared_client, tmp_path):
    store = ObjectStore(str(tmp_path / "store"))
    workers = DaskWorkers(shared_client, run_sample_job, 60.0, store=store.url)
    job = make_sample_job("finish", 0, tmp_path)
    finished = workers.submit(job).result(60)
    workers.close()
    assert [Path(name).name for name in store.list_names("journals")] == [f"{job.trial_id}.sqlite.zst"]
    assert finished == read_finished_trial(job.journal), "the journal is also fetched from the store"


def test_a_job_whose_worker_dies_each_time_is_set_aside_after_three_attempts(shared_client, tmp_path):
    workers = DaskWorkers(shared_client, run_sample_job, 60.0)
    error = workers.submit(make_sample_job("die", 0, tmp_path)).exception(60)
    workers.close()
    assert isinstance(error, WorkerDied)
    assert error.attempts == 3
    assert "in each of 3 attempts" in str(error)
    assert str(error).count("(process ") == 3


def test_at_most_two_jobs_of_a_worker_are_in_flight(shared_client, tmp_path):
    workers = DaskWorkers(shared_client, run_sample_job, 60.0)
    assert workers.count == 4
    futures = [workers.submit(make_sample_job("never end", number, tmp_path)) for number in range(9)]
    wait_until(lambda: sum(future.running() for future in futures) == 2, "two jobs must run")
    counts = [len(keys) for keys in shared_client.processing().values()]
    workers.stop()
    assert counts == [2, 2]


class ActsOnce(NoDisplay):
    """Progress display that calls a function when trials run after the first has finished."""

    def __init__(self, act):
        self.act = act

    def show(self, progress):
        if progress.finished >= 1 and progress.running_trials and self.act:
            act, self.act = self.act, None
            act()


def check_clean(cluster):
    wait_until(lambda: find_children(cluster.folder) == [], "a child process is left")
    wait_until(lambda: find_folders(cluster.folder) == [], "a folder is left")


def test_a_run_through_tls_gives_the_results_of_a_local_run(tmp_path, small_results):
    with open_cluster(tmp_path / "cluster", security=make_certificate(tmp_path)) as cluster:
        assert cluster.address.startswith("tls://")
        with cluster.open_client() as client:
            results = SMALL.run(tmp_path / "output", progress="off", executor=client)
        check_clean(cluster)
    check_equal(results, small_results)


def test_killed_workers_and_children_cost_nothing_and_a_lost_scheduler_only_the_rest(tmp_path, small_results):
    output = tmp_path / "output"
    with open_cluster(tmp_path / "one", workers=3) as cluster, cluster.open_client() as client:
        client.wait_for_workers(3)

        def kill_some():
            find_children(cluster.folder / "worker-0")[0].kill()
            cluster.kill("worker-1")
            after.act = lambda: cluster.kill("scheduler")

        after = ActsOnce(kill_some)
        with pytest.raises(WorkersUnavailable, match=r"scheduler .* was lost; finished trials are kept"):
            SMALL.run(output, progress=after, executor=client)
        check_clean(cluster)
    with open_cluster(tmp_path / "two") as cluster, cluster.open_client() as client:
        results = SMALL.run(output, progress="off", executor=client)
        check_clean(cluster)
    check_equal(results, small_results)


def test_a_killed_client_leaves_nothing_on_the_cluster_and_its_run_is_resumed(tmp_path, small_results):
    with open_cluster(tmp_path / "cluster") as cluster:
        command = [sys.executable, "-m", "tests.experiment.remote.run_on_cluster", cluster.address, str(tmp_path / "output")]
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        while "[1/" not in process.stderr.readline():
            assert process.poll() is None
        process.kill()
        process.communicate()
        check_clean(cluster)
        with cluster.open_client() as client:
            results = SMALL.run(tmp_path / "output", progress="off", executor=client)
        check_clean(cluster)
    check_equal(results, small_results)


def hoard(megabytes):
    """Use memory in the process of a Dask worker until its nanny ends it."""
    blocks = []
    for _ in range(megabytes):
        blocks.append(os.urandom(2**20))
        time.sleep(0.001)
    time.sleep(60)


def test_a_worker_that_its_nanny_ends_for_its_memory_costs_nothing(tmp_path, small_results):
    options = ("--nanny", "--memory-limit", "500 MiB")
    with open_cluster(tmp_path / "cluster", options=options) as cluster, cluster.open_client() as client:
        client.wait_for_workers(2)
        addresses = set(client.nthreads())
        victim = min(addresses)
        with ThreadPoolExecutor() as threads:
            display = ActsOnce(lambda: threads.submit(client.run, hoard, 900, workers=[victim], on_error="ignore"))
            results = SMALL.run(tmp_path / "output", progress=display, executor=client)
            wait_until(lambda: victim not in client.nthreads(), "the nanny must end the worker")
        check_clean(cluster)
    check_equal(results, small_results)


def test_a_machine_without_a_sandbox_gets_no_trials_and_is_named(tmp_path, small_results):
    broken = tmp_path / "bin" / "bwrap"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho no user namespaces >&2\nexit 1\n")
    broken.chmod(0o755)
    with open_cluster(tmp_path / "cluster", workers=1) as cluster, cluster.open_client() as client:
        path = f"{broken.parent}:{os.environ['PATH']}"
        cluster.start_worker("broken", "--no-nanny", environment={"PATH": path})
        client.wait_for_workers(2)
        with pytest.warns(UserWarning, match=r"no trials run on .* at tcp://.*no user namespaces"):
            results = SMALL.run(tmp_path / "output", progress="off", executor=client)
        cluster.kill("worker-0")
        wait_until(lambda: len(client.nthreads()) == 1, "the worker must leave")
        with (
            pytest.warns(UserWarning, match="no trials run on"),
            pytest.raises(WorkersUnavailable, match=r"no machine of the cluster can run the trials: .*no user namespaces"),
        ):
            SMALL.run(tmp_path / "other", progress="off", executor=client)
        check_clean(cluster)
    check_equal(results, small_results)


def test_a_machine_with_other_code_gets_no_trials(shared_client):
    provenance = collect_provenance(identify_price_table())
    other = {**dict(provenance.packages), "harness": "9.9"}
    changed = type(provenance)(
        git_commit=None, python=provenance.python, platform="", packages=tuple(other.items()), price_table=""
    )
    with (
        pytest.warns(UserWarning, match=r"it has harness .*, and this machine has 9\.9"),
        pytest.raises(WorkersUnavailable, match="no machine of the cluster"),
    ):
        DaskWorkers(shared_client, run_sample_job, 60.0, provenance=changed)


def test_a_cluster_without_scheduler_is_refused_with_its_address():
    with pytest.raises(UsageError, match=r"no scheduler of a Dask cluster answers at 'tcp://127.0.0.1:1'"):
        connect_cluster("tcp://127.0.0.1:1")
