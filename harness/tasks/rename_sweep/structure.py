"""Choices that a seed makes for the task `rename-sweep`: the folders and their order, and the documents to write."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.tasks.kit.sheets import SheetSet, draw_sheets
from harness.tasks.kit.statements import load_fact_texts
from harness.tasks.kit.structure import Levels, StructureDraws

ALL_FOLDERS = (
    *("anchors", "buoys", "canals", "cranes", "docks", "ferries", "gates", "lights", "pilots", "pumps", "tugs", "yards"),
)
"""Folders in which the agent may have to rename the function, besides the first and the last folder."""
MODULES = ("arrivals", "fees", "stays", "talks")
"""Names of the modules that every folder of the generated package contains."""
PROMPT_FACTS = (
    *("new_name", "excluded_folder", "alias_module", "removal_release", "first_folder", "last_folder", "ticket", "goal_left"),
    "verb",
)
"""Names of the facts that the request states for every seed."""
ORDERS: Mapping[str, str] = {
    "alphabetical": "in alphabetical order",
    "reversed": "in reversed alphabetical order",
    "listed": "in this order",
}
"""Orders in which the agent can be asked to go through the folders, each with the words of the request for it."""
CLOSING_PARTS = ("strays", "alias", "registry")
"""Parts of the work after the last folder, whose order the seed decides."""
RULE_FACTS = ("ticket", "excluded_folder", "alias_module", "removal_release", "first_folder", "last_folder", "new_name")
"""Names of the facts in the request that the hand-over document may state besides the goal."""
RESULT_FACTS = ("old_name", "collision_name", "registry_key", "ledger_book", "receipt", "desk")
"""Names of the facts from pages and commands that the hand-over document may state."""
GROUP_SIZE = 2
"""Number of folders that one check examines together."""

FOLDER_COUNTS = Levels(easy=range(5, 7), standard=range(6, 10), hard=range(9, 12))
COLLISION_COUNTS = Levels(easy=range(1, 2), standard=range(1, 4), hard=range(3, 5))
READ_SHARES = Levels(easy=(0.3, 0.5), standard=(0.55, 1.0), hard=(0.9, 1.0))
"""Bounds, by difficulty, of the share of modules that the agent reads, and of folders in which it lists the changed lines."""
RULE_COUNTS = Levels(easy=range(1, 2), standard=range(1, 5), hard=range(4, 7))
RESULT_COUNTS = Levels(easy=range(1, 3), standard=range(2, 6), hard=range(4, 7))
RESERVE_LATE_SHARE = 0.5
"""Probability that the name for helpers is reserved only right before the agent needs the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Choices that a seed makes for the task, except the values to remember.

    Script, checks and texts are built from these choices.
    """

    order: str
    """Order in which the agent goes through the folders, as a key of `ORDERS`."""
    folders: tuple[str, ...]
    """Folders in which the function is renamed, in order, without the first and the last folder."""
    collision_folders: tuple[str, ...]
    """Folders in which another function already has the new name, so that the agent must rename the other function first."""
    reads: tuple[tuple[str, ...], ...]
    """Names of the modules that the agent reads in each folder, in the order of `folders`."""
    listed_folders: tuple[str, ...]
    """Folders in which the agent lists every line with the new name."""
    is_reserved_late: bool
    """Whether the name for helpers (functions in the way) is reserved only right before the agent needs the name."""
    pause_after: int
    """Number of folders after which the agent runs all tests."""
    closing_parts: tuple[str, ...]
    """Parts of the work after the last folder, in order."""
    rule_facts: tuple[str, ...]
    """Names of the facts in the request that the hand-over document states."""
    result_facts: tuple[str, ...]
    """Names of the facts from pages and commands that the hand-over document states."""
    sheets: SheetSet
    """Information sheets that the task asks for, and the places where it states the facts in them."""

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Groups of folders; every group has one check on its modules and one on its entries in the ledger."""
        return tuple(self.folders[start : start + GROUP_SIZE] for start in range(0, len(self.folders), GROUP_SIZE))


def draw_structure(draws: StructureDraws) -> Structure:
    """Draw the structure of the task at random: all choices of a seed except the values to remember."""
    order = draws.draw_order("order", ORDERS)[0]
    folders = draws.draw_subset("folders", ALL_FOLDERS, draws.draw_count("folder count", FOLDER_COUNTS))
    if order != "alphabetical":
        folders = folders[::-1] if order == "reversed" else draws.draw_order("folder order", folders)
    share, reads = draws.draw_share("read share", READ_SHARES), draws.make_rng("reads")
    times, results = (
        draws.make_rng("times"),
        draws.draw_subset("results", RESULT_FACTS, draws.draw_count("result count", RESULT_COUNTS)),
    )
    parts = ("start", *folders, "closing", "papers")
    return Structure(
        order=order,
        folders=folders,
        collision_folders=draws.draw_subset("collisions", folders, draws.draw_count("collision count", COLLISION_COUNTS)),
        reads=tuple(tuple(module for module in MODULES if reads.random() < share) or MODULES[:1] for _ in folders),
        listed_folders=tuple(folder for folder in folders if reads.random() < share),
        is_reserved_late=times.random() < RESERVE_LATE_SHARE,
        pause_after=times.randrange(1, len(folders)),
        closing_parts=draws.draw_order("closing parts", CLOSING_PARTS),
        rule_facts=("goal_left", *draws.draw_subset("rules", RULE_FACTS, draws.draw_count("rule count", RULE_COUNTS))),
        result_facts=results,
        sheets=draw_sheets(draws, PROMPT_FACTS, parts, load_fact_texts(__package__, "constraints.md")),
    )
