"""The recipe of CONTRIBUTING.md for a new column of the table of steps works as it is written there."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.store.journal import Journal
from harness.store.schema import MIGRATIONS
from tests.house.source import CHECKOUT
from tests.store.samples import CONDUCT, PROBES, begun, opening, step

RECIPE = (CHECKOUT / "CONTRIBUTING.md").read_text("utf-8").partition("## Another: a new column of the table of steps")[2]
EDITS = re.findall(r"^```diff\n--- (\S+)\n(.*?)^```$", RECIPE, re.MULTILINE | re.DOTALL)
"""Path and lines of each edit; a line begins with a space if it stays, and with + if it is new."""
READ_OLD_JOURNAL = "import harness; print(harness.load('old').steps.file_writes.isna().all())"


def apply_edit(package: Path, name: str, lines: str) -> None:
    old = "".join(line[1:] for line in lines.splitlines(keepends=True) if not line.startswith("+"))
    new = "".join(line[1:] for line in lines.splitlines(keepends=True) if not line.startswith("-"))
    text = (package / name).read_text("utf-8")
    assert text.count(old) == 1, f"CONTRIBUTING.md edits lines that {name} does not have exactly once:\n{old}"
    (package / name).write_text(text.replace(old, new), "utf-8")


def run_python(package: Path, folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(package)}
    finished = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_the_two_documented_edits_add_a_column_of_steps_that_a_trial_fills(tmp_path: Path) -> None:
    assert len(EDITS) == 2, "one edit declares the column, the other computes its value"
    assert f"migration={len(MIGRATIONS) + 1})" in EDITS[0][1], "the recipe names the number of the next migration"
    shutil.copytree(CHECKOUT / "harness", tmp_path / "harness")
    for name, lines in EDITS:
        apply_edit(tmp_path, name, lines)
    script = re.search(r"^```python\n(.*?)^```$", RECIPE, re.MULTILINE | re.DOTALL)
    assert script is not None
    work = tmp_path / "work"
    work.mkdir()
    (work / "one_trial.py").write_text(script[1], "utf-8")
    rows = json.loads(run_python(tmp_path, work, "one_trial.py").splitlines()[-1])
    assert len(rows) == 12
    assert all(0 <= row["file_writes"] <= row["calls"] for row in rows)
    assert any(row["file_writes"] for row in rows)

    (work / "old").mkdir()
    with Journal.open(work / "old" / "journal.sqlite") as journal:
        begun(journal).append([*opening(), *step(1)])
        journal.record_metrics("s", CONDUCT, PROBES)
    assert run_python(tmp_path, work, "-c", READ_OLD_JOURNAL) == "True\n"
