import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_killed_writer_loses_at_most_the_step_in_flight(tmp_path: Path, checkout: Path) -> None:
    command = [sys.executable, "-m", "tests.store.killing", str(tmp_path), "240"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["kills"] == 240
    assert found["while writing"] >= 200, "too many writers died before they had begun"
    assert found["longest"] > 100
