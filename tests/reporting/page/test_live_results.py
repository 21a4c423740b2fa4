"""Results of a running experiment: progress, remaining time, newer values, and sessions on demand."""

import fcntl
import json
import sqlite3
import zlib
from contextlib import closing
from typing import Any

import pytest

from harness.errors import StoreError, UsageError
from harness.experiment.interim_analyses import INTERIM_ANALYSES_FILE, begin_record
from harness.inspection.loading import load
from harness.reporting.experiment_report import report
from harness.reporting.page.live_results import LiveResults, estimate_seconds_left
from harness.store.journal import Journal
from tests.reporting.page.experiments import declare, write_experiment, write_trial

FAMILY = json.dumps({"family": {"contrasts": [], "planned_trials": 20, "looks": 1}})


def test_progress_counts_planned_trials_and_notices_a_run(tmp_path):
    write_experiment(tmp_path, provenance_json=FAMILY, started_at_ms=1_000_000)
    live = LiveResults(tmp_path, clock=lambda: 1_090.0)
    state = live.describe_progress()
    assert (state.finished, state.planned, state.is_running) == (18, 20, False)
    assert state.text == "18 of 20 trials finished; no run is active, `harness run` continues it"
    with (tmp_path / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = live.describe_progress()
    assert state.is_running
    assert state.text == "18 of 20 trials finished, 0 trials running, about 10 s left"  # 90 s for 18 trials, 2 left


@pytest.mark.parametrize("is_running", [False, True])
def test_progress_counts_neither_trials_of_earlier_plans_nor_crashed_ones(tmp_path, is_running):
    earlier = json.dumps({"family": {"contrasts": [], "planned_trials": 30, "looks": 1}})
    write_experiment(tmp_path, arms=("old (earlier plan 0a1b2c)",), provenance_json=earlier, started_at_ms=1_000_000)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        for seed, status in enumerate(("failed", "completed", "crashed")):
            name = f"new-{seed}"
            changes: dict[str, Any] = {"trial_id": name, "session_id": name, "seed": seed, "status": status}
            write_trial(journal, arm="new", provenance_json=FAMILY, started_at_ms=1_000_000, **changes)
    live = LiveResults(tmp_path, clock=lambda: 1_005.0)
    with (tmp_path / "run.lock").open("w") as lock:
        if is_running:
            fcntl.flock(lock, fcntl.LOCK_EX)
        state = live.describe_progress()
    assert (state.finished, state.planned) == (2, 20)
    if is_running:
        assert state.text == "2 of 20 trials finished, 1 crashed, 0 trials running, about 45 s left"  # 5 s for 2 trials, 18 left
    else:
        assert state.text == "2 of 20 trials finished, 1 crashed; no run is active, `harness run` continues it"


def test_trials_of_earlier_plans_are_counted_where_there_are_no_others(tmp_path):
    write_experiment(tmp_path, arms=("old (earlier plan 0a1b2c)",))
    assert LiveResults(tmp_path).describe_progress().text == "6 of 6 trials finished"


def test_finished_and_crashed_trials_add_up_to_the_count_of_the_report(tmp_path):
    write_experiment(tmp_path)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite", isolation_level=None)) as journal:
        journal.execute("UPDATE trial SET status = 'crashed' WHERE rowid IN (SELECT rowid FROM trial LIMIT 3)")
    results = LiveResults(tmp_path)
    state = results.describe_progress()
    assert (state.finished, state.crashed, state.planned) == (15, 3, 18)
    assert state.text == "15 of 18 trials finished, 3 crashed; no run is active, `harness run` continues it"
    report = results.page.document.render_text()
    assert "Report on made: 18 trials" in report
    assert "3 of 18 trials are excluded" in report


def test_a_complete_experiment_needs_no_run(tmp_path):
    write_experiment(tmp_path)
    assert LiveResults(tmp_path).describe_progress().text == "18 of 18 trials finished"


@pytest.mark.slow
def test_values_follow_the_journal(tmp_path):
    write_experiment(tmp_path)
    live = LiveResults(tmp_path)
    first = live.page
    assert live.page is first
    assert first.blocks == ()
    digest = live.describe_progress().digest
    assert first.values["digest"] == digest
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        write_trial(journal, trial_id="new", session_id="new", arm="a", task="t1", seed=9)
    assert live.describe_progress().digest != digest
    assert "new" in live.page.values["parts"][0]["trials"]["id"]


@pytest.mark.slow
@pytest.mark.parametrize("looks", [1, 2])
def test_a_plan_with_declared_contrasts_is_followed_without_taking_a_look(tmp_path, looks):
    declared = declare(19, looks)
    begin_record(tmp_path)
    write_experiment(tmp_path, provenance_json=declared)
    live = LiveResults(tmp_path)
    assert live.page.values["is_withheld"]
    assert any("Progress only" in "".join(line) for line in live.page.values["headlines"])
    assert json.loads((tmp_path / INTERIM_ANALYSES_FILE).read_text())["looks"] == []
    report(load(tmp_path))
    assert live.page.values["is_withheld"] == (looks == 1), "a look that was taken is shown here, too"
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        write_trial(
            journal, trial_id="new", session_id="new", arm="a", task="t1", seed=9, experiment="made", provenance_json=declared
        )
    assert not live.page.values["is_withheld"]
    assert len(json.loads((tmp_path / INTERIM_ANALYSES_FILE).read_text())["looks"]) == looks


def test_a_session_is_read_on_demand(tmp_path):
    write_experiment(tmp_path)
    plain = json.loads(zlib.decompress(LiveResults(tmp_path).load_session("s1-0-2")))
    assert plain["session"]["name"] == "s1-0-2"
    assert len(plain["steps"]) == 3
    with pytest.raises(UsageError, match="no session 'other'"):
        LiveResults(tmp_path).load_session("other")


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(StoreError, match="no results"):
        LiveResults(tmp_path)


@pytest.mark.parametrize(
    ("starts", "remaining", "now", "seconds"),
    [
        ([], 5, 100.0, None),
        ([90.0, 50.0, 0.0], 6, 120.0, 240.0),  # three trials in 120 s
        ([5_000.0, 4_990.0, 10.0, 0.0], 4, 5_010.0, 40.0),  # the first two belong to an earlier run
        ([0.0], 4, 5_000.0, None),  # nothing has started for more than an hour
        ([90.0], 0, 100.0, 0.0),
    ],
)
def test_the_remaining_time_follows_the_mean_speed_of_this_run(starts, remaining, now, seconds):
    assert estimate_seconds_left(starts, remaining, now) == seconds
