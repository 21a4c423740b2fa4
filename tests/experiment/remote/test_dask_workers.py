"""Tests of the workers of a Dask cluster, with a scheduler and workers in processes of their own."""

import pytest

from harness.experiment.remote.dask_workers import DaskWorkers
from harness.testing import WorkersContract
from tests.experiment.remote.clusters import find_folders, find_processes, open_cluster

pytestmark = pytest.mark.slow


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
        assert find_processes(shared_cluster.folder) == []
        assert find_folders(shared_cluster.folder) == []


class TestContractWithChunks(WorkersContract):
    @pytest.fixture
    def open_workers(self, shared_cluster, shared_client):
        yield lambda run_job, timeout_seconds: DaskWorkers(shared_client, run_job, timeout_seconds, inline_bytes=0)
        assert find_folders(shared_cluster.folder) == []
