"""Laws of the template: it makes the same task again, and what a scripted model is built from holds no value."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import assert_never

from harness.errors import UsageError
from harness.task import Task
from harness.testing.fresh_process import Digests, digest_parts
from harness.testing.laws.findings import Finding
from harness.testing.laws.session_cache import SessionCache

SEEDS = range(50)
"""Seeds under which there must be a task, and under which tasks, values and priors are compared."""


def check_template(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the template raises under no seed, and makes the same task twice, the second time also in another process."""
    seeds = sorted({seed, *SEEDS})
    made = (_make_task(sessions.make_task, one) for one in seeds)
    wrong = next((one for one in made if isinstance(one, Finding)), None)
    again = wrong or _make_task(sessions.template, seed)
    if isinstance(again, Finding):
        yield again
        return
    found = list(_compare_digests(sessions.make_task(seed), digest_parts(again), seed, "when the template is called again"))
    yield from found or _compare_in_fresh_process(sessions, seeds)


def _make_task(make: Callable[[int], object], seed: int) -> Task | Finding:
    """Make a task, or report what is wrong with it."""
    try:
        made = make(seed)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (foreign code is run here)
        return Finding(message=f"the template raises {_format_error(error)}", seed=seed)
    return (
        made if isinstance(made, Task) else Finding(message=f"the template gives {type(made).__name__!r}, not a Task", seed=seed)
    )


def _compare_in_fresh_process(sessions: SessionCache, seeds: Iterable[int]) -> Iterable[Finding]:
    """Find what differs in another process, for the first seed for which something does."""
    if not sessions.name:
        return ()
    try:
        afresh = sessions.digest_in_fresh_process(seeds)
    except UsageError as error:
        return (Finding(message=str(error)),)
    when = "in another process, where `hash` and the order of a set are others"
    told = (tuple(_compare_digests(sessions.make_task(one), afresh[one], one, when)) for one in seeds)
    return next(filter(None, told), ())


def _compare_digests(task: Task, other_digests: Digests, seed: int, when: str) -> Iterator[Finding]:
    """Find facts, steps and fields of the task that differ."""
    first = digest_parts(task)
    for part in dict.fromkeys((*first, *other_digests)):
        if first.get(part) == other_digests.get(part):
            continue
        words = f"differs {when}; draw from the seed alone"
        match part.kind:
            case "value":
                yield Finding(message=f"its value {words}", fact=part.name, seed=seed)
            case "fact":
                yield Finding(message=words, fact=part.name, seed=seed)
            case "step":
                yield Finding(message=words, step=part.name, seed=seed)
            case "field":
                yield Finding(message=f"`{part.name}` {words}", seed=seed)
            case _:
                assert_never(part.kind)


def _format_error(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {frames[-1].filename.rpartition('/')[2]})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def check_values(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that script and facts are the same for every seed, values are not, and no prior is a value."""
    first, other = sessions.make_task(seed), sessions.make_task(seed + 1)
    yield from _compare_scripts(first, other, seed)
    tasks = {one: sessions.make_task(one) for one in SEEDS}
    for fact in first.facts:
        values = {one: task.values.get(fact.name) for one, task in tasks.items()}
        missing = [one for one, value in values.items() if not value]
        if missing:
            yield Finding(message="has no value in `values`", fact=fact.name, seed=missing[0])
            continue
        equal = [one for one, value in values.items() if value == fact.prior]
        if equal:
            yield Finding(
                message=f"its prior {fact.prior!r} is its value, so a guess would be right; choose another prior or leave that "
                "value out",
                fact=fact.name,
                seed=equal[0],
            )
        elif len(set(values.values())) == 1:
            yield _report_constant(first, fact.name, str(values[0]))


def _report_constant(task: Task, name: str, value: str) -> Finding:
    holding = [step.name for step in task.script.steps if value in str((step.text, step.calls))]
    words = f"its value is {value!r} under every seed, so the script could hold it; draw it from the seed"
    return Finding(message=words, fact=name, step=holding[0] if holding else "")


def _compare_scripts(first: Task, other: Task, seed: int) -> Iterator[Finding]:
    words = f"differs between the seeds {seed} and {seed + 1}, so it can hold a value; write `${{fact}}` instead of the value"
    for here, there in zip(first.script.steps, other.script.steps, strict=False):
        if here != there:
            yield Finding(message=words, step=here.name)
    for fact, again in zip(first.facts, other.facts, strict=False):
        if fact != again:
            yield Finding(message=words, fact=fact.name)
    if len(first.script.steps) != len(other.script.steps) or len(first.facts) != len(other.facts):
        yield Finding(message=f"the seeds {seed} and {seed + 1} have different numbers of steps or facts")
    if first.script.final_text != other.script.final_text:
        yield Finding(message=f"the farewell {words}")
