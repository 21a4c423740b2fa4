"""The tools of a session: runs the calls of one reply, by turns or at the same time, and answers every one of them."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from harness.events import Entry, Signal, ToolEnded, ToolStarted
from harness.messages import ToolCall, ToolResult
from harness.protocols import Tool


class Toolbox:
    """Tools by name. Thread-safe if they are."""

    def __init__(self, tools: Sequence[Tool], listen: Callable[[Entry | Signal], None]) -> None:
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
