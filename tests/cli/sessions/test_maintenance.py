"""`harness sessions archive`, `restore` and `clean` as a user starts them."""

import itertools
import time

import pytest

from harness.experiment.output import open_output
from harness.store.journal import Journal
from tests.cli.command import within
from tests.store.samples import ENDED, opening, step, trial

DAY = 86_400


def write(path, **ages_days):
    with Journal.open(path) as journal:
        for name, days in ages_days.items():
            at = time.time() - days * DAY
            log = journal.open_session_log(name, created_at_ms=int(at * 1000), clock=itertools.repeat(at).__next__)
            log.append([*opening(name), *step(1, f"{name} " * 500), ENDED])
    return path


@pytest.fixture
def journal(tmp_path):
    path = write(tmp_path / "tiny" / "output" / "journal.sqlite", old=40, new=2, tried=50)
    with Journal.open(path) as opened_journal:
        opened_journal.record_trial(trial("t", "tried"))
    return path


def names(path):
    with Journal.open(path, read_only=True) as journal:
        return set(journal.list_session_ids())


def test_old_sessions_are_put_away_and_come_back(journal):
    tried = within("sessions", "archive", "--older-than", "30d", "--dry-run", "--in", journal)
    assert tried.stdout.startswith("would put away old\n")
    assert names(journal) == {"old", "new", "tried"}
    done = within("sessions", "archive", "--older-than", "30d", "--in", journal)
    assert done.exit_code == 0, done.output
    assert "1 session old enough; 1 belong to trials and stay (--with-trials)" in done.stdout
    assert "1 text and 0 files went" in done.stdout
    assert names(journal) == {"new", "tried"}
    listed = within("sessions", "restore", "--in", journal).stdout
    assert listed.startswith("old ")
    assert "1 session put away" in listed
    assert "old is back in" in within("sessions", "restore", "old", "--in", journal).stdout
    assert names(journal) == {"old", "new", "tried"}
    assert "3 steps" not in within("inspect", "old", "--in", journal).stdout
    assert "1 step," in within("inspect", "old", "--in", journal).stdout


def test_trials_go_only_when_it_is_said(journal):
    assert within("sessions", "archive", "--older-than", "45d", "--with-trials", "--in", journal).exit_code == 0
    assert names(journal) == {"old", "new"}
    with Journal.open(journal, read_only=True) as left:
        assert left.list_trials() == ()


def test_nothing_is_put_away_while_a_run_is_at_work(journal):
    with open_output(journal.parent):
        for command in (("archive", "--older-than", "1d"), ("clean",)):
            refused = within("sessions", *command, "--in", journal)
            assert refused.exit_code == 2
            assert "another run is at work" in refused.stderr
    assert names(journal) == {"old", "new", "tried"}


@pytest.mark.parametrize("age", ["30", "d", "-3d", "3y", "1.5d", "9999999d"])
def test_an_age_that_is_none_is_refused_with_what_one_looks_like(journal, age):
    refused = within("sessions", "archive", f"--older-than={age}", "--in", journal)
    assert refused.exit_code == 2
    assert "write 90m, 12h, 30d or 8w" in refused.stderr


def test_a_session_that_was_not_put_away_cannot_come_back(journal):
    refused = within("sessions", "restore", "new", "--in", journal)
    assert refused.exit_code == 2
    assert "is not among the archived ones" in refused.stderr


def test_clean_says_what_went(journal):
    done = within("sessions", "clean", "--in", journal)
    assert done.exit_code == 0, done.output
    assert "0 saved outputs, 0 texts and 0 files went" in done.stdout
