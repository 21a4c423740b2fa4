"""Session of a trial in which an external agent works: its model behind a relay, its record, and how it ended.

The agent runs as one command in the sandbox. It asks for its model at an address on loopback, behind which this process answers:
a policy is applied to each request, the trial's own model answers, and the conversation is logged as this project's own sessions
are. With a scripted model, requests are first translated into the tools that it knows, so policy and record see the translation.
"""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from harness.agent.loop import Stop
from harness.compaction.description import name_policy
from harness.compaction.scaling import fit_policy
from harness.conversation.codec import to_canonical_json
from harness.conversation.endings import infer_ending
from harness.conversation.events import (
    Entry,
    Event,
    EventListener,
    MessageAdded,
    SessionEnded,
    SessionStarted,
    SubAgentEnded,
)
from harness.errors import HarnessError, ModelError, StoreError, UsageError
from harness.experiment.job import Ending
from harness.gateway.recorded_model import RecordedModel
from harness.gateway.recorder import Arm, OpenedLog, SessionRecorder, SettableClock
from harness.integrations.compactor import Compactor
from harness.models.dialects import DialectModel
from harness.models.endpoint.server import serve_endpoint
from harness.models.scripted.profiles import is_scripted
from harness.protocols import ExecResult, Log, Model, SandboxLimits
from harness.sandboxes.agent_relay import COMMAND, AgentRelay
from harness.sandboxes.client import MAX_TIMEOUT_SECONDS, ServedSandbox
from harness.sandboxes.server_process import compute_address_space_bytes
from harness.session.assembly import SessionResources, open_agent_model, open_session_summarizer, open_sub_agent_log
from harness.session.external_agent import MODEL, VARIABLES, ExternalAgent
from harness.session.preflight import find_session_advisories
from harness.session.spec import SessionSpec
from harness.session.totals import SessionTotals
from harness.store.log import MemoryLog
from harness.text import replace_control_characters

SHOWN_CHARACTERS = 1_500
"""Maximum number of characters of the agent's last output in the log."""
MEMORY_SIGNS = re.compile(
    rb"out of memory|memory is exhausted|cannot allocate|MemoryError|bad_alloc|memory allocation of \d+ bytes failed",
    re.IGNORECASE,
)
"""Phrases with which runtimes report that they got no memory or no addresses."""
MEMORY_EXIT_CODES = frozenset({133, 134, 137, 139})
"""Exit codes of programs that SIGTRAP, SIGABRT, SIGKILL or SIGSEGV ended, as when a runtime gets no memory."""


class ExternalSession:
    """Session of an external agent that can be run once.

    Args:
        agent: Program that works on the task.
        spec: Configuration of the session, with the model and the policy.
        resources: Log, started sandbox and listener of the session.
        relay: Open folder that the agent's sandbox shares with this process.
        clock: Clock of the log.
        timeout_seconds: Maximum duration of the agent in seconds; None sets no limit.
        problem: Name of the task, for warnings.

    Raises:
        UsageError: The policy cannot work in the window, or the window is unknown.
    """

    def __init__(
        self,
        agent: ExternalAgent,
        spec: SessionSpec,
        resources: SessionResources,
        relay: AgentRelay,
        *,
        clock: SettableClock,
        timeout_seconds: float | None,
        problem: str,
    ) -> None:
        self._agent, self._spec, self._resources, self._relay = agent, spec, resources, relay
        self._timeout_seconds = min(timeout_seconds or MAX_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS - 1)
        model = open_agent_model(spec, resources)
        if not model.window.tokens:
            raise UsageError(f"window_tokens: the context window of {model.name!r} is unknown, and an external agent needs one")
        summarizer = open_session_summarizer(spec, resources, model)
        self.fitted_policy = fit_policy(spec.policy, model.window, spec.nominal_window_tokens, spec.output_limit_scale)
        policy = self.fitted_policy.policy
        budget = Compactor(policy, window_tokens=model.window.tokens, summarizer=summarizer).budget
        start = SessionStarted(
            session_id=resources.session_id,
            task=spec.request,
            model=model.name,
            policy_json=to_canonical_json(policy),
            window_tokens=budget.window_tokens,
            threshold_tokens=budget.threshold_tokens,
            budget_rule=budget.rule + self.fitted_policy.scale_note,
            sandbox=resources.sandbox.info.backend if resources.sandbox else "none",
            advisories=find_session_advisories(spec, resources, model, problem),
        )
        self._logs = _Logs(start, spec, resources, clock)
        self._recorder = SessionRecorder(
            [Arm(name=name_policy(policy), policy=policy)],
            open_log=self._logs.open,
            window_tokens=model.window.tokens,
            summarizer=summarizer,
            model=model.name,
            clock=resources.clock,
        )
        self._model = RecordedModel(
            model,
            self._recorder,
            max_calls=spec.step_limit,
            stop=relay.stop,
            cancellation=resources.cancellation,
            watch=resources.provider_watch,
        )

    def run(self, sandbox: ServedSandbox) -> Ending:
        """Run the agent in its sandbox until it ends or is stopped, complete the log, and return how it ended.

        Raises:
            SandboxError: The sandbox was lost.
            StoreError: The journal cannot be written.
        """
        self._relay.write_script(self._agent.render(self._spec.request), VARIABLES)
        served: Model = DialectModel(model=self._model) if is_scripted(self._spec.model) else self._model
        try:
            with serve_endpoint(lambda _: served, names=[MODEL], listening=self._relay.listening):
                result = sandbox.run(COMMAND, timeout_seconds=self._timeout_seconds)
                stop = self._model.stopped or self._find_stop(result, sandbox.limits)
                self._model.end(stop)  # what the agent left running gets no further answers
        finally:
            self._recorder.close()
            self._logs.finish()
        if isinstance(self._model.error, StoreError) or not isinstance(self._model.error, HarnessError | None):
            raise self._model.error
        stop = replace(stop, detail=_add_output(stop.detail, result))
        self._logs.main.append((SessionEnded(status=stop.status, reason=stop.reason, detail=stop.detail),))
        return Ending(status=stop.status, reason=stop.reason, error=stop.detail if stop.status == "failed" else "")

    def _find_stop(self, result: ExecResult, limits: SandboxLimits) -> Stop:
        """Return why an agent that was not stopped ended."""
        refusal, ended = self._model.refusal, f"the agent ended with exit code {result.exit_code}"
        memory = _advise_on_memory(result, limits)
        if result.timed_out:
            return Stop("timeout", f"the agent ran longer than {self._timeout_seconds:g} s")
        if isinstance(refusal, ModelError):
            return replace(Stop.from_error(refusal), detail=f"{refusal}; {ended}")
        if refusal is not None:
            return Stop("agent_failed", f"{ended} after its request was refused: {refusal}")
        if memory:
            return Stop("agent_failed", f"{ended}, {memory}")
        if not self._model.answers:
            advice = f"let agent.command use {VARIABLES['OPENAI_BASE_URL']} (OPENAI_BASE_URL) and any model name"
            return Stop("agent_failed", f"{ended} and never asked its model; {advice}")
        return Stop("agent_failed", ended) if result.exit_code else Stop("declared", ended)


def _advise_on_memory(result: ExecResult, limits: SandboxLimits) -> str:
    """Return advice on the memory of the sandbox if an agent failed for the lack of it; empty if nothing says so."""
    if not result.exit_code:
        return ""
    named = f"sandbox.limits.memory_bytes (now {limits.memory_bytes:,})"
    if result.oom_killed:
        return f"and memory had run out; raise {named}"
    has_sign = any(map(MEMORY_SIGNS.search, (result.stdout, result.stderr)))
    if not has_sign and result.exit_code not in MEMORY_EXIT_CODES:
        return ""
    addresses = f"{compute_address_space_bytes(limits):,} bytes of addresses, more of which come with more memory"
    return f"and memory may have run out; raise {named}. Each process may reserve {addresses}"


def _add_output(detail: str, result: ExecResult) -> str:
    """Add the end of the agent's output, which may contain anything, to an explanation."""
    text = b"\n".join(filter(None, (result.stdout.strip(), result.stderr.strip()))).decode(errors="replace")
    if not text:
        return f"{detail}; it printed nothing"
    shown = replace_control_characters(text[-SHOWN_CHARACTERS:])
    return f"{detail}; {'end of its output' if len(text) > SHOWN_CHARACTERS else 'its output'}: {shown}"


class _ListenedLog:
    """Log of one session of the agent, which completes the start of the session and passes the entries to a listener."""

    def __init__(self, log: Log, start: SessionStarted, listen: EventListener) -> None:
        self._log, self._start, self._listen = log, start, listen
        self.length = 0

    def append(self, events: Sequence[Event]) -> tuple[Entry, ...]:
        completed = [self._start if isinstance(event, SessionStarted) else event for event in events]
        entries = self._log.append(completed)
        self.length += len(entries)
        for entry in entries:
            self._listen(entry)
        return entries

    def entries(self) -> Sequence[Entry]:
        return tuple(self._log.entries())

    def close(self) -> None:
        """Do nothing, because the caller who opened the log closes it."""


class _Logs:
    """Logs of the conversations of one agent.

    The session of the trial is the first conversation in which the agent offers tools, or its first one if it never does. Others,
    such as a title call, are sessions of their own, and count as the trial's sub-agents.
    """

    def __init__(self, start: SessionStarted, spec: SessionSpec, resources: SessionResources, clock: SettableClock) -> None:
        self._start, self._spec, self._resources, self._clock = start, spec, resources, clock
        self._stack = ExitStack()
        self._has_main = False
        self._early: list[MemoryLog] = []
        """Conversations without tools that came before the session of the trial was known."""
        self._side: dict[str, tuple[_ListenedLog, SessionTotals]] = {}
        self.main = _ListenedLog(resources.log, start, resources.on_event)

    def open(self, has_tools: bool) -> OpenedLog:
        """Return the log for a new conversation."""
        if has_tools and not self._has_main:
            self._has_main = True
            return OpenedLog(self._start.session_id, self.main, self._clock)
        clock = SettableClock(self._resources.clock)
        if not self._has_main:
            self._early.append(MemoryLog())
            return OpenedLog(self._start.session_id, self._early[-1], clock)
        return self._open_side(clock)

    def _open_side(self, clock: SettableClock) -> OpenedLog:
        session_id = f"{self._start.session_id}.{len(self._side) + 1}"
        log = self._stack.enter_context(open_sub_agent_log(self._spec.journal, session_id, clock))
        totals = SessionTotals()
        side = _ListenedLog(log, replace(self._start, session_id=session_id), totals)
        self._side[session_id] = side, totals
        return OpenedLog(session_id, side, clock)

    def finish(self) -> None:
        """Complete all logs except the end of the trial's session."""
        with self._stack:
            for early in self._early:
                events = [event for _, event in early.entries()]
                if self._has_main:
                    self._open_side(SettableClock(self._resources.clock)).log.append(events)
                else:
                    self._has_main = True
                    self.main.append(events)
            if not self.main.length:
                self.main.append((self._start,))
            step = max((event.step for _, event in self.main.entries() if hasattr(event, "step")), default=0)
            for session_id, (log, totals) in self._side.items():
                log.append((infer_ending([event.message for _, event in log.entries() if isinstance(event, MessageAdded)]),))
                self.main.append((_make_ended_event(step, session_id, totals),))


def _make_ended_event(step: int, session_id: str, totals: SessionTotals) -> SubAgentEnded:
    return SubAgentEnded(
        step=step,
        session_id=session_id,
        steps=totals.steps,
        prompt_tokens=totals.prompt_tokens + totals.summarizer_prompt_tokens,
        output_tokens=totals.output_tokens + totals.summarizer_output_tokens,
        cost_usd=totals.total_cost_usd,
    )
