"""Duration of the last successful `make test`, read from .test-seconds; the benchmark does not run the tests."""

from collections.abc import Iterator
from pathlib import Path

from tests.bench.figure import Figure

LEFT = Path(__file__).parents[2] / ".test-seconds"
"""File with the duration in seconds and the tested commit."""


def suite(left: Path = LEFT) -> Iterator[Figure]:
    name, bar = "make test, all of it", 40.0
    try:
        seconds, commit = left.read_text().split()
    except FileNotFoundError:
        yield Figure(name=name, value=None, unit="min", bar=bar, note="no `make test` has passed in this checkout")
        return
    yield Figure(name=name, value=int(seconds) / 60, unit="min", bar=bar, note=f"at commit {commit}")
