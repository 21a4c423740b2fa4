"""The plan of a march: which fact is told at which step, told again, revised, and used; a function of the world alone."""

import random
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

from harness.errors import UsageError
from harness.task import World

SPACING_STEPS = 6
"""From one cairn to the next."""
ORDERS = ("seal", "camp", "lamp")
"""Told before the first step, by the prompt or, if they can be got again, by pages of the first steps."""
FIRST_CAIRN_STEP = len(ORDERS) + 2
"""The step that tells the first cairn, after the pages of the orders."""
DEFAULT_WORLD = World(
    steps=150, tokens_per_step=450, output_sigma=1.9, recoverable_share=0.35, use_lag_steps=45, redundancy=1, update_rate=0.25
)
"""Sizes as recorded in the field; a fact outlives one or two compactions of the default policy before it is used."""
MAX_STEPS = 10_000
"""Of a march; the task is laid out and judged up to here."""
MIN_TOKENS, MAX_TOKENS = 150, 1_000
"""Of `tokens_per_step`: what a step takes at least, and what the longest report leaves of a heavy tail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One fact and its fate."""

    key: str
    """The word by which it is known, e.g. `cairn17`."""
    form_index: int
    """Which of the sentences tells it."""
    told_step: int
    """The step that tells it; 0 = the prompt does."""
    use_step: int
    """The step that writes its note."""
    on_page: bool
    """It stands on a page, which can be read again; otherwise it is said once."""
    revised_step: int
    """The step that tells its new value; 0 = it keeps the first."""
    retold_steps: tuple[int, ...]
    """The steps that say it again."""

    @property
    def name(self) -> str:
        """Name of the fact."""
        return self.key.replace("cairn", "cairn_")

    @property
    def page_path(self) -> str:
        """Path of its page, if it has one."""
        return f"pages/{self.key}.md"

    @property
    def note_path(self) -> str:
        """Path of the note that the agent writes."""
        return f"notes/{self.key}.md"


def complete_world(world: World | None) -> World:
    """Return the world with every knob set.

    Raises:
        UsageError: knobs that do not go together.
    """
    turned: dict[str, Any] = dict(world.overrides if world else {})
    world = replace(DEFAULT_WORLD, **turned)
    knobs = world.overrides
    lag, steps, tokens, redundancy = (int(knobs[name]) for name in ("use_lag_steps", "steps", "tokens_per_step", "redundancy"))
    needed = FIRST_CAIRN_STEP + 1
    if lag < 2:
        raise UsageError(f"world.use_lag_steps: long-march needs at least 2 (got {lag})")
    if steps < lag + needed:
        raise UsageError(
            f"world.steps: a march with use_lag_steps={lag} needs at least {lag + needed} steps (got {steps}); "
            "raise steps or lower use_lag_steps"
        )
    if steps > MAX_STEPS:
        raise UsageError(f"world.steps: long-march takes at most {MAX_STEPS} (got {steps})")
    if not MIN_TOKENS <= tokens <= MAX_TOKENS:
        raise UsageError(f"world.tokens_per_step: long-march takes {MIN_TOKENS} to {MAX_TOKENS} (got {tokens})")
    if redundancy > lag:
        raise UsageError(f"world.redundancy: at most use_lag_steps={lag} (got {redundancy})")
    return world


@lru_cache(maxsize=32)
def plan_marks(world: World) -> tuple[Mark, ...]:
    """Plan all facts of a completed world: the orders, then the cairns in the order of the march."""
    knobs = world.overrides
    lag, steps, redundancy = (int(knobs[name]) for name in ("use_lag_steps", "steps", "redundancy"))
    cairns = range((steps - 1 - lag - FIRST_CAIRN_STEP) // SPACING_STEPS + 1)
    keys = [*ORDERS, *(f"cairn{number}" for number in cairns)]
    page_keys = _choose_keys(keys, knobs["recoverable_share"], "pages")
    updated_keys = _choose_keys(keys, knobs["update_rate"], "updates")
    told_steps = [at + 1 for at in range(len(ORDERS))] + [FIRST_CAIRN_STEP + SPACING_STEPS * number for number in cairns]
    return tuple(
        Mark(
            key=key,
            form_index=at if at < len(ORDERS) else len(ORDERS) + (at - len(ORDERS)) % 5,
            told_step=begin if key in page_keys or at >= len(ORDERS) else 0,
            use_step=begin + lag,
            on_page=key in page_keys,
            revised_step=begin + lag // 2 if key in updated_keys else 0,
            retold_steps=tuple(begin + again * lag // redundancy for again in range(1, redundancy)),
        )
        for at, (key, begin) in enumerate(zip(keys, told_steps, strict=True))
    )


def _choose_keys(keys: list[str], share: float, draw_name: str) -> frozenset[str]:
    """Choose a share of the keys, spread over the march; the orders come last, since an order is what a prompt is for."""
    cairns = keys[len(ORDERS) :]
    random.Random(f"long-march/{draw_name}").shuffle(cairns)
    count = round(share * len(keys))
    return frozenset(list(chain(cairns, ORDERS))[:count])
