"""Round-trip time of a command to the tool server, in each sandbox that works on this machine."""

import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator

from harness.sandboxes import open_sandbox, probe_backend
from harness.sandboxes.bubblewrap import find_python
from tests.bench.figure import Figure

STARTS = 15
"""Number of starts of a sandbox whose median CPU time is shown."""


def starts() -> Iterator[Figure]:
    """Measure the CPU time of the start and end of a sandbox of bubblewrap, as a multiple of that of its bare Python."""
    name, bar = "bubblewrap: CPU of start and end, over that of a bare Python", 4.0
    probe = probe_backend("bubblewrap", None)
    if not probe.ok:
        yield Figure(name=name, value=None, unit="×", bar=bar, note=probe.reason)
        return
    open_and_close()  # finds programs and their versions
    pairs = [(measure_cpu(open_and_close), measure_cpu(run_bare_python)) for _ in range(STARTS)]
    sandbox, bare = (statistics.median(seconds) for seconds in zip(*pairs, strict=True))
    yield Figure(name=name, value=sandbox / bare, unit="×", bar=bar)


def open_and_close() -> None:
    with open_sandbox("bubblewrap", session_id="bench"):
        pass


def run_bare_python() -> None:
    os.waitpid(os.posix_spawn(find_python(), ["python3", "-S", "-c", ""], {}), 0)


def measure_cpu(action: Callable[[], None]) -> float:
    """Return the CPU seconds of this process and its ended children while an action runs."""
    began = read_cpu_seconds()
    action()
    return read_cpu_seconds() - began


def read_cpu_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def round_trips(image: str, commands: int = 200) -> Iterator[Figure]:
    for backend, of in (("bubblewrap", None), ("docker", image)):
        round_trip = f"{backend}: command round trip, median"
        probe = probe_backend(backend, of)
        if not probe.ok:
            yield Figure(name=round_trip, value=None, unit="ms", bar=5.0, note=probe.reason)
            continue
        began = time.perf_counter()
        sandbox = open_sandbox(backend, session_id="bench", image=of)
        try:
            sandbox.start()
            ready = time.perf_counter() - began
            times = []
            for _ in range(commands):
                began = time.perf_counter()
                sandbox.run("true")
                times.append(time.perf_counter() - began)
        finally:
            sandbox.close()
        yield Figure(name=f"{backend}: start until ready", value=1_000 * ready, unit="ms", bar=None)
        yield Figure(name=round_trip, value=1_000 * statistics.median(times), unit="ms", bar=5.0)
