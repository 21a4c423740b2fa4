"""Laws 6 and 7: the model is a function of what is visible, and every request fits its window and is legal."""

import functools
from collections.abc import Iterator
from dataclasses import replace

from harness.codec import digest_message
from harness.messages import Message
from harness.models.factory import open_model
from harness.models.scripted.agent import count_tool_tokens
from harness.models.tokenizer import count_message_tokens
from harness.task import Grader
from harness.testing.laws.findings import Finding
from harness.testing.laws.reruns import make_answer_finding
from harness.testing.laws.session_cache import PRESETS, SessionCache
from harness.view import find_violation, fold_all

NO_GRADER = Grader(files=(), command="false")
MAX_REPEATED_REQUESTS = 15
"""Requests of a session that a new model is asked once more."""


def check_same_answer(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Requests of a compacted session, asked of a new model in another order, get the same answers.

    The new model is made from a task without answer key, request, files and checks: what is not in view cannot have been known.
    """
    done, tight = sessions.run_compacted(seed, preset), sessions.choose_small_window(seed)
    trade = replace(sessions.make_task(seed), values={}, prompt="", workspace=(), later_messages=(), checks=(), grader=NO_GRADER)
    stride = max(1, len(done.requests) // MAX_REPEATED_REQUESTS)
    for number in reversed(range(0, len(done.requests), stride)):
        request, reply = done.requests[number]
        fresh = open_model("scripted", task=trade, seed=1, window_tokens=tight.window_tokens)
        if fresh.reply(request).message != reply.message:
            yield make_answer_finding(sessions.make_task(seed), done, number, "from a new model", seed)


def check_law_7(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Every request is counted right, fits the window, and pairs calls with results.

    A request that is refused is none: only presets, whose reserves are those of the window, may not let it come to that.
    """
    done, window_tokens = sessions.run_compacted(seed, preset), sessions.choose_small_window(seed).window_tokens
    for number, ((request, reply), step) in enumerate(zip(done.requests, done.steps, strict=True), start=1):
        counted = sum(map(count_message_tokens, request.messages)) + count_tool_tokens(request.tools)
        if not counted == reply.usage.prompt_tokens == step.usage.prompt_tokens <= window_tokens:
            yield Finding(message=f"request {number} has {counted} tokens and was counted or let through wrongly", seed=seed)
        if (wrong := find_violation(request.messages)) is not None:
            yield Finding(message=f"request {number} is not legal: {wrong}", seed=seed)
        if _digest_messages(request.messages) != step.request_digest:
            yield Finding(message=f"request {number} is not the one that was logged", seed=seed)
    if done.outcome.reason == "overflow" and preset in PRESETS:
        words = f"overflow at request {len(done.steps) + 1} in a window of {window_tokens:,} tokens ({preset})"
        yield Finding(message=words, seed=seed)
    if fold_all(done.entries).rounds != len(done.compactions):
        yield Finding(message="the log does not fold to the rounds that were applied", seed=seed)


def _digest_messages(messages: tuple[Message, ...]) -> str:
    return functools.reduce(lambda before, message: digest_message(message, before), messages, b"").hex()
