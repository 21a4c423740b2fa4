"""Laws 6 and 7: the model is a function of what is visible, and every request fits its window and is legal."""

import functools
from collections.abc import Iterator
from dataclasses import replace

from harness.codec import message_digest
from harness.messages import Message
from harness.models.factory import open_model
from harness.models.scripted.agent import tool_tokens
from harness.models.tokenizer import message_tokens
from harness.task import Grader
from harness.testing.laws.findings import Finding
from harness.testing.laws.reruns import about_answer
from harness.testing.laws.session_cache import PRESETS, Sessions
from harness.view import fold_all, violation

NO_GRADER = Grader(files=(), command="false")
ASKED_AGAIN = 15
"""Requests of a session that a new model is asked once more."""


def same_answer(sessions: Sessions, seed: int, preset: str) -> Iterator[Finding]:
    """Requests of a compacted session, asked of a new model in another order, get the same answers.

    The new model is made from a task without answer key, request, files and checks: what is not in view cannot have been known.
    """
    done, tight = sessions.compacted(seed, preset), sessions.tight(seed)
    trade = replace(sessions.task(seed), values={}, prompt="", workspace=(), later=(), checks=(), grader=NO_GRADER)
    stride = max(1, len(done.requests) // ASKED_AGAIN)
    for number in reversed(range(0, len(done.requests), stride)):
        request, reply = done.requests[number]
        fresh = open_model("scripted", task=trade, seed=1, window_tokens=tight.window_tokens)
        if fresh.reply(request).message != reply.message:
            yield about_answer(sessions.task(seed), done, number, "from a new model", seed)


def law_7(sessions: Sessions, seed: int, preset: str) -> Iterator[Finding]:
    """Every request is counted right, fits the window, and pairs calls with results.

    A request that is refused is none: only presets, whose reserves are those of the window, may not let it come to that.
    """
    done, window_tokens = sessions.compacted(seed, preset), sessions.tight(seed).window_tokens
    for number, ((request, reply), step) in enumerate(zip(done.requests, done.steps, strict=True), start=1):
        counted = sum(map(message_tokens, request.messages)) + tool_tokens(request.tools)
        if not counted == reply.usage.prompt_tokens == step.usage.prompt_tokens <= window_tokens:
            yield Finding(words=f"request {number} has {counted} tokens and was counted or let through wrongly", seed=seed)
        if (wrong := violation(request.messages)) is not None:
            yield Finding(words=f"request {number} is not legal: {wrong}", seed=seed)
        if _chained(request.messages) != step.request_digest:
            yield Finding(words=f"request {number} is not the one that was logged", seed=seed)
    if done.outcome.reason == "overflow" and preset in PRESETS:
        words = f"overflow at request {len(done.steps) + 1} in a window of {window_tokens:,} tokens ({preset})"
        yield Finding(words=words, seed=seed)
    if fold_all(done.entries).rounds != len(done.compactions):
        yield Finding(words="the log does not fold to the rounds that were applied", seed=seed)


def _chained(messages: tuple[Message, ...]) -> str:
    return functools.reduce(lambda before, message: message_digest(message, before), messages, b"").hex()
