"""Laws of the session in which nothing is forgotten, and of the one in which nothing is done."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from harness.compaction.presets.none import NoCompaction
from harness.testing.laws.findings import Finding, find_first_needing_step, make_check_finding, read_values
from harness.testing.laws.moves import Move, list_shown_texts
from harness.testing.laws.session_cache import SessionCache
from harness.testing.laws.simulation import HUGE_WINDOW_TOKENS


def check_success(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that an agent that forgets nothing finishes the script and passes every check."""
    plain = sessions.run_uncompacted(seed)
    if plain.outcome.reason != "replied":
        words = f"the session does not end by itself: {plain.outcome.reason} after {plain.outcome.steps} model calls"
        yield Finding(message=words, seed=seed, step=_find_last_step(sessions.trace_moves(seed)))
    for judged in plain.check_results:
        if not judged.passed:
            words = f"fails although nothing was forgotten: {judged.detail or 'the grader gave no reason'}"
            yield make_check_finding(sessions.make_task(seed), judged.check, words, seed)


def _find_last_step(moves: tuple[Move, ...]) -> str:
    return next((move.step for move in reversed(moves) if move.step), "")


def check_sight(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that no step takes a value that nothing has shown yet."""
    reported_facts: set[tuple[str, str]] = set()
    for move in sessions.trace_moves(seed):
        for name in move.guessed_facts:
            if (move.step, name) not in reported_facts:
                reported_facts.add((move.step, name))
                words = (
                    "it takes this value from the prior, since nothing before it shows the value in words that a pattern reads"
                )
                yield Finding(message=words, step=move.step, fact=name, seed=seed)


def check_readings(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that patterns read no other value out of the session, outputs and the agent's own words included."""
    task = sessions.make_task(seed)
    shown = list(_list_texts_by_step(sessions, seed))
    for fact in task.facts:
        if fact.is_superseded:
            continue
        others = {other: step for step, text in reversed(shown) for other in read_values(text, fact)}
        for other, step in sorted(others.items()):
            if other != task.values[fact.name]:
                words = f"its patterns read {other!r} in the course of the session, and its value is {task.values[fact.name]!r}"
                yield Finding(message=words, step=step or find_first_needing_step(task, fact.name), fact=fact.name, seed=seed)


def _list_texts_by_step(sessions: SessionCache, seed: int) -> Iterator[tuple[str, str]]:
    """Return every text that the session shows, with the step that brought it about; empty = none did."""
    requests = sessions.run_uncompacted(seed).requests
    last, reply = requests[-1]
    began = [len(request.messages) for request, _ in requests]
    for at, message in enumerate((*last.messages, reply.message)):
        move = bisect_right(began, at) - 1
        yield from ((sessions.trace_moves(seed)[move].step if move >= 0 else "", text) for text in list_shown_texts(message))


def check_evidence(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that every step is taken, and none again that was not repaired: what it leaves, and nothing else, shows it done."""
    moves = sessions.trace_moves(seed)
    taken = Counter(move.step for move in moves if move.kind == "step")
    repaired = Counter(move.step for move in moves if move.kind == "repair")
    for step in sessions.make_task(seed).script.steps:
        if not taken[step.name]:
            if (before := _find_showing_step(step.name, moves)) is not None:
                words = f"it is never taken, since what the step {before!r} leaves shows it done too"
                yield Finding(message=words, step=step.name, seed=seed)
        elif taken[step.name] > 1 + repaired[step.name]:
            words = f"it is taken {taken[step.name]} times: it fails, or nothing that it leaves shows it done"
            yield Finding(message=words, step=step.name, seed=seed)


def _find_showing_step(step: str, moves: tuple[Move, ...]) -> str | None:
    """Return the step after which another one counted as done; None = it never did."""
    for before, move in pairwise(moves):
        if step in move.done_steps:
            return before.step
    return "(none)" if moves and step in moves[0].done_steps else None


def check_idle(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that an agent that does nothing passes no check, neither with the files of the workspace nor in an empty one."""
    idle = replace(sessions.make_task(seed), script=replace(sessions.make_task(seed).script, steps=()))
    ways = {"although nothing was done": idle, "in an empty workspace": replace(idle, workspace=())}
    reported_checks: set[str] = set()
    for how, task in ways.items():
        for judged in sessions.run_uncached(task, NoCompaction(), HUGE_WINDOW_TOKENS).check_results:
            if judged.passed and judged.check.name not in reported_checks:
                reported_checks.add(judged.check.name)
                words = f"passes {how}; demand something that only the work brings about"
                yield make_check_finding(sessions.make_task(seed), judged.check, words, seed)
