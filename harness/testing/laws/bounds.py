"""Laws 1 to 4: what the window does to a session, between remembering everything and nothing."""

from collections.abc import Iterator

from harness.compaction.presets.none import NoCompaction
from harness.task import Task
from harness.testing.laws.findings import Finding
from harness.testing.laws.moves import trace
from harness.testing.laws.scripts import about_check, values_in
from harness.testing.laws.session_cache import DEFAULT, Sessions, policy_of
from harness.testing.laws.simulation import HUGE, Run


def law_1(sessions: Sessions, seed: int, preset: str) -> Iterator[Finding]:
    """In a window larger than the session, a policy whose trigger is relative to the window does nothing."""
    plain, other = sessions.uncompacted(seed), sessions.run(seed, policy_of(preset), HUGE)
    if other.compactions:
        yield Finding(words=f"compacted {len(other.compactions)} times in a window of {HUGE:,} tokens", seed=seed)
    yield from _same_course(plain, other, seed)
    for name in sorted(other.failed - plain.failed):
        yield Finding(words=f"fails under a policy ({preset}) that never acted", check=name, seed=seed)


def _same_course(plain: Run, other: Run, seed: int) -> Iterator[Finding]:
    """Both sessions did and left the same."""
    if plain.calls != other.calls:
        yield Finding(words="another course was taken although nothing was compacted", seed=seed)
    elif plain.files != other.files:
        yield Finding(words="other files were left although nothing was compacted", seed=seed)


def law_2(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """Without compaction a smaller window overflows at the step at which the session outgrows it."""
    window_tokens = sessions.tight(seed).window_tokens
    sizes = [step.usage.prompt_tokens for step in sessions.uncompacted(seed).steps]
    predicted = next((number for number, size in enumerate(sizes, start=1) if size > window_tokens), None)
    if predicted is None:
        words = f"the session never fills a window, it ends at {max(sizes):,} tokens: let it read or print more"
        yield Finding(words=words, seed=seed)
        return
    small = sessions.run(seed, NoCompaction(), window_tokens)
    if (small.outcome.reason, small.outcome.steps) != ("overflow", predicted - 1):
        words = (
            f"a window of {window_tokens:,} tokens without compaction should overflow at request {predicted}; the session "
            f"ended by {small.outcome.reason} after {small.outcome.steps}"
        )
        yield Finding(words=words, seed=seed)


def law_3(sessions: Sessions, seed: int, preset: str) -> Iterator[Finding]:
    """With oracle summaries every check passes, and nothing is done that would not be done without compaction."""
    plain, oracle = sessions.uncompacted(seed), sessions.compacted(seed, preset, "scripted/oracle")
    if not oracle.compactions:
        yield Finding(words=f"the session is never compacted ({preset}); let it read or print more", seed=seed)
    for judged in oracle.judged:
        if not judged.passed:
            words = f"fails although summaries keep every line with a fact: {judged.detail}"
            yield about_check(sessions.task(seed), judged.check, words, seed)
    yield from _extra_acts(sessions.task(seed), plain, oracle, seed)


def _extra_acts(task: Task, plain: Run, oracle: Run, seed: int) -> Iterator[Finding]:
    """The first act that one session has and the other has not, with the step behind it."""
    acts = zip([*plain.acts, None], [*oracle.acts, None], strict=False)
    parted = next((number for number, (here, there) in enumerate(acts) if here != there), None)
    if parted is None:
        return
    made = oracle.acts[parted] if parted < len(oracle.acts) else None
    moves = trace(task, oracle.requests)
    before = 0
    step = ""
    for move, (_, reply) in zip(moves, oracle.requests, strict=True):
        if before <= parted < before + len(reply.message.calls):
            step = move.step
        before += len(reply.message.calls)
    did = f"{made[0]} {made[1]!r:.100}" if made else "nothing more"
    due = f"{plain.acts[parted][0]} {plain.acts[parted][1]!r:.100}" if parted < len(plain.acts) else "nothing more"
    words = (
        f"although summaries keep every line with a fact or a receipt, the agent does {did} where it would do {due}: a value "
        "or the evidence of a step stands in no line that a pattern matches"
    )
    yield Finding(words=words, step=step, seed=seed)


def law_4(sessions: Sessions, seed: int, preset: str) -> Iterator[Finding]:
    """With empty summaries the checks fail that rest on what only the prompt said and what was first needed afterwards.

    A policy that compacts late may find all of it used. That is the task's fault only if the default policy finds so too, and
    finds it of all that the user tells: a user who tells most things later (a `World`) leaves to the prompt what is used early.
    """
    empty, task = sessions.compacted(seed, preset, "scripted/empty"), sessions.task(seed)
    if not empty.compactions:
        yield Finding(words=f"the session is never compacted ({preset}); let it read or print more", seed=seed)
        return
    told = prompt_only(task)
    late = _needed_late(sessions, seed, told, empty)
    if told and not late and not _needed_late(sessions, seed, _asked(task), sessions.compacted(seed, DEFAULT, "scripted/empty")):
        words = "every fact that the user tells is used before the first compaction, so forgetting it costs nothing"
        yield Finding(words=words, fact=min(told), seed=seed)
    for judged in empty.judged:
        forgotten = sorted(set(judged.check.rests_on) & late)
        if forgotten and judged.passed:
            words = "it was forgotten before it was first needed, and the check passes"
            yield Finding(words=words, fact=forgotten[0], check=judged.check.name, seed=seed)


def _needed_late(sessions: Sessions, seed: int, told: set[str], run: Run) -> set[str]:
    """Facts that are first needed when a session was compacted already."""
    return {name for name in told if run.compactions and _first_use(sessions, seed, name) >= run.compactions[0].step}


def prompt_only(task: Task) -> set[str]:
    """Facts that the prompt tells, no later message tells again, and no call shows again."""
    late = "\n".join(message.text for message in task.later)
    asked = _asked(task)
    return {fact.name for fact in task.facts if fact.name in asked and not values_in(late, fact)}


def _asked(task: Task) -> set[str]:
    """Facts that the user tells, at the start or later, and no call shows again."""
    return {fact.name for fact in task.facts if fact.said_in == "prompt" and fact.recover is None}


def _first_use(sessions: Sessions, seed: int, fact: str) -> int:
    """The first request of the uncompacted session at which a step was taken that needs a fact."""
    needing = {step.name for step in sessions.task(seed).script.steps if fact in step.needs}
    return min((move.number for move in sessions.moves(seed) if move.step in needing), default=0)
