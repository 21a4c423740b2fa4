"""Execution of one trial from start to end: starts the sandbox, runs the agent, runs the task's checks, records the results.

An error inside a trial ends this trial only and is recorded with its traceback. Expected failures, such as an overflow of the
window or a lost sandbox, are recorded as failures rather than crashes.
"""

import secrets
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.agent.cancellation import Cancellation
from harness.agent.loop import Agent, Stop
from harness.agent.prompts import SYSTEM_PROMPT
from harness.agent.tool_execution import ToolTimeLimit
from harness.conversation.events import SANDBOX_LOST_REASONS, Entry, SessionEnded, TransientEvent
from harness.errors import IllegalPlan, SandboxError, StoreError, ToolError, VerdictMismatch
from harness.experiment.external_agent import ExternalSession
from harness.experiment.job import Ending, FinishedTrial, Job, TrialRun, build_session_spec, is_disk_error
from harness.experiment.token_counts import publish_token_counts, receive_token_counts
from harness.gateway.recorder import SettableClock
from harness.metrics.session_metrics import measure_session
from harness.models.scripted.profiles import is_scripted
from harness.models.watched_model import ProviderWatch
from harness.protocols import Clock, Log, OutputStore
from harness.sandboxes.action_cache import CachedSandbox, open_cache
from harness.sandboxes.agent_relay import AgentRelay, open_relay
from harness.sandboxes.backends import BACKENDS
from harness.sandboxes.client import ServedSandbox
from harness.session.assembly import SessionResources, assemble_session, write_workspace
from harness.session.grading import fail_all_checks
from harness.session.ids import SequentialIds
from harness.session.preflight import find_session_advisories
from harness.session.totals import TrialTotals
from harness.session.verdict_cache import grade_with_cache, is_drawn_for_test
from harness.store.journal import Journal
from harness.store.workspaces import JournalWorkspaces, copy_contents
from harness.task import Task
from harness.tasks import make_shared_task

WRITE_INTERVAL_SECONDS = 1.0
"""Time for which steps of a scripted trial may wait to be written."""


def run_trial(job: Job, cancellation: Cancellation | None = None, clock: Clock = time.time) -> FinishedTrial:
    """Run a trial (one task under one configuration with one seed), and record it in a journal file of its own.

    Args:
        job: Trial to run, with the settings of the whole run.
        cancellation: Object with which other code can ask the session to end early; None for a trial that cannot be stopped.
        clock: Source of the times in the records, in seconds since the epoch.

    Raises:
        StoreError: The journal file cannot be written.
        VerdictMismatch: The trial was graded again to test the cached verdict on an equal workspace, and the two differ.
    """
    totals = TrialTotals(price_terms=job.price_terms)
    run = TrialRun(started_at=clock(), session_id=job.trial_id, totals=totals)
    with Journal.open(job.journal, is_scratch=can_run_again(job.trial.models)) as journal:
        _TrialSession(job=job, trial_run=run, cancellation=cancellation, clock=clock).run(journal)
        journal.fail_session(run.session_id, reason=run.ending.reason, detail=run.ending.error, clock=clock)
        if run.totals.step_actions:
            journal.record_actions(run.session_id, run.totals.step_actions)
        finished_trial = run.build_finished_trial(job, clock())
        journal.record_trial(finished_trial.record, finished_trial.checks)
    return finished_trial


def can_run_again(models: Iterable[str]) -> bool:
    """Return whether a trial costs nothing to run again, given the names of its models, because all of them are scripted."""
    return all(map(is_scripted, models))


def choose_write_interval(models: Iterable[str]) -> float:
    """Return the time in seconds for which steps of a trial may wait to be written, given the names of its models.

    After a crash, a trial runs again from its start. That costs nothing with scripted models. Steps of a real model cost money,
    so each is written at once.
    """
    return WRITE_INTERVAL_SECONDS if can_run_again(models) else 0.0


class _RelayedAgent(NamedTuple):
    """Relay and clock that only sessions of external agents need."""

    relay: AgentRelay
    clock: SettableClock
    """Clock of the session's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrialSession:
    """Session of a running trial, together with the trial's configuration and the results recorded so far."""

    job: Job
    trial_run: TrialRun
    cancellation: Cancellation | None
    clock: Clock

    def run(self, journal: Journal) -> None:
        """Run the session of the trial, and record an exception in it as the ending of the trial.

        Raises:
            VerdictMismatch: The trial was graded again to test the cached verdict on an equal workspace, and the two differ.
        """
        run, trial = self.trial_run, self.job.trial
        try:
            counter = trial.policy.counter
            task = make_shared_task(trial.task, trial.seed, trial.world)
            run.step_limit = task.step_limit
            run.graded_checks = fail_all_checks(task, "not run: the session ended early")
            began_ms = int(run.started_at * 1000)
            log_clock = SettableClock(self.clock)
            log = journal.open_session_log(
                run.session_id,
                created_at_ms=began_ms,
                clock=log_clock,
                counter=counter,
                write_interval_seconds=choose_write_interval(trial.models),
            )
            entries: list[Entry] = []
            with closing(log):
                outputs = journal.open_outputs(run.session_id, self.clock)
                if trial.agent.command:
                    with open_relay() as relay:
                        self._run_in_sandbox(task, log, outputs, entries, _RelayedAgent(relay, log_clock))
                else:
                    self._run_in_sandbox(task, log, outputs, entries)
            journal.record_metrics(run.session_id, *measure_session(entries, task, counter, trial.reader))
        except VerdictMismatch:  # puts the other trials of the run in doubt, too
            raise
        except (SandboxError, StoreError) as error:
            run.ending = Ending(status="failed", reason=Stop.from_error(error).reason, error=str(error))
        except Exception as error:  # noqa: BLE001  (the only place: an error in a trial must not end the grid)
            error_text = f"{type(error).__name__}: {error}"
            run.ending = Ending(status="crashed", reason="crashed", error=error_text, traceback=traceback.format_exc())
            if is_disk_error(error):
                run.ending = replace(run.ending, status="failed", reason="store_error")

    def _run_in_sandbox(
        self, task: Task, log: Log, outputs: OutputStore, entries: list[Entry], agent: "_RelayedAgent | None" = None
    ) -> None:
        run = self.trial_run
        with closing(self._make_sandbox(task, agent)) as sandbox:
            sandbox.start()
            run.sandbox = sandbox.info
            write_workspace(task, sandbox)
            run.ending = self._run_session(task, sandbox, log, outputs, entries, agent)
            if run.ending.reason not in {*SANDBOX_LOST_REASONS, "cancelled"}:
                tests_cache = self.job.trial.is_reference or is_drawn_for_test(run.session_id)
                run.graded_checks, run.has_cached_verdict = grade_with_cache(task, sandbox, run.session_id, reuse=not tests_cache)
            if isinstance(sandbox, CachedSandbox):
                publish_token_counts(sandbox.cache, sandbox.task)

    def _make_sandbox(self, task: Task, agent: "_RelayedAgent | None") -> ServedSandbox | CachedSandbox:
        job, cache_settings = self.job, self.job.cache_settings
        sandbox_name = f"{self.trial_run.session_id}-{secrets.token_hex(3)}"  # two experiments may run this trial at once
        name_container = BACKENDS[job.backend].format_container_name
        self.trial_run.container = name_container(sandbox_name) if name_container else None
        choice = replace(job.trial.sandbox, backend=job.backend)
        folders = () if agent is None else (agent.relay.folder, *job.trial.agent.find_folders())
        uncached_sandbox = choice.open(sandbox_name, task.runtime, unsafe_local=job.unsafe_local, folders=folders)
        if cache_settings is None or not task.cacheable or agent is not None:
            return uncached_sandbox
        cache = open_cache(cache_settings.folder, cache_settings.max_bytes, cache_settings.store)
        if is_scripted(job.trial.model):
            receive_token_counts(cache)
        kind = (job.backend, choice.image or task.runtime, choice.limits)
        sandbox = CachedSandbox(uncached_sandbox, cache, kind=kind, task=job.trial.problem)
        self.trial_run.totals.cache_counts = sandbox.counts
        return sandbox

    def _run_session(
        self,
        task: Task,
        sandbox: ServedSandbox | CachedSandbox,
        log: Log,
        outputs: OutputStore,
        entries: list[Entry],
        agent: "_RelayedAgent | None",
    ) -> Ending:
        run, wiring = self.trial_run, self.job.wiring

        def collect_event(item: Entry | TransientEvent) -> None:
            run.add(item)
            if isinstance(item, Entry):
                entries.append(item)

        spec = build_session_spec(self.job.trial, task, wiring, self.job.journal)
        resources = SessionResources(
            session_id=run.session_id,
            log=log,
            clock=self.clock,
            ids=SequentialIds(),
            sandbox=sandbox,
            outputs=outputs,
            on_event=collect_event,
            cancellation=self.cancellation,
            endpoints=wiring.endpoints,
            on_replay=run.replayed_costs_usd.append,
            tool_time_limit=None if self.job.tool_time_seconds is None else ToolTimeLimit(self.job.tool_time_seconds),
            price_terms=self.job.price_terms,
            provider_watch=ProviderWatch(),
        )
        if agent is not None and isinstance(sandbox, ServedSandbox):
            external = ExternalSession(
                self.job.trial.agent,
                spec,
                resources,
                agent.relay,
                clock=agent.clock,
                timeout_seconds=self.job.tool_time_seconds,
                problem=self.job.trial.problem,
            )
            run.fitted_policy = external.fitted_policy
            return external.run(sandbox)
        session = assemble_session(spec, resources)
        session.agent.logs_steps_at_once = is_scripted(self.job.trial.model)
        run.fitted_policy = session.fitted_policy
        advisories = find_session_advisories(spec, resources, session.agent.model, self.job.trial.problem)
        start_event = replace(session.start_event, advisories=advisories)
        try:
            with self._save_at_compactions(session.agent, sandbox):
                outcome = session.agent.run(start_event, SYSTEM_PROMPT, spec.session_context)
        except IllegalPlan as broken:  # a failure of the configuration: the workspace is graded as it is
            log.append((SessionEnded(status="failed", reason="illegal_plan", detail=str(broken)),))
            return Ending(status="failed", reason="illegal_plan", error=str(broken))
        error = outcome.detail if outcome.status == "failed" else ""
        return Ending(status=outcome.status, reason=outcome.reason, error=error)

    @contextmanager
    def _save_at_compactions(self, agent: Agent, sandbox: ServedSandbox | CachedSandbox) -> Iterator[None]:
        """Let an agent save its workspace before each compaction, within the `with` block, if the trial asks for that."""
        if not self.job.trial.compaction_snapshots:
            yield
            return
        with closing(JournalWorkspaces(self.job.journal)) as stored:

            def save_workspace() -> str:
                try:
                    snapshot = sandbox.snapshot()
                except ToolError:  # too large to be saved
                    return ""
                copy_contents(snapshot, sandbox.contents, stored)
                stored.save(snapshot)
                return snapshot.tree_id

            agent.save_at_compaction = save_workspace
            yield
