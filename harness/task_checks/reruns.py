"""Validity checks about repetition: a session or a request that is run again gives identical results."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.conversation.transcript import parse_arguments
from harness.errors import UsageError
from harness.models.factory import open_model
from harness.models.scripted.visible_state import extract_searchable_text
from harness.sandboxes.action_cache import ActionCache, CachedSandbox
from harness.sandboxes.backends import is_isolated
from harness.task import Grader, Task
from harness.task_checks import shifted_clock
from harness.task_checks.findings import Finding, LawSkippedError, make_check_finding, read_values, trace
from harness.task_checks.fresh_model import FreshModelSpec, answer_in_fresh_process, encode_reply
from harness.task_checks.shifted_clock import ShiftedClockSandbox
from harness.task_checks.simulation import (
    Run,
    SessionCache,
    open_task_sandbox,
)

NO_GRADER = Grader(judge=lambda _: ())
MAX_REPEATED_REQUESTS = 15
"""Maximum number of requests of a session that are sent again to a newly created model."""
MAX_REPORTED_FILES = 5
"""Maximum number of files that are reported as different between two runs of a session."""


def check_repeat(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that a session without compaction gives the same results when it is run again.

    The tool calls, answers, files and verdicts must be the same.
    """
    second_run = sessions.watch(seed).run
    yield from find_differences(sessions.make_task(seed), sessions.run(seed), second_run, seed, "when the session is run again")


def check_other_day(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that a session without compaction is the same when its commands run on another day.

    The commands then also have other process ids and see other times of files.

    Raises:
        LawSkippedError: The clock of commands cannot be changed on this machine or in this sandbox.
    """
    library = shifted_clock.find_library()
    if library is None:
        raise LawSkippedError(shifted_clock.INSTALL_ADVICE)
    if not is_isolated(sessions.sandbox.backend):
        raise LawSkippedError(f"commands of the sandbox {sessions.sandbox.backend!r} would leave shared memory on this machine")
    task = sessions.make_task(seed)
    with closing(ShiftedClockSandbox(open_task_sandbox(task, sessions.sandbox), library)) as sandbox:
        run = sessions.run_uncached(task, sandbox=sandbox)
        error = abs(sandbox.measure_shift() - shifted_clock.SHIFT_SECONDS)
    if error > shifted_clock.MAX_ERROR_SECONDS:
        raise LawSkippedError("libfaketime does not work in this sandbox; it needs glibc on the architecture of this machine")
    when = "when the session is run again on another day, with other process ids and other times of files"
    yield from find_differences(task, sessions.run(seed), run, seed, when)


def check_compacted_repeat(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Check that a session with compaction gives the same results when it is run again.

    The requests, answers, files and verdicts must be the same.
    """
    second_run = sessions.run_uncached(sessions.make_task(seed), *sessions.scale_to_small_window(seed, preset))
    when = f"when a compacted session ({preset}) is run again"
    yield from find_differences(sessions.make_task(seed), sessions.run_compacted(seed, preset), second_run, seed, when)


def find_differences(task: Task, first: Run, second: Run, seed: int, when: str) -> Iterator[Finding]:
    """Report each difference between two sessions that should be equal.

    Each finding names the step and the fact at fault.

    Args:
        task: Task that both sessions work on.
        first: First session, whose steps are named in the findings.
        second: Second session, which should be equal to the first.
        seed: Seed of the task, which each finding states.
        when: Phrase at the end of each message that says how the second session was made, e.g. `when the session is run again`.
    """
    yield from _find_divergence(task, first, second, seed, when)
    unlike = sorted(path for path in {*first.files, *second.files} if first.files.get(path) != second.files.get(path))
    for path in unlike[:MAX_REPORTED_FILES]:
        step = _find_last_step_about(task, path, first)
        fact = _find_fact(task, step, first.files.get(path, ""), second.files.get(path, ""))
        yield Finding(f"the file {path!r} differs {when}", step=step, fact=fact, seed=seed)
    for result, second_result in zip(first.check_results, second.check_results, strict=True):
        if result.passed != second_result.passed:
            yield make_check_finding(task, result.check, f"its verdict differs {when}", seed)


def make_answer_finding(task: Task, run: Run, index: int, where: str, seed: int) -> Finding:
    """Return an error report (a finding) for a repeated request that got another answer.

    The finding names the step at fault and a fact that this step needs.
    """
    step = trace(task, run.requests)[index].step
    return Finding(f"request {index + 1} gets another answer {where}", step=step, fact=_find_fact(task, step, "", ""), seed=seed)


def _find_divergence(task: Task, first: Run, second: Run, seed: int, when: str) -> Iterator[Finding]:
    """Report the first request or answer in which two sessions differ.

    If the requests differ, a tool output before them differed. If only the answers differ, the agent itself acted differently.
    """
    # one session may have stopped earlier: then only the requests that both sent are compared, but all replies
    digests = zip(*([step.request_digest for step in run.steps] for run in (first, second)), strict=False)
    replies = zip_longest(*([reply.message for _, reply in run.requests] for run in (first, second)))
    request, answer = _find_first_difference(digests), _find_first_difference(replies)
    moves = trace(task, first.requests) if (request, answer) != (None, None) else ()
    if request is not None and (answer is None or request <= answer):
        step = moves[max(0, request - 1)].step
        texts = ("\n".join(map(extract_searchable_text, run.requests[request][0].messages)) for run in (first, second))
        fact = _find_fact(task, step, *texts)
        yield Finding(f"the tool outputs differ {when}", step=step, fact=fact, seed=seed)
    elif answer is not None:
        step = moves[answer].step if answer < len(moves) else ""
        yield Finding(f"the agent makes other calls {when}", step=step, fact=_find_fact(task, step, "", ""), seed=seed)


def _find_first_difference(pairs: Iterable[tuple[object, ...]]) -> int | None:
    return next((index for index, (first, second) in enumerate(pairs) if first != second), None)


def _find_fact(task: Task, step: str, text: str, other_text: str) -> str:
    """Return a fact whose values in two texts differ, else a fact that the step needs; empty if there is none."""
    otherwise = (fact.name for fact in task.facts if {*read_values(text, fact)} != {*read_values(other_text, fact)})
    facts = (name for script_step in task.script.steps if script_step.name == step for name in script_step.required_facts)
    return next(chain(otherwise, facts), "")


def _find_last_step_about(task: Task, path: str, run: Run) -> str:
    step_numbers = [
        (move.step, "\n".join(value for call in reply.message.calls for value in map(str, parse_arguments(call).values())))
        for move, (_, reply) in zip(trace(task, run.requests), run.requests, strict=True)
    ]
    names = (path, path.rpartition("/")[2])
    return next((step for name in names for step, text in reversed(step_numbers) if step and name in text), "")


def check_same_answer(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Check that the answers of the model depend on the request alone.

    Requests of a compacted session are sent again in reverse order, each to a new model, which must give the same answer. The new
    model is made from a task without answer key, prompt, files and checks.
    """
    run, small_window = sessions.run_compacted(seed, preset, is_graded=False), sessions.choose_small_window(seed)
    trade = replace(sessions.make_task(seed), values={}, prompt="", workspace=(), later_messages=(), checks=(), grader=NO_GRADER)
    stride = max(1, len(run.requests) // MAX_REPEATED_REQUESTS)
    for number in reversed(range(0, len(run.requests), stride)):
        request, reply = run.requests[number]
        fresh = open_model(sessions.model_spec.full_name, task=trade, seed=1, window_tokens=small_window.window_tokens)
        if fresh.reply(request).message != reply.message:
            yield make_answer_finding(sessions.make_task(seed), run, number, "from a new model", seed)


def check_law_9(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that an action cache does not change a session's result.

    A compacted session is run with an empty cache, and again with the cache that this run has filled. The check is skipped for
    sandboxes without isolation and for tasks that are not cacheable.
    """
    task = sessions.make_task(seed)
    if not task.cacheable or not is_isolated(sessions.sandbox.backend):
        return
    real = sessions.run_compacted(seed)
    with TemporaryDirectory() as folder, closing(ActionCache(Path(folder))) as cache:
        for kind in ("cold", "warm"):
            run, misses = _run_through_cache(cache, sessions, seed)
            findings = list(find_differences(task, real, run, seed, f"when a {kind} action cache answers commands"))
            yield from findings
            if kind == "warm" and misses and not findings:
                words = (
                    f"{misses} commands were executed again although the action cache was warm; a command that leaves a process "
                    "or a file outside the workspace is not cached: change the command, or create the task with `cacheable=False`"
                )
                yield Finding(words, seed=seed)


def _run_through_cache(cache: ActionCache, sessions: SessionCache, seed: int) -> tuple[Run, int]:
    """Run a compacted session with an action cache, and return it with the number of cache misses."""
    task = sessions.make_task(seed)
    policy, window_tokens = sessions.scale_to_small_window(seed)
    opened = open_task_sandbox(task, sessions.sandbox)
    with closing(CachedSandbox(opened, cache, kind=(sessions.sandbox, task.runtime), task=task.name)) as sandbox:
        run = sessions.run_uncached(task, policy, window_tokens, sandbox=sandbox)
        return run, sandbox.counts.misses


def check_law_10(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the model gives the same answers in a new process, which makes the task from the seed.

    Two requests of a compacted session are repeated. The check is skipped for templates that no other process can find.
    """
    if not sessions.name:
        return
    run = sessions.run_compacted(seed, is_graded=False)
    model, window_tokens = sessions.model_spec, sessions.choose_small_window(seed).window_tokens
    model_spec = FreshModelSpec(sessions.name, sessions.difficulty, seed, model.full_name, model.seed, window_tokens)
    kept_steps = run.compactions[0].step - 1 if run.compactions else 0
    for index in sorted({(kept_steps + len(run.requests) - 1) // 2, kept_steps}, reverse=True):
        request, reply = run.requests[index]
        try:
            is_same = answer_in_fresh_process(model_spec, request) == encode_reply(reply)
        except UsageError as error:
            yield Finding(str(error), seed=seed)
            return
        if not is_same:
            yield make_answer_finding(sessions.make_task(seed), run, index, "in a new process", seed)
