"""Structure of an instance of the task `spec-api`: order of the work, looks, lengths of pages, and sheets that are asked for."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.tasks.kit.sheets import SheetPlan, draw_sheets
from harness.tasks.kit.statements import load_sayings
from harness.tasks.kit.structure import Levels, StructureDraws, draw_work_order
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
"""Parts of the work, with the words in which the request and the list of sheets speak of them."""
PREREQUISITES: Mapping[str, tuple[str, ...]] = {
    "parcels": ("numbers",),
    "wire": ("parcels", "money"),
    "messages": ("signatures",),
    "client": ("paging", "retries", "signatures", "wire"),
    "labels": ("parcels", "money"),
    "commands": ("messages", "client", "labels"),
    "papers": ("commands",),
}
"""Parts that must come before a part."""
LOOKS = (
    *("look_at_tools", "look_at_samples", "review_basics", "look_before_client", "look_before_service", "map", "try_help"),
    *("try_about", "try_list", "try_check", "search_times", "sizes", "suite_before_papers", "code_again", "read_papers"),
)
"""Names of steps without an effect on the result, in which the agent looks at something; an instance has some of them."""
LOOK_SHARES = Levels(easy=(0.1, 0.3), standard=(0.4, 0.95), hard=(0.9, 1.0))
ENROLMENT_TIMES: Mapping[str, str] = {
    "start": "At the very start",
    "client": "Right before you begin with the client and its stand-in",
}
"""Times at which an instance has the client enrolled, with the words of the request."""
PUSH_SHARE = 0.6
"""Share of the instances in which sample parcels are pushed to the trial hall."""
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
"""Page that one output cannot show as a whole; its length is the same in every instance."""
SIZE_FACTORS = Levels(easy=(0.75, 0.85), standard=(0.85, 1.05), hard=(1.05, 1.08))
"""Bounds of the factor by which the length of another page differs from its typical length."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Structure of an instance, from which its script, checks and texts are built."""

    parts: tuple[str, ...]
    """Parts of the work in order."""
    looks: tuple[str, ...]
    """Names of the steps of `LOOKS` that the agent takes."""
    enrolment_time: str
    """Time at which the client is enrolled, from `ENROLMENT_TIMES`."""
    pushes_samples: bool
    """Whether sample parcels are pushed to the trial hall."""
    page_sizes: tuple[tuple[str, int], ...]
    """Name and minimum length in characters of each page of the specification."""
    sheets: SheetPlan
    """Sheets that are asked for, and the statements of the facts."""


def draw_structure(draws: StructureDraws) -> Structure:
    """Draw the structure of an instance."""
    parts = draw_work_order(draws, "parts", PARTS, PREREQUISITES)
    return Structure(
        parts=parts,
        looks=draws.draw_subset("looks", LOOKS, round(draws.draw_share("look share", LOOK_SHARES) * len(LOOKS))),
        enrolment_time=draws.draw_order("enrolment time", ENROLMENT_TIMES)[0],
        pushes_samples=draws.make_rng("push").random() < PUSH_SHARE,
        page_sizes=tuple((page, _draw_size(draws, page, size)) for page, size in PAGE_SIZES.items()),
        sheets=draw_sheets(draws, PROMPT_FACTS, parts, load_sayings(__package__, "constraints.md")),
    )


def _draw_size(draws: StructureDraws, page: str, size: int) -> int:
    return size if page == LONG_PAGE else round(draws.draw_share(f"size/{page}", SIZE_FACTORS) * size)
