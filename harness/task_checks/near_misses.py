"""Validity checks on verdicts about imperfect work: a value that is nearly right, missing or broken files, half of the work.

The work is made without a model: the calls of the recorded session are made again from the state of the workspace before the
first call that changes, with other values of some facts.
"""

import json
import re
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from string import Template

from harness.compaction.description import choose_truncation
from harness.compaction.presets.none import NoCompaction
from harness.conversation.messages import ToolCall
from harness.errors import SandboxError, ToolError, UsageError
from harness.protocols import Sandbox
from harness.session.grading import grade_workspace
from harness.task import CallTemplate, Fact, Submission, Task
from harness.task_checks.bounds import find_witness_checks, group_facts
from harness.task_checks.findings import Finding, Move
from harness.task_checks.simulation import SessionCache, WatchedRun, open_task_sandbox
from harness.tools import make_session_tools

MAX_NEAR_MISSES = 3
"""Largest number of near misses of one value."""


DAMAGES: tuple[Callable[[str], str], ...] = (
    lambda text: text[:0],
    lambda text: text.partition("\n")[2],
    lambda text: text.rstrip("\n").rpartition("\n")[0],
    lambda text: f"{text}{text}",
    lambda text: re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), text),
    lambda text: text.swapcase(),
    lambda text: re.sub(r"[ \t]", "", text),
)
"""Changes of a file that separate checks of different properties: fewer or more lines, other numbers or letters, no spaces."""


def list_near_misses(value: str, fact: Fact) -> dict[str, str]:
    """Return wrong values that are nearly equal to the value of a fact, by how they differ from it.

    The sign is changed only if the patterns of the fact can read a sign, since no agent would mistake the sign of a count.
    """
    numbers, letters = [*re.finditer(r"\d+", value)], [*re.finditer(r"[A-Za-z]", value)]
    near_misses: dict[str, str] = {}
    if numbers:
        (start, end), number = numbers[-1].span(), int(numbers[-1][0])
        other = number - 10 if number > 10 else number + 10
        near_misses["is one more"] = f"{value[:start]}{number + 1:0{end - start}}{value[end:]}"
        near_misses["ends with the same digit"] = f"{value[:start]}{other:0{end - start}}{value[end:]}"
    elif letters:
        for words, place in (("has another last letter", letters[-1].start()), ("has another first letter", letters[0].start())):
            near_misses[words] = value[:place] + _replace_letter(value[place]) + value[place + 1 :]
    if letters:
        near_misses["has the letters in the other case"] = value.swapcase()
    elif any("-?" in pattern for pattern in fact.patterns):
        near_misses["has another sign"] = value.removeprefix("-") if value.startswith("-") else f"-{value}"
    return near_misses


def _replace_letter(letter: str) -> str:
    """Return the next letter of the alphabet; the last one is followed by the first."""
    first = "a" if letter.islower() else "A"
    return chr((ord(letter) - ord(first) + 1) % 26 + ord(first))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Workshop:
    """Sandbox in which the recorded session of a task can be repeated with other values of its facts."""

    task: Task
    sandbox: Sandbox
    watched: WatchedRun
    moves: Sequence[Move]

    def find_failed_checks(self, values: Mapping[str, str]) -> set[str]:
        """Return the checks that fail if the agent uses other values of some facts."""
        first = next((move for move in self.moves if any(_uses(call, values) for call in move.calls)), None)
        if first is None:
            return set()
        self.sandbox.restore(self.watched.trees[first.number - 1])
        tools = {tool.spec.name: tool for tool in make_session_tools(choose_truncation(NoCompaction()), self.sandbox, None)}
        trees = self.watched.trees
        for move in self.moves[first.number - 1 :]:
            if move.number < len(trees) and trees[move.number].files == trees[move.number - 1].files:
                continue
            # a fact that the user has not yet revised has an earlier value, which stays
            changed = {fact: value for fact, value in values.items() if move.values[fact] == self.task.values[fact]}
            for call in move.calls:
                arguments = {name: Template(text).substitute({**move.values, **changed}) for name, text in call.arguments}
                tools[call.tool].run(ToolCall(call_id="near", name=call.tool, arguments_json=json.dumps(arguments)))
        return {graded.check.name for graded in grade_workspace(self.task, self.sandbox) if not graded.passed}

    def find_accepted_facts(self, values: Mapping[str, str]) -> list[str]:
        """Return those of the wrongly used facts for which no check fails that requires the fact and no other wrong one."""
        failed = self.find_failed_checks(values)
        return [name for name in values if failed.isdisjoint(find_witness_checks(self.task, name, [*values]))]


def _choose_grader(task: Task, watched: WatchedRun, sandbox: Sandbox) -> Task:
    """Return the task without running the agent's tests, if every check that requires a fact can do without them."""
    quick = _leave_out_tests(task)
    sandbox.restore(watched.trees[-1])
    is_enough = all(graded.passed for graded in grade_workspace(quick, sandbox) if graded.check.required_facts)
    return quick if is_enough else task


def _uses(call: CallTemplate, facts: Mapping[str, str]) -> bool:
    return any(not facts.keys().isdisjoint(Template(text).get_identifiers()) for _, text in call.arguments)


def check_near_misses(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that work with a value that is nearly right fails a check that requires the value.

    The wrong values are a number that is one more, one with the same last digit and, if its patterns read a sign, one
    with another sign; a text with another first or last letter, and one with the letters in the other case. Facts that no call of
    the script contains as a placeholder are left out.
    """
    task, watched = sessions.make_task(seed), sessions.watch(seed)
    moves = sessions.trace_moves(seed)
    used = {
        name for move in moves for call in move.calls for _, text in call.arguments for name in Template(text).get_identifiers()
    }
    near_misses = {
        fact.name: [*list_near_misses(task.values[fact.name], fact).items()] for fact in task.facts if fact.name in used
    }
    with closing(open_task_sandbox(task, sessions.sandbox).use_blobs(watched.blobs)) as sandbox:
        sandbox.start()
        workshop = _Workshop(task=_choose_grader(task, watched, sandbox), sandbox=sandbox, watched=watched, moves=moves)
        for number in range(MAX_NEAR_MISSES):
            wrong = {name: misses[number] for name, misses in near_misses.items() if number < len(misses)}
            for group in group_facts(task, [*wrong]):
                accepted = workshop.find_accepted_facts({name: wrong[name][1] for name in group})
                if len(group) > 1:
                    accepted = [name for name in accepted if workshop.find_accepted_facts({name: wrong[name][1]})]
                for name in accepted:
                    kind, value = wrong[name]
                    words = f"{value!r} instead of {task.values[name]!r} changes no verdict"
                    advice = "compare the whole value exactly, in a check that requires the fact"
                    yield Finding(f"{words}: the checks accept a value that {kind}; {advice}", fact=name, seed=seed)


def check_crashes(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the judge gives verdicts on unfinished work instead of raising an error.

    An error counts as a failure of every check that the judge has not decided yet, so one missing file would hide what an agent
    did achieve. The judge grades an empty workspace, the initial workspace, and the finished work whose changed files are
    empty or break off in the middle.
    """
    task, watched = sessions.make_task(seed), sessions.watch(seed)
    errors: list[BaseException] = []

    def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
        try:
            yield from task.grader.judge(submission)
        except (ToolError, UsageError, SandboxError):
            raise
        except Exception as error:
            errors.append(error)
            raise

    watching = replace(task, grader=replace(_leave_out_tests(task).grader, judge=judge))
    changed_texts = _read_changed_texts(task, watched)
    broken_works: dict[str, Callable[[str], str]] = {
        "if the files of the finished work are empty": lambda _: "",
        "if the files of the finished work break off in the middle": lambda text: text[: len(text) // 2],
    }
    with closing(open_task_sandbox(task, sessions.sandbox).use_blobs(watched.blobs)) as sandbox:
        sandbox.start()

        def grade(description: str) -> Iterator[Finding]:
            errors.clear()
            grade_workspace(watching, sandbox)
            for error in errors:
                place = f" (line {traceback.extract_tb(error.__traceback__)[-1].lineno})"
                words = f"the judge raises {type(error).__name__}: {error}{place} {description}, so every later check fails"
                yield Finding(f"{words}; let it give a verdict on each check, whatever the files contain", seed=seed)

        yield from grade("in an empty workspace")
        sandbox.restore(watched.trees[0])
        yield from grade("if nothing was done")
        for description, change in broken_works.items():
            sandbox.restore(watched.trees[-1])
            for path, text in changed_texts.items():
                sandbox.write(path, change(text).encode())
            yield from grade(description)


def _leave_out_tests(task: Task) -> Task:
    """Return a task whose grader does not run the agent's tests, which takes long and decides no check on a fact."""
    interviews = tuple(interview for interview in task.grader.interviews if not interview.changes)
    return replace(task, grader=replace(task.grader, interviews=interviews))


def _read_changed_texts(task: Task, watched: WatchedRun) -> dict[str, str]:
    """Return the text of each file that the agent made or changed, by path."""
    initial = dict(task.workspace)
    return {path: text for path, text in watched.read_texts(watched.trees[-1]).items() if initial.get(path) != text}


def check_duplicates(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that no two checks that require the same facts decide the same thing, which would then count twice.

    The verdicts are compared after parts of the session, and on the finished work with damaged files, until each check has
    differed from each other one with the same facts.
    """
    task, watched = sessions.make_task(seed), sessions.watch(seed)
    groups = defaultdict[frozenset[str], list[str]](list)
    for check in task.checks:
        groups[frozenset(check.required_facts)].append(check.name)
    equal_checks = [names for names in groups.values() if len(names) > 1]
    states = 0
    with closing(open_task_sandbox(task, sessions.sandbox).use_blobs(watched.blobs)) as sandbox:
        sandbox.start()
        for _state in _restore_states(task, watched, sandbox):
            if not equal_checks:
                return
            states += 1
            needs_tests = any(name in groups[frozenset()] for names in equal_checks for name in names)
            graded_task = task if needs_tests else _leave_out_tests(task)
            passed = {graded.check.name: graded.passed for graded in grade_workspace(graded_task, sandbox)}
            equal_checks = [
                part
                for names in equal_checks
                for part in ([name for name in names if passed[name] is verdict] for verdict in (True, False))
                if len(part) > 1
            ]
    for first, *others in equal_checks:
        for name in others:
            words = (
                f"has the same verdict as the check {first!r} on each of {states} states of the work, so one thing counts twice"
            )
            yield Finding(f"{words}; remove one of them, or let it look at something else", check=name, seed=seed)


def _restore_states(task: Task, watched: WatchedRun, sandbox: Sandbox) -> Iterator[None]:
    """Bring the workspace into one state of unfinished or damaged work after another, in which checks may differ.

    The first states are those in the middle of the session, of its halves, of its quarters, and so on.
    """
    trees = [after for before, after in pairwise(watched.trees) if before.files != after.files]
    shares = [numerator / size for size in (2, 4, 8, 16, 32) for numerator in range(1, size, 2)]
    for index in dict.fromkeys(int(share * len(trees)) for share in shares if trees):
        sandbox.restore(trees[index])
        yield
    for path, text in _read_changed_texts(task, watched).items():
        for damaged in dict.fromkeys(change(text) for change in DAMAGES):
            sandbox.restore(watched.trees[-1])
            sandbox.write(path, damaged.encode())
            yield
