"""Execution of the tool calls of a reply, one by one or in parallel, and detection of calls repeated in a row."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, TypeAlias

from harness.events import EventListener, ToolEnded, ToolStarted
from harness.messages import ToolCall, ToolResult
from harness.protocols import Tool, ignore

MAX_PARALLEL_CALLS = 16
"""Maximum number of tool calls of one reply that run at the same time; further calls start as others end."""


class Toolbox:
    """Tools of a session, which runs the tool calls that the model requests. Thread-safe if all tools are."""

    def __init__(
        self,
        tools: Sequence[Tool],
        listen: EventListener,
        allow_parallel_calls: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Collect the tools of a session.

        Args:
            tools: Tools that the model can call.
            listen: Function that is called whenever a tool call starts or ends, in the thread of the call.
            allow_parallel_calls: Function that returns a context manager, within which several threads may call the tools.
        """
        self._tools = {tool.spec.name: tool for tool in tools}
        self._listen, self._allow_parallel_calls = listen, allow_parallel_calls
        self.specs = tuple(tool.spec for tool in tools)

    def run(
        self,
        calls: Sequence[ToolCall],
        *,
        parallel: bool,
        should_stop: Callable[[], bool],
        on_start: Callable[[ToolCall], None] = ignore,
        on_result: Callable[[ToolResult], None] = ignore,
    ) -> list[ToolResult]:
        """Run tool calls and return their results in call order.

        Args:
            calls: Tool calls that one reply of the model requests.
            parallel: Whether to run the tool calls at the same time.
            should_stop: Function that is called before each tool call; once it returns True, no further tool call starts.
            on_start: Function that is called with each tool call just before it runs, in its thread.
            on_result: Function that is called with the result of each tool call as soon as the call has ended, in its thread.

        Raises:
            SandboxError: The sandbox was lost.
        """

        def answer(call: ToolCall) -> ToolResult:
            if should_stop():
                return make_interrupted_result(call)
            on_start(call)
            result = self._run(call)
            on_result(result)
            return result

        if parallel and len(calls) > 1:
            with (
                self._allow_parallel_calls(),
                ThreadPoolExecutor(min(len(calls), MAX_PARALLEL_CALLS), thread_name_prefix="harness-tool") as pool,
            ):
                return list(pool.map(answer, calls))
        return [answer(call) for call in calls]

    def _run(self, call: ToolCall) -> ToolResult:
        known = self._tools.get(call.name)
        if known is None:
            output = f"error: no tool {call.name!r}; there are {', '.join(sorted(self._tools))}"
            return ToolResult(call_id=call.call_id, name=call.name, output=output, status="error")
        self._listen(ToolStarted(call=call))
        result = known.run(call)
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
