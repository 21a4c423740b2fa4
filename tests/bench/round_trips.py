"""Round-trip time of a command to the tool server, in each sandbox that works on this machine."""

import statistics
import time
from collections.abc import Iterator

from harness.sandboxes import open_sandbox, probe_backend
from tests.bench.figure import Figure


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
