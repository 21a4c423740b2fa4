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
ORDER_FILE = "ORDER.md"
"""The file in which a share of the request stands too."""
NEWS_HEADING = "Something else that holds for this work:"
CORRECTION_HEADING = "A correction, in the place of what was said before:"
REMINDER_HEADING = "To say it once more, this holds for the work:"
MAX_OTHER_SEEDS = 50
"""Seeds that are tried for another value of a fact."""


@dataclass(frozen=True, slots=True)
class _FactLine:
    """A line of the request that tells facts. Steps count from 1; 0 = the request itself."""

    index: int
    """Index among the lines of the request."""
    text: str
    facts: tuple[str, ...]
    first_need_step: int
    """The first step that needs one of its facts."""
    last_need_step: int
    told_step: int
    """The step before which it is told."""

    @property
    def correction_step(self) -> int:
        """The step before which it is corrected, if it is: half way from its telling to its need."""
        start_step = max(self.told_step, 1)
        return start_step + max(1, (self.first_need_step - start_step) // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MessagePlan:
    """What the user does about each line."""

    lines: tuple[_FactLine, ...]
    old_texts: Mapping[int, str]
    """How a line that is corrected is told first, by its index."""
    written_indexes: frozenset[int]
    """Indexes of the lines that stand in the file too."""
    revised_facts: frozenset[str]
    """Facts that are corrected."""

    def render_initial(self, line: _FactLine) -> str:
        """Return a line as it is told first."""
        return self.old_texts.get(line.index, line.text)

    def render_at(self, line: _FactLine, step: int) -> str:
        """Return a line as it holds before a step."""
        return line.text if line.correction_step <= step else self.render_initial(line)


def vary_task(template: Callable[[int], Task], task_seed: int, world: World) -> Task:
    """Make the task of a seed whose user behaves as the world says.

    Raises:
        UsageError: a knob that only a task with worlds of its own has, a value for which the task has no room, or a request in
            which there is nothing to turn.
    """
    task = template(task_seed)
    _check_knobs(task, world)
    lines = _find_fact_lines(task, world)
    revised = _choose_revised_facts(task, lines, world.update_rate or 0.0)
    plan = _MessagePlan(
        lines=lines,
        old_texts=_insert_old_values(task, lines, _find_old_values(template, task_seed, task, revised)),
        written_indexes=_choose_written_lines(task, lines, world.recoverable_share or 0.0),
        revised_facts=revised,
    )
    written_lines = [plan.render_initial(line) for line in lines if line.index in plan.written_indexes]
    file = [(ORDER_FILE, "\n".join(["# What was ordered", "", *written_lines, ""]))] if written_lines else []
    return replace(
        task,
        prompt=_render_prompt(task.prompt, plan),
        workspace=(*task.workspace, *file),
        later_messages=(*task.later_messages, *_schedule_messages(plan, len(task.script.steps), world.redundancy or 1)),
        facts=tuple(_vary_fact(fact, plan) for fact in task.facts),
    )


def _check_knobs(task: Task, world: World) -> None:
    """Refuse knobs and values that the task cannot have."""
    steps = len(task.script.steps)
    for name in world.overrides:
        if name not in KNOBS:
            raise UsageError(
                f"world.{name}: the steps and outputs of {task.name!r} are what they are; its knobs are {', '.join(KNOBS)}, and "
                "'long-march' has all"
            )
    if world.use_lag_steps == 0:
        raise UsageError(f"world.use_lag_steps: {task.name!r} needs at least 1, to tell a fact before it is needed (got 0)")
    if (world.redundancy or 1) > steps:
        raise UsageError(f"world.redundancy: {task.name!r} has {steps} steps, so at most {steps} (got {world.redundancy})")


def _find_fact_lines(task: Task, world: World) -> tuple[_FactLine, ...]:
    """Return the lines of the request with facts that the task leaves as they are.

    Raises:
        UsageError: there is none, or the world tells none of them later.
    """
    needs = _find_need_steps(task)
    prompt_facts = [fact for fact in task.facts if fact.said_in == "prompt"]
    fact_lines = []
    for index, text in enumerate(task.prompt.split("\n")):
        facts = [fact for fact in prompt_facts if any(re.search(pattern, text) for pattern in fact.patterns)]
        if not facts or any(fact.is_superseded for fact in facts):
            continue
        names = tuple(fact.name for fact in facts)
        first, last = min(needs[name][0] for name in names), max(needs[name][1] for name in names)
        told_step = 0 if world.use_lag_steps is None else first - world.use_lag_steps
        fact_lines.append(_FactLine(index, text, names, first, last, told_step if told_step > 1 else 0))
    if not fact_lines:
        knob = next(iter(world.overrides))
        raise UsageError(
            f"world.{knob}: the request of {task.name!r} tells no fact on a line of its own, so there is none to turn"
        )
    latest = max(line.first_need_step for line in fact_lines)
    if world.use_lag_steps is not None and not any(line.told_step for line in fact_lines):
        raise UsageError(
            f"world.use_lag_steps: the first needs of what the request of {task.name!r} tells end at step {latest}, so at most "
            f"{latest - 2}, else all is told at the start as without it (got {world.use_lag_steps})"
        )
    return tuple(fact_lines)


def _find_need_steps(task: Task) -> dict[str, tuple[int, int]]:
    """Return the first and the last step that needs each fact; the last step of all where none does."""
    steps = len(task.script.steps)
    needing: dict[str, list[int]] = {}
    for number, step in enumerate(task.script.steps, start=1):
        for name in {*step.required_facts, *(name for repair in step.repairs for name in repair.required_facts)}:
            needing.setdefault(name, []).append(number)
    numbers = {fact.name: needing.get(fact.name, [steps]) for fact in task.facts}
    return {name: (found[0], found[-1]) for name, found in numbers.items()}


def _shuffle(seed_text: str, names: Iterable[str]) -> list[str]:
    """Shuffle names into an order that no seed of a task moves."""
    shuffled_names = sorted(names)
    random.Random(seed_text).shuffle(shuffled_names)
    return shuffled_names


def _choose_revised_facts(task: Task, lines: Sequence[_FactLine], share: float) -> frozenset[str]:
    """Choose the facts that are corrected."""
    facts = [name for line in lines for name in line.facts]
    correctable_facts = [name for line in lines for name in line.facts if line.correction_step <= line.first_need_step]
    revised_count = round(share * len(facts))
    if revised_count > len(correctable_facts):
        most = len(correctable_facts) / len(facts)
        raise UsageError(
            f"world.update_rate: of the {len(facts)} facts that the request of {task.name!r} tells for good, "
            f"{len(correctable_facts)} can be corrected before they are needed, so at most {most:.2g} (got {share:g})"
        )
    return frozenset(_shuffle(f"{task.name}/updates", correctable_facts)[:revised_count])


def _find_old_values(template: Callable[[int], Task], task_seed: int, task: Task, names: Iterable[str]) -> dict[str, str]:
    """Return another value of each of these facts, from the next seeds."""
    old: dict[str, str] = {}
    missing = set(names)
    for other in range(task_seed + 1, task_seed + 1 + MAX_OTHER_SEEDS):
        if not missing:
            return old
        values = template(other).values
        old |= {name: values[name] for name in missing if values[name] != task.values[name]}
        missing -= old.keys()
    raise UsageError(f"world.update_rate: the fact {min(missing)!r} of {task.name!r} has one value under every seed")


def _insert_old_values(task: Task, lines: Iterable[_FactLine], old: Mapping[str, str]) -> dict[int, str]:
    """Return the lines with an old value, by their index."""
    patterns = {fact.name: fact.patterns for fact in task.facts}
    texts = {line.index: line.text for line in lines if old.keys() & line.facts}
    for line in lines:
        for name in old.keys() & line.facts:
            for pattern in patterns[name]:
                text = texts[line.index]
                if match := re.search(pattern, text):
                    texts[line.index] = text[: match.start(1)] + old[name] + text[match.end(1) :]
    return texts


def _choose_written_lines(task: Task, lines: Sequence[_FactLine], share: float) -> frozenset[int]:
    """Choose the indexes of lines that hold that share of the facts."""
    line_by_fact = {name: line for line in lines for name in line.facts}
    wanted_count, chosen_indexes, fact_count = round(share * len(line_by_fact)), set[int](), 0
    for name in _shuffle(f"{task.name}/file", line_by_fact):
        if fact_count < wanted_count and line_by_fact[name].index not in chosen_indexes:
            chosen_indexes.add(line_by_fact[name].index)
            fact_count += len(line_by_fact[name].facts)
    return frozenset(chosen_indexes)


def _render_prompt(prompt: str, plan: _MessagePlan) -> str:
    """Render what the user says at the start."""
    first = {line.index: plan.render_initial(line) for line in plan.lines}
    late = {line.index for line in plan.lines if line.told_step}
    prompt_lines = [first.get(at, text) for at, text in enumerate(prompt.split("\n")) if at not in late]
    if late:
        prompt_lines += ["", "More of what holds for this work is said while you are at it."]
    if plan.written_indexes:
        prompt_lines += ["", f"Some of what holds for this work stands in {ORDER_FILE} too."]
    return "\n".join(prompt_lines)


def _schedule_messages(plan: _MessagePlan, steps: int, redundancy: int) -> Iterator[LaterMessage]:
    """Schedule what the user says while the agent works."""
    again = {1 + turn * steps // redundancy for turn in range(1, redundancy)}
    for step in range(2, steps + 1):
        news = [plan.render_initial(line) for line in plan.lines if line.told_step == step]
        corrected = [line.text for line in plan.lines if line.index in plan.old_texts and line.correction_step == step]
        known = [line for line in plan.lines if line.told_step < step <= line.last_need_step]
        repeated = [plan.render_at(line, step - 1) for line in known] if step in again else []
        for heading, said in ((NEWS_HEADING, news), (REMINDER_HEADING, repeated), (CORRECTION_HEADING, corrected)):
            if said:
                yield LaterMessage(step=step, text="\n".join([heading, *said]))


def _vary_fact(fact: Fact, plan: _MessagePlan) -> Fact:
    """Return the fact as it is in the world."""
    if any(fact.name in line.facts for line in plan.lines if line.index in plan.written_indexes):
        fact = replace(fact, recover=CallTemplate(tool="read_file", arguments=(("path", ORDER_FILE),)), source=ORDER_FILE)
    return replace(fact, revised=True) if fact.name in plan.revised_facts else fact
