"""Dask clusters for tests: a scheduler and workers in processes of their own, on the loopback interface.

The processes are forks of a process that has imported Dask, except for workers below a nanny, which starts them itself.
"""

import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.prepared import PreparedProcess

ROOT = Path(__file__).parents[3]
START_SECONDS = 120.0
PROGRAM = """
import tempfile

import dask.config
from distributed.cli.dask_{kind} import main

tempfile.tempdir = None  # read TMPDIR
dask.config.refresh()  # read DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT
main()
"""


@dataclass
class Cluster:
    """Scheduler and workers, each with a folder of its own, which is also its folder for temporary files."""

    folder: Path
    security: dict[str, Path] = field(default_factory=dict)
    processes: dict[str, PreparedProcess] = field(default_factory=dict)

    @property
    def address(self):
        return json.loads((self.folder / "scheduler.json").read_text())["address"]

    def start_scheduler(self):
        file = self.folder / "scheduler.json"
        self._start("scheduler", "--no-dashboard", "--scheduler-file", str(file))
        wait_until(lambda: file.exists() and file.read_text().rstrip().endswith("}"), "the scheduler does not start")

    def start_worker(self, name, *options, environment=None):
        place = self.folder / name
        options = ("--no-dashboard", "--nthreads", "1", "--name", name, "--local-directory", str(place), *options)
        self._start(
            "worker", "--scheduler-file", str(self.folder / "scheduler.json"), *options, name=name, environment=environment
        )

    def open_client(self):
        from distributed import Client
        from distributed.security import Security

        security = None
        if tls := self.security:
            security = Security(
                tls_ca_file=str(tls["ca-file"]),
                tls_client_cert=str(tls["cert"]),
                tls_client_key=str(tls["key"]),
                require_encryption=True,
            )
        return Client(self.address, timeout=START_SECONDS, set_as_default=False, security=security)

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
        self.processes[name or kind] = PreparedProcess(
            PROGRAM.format(kind=kind),
            *host,
            *tls,
            *options,
            modules=("distributed.cli.dask_scheduler", "distributed.cli.dask_worker"),
            stdout=log,
            stderr=log,
            cwd=place,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "TMPDIR": str(place),
                "HOME": str(place),
                "XDG_CACHE_HOME": str(place / "cache"),
                "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s",
                **(environment or {}),
            },
        )
        log.close()

    def stop(self):
        """End the workers, then the scheduler, and fail if one of them hangs."""
        hanging = []
        for process in reversed([*self.processes.values()]):
            process.terminate()
            try:
                process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                hanging.append(process.args)
                process.kill()
                process.wait()
        assert not hanging, f"processes of the cluster hang: {hanging}"


@contextmanager
def open_cluster(folder, workers=2, options=("--no-nanny",), security=None):
    folder.mkdir(exist_ok=True)
    cluster = Cluster(folder, security or {})
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
        time.sleep(0.1)


def find_processes(folder):
    """Return the running processes whose command line names a folder."""
    return [process for process in psutil.process_iter(["cmdline"]) if str(folder) in _join_command_line(process)]


def find_children(folder):
    """Return the child processes for trials that work in a folder."""
    return [process for process in find_processes(folder) if "harness.experiment.remote.child" in _join_command_line(process)]


def _join_command_line(process):
    return " ".join(process.info["cmdline"] or ())


def find_folders(folder):
    """Return the folders of hosts that are left in a folder."""
    return [str(path) for path in folder.rglob("harness-*") if path.is_dir()]


def make_certificate(folder):
    """Write a certificate that signs itself, and return the options of Dask for TLS."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now - timedelta(days=1), now + timedelta(days=9)
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "certificate.pem", folder / "key.pem"
    cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return {"ca-file": cert_file, "cert": cert_file, "key": key_file}
