"""Amounts of a view by which stages state when they are due and how much they retain: what `feasibility` compares."""

import math
from typing import Literal, NamedTuple, TypeAlias

Unit: TypeAlias = Literal["tokens", "messages", "requests and answers", "all"]


class Amount(NamedTuple):
    """A number of tokens or messages in a view."""

    size: float
    """Infinite = all that there are."""
    unit: Unit

    def __str__(self) -> str:
        return "everything" if self.unit == "all" else f"{int(self.size)} {self.unit}"


ALL_KEPT = Amount(math.inf, "all")


class DueAmounts(NamedTuple):
    """Amounts of a view that make a trigger due."""

    amounts: tuple[Amount, ...] = ()
    """Each of them is enough; empty = the trigger is due for another reason, or never."""
    smallest_view: Amount | None = None
    """Smallest view in which the trigger can be due; infinite = none, None = not known."""

    @property
    def is_never(self) -> bool:
        """Whether no view can make the trigger due."""
        return self.smallest_view is not None and math.isinf(self.smallest_view.size)


DUE_IN_ANY_VIEW = DueAmounts()
"""Statement of a trigger that does not depend on an amount."""
