"""Structure of an instance of the task `flashcards-bun`: order of the work, looks, lengths of pages, and sheets asked for."""

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
"""Parts of the work, with the words in which the request and the list of sheets speak of them."""
PREREQUISITES: Mapping[str, tuple[str, ...]] = {
    "storage": ("scheduler",),
    "decks": ("scheduler",),
    "generation": ("decks",),
    "session": ("generation", "storage"),
    "numbers": ("decks", "storage"),
    "commands": ("session", "numbers"),
    "papers": ("commands",),
}
"""Parts that must come before a part."""
LOOKS = (
    *("look_at_tools", "tabulate_intervals", "look_at_deck", "try_generator", "look_at_storage_again", "map"),
    *("suite_before_cli", "look_before_cli", "try_usage", "try_review", "try_answers", "try_generate", "try_approve"),
    *("try_numbers", "try_export", "try_idle", "sizes", "code_again"),
)
"""Names of steps without an effect on the result, in which the agent looks at something; an instance has some of them."""
LOOK_SHARES = Levels(easy=(0.1, 0.3), standard=(0.5, 0.95), hard=(0.9, 1.0))
RELEASE_TIMES: Mapping[str, str] = {
    "start": "At the very start",
    "commands": "Right before you begin with the command line,",
}
"""Times at which an instance has a release reserved, with the words of the request."""
FEED_SHARE = 0.6
"""Share of the instances in which the sample deck is fed to a catalogue."""
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
"""Bounds of the factor by which the length of a page differs from its typical length."""
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
"""Description of the work from which each seed draws its order of the work."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Structure of an instance, from which its script, checks and texts are built."""

    work: Work
    """Order of the work, unnecessary steps, and information sheets."""
    papers: tuple[str, ...]
    """Paths of the first papers, in the order in which the agent writes them."""
    page_sizes: tuple[tuple[str, int], ...]
    """Name and minimum length in characters of each page of the specification."""


def draw_structure(draws: StructureDraws) -> Structure:
    """Draw the structure of an instance."""
    return Structure(
        work=WORK.draw(draws),
        papers=draws.draw_order("papers", PAPERS),
        page_sizes=tuple(
            (page, round(draws.draw_share(f"size/{page}", SIZE_FACTORS) * size)) for page, size in PAGE_SIZES.items()
        ),
    )
