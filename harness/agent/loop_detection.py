"""The doom loop (S3.10): the same call for the third time in a row, and what is to be done about it."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from harness.messages import ToolCall

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
