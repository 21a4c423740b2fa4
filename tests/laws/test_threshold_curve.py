"""The cost of a session as a function of the threshold has its minimum where theory predicts it (acceptance battery, item 9).

Renewal theory gives the minimum in closed form. A view grows by exponentially distributed amounts of mean g tokens per call and
shrinks to s tokens at each compaction, which costs A; a token read costs p. The mean cost of a call is least at the threshold h*
= s - g + sqrt(g² + 2gA/p). The loop, the policy and the compactor are the real ones; only the model and the summarizer are
stand-ins with exactly these properties.
"""

import itertools
import math
import random
import time
from collections.abc import Callable

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import Compaction, StepFinished, TextDelta
from harness.conversation.messages import ToolCall, ToolResult, assistant
from harness.conversation.tokens import Measured, Usage, Window
from harness.protocols import Reply, Request, ToolSpec, ignore
from harness.session.assembly import SessionResources, assemble_session
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog

pytestmark = pytest.mark.laws

WINDOW_TOKENS = 200_000
GROWTH_TOKENS = 250
COMPACTION_COSTS_TOKENS = 100_000
"""A / p: cost of a compaction in tokens read."""
CALLS = 1_500
FREE = Usage(input_tokens=Measured(0), output_tokens=Measured(0))


class Growing:
    """A model whose calls add exponentially distributed amounts of text; equal seeds grow alike under every threshold."""

    name, window = "growing", Window(tokens=WINDOW_TOKENS, source="configuration")

    def __init__(self, seed: int) -> None:
        self._draw, self._numbers = random.Random(seed), itertools.count()

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        characters = int(4 * self._draw.expovariate(1 / GROWTH_TOKENS))
        call = ToolCall(call_id=f"c{next(self._numbers)}", name="note", arguments_json="{}")
        return Reply(message=assistant("x" * characters, call), usage=FREE, seconds=0.0)


class FixedSummarizer:
    """A summarizer whose summaries all have the same length and cost."""

    name, window = "fixed", Window(tokens=10 * WINDOW_TOKENS, source="configuration")

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        return Reply(message=assistant("s" * 8_000), usage=FREE, seconds=0.0, cost_usd=1.0)


class Note:
    """A tool with a very short output."""

    spec = ToolSpec(name="note", description="", parameters_json="{}")

    def run(self, call: ToolCall) -> ToolResult:
        return ToolResult(call_id=call.call_id, name=call.name, output="")


def session(threshold_tokens: float, seed: int) -> tuple[float, float]:
    """Return the mean cost of a call in tokens read, and the mean size after a compaction."""
    share = threshold_tokens / WINDOW_TOKENS
    policy = KeepLast(threshold=share, keep_last=1, system_reserve_tokens=0, output_reserve_tokens=0, safety_reserve_tokens=0)
    resources = SessionResources(
        session_id="curve",
        log=MemoryLog(),
        clock=time.monotonic,
        model=Growing(seed),
        summarizer=FixedSummarizer(),
        tools=[Note()],
    )
    curve = assemble_session(SessionSpec(request="grow", policy=policy, max_steps=CALLS), resources)
    curve.agent.run(curve.start_event, "grow")
    events = [entry.event for entry in curve.agent.log.entries()]
    read = sum(event.view_tokens for event in events if isinstance(event, StepFinished))
    rounds = [event for event in events if isinstance(event, Compaction) and event.status == "applied"]
    paid = sum(event.summarizer_cost_usd or 0.0 for event in rounds)
    return (read + paid * COMPACTION_COSTS_TOKENS) / CALLS, sum(event.tokens_after for event in rounds) / len(rounds)


def test_the_cheapest_threshold_and_the_curve_around_it_are_where_renewal_theory_puts_them():
    _, rest = session(8_000, seed=1)
    g, compaction = GROWTH_TOKENS, COMPACTION_COSTS_TOKENS
    best = math.sqrt(g**2 + 2 * g * compaction) - g  # h* - s
    costs = {}
    for factor in (0.35, 0.6, 0.8, 1.0, 1.25, 1.7, 2.8):
        room = factor * best
        costs[factor], _ = session(rest + room, seed=1)
        assert costs[factor] == pytest.approx(rest + (compaction + room**2 / (2 * g)) / (1 + room / g), rel=0.04), factor
    assert costs[1.0] == pytest.approx(min(costs.values()), rel=0.005), costs
    assert costs[0.35] > costs[0.6] > costs[0.8] > costs[1.0]
    assert costs[2.8] > costs[1.7] > costs[1.25]
