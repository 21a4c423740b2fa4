"""Validity checks of a task that need no compaction: the full session passes, an idle agent passes nothing, files are valid."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

from harness.errors import ToolError
from harness.models.scripted.visible_state import extract_searchable_text
from harness.task_checks.findings import (
    Finding,
    Move,
    find_first_needing_step,
    make_check_finding,
    read_values,
)
from harness.task_checks.simulation import SessionCache, open_task_sandbox


def check_success(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that an agent that sees the whole conversation finishes the script and passes every check."""
    plain = sessions.run(seed)
    if plain.outcome.reason != "replied":
        words = f"the session does not end on its own: {plain.outcome.reason} after {plain.outcome.steps} model calls"
        yield Finding(words, seed=seed, step=_find_last_step(sessions.trace_moves(seed)))
    for judged in plain.check_results:
        if not judged.passed:
            words = f"fails although nothing was evicted: {judged.detail or 'the grader gave no reason'}"
            yield make_check_finding(sessions.make_task(seed), judged.check, words, seed)


def _find_last_step(moves: tuple[Move, ...]) -> str:
    return next((move.step for move in reversed(moves) if move.step), "")


def check_sight(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the script uses no value before a message of the session has shown it.

    The values are the facts of the task, which the agent must know.
    """
    reported_facts: set[tuple[str, str]] = set()
    for move in sessions.trace_moves(seed):
        for name in move.guessed_facts:
            if (move.step, name) not in reported_facts:
                reported_facts.add((move.step, name))
                words = "the step uses the prior of this fact, since its patterns read no value from earlier messages"
                yield Finding(words, step=move.step, fact=name, seed=seed)


def check_readings(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that no text pattern of a fact finds a wrong value in the session's texts.

    The texts are the messages and the tool outputs.
    """
    task = sessions.make_task(seed)
    texts = list(_list_texts_by_step(sessions, seed))
    for fact in task.facts:
        if fact.is_superseded:
            continue
        steps_by_value = {other: step for step, text in reversed(texts) for other in read_values(text, fact)}
        for other, step in sorted(steps_by_value.items()):
            if other != task.values[fact.name]:
                words = f"its patterns read {other!r} from the session, but its value is {task.values[fact.name]!r}"
                yield Finding(words, step=step or find_first_needing_step(task, fact.name), fact=fact.name, seed=seed)


def _list_texts_by_step(sessions: SessionCache, seed: int) -> Iterator[tuple[str, str]]:
    """Yield the step that led to each message, and its text; the messages of the first request have no step."""
    requests = sessions.run(seed).requests
    last, reply = requests[-1]
    began = [len(request.messages) for request, _ in requests]
    for index, message in enumerate((*last.messages, reply.message)):
        move = bisect_right(began, index) - 1
        yield sessions.trace_moves(seed)[move].step if move >= 0 else "", extract_searchable_text(message)


def check_evidence(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the agent recognizes which steps of the script are done.

    It must take each step once, or again after it repaired an error of the step. No step may look done because of another step.
    """
    moves = sessions.trace_moves(seed)
    step_counts = Counter(move.step for move in moves if move.kind == "step")
    repair_counts = Counter(move.step for move in moves if move.kind == "repair")
    for step in sessions.make_task(seed).script.steps:
        if not step_counts[step.name]:
            before = next((before.step for before, move in pairwise(moves) if step.name in move.done_steps), None)
            if before is not None:
                words = f"the step is never taken, because the evidence of the step {before!r} shows it done as well"
                yield Finding(words, step=step.name, seed=seed)
        elif step_counts[step.name] > 1 + repair_counts[step.name]:
            words = f"the step is taken {step_counts[step.name]} times: it fails, or its evidence does not appear"
            yield Finding(words, step=step.name, seed=seed)


def check_idle(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that an agent that does nothing passes no check of the task.

    The initial workspace and an empty workspace are graded.
    """
    idle = replace(sessions.make_task(seed), script=replace(sessions.make_task(seed).script, steps=()))
    ways = {"although nothing was done": idle, "in an empty workspace": replace(idle, workspace=())}
    reported_checks: set[str] = set()
    for how, task in ways.items():
        for judged in sessions.run_uncached(task).check_results:
            if judged.passed and judged.check.name not in reported_checks:
                reported_checks.add(judged.check.name)
                words = f"passes {how}; check for something that only the work produces"
                yield make_check_finding(sessions.make_task(seed), judged.check, words, seed)


def check_files(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that each file of the task has a path and content that can be written into a workspace."""
    task = sessions.make_task(seed)
    with closing(open_task_sandbox(task, sessions.sandbox)) as sandbox:
        sandbox.start()
        for path, text in task.workspace:
            try:
                sandbox.write(path, text.encode())
            except ToolError as error:
                yield Finding(f"the file {path!r} cannot be written: {error}", seed=seed)
