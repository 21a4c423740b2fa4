"""Laws of the session in which nothing is forgotten, and of the one in which nothing is done."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from harness.compaction.presets.none import NoCompaction
from harness.messages import Message, ToolCall, part_text
from harness.task import Check
from harness.testing.laws.findings import Finding
from harness.testing.laws.scripts import values_in
from harness.testing.laws.sessions import Sessions
from harness.testing.laws.simulation import HUGE, Run
from harness.testing.laws.tracing import Move
from harness.transcript import arguments


def succeeds(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """Who forgets nothing finishes the script and passes every check."""
    plain = sessions.uncompacted(seed)
    if plain.outcome.reason != "replied":
        words = f"the session does not end by itself: {plain.outcome.reason} after {plain.outcome.steps} model calls"
        yield Finding(words=words, seed=seed, step=_last_step(sessions.moves(seed)))
    for judged in plain.judged:
        if not judged.passed:
            words = f"fails although nothing was forgotten: {judged.detail or 'the grader gave no reason'}"
            yield Finding(words=words, check=judged.check.name, seed=seed)


def _last_step(moves: tuple[Move, ...]) -> str:
    return next((move.step for move in reversed(moves) if move.step), "")


def guesses_nothing(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """No step takes a value that nothing has shown yet."""
    told: set[tuple[str, str]] = set()
    for move in sessions.moves(seed):
        for name in move.guessed:
            if (move.step, name) not in told:
                told.add((move.step, name))
                words = (
                    "it takes this value from the prior, since nothing before it shows the value in words that a pattern reads"
                )
                yield Finding(words=words, step=move.step, fact=name, seed=seed)


def reads_right(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """Patterns read no other value out of anything that the session shows, outputs and the agent's own words included."""
    task = sessions.task(seed)
    last, reply = sessions.uncompacted(seed).requests[-1]
    texts = [text for message in (*last.messages, reply.message) for text in _texts(message)]
    for fact in task.facts:
        if fact.superseded:
            continue
        others = {other for text in texts for other in values_in(text, fact)} - {task.values[fact.name]}
        for other in sorted(others):
            words = f"its patterns read {other!r} in the course of the session, and its value is {task.values[fact.name]!r}"
            yield Finding(words=words, fact=fact.name, seed=seed)


def shows_each_step_done(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """Every step is taken, and none again that was not repaired: what it leaves shows it done, and nothing else does."""
    moves = sessions.moves(seed)
    taken = Counter(move.step for move in moves if move.kind == "step")
    repaired = Counter(move.step for move in moves if move.kind == "repair")
    for step in sessions.task(seed).script.steps:
        if not taken[step.name]:
            if (before := _shown_by(step.name, moves)) is not None:
                words = f"it is never taken, since what the step {before!r} leaves shows it done too"
                yield Finding(words=words, step=step.name, seed=seed)
        elif taken[step.name] > 1 + repaired[step.name]:
            words = f"it is taken {taken[step.name]} times: it fails, or nothing that it leaves shows it done"
            yield Finding(words=words, step=step.name, seed=seed)


def _shown_by(step: str, moves: tuple[Move, ...]) -> str | None:
    """The step after which another one counted as done; None = it never did."""
    for before, move in pairwise(moves):
        if step in move.done:
            return before.step
    return "(none)" if moves and step in moves[0].done else None


def nothing_done_passes_nothing(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """Who does nothing passes no check, neither with the files of the workspace nor in an empty one."""
    idle = replace(sessions.task(seed), script=replace(sessions.task(seed).script, steps=()))
    ways = {"although nothing was done": idle, "in an empty workspace": replace(idle, workspace=())}
    told: set[str] = set()
    for how, task in ways.items():
        for judged in sessions.again(task, NoCompaction(), HUGE).judged:
            if judged.passed and judged.check.name not in told:
                told.add(judged.check.name)
                words = f"passes {how}; demand something that only the work brings about{_resting(judged.check)}"
                yield Finding(words=words, check=judged.check.name, seed=seed)


def _resting(check: Check) -> str:
    """The facts that a check rests on, as the end of a sentence."""
    return f" (it rests on {', '.join(map(repr, check.rests_on))})" if check.rests_on else ""


def repeats(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """The same session again makes the same calls, gets the same answers, leaves the same files and the same verdicts."""
    first, again = sessions.uncompacted(seed), sessions.again(sessions.task(seed), NoCompaction(), HUGE)
    digests = [[step.request_digest for step in run.steps] for run in (first, again)]
    moves = sessions.moves(seed)
    differing = [index for index, (here, there) in enumerate(zip(*digests, strict=False)) if here != there]
    if differing:
        before = moves[max(0, differing[0] - 1)]
        yield Finding(words="its outputs differ when the session is run again", step=before.step, seed=seed)
    elif len(digests[0]) != len(digests[1]) or first.calls != again.calls:
        yield Finding(words="the session takes another course when it is run again", seed=seed)
    for path in sorted(path for path in {*first.files, *again.files} if first.files.get(path) != again.files.get(path))[:5]:
        words = f"the file {path!r} differs when the session is run again"
        yield Finding(words=words, step=_last_about(path, first, moves), seed=seed)
    for here, there in zip(first.judged, again.judged, strict=True):
        if here.passed != there.passed:
            words = f"its verdict differs when the session is run again{_resting(here.check)}"
            yield Finding(words=words, check=here.check.name, seed=seed)


def _last_about(path: str, run: Run, moves: tuple[Move, ...]) -> str:
    """The last step whose calls name a file by its path, or at least by its own name; empty = none does."""
    called = [
        (move.step, "\n".join(value for call in reply.message.calls for value in map(str, arguments(call).values())))
        for move, (_, reply) in zip(moves, run.requests, strict=True)
    ]
    names = (path, path.rpartition("/")[2])
    return next((step for name in names for step, text in reversed(called) if step and name in text), "")


def _texts(message: Message) -> Iterator[str]:
    """What a message shows: its text, its results, and what its calls wrote."""
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield from (value for value in arguments(part).values() if isinstance(value, str))
        else:
            yield part_text(part)
