"""Laws of the session that is run again as it was: it repeats to the byte, and where it does not a step and a fact are named."""

from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest

from harness.compaction.presets.none import NoCompaction
from harness.messages import Message
from harness.task import Task
from harness.testing.laws.findings import Finding
from harness.testing.laws.scripts import about_check, values_in
from harness.testing.laws.sessions import Sessions, policy_of
from harness.testing.laws.simulation import HUGE, Run
from harness.testing.laws.tracing import shown_texts, trace
from harness.transcript import arguments

MOST_FILES = 5
"""That differ and are told."""


def repeats(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """The same session again makes the same calls, gets the same answers, leaves the same files and the same verdicts."""
    again = sessions.again(sessions.task(seed), NoCompaction(), HUGE)
    yield from differences(sessions.task(seed), sessions.uncompacted(seed), again, seed, "when the session is run again")


def repeats_when_compacted(sessions: Sessions, seed: int, preset: str) -> Iterator[Finding]:
    """A compacted session repeats to the byte."""
    tight = sessions.tight(seed)
    again = sessions.again(sessions.task(seed), tight.fitted(policy_of(preset)), tight.window_tokens)
    when = f"when a compacted session ({preset}) is run again"
    yield from differences(sessions.task(seed), sessions.compacted(seed, preset), again, seed, when)


def differences(task: Task, first: Run, again: Run, seed: int, when: str) -> Iterator[Finding]:
    """What differs between two sessions of a task that should be the same, each with the step and the fact behind it.

    Args:
        task: of both.
        first: of which the steps are told.
        again: what should be the same.
        seed: of the task.
        when: how the second came about, as the end of a sentence.
    """
    yield from _parting(task, first, again, seed, when)
    unlike = sorted(path for path in {*first.files, *again.files} if first.files.get(path) != again.files.get(path))
    for path in unlike[:MOST_FILES]:
        step = _last_about(task, path, first)
        fact = _fact(task, step, first.files.get(path, ""), again.files.get(path, ""))
        yield Finding(words=f"the file {path!r} differs {when}", step=step, fact=fact, seed=seed)
    for here, there in zip(first.judged, again.judged, strict=True):
        if here.passed != there.passed:
            yield about_check(task, here.check, f"its verdict differs {when}", seed)


def about_answer(task: Task, run: Run, at: int, where: str, seed: int) -> Finding:
    """The request of an index gets another answer somewhere; with its step and the first fact that this needs."""
    step = trace(task, run.requests)[at].step
    words = f"request {at + 1} gets another answer {where}"
    return Finding(words=words, step=step, fact=_fact(task, step, "", ""), seed=seed)


def _parting(task: Task, first: Run, again: Run, seed: int, when: str) -> Iterator[Finding]:
    """Where two sessions part: a request that differs shows another output, an answer to an equal one is another course."""
    digests = zip(*([step.request_digest for step in run.steps] for run in (first, again)), strict=False)
    replies = zip_longest(*([reply.message for _, reply in run.requests] for run in (first, again)))
    sent, taken = (next((at for at, (here, there) in enumerate(both) if here != there), None) for both in (digests, replies))
    moves = trace(task, first.requests) if (sent, taken) != (None, None) else ()
    if sent is not None and (taken is None or sent <= taken):
        step = moves[max(0, sent - 1)].step
        fact = _fact(task, step, *(_shown(run.requests[sent][0].messages) for run in (first, again)))
        yield Finding(words=f"its outputs differ {when}", step=step, fact=fact, seed=seed)
    elif taken is not None:
        step = moves[taken].step if taken < len(moves) else ""
        yield Finding(words=f"another course is taken {when}", step=step, fact=_fact(task, step, "", ""), seed=seed)


def _shown(messages: Iterable[Message]) -> str:
    """All that stands in some messages."""
    return "\n".join(text for message in messages for text in shown_texts(message))


def _fact(task: Task, step: str, here: str, there: str) -> str:
    """The fact that is read otherwise out of one text than out of another, or one that a step needs; empty = there is none."""
    otherwise = (fact.name for fact in task.facts if {*values_in(here, fact)} != {*values_in(there, fact)})
    needed = (name for one in task.script.steps if one.name == step for name in one.needs)
    return next(chain(otherwise, needed), "")


def _last_about(task: Task, path: str, run: Run) -> str:
    """The last step whose calls name a file by its path, or at least by its own name; empty = none does."""
    called = [
        (move.step, "\n".join(value for call in reply.message.calls for value in map(str, arguments(call).values())))
        for move, (_, reply) in zip(trace(task, run.requests), run.requests, strict=True)
    ]
    names = (path, path.rpartition("/")[2])
    return next((step for name in names for step, text in reversed(called) if step and name in text), "")
