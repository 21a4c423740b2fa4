"""Choices that a seed makes for the task `flashcards-bun`, e.g. the order of the work and the lengths of the pages."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.tasks.flashcards_bun.facts import PROMPT_FACTS
from harness.tasks.kit.structure import Levels, StructureDraws
from harness.tasks.kit.work import Option, Work, WorkChoices

PARTS: Mapping[str, str] = {
    "scheduler": "the scheduler",
    "storage": "the storage",
    "decks": "decks",
    "generation": "generation",
    "session": "the session of a day",
    "numbers": "numbers",
    "commands": "the command line",
    "papers": "README, manual and settings",
}
"""Parts of the work, each with the words for the part in the user's request and in the list of information sheets."""
PREREQUISITES: Mapping[str, tuple[str, ...]] = {
    "storage": ("scheduler",),
    "decks": ("scheduler",),
    "generation": ("decks",),
    "session": ("generation", "storage"),
    "numbers": ("decks", "storage"),
    "commands": ("session", "numbers"),
    "papers": ("commands",),
}
"""Names of the parts of the work that must come before a part, by name of the part."""
LOOKS = (
    *("look_at_tools", "tabulate_intervals", "look_at_deck", "try_generator", "look_at_storage_again", "map"),
    *("suite_before_cli", "look_before_cli", "try_usage", "try_review", "try_answers", "try_generate", "try_approve"),
    *("try_numbers", "try_export", "try_idle", "sizes", "code_again"),
)
"""Names of unnecessary steps, in which the agent only looks at something; each seed selects some of them."""
LOOK_SHARES = Levels(easy=(0.1, 0.3), standard=(0.5, 0.95), hard=(0.9, 1.0))
RELEASE_TIMES: Mapping[str, str] = {
    "start": "At the very start",
    "commands": "Right before you begin with the command line,",
}
"""Times at which the agent can be asked to reserve a release, each with the words of the request for it."""
FEED_SHARE = 0.6
"""Probability that the task asks the agent to feed the sample deck to a catalogue."""
PAPERS = ("README.md", "docs/manual.md", "settings.example.json")
PAGE_SIZES = {
    "overview": 5_200,
    "scheduling": 8_200,
    "storage": 8_600,
    "decks": 8_300,
    "generation": 8_400,
    "sessions": 8_300,
    "numbers": 8_000,
    "command-line": 8_100,
}
"""Typical length in characters of each page that is generated for the specification, by name of the page."""
SIZE_FACTORS = Levels(easy=(0.97, 1.0), standard=(0.98, 1.08), hard=(1.05, 1.08))
"""Bounds, by difficulty, of the factor between the minimum length that a seed draws for a page and the typical length."""
WORK = WorkChoices(
    package=__package__,
    parts=PARTS,
    prerequisites=PREREQUISITES,
    looks=LOOKS,
    look_shares=LOOK_SHARES,
    action="release",
    action_times=RELEASE_TIMES,
    option=Option("catalogue", FEED_SHARE, "feed_mark", frozenset({"feed_first_rows", "feed_other_rows"})),
    stated_facts=PROMPT_FACTS,
)
"""Description of the possible work, from which each seed draws the order, the unnecessary steps and the information sheets."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Choices that a seed makes for the task, except the values to remember.

    Script, checks and texts are built from these choices.
    """

    work: Work
    """Choices about the work: its order, unnecessary steps, and information sheets (small documents that are asked for)."""
    papers: tuple[str, ...]
    """Paths of the documents before the hand-over, in the order in which the agent writes them."""
    page_sizes: tuple[tuple[str, int], ...]
    """Name and minimum length in characters of each page of the specification."""


def draw_structure(draws: StructureDraws) -> Structure:
    """Draw the structure of the task at random: all choices of a seed except the values to remember."""
    return Structure(
        work=WORK.draw(draws),
        papers=draws.draw_order("papers", PAPERS),
        page_sizes=tuple(
            (page, round(draws.draw_share(f"size/{page}", SIZE_FACTORS) * size)) for page, size in PAGE_SIZES.items()
        ),
    )
