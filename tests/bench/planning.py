"""CPU time of `Policy.plan` with nothing due at 10 to 10,000 messages and with a compaction due at 1,000, next to two originals.

The figure is that of the slowest preset, over default and other fields and over every hook for which the preset has a rule.
Presets and originals get the same conversation in the same run: one call and one result of 200 characters per step. In the
measurement with nothing due, a preset has compacted before, and limits on messages or turns are set higher than their number.
Asked is what a session asks: views that grow, each once. Of several rounds the least is taken, since a busy machine only adds.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import Any

from harness.compaction.presets.gemini import GeminiCli
from harness.compaction.presets.goose import Goose
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.langchain import AnthropicClear, DeepAgents, LangChainClear, LangChainSummary
from harness.compaction.presets.opencode import OpenCodePrune
from harness.compaction.presets.openhands import OpenHands, OpenHandsV0
from harness.compaction.presets.pydantic_ai import PydanticClear, PydanticSummary, PydanticWindow
from harness.compaction.presets.strands import StrandsWindow
from harness.compaction.presets.swe_agent import ComplexityTrapMask, ComplexityTrapSummary, SweAgent
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.compaction.presets.window import MessageWindow
from harness.compaction.scaling import fit_policy
from harness.conversation.events import Entry, Hook, MessageAdded
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tally_cache import TallyCache
from harness.conversation.tokens import Measured, Usage, Window
from harness.conversation.view import View, fold
from harness.errors import UsageError
from harness.policies import PRESETS
from harness.protocols import Policy
from harness.session.compactor import SessionCompactor
from harness.testing.fakes import FakeModel
from tests.bench.figure import Figure
from tests.bench.workload import words
from tests.peers.environments import ENVIRONMENTS
from tests.peers.original import Original
from tests.peers.walking import conversation_of

SIZES = (10, 100, 1_000, 10_000)
HUGE = Window(tokens=10**9, source="configuration")
NOMINAL_WINDOW_TOKENS = 128_000
USAGE = Usage(input_tokens=Measured(1_000), output_tokens=Measured(10))
IDLE_BAR_US, DUE_BAR_MS = 20.0, 5.0


def conversation(size: int) -> tuple[Message, ...]:
    """Return a conversation of this many messages: a system message, a request, and steps of a call and its result."""
    messages = [system("You are an agent."), user("Do it.")]
    for step in range(size // 2 - 1):
        call = ToolCall(call_id=f"call_{step}", name="execute_command", arguments_json=f'{{"command": "run {step}"}}')
        output = ToolResult(call_id=call.call_id, name=call.name, output=words(step, 200))
        messages += [assistant(f"Step {step}.", call), tool(output)]
    return tuple(messages)


MANY = 10**6
UNCOUNTED: tuple[Policy, ...] = (
    ComplexityTrapSummary(turns=MANY),
    MessageWindow(max_messages=MANY),
    OpenHands(max_size=MANY),
    OpenHandsV0(max_size=MANY),
    PydanticWindow(trigger_messages=MANY),
    StrandsWindow(window_messages=MANY),
)
"""Presets with a limit on messages, events or turns, set so high that nothing is due in a long session."""
OTHERWISE: tuple[Policy, ...] = (
    AnthropicClear(exempt_tools=("execute_command",)),
    AnthropicClear(least_saved_tokens=MANY),
    ComplexityTrapMask(polling=5),
    ComplexityTrapSummary(turns=MANY, mask_results=10),
    DeepAgents(argument_characters=30),
    GeminiCli(adapted=True),
    Goose(adapted=True),
    LangChainClear(exempt_tools=("execute_command",)),
    LangChainSummary(trigger_messages=MANY),
    MessageWindow(max_messages=MANY, summarize_on_trim=True),
    OpenCodePrune(adapted=True),
    OpenCodePrune(adapted=True, exempt_tools=("*",)),
    OpenCodePrune(exempt_tools=("execute_command run *",)),
    OpenCodePrune(keep_turns=0),
    PydanticClear(least_saved_tokens=MANY),
    PydanticClear(trigger_tokens=None, trigger_messages=MANY),
    PydanticSummary(trigger_messages=MANY),
    SweAgent(polling=7),
    ThreeTiers(prune_at="step"),
    ThreeTiers(prune_at="step", preserve=("execute_command run *",), prune_minimum_tokens=0),
    ThreeTiers(prune_at="step", agent="debugging", lazy=True, auto=False),
    ThreeTiers(protect_turns=0, lazy=True),
)
"""Presets with fields that change the work of finding out whether a compaction is due."""
AT_REST: tuple[Hook, ...] = ("step", "turn")
"""Hooks at which nothing may be due; at the other hooks (overflow, manual) a compaction always is."""
ASKED = 10


def view_of(messages: tuple[Message, ...], policy: Policy) -> View:
    counter: Any = policy.counter
    return _folded(messages, counter)


@cache
def _folded(messages: tuple[Message, ...], counter: Any) -> View:
    view = View()
    for seq, message in enumerate(messages, start=1):
        view = fold(view, Entry(seq, MessageAdded(message=message, step=0)), counter)
    return view


def defaults() -> list[Policy]:
    """Return every preset with its default fields, except `oracle`, which needs a session."""
    return [kind() for name, kind in PRESETS.items() if name != "oracle"]


def idlers() -> list[tuple[Policy, Hook]]:
    """Return every preset for which nothing may be due, with each set of fields and each hook at which it has a rule."""
    counted = {type(policy) for policy in UNCOUNTED}
    policies = (*(policy for policy in defaults() if type(policy) not in counted), *UNCOUNTED, *OTHERWISE)
    return [(policy, hook) for policy in policies for hook in AT_REST if hook == "step" or acts_at(policy, hook)]


def acts_at(policy: Policy, hook: Hook) -> bool:
    return any(rule.hook == hook for rule in policy.pipeline.rules)  # type: ignore[attr-defined]


def at_rest(policy: Policy, hook: Hook, messages: tuple[Message, ...]) -> View:
    """Return the view after the policy has made the compaction that was due.

    Raises:
        AssertionError: Another compaction is due, or the view is short, so that the measurement would be invalid.
    """
    compactor = SessionCompactor(policy=policy, window=HUGE, summarizer=FakeModel([]))
    view = view_of(messages, policy)
    if event := compactor.compact(view, USAGE, 1, hook, lambda _: None):
        view = fold(view, Entry(MANY, event), policy.counter)
    left, plan = len(view.items), policy.plan(view, compactor.budget, USAGE, hook)
    assert left >= 0.9 * len(messages), f"{policy!r} has left {left} of {len(messages)} messages"
    assert plan is None or not any(rule.quiet for rule in policy.pipeline.rules), f"due for {policy!r}: {plan.reason}"  # type: ignore[attr-defined]
    return view


def idle_seconds(policy: Policy, hook: Hook, messages: tuple[Message, ...]) -> float:
    """Return the CPU seconds of one call of `plan` while messages are added that trigger nothing."""
    view, budget, rounds = at_rest(policy, hook, messages), policy.budget(HUGE), []
    for _ in range(9):
        grown = [replace(view, tally_cache=TallyCache())]
        for number in range(ASKED):
            grown.append(
                fold(grown[-1], Entry(MANY + 1 + number, MessageAdded(message=assistant("Well."), step=1)), policy.counter)
            )
        policy.plan(grown[0], budget, USAGE, hook)
        began = time.process_time()
        for one in grown[1:]:
            policy.plan(one, budget, USAGE, hook)
        rounds.append(time.process_time() - began)
    return min(rounds) / ASKED


def idle(messages: tuple[Message, ...]) -> tuple[float, float]:
    """Return the CPU seconds of the slowest preset with nothing due, and of `keep-last`."""
    taken = {(policy, hook): idle_seconds(policy, hook, messages) for policy, hook in idlers()}
    return max(taken.values()), taken[KeepLast(), "step"]


def due(messages: tuple[Message, ...]) -> float:
    """Return the CPU seconds of the slowest preset with a compaction due, in a window that the conversation fills."""
    return max(due_seconds(messages))


def due_seconds(messages: tuple[Message, ...]) -> Iterator[float]:
    """Return the CPU seconds of each preset and hook with a compaction due, on a new view."""
    hooks: Sequence[Hook] = (*AT_REST, "overflow", "manual")
    for policy, hook in ((policy, hook) for policy in (*defaults(), *OTHERWISE) for hook in hooks):
        view = view_of(messages, policy)
        window = Window(tokens=max(1, view.tokens), source="configuration")
        try:
            fit = fit_policy(policy, window, NOMINAL_WINDOW_TOKENS).policy
            budget = fit.budget(window)
        except UsageError:  # the reserves exceed this window
            continue
        plan = fit.plan(view, budget, None, hook)
        if plan is not None and not plan.is_empty:
            rounds = []
            for _ in range(9):
                unasked = replace(view, tally_cache=TallyCache())
                began = time.process_time()
                fit.plan(unasked, budget, None, hook)
                rounds.append(time.process_time() - began)
            yield min(rounds)


def planning() -> Iterator[Figure]:
    """Measure all figures of this module."""
    ours = {}
    for size in SIZES:
        slowest, ours[size] = idle(conversation(size))
        yield Figure(name=f"plan(), nothing due, {size:,} messages, slowest", value=1e6 * slowest, unit="us", bar=IDLE_BAR_US)
    yield Figure(name="plan(), due, 1,000 messages, slowest", value=1e3 * due(conversation(1_000)), unit="ms", bar=DUE_BAR_MS)
    for name in ("langchain", "inspect"):
        if ENVIRONMENTS[name].is_installed:
            with closing(Original(name)) as original:
                for size in SIZES:
                    theirs = original.ask("check", conversation=conversation_of(conversation(size)), repeats=5)
                    title = f"the same check by {name}, {size:,} messages, ÷ keep-last"
                    yield Figure(name=title, value=theirs / ours[size], unit="x", bar=None)
