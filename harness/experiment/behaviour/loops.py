"""Doom loops: the same thing over and over, by four rules that look at calls and answers alone.

Source: the rules of the OpenHands stuck detector (`stuck_detector.py`) as quoted in RESEARCH 2.4, with its numbers. It scans
the last 20 events; ours need at most six calls with their answers. A user message begins the count anew.
"""

from collections import deque
from typing import Literal, NamedTuple, TypeAlias

from harness.experiment.behaviour.calls import Act

LoopRule: TypeAlias = Literal["same call and answer", "same failing call", "alternation", "monologue"]

SAME_PAIRS = 4
SAME_FAILURES = 3
ALTERNATIONS = 6
MONOLOGUE = 3


class Loop(NamedTuple):
    """A loop: its rule, and the step of its first call or message."""

    rule: LoopRule
    onset_step: int


class LoopDetector:
    """Hears calls and messages in order and keeps the first loop."""

    def __init__(self) -> None:
        self.first: Loop | None = None
        self._acts: deque[Act] = deque(maxlen=ALTERNATIONS)
        self._replies: list[int] = []

    def add_user(self) -> None:
        """A user spoke: what came before is no loop with what follows."""
        self._acts.clear()
        self._replies.clear()

    def add_reply(self, step: int) -> None:
        """The agent spoke without calling a tool."""
        self._acts.clear()
        self._replies.append(step)
        if len(self._replies) >= MONOLOGUE:
            self._found("monologue", self._replies[-MONOLOGUE])

    def add_act(self, act: Act) -> None:
        """A call was answered."""
        self._replies.clear()
        self._acts.append(act)
        acts = list(self._acts)
        pairs = [(one.signature, one.observation) for one in acts]
        failures = acts[-SAME_FAILURES:]
        if len(acts) >= SAME_PAIRS and len(set(pairs[-SAME_PAIRS:])) == 1:
            self._found("same call and answer", acts[-SAME_PAIRS].step)
        if len(failures) == SAME_FAILURES and len({one.signature for one in failures}) == 1 and not any(o.well for o in failures):
            self._found("same failing call", failures[0].step)
        if len(acts) == ALTERNATIONS and len(set(pairs[::2])) == len(set(pairs[1::2])) == 1 and pairs[0] != pairs[1]:
            self._found("alternation", acts[0].step)

    def _found(self, rule: LoopRule, onset_step: int) -> None:
        if self.first is None:
            self.first = Loop(rule, onset_step)
