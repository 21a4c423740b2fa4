"""The agent loop: call the model, run the requested tools, log the step, repeat. Read this module first.

    take queued messages -> fit the view into the budget -> call the model -> run its tools -> log the step -> stop?

Each step is one call of the model. The loop runs the requested tools, one by one or in parallel, and logs the results in call
order behind the message that requested them. A step with tool calls is logged in several transactions: the model's message before
its tools run, the start of each call when its tool starts, and the results with the end of the step. A compaction is logged in a
transaction of its own. A session ends with a stop reason, not with an exception; only errors that the loop cannot handle (a bug,
an illegal plan, a failing log) are raised.

A session consists of turns: each begins with a user message and lasts until the agent rests, that is, until it replies without
calling a tool. `Agent.run` runs a session of one turn, as trials do. For several turns, create a `Session` and call `run_turn`
for each.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.agent.cancellation import Cancellation, WorkAbandoned, run_interruptibly, run_to_completion
from harness.agent.conversation import Conversation, Inbox, PreparedRequest, RequestBuilder, StreamBuffer
from harness.agent.prompts import COMPLETION_MARKER
from harness.agent.tool_execution import (
    REPEAT_LIMIT,
    CacheHits,
    CallClocks,
    LoopDetector,
    Toolbox,
    ToolTimeLimit,
    make_interrupted_result,
)
from harness.conversation.events import (
    CallStarted,
    CallTiming,
    Event,
    EventListener,
    Hook,
    MessageAdded,
    ModelCallFailed,
    SessionEnded,
    SessionStarted,
    StepFinished,
    StepStarted,
    StepTimed,
    StopReason,
    TextDelta,
)
from harness.conversation.messages import Image, Message, ToolCall, ToolResult, sanitize_message, system, tool, user
from harness.conversation.overhead import OverheadClock
from harness.conversation.view import View, compute_context_usage
from harness.errors import (
    ContextOverflow,
    IllegalPlan,
    ModelError,
    SandboxError,
    SandboxKilled,
    StoreError,
    UsageError,
    format_count,
)
from harness.protocols import Clock, Compactor, Log, Model, Reply, Request, Tool, ignore
from harness.task import DEFAULT_STEP_LIMIT

MAX_EMERGENCY_COMPACTIONS = 3
"""Maximum number of compactions in one step after which a prompt that the provider refused as too long is sent again."""


def refuse_invalid_max_steps(max_steps: object) -> None:
    """Raise `UsageError` if a maximum number of steps is not a whole number of at least 1."""
    if type(max_steps) is not int or max_steps < 1:
        raise UsageError(f"max_steps: must be a whole number, at least 1 (got {max_steps!r:.80})")


@dataclass(frozen=True, slots=True)
class Stop:
    """Reason why a turn (the agent's work on a user message) ended, with an explanation."""

    reason: StopReason
    detail: str = ""

    @property
    def status(self) -> Literal["completed", "failed"]:
        """Whether the agent ended the turn by itself (`completed`) or something stopped it (`failed`)."""
        return "completed" if self.reason in {"replied", "declared"} else "failed"

    @staticmethod
    def from_error(error: BaseException) -> "Stop":
        """Return the stop reason and the explanation for a session that was ended by an error."""
        match error:
            case ContextOverflow():
                reason: StopReason = "overflow"
            case ModelError():
                reason = "model_error"
            case SandboxError():
                reason = "sandbox_killed" if isinstance(error, SandboxKilled) else "sandbox_error"
            case StoreError():
                reason = "store_error"
            case IllegalPlan():
                reason = "illegal_plan"
            case KeyboardInterrupt() | WorkAbandoned():
                return Stop("cancelled", "stopped by the user")
            case _:
                reason = "crashed"
        return Stop(reason, str(error) or type(error).__name__)


@dataclass(frozen=True, slots=True)
class Outcome(Stop):
    """Result of a session, which `Agent.run` returns: why and after how many steps it ended.

    Attributes:
        reason: Stop reason, for example `replied` or `max_steps`. Required.
        detail: Explanation of the stop reason for people, for example the message of an error. Default: `''`.
        steps: Number of model calls in the session. Default: `0`.
        view_messages: Number of messages in the view at the end of the session. Default: `0`.
        view_tokens: Estimated number of tokens of these messages, by the policy's token counter. Default: `0`.

    Example:
        >>> from harness import Outcome
        >>> Outcome("replied", steps=12).status
        'completed'
    """

    steps: int = 0
    view_messages: int = 0
    view_tokens: int = 0

    @staticmethod
    def from_stop(stop: Stop, view: View) -> "Outcome":
        """Return the result of a session, given why it ended and the messages in view at its end."""
        return Outcome(stop.reason, stop.detail, view.steps, len(view.items), view.tokens)


@dataclass(slots=True, kw_only=True)
class Agent:
    """An agent that works on one session, with a model, tools, a log and a compactor.

    The caller closes the log and the sandbox.

    Attributes:
        model: Model that is called once in each step. Required.
        tools: Tools that the model can call. Required.
        log: Log to which every event of the session, such as a new message, is appended. Required.
        compactor: Object that shortens the conversation of this session as a compaction policy specifies. Required.
        clock: Function that returns the time of day in seconds since the epoch; gives the start of each tool call. Required.
        max_steps: Maximum number of model calls in a turn; the turn then ends with the stop reason `max_steps`. Default: `50`.
        parallel_tools: Whether to run the tool calls of one reply at the same time, at most 16. Results are logged in call order
            either way. Commands that run at the same time bypass the action cache. Default: `False`.
        inbox: Queue of further messages of the user, which the agent takes before each model call. Default: `Inbox()`.
        cancellation: Object with which another thread can stop the session; None runs everything in the calling thread.
            Default: `None`.
        listen: Function called with every logged entry and every transient event, in the thread where the event happens. It must
            return quickly. Default: `ignore`.
        loop_detector: Detector of calls repeated several times in a row; None allows all repetitions, as trials do.
            Default: `None`.
        tool_time_limit: Limit on the total time of the tool calls, which the tools measure. When it is reached, the session ends
            with the stop reason `timeout`. None sets no limit. Default: `None`.
        collect_images: Function that takes the id of a tool call and returns the images that the call has shown, which are added
            to the message with the result. None if no tool shows images. Default: `None`.
        collect_subagent_events: Function that takes the number of a step and returns further events to log with the step; used
            for the token usage of sub-agents. Default: `None`.
        save_workspace: Function that takes the number of a step, saves the workspace after the tools of the step have run, and
            returns the events to log. The number is 0 before the first step. Default: `None`.
        save_at_compaction: Function that saves the workspace at a compaction that was applied, and returns the id of the
            snapshot, or an empty text if that failed. Not needed with `save_workspace`, which saves each change. Default: `None`.
        save_result: Function that takes the number of a step, the result of one of its tool calls and the timing of the call, and
            saves both until the whole step is logged. Called in the thread that ran the tool, as soon as the result is there.
            Default: `None`.
        allow_parallel_calls: Function that returns a context manager, within which several threads may call the tools. Used only
            with `parallel_tools`. Default: `nullcontext`.
        logs_steps_at_once: Whether to log each step in one transaction after its tools have run. This saves time in sessions that
            can be run again at no cost; after a crash, the step is lost, and the log never shows a call as running. Default:
            `False`.
        stopwatch: Function that returns a time in seconds that is never set back; measures how long tool calls take. Default:
            `monotonic`.
        cache_hits: Totals of the action cache that answers commands of the tools; a command that the cache answers counts with
            the duration of its original run. None if there is no cache. Default: `None`.
        overhead: Clock for the wall time of the work of the harness itself, which each step logs. Tools and compactor that share
            the clock add their parts. Default: `OverheadClock()`.
        read_step_seconds: Function that returns the time right before a step in seconds, given the messages in view and the
            number of the step; the time is logged for the policy. None logs no times. Default: `None`.
        find_provider_failure: Function that returns the error with which a model beside the agent's own, such as the summarizer,
            became unavailable, or None; the turn then ends with it. None leaves such errors to the policy. Default: `None`.

    Raises:
        UsageError: `max_steps` is not a whole number of at least 1.

    Example::

        compactor = SessionCompactor(policy=policies.Codex(), window=model.window, summarizer=summarizer)
        tools = make_standard_tools(sandbox)
        agent = Agent(model=model, tools=tools, log=log, compactor=compactor, clock=time.time)
        outcome = agent.run(session_started, "You are a coding agent.")
    """

    model: Model
    tools: Sequence[Tool]
    log: Log
    compactor: Compactor
    clock: Clock
    max_steps: int = DEFAULT_STEP_LIMIT
    parallel_tools: bool = False
    inbox: Inbox = field(default_factory=Inbox)
    cancellation: Cancellation | None = None
    listen: EventListener = ignore
    loop_detector: LoopDetector | None = None
    tool_time_limit: ToolTimeLimit | None = None
    collect_images: Callable[[str], Sequence[Image]] | None = None
    collect_subagent_events: Callable[[int], Sequence[Event]] | None = None
    save_workspace: Callable[[int], Sequence[Event]] | None = None
    save_at_compaction: Callable[[], str] | None = None
    save_result: Callable[[int, ToolResult, CallTiming], None] | None = None
    allow_parallel_calls: Callable[[], AbstractContextManager[None]] = nullcontext
    logs_steps_at_once: bool = False
    stopwatch: Callable[[], float] = time.monotonic
    cache_hits: CacheHits | None = None
    overhead: OverheadClock = field(default_factory=OverheadClock)
    read_step_seconds: Callable[[View, int], float] | None = None
    find_provider_failure: Callable[[], ModelError | None] | None = None

    def __post_init__(self) -> None:
        """Refuse a number of steps that no session can take."""
        refuse_invalid_max_steps(self.max_steps)

    def run(self, session: SessionStarted, system_prompt: str, session_context: str = "") -> Outcome:
        """Work on a task until the agent replies without calling a tool, reaches a limit or fails.

        Args:
            session: First event of the log, with the task and the configuration of the session.
            system_prompt: Text that begins the first message of the session and is equal in many sessions.
            session_context: Text that follows it as a part of its own and holds in this session only; empty adds no part.

        Raises:
            IllegalPlan: The policy proposed messages that must not be sent to a model.
            StoreError: The log cannot be written; events that were logged before are kept.
        """
        live = Session(self)
        live.begin(session, system_prompt, session_context)
        stop = live.run_turn()
        live.record(SessionEnded(status=stop.status, reason=stop.reason, detail=stop.detail))
        return Outcome.from_stop(stop, live.conversation.view)


class Session:
    """Session in progress, with methods that run its turns and steps. Not thread-safe."""

    def __init__(self, agent: Agent) -> None:
        """Prepare a new session, or continue the session that the agent's log contains."""
        self.agent = agent
        clocks = CallClocks(agent.clock, agent.stopwatch, agent.cache_hits)
        self.toolbox = Toolbox(agent.tools, agent.listen, clocks, agent.allow_parallel_calls)
        self.conversation = Conversation(agent.log, agent.compactor.policy.counter, agent.overhead)
        self.request_builder = RequestBuilder(agent.compactor.policy.counter)
        self.usage = self.conversation.usage
        self.stream_buffer = StreamBuffer()
        self.start_lock = threading.Lock()
        if self.conversation.last_sent_view.items:  # in a continued session the next request is compared with the last one
            self.request_builder.prepare(self.conversation.last_sent_view)
            self.request_builder.forget_view()

    def begin(self, session: SessionStarted, system_prompt: str, session_context: str = "") -> None:
        """Log the first events of a new session: its start, the system prompt, the task, and the saved workspace."""
        prompt = MessageAdded(message=system(system_prompt, session_context), step=0)
        workspace_events = self.agent.save_workspace(0) if self.agent.save_workspace else ()
        self.record(session, prompt, MessageAdded(message=user(session.task), step=0), *workspace_events)

    def run_turn(self, *opening_events: Event, steps_before: int = 0) -> Stop:
        """Run the steps of a turn, and return why it ended, e.g. because the agent replied without a tool call.

        Args:
            opening_events: Events that begin the turn, such as a user message. They are logged after the policy had the chance to
                compact. Without such events, the turn continues with the existing messages.
            steps_before: Number of steps that the turn has already run before it was interrupted; they count against the limit.
        """
        first_step = self.conversation.view.steps
        if opening_events and not self.open_turn(opening_events):
            return self.check_interruption() or Stop("cancelled", "stopped by the user")
        max_steps = self.agent.max_steps
        for step in range(first_step + 1, first_step + max_steps - steps_before + 1):
            if stop := self.run_step(step):
                return stop
        return Stop("max_steps", f"stopped after {format_count(max_steps, 'step')}")

    def open_turn(self, opening_events: Sequence[Event]) -> bool:
        """Compact the conversation if the policy requires it, then log the events that begin a turn.

        Return False if the session was cancelled meanwhile or cannot continue, else True.
        """
        can_continue = self.compact(self.conversation.view.steps + 1, "turn")
        self.record(*opening_events)
        return can_continue

    def run_step(self, step: int) -> Stop | None:
        """Run one step (a model call and its tool calls); return the stop reason, or None to continue."""
        queued_messages = [_build_message_event(user(text), step) for text in self.agent.inbox.take(step)]
        if (queued_messages and not self.open_turn(queued_messages)) or not self.compact(step, "step"):
            return self.check_interruption()
        prepared = self.request_builder.prepare(self.conversation.view)
        self.agent.listen(StepStarted(step=step))
        try:
            answer = self.request_reply(prepared, step)
        except BaseException as error:
            if not isinstance(error, StoreError):
                self.keep_partial_answer(step)
            if isinstance(error, ContextOverflow):
                return Stop("overflow", f"{error}; {self.agent.compactor.overflow_advice}")
            if isinstance(error, ModelError):
                return Stop.from_error(error)
            raise
        if answer is None:
            return self.check_interruption(step)
        prepared, reply = answer
        return self.finish_step(step, prepared, reply)

    def compact(self, step: int, hook: Hook) -> bool:
        """Let the policy shorten the messages that the model sees next, if the policy finds that necessary.

        Return False if the session was cancelled or a provider became unavailable, else True.
        """
        agent = self.agent
        if agent.read_step_seconds is not None:
            seconds = agent.read_step_seconds(self.conversation.view, step)
            if seconds != self.conversation.view.now_seconds:  # a turn and its first step begin at the same simulated time
                self.record(StepTimed(step=step, seconds=seconds))
        view = self.conversation.view

        def compact_view() -> list[Event]:
            event = agent.compactor.compact(view, self.usage, step, hook, agent.listen)
            if event is not None and event.status == "applied" and agent.save_at_compaction is not None:
                event = replace(event, tree_id=agent.save_at_compaction())
            return [] if event is None else [event]

        events = run_interruptibly(compact_view, agent.cancellation)
        if events is None:
            return False
        self.record(*events)
        if self.conversation.view.edits != view.edits:
            self.usage = None  # the last report measured the view before this change
        return self.check_interruption() is None

    def request_reply(self, prepared: PreparedRequest, step: int) -> tuple[PreparedRequest, Reply] | None:
        """Send a request and return it with the reply of the model; return None after a cancellation.

        If the prompt is too long for the model, the policy may compact, and the shorter request is sent instead. This is repeated
        as long as each compaction shortens the conversation, at most `MAX_EMERGENCY_COMPACTIONS` times.

        Raises:
            ContextOverflow: The prompt is too long, and the policy cannot shorten it further or the limit is reached.
        """
        compactions = 0
        while True:
            try:
                reply = self.call_model(prepared, step)
                return None if reply is None else (prepared, reply)
            except ContextOverflow:
                tokens_before = self.conversation.view.tokens
                if compactions == MAX_EMERGENCY_COMPACTIONS:
                    raise
                if not self.compact(step, "overflow"):
                    return None
                if self.conversation.view.tokens >= tokens_before:
                    raise
            compactions += 1
            if self.stream_buffer.build_message():  # displayed, but no part of the reply to the shorter request
                self.agent.listen(TextDelta(text="", anew=True))
            prepared = self.request_builder.prepare(self.conversation.view)

    def call_model(self, prepared: PreparedRequest, step: int) -> Reply | None:
        """Send a request to the model and return the reply, or None after a cancellation.

        A failed call is logged if it cost money, or if its prompt was too long.
        """
        agent, request = self.agent, Request(messages=prepared.messages, tools=self.toolbox.specs)
        partial = self.stream_buffer = StreamBuffer(agent.listen)
        try:
            return run_interruptibly(lambda: agent.model.reply(request, partial), agent.cancellation)
        except ModelError as error:
            is_overflow = isinstance(error, ContextOverflow)
            if error.cost_usd != 0 or is_overflow:
                failed_call = ModelCallFailed(step=step, cost_usd=error.cost_usd, detail=str(error), is_overflow=is_overflow)
                self.record(failed_call)
            raise

    def finish_step(self, step: int, prepared: PreparedRequest, reply: Reply) -> Stop | None:
        """Run the tools requested in a reply, log the step, and return the stop reason, or None to continue."""
        agent, view, calls = self.agent, self.conversation.view, reply.message.calls
        message_events: list[Event] = [_build_message_event(reply.message, step)]
        if calls and not agent.logs_steps_at_once:
            self.record(*message_events)
            message_events.clear()
        repetition = self.detect_loop(calls)
        stop, workspace_events = self.check_cancellation() or repetition, list[Event]()
        timings, saved_results = dict[str, CallTiming](), dict[str, ToolResult]()

        def save_result(result: ToolResult, timing: CallTiming) -> None:
            saved_results[result.call_id] = result
            if agent.save_result:
                agent.save_result(step, result, timing)

        started_at, tool_seconds = agent.stopwatch(), 0.0
        try:
            if stop:
                results = [make_interrupted_result(call) for call in calls]
            else:
                results = self.run_tools(step, calls, timings, save_result)
                tool_seconds = agent.stopwatch() - started_at if calls else 0.0
            if agent.save_workspace and calls:
                workspace_events += agent.save_workspace(step)
        except SandboxError as error:
            stop, tool_seconds = Stop.from_error(error), tool_seconds or agent.stopwatch() - started_at
            results = [saved_results.get(call.call_id) or make_interrupted_result(call) for call in calls]
        self.usage = None if reply.impossible_usage else reply.usage
        step_event = StepFinished(
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
            tool_seconds=tool_seconds,
            finish_reason=_name_finish_reason(reply),
            impossible_usage=reply.impossible_usage,
            **agent.overhead.take()._asdict(),
        )
        images = {result.call_id: agent.collect_images(result.call_id) for result in results} if agent.collect_images else {}
        message_events += [
            _build_message_event(tool(result, *images.get(result.call_id, ())), step, timings.get(result.call_id))
            for result in results
        ]
        subagent_events = agent.collect_subagent_events(step) if agent.collect_subagent_events else ()
        self.record(*message_events, *subagent_events, step_event, *workspace_events)
        agent.listen(compute_context_usage(self.conversation.view, self.usage))
        return stop or self.check_interruption() or _find_stop(reply) or self.check_tool_time()

    def detect_loop(self, calls: Sequence[ToolCall]) -> Stop | None:
        """Return the stop reason if a tool call was repeated too often in a row, else None."""
        detector = self.agent.loop_detector
        for call in calls:
            if detector is not None and detector.should_stop(call):
                return Stop("doom_loop", f"the same call of {call.name}, {REPEAT_LIMIT} times in a row")
        return None

    def run_tools(
        self,
        step: int,
        calls: Sequence[ToolCall],
        timings: dict[str, CallTiming],
        on_result: Callable[[ToolResult, CallTiming], None],
    ) -> list[ToolResult]:
        """Run the tool calls of a reply, and return the results in the order of the calls.

        After a cancellation, or when the tools have used up their time, a running tool may finish and no further tool starts.

        Args:
            step: Number of the step that requested the calls.
            calls: Tool calls to run.
            timings: Dict to which the timing of each call that started is added, by the id of the call.
            on_result: Function called with each result and its timing as soon as they are there, in the thread that ran the tool.
        """
        agent = self.agent

        def should_stop() -> bool:
            return (self.check_cancellation() or self.check_tool_time()) is not None

        def record_start(call: ToolCall) -> None:
            if not agent.logs_steps_at_once:
                with self.start_lock:  # calls that run at the same time start in threads of their own
                    self.record(CallStarted(step=step, call_id=call.call_id))

        def run() -> list[ToolResult]:
            return self.toolbox.run(
                calls,
                parallel=agent.parallel_tools,
                should_stop=should_stop,
                timings=timings,
                on_start=record_start,
                on_result=on_result,
            )

        return run_to_completion(run, agent.cancellation)

    def check_tool_time(self) -> Stop | None:
        """Return the stop reason if the tools of the session have used up their time, else None."""
        limit = self.agent.tool_time_limit
        if limit is None or not limit.is_reached:
            return None
        return Stop("timeout", f"the tools took longer than {limit.limit_seconds:g} s altogether")

    def check_interruption(self, step: int | None = None) -> Stop | None:
        """Return the stop reason if the session was cancelled, or if a model beside the agent's became unavailable, else None.

        Args:
            step: Number of the step, as for `check_cancellation`.
        """
        if self.agent.find_provider_failure is not None and (failure := self.agent.find_provider_failure()) is not None:
            return Stop.from_error(failure)
        return self.check_cancellation(step)

    def check_cancellation(self, step: int | None = None) -> Stop | None:
        """Return the stop reason if the session was cancelled, else None.

        Args:
            step: Number of the step whose reply was interrupted; the part received so far is logged. None logs nothing.
        """
        if self.agent.cancellation is None or not self.agent.cancellation.is_requested:
            return None
        if step is not None:
            self.keep_partial_answer(step)
        return Stop("cancelled", "stopped by the user")

    def keep_partial_answer(self, step: int) -> None:
        """Log the part of a reply that was received before the model call of a step failed or was interrupted.

        Tool calls are left out, because the arguments of the last one are incomplete.
        """
        partial_message, self.stream_buffer = self.stream_buffer.build_message(), StreamBuffer()
        if partial_message:
            self.record(_build_message_event(partial_message, step))
            self.usage = None  # the last report measured the view before this answer

    def record(self, *events: Event) -> None:
        """Append events to the log of the session and pass the logged entries to the listener."""
        if events:
            for entry in self.conversation.append(*events):
                self.agent.listen(entry)


def _build_message_event(message: Message, step: int, timing: CallTiming | None = None) -> MessageAdded:
    return MessageAdded(message=sanitize_message(message), step=step, timing=timing)


def _name_finish_reason(reply: Reply) -> Literal["stop", "tool-calls", "length", "content-filter"]:
    if reply.cut_short:
        return "length"
    if reply.refused:
        return "content-filter"
    return "tool-calls" if reply.message.calls else "stop"


def _find_stop(reply: Reply) -> Stop | None:
    """Return the stop reason if the reply ends the turn, else None."""
    if reply.message.text.rstrip().endswith(COMPLETION_MARKER):
        return Stop("declared")
    if reply.message.calls:
        return None
    if reply.cut_short:
        return Stop("cut_short", "the output limit, or the end of the context window, cut the last reply off")
    if reply.refused:
        return Stop("refused", "the model or a content filter of its provider refused to answer")
    return Stop("replied")
