"""Random choices about the work of a task in which the agent writes a program from a specification.

The seed decides the order of the parts of the work, which unnecessary steps (looks) the agent takes, when it has to take one
action that must be taken only once, whether an optional item of work is asked for, and which small documents (information sheets)
are due. A task describes the possibilities as `WorkChoices`, from which each seed draws its `Work`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import NamedTuple

from harness.task import Check, Fact
from harness.tasks.kit.agreements import load_all_fact_texts
from harness.tasks.kit.sheets import STATED_ONCE_COUNTS, SheetSet, draw_sheets
from harness.tasks.kit.statements import load_fact_texts, render_request
from harness.tasks.kit.steps import StepSpec
from harness.tasks.kit.structure import Levels, StructureDraws, draw_work_order
from harness.tasks.kit.texts import load_text

FIRST_PART = "ordered parts"
"""Time of an action that is due before the first part of the work, whichever part this is."""


class Option(NamedTuple):
    """Optional item of work, which only some seeds ask for, e.g. to enter sample data into a catalogue."""

    name: str
    """Name of the random choice, and of the text in the folder `files` that asks for the item, without `.md`."""
    share: float
    """Probability that a seed asks for the item, from 0 to 1."""
    fact: str
    """Name of the fact that only this item needs."""
    steps: frozenset[str]
    """Names of the script's steps that belong to the item."""


@dataclass(frozen=True, slots=True)
class Work:
    """Choices that a seed makes about the work of a task, e.g. the order.

    Script, checks and texts are built from these choices.
    """

    parts: tuple[str, ...]
    """Names of the parts of the work, in the order in which the agent does them."""
    looks: tuple[str, ...]
    """Names of the unnecessary steps (looks) that the agent of the script takes."""
    action_time: str
    """When the action that must be taken only once is due, as a key of `WorkChoices.action_times`, e.g. `start`."""
    has_option: bool
    """Whether the task asks for the optional item."""
    sheets: SheetSet
    """Information sheets that the task asks for, and the places where it states the facts in them."""

    def begin(self, *actions: StepSpec) -> Iterator[StepSpec]:
        """Yield the first steps, in which the agent reads which information sheets it has to write.

        An action that is due at the start follows.

        Args:
            actions: Steps of the action that must be taken only once.
        """
        yield self.sheets.read_index("The order speaks of information sheets, so I look up which ones are due, and when.")
        if self.action_time == "start":
            yield from actions

    def carry_out(self, part: str, steps: Iterable[StepSpec], *actions: StepSpec) -> Iterator[StepSpec]:
        """Yield the steps of a part of the work, with the action and the information sheets that are due with it.

        The action comes before the part, and the information sheets come after it.

        Args:
            part: Name of the part of the work.
            steps: Steps of the part.
            actions: Steps of the action that must be taken only once.
        """
        if self.action_time == part or (self.action_time == FIRST_PART and part == self.parts[0]):
            yield from actions
        yield from steps
        yield from self.sheets.write_sheets(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkChoices:
    """Description of the possible work of a task, e.g. of its parts and optional items.

    Each seed draws a `Work` from it.
    """

    package: str
    """Python package of the task; its folder `files` has `prompt.md`, `constraints.md` and the text of the optional item."""
    parts: Mapping[str, str]
    """Description of each part of the work in the words of the request, by name of the part."""
    prerequisites: Mapping[str, Collection[str]]
    """Names of the parts that must come before a part, by name of the part."""
    last_parts: tuple[str, ...] = ()
    """Parts that always come last, in this order; the order of all other parts is drawn."""
    looks: tuple[str, ...]
    """Names of all unnecessary steps (looks), in which the agent only looks at something."""
    look_shares: Levels[tuple[float, float]]
    """Bounds of the share of these steps that the agent takes, from 0 to 1, for each difficulty."""
    action: str
    """Name of the action that must be taken only once, e.g. `release`."""
    action_times: Mapping[str, str]
    """Words of the request for each time at which the action can be due, by name of the time: `start`, or what comes after it."""
    option: Option
    """Item of work that only some seeds ask for."""
    stated_facts: Sequence[str]
    """Names of the task's own facts that the request states."""
    stated_once: Levels[Sequence[int] | None] = STATED_ONCE_COUNTS
    """Possible numbers, by difficulty, of the facts of the request that no page repeats; None if no page repeats any."""

    def draw(self, draws: StructureDraws) -> Work:
        """Draw the work for one seed at random, e.g. its order, and the documents that the agent has to write."""
        free_parts = [part for part in self.parts if part not in self.last_parts]
        parts = (*draw_work_order(draws, "parts", free_parts, self.prerequisites), *self.last_parts)
        look_count = round(draws.draw_share("look share", self.look_shares) * len(self.looks))
        return Work(
            parts=parts,
            looks=draws.draw_subset("looks", self.looks, look_count),
            action_time=draws.draw_order(f"{self.action} time", self.action_times)[0],
            has_option=draws.make_rng(self.option.name).random() < self.option.share,
            sheets=draw_sheets(
                draws,
                self.stated_facts,
                parts,
                load_fact_texts(self.package, "constraints.md"),
                stated_once=self.stated_once,
            ),
        )

    def select_steps(self, work: Work, specs: Iterable[StepSpec]) -> Iterator[StepSpec]:
        """Yield the specifications of the steps that belong to the drawn work.

        Unnecessary steps that were not drawn are left out, and so are the steps of the optional item if it is not asked for.
        """
        drawn_steps = {*work.looks, *(self.option.steps if work.has_option else ())}
        omitted_steps = {*self.option.steps, *self.looks} - drawn_steps
        yield from (spec for spec in specs if spec.name not in omitted_steps)

    def list_facts(self, work: Work, facts: Iterable[Fact]) -> tuple[Fact, ...]:
        """Return the facts of a task with the drawn work.

        The task's own facts come first, without the fact of the optional item if the item is not asked for. The facts about the
        organisation, which the agent needs for the information sheets, follow.
        """
        own_facts = (fact for fact in facts if work.has_option or fact.name != self.option.fact)
        return (*work.sheets.add_sources(own_facts), *work.sheets.facts)

    def list_checks(self, work: Work, checks: Iterable[Check], option_check: Check) -> tuple[Check, ...]:
        """Return the checks of a task with the drawn work.

        The task's own checks, `checks`, come first. `option_check` follows if the optional item is asked for, and then one check
        for each information sheet.
        """
        return (*checks, *[option_check] * work.has_option, *work.sheets.checks)

    def render_prompt(self, work: Work, values: Mapping[str, object]) -> str:
        """Return the user's request, which states the facts, the order of the work, and perhaps the optional item."""
        frame = Template(load_text(self.package, "prompt.md")).safe_substitute(
            option=load_text(self.package, f"{self.option.name}.md") * work.has_option,
            action_time=self.action_times[work.action_time],
            order_of_work="; ".join(self.parts[part] for part in work.parts),
        )
        return render_request(frame, work.sheets.statements, load_all_fact_texts(self.package), values)
