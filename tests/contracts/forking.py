"""Process that runs commands of `harness` in forks of itself, which share its modules, and measures memory and time of each.

A fork starts with the memory of this process, so the difference of their peaks is the memory that the command took.
"""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Self

from tests.cli.command import environment

MAX_ADDRESS_BYTES = 4 * 2**30
MAX_CPU_SECONDS = 60
MAX_SECONDS = 280
"""Seconds after which a command that waits, for example for a pipe, is killed."""


class Cost(NamedTuple):
    """Exit code (negative: number of the signal), output, CPU time, and memory of a command beyond that of the idle process."""

    exit_code: int
    output: str
    memory_bytes: int
    cpu_seconds: float


class Forking:
    """Handle of the process; use it in a `with` block."""

    def __init__(self, *modules: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(LITELLM_LOCAL_MODEL_COST_MAP="True"),
            cwd=Path(__file__).parents[2],
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def measure(self, folder: Path, *arguments: str | Path, given: str = os.devnull, **variables: str) -> Cost:
        """Run one command in a folder, with some environment variables added, and return its cost.

        Its standard input is the file `given`.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([str(folder), [*map(str, arguments)], given, variables]), file=self._process.stdin, flush=True)
        return Cost(*json.loads(self._process.stdout.readline()))


def _run(folder: str, arguments: list[str], given: str, variables: dict[str, str]) -> Cost:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(variables)
        os.dup2(os.open(given, os.O_RDONLY), 0)
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_BYTES, MAX_ADDRESS_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
        signal.alarm(MAX_SECONDS)
        main(arguments, prog_name="harness")
    os.close(writer)
    with os.fdopen(reader, "rb") as opened:
        output = opened.read().decode(errors="replace")
    _, status, used = os.wait4(pid, 0)
    idle_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seconds = used.ru_utime + used.ru_stime
    return Cost(os.waitstatus_to_exitcode(status), output, used.ru_maxrss * 1024 - idle_bytes, seconds)


if __name__ == "__main__":
    from importlib import import_module

    from harness.cli import main

    for name in sys.argv[1:]:
        import_module(name)
    for line in sys.stdin:
        print(json.dumps(_run(*json.loads(line))), flush=True)
