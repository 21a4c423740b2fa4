"""Driver of this package: whole trials, with their metrics and their record, and its tables."""

import sys
from pathlib import Path
from typing import Any

import pandas as pd

from harness.inspection.loading import load
from harness.policies import LangChainClear
from harness.store.sessions.lookup import JOURNALS_FOLDER, OUTPUT_FOLDER
from tests.bench.overhead import run_trial_session
from tests.bench.peers.drivers.measuring import EDITING_KEPT_RESULTS, EDITING_TRIGGER_TOKENS, Driver, is_edited


def run(outputs: list[str], folder: Path) -> int:
    return run_trial_session(outputs, folder / "journal.sqlite", "trial").steps - 1


def run_editing(outputs: list[str], folder: Path) -> int:
    policy = LangChainClear(trigger_tokens=EDITING_TRIGGER_TOKENS, keep_results=EDITING_KEPT_RESULTS)
    record = run_trial_session(outputs, folder / "journal.sqlite", "trial", policy)
    assert record.compactions or not is_edited(outputs)
    return record.steps - 1


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
    if "editing" in sys.argv:
        Driver(run=run_editing, packages=("compaction-harness",)).serve()
    else:
        Driver(
            run=run, record=record, packages=("compaction-harness",), readers={"messages": read_messages, "steps": read_steps}
        ).serve()
