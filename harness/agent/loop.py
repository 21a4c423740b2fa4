"""The agent loop, one step at a time; read this first.

    take queued messages -> fit the view into the budget -> model -> tools -> log the step -> stop?

One model call a step; tools are run by us, one by one or in parallel, and their results are logged in call order behind the
message that asked for them (S1.1, S1.3). All events of a step are one transaction, a compaction is another (S0.7). Stopping
is a reason, not an exception: only what the loop cannot answer for (a bug, an illegal plan) is raised.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from harness.agent.cancellation import Cancellation, interruptible
from harness.agent.conversation import Conversation, Outgoing, Prepared
from harness.agent.inbox import Inbox
from harness.agent.prompts import COMPLETION_MARKER
from harness.errors import ContextOverflow, ModelError, SandboxError
from harness.events import (
    Entry,
    Event,
    MessageAdded,
    Moment,
    SessionEnded,
    SessionStarted,
    Signal,
    StepFinished,
    StopReason,
    TextDelta,
    ToolStarted,
)
from harness.messages import ToolCall, ToolResult, assistant, encodable, system, tool, user
from harness.protocols import Clock, Compactor, Log, Model, Reply, Request, Tool
from harness.tokens import Usage
from harness.view import context_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a session ends whatever the model wants, and how its tools run."""

    max_steps: int = 50
    """S0.8; a plan may raise it."""
    parallel_tools: bool = False
    """Run the calls of one reply at the same time; the results keep the order of the calls either way (S1.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a session ended."""

    status: Literal["completed", "failed"]
    reason: StopReason
    detail: str
    steps: int


class _Stop(NamedTuple):
    reason: StopReason
    detail: str = ""


def ignore(_: Entry | Signal) -> None:
    """The listener of those who do not listen."""


@dataclass(slots=True, kw_only=True)
class Agent:
    """A model with tools, a log and a compactor; runs one session. The owner closes log and sandbox."""

    model: Model
    tools: Sequence[Tool]
    log: Log
    compactor: Compactor
    clock: Clock
    limits: Limits = field(default_factory=Limits)
    inbox: Inbox = field(default_factory=Inbox)
    cancellation: Cancellation | None = None
    """None = nobody can stop it (a trial); then nothing is run in other threads for its sake."""
    listen: Callable[[Entry | Signal], None] = ignore
    """Hears every logged entry and every signal, in the thread where it happens; must return quickly."""

    def run(self, session: SessionStarted, system_prompt: str) -> Outcome:
        """Work on `session.task` until the model rests, a limit is reached or something fails.

        Raises:
            IllegalPlan: the policy broke a guard.
            StoreError: the log cannot be written; what was logged before stays.
        """
        return _Session(self).run(session, system_prompt)


class _Session:
    """The moving parts of one run."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.tools = {tool.spec.name: tool for tool in agent.tools}
        self.specs = tuple(tool.spec for tool in agent.tools)
        self.conversation = Conversation(agent.log, agent.compactor.policy.counter)
        self.outgoing = Outgoing(agent.compactor.policy.counter)
        self.usage: Usage | None = None
        self.partial: list[str] = []

    def run(self, session: SessionStarted, system_prompt: str) -> Outcome:
        opening = (MessageAdded(message=system(system_prompt), step=0), MessageAdded(message=user(session.task), step=0))
        self.record(session, *opening)
        stop: _Stop | None = None
        step = 0
        while stop is None:
            if step == self.agent.limits.max_steps:
                stop = _Stop("max_steps", f"stopped after {step} steps")
                break
            step += 1
            stop = self.step(step)
        status: Literal["completed", "failed"] = "completed" if stop.reason in {"replied", "declared"} else "failed"
        self.record(SessionEnded(status=status, reason=stop.reason, detail=stop.detail))
        return Outcome(status=status, reason=stop.reason, detail=stop.detail, steps=self.conversation.view.steps)

    def step(self, step: int) -> _Stop | None:
        """One step; a reason when the session ends with it."""
        said = self.agent.inbox.take(step)
        goes_on = not said or self.compact(step, "turn")
        self.record(*(MessageAdded(message=encodable(user(text)), step=step) for text in said))
        if not (goes_on and self.compact(step, "step")):
            return self.cancelled()
        prepared = self.outgoing.prepare(self.conversation.view)
        try:
            answer = self.ask(prepared, step)
        except ModelError as error:
            return _Stop("overflow" if isinstance(error, ContextOverflow) else "model_error", str(error))
        if answer is None:
            return self.cancelled(step)
        prepared, reply = answer
        return self.finish(step, prepared, reply)

    def compact(self, step: int, moment: Moment) -> bool:
        """Let the policy fit the view; False when the session was cancelled meanwhile."""
        view, agent = self.conversation.view, self.agent
        found = interruptible(
            lambda: (agent.compactor.compact(view, self.usage, step, moment, agent.listen),), agent.cancellation
        )
        if found is None:
            return False
        self.record(*(event for event in found if event is not None))
        if self.conversation.view.edits != view.edits:
            self.usage = None  # it told of a view that is no more
        return agent.cancellation is None or not agent.cancellation.requested

    def ask(self, prepared: Prepared, step: int) -> tuple[Prepared, Reply] | None:
        """The model's reply, after one emergency compaction where the prompt overflows; None when cancelled."""
        try:
            reply = self.call(prepared)
        except ContextOverflow:
            edits = self.conversation.view.edits
            if not self.compact(step, "overflow"):
                return None
            if self.conversation.view.edits == edits:
                raise
            prepared = self.outgoing.prepare(self.conversation.view)
            reply = self.call(prepared)
        return None if reply is None else (prepared, reply)

    def call(self, prepared: Prepared) -> Reply | None:
        request = Request(messages=prepared.messages, tools=self.specs)
        self.partial.clear()
        return interruptible(lambda: self.agent.model.reply(request, self.hear), self.agent.cancellation)

    def hear(self, delta: TextDelta) -> None:
        if self.agent.cancellation is not None:
            self.partial.append(delta.text)
        self.agent.listen(delta)

    def finish(self, step: int, prepared: Prepared, reply: Reply) -> _Stop | None:
        """Run the tools of a reply and log the step."""
        view, calls, began = self.conversation.view, reply.message.calls, self.agent.clock()
        stop: _Stop | None = None
        try:
            results = self.run_tools(calls)
        except SandboxError as error:
            stop = _Stop("sandbox_error", str(error))
            results = [_unanswered(call) for call in calls]
        self.usage = reply.usage
        finished = StepFinished(
            step=step,
            view_tokens=view.tokens,
            view_messages=len(view.items),
            usage=reply.usage,
            cost_usd=reply.cost_usd,
            request_digest=prepared.digest,
            kept_prefix_messages=prepared.kept_messages,
            kept_prefix_tokens=prepared.kept_tokens,
            calls=len(calls),
            call_errors=sum(result.status != "completed" for result in results),
            model_seconds=reply.seconds,
            tool_seconds=self.agent.clock() - began if calls else 0.0,
        )
        answers = (MessageAdded(message=encodable(tool(result)), step=step) for result in results)
        self.record(MessageAdded(message=encodable(reply.message), step=step), *answers, finished)
        self.agent.listen(context_usage(self.conversation.view, reply.usage))
        return stop or self.cancelled() or _rests(reply)

    def run_tools(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """The results in call order. After a cancellation no new call starts (S1.5)."""
        if self.agent.limits.parallel_tools and len(calls) > 1:
            with ThreadPoolExecutor(max_workers=len(calls)) as pool:
                return list(pool.map(self.run_tool, calls))
        return [self.run_tool(call) for call in calls]

    def run_tool(self, call: ToolCall) -> ToolResult:
        if self.cancelled():
            return _unanswered(call)
        known = self.tools.get(call.name)
        if known is None:
            output = f"error: no tool {call.name!r}; there are {', '.join(sorted(self.tools))}"
            return ToolResult(call_id=call.call_id, name=call.name, output=output, status="error")
        self.agent.listen(ToolStarted(call_id=call.call_id, name=call.name))
        return known.run(call)

    def cancelled(self, step: int | None = None) -> _Stop | None:
        """The reason to stop if somebody asked; keeps what the model had written of `step` (S1.5)."""
        if self.agent.cancellation is None or not self.agent.cancellation.requested:
            return None
        if step is not None and (text := "".join(self.partial)):
            self.record(MessageAdded(message=encodable(assistant(text)), step=step))
        return _Stop("cancelled", "stopped by the user")

    def record(self, *events: Event) -> None:
        if events:
            for entry in self.conversation.append(*events):
                self.agent.listen(entry)


def _rests(reply: Reply) -> _Stop | None:
    """The model answered without calls, or declared that it is done; an answer that its output limit cut off is no answer."""
    if reply.message.text.rstrip().endswith(COMPLETION_MARKER):
        return _Stop("declared")
    if reply.message.calls:
        return None
    return _Stop("cut_short", "the output limit cut the last reply off") if reply.cut_short else _Stop("replied")


def _unanswered(call: ToolCall) -> ToolResult:
    output = "error: the call was interrupted before it gave a result"
    return ToolResult(call_id=call.call_id, name=call.name, output=output, status="interrupted")
