"""Measure how long one trial of each task takes, and write the result to `docs/task_seconds.json`.

Runs the base arm of every task on three seeds in one worker, first with an empty action cache and then with the filled one, and
keeps the medians: `python docs/measure_tasks.py`.
"""

import json
import os
import platform
import tempfile
from pathlib import Path

from harness import Experiment, KeepLast, Trial
from harness.experiment.plan import Settings
from harness.tasks import SUITE

OUTPUT = Path(__file__).parent / "task_seconds.json"
SEEDS = (0, 1, 2)


def measure(task: str, folder: Path, run: str) -> float:
    """Return the median seconds of a trial, grading included."""
    base = Trial(task=task, policy=KeepLast(summarizer="scripted/extractive"), window_tokens=32_768, max_steps=300)
    settings = Settings(executor="threads", action_cache="on", action_cache_folder=str(folder / f"cache-{task}"))
    experiment = Experiment(
        name=f"{run}-{task}", base=base, axes={"seed": list(SEEDS)}, settings=settings, folder=folder / f"{run}-{task}"
    )
    return float(experiment.run(workers=1, progress="off").trials["wall_seconds"].median())


def main() -> None:
    """Measure every task of the suite."""
    with tempfile.TemporaryDirectory() as name:
        seconds = {run: {task: round(measure(task, Path(name), run), 2) for task in sorted(SUITE)} for run in ("cold", "warm")}
    machine = f"{os.cpu_count()} {platform.machine()} cores with Python {platform.python_version()}, one trial at a time"
    OUTPUT.write_text(json.dumps({"machine": machine, **seconds}, indent=2) + "\n", "utf-8")
    print(OUTPUT.read_text("utf-8"))  # noqa: T201


if __name__ == "__main__":
    main()
