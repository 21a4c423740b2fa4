"""Runs the tool calls of a reply, one by one or in parallel, and detects a call that is made again and again."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeAlias

from harness.events import EventListener, ToolEnded, ToolStarted
from harness.messages import ToolCall, ToolResult
from harness.protocols import Tool


class Toolbox:
    """Tools by name. Thread-safe if they are."""

    def __init__(self, tools: Sequence[Tool], listen: EventListener) -> None:
        """Let `listen` hear which call starts, and its result."""
        self._tools = {tool.spec.name: tool for tool in tools}
        self._listen = listen
        self.specs = tuple(tool.spec for tool in tools)

    def run(self, calls: Sequence[ToolCall], *, parallel: bool, should_stop: Callable[[], bool]) -> list[ToolResult]:
        """The results in call order.

        Args:
            calls: of one reply.
            parallel: run them at the same time.
            should_stop: once it is true no new call starts (S1.5).

        Raises:
            SandboxError: the machinery was lost.
        """

        def answer(call: ToolCall) -> ToolResult:
            return make_interrupted_result(call) if should_stop() else self._run(call)

        if parallel and len(calls) > 1:
            with ThreadPoolExecutor(max_workers=len(calls)) as pool:
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


def make_interrupted_result(call: ToolCall) -> ToolResult:
    """The result of a call that gave none."""
    output = "error: the call was interrupted before it gave a result"
    return ToolResult(call_id=call.call_id, name=call.name, output=output, status="interrupted")


REPEAT_LIMIT = 3
"""S3.10."""

LoopDecision: TypeAlias = Literal["continue", "stop", "always"]
"""Make the call and go on counting from here, end the turn, or make it and never ask about such calls again."""


class LoopDetector:
    """Counts equal calls in a row, over steps and turns. Not thread-safe."""

    def __init__(self, decide: Callable[[ToolCall, int], LoopDecision]) -> None:
        """Ask `decide` about each call that is the third of its kind in a row.

        Args:
            decide: gets the call and how many of its kind there are in a row, itself included; may take its time.
        """
        self._decide = decide
        self._last: tuple[str, str] | None = None
        self._times = 0
        self._allowed: set[tuple[str, str]] = set()

    def should_stop(self, call: ToolCall) -> bool:
        """Whether the turn shall end before this call is made."""
        kind = (call.name, call.arguments_json)
        self._times = self._times + 1 if kind == self._last else 1
        self._last = kind
        if self._times < REPEAT_LIMIT or kind in self._allowed:
            return False
        answer = self._decide(call, self._times)
        self._times = 0
        if answer == "always":
            self._allowed.add(kind)
        return answer == "stop"


def decide_always(decision: LoopDecision) -> Callable[[ToolCall, int], LoopDecision]:
    """Decides the same each time: for when nobody is there to be asked."""
    return lambda _call, _times: decision
