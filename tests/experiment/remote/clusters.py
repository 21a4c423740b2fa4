"""Dask clusters for tests: a scheduler and workers in processes of their own, on the loopback interface."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from distributed import Client

ROOT = Path(__file__).parents[3]
START_SECONDS = 120.0


@dataclass
class Cluster:
    """Scheduler and workers, each with a folder of its own, which is also its folder for temporary files."""

    folder: Path
    security: dict = field(default_factory=dict)
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)

    @property
    def address(self):
        return json.loads((self.folder / "scheduler.json").read_text())["address"]

    def start_scheduler(self):
        file = self.folder / "scheduler.json"
        self._start("scheduler", "--no-dashboard", "--scheduler-file", str(file))
        wait_until(file.exists, "the scheduler does not start")

    def start_worker(self, name, *options, environment=None):
        place = self.folder / name
        options = ("--no-dashboard", "--nthreads", "1", "--name", name, "--local-directory", str(place), *options)
        self._start(
            "worker", "--scheduler-file", str(self.folder / "scheduler.json"), *options, name=name, environment=environment
        )

    def open_client(self):
        return Client(self.address, timeout=START_SECONDS, set_as_default=False, **self.client_options)

    client_options: dict = field(default_factory=dict)

    def kill(self, name, number=signal.SIGKILL):
        process = self.processes.pop(name)
        process.send_signal(number)
        process.wait(60)

    def _start(self, kind, *options, name=None, environment=None):
        place = self.folder / (name or kind)
        place.mkdir()
        tls = [part for key, path in self.security.items() for part in (f"--tls-{key}", str(path))]
        protocol = "tls" if tls else "tcp"
        host = ["--host", "127.0.0.1", "--port", "0"] if kind == "scheduler" else ["--host", "127.0.0.1"]
        host += ["--protocol", protocol]
        log = (place / "log").open("wb")
        self.processes[name or kind] = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{kind}", *host, *tls, *options],
            stdout=log,
            stderr=log,
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(place), **(environment or {})},
        )
        log.close()

    def stop(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError(f"a process of the cluster hangs: {process.args}") from None


@contextmanager
def open_cluster(folder, workers=2, options=("--no-nanny",)):
    cluster = Cluster(folder)
    folder.mkdir(exist_ok=True)
    try:
        cluster.start_scheduler()
        for number in range(workers):
            cluster.start_worker(f"worker-{number}", *options)
        yield cluster
    finally:
        cluster.stop()


def wait_until(is_reached, problem):
    deadline = time.monotonic() + START_SECONDS
    while not is_reached():
        assert time.monotonic() < deadline, problem
        time.sleep(0.02)


def find_processes(folder):
    """Return the ids of the child processes for trials that work in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if b"harness.experiment.remote.child" in line and str(folder).encode() in line:
            found.append(int(path.parent.name))
    return found


def find_folders(folder):
    """Return the folders of hosts that are left in a folder."""
    return [str(path) for path in folder.rglob("harness-*") if path.is_dir()]
