"""The agent loop, one step at a time; read this first.

    take queued messages -> fit the view into the budget -> model -> tools -> log the step -> stop?

One model call a step; tools are run by us, one by one or in parallel, and their results are logged in call order behind the
message that asked for them (S1.1, S1.3). All events of a step are one transaction, a compaction is another (S0.7). Stopping
is a reason, not an exception: only what the loop cannot answer for (a bug, an illegal plan) is raised.

A session has turns: from a user message until the agent rests. `Agent.run` is a session of one turn, as a trial is; who wants
more opens a `Session` and asks for one turn after the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.agent.cancellation import Cancellation, run_interruptibly, run_to_completion
from harness.agent.conversation import Conversation, Inbox, PreparedRequest, RequestBuilder, StreamBuffer
from harness.agent.prompts import COMPLETION_MARKER
from harness.agent.tool_execution import LoopDetector, Toolbox, make_interrupted_result
from harness.errors import ContextOverflow, ModelError, SandboxError, format_count
from harness.events import (
    Event,
    EventListener,
    Hook,
    MessageAdded,
    SessionEnded,
    SessionStarted,
    StepFinished,
    StepStarted,
    StopReason,
)
from harness.messages import ToolCall, ToolResult, sanitize_message, system, tool, user
from harness.protocols import Clock, Compactor, Log, Model, Reply, Request, Tool, ignore
from harness.view import compute_context_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a session ends whatever the model wants, and how its tools run.

    Attributes:
        max_steps: S0.8; a plan may raise it. Default: `50`.
        parallel_tools: Run the calls of one reply at the same time; the results keep the order of the calls either way (S1.3).
            Default: `False`.
    """

    max_steps: int = 50
    parallel_tools: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a turn is over."""

    reason: StopReason
    detail: str = ""

    @property
    def status(self) -> Literal["completed", "failed"]:
        """Whether the agent says that it is done."""
        return "completed" if self.reason in {"replied", "declared"} else "failed"


@dataclass(frozen=True, slots=True)
class Outcome(Stop):
    """How a session ended.

    Attributes:
        steps: Default: `0`.
    """

    steps: int = 0


@dataclass(slots=True, kw_only=True)
class Agent:
    """A model with tools, a log and a compactor; runs one session. The owner closes log and sandbox.

    Attributes:
        model: Required.
        tools: Required.
        log: Required.
        compactor: Required.
        clock: Required.
        limits: Default: `Limits()`.
        inbox: Default: `<harness.agent.conversation.Inbox object at 0x7fc7abf63290>`.
        instructions: What the system prompt says for this session alone, behind what it says in every one. Default: `''`.
        cancellation: None = nobody can stop it (a trial); then nothing is run in other threads for its sake. Default: `None`.
        listen: Hears every logged entry and every signal, in the thread where it happens; must return quickly. Default:
            `<function ignore at 0x7fc7d55f0f40>`.
        loop_detector: Asks about calls that are made again and again; None = they are made (a trial: grids measure them).
            Default: `None`.
        collect_subagent_events: Gives what is to be logged of a step's tools beside their results, e.g. what sub-agents took,
            whatever came of them. Default: `None`.
        save_workspace: Gives what is to be logged together with a step once its tools have run, e.g. that the workspace was
            saved. Default: `None`.
    """

    model: Model
    tools: Sequence[Tool]
    log: Log
    compactor: Compactor
    clock: Clock
    limits: Limits = field(default_factory=Limits)
    inbox: Inbox = field(default_factory=Inbox)
    instructions: str = ""
    cancellation: Cancellation | None = None
    listen: EventListener = ignore
    loop_detector: LoopDetector | None = None
    collect_subagent_events: Callable[[int], Sequence[Event]] | None = None
    save_workspace: Callable[[int], Sequence[Event]] | None = None

    def run(self, session: SessionStarted, system_prompt: str) -> Outcome:
        """Work on `session.task` until the model rests, a limit is reached or something fails.

        Raises:
            IllegalPlan: the policy broke a guard.
            StoreError: the log cannot be written; what was logged before stays.
        """
        live = Session(self)
        live.begin(session, system_prompt)
        stop = live.run_turn()
        live.record(SessionEnded(status=stop.status, reason=stop.reason, detail=stop.detail))
        return Outcome(stop.reason, stop.detail, live.conversation.view.steps)


class Session:
    """The moving parts of a session: begun once, or opened over the log of one that is gone on with. Not thread-safe."""

    def __init__(self, agent: Agent) -> None:
        """Fold what the log holds."""
        self.agent = agent
        self.toolbox = Toolbox(agent.tools, agent.listen)
        self.conversation = Conversation(agent.log, agent.compactor.policy.counter)
        self.request_builder = RequestBuilder(agent.compactor.policy.counter)
        self.usage = self.conversation.usage
        self.stream_buffer = StreamBuffer()
        if self.conversation.last_sent_view.items:
            self.request_builder.prepare(self.conversation.last_sent_view)
            self.request_builder.forget_view()

    def begin(self, session: SessionStarted, system_prompt: str, *more: Event) -> None:
        """Log the beginning of a new session, with what else is known by then."""
        prompt = system(system_prompt, self.agent.instructions)
        opening = (MessageAdded(message=prompt, step=0), MessageAdded(message=user(session.task), step=0))
        self.record(session, *opening, *more)

    def run_turn(self, *opening_events: Event) -> Stop:
        """Work until the agent rests, a limit is reached, something fails or somebody stops it.

        Args:
            opening_events: what begins the turn, logged after the policy was asked; nothing = go on with what is there.
        """
        first_step = self.conversation.view.steps
        if opening_events and not self.open_turn(opening_events):
            return Stop("cancelled", "stopped by the user")
        max_steps = self.agent.limits.max_steps
        for step in range(first_step + 1, first_step + max_steps + 1):
            if stop := self.run_step(step):
                return stop
        return Stop("max_steps", f"stopped after {format_count(max_steps, 'step')}")

    def open_turn(self, opening_events: Sequence[Event]) -> bool:
        """Ask the policy before a turn, then log what begins it; False when it was stopped meanwhile."""
        can_continue = self.compact(self.conversation.view.steps + 1, "turn")
        self.record(*opening_events)
        return can_continue

    def run_step(self, step: int) -> Stop | None:
        """One step; a reason when the session ends with it."""
        queued_messages = [MessageAdded(message=sanitize_message(user(text)), step=step) for text in self.agent.inbox.take(step)]
        if (queued_messages and not self.open_turn(queued_messages)) or not self.compact(step, "step"):
            return self.check_cancellation()
        prepared = self.request_builder.prepare(self.conversation.view)
        self.agent.listen(StepStarted(step=step))
        try:
            answer = self.request_reply(prepared, step)
        except ModelError as error:
            return Stop("overflow" if isinstance(error, ContextOverflow) else "model_error", str(error))
        if answer is None:
            return self.check_cancellation(step)
        prepared, reply = answer
        return self.finish_step(step, prepared, reply)

    def compact(self, step: int, hook: Hook) -> bool:
        """Let the policy fit the view; False when the session was cancelled meanwhile."""
        view, agent = self.conversation.view, self.agent
        result = run_interruptibly(
            lambda: (agent.compactor.compact(view, self.usage, step, hook, agent.listen),), agent.cancellation
        )
        if result is None:
            return False
        self.record(*(event for event in result if event is not None))
        if self.conversation.view.edits != view.edits:
            self.usage = None  # it told of a view that is no more
        return agent.cancellation is None or not agent.cancellation.is_requested

    def request_reply(self, prepared: PreparedRequest, step: int) -> tuple[PreparedRequest, Reply] | None:
        """The model's reply, after one emergency compaction where the prompt overflows; None when cancelled."""
        try:
            reply = self.call_model(prepared)
        except ContextOverflow:
            edits = self.conversation.view.edits
            if not self.compact(step, "overflow"):
                return None
            if self.conversation.view.edits == edits:
                raise
            prepared = self.request_builder.prepare(self.conversation.view)
            reply = self.call_model(prepared)
        return None if reply is None else (prepared, reply)

    def call_model(self, prepared: PreparedRequest) -> Reply | None:
        """The model's reply; None when cancelled."""
        request = Request(messages=prepared.messages, tools=self.toolbox.specs)
        if self.agent.cancellation is None:
            return self.agent.model.reply(request, self.agent.listen)
        partial = self.stream_buffer = StreamBuffer(self.agent.listen)
        return run_interruptibly(lambda: self.agent.model.reply(request, partial), self.agent.cancellation)

    def finish_step(self, step: int, prepared: PreparedRequest, reply: Reply) -> Stop | None:
        """Run the tools of a reply and log the step."""
        agent, view, calls = self.agent, self.conversation.view, reply.message.calls
        began, stop = agent.clock(), None
        workspace_events: Sequence[Event] = ()
        try:
            stop = self.detect_loop(calls)
            results = [make_interrupted_result(call) for call in calls] if stop else self.run_tools(calls)
            workspace_events = agent.save_workspace(step) if agent.save_workspace and calls else ()
        except SandboxError as error:
            stop = Stop("sandbox_error", str(error))
            results = [make_interrupted_result(call) for call in calls]
        self.usage = reply.usage
        finished = StepFinished(
            step=step,
            view_tokens=view.tokens,
            view_messages=len(view.items),
            usage=reply.usage,
            cost_usd=reply.cost_usd,
            request_digest=prepared.digest,
            kept_prefix_messages=prepared.kept_prefix_messages,
            kept_prefix_tokens=prepared.kept_prefix_tokens,
            calls=len(calls),
            call_errors=sum(result.status != "completed" for result in results),
            model_seconds=reply.seconds,
            tool_seconds=agent.clock() - began if calls else 0.0,
        )
        answers = (MessageAdded(message=sanitize_message(tool(result)), step=step) for result in results)
        subagent_events = agent.collect_subagent_events(step) if agent.collect_subagent_events else ()
        self.record(
            MessageAdded(message=sanitize_message(reply.message), step=step),
            *answers,
            *subagent_events,
            finished,
            *workspace_events,
        )
        agent.listen(compute_context_usage(self.conversation.view, reply.usage))
        return stop or self.check_cancellation() or _find_stop(reply)

    def detect_loop(self, calls: Sequence[ToolCall]) -> Stop | None:
        """The reason to stop before these calls are made, where they repeat those before them (S3.10)."""
        detector = self.agent.loop_detector
        repeated_call = next((call for call in calls if detector.should_stop(call)), None) if detector else None
        return self.check_cancellation() or (
            Stop("doom_loop", f"the same call of {repeated_call.name} again and again") if repeated_call else None
        )

    def run_tools(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """The results in call order; a running tool is waited for, and after a cancellation no new one starts (S1.5)."""
        agent = self.agent

        def run() -> list[ToolResult]:
            parallel = agent.limits.parallel_tools
            return self.toolbox.run(calls, parallel=parallel, should_stop=lambda: self.check_cancellation() is not None)

        return run_to_completion(run, agent.cancellation)

    def check_cancellation(self, step: int | None = None) -> Stop | None:
        """The reason to stop if somebody asked; keeps what the model had written of `step` (S1.5)."""
        if self.agent.cancellation is None or not self.agent.cancellation.is_requested:
            return None
        partial_message, self.stream_buffer = self.stream_buffer.build_message(), StreamBuffer()
        if step is not None and partial_message:
            self.record(MessageAdded(message=sanitize_message(partial_message), step=step))
        return Stop("cancelled", "stopped by the user")

    def record(self, *events: Event) -> None:
        """Log the events and tell of them."""
        if events:
            for entry in self.conversation.append(*events):
                self.agent.listen(entry)


def _find_stop(reply: Reply) -> Stop | None:
    """The model answered without calls, or declared that it is done; an answer that its output limit cut off is no answer."""
    if reply.message.text.rstrip().endswith(COMPLETION_MARKER):
        return Stop("declared")
    if reply.message.calls:
        return None
    return Stop("cut_short", "the output limit cut the last reply off") if reply.cut_short else Stop("replied")
