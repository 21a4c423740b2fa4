"""Resources of a session: log, saved outputs and sandbox, and whoever follows or stops the session from outside."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness import codec
from harness.agent.cancellation import Cancellation
from harness.agent.loop import Agent
from harness.agent.tool_execution import LoopDecision
from harness.compaction.scaling import FittedPolicy
from harness.events import Entry, SessionStarted, Signal
from harness.messages import ToolCall
from harness.models.local.server import Endpoint
from harness.protocols import Clock, Log, Model, Oracle, OutputStore, Sandbox, Tool, ignore
from harness.session.spec import SessionSpec
from harness.store.journal import Journal
from harness.store.log import RETENTION_MS, MemoryLog, MemoryOutputs
from harness.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResources:
    """Everything that a session works with; whoever opened a resource closes it."""

    session_id: str
    log: Log
    clock: Clock
    """Source of the time of each event."""
    sandbox: Sandbox | None = None
    """Sandbox that has started; None = no command is ever run."""
    outputs: OutputStore | None = None
    """Store of long tool outputs; None = long outputs are cut and lost."""
    on_event: Callable[[Entry | Signal], None] = ignore
    """Listener for logged entries and signals, called in the session's thread."""
    cancellation: Cancellation | None = None
    """Request to stop; None = the session cannot be stopped."""
    decide_repeated_call: Callable[[ToolCall, int], LoopDecision] | None = None
    """User's decision about a repeated call; None = nobody can be asked."""
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    """Servers of local models by model name."""
    model: Model | None = None
    """Agent's model; None = opened by the name in the specification."""
    summarizer: Model | None = None
    """Writer of the summaries; None = opened by the name in the policy."""
    oracle: Oracle | None = None
    """Knowledge of what will be needed; None = read off the script of the task."""
    tools: Sequence[Tool] | None = None
    """Tools of the agent; None = those that every session has over its sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledSession:
    """An agent that is ready to run, with all that it was assembled from."""

    spec: SessionSpec
    resources: SessionResources
    agent: Agent
    fitted_policy: FittedPolicy
    """Policy with its constants scaled to the window."""

    @property
    def start_event(self) -> SessionStarted:
        """First event of the log."""
        return self.make_start_event(codec.to_canonical_json(self.fitted_policy.policy))

    def make_start_event(self, policy_json: str) -> SessionStarted:
        """Make the first event of a log that records another text for the policy, which may have no JSON form."""
        window, budget, sandbox = self.agent.model.window, self.agent.compactor.budget, self.resources.sandbox
        return SessionStarted(
            session_id=self.resources.session_id,
            task=self.spec.request,
            model=self.agent.model.name,
            policy_json=policy_json,
            window_tokens=window.tokens,
            threshold_tokens=budget.threshold_tokens,
            budget_rule=self.fitted_policy.describe_rule(budget.rule),
            sandbox=sandbox.info.backend if sandbox else "none",
        )


class LogAndOutputs(NamedTuple):
    """Log and saved outputs of one session."""

    log: Log
    outputs: OutputStore


@contextmanager
def open_log(journal: Path | None, session_id: str, clock: Clock) -> Iterator[LogAndOutputs]:
    """Open the log of a session in a journal file; None = in memory.

    Raises:
        StoreError: the file cannot be written.
    """
    if journal is None:
        yield LogAndOutputs(MemoryLog(), MemoryOutputs())
        return
    now_ms = int(clock() * 1000)
    with Journal.open(journal) as opened:
        opened.remove_outputs(now_ms - RETENTION_MS)
        log = opened.open_session_log(session_id, created_at_ms=now_ms, clock=clock)
        yield LogAndOutputs(log, opened.open_outputs(session_id, clock))


def write_workspace(task: Task | None, sandbox: Sandbox) -> None:
    """Write the files of a task into the workspace."""
    for path, text in task.workspace if task else ():
        sandbox.write(path, text.encode())
