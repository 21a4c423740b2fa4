"""One trial from end to end, in whatever process it is run: sandbox, workspace, agent, hidden checks, records.

Here is the trial's edge: whatever goes wrong inside costs this trial and no other, and stands in its record with a traceback.
What is foreseen (a window that overflows, a sandbox that dies) is a reason of failure, not a crash.
"""

import secrets
import time
import traceback
from contextlib import closing
from dataclasses import dataclass

from harness import codec
from harness.agent.cancellation import Cancellation
from harness.agent.inbox import Inbox
from harness.agent.loop import Agent, Limits
from harness.agent.prompts import build_system_prompt
from harness.compaction.compactor import SessionCompactor
from harness.compaction.description import inspect_abilities
from harness.compaction.scaling import fit_policy
from harness.errors import IllegalPlan, SandboxError, StoreError
from harness.events import SessionEnded, SessionStarted
from harness.experiment.job import Finished, Job
from harness.experiment.record import Attempt, Ending
from harness.metrics.measurement import behaviour
from harness.models.factory import open_model, open_summarizer, with_wait_listener
from harness.models.wiring import Wiring
from harness.protocols import Clock, Log, Model, OutputStore, Sandbox
from harness.sandboxes import open_sandbox
from harness.sandboxes.action_cache import CachedSandbox, open_cache
from harness.sandboxes.client import ServedSandbox
from harness.sandboxes.docker.launcher import format_container_name
from harness.session.grading import grade, ungraded
from harness.session.oracle import told_the_future
from harness.store.journal import Journal
from harness.store.log import SessionLog
from harness.task import Task
from harness.tasks import make_task
from harness.tools import make_session_tools


def run_trial(job: Job, cancellation: Cancellation | None = None, clock: Clock = time.time) -> Finished:
    """Run a trial into a journal file of its own and record it there.

    Args:
        job: what to run.
        cancellation: ends the session early; None = nobody can.
        clock: tells the time of the records.

    Raises:
        StoreError: the journal file cannot be written.
    """
    attempt = Attempt(started_at=clock(), session_id=job.trial_id)
    with Journal.open(job.journal) as journal:
        _Session(job=job, attempt=attempt, cancellation=cancellation, clock=clock).run(journal)
        if attempt.tally.actions:
            journal.record_actions(attempt.session_id, attempt.tally.actions)
        finished = attempt.finished(job, clock())
        journal.record_trial(finished.trial, finished.checks)
    return finished


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """A trial at work."""

    job: Job
    attempt: Attempt
    cancellation: Cancellation | None
    clock: Clock

    def run(self, journal: Journal) -> None:
        """Do the trial; whatever is raised becomes its ending."""
        try:
            trial = self.job.trial
            task = make_task(trial.task, trial.seed, trial.world)
            self.attempt.judged = ungraded(task, "not run: the session broke off")
            with closing(self._log(journal)) as log:
                self._work(task, log, journal.open_outputs(self.attempt.session_id, self.clock))
            self._watch(task, journal)
        except SandboxError as error:
            self.attempt.ending = Ending(status="failed", reason="sandbox_error", error=str(error))
        except StoreError as error:
            self.attempt.ending = Ending(status="failed", reason="store_error", error=str(error))
        except Exception as error:  # noqa: BLE001  (the one place: a trial that breaks costs that trial, never the grid)
            said = f"{type(error).__name__}: {error}"
            self.attempt.ending = Ending(status="crashed", reason="crashed", error=said, traceback=traceback.format_exc())

    def _log(self, journal: Journal) -> SessionLog:
        attempt, counter = self.attempt, self.job.trial.policy.counter
        began_ms = int(attempt.started_at * 1000)
        return journal.open_session_log(attempt.session_id, created_at_ms=began_ms, clock=self.clock, counter=counter)

    def _work(self, task: Task, log: Log, outputs: OutputStore) -> None:
        """Lay the workspace, let the agent work, judge what it left."""
        attempt = self.attempt
        with closing(self._sandbox(task)) as sandbox:
            sandbox.start()
            attempt.sandbox = sandbox.info
            for path, text in task.workspace:
                sandbox.write(path, text.encode())
            try:
                attempt.ending = self._converse(task, sandbox, log, outputs)
            finally:
                self._end(log)
            if attempt.ending.reason not in {"sandbox_error", "cancelled"}:
                attempt.judged = grade(task, sandbox)

    def _watch(self, task: Task, journal: Journal) -> None:
        """Keep how the session behaved, as its log tells it."""
        session_id = self.attempt.session_id
        conduct, probes = behaviour(journal.read_entries(session_id), task, self.job.trial.policy.counter)
        journal.record_metrics(session_id, conduct, probes)

    def _sandbox(self, task: Task) -> ServedSandbox | CachedSandbox:
        """A new sandbox, over the action cache if there shall be one."""
        choice, caching = self.job.trial.sandbox, self.job.caching
        opened = self._opened(task)
        if caching is None or not task.cacheable:
            return opened
        cache = open_cache(caching.folder, caching.max_bytes)
        kind = (self.job.backend, choice.image or task.runtime, choice.limits)
        sandbox = CachedSandbox(opened, cache, kind=kind, task=self.job.trial.problem)
        self.attempt.tally.counts = sandbox.counts
        return sandbox

    def _opened(self, task: Task) -> ServedSandbox:
        choice = self.job.trial.sandbox
        own = f"{self.attempt.session_id}-{secrets.token_hex(3)}"  # two experiments may run one trial at once
        self.attempt.container = format_container_name(own) if self.job.backend == "docker" else None
        return open_sandbox(
            self.job.backend,
            session_id=own,
            image=choice.image,
            runtime=task.runtime,
            limits=choice.limits,
            unsafe_local=self.job.unsafe_local,
        )

    def _converse(self, task: Task, sandbox: Sandbox, log: Log, outputs: OutputStore) -> Ending:
        """Run the session to its end."""
        trial, wiring = self.job.trial, self._wiring
        opened = open_model(trial.model, task=task, seed=trial.model_seed, window_tokens=trial.window_tokens, wiring=wiring)
        model = with_wait_listener(opened, self.attempt.tally)
        fit = fit_policy(trial.policy, model.window, trial.nominal_window_tokens)
        self.attempt.scale, self.attempt.abilities = fit.scale, inspect_abilities(fit.policy)
        policy = told_the_future(fit.policy, task)
        summarizer = self._summarizer(model, task)
        compactor = SessionCompactor(policy=policy, window=model.window, summarizer=summarizer, outputs=outputs)
        started = self.attempt.session = SessionStarted(
            session_id=self.attempt.session_id,
            task=task.prompt,
            model=model.name,
            policy_json=codec.to_canonical_json(fit.policy),
            window_tokens=model.window.tokens,
            threshold_tokens=compactor.budget.threshold_tokens,
            budget_rule=fit.describe_rule(compactor.budget.rule),
            sandbox=sandbox.info.backend,
        )
        timeout_seconds = trial.command_timeout_seconds
        agent = Agent(
            model=model,
            tools=make_session_tools(policy, sandbox, outputs, timeout_seconds=timeout_seconds),
            log=log,
            compactor=compactor,
            clock=self.clock,
            limits=Limits(max_steps=trial.max_steps, parallel_tools=trial.parallel_tools),
            inbox=Inbox(task.later_messages),
            cancellation=self.cancellation,
            listen=self.attempt.tally,
        )
        try:
            outcome = agent.run(started, build_system_prompt(task.runtime))
        except IllegalPlan as broken:  # the arm's own failure: what the agent left by then is judged
            return Ending(status="failed", reason="illegal_plan", error=str(broken))
        error = outcome.detail if outcome.status == "failed" else ""
        return Ending(status=outcome.status, reason=outcome.reason, error=error)

    def _summarizer(self, model: Model, task: Task) -> Model | None:
        """The model that the policy names; None when it never asks for a summary."""
        named = getattr(self.job.trial.policy, "summarizer", None)
        if named is None:
            return None
        seed, wiring = self.job.trial.model_seed, self._wiring
        opened = open_summarizer(named, agent=model, task=task, seed=seed, window_tokens=None, wiring=wiring)
        return with_wait_listener(opened, self.attempt.tally)

    @property
    def _wiring(self) -> Wiring:
        job = self.job
        return Wiring(
            endpoints=job.endpoints,
            tool_calls=job.trial.tool_calls,
            cassette=job.cassette,
            take=job.trial.replicate,
            stall_seconds=job.stall_seconds,
        )

    def _end(self, log: Log) -> None:
        """End the log of a session that broke off, so that it does not look as if it still ran."""
        if self.attempt.tally.heard and self.attempt.tally.ended is None:
            ending = self.attempt.ending
            if ending.reason == "illegal_plan":
                log.append((SessionEnded(status="failed", reason="illegal_plan", detail=ending.error),))
            else:
                log.append((SessionEnded(status="failed", reason="crashed", detail="the session broke off"),))
