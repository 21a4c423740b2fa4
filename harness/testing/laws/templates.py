"""Laws of the template: it makes the same task again, and what a scripted model is built from holds no value."""

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from harness.task import Task
from harness.testing.laws.findings import Finding
from harness.testing.laws.sessions import Sessions

SEEDS = range(50)
"""Seeds under which values and priors are compared."""


def makes_a_task(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """The template raises under no seed, and makes the same task twice."""
    for one in sorted({seed, *SEEDS}):
        try:
            made: object = sessions.task(one)
        except Exception as error:  # noqa: BLE001  (foreign code is run here)
            yield Finding(words=f"the template raises {_said(error)}", seed=one)
            return
        if not isinstance(made, Task):
            yield Finding(words=f"the template gives {type(made).__name__!r}, not a Task", seed=one)
            return
    again, first = sessions.template(seed), sessions.task(seed)
    for name in _differing(first, again):
        yield Finding(words=f"`{name}` differs when the template is called again; draw from the seed alone", seed=seed)


def _said(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {frames[-1].filename.rpartition('/')[2]})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def holds_no_value(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """Script and facts are the same for every seed, values are not, and no prior is a value."""
    first, other = sessions.task(seed), sessions.task(seed + 1)
    yield from _same_script(first, other, seed)
    tasks = {one: sessions.task(one) for one in SEEDS}
    for fact in first.facts:
        values = {one: task.values.get(fact.name) for one, task in tasks.items()}
        missing = [one for one, value in values.items() if not value]
        if missing:
            yield Finding(words="has no value in `values`", fact=fact.name, seed=missing[0])
            continue
        equal = [one for one, value in values.items() if value == fact.prior]
        if equal:
            yield Finding(
                words=f"its prior {fact.prior!r} is its value, so a guess would be right; choose another prior or leave that "
                "value out",
                fact=fact.name,
                seed=equal[0],
            )
        elif len(set(values.values())) == 1:
            yield _constant(first, fact.name, str(values[0]))


def _constant(task: Task, name: str, value: str) -> Finding:
    holding = [step.name for step in task.script.steps if value in str((step.says, step.calls))]
    words = f"its value is {value!r} under every seed, so the script could hold it; draw it from the seed"
    return Finding(words=words, fact=name, step=holding[0] if holding else "")


def _same_script(first: Task, other: Task, seed: int) -> Iterator[Finding]:
    words = f"differs between the seeds {seed} and {seed + 1}, so it can hold a value; write `${{fact}}` instead of the value"
    for here, there in zip(first.script.steps, other.script.steps, strict=False):
        if here != there:
            yield Finding(words=words, step=here.name)
    for fact, again in zip(first.facts, other.facts, strict=False):
        if fact != again:
            yield Finding(words=words, fact=fact.name)
    if len(first.script.steps) != len(other.script.steps) or len(first.facts) != len(other.facts):
        yield Finding(words=f"the seeds {seed} and {seed + 1} have different numbers of steps or facts")
    if first.script.farewell != other.script.farewell:
        yield Finding(words=f"the farewell {words}")


def _differing(first: Any, again: Any) -> Iterable[str]:
    return [one.name for one in fields(first) if getattr(first, one.name) != getattr(again, one.name)]
