"""Schedule of the task `long-march`: the steps that state, repeat, correct and use each fact (a number to remember).

The schedule depends on the settings and not on the seed.
"""

import random
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

from harness.errors import UsageError
from harness.task import World

SPACING_STEPS = 6
"""Distance in steps between two cairns (places on the way with a number that the agent must remember)."""
ORDERS = ("seal", "camp", "lamp")
"""Keys of the user's orders, which are facts (numbers to remember) stated in the prompt or on pages that the first steps read."""
FIRST_CAIRN_STEP = len(ORDERS) + 2
"""Number of the step whose output states the first cairn (a place with a number to remember); earlier steps read the orders."""
DEFAULT_WORLD = World(
    steps=150, tokens_per_step=450, output_sigma=1.9, recoverable_share=0.35, use_lag_steps=45, redundancy=1, update_rate=0.25
)
"""Default settings of the task, with which 1 or 2 compactions happen between the statement of a fact and its use."""
MAX_STEPS = 10_000
"""Maximum number of steps that a user can request for the task `long-march`."""
MIN_TOKENS, MAX_TOKENS = 150, 1_000
"""Smallest and largest mean number of tokens that a step of the task may add to the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Schedule of one fact (a number to remember): the steps that state, repeat, correct and use the number."""

    key: str
    """Key of the fact (the number to remember), by which the texts of the task mention it, e.g. `cairn17`."""
    form_index: int
    """Index of the sentence that states the fact, in the list `FACT_FORMS` of such sentences."""
    told_step: int
    """Number of the step whose output first states the fact; 0 means that the prompt states the fact."""
    use_step: int
    """Number of the step in which the agent has to write the remembered number into a note."""
    on_page: bool
    """Whether a page states the number to remember, so that the agent can read a forgotten number again."""
    revised_step: int
    """Number of the step whose output replaces the number to remember by a new one; 0 means that the number stays the same."""
    retold_steps: tuple[int, ...]
    """Numbers of the steps whose output repeats a fact that an earlier step has stated."""

    @property
    def name(self) -> str:
        """Name of the fact (the number to remember), used in the script of the task and in results."""
        return self.key.replace("cairn", "cairn_")

    @property
    def page_path(self) -> str:
        """Path of the file from which the agent can read the number again. The file exists only if `on_page` is set."""
        return f"pages/{self.key}.md"

    @property
    def note_path(self) -> str:
        """Path of the file into which the agent has to write the remembered number."""
        return f"notes/{self.key}.md"


def complete_world(world: World | None) -> World:
    """Return the settings of the task `long-march` with a default value for each setting that is None.

    Raises:
        UsageError: A setting in `world` is out of range, or settings contradict each other.
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
        raise UsageError(f"world.steps: long-march supports at most {MAX_STEPS} steps (got {steps})")
    if not MIN_TOKENS <= tokens <= MAX_TOKENS:
        raise UsageError(f"world.tokens_per_step: long-march supports {MIN_TOKENS} to {MAX_TOKENS} tokens (got {tokens})")
    if redundancy > lag:
        raise UsageError(f"world.redundancy: must be at most use_lag_steps={lag} (got {redundancy})")
    return world


@lru_cache(maxsize=32)
def plan_marks(world: World) -> tuple[Mark, ...]:
    """Plan when each fact is stated and used; return first the user's orders, then the numbers found on the way (cairns).

    No setting in `world` may be None.
    """
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
    """Choose at random the facts that get a property, e.g. a later correction, and return their keys; `share` is 0 to 1.

    The user's orders are chosen only if all other facts are chosen, since orders belong in the prompt.
    """
    cairns = keys[len(ORDERS) :]
    random.Random(f"long-march/{draw_name}").shuffle(cairns)
    count = round(share * len(keys))
    return frozenset(list(chain(cairns, ORDERS))[:count])
