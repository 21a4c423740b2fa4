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
DEFAULT = World(
    steps=150,
    tokens_per_step=450,
    output_sigma=1.9,
    recoverable_share=0.35,
    use_lag_steps=45,
    redundancy=1,
    update_rate=0.25,
)
"""Sizes as recorded in the field; a fact outlives one or two compactions of the default policy before it is used."""
MOST_STEPS = 10_000
"""Of a march; the task is laid out and judged up to here."""
LEAST_TOKENS, MOST_TOKENS = 150, 1_000
"""Of `tokens_per_step`: what a step takes at least, and what the longest report leaves of a heavy tail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One fact and its fate."""

    key: str
    """The word by which it is known, e.g. `cairn17`."""
    form: int
    """Which of the sentences tells it."""
    told: int
    """The step that tells it; 0 = the prompt does."""
    used: int
    """The step that writes its note."""
    on_page: bool
    """It stands on a page, which can be read again; otherwise it is said once."""
    revised: int
    """The step that tells its new value; 0 = it keeps the first."""
    retold: tuple[int, ...]
    """The steps that say it again."""

    @property
    def name(self) -> str:
        """Of the fact."""
        return self.key.replace("cairn", "cairn_")

    @property
    def page(self) -> str:
        """Path of its page, if it has one."""
        return f"pages/{self.key}.md"

    @property
    def note(self) -> str:
        """Path of the note that the agent writes."""
        return f"notes/{self.key}.md"


def completed(world: World | None) -> World:
    """The world with every knob set.

    Raises:
        UsageError: knobs that do not go together.
    """
    turned: dict[str, Any] = dict(world.turned if world else {})
    world = replace(DEFAULT, **turned)
    lag, steps, tokens = _whole(world.use_lag_steps), _whole(world.steps), _whole(world.tokens_per_step)
    needed = first_cairn() + 1
    if lag < 2:
        raise UsageError(f"world.use_lag_steps: long-march needs at least 2 (got {lag})")
    if steps < lag + needed:
        raise UsageError(
            f"world.steps: a march with use_lag_steps={lag} needs at least {lag + needed} steps (got {steps}); "
            "raise steps or lower use_lag_steps"
        )
    if steps > MOST_STEPS:
        raise UsageError(f"world.steps: long-march takes at most {MOST_STEPS} (got {steps})")
    if not LEAST_TOKENS <= tokens <= MOST_TOKENS:
        raise UsageError(f"world.tokens_per_step: long-march takes {LEAST_TOKENS} to {MOST_TOKENS} (got {tokens})")
    if _whole(world.redundancy) > lag:
        raise UsageError(f"world.redundancy: at most use_lag_steps={lag} (got {world.redundancy})")
    return world


def _whole(knob: float | None) -> int:
    assert knob is not None
    return int(knob)


def first_cairn() -> int:
    """The step that tells the first cairn: after the pages of the orders."""
    return len(ORDERS) + 2


@lru_cache(maxsize=32)
def marks(world: World) -> tuple[Mark, ...]:
    """All facts of a completed world: the orders, then the cairns in the order of the march."""
    lag, steps = _whole(world.use_lag_steps), _whole(world.steps)
    cairns = range((steps - 1 - lag - first_cairn()) // SPACING_STEPS + 1)
    keys = [*ORDERS, *(f"cairn{number}" for number in cairns)]
    pages = _chosen(keys, world.recoverable_share or 0.0, "pages")
    updates = _chosen(keys, world.update_rate or 0.0, "updates")
    told = [at + 1 for at in range(len(ORDERS))] + [first_cairn() + SPACING_STEPS * number for number in cairns]
    return tuple(
        Mark(
            key=key,
            form=at if at < len(ORDERS) else len(ORDERS) + (at - len(ORDERS)) % 5,
            told=begin if key in pages or at >= len(ORDERS) else 0,
            used=begin + lag,
            on_page=key in pages,
            revised=begin + lag // 2 if key in updates else 0,
            retold=tuple(begin + again * lag // _whole(world.redundancy) for again in range(1, _whole(world.redundancy))),
        )
        for at, (key, begin) in enumerate(zip(keys, told, strict=True))
    )


def _chosen(keys: list[str], share: float, what: str) -> frozenset[str]:
    """So many of the keys, spread over the march; the orders come last, since an order is what a prompt is for."""
    cairns = keys[len(ORDERS) :]
    random.Random(f"long-march/{what}").shuffle(cairns)
    count = round(share * len(keys))
    return frozenset(list(chain(cairns, ORDERS))[:count])
