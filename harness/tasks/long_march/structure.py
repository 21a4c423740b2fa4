"""Choices that a seed makes for the task `long-march`: which numbers are stated where and how, and which notes ask for them.

Settings that the user specifies (fields of `World` that are not None) are kept exactly; the seed decides only the others.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from harness.task import World
from harness.tasks.kit.statements import NOTES, Placement, Statement, add_notes, draw_statements, mislead
from harness.tasks.kit.structure import Levels, StructureDraws
from harness.tasks.long_march.facts import CAIRN_FORMS, ORDER_KINDS, load_orders
from harness.tasks.long_march.prose import PLACE
from harness.tasks.long_march.schedule import FIRST_FIND_STEP, Mark, Note, check_world

STEP_COUNTS = Levels(easy=range(120, 151), standard=range(135, 171), hard=range(210, 261))
TOKENS_PER_STEP = Levels(easy=300, standard=450, hard=600)
OUTPUT_SIGMA = 1.9
"""Default spread of the sizes of reports (sigma of their lognormal distribution), as measured in recorded sessions."""
LAG_BOUNDS = Levels(easy=(10.0, 25.0), standard=(30.0, 80.0), hard=(60.0, 100.0))
"""Bounds, by difficulty, of the mean number of steps between the statement and the use of a number (the mean lag of a task)."""
LAG_SPREAD = 0.5
"""Largest difference between the lag of one number and the mean lag of the task, as a share of the mean lag."""
RECOVERABLE_BOUNDS = Levels(easy=(0.3, 0.6), standard=(0.0, 0.3), hard=(0.0, 0.15))
"""Bounds, by difficulty, of the share of the numbers that a page states, so that the agent can read them again."""
UPDATE_BOUNDS = Levels(easy=(0.0, 0.15), standard=(0.05, 0.4), hard=(0.25, 0.5))
"""Bounds, by difficulty, of the share of the numbers that are corrected before their use."""
REPEAT_BOUNDS = Levels(easy=(0.3, 0.6), standard=(0.0, 0.4), hard=(0.0, 0.1))
"""Bounds, by difficulty, of the share of the numbers in reports that a later report repeats before their use."""
GAPS = Levels(easy=range(7, 11), standard=range(4, 9), hard=range(3, 7))
"""Range, by difficulty, of the number of steps from one report that states numbers to the next."""
NUMBERS_PER_NOTE = Levels(easy=(1,), standard=(1, 1, 1, 2), hard=(1, 2, 3))
"""Possible counts, by difficulty, of the numbers that one report states and for which one note asks together."""
ORDER_COUNTS = Levels(easy=range(2, 4), standard=range(3, 7), hard=range(5, 9))
"""Range, by difficulty, of the number of orders of the user."""
ORDER_LAG_FACTOR = 3
"""Largest number of steps from the start to the use of an order, as a multiple of the mean lag (see `LAG_BOUNDS`)."""
IDLE_BOUNDS = Levels(easy=(0.0, 0.1), standard=(0.0, 0.3), hard=(0.2, 0.5))
"""Bounds, by difficulty, of the share of the stated numbers for which no note asks."""
RUMOUR_BOUNDS = Levels(easy=(0.0, 0.2), standard=(0.0, 0.4), hard=(0.4, 0.8))
"""Bounds, by difficulty, of the number of misleading sentences in reports for each number that reports state."""
LINE_BOUNDS = Levels(easy=(0.6, 0.9), standard=(0.1, 0.9), hard=(0.1, 0.5))
"""Bounds, by difficulty, of the share of facts that are stated in a short line, not in a story or a row of a table."""
NOTE_BOUNDS = Levels(easy=(0.0, 0.2), standard=(0.0, 0.75), hard=(0.5, 1.0))
"""Bounds, by difficulty, of the share of statements of facts that are made longer by sentences without information."""
MISLEADING_COUNTS = Levels(easy=range(2), standard=range(5), hard=range(3, 7))
"""Range, by difficulty, of the number of misleading sentences in the user's request."""


class Rumour(NamedTuple):
    """Misleading sentence in a report, which seems to be about a cairn (a marked place) but is not."""

    post: int
    """Number of the post whose report contains the sentence."""
    form: int
    """Placement of the statement about a cairn that the sentence resembles, as an index in `CAIRN_FORMS`."""
    place: str
    """Place that the sentence is about."""
    number: int
    """Number in the sentence, which no note asks for."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Choices that a seed makes for the task, except the numbers to remember.

    Script, checks and texts are built from these choices.
    """

    steps: int
    """Number of steps of the task, including the first step, in which the agent asks a tool for its position."""
    tokens_per_step: int
    """Mean number of tokens that a step adds to the conversation."""
    output_sigma: float
    """Spread of the sizes of reports: sigma of their lognormal distribution."""
    marks: tuple[Mark, ...]
    """Schedule of each number to remember: first the user's orders, then the numbers of cairns in order of their statement."""
    rumours: tuple[Rumour, ...]
    """Misleading sentences that reports contain."""
    statements: tuple[Statement, ...]
    """Orders and misleading sentences in the user's request, each with its placement, e.g. a short line."""

    def list_notes(self) -> list[Note]:
        """Return the notes that the agent has to write on its way, in order of the steps."""
        marks_by_step: dict[int, list[Mark]] = {}
        for mark in self.marks:
            if mark.use_step:
                marks_by_step.setdefault(mark.use_step, []).append(mark)
        return [Note(post, tuple(marks)) for post, marks in sorted(marks_by_step.items())]


class _Use(NamedTuple):
    """Number to remember: its key, the step from which it is known, and the step that needs it (0 if none)."""

    key: str
    begin_step: int
    use_step: int


def draw_structure(draws: StructureDraws, world: World) -> Structure:
    """Draw the structure of the task at random: all choices of a seed except the numbers to remember.

    Settings of `world` that are not None are kept, e.g. the number of steps.

    Raises:
        UsageError: A setting is out of range, or settings contradict each other.
    """
    check_world(world)
    steps = int(world.steps or draws.draw_count("steps", STEP_COUNTS))
    if world.steps is None and world.use_lag_steps is not None:
        steps = max(steps, int(world.use_lag_steps) + 2 * FIRST_FIND_STEP)
    lags = _Lags(draws, world, steps)
    names = draws.draw_subset("orders", tuple(ORDER_KINDS), draws.draw_count("order count", ORDER_COUNTS))
    orders, finds = _draw_orders(names, lags), _draw_finds(draws, lags)
    marks = _draw_marks(draws, world, orders, finds)
    in_request = [mark.key for mark in marks if mark.is_order and not mark.on_page]
    return Structure(
        steps=steps,
        tokens_per_step=int(world.tokens_per_step or draws.pick(TOKENS_PER_STEP)),
        output_sigma=OUTPUT_SIGMA if world.output_sigma is None else world.output_sigma,
        marks=marks,
        rumours=tuple(_draw_rumours(draws, finds)),
        statements=_draw_statements(draws, in_request),
    )


class _Lags:
    """Random draws of the number of steps between the statement and the use of a number (the lag)."""

    def __init__(self, draws: StructureDraws, world: World, steps: int) -> None:
        self._rng, self.fixed, self.last_step = draws.make_rng("lags"), world.use_lag_steps, steps - 1
        self._mean = draws.draw_share("mean lag", LAG_BOUNDS)
        self._least, self._most = max(2, int(world.redundancy or 0)), steps - 1 - FIRST_FIND_STEP

    def draw_use(self, begin_step: int) -> int:
        """Draw the step that uses a number which step `begin_step` states; 0 if the task ends before."""
        drawn_lag = round(self._mean * self._rng.uniform(1 - LAG_SPREAD, 1 + LAG_SPREAD))
        lag = self.fixed or max(self._least, min(self._most, drawn_lag))
        return int(begin_step + lag) if begin_step + lag <= self.last_step else 0

    def draw_order_use(self, begin_step: int) -> int:
        """Draw the step that uses an order of the user which is known from step `begin_step` on."""
        # orders are used late, after ORDER_LAG_FACTOR times the mean lag at most, but before the march ends
        longest = min(self.last_step - begin_step, round(ORDER_LAG_FACTOR * self._mean))
        lag = self._rng.randint(min(longest, max(self._least, round(self._mean * LAG_SPREAD))), longest)
        return int(begin_step + (self.fixed or lag))


def _draw_orders(names: Sequence[str], lags: _Lags) -> list[_Use]:
    begin_steps = (1 + index % (FIRST_FIND_STEP - 2) for index in range(len(names)))
    return [_Use(name, begin, lags.draw_order_use(begin)) for name, begin in zip(names, begin_steps, strict=True)]


def _draw_finds(draws: StructureDraws, lags: _Lags) -> list[_Use]:
    """Draw which reports state numbers of which cairns (marked places), and which notes ask for them."""
    gaps, counts, idle = (draws.make_rng(name) for name in ("gaps", "numbers", "idle"))
    idle_share = draws.draw_share("idle share", IDLE_BOUNDS)
    drafts, step = [], FIRST_FIND_STEP
    while step < lags.last_step:
        use_step = lags.draw_use(step)
        for index in range(counts.choice(draws.pick(NUMBERS_PER_NOTE))):
            is_first = step == FIRST_FIND_STEP and index == 0
            drafts.append((step, 0 if idle.random() < idle_share and not is_first else use_step))
        step += gaps.choice(draws.pick(GAPS))
    cairns = draws.make_rng("cairns").sample(range(1, 2 * len(drafts) + 1), len(drafts))
    return [_Use(f"cairn{cairn}", begin, use) for cairn, (begin, use) in zip(cairns, drafts, strict=True)]


def _draw_marks(draws: StructureDraws, world: World, orders: Sequence[_Use], finds: Sequence[_Use]) -> tuple[Mark, ...]:
    used_keys = [use.key for use in finds if use.use_step], [use.key for use in orders]
    recoverable, updates, repeats, line_share, note_share = (
        draws.draw_share(name, bounds)
        for name, bounds in (
            ("recoverable share", RECOVERABLE_BOUNDS),
            ("update share", UPDATE_BOUNDS),
            ("repeat share", REPEAT_BOUNDS),
            ("report line share", LINE_BOUNDS),
            ("report note share", NOTE_BOUNDS),
        )
    )
    recoverable = recoverable if world.recoverable_share is None else world.recoverable_share
    page_keys = _choose_keys(draws.make_rng("pages"), *used_keys, recoverable)
    updates = updates if world.update_rate is None else world.update_rate
    updated_keys = _choose_keys(draws.make_rng("updates"), *used_keys, updates)
    repeat_rng, form_rng = draws.make_rng("repeats"), draws.make_rng("report forms")

    def list_repeats(use: _Use, is_in_report: bool) -> tuple[int, ...]:
        if not use.use_step:
            return ()
        if world.redundancy is None:
            step = repeat_rng.randint(use.begin_step + 1, use.use_step - 1)
            return (step,) if repeat_rng.random() < repeats and is_in_report else ()
        lag, times = use.use_step - use.begin_step, int(world.redundancy)
        return tuple(use.begin_step + turn * lag // times for turn in range(1, times))

    def make_mark(use: _Use, is_order: bool) -> Mark:
        on_page, is_line, is_noted = use.key in page_keys, form_rng.random() < line_share, form_rng.random() < note_share
        return Mark(
            key=use.key,
            is_order=is_order,
            told_step=use.begin_step if on_page or not is_order else 0,  # other orders stand in the request
            use_step=use.use_step,
            on_page=on_page,
            revised_step=(use.begin_step + use.use_step) // 2 if use.key in updated_keys else 0,
            retold_steps=list_repeats(use, is_in_report=not (is_order or on_page)),
            has_story=not is_line,
            notes=form_rng.randint(1, len(NOTES)) if is_noted else 0,
        )

    return (*(make_mark(find, True) for find in orders), *(make_mark(find, False) for find in finds))


def _choose_keys(rng: random.Random, cairns: Sequence[str], orders: Sequence[str], share: float) -> frozenset[str]:
    """Choose a random share of the facts, and return their keys.

    The user's orders are chosen only after all other facts, since orders belong in the request.
    """
    shuffled = rng.sample(cairns, len(cairns))
    return frozenset(list(chain(shuffled, orders))[: round(share * (len(cairns) + len(orders)))])


def _draw_rumours(draws: StructureDraws, finds: Sequence[_Use]) -> list[Rumour]:
    rng, share = draws.make_rng("rumours"), draws.draw_share("rumour share", RUMOUR_BOUNDS)
    posts = [find.begin_step + rng.choice((-1, 0, 1)) for find in finds if rng.random() < share]
    return [
        Rumour(post, rng.randrange(len(CAIRN_FORMS)), rng.choice(PLACE.split()), rng.randrange(1_000, 10_000)) for post in posts
    ]


def _draw_statements(draws: StructureDraws, orders: Sequence[str]) -> tuple[Statement, ...]:
    line_share = draws.draw_share("line share", LINE_BOUNDS)
    placements: dict[Placement, float] = {"line": line_share, "story": 0.7 * (1 - line_share), "row": 0.3 * (1 - line_share)}
    stated = (
        *draw_statements(draws, "order forms", orders, placements),
        *mislead(draws, "misleading", load_orders(), draws.draw_count("misleading count", MISLEADING_COUNTS), placements),
    )
    return draws.draw_order("statements", add_notes(draws, stated, draws.draw_share("note share", NOTE_BOUNDS)))
