"""Command `harness tune`: the front, the line of a plan and the file, and what is refused."""

import pandas as pd
import pytest

from tests.cli.command import harness
from tests.replay.recorded import write_recording

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(4):
        write_recording(tmp_path / "projects" / f"project-{number}" / f"s{number}.jsonl", 40, pauses=[8, 30])
    return tmp_path / "projects"


def test_the_front_is_printed_and_written_with_the_line_of_a_plan(folder, tmp_path):
    options = ("--policy", "claude-code", "--thresholds", "40K,60K", "--reread", "0,1K,2K", "--workers", "1")
    result = harness("tune", folder, *options, "--csv", tmp_path / "front.csv")
    assert result.returncode == 0, result.stderr
    front = pd.read_csv(tmp_path / "front.csv")
    assert set(front["setting"]) <= {"as it was", "claude-code at 40K", "claude-code at 60K"}
    assert len(front) > 1
    assert all(setting in result.stdout for setting in front["setting"])
    assert 'policy = { kind = "claude-code"' in result.stdout
    assert "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE=" in result.stdout


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--policy", "nobody"), "unknown policy 'nobody'"),
        (("--policy", "keep-last", "--vary", "keep_lats=5,10"), "keep_lats"),
        (("--policy", "claude-code", "--rule", "nobody"), "unknown price rule 'nobody'"),
        (("--policy", "claude-code", "--thresholds", "many"), "'many' is no number of tokens"),
    ],
)
def test_wrong_options_are_refused_in_one_line(folder, tmp_path, options, reason):
    result = harness("tune", folder, *options, "--csv", tmp_path / "front.csv", "--workers", "1")
    assert result.returncode == 2
    assert reason in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "front.csv").exists()
