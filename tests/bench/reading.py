"""Time to read twenty sessions of 200 steps as pandas data frames, including their texts."""

import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from harness.inspection.loading import load
from harness.store.tables import export
from tests.bench.figure import Figure
from tests.bench.overhead import InstantTool, TrivialModel, run_session
from tests.bench.workload import words


def reading(sessions: int = 20, steps: int = 200) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal.sqlite"
        outputs = (words(number) for number in itertools.count())
        for number in range(sessions):
            prepared = iter([next(outputs) for _ in range(steps)])
            tools = [InstantTool("execute_command", prepared)]
            run_session(TrivialModel(steps - 1), tools, journal, steps, session_id=f"s{number}")
        export(journal, Path(folder) / "results")
        load(folder).steps  # noqa: B018  (loads duckdb and pandas)
        began = time.perf_counter()
        results = load(folder)
        frames: list[pd.DataFrame] = [results.steps, results.messages]
        seconds = time.perf_counter() - began
        assert len(frames[0]) == sessions * steps
        yield Figure(name="steps and messages of 20 × 200 steps as frames", value=seconds, unit="s", bar=0.3)
