"""Choice of a setting on one half of the projects, judged on the other half, and its interval.

A setting that was cheapest on some sessions looks better there than it is: it was chosen for that. So each half is judged by the
setting that the other half chose.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.replay.chains import Numbers

DRAWS = 2_000
MIN_GROUPS = 4
"""Smallest number of projects, days or sessions of which each half has at least two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossFit:
    """Saving of settings that were chosen on one half of the groups and judged on the other."""

    chosen: tuple[str, str]
    """Setting that the first half chose, and the one that the second half chose."""
    cost_usd: float
    """Cost of what was really run in USD, over all groups."""
    saving_usd: float
    """Saving over both halves, each under the setting that the other half chose; negative if it costs more."""
    low_usd: float
    """Lower end of the 95 % interval of the saving."""
    high_usd: float
    dearer: int
    """Number of groups that would have cost more."""
    groups: int


def split_halves(cost_usd: Numbers) -> NDArray[np.bool_]:
    """Return which groups are in the first half, chosen by turns from the groups sorted by cost, so that both cost alike."""
    order = np.argsort(-cost_usd, kind="stable")
    halves = np.zeros(len(cost_usd), np.bool_)
    halves[order[[place for place in range(len(order)) if place % 4 in (0, 3)]]] = True
    return halves


def cross_fit(costs_usd: Numbers, as_it_was_usd: Numbers, names: Sequence[str], seed: int = 0) -> CrossFit | None:
    """Return the saving of the settings that the halves of the groups choose for each other.

    The interval is a bootstrap over groups within each half, in which the choice is repeated.

    Args:
        costs_usd: Cost of each group (rows) under each setting (columns) in USD.
        as_it_was_usd: Cost of each group as it was.
        names: Names of the settings. What was really run can be one of them.
        seed: Seed of the bootstrap.

    Returns:
        CrossFit; None if there are fewer than `MIN_GROUPS` groups.
    """
    groups = len(as_it_was_usd)
    if groups < MIN_GROUPS:
        return None
    first = split_halves(as_it_was_usd)
    savings = as_it_was_usd[:, None] - costs_usd
    one, other = savings[first], savings[~first]
    by_one, by_other = int(one.sum(axis=0).argmax()), int(other.sum(axis=0).argmax())
    own = np.where(first, savings[:, by_other], savings[:, by_one])
    rng = np.random.default_rng(seed)
    drawn_one = one[rng.integers(0, len(one), (DRAWS, len(one)))].sum(axis=1)
    drawn_other = other[rng.integers(0, len(other), (DRAWS, len(other)))].sum(axis=1)
    rows = np.arange(DRAWS)
    drawn = drawn_one[rows, drawn_other.argmax(axis=1)] + drawn_other[rows, drawn_one.argmax(axis=1)]
    low, high = np.percentile(drawn, (2.5, 97.5))
    return CrossFit(
        chosen=(names[by_one], names[by_other]),
        cost_usd=float(as_it_was_usd.sum()),
        saving_usd=float(own.sum()),
        low_usd=float(low),
        high_usd=float(high),
        dearer=int((own < -0.005 * as_it_was_usd).sum()),
        groups=groups,
    )


def estimate_saving(costs_usd: Numbers, as_it_was_usd: Numbers, seed: int = 0) -> tuple[float, float, float]:
    """Return the saving in USD of one setting over all groups, with the ends of its 95 % interval by a bootstrap over groups."""
    savings = as_it_was_usd - costs_usd
    rng = np.random.default_rng(seed)
    drawn = savings[rng.integers(0, len(savings), (DRAWS, len(savings)))].sum(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return float(savings.sum()), float(low), float(high)
