"""Order of the work of a task in which the agent writes a program from a specification.

Such tasks have parts of the work in random order, unnecessary steps (looks), one action that must be taken once at some time, one
optional item of work, and information sheets. A task describes them once as `WorkChoices`; each seed draws a `Work` from them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import NamedTuple

from harness.task import Check, Fact
from harness.tasks.kit.agreements import load_agreements
from harness.tasks.kit.sheets import SheetPlan, draw_sheets
from harness.tasks.kit.statements import Saying, load_sayings, render_request
from harness.tasks.kit.steps import StepSpec
from harness.tasks.kit.structure import Levels, StructureDraws, draw_work_order
from harness.tasks.kit.texts import load_text


class Option(NamedTuple):
    """Optional item of work, which only some seeds ask for, e.g. to feed a deck to a catalogue."""

    name: str
    """Name of the random choice, and of the text in the folder `files` that asks for the item, without `.md`."""
    share: float
    """Probability that a seed asks for the item, from 0 to 1."""
    fact: str
    """Name of the fact that only this item needs."""
    steps: frozenset[str]
    """Names of the steps that belong to the item."""


@dataclass(frozen=True, slots=True)
class Work:
    """Choices that a seed makes for the work of a task; script, checks and texts are built from them."""

    parts: tuple[str, ...]
    """Parts of the work in order."""
    looks: tuple[str, ...]
    """Names of the unnecessary steps that the agent takes."""
    action_time: str
    """Time at which the action that must be taken once is due, e.g. `start`."""
    has_option: bool
    """Whether the task asks for the optional item."""
    sheets: SheetPlan
    """Information sheets that the task asks for, and the places where it states the facts in them."""

    def begin(self, *actions: StepSpec) -> Iterator[StepSpec]:
        """Yield the step that reads the list of sheets, and `actions`, the steps of the action, if it is due at the start."""
        yield self.sheets.read_index("The order speaks of information sheets, so I look up which ones are due, and when.")
        if self.action_time == "start":
            yield from actions

    def carry_out(self, part: str, steps: Iterable[StepSpec], *actions: StepSpec) -> Iterator[StepSpec]:
        """Yield the steps of a part: before them `actions`, if the action is due with the part, and after them its sheets."""
        if self.action_time == part:
            yield from actions
        yield from steps
        yield from self.sheets.write_sheets(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkChoices:
    """Description of the work of a task from which each seed draws a `Work`."""

    package: str
    """Package of the task; its folder `files` has the texts `prompt.md`, `constraints.md` and the text of the optional item."""
    parts: Mapping[str, str]
    """Parts of the work, with the words for each part."""
    prerequisites: Mapping[str, Collection[str]]
    """Names of the parts that must come before a part, by name of the part."""
    last_parts: tuple[str, ...] = ()
    """Parts that always come last, in this order; the order of all other parts is drawn."""
    looks: tuple[str, ...]
    """Names of all unnecessary steps, in which the agent only looks at something."""
    look_shares: Levels[tuple[float, float]]
    """Bounds of the share of the unnecessary steps that the agent takes."""
    action: str
    """Name of the action that must be taken once, e.g. `release`."""
    action_times: Mapping[str, str]
    """Times at which the action can be due, each with the words of the request for it."""
    option: Option
    """Optional item of work."""
    stated_facts: Sequence[str]
    """Names of the task's own facts that the request states."""

    def draw(self, draws: StructureDraws) -> Work:
        """Draw at random the choices that a seed makes for the work."""
        free_parts = [part for part in self.parts if part not in self.last_parts]
        parts = (*draw_work_order(draws, "parts", free_parts, self.prerequisites), *self.last_parts)
        look_count = round(draws.draw_share("look share", self.look_shares) * len(self.looks))
        return Work(
            parts=parts,
            looks=draws.draw_subset("looks", self.looks, look_count),
            action_time=draws.draw_order(f"{self.action} time", self.action_times)[0],
            has_option=draws.make_rng(self.option.name).random() < self.option.share,
            sheets=draw_sheets(draws, self.stated_facts, parts, load_sayings(self.package, "constraints.md")),
        )

    def select_steps(self, work: Work, specs: Iterable[StepSpec]) -> Iterator[StepSpec]:
        """Yield those of the steps that a script has: all but the looks, and the steps of the option, that were not drawn."""
        drawn = {*work.looks, *(self.option.steps if work.has_option else ())}
        omitted = {*self.option.steps, *self.looks} - drawn
        yield from (spec for spec in specs if spec.name not in omitted)

    def list_facts(self, work: Work, facts: Iterable[Fact]) -> tuple[Fact, ...]:
        """Return the facts of a task: its own, without that of an option that was not drawn, and those of its sheets."""
        return (*(fact for fact in facts if work.has_option or fact.name != self.option.fact), *work.sheets.facts)

    def list_checks(self, work: Work, checks: Iterable[Check], option_check: Check) -> tuple[Check, ...]:
        """Return the checks of a task: its own, that of the option if it was drawn, and those of its sheets."""
        return (*checks, *[option_check] * work.has_option, *work.sheets.checks)

    def render_prompt(self, work: Work, values: Mapping[str, object]) -> str:
        """Return the request of a task, which states the order of the work, the option if it was drawn, and the facts."""
        frame = Template(load_text(self.package, "prompt.md")).safe_substitute(
            option=load_text(self.package, f"{self.option.name}.md") * work.has_option,
            action_time=self.action_times[work.action_time],
            order_of_work="; ".join(self.parts[part] for part in work.parts),
        )
        return render_request(frame, work.sheets.statements, self.load_sayings(), values)

    def load_sayings(self) -> dict[str, Saying]:
        """Return the texts of all facts that the task and its sheets can state, by name of the fact."""
        return {**load_agreements(), **load_sayings(self.package, "constraints.md")}
