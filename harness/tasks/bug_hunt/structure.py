"""Choices that a seed makes for the task `bug-hunt`: bugs, false suspicions, order of the work, and documents to write."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.tasks.kit.sheets import SheetSet, draw_sheets
from harness.tasks.kit.statements import load_fact_texts
from harness.tasks.kit.structure import Levels, StructureDraws

PROMPT_FACTS = (
    *("ticket", "complaint", "entry_point", "owner_tag", "test_prefix", "channel", "severity", "frozen", "drift_goal"),
)
"""Names of the facts that the request states for every seed."""
PARTS: Mapping[str, str] = {
    "symptom": "once the symptom is noted",
    "code": "once the map of the code is noted",
    "suspects": "once the suspicions are refuted",
    "stages": "once the stages with a bug are noted",
    "fixes": "once the bench has accepted all patches",
    "papers": "at the very end",
}
"""Parts of the work, each with the words that say in the list of information sheets that a sheet is due after the part."""
SUSPICIONS = ("operator", "council", "customer")
"""People who may blame a stage that has no bug: the operator in a log, the council in minutes, a customer in a letter."""
PAGES: Mapping[str, tuple[str, ...]] = {
    "decree_tier": ("decree", "minutes", "audit"),
    "rounding": ("rounding", "minutes", "audit"),
}
"""Pages from which the seed chooses one to state a figure that invoices must use, by name of the figure.

`minutes` are the minutes of one month.
"""
REPORT_SECTIONS = ("rates", "case", "stages", "attempts")
"""Possible sections of the agent's report; every task asks for the first one, and the seed selects some of the others."""
PAPERS = ("changelog", "announce", "report", "handover", "reply")
RULES = ("frozen", "drift_goal")
"""Names of the facts of the request that the hand-over document always states."""
HANDOVER_FACTS = ("ticket", "desk", "entry_point", "channel", "drift_since", "decree_tier", "rounding")
"""Names of the facts that the hand-over document may state besides `RULES`."""
REPLY_FACTS = ("ticket", "drift_since", "decree_tier", "drift_goal", "entry_point", "rounding")
"""Names of the facts that the reply to the complaint may state besides the number of the invoice."""
REFUSAL_SHARE, ONE_BY_ONE_SHARE = 0.7, 0.5
"""Probability that the first patch for a stage is refused, and probability that the agent corrects refused patches at once.

At least one first patch is always refused.
"""
REPLY_SHARE, SEVERITY_SHARE = 0.5, 0.5
"""Probability that a task asks for a reply to the complaint, and probability that the announcement states the severity."""

BUG_COUNTS = Levels(easy=range(1, 2), standard=range(1, 4), hard=range(2, 4))
SUSPICION_COUNTS = Levels(easy=range(1, 2), standard=range(1, 4), hard=range(2, 4))
SECTION_COUNTS = Levels(easy=range(1, 2), standard=range(1, 4), hard=range(2, 4))
"""Number of sections of the report besides the first one, for each difficulty."""
EXTRA_FACT_COUNTS = Levels(easy=range(1, 3), standard=range(2, 6), hard=range(4, 7))
"""Number of facts in the hand-over document besides `RULES`, for each difficulty."""
LOOK_COUNTS = Levels(easy=range(26, 32), standard=range(42, 53), hard=range(50, 56))
"""Number of files and parts of logs that the agent looks at although it does not need them, for each difficulty."""
MONTH_COUNT, LETTER_COUNT = 6, 8
"""Number of files with minutes of meetings, and number of letters of customers, in the workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Choices that a seed makes for the task, such as the number of bugs and the order of the work.

    The values to remember are not part of the structure.
    """

    refusals: tuple[bool, ...]
    """Whether the first patch is refused, for each stage with a bug, since the page of the stage states a provisional rate."""
    suspicions: tuple[str, ...]
    """People who blame a stage that has no bug, in the order in which the agent refutes them; see `SUSPICIONS`."""
    month: int
    """Index in `MONTHS` of the month whose minutes (notes of a meeting) may state facts to remember."""
    letter: int
    """Number of the letter in which the customer blames a stage."""
    pages: tuple[tuple[str, str], ...]
    """Name of each figure that invoices must use, with the name of the page that states the figure; see `PAGES`."""
    parts: tuple[str, ...]
    """Parts of the work in order; see `PARTS`."""
    is_fixed_one_by_one: bool
    """Whether the agent corrects a refused patch at once; if not, it first tries a patch for every stage with a bug."""
    looks: tuple[tuple[str, ...], ...]
    """Names of the unnecessary steps (looks at files), in groups: one for each gap between essential steps, in order."""
    papers: tuple[str, ...]
    """Names of the documents to write, in the order of the work."""
    sections: tuple[str, ...]
    """Names of the sections of the agent's report, in order."""
    announces_severity: bool
    """Whether the announcement states the severity; otherwise the hand-over does."""
    handover_facts: tuple[str, ...]
    """Names of the facts that the hand-over document states besides `RULES`."""
    reply_facts: tuple[str, ...]
    """Names of the facts that the reply to the complaint states."""
    sheets: SheetSet
    """Information sheets that the task asks for, and the places where it states the facts in them."""

    @property
    def bug_numbers(self) -> range:
        """Numbers of the stages that have a bug, from 1, in the order of the tariff."""
        return range(1, len(self.refusals) + 1)

    @property
    def minutes_path(self) -> str:
        """Path of the minutes (notes of a meeting) that may state facts to remember."""
        return f"docs/minutes/{MONTHS[self.month]}.md"

    @property
    def letter_path(self) -> str:
        """Path of the letter in which the customer blames a stage."""
        return f"letters/{self.letter:02}.txt"

    def find_page(self, fact: str) -> str:
        """Return the path of the page that states a figure for invoices: `decree_tier` or `rounding`."""
        page = dict(self.pages)[fact]
        return self.minutes_path if page == "minutes" else f"docs/{page}.md"

    def find_patch(self, number: int) -> str:
        """Return the file name, e.g. `1b.sed`, of the patch that is accepted for a stage with a bug.

        Args:
            number: Number of the stage among those with a bug.
        """
        return f"{number}{'b' if self.refusals[number - 1] else 'a'}.sed"


MONTHS = ("2023-10", "2023-11", "2023-12", "2024-01", "2024-02", "2024-03")
GAP_COUNT = 9
"""Number of gaps between essential steps, which unnecessary looks at files can fill."""


def draw_structure(draws: StructureDraws, look_names: tuple[str, ...]) -> Structure:
    """Draw the structure of the task at random: all choices of a seed except the values to remember.

    Args:
        draws: Source of the random choices.
        look_names: Names of the unnecessary steps (looks) from which some are chosen.
    """
    coin, place = draws.make_rng("coins"), draws.make_rng("place")
    refusals = [coin.random() < REFUSAL_SHARE for _ in range(draws.draw_count("bugs", BUG_COUNTS))]
    refusals[coin.randrange(len(refusals))] = True  # at least one first patch is refused
    suspicions = draws.draw_order("suspicions", SUSPICIONS)[: draws.draw_count("suspicion count", SUSPICION_COUNTS)]
    papers, parts = draws.draw_order("papers", PAPERS), (*draws.draw_order("parts", [*PARTS][:3]), *[*PARTS][3:])
    handover_facts = draws.draw_subset("handover", HANDOVER_FACTS, draws.draw_count("handover count", EXTRA_FACT_COUNTS))
    other_sections = draws.draw_subset("sections", REPORT_SECTIONS[1:], draws.draw_count("section count", SECTION_COUNTS))
    announces_severity = draws.make_rng("severity").random() < SEVERITY_SHARE
    return Structure(
        refusals=tuple(refusals),
        suspicions=suspicions,
        month=place.randrange(MONTH_COUNT),
        letter=place.randrange(1, LETTER_COUNT + 1),
        pages=tuple((fact, draws.make_rng(fact).choice(pages)) for fact, pages in PAGES.items()),
        parts=parts,
        is_fixed_one_by_one=coin.random() < ONE_BY_ONE_SHARE,
        looks=_deal_looks(draws, look_names),
        papers=papers if coin.random() < REPLY_SHARE else tuple(name for name in papers if name != "reply"),
        sections=draws.draw_order("section order", (REPORT_SECTIONS[0], *other_sections)),
        announces_severity=announces_severity,
        handover_facts=(*["severity"] * (not announces_severity), *handover_facts),
        reply_facts=("complaint", *draws.draw_subset("reply", REPLY_FACTS, 2)),
        sheets=draw_sheets(draws, PROMPT_FACTS, parts, load_fact_texts(__package__, "constraints.md")),
    )


def _deal_looks(draws: StructureDraws, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Choose unnecessary looks at files at random, and distribute them unevenly over the gaps between steps."""
    chosen = draws.draw_order("looks", names)[: draws.draw_count("look count", LOOK_COUNTS)]
    rng = draws.make_rng("gaps")
    weights = [rng.uniform(0.2, 1.0) for _ in range(GAP_COUNT)]
    gaps: list[list[str]] = [[] for _ in weights]
    for name, gap in zip(chosen, sorted(rng.choices(range(GAP_COUNT), weights, k=len(chosen))), strict=True):
        gaps[gap].append(name)
    return tuple(map(tuple, gaps))
