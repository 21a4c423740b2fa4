"""Compaction of a plain list of messages in one call.

`harness.integrations.compactor` has the class for loops, which both functions here use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.compaction.description import describe_memory, name_policy
from harness.compaction.function_policy import PolicyFunction
from harness.conversation.tokens import Usage
from harness.errors import UsageError
from harness.integrations.compactor import Compactor, Moment
from harness.integrations.results import CompactResult, CompactState
from harness.integrations.summarizers import SummarizerChoice
from harness.policies import resolve_policy
from harness.protocols import OutputStore, Policy


def compact(
    messages: Sequence[Mapping[str, Any]],
    policy: Policy | str | PolicyFunction,
    *,
    window_tokens: int,
    summarizer: SummarizerChoice = None,
    usage: Usage | Mapping[str, Any] | None = None,
    state: CompactState | None = None,
    system: str = "",
    moment: Moment = "step",
    outputs: OutputStore | None = None,
) -> CompactResult:
    """Return the messages that a policy sends to the model next, given a list of messages.

    The result is what a session of this project with just these messages would send. Without `state`, a summary in the list is
    an ordinary message, and no earlier attempt is known. In a loop, `Compactor` does the same in less time.

    Args:
        messages: Messages of the conversation as dicts, in the shape of OpenAI's chat completions or responses, of Anthropic,
            Gemini, LangChain or smolagents. The list and its dicts are never changed.
        policy: Compaction policy, its public name, `FILE.py:NAME`, or a function `(messages, budget) -> messages`.
        window_tokens: Context window of the agent's model in tokens.
        summarizer: Model that writes summaries, as for `Compactor`. Default: `None`.
        usage: Token usage that the provider reported for the newest answer in the list, as its usage dict. Default: `None`.
        state: State in the result of the last call for this conversation; `CompactState()` for the first call. Required for a
            policy that decides by what it did before, such as `paced`. Default: `None`.
        system: System prompt that is sent apart from the list. Default: `''`.
        moment: Point in the loop: `step`, `overflow` or `manual`. Default: `'step'`.
        outputs: Store for texts that a policy takes out of the list and that the agent's own tools can read. Default: `None`.

    Raises:
        UnknownName: There is no such policy or summarizer.
        UsageError: An argument is invalid, or the policy needs `state`, a summarizer or an oracle.
        IllegalPlan: The policy proposed messages that providers would refuse.

    Example:
        >>> import harness
        >>> messages = [{"role": "user", "content": "Fix the test.", "name": "ann"}]
        >>> messages += [{"role": "assistant", "content": f"Step {number}: " + "x" * 4_000} for number in range(30)]
        >>> result = harness.compact(messages, "keep-last", window_tokens=32_000, summarizer="scripted/extractive")
        >>> result.status, result.tokens_before > result.tokens_after, len(messages)
        ('applied', True, 31)
        >>> result.messages[-1] is messages[-1]
        True
    """
    compactor = _prepare_call(policy, state, window_tokens=window_tokens, summarizer=summarizer, system=system, outputs=outputs)
    result = compactor.compact(messages, usage, moment=moment)
    return replace(result, state=compactor.state)


async def acompact(
    messages: Sequence[Mapping[str, Any]],
    policy: Policy | str | PolicyFunction,
    *,
    window_tokens: int,
    summarizer: SummarizerChoice = None,
    usage: Usage | Mapping[str, Any] | None = None,
    state: CompactState | None = None,
    system: str = "",
    moment: Moment = "step",
    outputs: OutputStore | None = None,
) -> CompactResult:
    """Do what `compact` does without blocking the event loop, which may run a coroutine function as the summarizer.

    Args:
        messages: Messages of the conversation, as for `compact`.
        policy: Compaction policy, as for `compact`.
        window_tokens: Context window of the agent's model in tokens.
        summarizer: Model or function that writes summaries; the function may be a coroutine function. Default: `None`.
        usage: Token usage of the newest answer. Default: `None`.
        state: State in the result of the last call. Default: `None`.
        system: System prompt that is sent apart from the list. Default: `''`.
        moment: Point in the loop: `step`, `overflow` or `manual`. Default: `'step'`.
        outputs: Store for texts that a policy takes out of the list. Default: `None`.

    Example:
        >>> import asyncio, harness
        >>> async def summarize(prompt):
        ...     return "The test is fixed."
        >>> messages = [{"role": "user", "content": "Fix the test."}]
        >>> messages += [{"role": "assistant", "content": "x" * 4_000} for _ in range(30)]
        >>> call = harness.acompact(messages, "keep-last", window_tokens=32_000, summarizer=summarize)
        >>> "The test is fixed." in asyncio.run(call).summary
        True
    """
    compactor = _prepare_call(policy, state, window_tokens=window_tokens, summarizer=summarizer, system=system, outputs=outputs)
    result = await compactor.acompact(messages, usage, moment=moment)
    return replace(result, state=compactor.state)


def _prepare_call(policy: Policy | str | PolicyFunction, state: CompactState | None, **settings: Any) -> Compactor:
    """Return the compactor for one call, or refuse a policy that needs the state of former calls."""
    resolved = resolve_policy(policy)
    if state is not None:
        return Compactor.from_state(state, resolved, **settings)
    if memory := describe_memory(resolved):
        raise UsageError(
            f"policy {name_policy(resolved)!r} decides by {memory}, which no list of messages shows; pass "
            "state=CompactState() with the first call and the `state` of the last result later, or use harness.Compactor"
        )
    return Compactor(resolved, **settings)
