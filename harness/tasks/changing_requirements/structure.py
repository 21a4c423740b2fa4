"""Choices that a seed makes for the task `changing-requirements`: bus stops, their order, and when the user changes the rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.tasks.kit.sheets import SheetSet, draw_sheets
from harness.tasks.kit.statements import NOTES, load_fact_texts
from harness.tasks.kit.structure import Levels, StructureDraws

STOPS = (
    *("abbey", "bakery", "bridge", "castle", "cemetery", "cinema", "college", "depot", "ferry", "forge", "garden", "harbour"),
    *("hospital", "lighthouse", "market", "mill", "museum", "orchard", "quarry", "school", "station", "stadium", "theatre"),
    "vineyard",
)
"""Names of all bus stops; the seed decides at which of them the bus line stops, and in which order."""
STOP_COUNTS = Levels(easy=range(15, 18), standard=range(18, 24), hard=range(23, 25))
FIRST_CHANGE_SHARES = Levels(easy=(0.3, 0.35), standard=(0.3, 0.45), hard=(0.3, 0.35))
SECOND_CHANGE_SHARES = Levels(easy=(0.75, 0.85), standard=(0.6, 0.85), hard=(0.6, 0.65))
"""Bounds, by difficulty, of the share of timetables that are written before the user's second change of the rules.

After an early change, the agent must remember the changed rules for a long time.
"""
BAY_COUNTS = Levels(easy=range(2, 4), standard=range(2, 7), hard=range(6, 8))
LOOK_COUNTS = Levels(easy=range(3, 6), standard=range(6, 13), hard=range(12, 15))
SURVEY_CHARACTERS = (3_500, 6_000, 9_400)
"""Possible minimum lengths, in characters, of a survey (description of a bus stop); each survey fits into one tool output."""
SURVEY_WEIGHTS = Levels(easy=(3, 1, 1), standard=(1, 1, 2), hard=(0, 1, 3))
"""Relative frequency of each length in `SURVEY_CHARACTERS`, for each difficulty."""
STATED_ONCE_COUNTS: Levels[Sequence[int] | None] = Levels(easy=(3, 4), standard=None, hard=None)
"""Possible numbers, by difficulty, of the facts of the request that no page repeats; None if no page repeats any."""
STATED_FACTS = ("operator", "opening", "ticket", "greeting")
"""Names of the facts in the request that never change, so that an information sheet can need them at any time."""
FIRST_RULES = ("interval_1", "first_bus_1", "zone_1")
"""Names of the rules that the request states and the user changes later."""
CHANGE_LINES = 3
"""Number of lines, in a message that changes rules, whose order depends on the seed."""


Addition: TypeAlias = Literal["none", "images", "skill", "delegation"]
"""Part that a variant adds to the work: photos of the stops, rules that a tool loads, or an errand of a sub-agent."""


@dataclass(frozen=True, slots=True)
class Change:
    """Time and layout of one message in which the user changes the rules."""

    sheet_count: int
    """Number of timetables that are finished when the user sends the message."""
    lines: tuple[int, ...]
    """Order in which the message states its new rules: indexes of the lines in the task's text, e.g. `(2, 0, 1)`."""
    notes: tuple[int, ...]
    """Number of sentences without information (see `harness.tasks.kit.statements.NOTES`) after each line of the message."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Choices that a seed makes for the task, except the values to remember.

    Script, checks and texts are built from these choices.
    """

    stops: tuple[str, ...]
    """Names of the stops, in the order in which the line passes them."""
    bays: tuple[str, ...]
    """Stops whose survey states a bay number, which the agent reads early and needs only at the end."""
    changes: tuple[Change, Change]
    """Time and layout of the two messages in which the user changes the rules."""
    reminds: bool
    """Whether the second change repeats the rules that only the first one states."""
    permit_after: int
    """Number of timetables that are finished when the agent requests the permit."""
    looks: tuple[str, ...]
    """Stops whose timetable the agent looks at again without need."""
    survey_characters: tuple[int, ...]
    """Minimum length in characters of the survey (description) of each stop, in the order of `stops`."""
    sheets: SheetSet
    """Information sheets that the task asks for, and the places where it states the facts in them."""
    addition: Addition = "none"
    """Part that a variant of the task adds to the work."""

    @property
    def sealed_stops(self) -> tuple[str, ...]:
        """Stops whose timetable is written under the rules of the skill, which is loaded after the first change."""
        return self.stops[self.changes[0].sheet_count :] if self.addition == "skill" else ()


def draw_structure(draws: StructureDraws, addition: Addition = "none") -> Structure:
    """Draw the structure of the task at random: all choices of a seed except the values to remember.

    A variant has the same choices as the task itself, and its addition.
    """
    stops = draws.draw_order("stops", STOPS)[: draws.draw_count("stop count", STOP_COUNTS)]
    first = round(draws.draw_share("first change", FIRST_CHANGE_SHARES) * len(stops))
    second = round(draws.draw_share("second change", SECOND_CHANGE_SHARES) * len(stops))
    sizes = draws.make_rng("survey sizes").choices(SURVEY_CHARACTERS, draws.pick(SURVEY_WEIGHTS), k=len(stops))
    fact_texts = load_fact_texts(__package__, "constraints.md")
    return Structure(
        stops=stops,
        bays=draws.draw_subset("bays", stops[: 2 * len(stops) // 3], draws.draw_count("bay count", BAY_COUNTS)),
        changes=(_draw_change(draws, "first news", first), _draw_change(draws, "second news", second)),
        reminds=draws.difficulty == "easy",
        permit_after=draws.make_rng("permit").randint(1, second),
        looks=draws.draw_subset("looks", stops, draws.draw_count("look count", LOOK_COUNTS)),
        survey_characters=tuple(sizes),
        sheets=draw_sheets(
            draws, STATED_FACTS, (*stops, "papers"), fact_texts, only_stated=FIRST_RULES, stated_once=STATED_ONCE_COUNTS
        ),
        addition=addition,
    )


def _draw_change(draws: StructureDraws, name: str, sheet_count: int) -> Change:
    rng = draws.make_rng(name)
    lines = rng.sample(range(CHANGE_LINES), CHANGE_LINES)
    return Change(sheet_count, tuple(lines), tuple(rng.randint(0, len(NOTES)) for _ in lines))
