"""Tests of the runner: a trial in trouble does not affect the others, and the output folder stays complete."""

import errno
import multiprocessing
import os
import signal
import sys
import threading
import time
import types
from concurrent.futures import Future
from dataclasses import replace

import pytest

from harness.agent.cancellation import Cancellation
from harness.conversation.events import SessionEnded
from harness.errors import HarnessError, StoreError, WorkerDied
from harness.experiment import workers
from harness.experiment.job import FinishedTrial
from harness.experiment.limits import RunLimits
from harness.experiment.output import open_output
from harness.experiment.progress import NoDisplay, RunProgress
from harness.experiment.runner import Runner
from harness.experiment.workers import ProcessWorkers, ThreadWorkers
from harness.store.journal import Journal
from harness.store.records import EXTERNAL_FAILURE_REASONS
from harness.store.sessions.lookup import list_trial_journals
from tests.experiment import slow_to_import
from tests.experiment.stand_ins import (
    DIES_AT_ONCE,
    DIES_LOCKED,
    DIES_RECORDED,
    KILLS_ITSELF,
    OVERRUNS,
    RAISES,
    RAISES_ODDLY,
    WAITS,
    jobs_of,
    overrun_or_refuse,
    work,
)

pytestmark = pytest.mark.slow
FOREVER = 600.0
"""Time limit in seconds that no trial of these tests reaches, however busy the machine is."""


class Watch(NoDisplay):
    """Progress display that calls a function with each update."""

    def __init__(self, act=lambda standing: None):
        self.standings, self.act = [], act

    def show(self, standing):
        self.standings.append(standing)
        self.act(standing)


def run(folder, seeds, *, pool=ProcessWorkers, timeout_seconds=FOREVER, count=2, stop=None, display=None, doing=work, **given):
    """Run stand-in trials with these seeds, and return their records in the journal by seed."""
    with open_output(folder) as output:
        kept = output.list_finished(retry_failed=False)
        jobs = [job for job in jobs_of(seeds, output) if job.trial_id not in kept]
        runner = Runner(
            output=output,
            open_workers=lambda: pool(count, doing, timeout_seconds),
            display=display or NoDisplay(),
            progress=RunProgress(experiment="e", total_trials=len(seeds), previously_finished=len(seeds) - len(jobs)),
            stop_event=stop or threading.Event(),
            **given,
        )
        runner.run(jobs)
        output.recover_journals()
        assert list_trial_journals(folder) == []
        return {record.seed: record for record in output.journal.list_trials()}


def test_every_trial_comes_back_once_under_its_own_name(tmp_path):
    display = Watch()
    records = run(tmp_path, range(12), display=display)
    assert {seed: (record.status, record.steps) for seed, record in records.items()} == dict.fromkeys(range(12), ("completed", 3))
    assert (display.standings[-1].finished, display.standings[-1].running_trials) == (12, ())
    assert display.standings[0].finished == 0


def test_jobs_are_requested_when_a_worker_is_free_for_them(tmp_path):
    requested: list[str] = []

    def produce(output):
        for job in jobs_of(range(20), output):
            requested.append(job.trial_id)
            yield job

    class Counts(EndsAtOnce):
        def submit(self, job):
            assert len(requested) <= len(self.submitted) + 2
            return super().submit(job)

    with open_output(tmp_path) as output:
        progress = RunProgress(experiment="e", total_trials=20)
        workers = Counts(2, work, FOREVER)
        Runner(output=output, open_workers=lambda: workers, display=NoDisplay(), progress=progress).run(produce(output))
        assert requested == workers.submitted == [record.trial_id for record in output.journal.list_trials()]


def test_trouble_costs_the_trial_that_makes_it_and_no_other(tmp_path):
    trouble = {
        KILLS_ITSELF: r"the worker process died (exit code -9)",
        RAISES: "RuntimeError: poison",
        RAISES_ODDLY: "the worker process died (exit code 1)",  # its error cannot be sent to the parent
    }
    records = run(tmp_path, [0, *trouble, 1, 2, 3])
    assert {seed: record.status for seed, record in records.items()} == {
        **dict.fromkeys(trouble, "failed"),
        **dict.fromkeys(range(4), "completed"),
    }
    assert {records[seed].reason for seed in trouble} == {"repeated_crash"}
    for seed, words in trouble.items():
        assert words in records[seed].error
    assert "poison" in records[RAISES].traceback


@pytest.mark.parametrize("pool", [ProcessWorkers, ThreadWorkers])
def test_a_trial_that_overruns_is_ended_and_recorded_as_crashed_and_the_next_one_runs(tmp_path, pool):
    records = run(tmp_path, [OVERRUNS, 0], doing=overrun_or_refuse, pool=pool, count=1, timeout_seconds=0.5)
    assert {record.status for record in records.values()} == {"crashed"}
    assert records[OVERRUNS].error == "killed: the trial ran longer than trial_timeout_seconds"
    assert records[0].error == "RuntimeError: refused"


def test_a_worker_that_is_killed_while_it_takes_a_job_or_hands_one_in_stops_no_other(tmp_path):
    records = run(tmp_path, [DIES_LOCKED, WAITS, 0, 1, 2])
    assert {seed for seed, record in records.items() if record.status == "completed"} == {WAITS, 0, 1, 2}
    assert "the worker process died (exit code -9)" in records[DIES_LOCKED].error


def test_the_start_of_a_worker_does_not_count_into_the_time_limit_of_its_trial(tmp_path):
    records = run(tmp_path, [0], doing=slow_to_import.refuse, timeout_seconds=slow_to_import.SECONDS / 2)
    assert records[0].error == "RuntimeError: refused"


class KilledAtItsStart(ProcessWorkers):
    """Pool whose second worker process is killed before it can have received a job."""

    killed = 0

    def submit(self, job):
        future = super().submit(job)
        if not self.killed and len(starting := multiprocessing.active_children()) == 2:
            self.killed = max(process.pid or 0 for process in starting)
            os.kill(self.killed, signal.SIGKILL)
        return future


def noted(job, cancellation):
    """Work function that writes a line each time it starts."""
    with (job.journal.parent.parent / "begun").open("a") as file:
        file.write(f"{job.trial.seed}\n")
    return work(job, cancellation)


def test_a_worker_that_is_killed_before_its_trial_began_costs_nothing(tmp_path):
    records = run(tmp_path, [WAITS, 0, 1, 2], pool=KilledAtItsStart, doing=noted)
    assert {seed: record.status for seed, record in records.items()} == dict.fromkeys([WAITS, 0, 1, 2], "completed")
    assert sorted((tmp_path / "begun").read_text().split()) == sorted(map(str, [WAITS, 0, 1, 2]))


def test_a_trial_that_was_recorded_before_its_worker_died_is_finished(tmp_path):
    records = run(tmp_path, [DIES_RECORDED, 0])
    assert {seed: record.status for seed, record in records.items()} == {DIES_RECORDED: "completed", 0: "completed"}


def test_the_log_of_a_killed_trial_is_kept_and_counted(tmp_path):
    records = run(tmp_path, [KILLS_ITSELF, 0])
    killed = records[KILLS_ITSELF]
    assert (killed.steps, killed.prompt_tokens, killed.success) == (3, 30, False), "without those of its sub-agent's session"
    assert killed.session_id == killed.trial_id
    with open_output(tmp_path) as output:
        assert len(list(output.journal.read_entries(killed.session_id))) == 5
        assert [check.passed for check in output.journal.list_checks(killed.trial_id)] == [False, False]


def test_a_killed_trial_is_recorded_as_its_session_began_and_its_session_as_ended(tmp_path):
    killed = run(tmp_path, [KILLS_ITSELF])[KILLS_ITSELF]
    assert (killed.model, killed.window_tokens, killed.threshold_tokens) == ("m", 9000, 700)
    with open_output(tmp_path) as output:
        *_, last = output.journal.read_entries(killed.session_id)
        assert isinstance(last.event, SessionEnded)
        detail = killed.error.removesuffix("; the same in 3 attempts")
        assert (last.event.status, last.event.reason, last.event.detail) == ("failed", "crashed", detail)
        assert [row["status"] for row in output.journal.query("SELECT status FROM sessions")] == ["failed", "failed"]


class EndsAtOnce:
    """Pool whose jobs end when they are submitted."""

    def __init__(self, count, doing, timeout_seconds):
        self.count, self.submitted = count, []

    def submit(self, job):
        self.submitted.append(job.trial_id)
        future: Future[FinishedTrial] = Future()
        future.set_result(work(job, None))
        return future

    def stop(self):
        """Do nothing, because no job is ever running."""

    close = stop


class BreaksOff(EndsAtOnce):
    """Pool whose jobs break off after their sessions have begun, once for each of the given errors, and end well after that."""

    errors: tuple[Exception, ...] = ()

    def submit(self, job):
        attempt = len(self.submitted)
        if attempt >= len(self.errors):
            return super().submit(job)
        self.submitted.append(job.trial_id)
        stopped = Cancellation()
        stopped.request()
        finished = work(replace(job, trial=replace(job.trial, seed=OVERRUNS)), stopped)
        future: Future[FinishedTrial] = Future()
        if isinstance(error := self.errors[attempt], ValueError):  # recorded by the trial itself
            record = replace(finished.record, status="crashed", reason="crashed", error=str(error))
            future.set_result(finished._replace(record=record))
        else:
            future.set_exception(error)
        return future


def break_off(folder, *errors, others=0, **options):
    """Run trials of which only the first begins, and whose first attempts break off; return record and number of attempts."""
    pools = []

    def open_pool(count, doing, timeout_seconds):
        pools.append(BreaksOff(count, doing, timeout_seconds))
        pools[0].errors = errors
        return pools[0]

    [record] = run(folder, range(1 + others), pool=open_pool, count=1, **options).values()
    return record, len(pools[0].submitted)


TROUBLES = {
    "timeout": TimeoutError(),
    "exception": RuntimeError("poison"),
    "recorded exception": ValueError("a bug"),
    "death": WorkerDied(exit_code=-signal.SIGKILL),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_a_session_that_breaks_off_twice_is_run_again_and_keeps_its_result(tmp_path, trouble):
    record, attempts = break_off(tmp_path, trouble, trouble)
    assert (record.status, record.reason, record.error, attempts) == ("completed", "replied", "", 3)


@pytest.mark.parametrize(
    ("trouble", "reason", "error"),
    [
        ("timeout", "timeout", "killed: the trial ran longer than trial_timeout_seconds; the same in 3 attempts"),
        ("exception", "repeated_crash", "RuntimeError: poison; the same in 3 attempts"),
        ("recorded exception", "repeated_crash", "a bug; the same in 3 attempts"),
        ("death", "repeated_crash", f"{WorkerDied(exit_code=-signal.SIGKILL)}; the same in 3 attempts"),
    ],
)
def test_a_session_that_breaks_off_in_each_of_three_attempts_has_failed_and_counts(tmp_path, trouble, reason, error):
    record, attempts = break_off(tmp_path, *3 * [TROUBLES[trouble]])
    assert (record.status, record.reason, record.success, record.score, attempts) == ("failed", reason, False, 0.0, 3)
    assert record.error == error
    assert record.reason not in EXTERNAL_FAILURE_REASONS
    assert (record.steps, record.treatment) == (3, "as planned")


def test_attempts_of_workers_count(tmp_path):
    """The workers of a cluster run a trial again by themselves when a machine is lost."""
    record, attempts = break_off(tmp_path, WorkerDied(exit_code=-signal.SIGKILL, attempts=3, detail="on three machines"))
    assert (record.status, record.reason, record.steps, attempts) == ("failed", "repeated_crash", 3, 1)
    assert record.error == "the worker process died (exit code -9) in each of 3 attempts: on three machines"


@pytest.mark.parametrize(
    "trouble",
    [StoreError("the disk is full"), OSError(errno.ENOSPC, "No space left on device"), WorkerDied(exit_code=-signal.SIGBUS)],
)
def test_a_session_that_a_full_disk_breaks_off_is_set_aside_and_not_tried_again_at_once(tmp_path, trouble):
    record, attempts = break_off(tmp_path, *3 * [trouble])
    assert (record.status, record.reason, attempts) == ("failed", "store_error", 1)
    assert record.reason in EXTERNAL_FAILURE_REASONS


def test_attempts_that_break_off_in_different_ways_are_not_the_same_fault(tmp_path):
    record, attempts = break_off(tmp_path, *(TROUBLES[name] for name in ("timeout", "exception", "timeout", "death")))
    assert (record.status, attempts) == ("completed", 5)


class EndsWhenStopped:
    """Pool whose jobs end at the moment when the pool is stopped, except the first job, which ends at once."""

    def __init__(self, count, doing, timeout_seconds):
        self.count, self.waiting = count, []

    def submit(self, job):
        future: Future[FinishedTrial] = Future()
        if job.trial.seed == 0:
            future.set_result(work(job, None))
        else:
            self.waiting.append((future, job))
        return future

    def stop(self):
        for future, job in self.waiting:
            if job.trial.seed == OVERRUNS:
                Journal.open(job.journal).close()
            else:
                future.set_result(work(job, None))

    close = stop


def test_trials_that_end_just_before_the_stop_are_kept(tmp_path):
    stop = threading.Event()
    display = Watch(lambda standing: stop.set() if standing.finished else None)
    records = run(tmp_path, [0, 1, OVERRUNS], pool=EndsWhenStopped, stop=stop, display=display)
    assert {seed: record.status for seed, record in records.items()} == {0: "completed", 1: "completed"}
    assert display.standings[-1].finished == 2


@pytest.mark.parametrize(
    ("trouble", "crashed"),
    [
        (WorkerDied(exit_code=-signal.SIGTERM), False),
        (WorkerDied(exit_code=143), False),
        (WorkerDied(exit_code=-signal.SIGKILL), True),
        (EOFError("half a result"), True),
    ],
    ids=["terminated", "unwound", "killed", "cut off"],
)
@pytest.mark.parametrize("before", [True, False], ids=["stopped before", "stopped after"])
def test_a_signal_to_the_whole_group_may_reach_a_worker_first(tmp_path, trouble, crashed, before):
    stop = threading.Event()

    class Loses(EndsWhenStopped):
        """Pool whose only worker is killed shortly before or after the run is told to stop."""

        def submit(self, job):
            future: Future[FinishedTrial] = Future()
            future.set_exception(trouble)
            stop.set() if before else threading.Timer(0.05, stop.set).start()
            return future

    records = run(tmp_path, [0], pool=Loses, stop=stop)
    assert [record.status for record in records.values()] == (["crashed"] if crashed and not before else [])


def test_a_crashed_trial_is_run_again_by_the_next_run_and_a_finished_one_is_not(tmp_path):
    run(tmp_path, [0, DIES_AT_ONCE])
    display = Watch()
    run(tmp_path, [0, DIES_AT_ONCE], display=display)
    assert (display.standings[0].previously_finished, display.standings[-1].finished) == (1, 1)


def test_a_trial_that_kills_its_worker_before_it_is_known_to_run_costs_only_itself(tmp_path):
    records = run(tmp_path, [DIES_AT_ONCE, 0, 1, 2], count=1)
    assert {seed: record.status for seed, record in records.items()} == {
        DIES_AT_ONCE: "crashed",
        **dict.fromkeys(range(3), "completed"),
    }


@pytest.mark.parametrize("pool", [ProcessWorkers, ThreadWorkers])
def test_stopping_keeps_what_is_finished_and_the_next_run_does_the_rest(tmp_path, pool):
    stop = threading.Event()
    display = Watch(lambda standing: stop.set() if standing.finished >= 2 else None)
    first = run(tmp_path / "a", [0, 1, OVERRUNS, 2, 3, 4, 5], pool=pool, stop=stop, display=display)
    assert 2 <= len(first) < 7
    assert OVERRUNS not in first
    again = run(tmp_path / "a", [0, 1, 2, 3, 4, 5], pool=pool)
    assert again == run(tmp_path / "b", [0, 1, 2, 3, 4, 5], pool=pool)


@pytest.mark.parametrize("pool", [ProcessWorkers, ThreadWorkers])
def test_a_limit_of_trials_ends_the_run_after_them_and_the_next_run_does_the_rest(tmp_path, pool):
    display = Watch()
    first = run(tmp_path, range(7), pool=pool, limits=RunLimits(max_trials=3), display=display)
    assert len(first) == 3
    assert {record.status for record in first.values()} == {"completed"}
    assert display.standings[-1].reached_limit == "max_trials 3 reached"
    assert display.standings[-1].summary.endswith("max_trials 3 reached")
    assert len(run(tmp_path, range(7), pool=pool)) == 7


def test_a_trial_that_has_to_be_started_again_counts_once(tmp_path):
    records = run(tmp_path, [DIES_AT_ONCE, 1, 2], count=1, limits=RunLimits(max_trials=3))
    assert set(records) == {DIES_AT_ONCE, 1, 2}


def test_money_and_time_end_a_run_when_they_are_spent(tmp_path):
    def spend(job, cancellation):
        finished = work(job, cancellation)
        return finished._replace(record=replace(finished.record, cost_usd=2.0))

    def paid(jobs):
        return [replace(job, trial=replace(job.trial, model="openai/gpt-4o")) for job in jobs]

    for name, limits, pay in (("usd", RunLimits(max_usd=5), paid), ("free", RunLimits(max_usd=5), list)):
        folder = tmp_path / name
        with open_output(folder) as output:
            runner = Runner(
                output=output,
                open_workers=lambda: ThreadWorkers(1, spend, FOREVER),
                display=NoDisplay(),
                progress=RunProgress(experiment="e", total_trials=6),
                limits=limits,
            )
            runner.run(pay(jobs_of(range(6), output)))
            finished = len(output.journal.list_trials())
            assert finished in (3, 4) if name == "usd" else finished == 6  # one may begin before the last result is counted
    ticks = iter(range(0, 10**6, 1_000))
    records = run(
        tmp_path / "hours", range(40), pool=ThreadWorkers, count=1, limits=RunLimits(max_hours=2), clock=lambda: next(ticks)
    )
    assert 0 < len(records) < 8


def test_a_thread_that_has_just_taken_a_trial_is_stopped_with_the_others(tmp_path, monkeypatch):
    taken = threading.Event()

    class Late(Cancellation):
        def __init__(self):
            super().__init__()
            taken.set()
            time.sleep(0.3)

    monkeypatch.setattr(workers, "Cancellation", Late)
    with open_output(tmp_path) as output:
        pool = ThreadWorkers(1, work, timeout_seconds=FOREVER)
        future = pool.submit(*jobs_of([OVERRUNS], output))
        assert taken.wait(FOREVER)
        pool.stop()
        assert future.done()


def test_threads_run_as_many_trials_at_once_as_configured(tmp_path):
    meeting = threading.Barrier(8, timeout=60)

    def meet(job, cancellation):
        meeting.wait()
        return work(job, cancellation)

    records = run(tmp_path, range(8), pool=ThreadWorkers, count=8, doing=meet)
    assert {record.status for record in records.values()} == {"completed"}


def test_workers_that_cannot_start_end_the_run_with_advice(tmp_path):
    class Hopeless(ProcessWorkers):
        def submit(self, job):
            raise WorkerDied(has_begun=False)

    with pytest.raises(HarnessError, match=r"__main__.*fewer workers"):
        run(tmp_path, [0], pool=Hopeless)


@pytest.fixture
def ghost():
    """Provide a module that only this process can import."""
    module = types.ModuleType("ghost_of_a_plugin")
    exec("def work(job, cancellation): pass", module.__dict__)
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_a_job_that_a_worker_cannot_read_is_an_error_of_that_trial(tmp_path, ghost):
    records = run(tmp_path, [0, 1], doing=ghost.work)
    assert {record.error for record in records.values()} == {"ModuleNotFoundError: No module named 'ghost_of_a_plugin'"}


def test_a_trial_that_broke_off_is_run_again_although_the_limit_of_trials_is_reached(tmp_path):
    record, attempts = break_off(tmp_path, RuntimeError("poison"), others=3, limits=RunLimits(max_trials=1))
    assert (record.status, attempts) == ("completed", 2)
