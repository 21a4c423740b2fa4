"""Random choice of a task's structure, i.e. of all that differs between its seeds except the values to remember.

The structure decides, for example, which work is asked for and where each value is stated. Script, facts and checks are built
from the structure alone. The values are drawn independently, so two tasks can have the same structure and different values. The
validity checks of tasks compare such a pair to find a script that reveals a value.
"""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from harness.task import Difficulty
from harness.tasks.kit.draws import make_rng

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels(Generic[T_co]):
    """Value of one setting of a task for each difficulty, e.g. a range of numbers of documents to write."""

    easy: T_co
    standard: T_co
    hard: T_co

    def pick(self, difficulty: Difficulty) -> T_co:
        """Return the value of the setting for a difficulty."""
        return {"easy": self.easy, "standard": self.standard, "hard": self.hard}[difficulty]


@dataclass(frozen=True, slots=True)
class StructureDraws:
    """Source of the random choices that make up the structure of a task, e.g. the order of the work.

    Each choice has a name and its own random generator. A new choice in a task therefore leaves all other choices as they are.

    Example:
        >>> from harness.tasks.kit import Levels, StructureDraws
        >>> draws = StructureDraws("flashcards", 3, "hard")
        >>> draws.pick(Levels(easy=2, standard=4, hard=8))
        8
        >>> draws.draw_order("papers", ("README", "manual")) == draws.draw_order("papers", ("README", "manual"))
        True
    """

    task: str
    """Name of the task."""
    seed: int
    """Seed of the structure."""
    difficulty: Difficulty = "standard"
    """Level of the task's demands on the agent's memory."""

    def make_rng(self, name: str) -> random.Random:
        """Return the random generator for the choice called `name`.

        It is independent of all other choices and of the task's values.
        """
        return make_rng(self.task, self.seed, f"structure/{name}")

    def pick(self, levels: Levels[T]) -> T:
        """Return the value of a setting for the difficulty of the task, e.g. `levels.hard`."""
        return levels.pick(self.difficulty)

    def draw_count(self, name: str, counts: Levels[range]) -> int:
        """Draw an integer for the choice called `name`, from the range that belongs to the task's difficulty."""
        return self.make_rng(name).choice(self.pick(counts))

    def draw_share(self, name: str, bounds: Levels[tuple[float, float]]) -> float:
        """Draw a share for the choice called `name`, between the bounds that belong to the task's difficulty."""
        return self.make_rng(name).uniform(*self.pick(bounds))

    def draw_order(self, name: str, items: Iterable[T]) -> tuple[T, ...]:
        """Return the items in the random order that belongs to the choice called `name`."""
        all_items = tuple(items)
        return tuple(self.make_rng(name).sample(all_items, len(all_items)))

    def draw_subset(self, name: str, items: Sequence[T], count: int) -> tuple[T, ...]:
        """Choose `count` items at random, or all if there are fewer, and return them in their original order."""
        indexes = self.make_rng(name).sample(range(len(items)), min(count, len(items)))
        return tuple(items[index] for index in sorted(indexes))


def draw_work_order(
    draws: StructureDraws, name: str, parts: Iterable[str], prerequisites: Mapping[str, Collection[str]]
) -> tuple[str, ...]:
    """Return the parts of a task's work in random order, each part after its prerequisites.

    Args:
        draws: Source of the random choices for the structure of the task.
        name: Name of this random choice, which selects its random generator.
        parts: Names of the parts of the work.
        prerequisites: Names of the parts that must come before a part, by name of the part.
    """
    waiting, ordered = list(draws.draw_order(name, parts)), list[str]()
    while waiting:
        following = next(part for part in waiting if set(prerequisites.get(part, ())) <= set(ordered))
        waiting.remove(following)
        ordered.append(following)
    return tuple(ordered)
