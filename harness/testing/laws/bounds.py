"""Laws 1 to 4 and 7: what the window does to a session, between remembering everything and nothing."""

import functools
from collections.abc import Iterator

from harness.codec import digest_message
from harness.compaction.presets.none import NoCompaction
from harness.messages import Message
from harness.models.scripted.agent import count_tool_tokens
from harness.models.tokenizer import count_message_tokens
from harness.task import Task
from harness.testing.laws.findings import Finding, make_check_finding, read_values
from harness.testing.laws.moves import trace
from harness.testing.laws.session_cache import DEFAULT_PRESET, PRESETS, SessionCache, look_up_policy
from harness.testing.laws.simulation import HUGE_WINDOW_TOKENS, Run
from harness.view import find_violation, fold_all


def check_law_1(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Check that a policy whose trigger is relative to the window does nothing in a window larger than the session."""
    plain, other = sessions.run_uncompacted(seed), sessions.run(seed, look_up_policy(preset), HUGE_WINDOW_TOKENS)
    if other.compactions:
        yield Finding(message=f"compacted {len(other.compactions)} times in a window of {HUGE_WINDOW_TOKENS:,} tokens", seed=seed)
    yield from _compare_course(plain, other, seed)
    for name in sorted(other.failed_checks - plain.failed_checks):
        yield Finding(message=f"fails under a policy ({preset}) that never acted", check=name, seed=seed)


def _compare_course(plain: Run, other: Run, seed: int) -> Iterator[Finding]:
    """Compare what both sessions did and left."""
    if plain.calls != other.calls:
        yield Finding(message="another course was taken although nothing was compacted", seed=seed)
    elif plain.files != other.files:
        yield Finding(message="other files were left although nothing was compacted", seed=seed)


def check_law_2(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that without compaction a smaller window overflows at the step at which the session outgrows it."""
    window_tokens = sessions.choose_small_window(seed).window_tokens
    sizes = [step.usage.prompt_tokens for step in sessions.run_uncompacted(seed).steps]
    predicted = next((number for number, size in enumerate(sizes, start=1) if size > window_tokens), None)
    if predicted is None:
        words = f"the session never fills a window, it ends at {max(sizes):,} tokens: let it read or print more"
        yield Finding(message=words, seed=seed)
        return
    small = sessions.run(seed, NoCompaction(), window_tokens)
    if (small.outcome.reason, small.outcome.steps) != ("overflow", predicted - 1):
        words = (
            f"a window of {window_tokens:,} tokens without compaction should overflow at request {predicted}; the session "
            f"ended by {small.outcome.reason} after {small.outcome.steps}"
        )
        yield Finding(message=words, seed=seed)


def check_law_3(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Check that with oracle summaries every check passes, and nothing else is done than without compaction."""
    plain, oracle = sessions.run_uncompacted(seed), sessions.run_compacted(seed, preset, "scripted/oracle")
    if not oracle.compactions:
        yield Finding(message=f"the session is never compacted ({preset}); let it read or print more", seed=seed)
    for judged in oracle.check_results:
        if not judged.passed:
            words = f"fails although summaries keep every line with a fact: {judged.detail}"
            yield make_check_finding(sessions.make_task(seed), judged.check, words, seed)
    yield from _find_extra_call(sessions.make_task(seed), plain, oracle, seed)


def _find_extra_call(task: Task, plain: Run, oracle: Run, seed: int) -> Iterator[Finding]:
    """Find the first call that one session has and the other has not, with the step behind it."""
    acts = zip([*plain.call_keys, None], [*oracle.call_keys, None], strict=False)
    parted = next((number for number, (here, there) in enumerate(acts) if here != there), None)
    if parted is None:
        return
    extra_call = oracle.call_keys[parted] if parted < len(oracle.call_keys) else None
    moves = trace(task, oracle.requests)
    before = 0
    step = ""
    for move, (_, reply) in zip(moves, oracle.requests, strict=True):
        if before <= parted < before + len(reply.message.calls):
            step = move.step
        before += len(reply.message.calls)
    did = f"{extra_call[0]} {extra_call[1]!r:.100}" if extra_call else "nothing more"
    due = f"{plain.call_keys[parted][0]} {plain.call_keys[parted][1]!r:.100}" if parted < len(plain.call_keys) else "nothing more"
    words = (
        f"although summaries keep every line with a fact or a receipt, the agent does {did} where it would do {due}: a value "
        "or the evidence of a step stands in no line that a pattern matches"
    )
    yield Finding(message=words, step=step, seed=seed)


def check_law_4(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Check that with empty summaries those checks fail that rest on what only the prompt said and was first needed afterwards.

    A policy that compacts late may find all of it used. That is the task's fault only if the default policy finds so too, and
    finds it of all that the user tells: a user who tells most things later (a `World`) leaves to the prompt what is used early.
    """
    empty, task = sessions.run_compacted(seed, preset, "scripted/empty"), sessions.make_task(seed)
    if not empty.compactions:
        yield Finding(message=f"the session is never compacted ({preset}); let it read or print more", seed=seed)
        return
    prompt_facts = find_prompt_only_facts(task)
    late = _find_late_facts(sessions, seed, prompt_facts, empty)
    if (
        prompt_facts
        and not late
        and not _find_late_facts(
            sessions, seed, _find_user_facts(task), sessions.run_compacted(seed, DEFAULT_PRESET, "scripted/empty")
        )
    ):
        words = "every fact that the user tells is used before the first compaction, so forgetting it costs nothing"
        yield Finding(message=words, fact=min(prompt_facts), seed=seed)
    for judged in empty.check_results:
        forgotten = sorted(set(judged.check.required_facts) & late)
        if forgotten and judged.passed:
            words = "it was forgotten before it was first needed, and the check passes"
            yield Finding(message=words, fact=forgotten[0], check=judged.check.name, seed=seed)


def _find_late_facts(sessions: SessionCache, seed: int, facts: set[str], run: Run) -> set[str]:
    """Return the facts that are first needed when a session was compacted already."""
    return {name for name in facts if run.compactions and _find_first_use(sessions, seed, name) >= run.compactions[0].step}


def find_prompt_only_facts(task: Task) -> set[str]:
    """Return the facts that the prompt tells, no later message tells again, and no call shows again."""
    late = "\n".join(message.text for message in task.later_messages)
    asked = _find_user_facts(task)
    return {fact.name for fact in task.facts if fact.name in asked and not read_values(late, fact)}


def _find_user_facts(task: Task) -> set[str]:
    """Return the facts that the user tells, at the start or later, and no call shows again."""
    return {fact.name for fact in task.facts if fact.said_in == "prompt" and fact.recover is None}


def _find_first_use(sessions: SessionCache, seed: int, fact: str) -> int:
    """Return the first request of the uncompacted session at which a step was taken that needs a fact."""
    needing = {step.name for step in sessions.make_task(seed).script.steps if fact in step.required_facts}
    return min((move.number for move in sessions.trace_moves(seed) if move.step in needing), default=0)


def check_law_7(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Check that every request is counted right, fits the window, and pairs calls with results.

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
