"""A world for any task: when its user says what the request says, how often, how surely, and whether it is written down too.

Four knobs of `harness.task.World` turn what the user does and leave the work alone, so every task has them, also one of your own:

| knob | what it does | left alone |
| --- | --- | --- |
| `use_lag_steps` | what the request tells is told so many steps before it is first needed | at the start |
| `redundancy` | it is told so many times: what is still needed is said again at even intervals of the script | once |
| `update_rate` | that share of its facts is told with an old value, and corrected half way to the first need | none |
| `recoverable_share` | that share of its facts stands in a file too, in the words in which it was first told | none |

Shares are of the facts that stand in the request, each on one line, and that the task itself leaves as they are; which of them
are taken is the same for every seed. Steps are those of the script: who does work again hears of everything earlier. Script,
checks and the answer key stay. So do the number of steps and the sizes of outputs, which are those of real commands on real
files: `steps`, `tokens_per_step` and `output_sigma` are knobs of `long-march`, which was made to be stretched.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.errors import UsageError
from harness.task import CallTemplate, Fact, LaterMessage, Task, World

KNOBS = ("recoverable_share", "use_lag_steps", "redundancy", "update_rate")
"""Fields of `World` that every task has."""
ORDER = "ORDER.md"
"""The file in which a share of the request stands too."""
NEWS = "Something else that holds for this work:"
CORRECTION = "A correction, in the place of what was said before:"
AGAIN = "To say it once more, this holds for the work:"
OTHER_SEEDS = 50
"""Seeds that are tried for another value of a fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line of the request that tells facts. Steps count from 1; 0 = the request itself."""

    at: int
    """Index among the lines of the request."""
    text: str
    facts: tuple[str, ...]
    need: int
    """The first step that needs one of its facts."""
    last_need: int
    told: int
    """The step before which it is told."""

    @property
    def corrected(self) -> int:
        """The step before which it is corrected, if it is: half way from its telling to its need."""
        begun = max(self.told, 1)
        return begun + max(1, (self.need - begun) // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What the user does about each line."""

    lines: tuple[_Line, ...]
    old: Mapping[int, str]
    """How a line that is corrected is told first, by its index."""
    written: frozenset[int]
    """Indexes of the lines that stand in the file too."""
    revised: frozenset[str]
    """Facts that are corrected."""

    def first(self, line: _Line) -> str:
        """A line as it is told first."""
        return self.old.get(line.at, line.text)

    def said(self, line: _Line, step: int) -> str:
        """A line as it holds before a step."""
        return line.text if line.corrected <= step else self.first(line)


def in_world(template: Callable[[int], Task], task_seed: int, world: World) -> Task:
    """The task of a seed whose user behaves as the world says.

    Raises:
        UsageError: a knob that only a task with worlds of its own has, a value for which the task has no room, or a request in
            which there is nothing to turn.
    """
    task = template(task_seed)
    _refuse(task, world)
    lines = _lines(task, world)
    revised = _revised(task, lines, world.update_rate or 0.0)
    plan = _Plan(
        lines=lines,
        old=_told_wrongly(task, lines, _old_values(template, task_seed, task, revised)),
        written=_written(task, lines, world.recoverable_share or 0.0),
        revised=revised,
    )
    file = [(ORDER, _order(plan))] if plan.written else []
    return replace(
        task,
        prompt=_request(task.prompt, plan),
        workspace=(*task.workspace, *file),
        later=(*task.later, *_messages(plan, len(task.script.steps), world.redundancy or 1)),
        facts=tuple(_turned(fact, plan) for fact in task.facts),
    )


def _refuse(task: Task, world: World) -> None:
    """Refuse knobs and values that the task cannot have."""
    steps = len(task.script.steps)
    for name in world.turned:
        if name not in KNOBS:
            raise UsageError(
                f"world.{name}: the steps and outputs of {task.name!r} are what they are; its knobs are {', '.join(KNOBS)}, and "
                "'long-march' has all"
            )
    if world.use_lag_steps == 0:
        raise UsageError(f"world.use_lag_steps: {task.name!r} needs at least 1, to tell a fact before it is needed (got 0)")
    if (world.redundancy or 1) > steps:
        raise UsageError(f"world.redundancy: {task.name!r} has {steps} steps, so at most {steps} (got {world.redundancy})")


def _lines(task: Task, world: World) -> tuple[_Line, ...]:
    """The lines of the request with facts that the task leaves as they are.

    Raises:
        UsageError: there is none, or the world tells none of them later.
    """
    needs = _needs(task)
    asked = [fact for fact in task.facts if fact.said_in == "prompt"]
    found = []
    for at, text in enumerate(task.prompt.split("\n")):
        facts = [fact for fact in asked if any(re.search(pattern, text) for pattern in fact.patterns)]
        if not facts or any(fact.superseded for fact in facts):
            continue
        names = tuple(fact.name for fact in facts)
        need = min(needs[name][0] for name in names)
        told = 0 if world.use_lag_steps is None else need - world.use_lag_steps
        last = max(needs[name][1] for name in names)
        found.append(_Line(at=at, text=text, facts=names, need=need, last_need=last, told=told if told > 1 else 0))
    if not found:
        knob = next(iter(world.turned))
        raise UsageError(
            f"world.{knob}: the request of {task.name!r} tells no fact on a line of its own, so there is none to turn"
        )
    latest = max(line.need for line in found)
    if world.use_lag_steps is not None and not any(line.told for line in found):
        raise UsageError(
            f"world.use_lag_steps: the first needs of what the request of {task.name!r} tells end at step {latest}, so at most "
            f"{latest - 2}, else all is told at the start as without it (got {world.use_lag_steps})"
        )
    return tuple(found)


def _needs(task: Task) -> dict[str, tuple[int, int]]:
    """The first and the last step that needs each fact; the last of all where none does."""
    steps = len(task.script.steps)
    needing: dict[str, list[int]] = {}
    for number, step in enumerate(task.script.steps, start=1):
        for name in {*step.needs, *(name for repair in step.repairs for name in repair.needs)}:
            needing.setdefault(name, []).append(number)
    needed = {fact.name: needing.get(fact.name, [steps]) for fact in task.facts}
    return {name: (numbers[0], numbers[-1]) for name, numbers in needed.items()}


def _shuffled(source: str, names: Iterable[str]) -> list[str]:
    """In an order that no seed of a task moves."""
    found = sorted(names)
    random.Random(source).shuffle(found)
    return found


def _revised(task: Task, lines: Sequence[_Line], share: float) -> frozenset[str]:
    """The facts that are corrected."""
    facts = [name for line in lines for name in line.facts]
    able = [name for line in lines for name in line.facts if line.corrected <= line.need]
    wanted = round(share * len(facts))
    if wanted > len(able):
        raise UsageError(
            f"world.update_rate: of the {len(facts)} facts that the request of {task.name!r} tells for good, {len(able)} can be "
            f"corrected before they are needed, so at most {len(able) / len(facts):.2g} (got {share:g})"
        )
    return frozenset(_shuffled(f"{task.name}/updates", able)[:wanted])


def _old_values(template: Callable[[int], Task], task_seed: int, task: Task, names: Iterable[str]) -> dict[str, str]:
    """Another value of each of these facts, from the next seeds."""
    old: dict[str, str] = {}
    missing = set(names)
    for other in range(task_seed + 1, task_seed + 1 + OTHER_SEEDS):
        if not missing:
            return old
        values = template(other).values
        old |= {name: values[name] for name in missing if values[name] != task.values[name]}
        missing -= old.keys()
    raise UsageError(f"world.update_rate: the fact {min(missing)!r} of {task.name!r} has one value under every seed")


def _told_wrongly(task: Task, lines: Iterable[_Line], old: Mapping[str, str]) -> dict[int, str]:
    """The lines with an old value, by their index."""
    patterns = {fact.name: fact.patterns for fact in task.facts}
    texts = {line.at: line.text for line in lines if old.keys() & line.facts}
    for line in lines:
        for name in old.keys() & line.facts:
            for pattern in patterns[name]:
                texts[line.at] = _swapped(texts[line.at], pattern, old[name])
    return texts


def _swapped(text: str, pattern: str, value: str) -> str:
    """A text in which the value that a pattern reads is another one."""
    match = re.search(pattern, text)
    return text[: match.start(1)] + value + text[match.end(1) :] if match else text


def _written(task: Task, lines: Sequence[_Line], share: float) -> frozenset[int]:
    """Indexes of lines that hold that share of the facts."""
    home = {name: line for line in lines for name in line.facts}
    wanted, chosen, held = round(share * len(home)), set[int](), 0
    for name in _shuffled(f"{task.name}/file", home):
        if held < wanted and home[name].at not in chosen:
            chosen.add(home[name].at)
            held += len(home[name].facts)
    return frozenset(chosen)


def _request(prompt: str, plan: _Plan) -> str:
    """What the user says at the start."""
    first = {line.at: plan.first(line) for line in plan.lines}
    late = {line.at for line in plan.lines if line.told}
    said = [first.get(at, text) for at, text in enumerate(prompt.split("\n")) if at not in late]
    if late:
        said += ["", "More of what holds for this work is said while you are at it."]
    if plan.written:
        said += ["", f"Some of what holds for this work stands in {ORDER} too."]
    return "\n".join(said)


def _order(plan: _Plan) -> str:
    return "\n".join(["# What was ordered", "", *(plan.first(line) for line in plan.lines if line.at in plan.written), ""])


def _messages(plan: _Plan, steps: int, redundancy: int) -> Iterator[LaterMessage]:
    """What the user says while the agent works."""
    again = {1 + turn * steps // redundancy for turn in range(1, redundancy)}
    for step in range(2, steps + 1):
        news = [plan.first(line) for line in plan.lines if line.told == step]
        corrected = [line.text for line in plan.lines if line.at in plan.old and line.corrected == step]
        known = [line for line in plan.lines if line.told < step <= line.last_need]
        repeated = [plan.said(line, step - 1) for line in known] if step in again else []
        for heading, said in ((NEWS, news), (AGAIN, repeated), (CORRECTION, corrected)):
            if said:
                yield LaterMessage(step=step, text="\n".join([heading, *said]))


def _turned(fact: Fact, plan: _Plan) -> Fact:
    """The fact as it is in the world."""
    if any(fact.name in line.facts for line in plan.lines if line.at in plan.written):
        fact = replace(fact, recover=CallTemplate(tool="read_file", arguments=(("path", ORDER),)), source=ORDER)
    return replace(fact, revised=True) if fact.name in plan.revised else fact
