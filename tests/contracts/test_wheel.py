"""The built wheel has everything: it runs from any folder, without the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def run(*command: str, folder: Path, path: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_runs_from_any_folder(checkout, tmp_path):
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path), folder=checkout)
    (wheel,) = tmp_path.glob("compaction_harness-*.whl")
    installed, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    zipfile.ZipFile(wheel).extractall(installed)
    elsewhere.mkdir()
    (elsewhere / "mine.py").write_text("def newest(messages, budget):\n    return [messages[0], *messages[-3:]]\n")
    program = """
import harness
messages = [{"role": "user", "content": "x"}, *({"role": "assistant", "content": "x" * 4_000} for _ in range(40))]
print(harness.__file__)
print(harness.compact(messages, "mine.py:newest", window_tokens=32_000, system="s").status)
print(harness.compact(messages, "codex", window_tokens=32_000, summarizer="scripted/extractive").status)
print(harness.inspect_session(harness.Compactor("none", window_tokens=9_000).entries).totals.steps)
"""
    lines = run(sys.executable, "-c", program, folder=elsewhere, path=installed).splitlines()
    assert Path(lines[0]).is_relative_to(installed)
    assert lines[1] == "applied"
    main = "import sys; from harness.cli import main; sys.argv[0] = 'harness'; main()"
    policies = run(sys.executable, "-c", main, "policies", folder=elsewhere, path=installed)
    assert "keep-last" in policies
    assert "harness" in run(sys.executable, "-c", main, "--version", folder=elsewhere, path=installed)
    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist()}
    assert {"survival.toml", "page.js", "task_skeleton.py.tmpl"} <= names
