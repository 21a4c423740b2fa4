"""Choices that a seed makes for the task `spec-api`, e.g. the order of the work and the lengths of the pages."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.tasks.kit.structure import Levels, StructureDraws
from harness.tasks.kit.work import Option, Work, WorkChoices
from harness.tasks.spec_api.facts import PROMPT_FACTS

PARTS: Mapping[str, str] = {
    "numbers": "parcel numbers",
    "paging": "pages of collections",
    "retries": "retries",
    "parcels": "parcels and the depot's refusals",
    "money": "money",
    "signatures": "signatures",
    "wire": "everything that goes over the wire",
    "messages": "messages of the depot",
    "client": "the client and its stand-in",
    "labels": "labels and statements",
    "commands": "the command line",
    "papers": "README, integration page and settings",
}
"""Parts of the work, each with the words for the part in the user's request and in the list of information sheets."""
PREREQUISITES: Mapping[str, tuple[str, ...]] = {
    "parcels": ("numbers",),
    "wire": ("parcels", "money"),
    "messages": ("signatures",),
    "client": ("paging", "retries", "signatures", "wire"),
    "labels": ("parcels", "money"),
    "commands": ("messages", "client", "labels"),
    "papers": ("commands",),
}
"""Names of the parts of the work that must come before a part, by name of the part."""
LOOKS = (
    *("look_at_tools", "look_at_samples", "review_basics", "look_before_client", "look_before_service", "map", "try_help"),
    *("try_about", "try_list", "try_check", "search_times", "sizes", "suite_before_papers", "code_again", "read_papers"),
)
"""Names of unnecessary steps, in which the agent only looks at something; each seed selects some of them."""
LOOK_SHARES = Levels(easy=(0.1, 0.3), standard=(0.4, 0.95), hard=(0.9, 1.0))
ENROLMENT_TIMES: Mapping[str, str] = {
    "start": "At the very start",
    "client": "Right before you begin with the client and its stand-in",
}
"""Times at which the agent can be asked to enroll (register) the client, each with the words of the request for it."""
PUSH_SHARE = 0.6
"""Probability that the task asks the agent to push sample parcels to the trial hall (a test service)."""
PAGE_SIZES = {
    "01-conventions": 8_900,
    "02-authentication": 9_300,
    "03-identifiers": 8_700,
    "04-collections": 8_800,
    "05-reliability": 9_200,
    "06-resources": 12_600,
    "07-errors": 9_000,
    "08-webhooks": 8_600,
    "10-labels": 8_900,
    "11-statements": 9_100,
    "09-errata": 8_300,
}
"""Typical length in characters of each page that is generated for the specification, by name of the page."""
LONG_PAGE = "06-resources"
"""Name of the page that is too long for one tool output; its length is the same for every seed."""
SIZE_FACTORS = Levels(easy=(0.75, 0.85), standard=(0.85, 1.05), hard=(1.05, 1.08))
"""Bounds, by difficulty, of the factor between the minimum length that a seed draws for a page and the typical length."""
WORK = WorkChoices(
    package=__package__,
    parts=PARTS,
    prerequisites=PREREQUISITES,
    looks=LOOKS,
    look_shares=LOOK_SHARES,
    action="enrolment",
    action_times=ENROLMENT_TIMES,
    option=Option("push", PUSH_SHARE, "push_mark", frozenset({"push_first", "push_rest"})),
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
    page_sizes: tuple[tuple[str, int], ...]
    """Name and minimum length in characters of each page of the specification."""


def draw_structure(draws: StructureDraws) -> Structure:
    """Draw the structure of the task at random: all choices of a seed except the values to remember."""
    return Structure(
        work=WORK.draw(draws),
        page_sizes=tuple((page, _draw_size(draws, page, size)) for page, size in PAGE_SIZES.items()),
    )


def _draw_size(draws: StructureDraws, page: str, size: int) -> int:
    return size if page == LONG_PAGE else round(draws.draw_share(f"size/{page}", SIZE_FACTORS) * size)
