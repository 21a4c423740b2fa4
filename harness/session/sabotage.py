"""Check that the tests an agent wrote can fail: they run several times, in some runs with a function that is wrong on purpose.

Good tests pass while the agent's code is right, and fail when a function of the specification returns something wrong. Tests that
test nothing could try to recognise the runs in which they have to fail. Therefore:

- Each run but one changes the source of several functions by small edits, at every `return` (in TypeScript, at the head of the
  function). Most edits change nothing that the function returns, so tests that fail because a file, its syntax tree or its
  bytecode differs from a copy fail in runs in which they must pass.
- In the other runs, one of the edited functions returns something wrong. Which runs, which functions and which edits is random.
- An edit replaces a returned value under a condition on this value, such as `hasattr(value, "title")`. Whether the condition
  holds can be found out only with a value that the function returns. The form of the edit, and whether its condition holds, do
  not depend on what the edit does.

Functions and tests are found by a program that only parses the files, before any code of the agent runs; see
`harness.sandboxes.toolserver.surveyor`. Tests that call every function, and compare the results with stored ones or with those
of a copy, pass. They are tests.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, Literal, NamedTuple

from harness.task import FunctionChange, Interview

EDITED_RUNS = 6
"""Number of runs with edits of an interview that changes functions. One more run has no edit."""
WRONG_RUNS = (3, 4)
"""Possible numbers of runs in which a function is wrong; the others take longer, since tests can stop at the first failure."""
PATTERNS = tuple(pattern for pattern in itertools.product((False, True), repeat=EDITED_RUNS) if pattern.count(True) in WRONG_RUNS)
"""The 35 possible sequences of right (False) and wrong (True) runs with edits, so the chance to guess the drawn one is 1/35."""
EDITED_FUNCTIONS = 4
"""Number of functions that are edited in a run, if as many were found."""
MIN_FOUND = 3
"""Minimum number of functions that must be found, or all if fewer are asked for; else the interview is not held."""
SURVEY: Final = "survey"
"""Name of the answer that holds the number of tests, and the functions that were not found."""

RunKind = Literal["plain", "right", "wrong", "broken"]
_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "number": ("conjugate", "real", "__abs__"),
    "text": ("title", "zfill", "isalpha"),
    "list": ("__iter__",),
}
"""Attributes in Python that a returned value has, by its kind; for an object, the change of the function names them."""
_SCRIPT_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "number": ("toFixed", "toPrecision", "toExponential"),
    "text": ("padStart", "trimEnd", "charCodeAt"),
    "list": ("flatMap", "findIndex", "copyWithin"),
}
"""Attributes in TypeScript that a returned value has, by its kind."""
_IN_PYTHON, _IN_SCRIPT = "hasattr({subject}, {name!r})", "{name!r} in Object({subject})"
_SCRIPT_ENDINGS = (".ts", ".tsx", ".js", ".mjs")


class Survey(NamedTuple):
    """Content of the sources in a workspace, as the program `surveyor` lists it without running them."""

    texts: Mapping[str, str]
    """Text of each file with functions that can be changed, by path."""
    functions: Sequence[tuple[str, str, Sequence[Sequence[int]]]]
    """Path and name of each function that can be changed, and the positions in the text at which this is done."""
    tests: int
    """Number of tests that the agent wrote."""


NO_SURVEY: Final = Survey({}, (), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run of an interview, with the names of its answers."""

    interview: Interview
    """Interview as it is held, in which each answer has a name that no other run uses."""
    names: Mapping[str, str]
    """Name that the judge uses for each answer, by the name of the answer in this run."""
    is_repeated: bool
    """Whether the interview has several runs, so that the judge gets a list with one answer for each run."""
    replaced: tuple[tuple[str, str], ...] = ()
    """Path of each file of the workspace that has another text in this run, with this text."""


class _Found(NamedTuple):
    """Function that can be changed."""

    change: FunctionChange
    places: Sequence[Sequence[int]]


def list_missing(interviews: Iterable[Interview], survey: Survey) -> list[str]:
    """Return path and name of each function that the interviews change and that was not found."""
    missing = (change for interview in interviews for change in interview.changes if not _find_function(change, survey))
    return [f"{change.path}: {change.function or 'any function'}" for change in missing]


def plan_runs(interviews: Sequence[Interview], survey: Survey, rng: Random) -> list[PlannedRun]:
    """Return the runs of all interviews in order.

    An interview that changes functions has seven runs, and two more if it breaks modules. It has none if too few of its functions
    were found. Any other interview has one run.
    """
    plans = (_plan_interview(interview, f"{number}.", survey, rng) for number, interview in enumerate(interviews))
    return [run for plan in plans for run in plan]


def _plan_interview(interview: Interview, prefix: str, survey: Survey, rng: Random) -> Iterator[PlannedRun]:
    if not interview.changes:
        yield PlannedRun(interview=interview, names={name: name for name in interview.names}, is_repeated=False)
        return
    functions = [function for change in interview.changes for function in _find_function(change, survey)]
    if len(functions) < min(MIN_FOUND, len(interview.changes)):
        return
    count = len(interview.questions)
    culprits = rng.sample(functions, len(functions))
    for number, kind in enumerate(_draw_kinds(interview, rng)):
        names = tuple(f"{prefix}{number}.{question}" for question in interview.questions)
        run = replace(interview, answer_names=names, broken=(), changes=())
        final_names = interview.names[:count] if kind in ("plain", "right") else interview.names[count:]
        yield PlannedRun(
            interview=run,
            names=dict(zip(names, final_names, strict=True)),
            is_repeated=True,
            replaced=tuple(_list_replaced(interview, kind, functions, culprits, survey, rng)),
        )


def _draw_kinds(interview: Interview, rng: Random) -> list[RunKind]:
    kinds: list[RunKind] = ["wrong" if is_wrong else "right" for is_wrong in rng.choice(PATTERNS)]
    extra: tuple[RunKind, ...] = ("plain", "broken", "broken") if interview.broken else ("plain",)
    for kind in extra:
        kinds.insert(rng.randrange(len(kinds) + 1), kind)
    return kinds


def _list_replaced(
    interview: Interview, kind: RunKind, functions: Sequence[_Found], culprits: list[_Found], survey: Survey, rng: Random
) -> Iterator[tuple[str, str]]:
    """Yield the files that a run replaces; takes the function that is wrong in the run from the end of `culprits`."""
    if kind == "plain":
        return
    if kind == "broken":
        yield from interview.broken
        return
    if interview.broken:  # the tests concern the broken modules only, and which of these matter is no business of the interview
        edited, wrong = list(functions), list(functions) if kind == "wrong" else []
    else:
        wrong = [culprits.pop() if len(culprits) > 1 else culprits[0]] if kind == "wrong" else []
        correct = [function for function in functions if function not in wrong]
        edited = wrong + rng.sample(correct, min(len(correct), EDITED_FUNCTIONS - len(wrong)))
    edits: dict[str, list[tuple[int, int, str]]] = {}
    for function in edited:
        path = function.change.path
        edits.setdefault(path, []).extend(
            write_edits(survey.texts[path], function.change, function.places, function in wrong, rng)
        )
    for path, changes in edits.items():
        yield path, apply_edits(survey.texts[path], changes)


def _find_function(change: FunctionChange, survey: Survey) -> list[_Found]:
    return [
        _Found(replace(change, function=name), places)
        for path, name, places in survey.functions
        if path == change.path and (name == change.function or not change.function)
    ]


def apply_edits(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Return a text in which each part, given by its start and end, is replaced."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def write_edits(
    text: str, change: FunctionChange, places: Iterable[Sequence[int]], is_wrong: bool, rng: Random
) -> list[tuple[int, int, str]]:
    """Return the edits that change a function: start and end of each replaced part of the text, and its new text.

    Args:
        text: Text of the file that defines the function.
        change: Function, and what it returns if it is wrong.
        places: Positions in the text at which the function can be changed, as the surveyor prints them.
        is_wrong: Whether the function returns something wrong; otherwise it returns what it returned before.
        rng: Source of the form of each edit.
    """
    is_script = change.path.endswith(_SCRIPT_ENDINGS)
    edit = _edit_head if is_script else _edit_return
    wrong = rng.choice(change.wrong)
    return [edit(text, place, change, wrong, is_wrong, rng) for place in places]


def _edit_return(
    text: str, place: Sequence[int], change: FunctionChange, wrong: str, is_wrong: bool, rng: Random
) -> tuple[int, int, str]:
    """Return an edit of a `return` in Python, in one of three forms."""
    start, expression_start, end = place
    name, expression = _draw_name(rng), text[expression_start:end].strip()
    form = rng.randrange(3)
    subject = f"({name} := ({expression}))" if form == 0 else name
    condition = _draw_condition(change, _ATTRIBUTES, _IN_PYTHON, rng)
    chosen = _write_choice(condition, subject, name, wrong, is_wrong, (" if ", " else "))
    if form == 0:
        return start, end, f"return {chosen}"
    if form == 1:
        return start, end, f"{name} = ({expression}); return {chosen}"
    return start, end, f"return (lambda {name}: {chosen})(({expression}))"


def _edit_head(
    text: str, place: Sequence[int], change: FunctionChange, wrong: str, is_wrong: bool, rng: Random
) -> tuple[int, int, str]:
    """Return an edit of the head of a function in TypeScript: a function of its name calls it under another name."""
    start, name_start, end = place
    function, beginning = text[name_start:end], text[start:name_start]
    inner, name = f"{function}{_draw_name(rng)}", _draw_name(rng)
    condition = _draw_condition(change, _SCRIPT_ATTRIBUTES, _IN_SCRIPT, rng)
    chosen = _write_choice(condition, name, name, wrong, is_wrong, (" ? ", " : "))
    called = f"(this as any).{inner}" if "." in change.function else f"({inner} as any)"
    body = f"{{ const {name} = {called}(...given); return {chosen}; }}"
    if beginning.rstrip().endswith("const"):
        return start, end, f"{beginning}{function} = (...given: any[]): any => {body};\nconst {inner}"
    inner_beginning = beginning if "." in change.function else "function "
    return start, end, f"{beginning}{function}(...given: any[]): any {body}\n{inner_beginning}{inner}"


class _Condition(NamedTuple):
    """Condition on a returned value, with `{subject}` in place of the value, and whether it holds for values of this kind."""

    form: str
    holds: bool


def _draw_condition(change: FunctionChange, attributes: Mapping[str, tuple[str, ...]], form: str, rng: Random) -> _Condition:
    """Return a condition on a value that a function returns: it has an attribute, or it has not."""
    own = change.attributes if change.kind == "object" else attributes[change.kind]
    # A text or an object may be iterable as well.
    others = [name for kind, names in attributes.items() for name in names if kind != change.kind and name != "__iter__"]
    holds = rng.random() < 0.5
    attribute = rng.choice(own if holds else others)
    is_negated = rng.random() < 0.5
    tested = form.format(subject="{subject}", name=attribute)
    negated = f"!({tested})" if form is _IN_SCRIPT else f"not {tested}"
    return _Condition(negated if is_negated else tested, holds is not is_negated)


def _write_choice(condition: _Condition, subject: str, name: str, wrong: str, is_wrong: bool, words: tuple[str, str]) -> str:
    """Return an expression that chooses between a value and a wrong one; the condition is evaluated first."""
    wrong_value = re.sub(r"\bvalue\b", name, wrong)
    chosen, other = (wrong_value, name) if condition.holds is is_wrong else (name, wrong_value)
    tested = condition.form.replace("{subject}", subject)
    return f"{chosen}{words[0]}{tested}{words[1]}{other}" if "if" in words[0] else f"{tested}{words[0]}{chosen}{words[1]}{other}"


def _draw_name(rng: Random) -> str:
    return f"_{rng.choice('abcdefghkmnprstuvwxyz')}{rng.randrange(10, 100)}"


def collect_answers(runs: Sequence[PlannedRun], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers of all interviews under the names that the judge expects.

    The answers to a question in several runs form a list. If one of these runs has no answer to the question, the whole list is
    left out.

    Args:
        runs: Runs of all interviews.
        answers: Answers of all runs, by the names of the answers in these runs.
    """
    collected, unanswered = dict[str, Any](), set[str]()
    for run in runs:
        for own_name, name in run.names.items():
            if own_name not in answers:
                unanswered.add(name)
            elif run.is_repeated:
                collected.setdefault(name, []).append(answers[own_name])
            else:
                collected[name] = answers[own_name]
    return {name: answer for name, answer in collected.items() if name not in unanswered}
