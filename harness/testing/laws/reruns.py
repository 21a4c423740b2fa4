"""Laws of the session that is run again as it was: it repeats to the byte, and where it does not a step and a fact are named."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.compaction.presets.none import NoCompaction
from harness.errors import UsageError
from harness.messages import Message
from harness.sandboxes.action_cache import ActionCache, CachedSandbox
from harness.task import Task
from harness.testing.fresh_answers import Asked, answered_afresh, plain
from harness.testing.laws.findings import Finding
from harness.testing.laws.moves import shown_texts, trace
from harness.testing.laws.scripts import about_check, values_in
from harness.testing.laws.session_cache import DEFAULT, PRESETS, Sessions, most_steps, policy_of
from harness.testing.laws.simulation import ATTENTIVE, HUGE, Run, sandbox_for, session_in
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


def law_9(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """A compacted session through an empty cache, and through the one that this filled, is the one in a real sandbox.

    Nothing is kept in the sandbox `local`, and of a task that says that it cannot be.
    """
    task = sessions.task(seed)
    if not task.cacheable or sessions.sandbox.backend == "local":
        return
    real = sessions.compacted(seed, DEFAULT)
    with TemporaryDirectory() as folder, closing(ActionCache(Path(folder))) as cache:
        for kind in ("cold", "warm"):
            run, misses = _through(cache, sessions, seed)
            found = list(differences(task, real, run, seed, f"when commands are answered by a {kind} action cache"))
            yield from found
            if kind == "warm" and misses and not found:
                words = (
                    f"{misses} commands had to be run again although the action cache was warm; a command that leaves a process "
                    "or a file beside the workspace is not kept: let it not, or make the task with `cacheable=False`"
                )
                yield Finding(words=words, seed=seed)


def _through(cache: ActionCache, sessions: Sessions, seed: int) -> tuple[Run, int]:
    """A compacted session through a cache, and how many of its commands were run."""
    task, tight = sessions.task(seed), sessions.tight(seed)
    opened = sandbox_for(task, sessions.sandbox)
    with closing(CachedSandbox(opened, cache, kind=(sessions.sandbox, task.runtime), task=task.name)) as sandbox:
        policy, steps = tight.fitted(PRESETS[DEFAULT]), most_steps(task)
        run = session_in(sandbox, task, policy, window_tokens=tight.window_tokens, max_steps=steps)
        return run, sandbox.counts.misses


def law_10(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """Two requests of a compacted session, each sent to a process of its own that draws the task itself.

    A template that no other process can find is not asked.
    """
    if not sessions.name:
        return
    run = sessions.compacted(seed, DEFAULT)
    asked = Asked(sessions.name, seed, *ATTENTIVE, sessions.tight(seed).window_tokens)
    compacted = run.compactions[0].step - 1 if run.compactions else 0
    for at in sorted({(compacted + len(run.requests) - 1) // 2, compacted}, reverse=True):
        request, reply = run.requests[at]
        try:
            same = answered_afresh(asked, request) == plain(reply)
        except UsageError as error:
            yield Finding(words=str(error), seed=seed)
            return
        if not same:
            yield about_answer(sessions.task(seed), run, at, "in a process of its own", seed)
