"""CPU of asking a policy: nothing is due at 10 to 10,000 messages, something is at 1,000; beside it the same of two originals.

Of the presets the slowest is shown, as its fields stand. They look at the same conversation as the originals, in the same run:
one call and one result of 200 characters a step. Of several rounds the least is taken, since a busy machine only ever adds.
"""

import time
from collections.abc import Iterator
from contextlib import closing

from harness.compaction.presets import PRESETS
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.scaling import fitted
from harness.errors import UsageError
from harness.events import Entry, MessageAdded
from harness.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.protocols import Policy
from harness.tokens import Budget, Measured, Usage, Window
from harness.view import View, fold
from tests.bench.figure import Figure
from tests.bench.overhead import words
from tests.peers.environments import ENVIRONMENTS
from tests.peers.original import Original
from tests.peers.walking import conversation_of

SIZES = (10, 100, 1_000, 10_000)
HUGE = Window(tokens=10**9, source="configuration")
NOMINAL_WINDOW_TOKENS = 128_000
USAGE = Usage(input_tokens=Measured(1_000), output_tokens=Measured(10))
IDLE_BAR_US, DUE_BAR_MS = 20.0, 5.0


def conversation(size: int) -> tuple[Message, ...]:
    """So many messages: a system message, a request, and steps of a call and its result."""
    messages = [system("You are an agent."), user("Do it.")]
    for step in range(size // 2 - 1):
        call = ToolCall(call_id=f"call_{step}", name="execute_command", arguments_json=f'{{"command": "run {step}"}}')
        output = ToolResult(call_id=call.call_id, name=call.name, output=words(step, 200))
        messages += [assistant(f"Step {step}.", call), tool(output)]
    return tuple(messages)


def view_of(messages: tuple[Message, ...], policy: Policy) -> View:
    view = View()
    for seq, message in enumerate(messages, start=1):
        view = fold(view, Entry(seq, MessageAdded(message=message, step=0)), policy.counter)
    return view


def seconds(policy: Policy, view: View, budget: Budget, usage: Usage | None, calls: int) -> float:
    """CPU of one `plan`, the least of several rounds of so many calls."""
    rounds = []
    for _ in range(9):
        began = time.process_time()
        for _ in range(calls):
            policy.plan(view, budget, usage)
        rounds.append(time.process_time() - began)
    return min(rounds) / calls


def defaults() -> list[Policy]:
    """Every preset as its fields stand; the clairvoyant one is asked only by sessions."""
    return [kind() for name, kind in PRESETS.items() if name != "oracle"]


def idle(messages: tuple[Message, ...]) -> tuple[float, float]:
    """CPU seconds of the slowest preset that has nothing to do, and of `keep-last`."""
    taken: dict[str, float] = {}
    for policy in defaults():
        view, budget = view_of(messages, policy), policy.budget(HUGE)
        if policy.plan(view, budget, USAGE) is None:
            taken[policy.kind] = seconds(policy, view, budget, USAGE, 500)  # type: ignore[attr-defined]
    return max(taken.values()), taken[KeepLast().kind]


def due(messages: tuple[Message, ...]) -> float:
    """CPU seconds of the slowest preset that has something to do in a window which the conversation fills."""
    taken = []
    for policy in defaults():
        view = view_of(messages, policy)
        window = Window(tokens=max(1, view.tokens), source="configuration")
        try:
            fit = fitted(policy, window, NOMINAL_WINDOW_TOKENS).policy
            budget = fit.budget(window)
        except UsageError:  # its reserves are more than this window
            continue
        plan = fit.plan(view, budget, None)
        if plan is not None and not plan.empty:
            taken.append(seconds(fit, view, budget, None, 5))
    return max(taken)


def planning() -> Iterator[Figure]:
    """The figures."""
    ours = {}
    for size in SIZES:
        slowest, ours[size] = idle(conversation(size))
        yield Figure(name=f"plan(), nothing due, {size:,} messages, slowest", value=1e6 * slowest, unit="us", bar=IDLE_BAR_US)
    yield Figure(name="plan(), due, 1,000 messages, slowest", value=1e3 * due(conversation(1_000)), unit="ms", bar=DUE_BAR_MS)
    for name in ("langchain", "inspect"):
        if ENVIRONMENTS[name].made:
            with closing(Original(name)) as original:
                for size in SIZES:
                    theirs = original.ask("check", conversation=conversation_of(conversation(size)), repeats=5)
                    title = f"the same check by {name}, {size:,} messages, ÷ keep-last"
                    yield Figure(name=title, value=theirs / ours[size], unit="x", bar=None)
