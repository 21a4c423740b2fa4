"""Execution of the tool calls of a reply, one by one or in parallel, and detection of calls repeated in a row."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, NamedTuple, Protocol, TypeAlias

from harness.conversation.events import CallTiming, EventListener, ToolEnded, ToolStarted
from harness.conversation.messages import ToolCall, ToolResult
from harness.protocols import Clock, Tool, ignore

MAX_PARALLEL_CALLS = 16
"""Maximum number of tool calls of one reply that run at the same time; further calls start as others end."""


class CacheHits(Protocol):
    """Running totals of the commands that an action cache has answered."""

    @property
    def hits(self) -> int:
        """Number of commands that were answered from the cache."""

    @property
    def hit_seconds(self) -> float:
        """Total duration of the original runs of these commands, in seconds."""


class CallClocks(NamedTuple):
    """Sources of the times of tool calls."""

    clock: Clock
    """Function that returns the time of day in seconds since the epoch."""
    stopwatch: Callable[[], float]
    """Function that returns a time in seconds that is never set back; measures durations."""
    cache_hits: CacheHits | None
    """Totals of the action cache that answers the commands of the calls; None without a cache."""

    def start(self) -> Callable[[], CallTiming]:
        """Start to measure a tool call, and return a function that ends the measurement."""
        _, stopwatch, cache_hits = self
        started_at_ms = int(self.clock() * 1_000)
        hits, hit_seconds = (cache_hits.hits, cache_hits.hit_seconds) if cache_hits else (0, 0.0)
        started_at = stopwatch()

        def stop() -> CallTiming:
            seconds = stopwatch() - started_at
            if cache_hits is None or cache_hits.hits == hits:
                return CallTiming(started_at_ms=started_at_ms, seconds=seconds)
            cached_seconds = cache_hits.hit_seconds - hit_seconds
            return CallTiming(started_at_ms=started_at_ms, seconds=seconds + cached_seconds, cached_seconds=cached_seconds)

        return stop


class Toolbox:
    """Tools of a session, which runs the tool calls that the model requests. Thread-safe if all tools are."""

    def __init__(
        self,
        tools: Sequence[Tool],
        listen: EventListener,
        clocks: CallClocks,
        allow_parallel_calls: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Collect the tools of a session.

        Args:
            tools: Tools that the model can call.
            listen: Function that is called whenever a tool call starts or ends, in the thread of the call.
            clocks: Sources of the times of the tool calls.
            allow_parallel_calls: Function that returns a context manager, within which several threads may call the tools.
        """
        self._tools = {tool.spec.name: tool for tool in tools}
        self._listen, self._clocks, self._allow_parallel_calls = listen, clocks, allow_parallel_calls
        self.specs = tuple(tool.spec for tool in tools)

    def run(
        self,
        calls: Sequence[ToolCall],
        *,
        parallel: bool,
        should_stop: Callable[[], bool],
        timings: dict[str, CallTiming],
        on_start: Callable[[ToolCall], None] = ignore,
        on_result: Callable[[ToolResult, CallTiming], None] = ignore,
    ) -> list[ToolResult]:
        """Run tool calls and return their results in call order.

        Args:
            calls: Tool calls that one reply of the model requests.
            parallel: Whether to run the tool calls at the same time.
            should_stop: Function that is called before each tool call; once it returns True, no further tool call starts.
            timings: Dict to which the start and the duration of each tool call that started are added, by the id of the call.
            on_start: Function that is called with each tool call just before it runs, in its thread.
            on_result: Function that is called with the result and the timing of each tool call as soon as the call has ended, in
                its thread.

        Raises:
            SandboxError: The sandbox was lost.
        """

        def answer(call: ToolCall) -> ToolResult:
            if should_stop():
                return make_interrupted_result(call)
            on_start(call)
            stop = self._clocks.start()
            try:
                result = self._run(call)
            finally:  # a call that a lost sandbox ends has a timing, too
                timings[call.call_id] = timing = stop()
            on_result(result, timing)
            return result

        if parallel and len(calls) > 1:
            with (
                self._allow_parallel_calls(),
                ThreadPoolExecutor(min(len(calls), MAX_PARALLEL_CALLS), thread_name_prefix="harness-tool") as pool,
            ):
                return list(pool.map(answer, calls))
        return [answer(call) for call in calls]

    def _run(self, call: ToolCall) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            output = f"error: no tool {call.name!r}; there are {', '.join(sorted(self._tools))}"
            return ToolResult(call_id=call.call_id, name=call.name, output=output, status="error")
        self._listen(ToolStarted(call=call))
        result = tool.run(call)
        self._listen(ToolEnded(result=result))
        return result


INTERRUPTED_OUTPUT = "[Tool execution was interrupted]"
"""Output of an interrupted call, which the model reads; several providers refuse a call without a result."""


def make_interrupted_result(call: ToolCall) -> ToolResult:
    """Return the result that is logged for a tool call that was interrupted or never started."""
    return ToolResult(call_id=call.call_id, name=call.name, output=INTERRUPTED_OUTPUT, status="interrupted")


class ToolTimeLimit:
    """Limit on the total time of the tool calls of a session and its sub-agents. Thread-safe.

    Calls that run at the same time count once. When the limit is reached, a running call may finish, and no further call starts.
    """

    def __init__(self, limit_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a limit of which no time has been used yet.

        Args:
            limit_seconds: Maximum total time of the tool calls in seconds.
            clock: Function that returns the current time in seconds.
        """
        self.limit_seconds = limit_seconds
        self._clock, self._lock = clock, threading.Lock()
        self._used_seconds = self._began_at = 0.0
        self._running_calls = 0

    @property
    def is_reached(self) -> bool:
        """Whether the calls that have ended took at least as long as the limit allows."""
        return self._used_seconds >= self.limit_seconds

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Count the duration of the `with` block, which runs one tool call, towards the limit."""
        with self._lock:
            if self._running_calls == 0:
                self._began_at = self._clock()
            self._running_calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._running_calls -= 1
                if self._running_calls == 0:
                    self._used_seconds += self._clock() - self._began_at


REPEAT_LIMIT = 3
"""Number of equal tool calls in a row at which the loop detector asks for a decision. Source: OpenCode ("doom loop")."""

LoopDecision: TypeAlias = Literal["continue", "stop", "always"]
"""Decision about a tool call that the agent has repeated several times in a row.

`continue` makes the call and starts counting anew, `stop` ends the turn, and `always` allows the call from now on.
"""


class LoopDetector:
    """Detector of tool calls that an agent repeats in a row; it asks a function whether to go on.

    Not thread-safe.
    """

    def __init__(self, decide: Callable[[ToolCall, int], LoopDecision]) -> None:
        """Create a detector that calls `decide` when the same tool call is made for the third time in a row.

        Args:
            decide: Function called with the repeated call and the number of equal calls in a row, including the last. It may
                block, for example to ask the user.
        """
        self._decide = decide
        self._last: tuple[str, str] | None = None
        self._times = 0
        self._allowed: set[tuple[str, str]] = set()

    def should_stop(self, call: ToolCall) -> bool:
        """Return whether to end the turn instead of running a tool call that was repeated too often in a row.

        Two calls are equal if they call the same tool with the same parsed arguments, in any order and with any white space.
        """
        kind = (call.name, _normalize_arguments(call))
        self._times = self._times + 1 if kind == self._last else 1
        self._last = kind
        if self._times < REPEAT_LIMIT or kind in self._allowed:
            return False
        answer = self._decide(call, self._times)
        self._times = 0
        if answer == "always":
            self._allowed.add(kind)
        return answer == "stop"


def _normalize_arguments(call: ToolCall) -> str:
    """Return the arguments as JSON with sorted keys; arguments that are no JSON are returned unchanged."""
    try:
        return json.dumps(json.loads(call.arguments_json), sort_keys=True)
    except (ValueError, RecursionError):
        return call.arguments_json


def decide_always(decision: LoopDecision) -> Callable[[ToolCall, int], LoopDecision]:
    """Return a function that decides about every repeated tool call in the same way.

    It serves sessions without a user who could be asked.
    """
    return lambda _call, _times: decision
