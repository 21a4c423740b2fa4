"""Driver of this package: whole trials, with their metrics and their record, and its tables."""

from pathlib import Path
from typing import Any

import pandas as pd

from harness.inspection.loading import load
from harness.store.sessions.lookup import JOURNALS_FOLDER, OUTPUT_FOLDER
from tests.bench.overhead import run_trial_session
from tests.bench.peers.drivers.measuring import Driver


def run(outputs: list[str], folder: Path) -> int:
    return run_trial_session(outputs, folder / "journal.sqlite", "trial").steps - 1


def record(sessions: list[list[str]], folder: Path) -> None:
    journals = folder / OUTPUT_FOLDER / JOURNALS_FOLDER
    journals.mkdir(parents=True)
    for number, outputs in enumerate(sessions):
        run_trial_session(outputs, journals / f"trial-{number}.sqlite", f"trial-{number}")


def read_messages(folder: Path) -> Any:
    return load(folder).messages


def read_steps(folder: Path) -> Any:
    frame: pd.DataFrame = load(folder).steps
    return frame


if __name__ == "__main__":
    Driver(run=run, record=record, packages=("harness",), readers={"messages": read_messages, "steps": read_steps}).serve()
