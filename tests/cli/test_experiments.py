"""`harness experiments list`: titles, tags, notes and progress of all plans in a folder."""

import pytest

from harness.experiment.experiment import Experiment
from harness.experiment.limits import RunLimits
from harness.experiment.trial import Trial
from harness.sandboxes.backends import SandboxChoice
from harness.store.journal import Journal
from harness.store.records import TrialRecord
from tests.analysis.selections import trial
from tests.cli.command import TINY, within

PLAN = """
[experiment]
title = "{title}"
tags = ["{tag}", "all"]
notes = "see the second one"

[trial]
task = "flashcards"
policy = "none"

[axes]
seed = [0, 1, 2]
"""


@pytest.fixture
def folder(tmp_path):
    for name, title, tag in (("first", "One", "thresholds"), ("second", "Two", "models")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.toml").write_text(PLAN.format(title=title, tag=tag))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "plan.toml").write_text("[trail]")
    (tmp_path / "no plan").mkdir()
    return tmp_path


def test_experiments_are_listed_with_what_their_plans_say_and_how_far_they_are(folder):
    first, *_ = Experiment.from_toml(folder / "first").grid
    with Journal.open(folder / "first" / "output" / "journal.sqlite") as journal:
        for trial_id in (first.trial_id, "of an earlier plan"):
            journal.record_trial(TrialRecord(**trial(trial_id=trial_id)), ())
    done = within("experiments", "list", folder)
    assert done.exit_code == 0, done.stderr
    lines = {line.split()[0]: " ".join(line.split()) for line in done.stdout.splitlines() if line.strip()}
    assert lines["first"] == "first One 3 1 thresholds, all see the second one"
    assert lines["second"] == "second Two 3 0 models, all see the second one"
    assert "unknown table in plan.toml: 'trail'" in " ".join(done.stdout.split())
    assert "no plan" not in done.stdout


def test_a_tag_selects_experiments(folder):
    done = within("experiments", "list", folder, "--tag", "models")
    assert "second" in done.stdout
    assert "first" not in done.stdout
    assert "no experiments with the tag 'none' in" in within("experiments", "list", folder, "--tag", "none").stdout
    refused = within("experiments", "list", folder / "missing")
    assert refused.exit_code == 2


def read_rows(*arguments):
    done = within("experiments", "list", *arguments)
    assert done.exit_code == 0, done.stderr
    return {line.split()[0]: " ".join(line.split()[1:]) for line in done.stdout.splitlines()[1:] if line.strip()}


@pytest.mark.slow
def test_experiments_made_in_python_are_listed_from_the_folder_of_their_user(tmp_path, monkeypatch):
    """One is stored where experiments without a folder are, and one in a folder that its user named; neither has a plan file."""
    monkeypatch.chdir(tmp_path)
    base = Trial(task=TINY, policy="none", window_tokens=32_768, sandbox=SandboxChoice(backend="local"))
    experiment = Experiment(name="mine", base=base, axes={"seed": [0, 1, 2]})
    experiment.run(workers=1, progress="off", unsafe_local=True, limits=RunLimits(max_trials=2))
    experiment.run("results/other", workers=1, progress="off", unsafe_local=True, limits=RunLimits(max_trials=1))
    assert read_rows() == {"mine": "3 2"}
    assert read_rows("results") == {"mine": "in other 3 1"}
    assert read_rows("--tag", "all") == {}


def test_results_without_a_plan_are_listed_although_no_trial_or_nothing_readable_is_in_them(folder):
    for name in ("empty", "torn", "changed"):
        (folder / name).mkdir()
    with Journal.open(folder / "empty" / "journal.sqlite"):
        pass
    (folder / "torn" / "journal.sqlite").write_bytes(b"torn")
    with Journal.open(folder / "changed" / "journal.sqlite") as journal:
        for arm, changes in (("a", {}), ("b", {"status": "crashed"}), ("c (earlier plan 012345)", {})):
            journal.record_trial(TrialRecord(**trial(experiment="changed", arm=arm, **changes)), ())
    rows = read_rows(folder)
    assert rows["empty"] == "? 0"
    assert rows["torn"].startswith("cannot be read: ")
    assert rows["changed"] == "? 1"
    assert {"first", "second", "broken"} < rows.keys()
