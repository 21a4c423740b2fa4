"""Command `harness replay`: the summary, the tables, and what is refused."""

import pandas as pd
import pytest

from tests.cli.command import harness
from tests.replay.recorded import write_recording

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(4):
        write_recording(tmp_path / "projects" / f"project-{number}" / f"s{number}.jsonl", 16, pauses=[8])
    return tmp_path / "projects"


def test_the_summary_has_about_ten_lines_and_the_tables_are_written(folder, tmp_path):
    options = ("--policies", "claude-code", "--thresholds", "40K,60K", "--reread", "0,2K,4K", "--workers", "1")
    result = harness("replay", folder, *options, "--csv", tmp_path / "tables")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("On your 4 sessions (5 Jan 2026 – 5 Jan 2026, $")
    assert "chosen on half of your projects" in lines[0]
    assert len(lines) <= 11
    assert any(line.startswith("Check: the model is within 5 % of the real bill in 4 of 4 sessions") for line in lines)
    assert any(line.startswith("Level L2-open") for line in lines)
    settings = pd.read_csv(tmp_path / "tables" / "settings.csv")
    assert set(settings["setting"]) == {"as it was", "claude-code at 40K", "claude-code at 60K", "compact by hand before pauses"}
    full = harness("replay", folder, *options, "--full")
    assert "your providers' own rules with a cache of 1h, against what was run:" in full.stdout.splitlines()


def test_the_bill_alone_names_what_was_paid_and_no_setting(folder, tmp_path):
    result = harness("replay", folder, "--bill", "--csv", tmp_path / "tables", "--workers", "1")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Your 4 sessions (")
    assert lines[1].startswith("Paid for: ")
    assert "Cheapest" not in result.stdout
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == ["costs.csv", "sessions.csv"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--bill", "--policies", "codex"), "--policies has no effect with --bill"),
        (("--thresholds", "many"), "'many' is no number of tokens"),
        (("--rules", "nobody"), "unknown price rule 'nobody'"),
        (("--policies", "nobody"), "unknown policy 'nobody'"),
        (("--reread", "5K"), "low end, middle and high end"),
    ],
)
def test_wrong_options_are_refused_in_one_line(folder, options, reason):
    result = harness("replay", folder, *options)
    assert result.returncode == 2
    assert reason in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_price_file_with_a_typo_is_refused_and_nothing_is_written(folder, tmp_path):
    file = tmp_path / "rules.toml"
    file.write_text("[mine]\nlifetime_secnds = 5\n")
    result = harness("replay", folder, "--file", file, "--csv", tmp_path / "tables")
    assert result.returncode == 2
    assert "lifetime_secnds" in result.stderr
    assert not (tmp_path / "tables").exists()


def test_a_folder_without_sessions_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = harness("replay", tmp_path)
    assert result.returncode == 2
    assert "there is no session in" in result.stderr
