"""Tests of the journals that workers send."""

import pickle
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from harness.errors import StoreError, UsageError
from harness.experiment.output import open_output, read_finished_trial
from harness.experiment.remote.host import TrialHost
from harness.experiment.remote.parcel import CHUNK_BYTES, compress_journal, pack_job, split, write_journal
from harness.revisions import REVISIONS
from harness.testing.sample_jobs import make_sample_job, run_sample_job


@pytest.fixture
def packed(tmp_path):
    """Provide the journal of a finished trial and its compressed content."""
    job = make_sample_job("finish", 0, tmp_path / "worker")
    run_sample_job(job)
    copy = tmp_path / "copy"
    assert compress_journal(job.journal, copy) == copy.stat().st_size
    return job.journal, copy.read_bytes()


def test_a_journal_arrives_as_it_was_sent(packed, tmp_path):
    journal, content = packed
    target = tmp_path / "new folder" / journal.name
    write_journal((content[place : place + 100] for place in range(0, len(content), 100)), target)
    assert target.read_bytes() == journal.read_bytes()
    assert read_finished_trial(target) == read_finished_trial(journal)
    assert b"".join(split(content * 99)) == content * 99
    assert {len(part) for part in split(bytes(3 * CHUNK_BYTES))} == {CHUNK_BYTES}


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda content: content[:99] + b"?" + content[100:]])
def test_a_damaged_journal_is_refused_and_leaves_no_file(packed, tmp_path, damage):
    journal, content = packed
    target = tmp_path / "target" / journal.name
    with pytest.raises(StoreError, match=f"{journal.name} (arrived incomplete|cannot be stored)"):
        write_journal([damage(content)], target)
    assert list(target.parent.iterdir()) == []


def test_a_worker_refuses_a_trial_that_has_another_id_on_its_machine(tmp_path, monkeypatch):
    job = make_sample_job("finish", 0, tmp_path)
    run, arguments = pickle.loads(pack_job(run_sample_job, job, 60.0).call)
    assert run(*arguments, tmp_path).record.trial_id == job.trial_id
    monkeypatch.setattr("harness.revisions.REVISIONS", {**REVISIONS, "prices": 99})
    with pytest.raises(
        UsageError, match=f"the trial has the id {job.trial.trial_id} on .*, and {job.trial_id} where the run was"
    ):
        run(*arguments, tmp_path)


@pytest.mark.slow
def test_a_policy_in_a_file_runs_where_the_file_is_and_is_refused_in_words_elsewhere(tmp_path, monkeypatch):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
    (here / "mine.py").write_text("def newest(messages, budget):\n    return [messages[0], *messages[-3:]]\n")
    monkeypatch.chdir(here)
    sample = make_sample_job("finish", 0, tmp_path)
    trial = replace(sample.trial, policy="mine.py:newest")
    trial_id = trial.trial_id
    parcel = pack_job(run_sample_job, replace(sample, trial=trial, trial_id=trial_id), 60.0)
    outcomes = []
    for folder in (here, elsewhere):
        monkeypatch.chdir(folder)
        with closing(TrialHost(60.0, tmp_path)) as host:  # its child process starts in the folder in which a worker was started
            outcomes.append(host.run(parcel))
    assert outcomes[0].resolve().record.trial_id == trial_id
    with pytest.raises(UsageError, match=r"policy: no file 'mine.py' in '.*elsewhere' on .*; copy it and"):
        outcomes[1].resolve()


def test_a_journal_that_its_process_did_not_close_is_sent_whole(tmp_path):
    journal = tmp_path / "open.sqlite"
    database = sqlite3.connect(journal)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE note (text)")
    database.execute("INSERT INTO note VALUES ('kept')")
    database.commit()
    assert journal.with_name("open.sqlite-wal").stat().st_size > 0
    copy, target = tmp_path / "copy", tmp_path / "target.sqlite"
    compress_journal(journal, copy)
    write_journal([copy.read_bytes()], target)
    assert sqlite3.connect(target).execute("SELECT text FROM note").fetchall() == [("kept",)]
    database.close()


def test_a_journal_half_received_by_a_killed_run_is_removed(tmp_path):
    part = tmp_path / "journals" / "x.sqlite.part"
    part.parent.mkdir()
    part.write_bytes(b"half")
    with open_output(tmp_path):
        assert not part.exists()
