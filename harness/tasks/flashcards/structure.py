"""Choices that a seed makes for the task `flashcards`, e.g. the order of the work and the documents that are asked for."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.tasks.flashcards.facts import PROMPT_FACTS
from harness.tasks.kit.structure import Levels, StructureDraws
from harness.tasks.kit.work import Option, Work, WorkChoices

PARTS: Mapping[str, str] = {
    "files": "after importer and exporter",
    "generation": "after the generator",
    "review": "after the review of a day",
    "removal": "after the archive",
    "numbers": "after statistics and forecast",
    "copies": "after the backup",
    "commands": "after the command line",
    "papers": "after README, manual and settings",
}
"""Parts of the work, each with the words that say in the list of information sheets that a sheet is due after the part."""
PREREQUISITES: Mapping[str, tuple[str, ...]] = {"review": ("generation",), "removal": ("review",)}
"""Names of the parts of the work that must come before a part, by name of the part."""
LOOKS = (
    *("look_at_tools", "left_to_the_order", "tabulate_intervals", "look_at_test_scheduler_again", "suite_of_bottom"),
    *("look_at_card_again", "look_at_importer_again", "try_offline_generator", "sizes_so_far", "look_at_storage_again"),
    *("all_names_so_far", "suite_before_cli", "look_at_review_again", "try_help", "try_review", "try_answers", "try_export"),
    *("try_generate", "try_approve", "try_stats", "try_json", "try_idle", "inspect_database", "check_style"),
)
"""Names of unnecessary steps, in which the agent only looks at something; each seed selects some of them."""
LOOK_SHARES = Levels(easy=(0.2, 0.4), standard=(0.5, 0.95), hard=(0.9, 1.0))
RELEASE_TIMES: Mapping[str, str] = {
    "start": "At the very start",
    "ordered parts": "As soon as the storage is ready,",
    "commands": "Right before you begin with the command line,",
}
"""Times at which the agent can be asked to reserve a release, each with the words of the request for it."""
CATALOGUE_SHARE = 0.6
"""Probability that the task asks the agent to feed the sample deck to a catalogue."""
PAPERS = ("README.md", "docs/manual.md", "settings.example.json")
PAGES = ("command-line", "decisions", "generation", "import-export", "overview", "scheduling", "statistics", "storage")
"""Names of the pages of the specification."""
REMARK_COUNTS = Levels(easy=range(2), standard=range(4), hard=range(2, 6))
"""Range, by difficulty, of the number of irrelevant remarks at the end of a page of the specification."""
REMARKS = 10
"""Number of irrelevant remarks in the text `files/remarks.md.tmpl`, from which each seed selects some."""
WORK = WorkChoices(
    package=__package__,
    parts=PARTS,
    prerequisites=PREREQUISITES,
    last_parts=("commands", "papers"),
    looks=LOOKS,
    look_shares=LOOK_SHARES,
    action="release",
    action_times=RELEASE_TIMES,
    option=Option("catalogue", CATALOGUE_SHARE, "ingest_token", frozenset({"feed_first_rows", "feed_other_rows"})),
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
    remarks: tuple[tuple[str, tuple[int, ...]], ...]
    """Name of each page of the specification, and the indexes in `remarks.md` of the irrelevant remarks at its end."""


def draw_structure(draws: StructureDraws) -> Structure:
    """Draw the structure of the task at random: all choices of a seed except the values to remember."""
    remark_rng = draws.make_rng("remarks")
    remark_counts = draws.pick(REMARK_COUNTS)
    return Structure(
        work=WORK.draw(draws),
        papers=draws.draw_order("papers", PAPERS),
        remarks=tuple((page, tuple(remark_rng.sample(range(REMARKS), remark_rng.choice(remark_counts)))) for page in PAGES),
    )
