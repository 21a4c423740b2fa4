"""Work functions for tests of the runner: real sessions in real journals, without sandbox or model.

The seed of a job decides what the job does, so a grid over seeds has one trial for each kind of trouble.
"""

import os
import signal
import time
import traceback
from dataclasses import replace
from pathlib import Path

from pebble.pool.channel import WorkerChannel

from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import SessionEnded, SessionStarted
from harness.conversation.tokens import Measured, Usage
from harness.experiment.job import Ending, Job, Provenance, TrialRun
from harness.experiment.trial import Trial
from harness.session.grading import apply_verdicts
from harness.store.journal import Journal
from harness.task import Check
from tests.experiment.tiny_task import tiny
from tests.session.finished_steps import step

KILLS_ITSELF, OVERRUNS, RAISES, WAITS, RAISES_ODDLY, DIES_AT_ONCE, DIES_LOCKED, DIES_RECORDED = range(1001, 1009)
TINY = f"{Path(__file__).with_name('tiny_task.py')}:tiny"
PROVENANCE = Provenance(git_commit=None, python="3", platform="x", packages=(), price_table="p")


class Odd(Exception):
    """Exception that cannot be sent to another process."""

    def __init__(self, one, two):
        super().__init__(one)
        self.unsendable = lambda: two


def jobs_of(seeds, output):
    """Return one job for each seed."""
    jobs = []
    for seed in seeds:
        trial = Trial(task=TINY, policy=NoCompaction(), seed=seed)
        jobs.append(
            Job(
                trial=trial,
                trial_id=trial.trial_id,
                experiment="e",
                arm="none",
                axes={"seed": seed},
                backend="bubblewrap",
                provenance=PROVENANCE,
                journal=output.locate_trial_journal(trial.trial_id),
            )
        )
    return jobs


def work(job, cancellation):
    """Log three steps, then do what the seed of the job says; by default, end successfully.

    A job that kills itself does so while a sub-agent runs.
    """
    if job.trial.seed == DIES_AT_ONCE:
        os.kill(os.getpid(), signal.SIGKILL)
    usage = Usage(input_tokens=Measured(10), output_tokens=Measured(1))
    attempt = TrialRun(started_at=1.0, session_id=job.trial_id)
    with Journal.open(job.journal) as journal:
        log = journal.open_session_log(job.trial_id, created_at_ms=1000, clock=lambda: 1.0)
        for event in (started(job), *(step(usage, number=number) for number in (1, 2, 3))):
            for entry in log.append((event,)):
                attempt.totals(entry)
        if job.trial.seed == KILLS_ITSELF:
            name = f"{job.trial_id}.000001"
            sub_agent_log = journal.open_session_log(name, created_at_ms=2000, clock=lambda: 2.0)
            sub_agent_log.append((replace(started(job), session_id=name), step(usage, number=1)))
        trouble(job.trial.seed, cancellation)
        log.append((SessionEnded(status="completed", reason="replied"),))
        attempt.ending = Ending(status="completed", reason="replied")
        if cancellation is not None and cancellation.is_requested:
            attempt.ending = Ending(status="failed", reason="cancelled")
        attempt.graded_checks = apply_verdicts((Check(name="c", title="C"),), {}, "no verdict")
        finished = attempt.build_finished_trial(job, 2.0)
        journal.record_trial(finished.record, finished.checks)
    if job.trial.seed == DIES_RECORDED:
        os.kill(os.getpid(), signal.SIGKILL)
    return finished


def overrun_or_refuse(job, cancellation):
    """Wait without end if the seed of the job is `OVERRUNS`; fail at once otherwise, so that no time limit is reached."""
    if job.trial.seed != OVERRUNS:
        raise RuntimeError("refused")
    wait_for(cancellation)


def wait_for(cancellation):
    while not (cancellation and cancellation.is_requested):
        time.sleep(0.02)


def trouble(seed, cancellation):
    match seed:
        case 1001:
            os.kill(os.getpid(), signal.SIGKILL)
        case 1002:
            wait_for(cancellation)
        case 1003:
            raise RuntimeError("poison")
        case 1004:
            time.sleep(1.0)
        case 1005:
            raise Odd("odd", 2)
        case 1007:
            channel_of_the_pool().mutex.acquire()
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            time.sleep(0.01)


def channel_of_the_pool():
    """Return the channel through which this worker receives its jobs."""
    frames = (frame for frame, _ in traceback.walk_stack(None))
    return next(channel for frame in frames if isinstance(channel := frame.f_locals.get("channel"), WorkerChannel))


def started(job):
    return SessionStarted(
        session_id=job.trial_id,
        task=tiny(job.trial.seed).prompt,
        model="m",
        policy_json="{}",
        window_tokens=9000,
        threshold_tokens=700,
        budget_rule="",
        sandbox="bubblewrap",
    )
