"""Tests of the output folder: which trials are imported, repeated or left behind by an interrupted run."""

import json
import os
import re
import resource
import time
from contextlib import contextmanager

import pytest

from harness.errors import FileMissing, StoreError
from harness.experiment.job import FinishedTrial
from harness.experiment.output import Label, open_output
from harness.store.journal import Journal
from harness.store.records import CheckRecord
from tests.experiment.records import record
from tests.store.samples import begun, opening, step

CHECK = CheckRecord(trial_id="t", check="c", title="C", passed=True)


def left_behind(output, *records):
    """Create journals as interrupted workers leave them."""
    for trial_record in records:
        with Journal.open(output.locate_trial_journal(trial_record.trial_id)) as journal:
            journal.record_trial(trial_record)


def test_a_trial_is_taken_over_with_its_checks_and_its_own_journal_goes(tmp_path):
    with open_output(tmp_path) as output:
        left_behind(output, record(score=0.1))
        output.import_trial(FinishedTrial(record(score=0.2), (CHECK,)))
        assert output.journal.list_trials() == (record(score=0.2),)
        assert output.journal.list_checks("t") == (CHECK,)
        assert list((tmp_path / "journals").iterdir()) == []


def test_a_trial_that_is_run_again_has_its_new_steps_although_a_clock_was_set_back(tmp_path):
    with open_output(tmp_path) as output:
        for created_at_ms, steps in ((2_000, 1), (1_000, 3)):
            with Journal.open(output.locate_trial_journal("t")) as journal:
                events = [*opening("t"), *(event for number in range(steps) for event in step(number + 1))]
                begun(journal, "t", created_at_ms).append(events)
            output.import_trial(FinishedTrial(record(session_id="t", steps=steps), ()))
            assert len(output.journal.query("SELECT * FROM step")) == steps


def test_crashed_trials_run_again_and_infrastructure_failures_only_on_request(tmp_path):
    records = {
        "good": record(trial_id="good"),
        "overflow": record(trial_id="overflow", status="failed", reason="overflow"),
        "provider": record(trial_id="provider", status="failed", reason="model_error"),
        "sandbox": record(trial_id="sandbox", status="failed", reason="sandbox_error"),
        "crash": record(trial_id="crash", status="crashed", reason="crashed"),
    }
    with open_output(tmp_path) as output:
        for trial_record in records.values():
            output.import_trial(FinishedTrial(trial_record, ()))
        assert output.list_finished(retry_failed=False) == {"good", "overflow", "provider", "sandbox"}
        assert output.list_finished(retry_failed=True) == {"good", "overflow"}


def test_finished_trials_of_a_killed_run_are_kept_and_unfinished_ones_deleted(tmp_path):
    with open_output(tmp_path) as output:
        left_behind(output, record(trial_id="done"), record(trial_id="stopped", status="failed", reason="cancelled"))
        with Journal.open(output.locate_trial_journal("half")) as journal:
            journal.open_session_log("half", created_at_ms=1, clock=lambda: 1.0)
        output.locate_trial_journal("torn").write_bytes(b"no journal at all")
    with open_output(tmp_path) as output:
        assert output.list_finished(retry_failed=False) == {"done"}
        assert output.journal.list_session_ids() == ()
        assert list((tmp_path / "journals").iterdir()) == []


def test_a_trial_that_can_run_again_is_not_taken_from_a_journal_older_than_the_start_of_the_machine(tmp_path):
    for written_at in (None, 1_000_000):
        for is_scratch in (False, True):
            folder = tmp_path / f"{written_at} {is_scratch}"
            with open_output(folder) as output:
                source = output.locate_trial_journal("t")
                with Journal.open(source, is_scratch=is_scratch) as journal:
                    journal.record_trial(record())
                if written_at:
                    os.utime(source, (written_at, written_at))
                output.recover_journals()
                assert output.list_stored() == (set() if written_at and is_scratch else {"t"})
                assert not source.exists()


@contextmanager
def no_space():
    """Let files of this process grow no longer, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_finished_trial_that_a_full_disk_hides_is_kept_for_the_next_run(tmp_path):
    with open_output(tmp_path) as output:
        left_behind(output, record())
        with no_space(), pytest.raises(StoreError, match="disk"):
            output.recover_journals()
    with open_output(tmp_path) as output:
        assert output.list_finished(retry_failed=False) == {"t"}


def test_kept_trials_take_the_names_of_the_plan_of_today(tmp_path):
    with open_output(tmp_path) as output:
        output.import_trial(FinishedTrial(record(), (CHECK,)))
        output.relabel_trials({"t": Label("new", "arm 2", '{"seed": 0}'), "other": Label("x", "y", "{}")})
        assert output.journal.list_trials() == (record(experiment="new", arm="arm 2", axes_json='{"seed": 0}'),)
        assert output.journal.list_checks("t") == (CHECK,)


def test_kept_trials_that_are_not_planned_any_more_are_arms_of_their_own_one_for_each_configuration(tmp_path):
    plain = {"seed": 0, "task": "t", "max_steps": 50}
    kept = [
        record(trial_id="a0", config_json=json.dumps(plain), axes_json='{"seed": 0}'),
        record(trial_id="a1", config_json=json.dumps(plain | {"seed": 1}), seed=1),
        record(trial_id="b0", config_json=json.dumps(plain | {"max_steps": 60})),
        record(trial_id="now", config_json=json.dumps(plain | {"max_steps": 70})),
    ]
    with open_output(tmp_path) as output:
        for one in kept:
            output.import_trial(FinishedTrial(one, ()))
        for _ in range(2):  # a second time changes nothing
            output.relabel_trials({"now": Label("e", "a", "{}")})
            trials = {trial.trial_id: trial for trial in output.journal.list_trials()}
            assert trials["now"].arm == "a"
            assert re.fullmatch(r"a \(earlier plan [0-9a-f]{6}\)", trials["a0"].arm)
            assert trials["a0"].arm == trials["a1"].arm != trials["b0"].arm
            assert trials["a0"].axes_json == "{}"
        output.relabel_trials({"a0": Label("e", "a", "{}")})
        assert {trial.trial_id: trial.arm for trial in output.journal.list_trials()}["a0"] == "a"


def test_outputs_that_were_kept_for_a_week_are_removed_when_a_run_begins(tmp_path):
    now = time.time()
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.open_session_log("s", created_at_ms=0, clock=time.time)
        old = journal.open_outputs("s", lambda: now - 8 * 24 * 3_600).save("old")
        new = journal.open_outputs("s", lambda: now - 6 * 24 * 3_600).save("new")
    with open_output(tmp_path) as output:
        outputs = output.journal.open_outputs("s", time.time)
        assert outputs.load(new) == "new"
        with pytest.raises(FileMissing):
            outputs.load(old)
