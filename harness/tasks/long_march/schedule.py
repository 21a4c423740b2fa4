"""Schedule of the task `long-march`: the steps at which each fact is stated, repeated, corrected and used.

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
"""Number of steps from one cairn to the next."""
ORDERS = ("seal", "camp", "lamp")
"""Keys of the orders, stated in the prompt or, if recoverable, on pages that the first steps read."""
FIRST_CAIRN_STEP = len(ORDERS) + 2
"""Step that states the first cairn, after the steps that read the orders."""
DEFAULT_WORLD = World(
    steps=150, tokens_per_step=450, output_sigma=1.9, recoverable_share=0.35, use_lag_steps=45, redundancy=1, update_rate=0.25
)
"""Settings used where `World` has None. Sizes match recorded sessions; a fact meets one or two compactions before its use."""
MAX_STEPS = 10_000
"""Maximum number of steps that the task supports."""
MIN_TOKENS, MAX_TOKENS = 150, 1_000
"""Range of `tokens_per_step`: a step needs the minimum, and reports of limited size cannot reach more than the maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Schedule of one fact."""

    key: str
    """Word that identifies the fact in texts, e.g. `cairn17`."""
    form_index: int
    """Index of the sentence in `FACT_FORMS` that states the fact."""
    told_step: int
    """Step that states the fact; 0 is the prompt."""
    use_step: int
    """Step that writes the note with the number."""
    on_page: bool
    """Whether a page states the fact and can be read again; otherwise the fact is stated once."""
    revised_step: int
    """Step that corrects the number; 0 means no correction."""
    retold_steps: tuple[int, ...]
    """Steps that repeat the fact."""

    @property
    def name(self) -> str:
        """Name of the fact."""
        return self.key.replace("cairn", "cairn_")

    @property
    def page_path(self) -> str:
        """Path of the page of the fact, if `on_page` is set."""
        return f"pages/{self.key}.md"

    @property
    def note_path(self) -> str:
        """Path of the note with the number."""
        return f"notes/{self.key}.md"


def complete_world(world: World | None) -> World:
    """Return the settings with defaults filled in.

    Raises:
        UsageError: A setting is out of range, or settings contradict each other.
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
    """Return the schedule of every fact, first the orders, then the cairns; `world` must have every setting."""
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
    """Choose a share of the keys, spread over the march. Orders are chosen last, since orders belong in the prompt."""
    cairns = keys[len(ORDERS) :]
    random.Random(f"long-march/{draw_name}").shuffle(cairns)
    count = round(share * len(keys))
    return frozenset(list(chain(cairns, ORDERS))[:count])
