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
from harness.experiment.job import FinishedTrial, Job
from harness.experiment.record import Ending, TrialRun
from harness.metrics.measurement import measure_session
from harness.models.factory import open_model, open_summarizer, with_wait_listener
from harness.models.wiring import Wiring
from harness.protocols import Clock, Log, Model, OutputStore, Sandbox
from harness.sandboxes import open_sandbox
from harness.sandboxes.action_cache import CachedSandbox, open_cache
from harness.sandboxes.client import ServedSandbox
from harness.sandboxes.docker.launcher import format_container_name
from harness.session.grading import fail_all_checks, grade_workspace
from harness.session.oracle import supply_oracle
from harness.store.journal import Journal
from harness.store.log import SessionLog
from harness.task import Task
from harness.tasks import make_task
from harness.tools import make_session_tools


def run_trial(job: Job, cancellation: Cancellation | None = None, clock: Clock = time.time) -> FinishedTrial:
    """Run a trial into a journal file of its own and record it there.

    Args:
        job: what to run.
        cancellation: ends the session early; None = nobody can.
        clock: tells the time of the records.

    Raises:
        StoreError: the journal file cannot be written.
    """
    run = TrialRun(started_at=clock(), session_id=job.trial_id)
    with Journal.open(job.journal) as journal:
        _TrialSession(job=job, trial_run=run, cancellation=cancellation, clock=clock).run(journal)
        if run.tally.step_actions:
            journal.record_actions(run.session_id, run.tally.step_actions)
        finished_trial = run.build_finished_trial(job, clock())
        journal.record_trial(finished_trial.record, finished_trial.checks)
    return finished_trial


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrialSession:
    """A trial at work."""

    job: Job
    trial_run: TrialRun
    cancellation: Cancellation | None
    clock: Clock

    def run(self, journal: Journal) -> None:
        """Do the trial; whatever is raised becomes its ending."""
        try:
            trial = self.job.trial
            task = make_task(trial.task, trial.seed, trial.world)
            self.trial_run.graded_checks = fail_all_checks(task, "not run: the session broke off")
            with closing(self._open_log(journal)) as log:
                self._run_in_sandbox(task, log, journal.open_outputs(self.trial_run.session_id, self.clock))
            self._record_metrics(task, journal)
        except SandboxError as error:
            self.trial_run.ending = Ending(status="failed", reason="sandbox_error", error=str(error))
        except StoreError as error:
            self.trial_run.ending = Ending(status="failed", reason="store_error", error=str(error))
        except Exception as error:  # noqa: BLE001  (the one place: a trial that breaks costs that trial, never the grid)
            error_text = f"{type(error).__name__}: {error}"
            self.trial_run.ending = Ending(status="crashed", reason="crashed", error=error_text, traceback=traceback.format_exc())

    def _open_log(self, journal: Journal) -> SessionLog:
        run, counter = self.trial_run, self.job.trial.policy.counter
        began_ms = int(run.started_at * 1000)
        return journal.open_session_log(run.session_id, created_at_ms=began_ms, clock=self.clock, counter=counter)

    def _run_in_sandbox(self, task: Task, log: Log, outputs: OutputStore) -> None:
        """Lay the workspace, let the agent work, judge what it left."""
        run = self.trial_run
        with closing(self._make_sandbox(task)) as sandbox:
            sandbox.start()
            run.sandbox = sandbox.info
            for path, text in task.workspace:
                sandbox.write(path, text.encode())
            try:
                run.ending = self._run_session(task, sandbox, log, outputs)
            finally:
                self._end_log(log)
            if run.ending.reason not in {"sandbox_error", "cancelled"}:
                run.graded_checks = grade_workspace(task, sandbox)

    def _record_metrics(self, task: Task, journal: Journal) -> None:
        """Keep how the session behaved, as its log tells it."""
        session_id = self.trial_run.session_id
        metrics, probes = measure_session(journal.read_entries(session_id), task, self.job.trial.policy.counter)
        journal.record_metrics(session_id, metrics, probes)

    def _make_sandbox(self, task: Task) -> ServedSandbox | CachedSandbox:
        """A new sandbox, over the action cache if there shall be one."""
        choice, cache_settings = self.job.trial.sandbox, self.job.cache_settings
        uncached_sandbox = self._open_sandbox(task)
        if cache_settings is None or not task.cacheable:
            return uncached_sandbox
        cache = open_cache(cache_settings.folder, cache_settings.max_bytes)
        kind = (self.job.backend, choice.image or task.runtime, choice.limits)
        sandbox = CachedSandbox(uncached_sandbox, cache, kind=kind, task=self.job.trial.problem)
        self.trial_run.tally.cache_counts = sandbox.counts
        return sandbox

    def _open_sandbox(self, task: Task) -> ServedSandbox:
        choice = self.job.trial.sandbox
        sandbox_name = f"{self.trial_run.session_id}-{secrets.token_hex(3)}"  # two experiments may run one trial at once
        self.trial_run.container = format_container_name(sandbox_name) if self.job.backend == "docker" else None
        return open_sandbox(
            self.job.backend,
            session_id=sandbox_name,
            image=choice.image,
            runtime=task.runtime,
            limits=choice.limits,
            unsafe_local=self.job.unsafe_local,
        )

    def _run_session(self, task: Task, sandbox: Sandbox, log: Log, outputs: OutputStore) -> Ending:
        """Run the session to its end."""
        trial, wiring = self.job.trial, self._wiring
        unwrapped_model = open_model(
            trial.model, task=task, seed=trial.model_seed, window_tokens=trial.window_tokens, wiring=wiring
        )
        model = with_wait_listener(unwrapped_model, self.trial_run.tally)
        fitted_policy = fit_policy(trial.policy, model.window, trial.nominal_window_tokens)
        self.trial_run.scale, self.trial_run.abilities = fitted_policy.scale, inspect_abilities(fitted_policy.policy)
        policy = supply_oracle(fitted_policy.policy, task)
        summarizer = self._open_summarizer(model, task)
        compactor = SessionCompactor(policy=policy, window=model.window, summarizer=summarizer, outputs=outputs)
        start_event = self.trial_run.start_event = SessionStarted(
            session_id=self.trial_run.session_id,
            task=task.prompt,
            model=model.name,
            policy_json=codec.to_canonical_json(fitted_policy.policy),
            window_tokens=model.window.tokens,
            threshold_tokens=compactor.budget.threshold_tokens,
            budget_rule=fitted_policy.describe_rule(compactor.budget.rule),
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
            listen=self.trial_run.tally,
        )
        try:
            outcome = agent.run(start_event, build_system_prompt(task.runtime))
        except IllegalPlan as broken:  # the arm's own failure: what the agent left by then is judged
            return Ending(status="failed", reason="illegal_plan", error=str(broken))
        error = outcome.detail if outcome.status == "failed" else ""
        return Ending(status=outcome.status, reason=outcome.reason, error=error)

    def _open_summarizer(self, model: Model, task: Task) -> Model | None:
        """The model that the policy names; None when it never asks for a summary."""
        summarizer_choice = getattr(self.job.trial.policy, "summarizer", None)
        if summarizer_choice is None:
            return None
        seed, wiring = self.job.trial.model_seed, self._wiring
        opened = open_summarizer(summarizer_choice, agent=model, task=task, seed=seed, window_tokens=None, wiring=wiring)
        return with_wait_listener(opened, self.trial_run.tally)

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

    def _end_log(self, log: Log) -> None:
        """End the log of a session that broke off, so that it does not look as if it still ran."""
        if self.trial_run.tally.event_count and self.trial_run.tally.end_event is None:
            ending = self.trial_run.ending
            if ending.reason == "illegal_plan":
                log.append((SessionEnded(status="failed", reason="illegal_plan", detail=ending.error),))
            else:
                log.append((SessionEnded(status="failed", reason="crashed", detail="the session broke off"),))
