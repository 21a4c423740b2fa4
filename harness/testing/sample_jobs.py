"""Jobs for the contract tests of workers: short sessions without model and sandbox, some of which fail on purpose.

A job can finish, raise an error, kill its worker process, or never end. This module imports no test library, because worker
processes import it.
"""

import os
import signal
import time
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from harness.agent.cancellation import Cancellation
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import SessionEnded, SessionStarted
from harness.experiment.job import Ending, FinishedTrial, Job, Provenance, TrialRun
from harness.experiment.trial import Trial
from harness.store.journal import Journal

Behavior: TypeAlias = Literal["finish", "raise", "die", "die after recording", "never end"]
"""Behaviour of a sample job once the start of its session is logged, e.g. `die`: its worker process is killed."""
_BEHAVIORS: tuple[Behavior, ...] = get_args(Behavior)
SAMPLE_TEXT = "The port of the server is 4711."
"""Text that each sample job logs as the request of its session."""


def make_sample_job(behavior: Behavior, number: int, folder: Path) -> Job:
    """Return a job that behaves as requested.

    Args:
        behavior: What the job does after it has logged the start of its session.
        number: Number of the job among the sample jobs of a test; jobs with other numbers have other trial ids.
        folder: Folder for the journals of the jobs.
    """
    trial = Trial(task="flashcards", policy=NoCompaction(), seed=number, replicate=_BEHAVIORS.index(behavior))
    return Job(
        trial=trial,
        trial_id=trial.trial_id,
        experiment="sample",
        arm=behavior,
        axes={"seed": number},
        backend="bubblewrap",
        provenance=Provenance(git_commit=None, python="", platform="", packages=(), price_table=""),
        journal=folder / f"{trial.trial_id}.sqlite",
    )


def run_sample_job(job: Job, cancellation: Cancellation | None = None) -> FinishedTrial:
    """Run a sample job, which the tested workers do by calling this function.

    The job logs the start of its session, behaves as it demands, and records the end of its trial.
    """
    run = TrialRun(started_at=1.0, session_id=job.trial_id)
    with Journal.open(job.journal) as journal:
        log = journal.open_session_log(job.trial_id, created_at_ms=1_000, clock=lambda: 1.0)
        for entry in log.append((_make_start_event(job),)):
            run.totals(entry)
        _behave(job, cancellation)
        run.ending = Ending(status="completed", reason="replied")
        if cancellation is not None and cancellation.is_requested:
            run.ending = Ending(status="failed", reason="cancelled")
        else:
            log.append((SessionEnded(status="completed", reason="replied"),))
        finished_trial = run.build_finished_trial(job, 2.0)
        journal.record_trial(finished_trial.record, finished_trial.checks)
    if job.arm == "die after recording":
        os.kill(os.getpid(), signal.SIGKILL)
    return finished_trial


def _behave(job: Job, cancellation: Cancellation | None) -> None:
    match job.arm:
        case "raise":
            raise ValueError(f"sample job {job.trial.seed} was refused")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "never end":
            while cancellation is None or not cancellation.is_requested:
                time.sleep(0.02)


def _make_start_event(job: Job) -> SessionStarted:
    return SessionStarted(
        session_id=job.trial_id,
        task=SAMPLE_TEXT,
        model="sample",
        policy_json="{}",
        window_tokens=9_000,
        threshold_tokens=None,
        budget_rule="",
        sandbox="bubblewrap",
    )
