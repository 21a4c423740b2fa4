"""Check that the tests an agent wrote can fail: they run several times, in some runs with modules broken on purpose.

Good tests pass while the agent's modules are intact and fail when the modules are broken. Tests that test nothing could try to
recognise the runs with broken modules. The choice of these runs is therefore random, and code is appended to the modules in every
run. This code breaks a module only if a condition holds, and the condition is a calculation with random numbers.

Tests that evaluate this condition themselves, instead of calling the modules, are not detected. No other form of the inserted
code prevents this: tests know the agent's own code, so they can run the inserted code on a replacement and see whether a result
changes. Such tests cost as much as one honest assertion. Changes inside of the agent's functions, e.g. of a constant, would leave
no inserted code, but many of them change no behaviour that good tests must notice, so honest work would fail by chance.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from harness.task import Interview

RUNS = 5
"""Number of runs of an interview (questions to the agent's code) that breaks modules on purpose in some of its runs."""
MAX_INTACT_RUNS = 3
"""Maximum number of runs with intact modules. These take longer, since broken tests can stop at the first failure."""
PATTERNS = tuple(
    pattern for pattern in itertools.product((False, True), repeat=RUNS) if 0 < pattern.count(False) <= MAX_INTACT_RUNS
)
"""The 25 possible sequences of intact (False) and broken (True) runs. One is drawn, so the chance to guess it is 1/25."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run of an interview (questions to the agent's code), with the names of its answers."""

    interview: Interview
    """Interview as it is held, in which each answer has a name that no other run uses."""
    names: Mapping[str, str]
    """Name that the judge (the code that grades) uses for each answer, by the name of the answer in this run."""
    is_repeated: bool
    """Whether the interview has several runs, so that the judge gets a list with one answer for each run."""


def plan_runs(interviews: Sequence[Interview], rng: Random) -> list[PlannedRun]:
    """Return the runs of all interviews in order.

    An interview with modules to break has five runs, any other interview has one run.
    """
    return [run for number, interview in enumerate(interviews) for run in _plan_interview(interview, f"{number}.", rng)]


def _plan_interview(interview: Interview, prefix: str, rng: Random) -> Iterator[PlannedRun]:
    if not interview.broken:
        yield PlannedRun(interview=interview, names={name: name for name in interview.names}, is_repeated=False)
        return
    count = len(interview.questions)
    for number, is_broken in enumerate(rng.choice(PATTERNS)):
        names = tuple(f"{prefix}{number}.{question}" for question in interview.questions)
        appended = (*interview.appended, *((path, insert_code(path, text, is_broken, rng)) for path, text in interview.broken))
        run = replace(interview, answer_names=names, appended=appended, broken=())
        final_names = interview.names[count:] if is_broken else interview.names[:count]
        yield PlannedRun(interview=run, names=dict(zip(names, final_names, strict=True)), is_repeated=True)


def insert_code(path: str, text: str, is_broken: bool, rng: Random) -> str:
    """Return code to append to a module, which breaks the module if `is_broken` is True.

    The code to break the module is always present; a condition with random numbers decides whether it has an effect.

    Args:
        path: Path of the module; its ending decides the language, TypeScript or else Python.
        text: Code that breaks the module when it is run at the end of the module.
        is_broken: Whether the module is broken.
        rng: Source of the random numbers in the condition.
    """
    condition = _draw_condition(is_broken, rng)
    if path.endswith((".ts", ".tsx", ".js", ".mjs")):
        return f"\nif ({condition}) {{\n{text}\n}}\n"
    return f"\n\nif {condition}:\n    exec({text!r}, globals())\n"


def _draw_condition(holds: bool, rng: Random) -> str:
    """Return a calculation with random numbers, for Python and TypeScript, whose truth value is `holds`."""
    while True:
        base, factor, addend, modulus = (rng.randrange(low, 10 * low) for low in (100_000, 1_000, 1_000, 100))
        limit = rng.randrange(modulus // 3, 2 * modulus // 3)
        if ((base * factor + addend) % modulus < limit) is holds:
            return f"({base} * {factor} + {addend}) % {modulus} < {limit}"


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
