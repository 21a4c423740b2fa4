"""Variants of any task in which the user states facts later, more often, or with corrections.

Four settings of `harness.task.World` change the messages of the user and leave the work as it is, so every task supports them,
including tasks of your own:

| setting | effect | without the setting |
| --- | --- | --- |
| `use_lag_steps` | a fact is stated this many steps before its first use | facts are stated in the request |
| `redundancy` | facts that are still needed are stated this many times, evenly spaced over the script | facts are stated once |
| `update_rate` | this share of the facts is stated with an old value, and corrected half-way to the first use | no correction |
| `recoverable_share` | this share of the facts is also written to a file, as first stated | no such file |

A page on which a task itself repeats the request (see `harness.tasks.kit.sheets`) is left out, as it would state facts too early.

A share of 0.5 means half of the facts that the request states on lines of their own and that the task itself never revises. The
same facts are selected in all tasks with the same structure. Steps are counted in the script, so an agent that repeats work reads
a message at an earlier point of its work. Script, checks and right values stay the same. So do the number of steps and the sizes
of outputs, which come from real commands on real files; only the task `long-march` supports the settings that change them:
`steps`, `tokens_per_step` and `output_sigma`.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.errors import UsageError
from harness.task import CallTemplate, Fact, LaterMessage, Task, World
from harness.tasks.kit.sheets import remove_page

KNOBS = ("recoverable_share", "use_lag_steps", "redundancy", "update_rate")
"""Names of the settings that every task supports; each changes when or how often the user states facts."""
ORDER_FILE = "ORDER.md"
"""Path of the file in the workspace that repeats some facts of the request, so that the agent can read these facts again."""
NEWS_HEADING = "Something else that holds for this work:"
CORRECTION_HEADING = "A correction, in the place of what was said before:"
REMINDER_HEADING = "To say it once more, this holds for the work:"
MAX_OTHER_SEEDS = 50
"""Maximum number of other seeds that are tried to find an outdated value for a fact."""


@dataclass(frozen=True, slots=True)
class _FactLine:
    """Line of the user's request that states facts, and the steps that need the facts.

    Steps are numbered from 1; 0 is the request itself.
    """

    index: int
    """Index of the line in the user's request, counted from 0."""
    text: str
    """Text of the line in the user's request."""
    facts: tuple[str, ...]
    """Names of the facts that the line of the request states."""
    first_need_step: int
    """Number of the first step that needs a value which this line of the user's request states."""
    last_need_step: int
    """Number of the last step that needs a value which this line of the user's request states."""
    told_step: int
    """Number of the step before which the user first sends this line; 0 means that the line is part of the request."""

    @property
    def correction_step(self) -> int:
        """Step before which the user would correct this line: half-way from its statement to its first use."""
        start_step = max(self.told_step, 1)
        return start_step + max(1, (self.first_need_step - start_step) // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MessageSchedule:
    """Plan of the messages in which the user states, repeats and corrects the facts of the request."""

    lines: tuple[_FactLine, ...]
    """Lines of the user's request that state facts."""
    old_texts: Mapping[int, str]
    """Text with an outdated value for each line of the request that the user corrects later, by index of the line."""
    written_indexes: frozenset[int]
    """Indexes of the lines of the user's request that a file in the workspace repeats."""
    revised_facts: frozenset[str]
    """Names of the facts that the user first states with an outdated value and corrects later."""

    def render_initial(self, line: _FactLine) -> str:
        """Return a line as the user first states it, with outdated values if the user corrects it later."""
        return self.old_texts.get(line.index, line.text)

    def render_at(self, line: _FactLine, step: int) -> str:
        """Return a line as the user would state it at a step, with the right values once it was corrected."""
        return line.text if line.correction_step <= step else self.render_initial(line)


def vary_task(template: Callable[[int], Task], task_seed: int, world: World) -> Task:
    """Make a task in which facts are stated later, more often or with corrections.

    Args:
        template: Function that makes a task from a seed.
        task_seed: Seed of the task.
        world: Settings that specify these changes; only settings named in `KNOBS` may differ from None.

    Raises:
        UsageError: The task does not support a setting or its value, or the request states no fact on a line of its own.
    """
    task = template(task_seed)
    _check_knobs(task, world)
    if world.recoverable_share is not None or world.use_lag_steps or world.update_rate or (world.redundancy or 1) > 1:
        task = remove_page(task)
    lines = _find_fact_lines(task, world)
    revised_facts = _choose_revised_facts(task, lines, world.update_rate or 0.0)
    plan = _MessageSchedule(
        lines=lines,
        old_texts=_insert_old_values(task, lines, _find_old_values(template, task_seed, task, revised_facts)),
        written_indexes=_choose_written_lines(task, lines, world.recoverable_share or 0.0),
        revised_facts=revised_facts,
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
    steps = len(task.script.steps)
    for name in world.overrides:
        if name not in KNOBS:
            raise UsageError(
                f"world.{name}: {task.name!r} supports only {', '.join(KNOBS)}, since its steps and outputs are fixed; "
                "'long-march' supports every setting"
            )
    if world.use_lag_steps == 0:
        raise UsageError(f"world.use_lag_steps: {task.name!r} needs at least 1, to state a fact before its first use (got 0)")
    if (world.redundancy or 1) > steps:
        raise UsageError(
            f"world.redundancy: {task.name!r} has {steps} steps, so the value must be at most {steps} (got {world.redundancy})"
        )


def _find_fact_lines(task: Task, world: World) -> tuple[_FactLine, ...]:
    """Return the lines of the request that state facts which the task never changes.

    Raises:
        UsageError: There is no such line, or `use_lag_steps` is too large to delay the statement of any fact.
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
        # the earliest later message comes before step 2, so that a line that is due before stays in the request
        fact_lines.append(_FactLine(index, text, names, first, last, told_step if told_step > 1 else 0))
    if not fact_lines:
        knob = next(iter(world.overrides))
        raise UsageError(
            f"world.{knob}: the request of {task.name!r} states no fact on a line of its own, so there is nothing to change"
        )
    latest = max(line.first_need_step for line in fact_lines)
    if world.use_lag_steps is not None and not any(line.told_step for line in fact_lines):
        raise UsageError(
            f"world.use_lag_steps: {task.name!r} first uses the facts of its request by step {latest}, so the value must be at "
            f"most {latest - 2}, otherwise every fact is stated at the start (got {world.use_lag_steps})"
        )
    return tuple(fact_lines)


def _find_need_steps(task: Task) -> dict[str, tuple[int, int]]:
    """Return the numbers of the first and the last step that need each fact, by name of the fact.

    For a fact that no step needs, both are the last step of the script.
    """
    steps = len(task.script.steps)
    need_steps: dict[str, list[int]] = {}
    for number, step in enumerate(task.script.steps, start=1):
        for name in {*step.required_facts, *(name for repair in step.repairs for name in repair.required_facts)}:
            need_steps.setdefault(name, []).append(number)
    numbers = {fact.name: need_steps.get(fact.name, [steps]) for fact in task.facts}
    return {name: (needing_steps[0], needing_steps[-1]) for name, needing_steps in numbers.items()}


def _shuffle(seed_text: str, names: Iterable[str]) -> list[str]:
    """Return the names in a random order that depends only on `seed_text`."""
    shuffled_names = sorted(names)
    random.Random(seed_text).shuffle(shuffled_names)
    return shuffled_names


def _choose_revised_facts(task: Task, lines: Sequence[_FactLine], share: float) -> frozenset[str]:
    """Choose the facts that the user first states with an outdated value, and return their names."""
    facts = [name for line in lines for name in line.facts]
    correctable_facts = [name for line in lines for name in line.facts if line.correction_step <= line.first_need_step]
    revised_count = round(share * len(facts))
    if revised_count > len(correctable_facts):
        max_share = len(correctable_facts) / len(facts)
        raise UsageError(
            f"world.update_rate: of the {len(facts)} facts in the request of {task.name!r}, {len(correctable_facts)} can "
            f"be corrected before their first use, so the value must be at most {max_share:.2g} (got {share:g})"
        )
    return frozenset(_shuffle(f"{task.name}/updates", correctable_facts)[:revised_count])


def _find_old_values(template: Callable[[int], Task], task_seed: int, task: Task, names: Iterable[str]) -> dict[str, str]:
    """Return an outdated value for each named fact: its value under another seed of the task."""
    old: dict[str, str] = {}
    missing = set(names)
    for other in range(task_seed + 1, task_seed + 1 + MAX_OTHER_SEEDS):
        if not missing:
            return old
        values = template(other).values
        old |= {name: values[name] for name in missing if values[name] != task.values[name]}
        missing -= old.keys()
    raise UsageError(
        f"world.update_rate: the fact {min(missing)!r} of {task.name!r} has the same value under every seed, so there is no "
        "outdated value to correct; draw its value from the seed, or do not set update_rate"
    )


def _insert_old_values(task: Task, lines: Iterable[_FactLine], old: Mapping[str, str]) -> dict[int, str]:
    """Return the lines that the user corrects later, with outdated values in them, by index of the line.

    Args:
        task: Task whose facts have patterns that find their values in a line.
        lines: Lines of the request that state facts.
        old: Outdated value of each fact that is corrected later, by name of the fact.
    """
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
    """Choose the lines that a file repeats so that it states a share of the facts, and return their indexes."""
    line_by_fact = {name: line for line in lines for name in line.facts}
    wanted_count, chosen_indexes, fact_count = round(share * len(line_by_fact)), set[int](), 0
    for name in _shuffle(f"{task.name}/file", line_by_fact):
        if fact_count < wanted_count and line_by_fact[name].index not in chosen_indexes:
            chosen_indexes.add(line_by_fact[name].index)
            fact_count += len(line_by_fact[name].facts)
    return frozenset(chosen_indexes)


def _render_prompt(prompt: str, plan: _MessageSchedule) -> str:
    first = {line.index: plan.render_initial(line) for line in plan.lines}
    late_lines = {line.index for line in plan.lines if line.told_step}
    prompt_lines = [first.get(index, text) for index, text in enumerate(prompt.split("\n")) if index not in late_lines]
    if late_lines:
        prompt_lines += ["", "More of what holds for this work is said while you are at it."]
    if plan.written_indexes:
        prompt_lines += ["", f"Some of what holds for this work stands in {ORDER_FILE} too."]
    return "\n".join(prompt_lines)


def _schedule_messages(plan: _MessageSchedule, steps: int, redundancy: int) -> Iterator[LaterMessage]:
    repeat_steps = {1 + turn * steps // redundancy for turn in range(1, redundancy)}
    for step in range(2, steps + 1):
        news = [plan.render_initial(line) for line in plan.lines if line.told_step == step]
        corrections = [line.text for line in plan.lines if line.index in plan.old_texts and line.correction_step == step]
        known_lines = [line for line in plan.lines if line.told_step < step <= line.last_need_step]
        reminders = [plan.render_at(line, step - 1) for line in known_lines] if step in repeat_steps else []
        for heading, texts in ((NEWS_HEADING, news), (REMINDER_HEADING, reminders), (CORRECTION_HEADING, corrections)):
            if texts:
                yield LaterMessage(step=step, text="\n".join([heading, *texts]))


def _vary_fact(fact: Fact, plan: _MessageSchedule) -> Fact:
    if any(fact.name in line.facts for line in plan.lines if line.index in plan.written_indexes):
        fact = replace(fact, recover=CallTemplate(tool="read_file", arguments=(("path", ORDER_FILE),)), source=ORDER_FILE)
    return replace(fact, revised=True) if fact.name in plan.revised_facts else fact
