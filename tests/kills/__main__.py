"""Kill workers, parents and sandbox servers of a real grid, resume the grid, and compare its tables: `make kills KILLS=200`.

Each round runs a grid in bubblewrap sandboxes in a folder of its own and sends SIGKILL to random processes: the parent process of
the run (which is then started again in the same folder), a worker process, or the server of a sandbox. When a round has had its
share of kills, the grid is resumed without further kills. The round is good if all processes of killed runs have ended and the
table of trials equals that of an undisturbed run. The program prints a line for each round, and exits with status 1 if a round is
not good. Not part of the tests, because hundreds of kills take a quarter of an hour.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pandas as pd
import psutil

from harness.experiment.experiment import Experiment
from harness.experiment.trial import Trial
from harness.inspection.loading import load
from harness.policies import KeepLast
from harness.sandboxes.backends import SandboxChoice
from harness.store.columns import VOLATILE_COLUMNS
from harness.store.results import Results

Victim = Literal["parent", "worker", "sandbox"]
VICTIMS: tuple[Victim, ...] = ("worker", "sandbox", "parent", "worker", "sandbox")
"""Kinds of processes to kill, in turn."""
KILLS_OF_A_ROUND = 15
MAX_RESUMES = 5
"""Maximum number of runs without kills after which a round must have all its results."""
PATIENCE_SECONDS = 600.0

GRID = Experiment(
    name="kills",
    base=Trial(
        task="flashcards",
        policy=KeepLast(summarizer="scripted/extractive"),
        window_tokens=32_768,
        max_steps=300,
        sandbox=SandboxChoice(backend="bubblewrap"),
    ),
    axes={"seed": [0, 1, 2], "policy.threshold": [0.5, 0.8], "policy.keep_last": [4, 10]},
)


def run_grid(folder: Path) -> psutil.Popen:
    """Start or resume the grid in a process of its own."""
    command = [sys.executable, "-m", "tests.kills", "--run", str(folder)]
    with (folder.parent / f"{folder.name}.log").open("ab") as log:
        return psutil.Popen(command, stdout=log, stderr=log, start_new_session=True)


def list_children(process: psutil.Process, *, recursive: bool = False) -> list[psutil.Process]:
    """Return the child processes of a process, or all processes below it; none if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return list(process.children(recursive=recursive))
    return []


def list_victims(run: psutil.Process, kind: Victim) -> list[psutil.Process]:
    """Return those processes of a run that are of a kind.

    A sandbox server is a bwrap process or its child, the first process of the sandbox. The commands below are no victims: the
    death of a command is a result that the agent sees.
    """
    if kind == "parent":
        return [run]
    workers = [one for one in list_children(run) if "spawn_main" in _read_command(one)]
    if kind == "worker":
        return workers
    launchers = [one for worker in workers for one in list_children(worker) if "bwrap" in _read_command(one)]
    return [*launchers, *(one for launcher in launchers for one in list_children(launcher))]


def _read_command(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def kill_random_process(run: psutil.Process, kind: Victim) -> bool:
    """Kill a random process of a run that is of a kind. Return whether there was one."""
    victims = list_victims(run, kind)
    if not victims:
        return False
    with suppress(psutil.NoSuchProcess):
        random.choice(victims).kill()
        return True
    return False


def read_table(results: Results) -> pd.DataFrame:
    """Return the records of the trials without the values that differ between runs."""
    return results.trials.drop(columns=list(VOLATILE_COLUMNS["trials"])).sort_values("trial_id", ignore_index=True)


def run_round(folder: Path, kinds: Iterator[Victim], kills: int) -> tuple[Counter[str], list[psutil.Process]]:
    """Run the grid in a folder while killing processes. Return the number of kills of each kind, and processes left behind."""
    counts, left_behind, kind = Counter[str](), list[psutil.Process](), next(kinds)
    while counts.total() < kills:
        run, was_killed = run_grid(folder), False
        while run.poll() is None and counts.total() < kills:
            time.sleep(random.uniform(0.05, 1.5))
            family = [run, *list_children(run, recursive=True)]
            if len(family) > 1 and run.poll() is None and kill_random_process(run, kind):
                counts[kind] += 1
                was_killed = kind == "parent"
                kind = next(kinds)
            if was_killed:
                run.wait()
                left_behind += psutil.wait_procs(family, timeout=PATIENCE_SECONDS)[1]
        if run.poll() == 0 and len(read_table(load(folder))) == len(GRID.grid):
            break  # the grid is whole: the next round needs a new folder
        if run.poll() is None:
            run.wait()
    return counts, left_behind


def finish_round(folder: Path) -> int:
    """Resume the grid without kills until no trial is missing or failed for an external reason; return the number of runs."""
    for number in range(1, MAX_RESUMES + 1):
        if (
            run_grid(folder).wait() == 0
            and not load(folder).trials["reason"].isin(["crashed", "repeated_crash", "sandbox_error"]).any()
        ):
            return number
    return MAX_RESUMES


def main() -> int:
    """Run the campaign, or, with `--run`, the grid in one folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="minimum number of kills")
    parser.add_argument("--run", type=Path, help="only run the grid in this folder")
    given = parser.parse_args()
    if given.run:
        GRID.run(given.run, workers=3, progress="off", retry_failed=True)
        return 0
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    run_grid(folder / "whole").wait()
    whole = read_table(load(folder / "whole"))
    counts, bad_rounds, number = Counter[str](), 0, 0
    kinds = (VICTIMS[index % len(VICTIMS)] for index in range(sys.maxsize))
    while counts.total() < given.kills:
        number += 1
        round_folder = folder / f"round-{number}"
        killed, left_behind = run_round(round_folder, kinds, min(KILLS_OF_A_ROUND, given.kills - counts.total()))
        runs = finish_round(round_folder)
        counts += killed
        difference = _compare(read_table(load(round_folder)), whole)
        bad_rounds += bool(difference or left_behind)
        verdict = f"DIFFERENT: {difference}" if difference else "equal tables"
        leftovers = f", processes left behind: {left_behind}" if left_behind else ""
        summary = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        print(f"round {number}: {killed.total()} kills, {runs} more runs, {verdict}{leftovers}; so far {summary}", flush=True)
        if not difference and not left_behind:
            shutil.rmtree(round_folder)
    print(f"{counts.total()} kills in {number} rounds, {bad_rounds} bad rounds; logs and bad rounds are in {folder}")
    return int(bad_rounds > 0)


def _compare(one: pd.DataFrame, other: pd.DataFrame) -> str:
    """Return how two tables differ, on one line; empty if they are equal."""
    try:
        pd.testing.assert_frame_equal(one, other)
    except AssertionError as error:
        return " ".join(str(error).split())[:400]
    return ""


if __name__ == "__main__":
    sys.exit(main())
