"""Revisions of stored trials: recorded, recovered from ids, and compared with those of today."""

import json
from pathlib import Path

import pytest

from harness.conversation import codec
from harness.experiment.stored_revisions import (
    describe_raised,
    find_current_revisions,
    find_mixed,
    find_raised,
    parse_configuration,
    read_stored_revisions,
    recover_revisions,
)
from harness.experiment.trial import SharedFields, Trial, to_plain
from harness.revisions import REVISIONS


def encode(trial: Trial) -> str:
    return codec.to_canonical_json(to_plain(trial), dict)


@pytest.fixture
def own_trial(tmp_path):
    """Return a trial with a task in a file of a user."""
    (tmp_path / "own.py").write_text("def make(seed): ...\n")
    return Trial(task=f"{tmp_path / 'own.py'}:make", policy="codex")


def test_recorded_revisions_win_over_those_in_the_id():
    recorded = {"prices": 7}
    assert read_stored_revisions("any", "{}", json.dumps({"revisions": recorded})) == recorded
    assert read_stored_revisions("any", "{}", json.dumps({"revisions": recorded})) == recorded


def test_a_trial_without_recorded_revisions_has_revision_0_of_each_part_that_its_id_does_not_cover(monkeypatch):
    trial = Trial(task="flashcards", policy="codex", model="openai/gpt-5", explore=True, explore_model="scripted")
    changed = {"prices": 3, "explorer": 2, "checks": 9}
    monkeypatch.setattr("harness.revisions.REVISIONS", {**dict.fromkeys(REVISIONS, 0), **changed})
    trial_id = "0" * 20
    assert find_raised(recover_revisions(trial_id, encode(trial)), trial.revisions) == {
        "prices": (0, 3),
        "explorer": (0, 2),
    }, "checks are in the id, which no revision gives"


def test_an_unknown_configuration_has_no_revisions():
    for config_json in ("{}", "[]", "", '{"task": "flashcards", "policy": {"kind": "of another package"}}'):
        assert parse_configuration(config_json, SharedFields()) is None
        assert recover_revisions("any", config_json) == find_current_revisions(config_json) == {}


def test_the_file_of_an_own_task_stands_for_its_revision(own_trial, monkeypatch):
    monkeypatch.setattr("harness.revisions.REVISIONS", dict.fromkeys(REVISIONS, 0))  # as in version 0.2
    before, trial_id = own_trial.revisions, own_trial.trial_id
    assert recover_revisions(trial_id, encode(own_trial)) == before
    Path(own_trial.task.rpartition(":")[0]).write_text("def make(seed): return 1\n")
    assert find_raised(before, own_trial.revisions).keys() == {f"task {own_trial.task}"}
    assert f"task {own_trial.task}" not in recover_revisions("0" * 20, encode(own_trial))


def test_only_parts_that_both_trials_use_can_differ():
    assert describe_raised({"prices": 0, "explorer": 1}, {"prices": 2, "agent": 1}) == ["prices 0, now 2"]
    assert find_mixed([{"prices": 0, "agent": 1}, {"prices": 2}, {"agent": 1}]) == {"prices": [0, 2]}
