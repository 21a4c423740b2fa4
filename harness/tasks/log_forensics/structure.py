"""Choices that a seed makes for the task `log-forensics`: which logs the agent searches, what for, and what it reports."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.tasks.kit.sheets import SheetSet, draw_sheets
from harness.tasks.kit.statements import load_fact_texts
from harness.tasks.kit.structure import Levels, StructureDraws

COMPONENTS = ("gateway", "app", "ledger", "auth", "queue", "deploy")
"""Names of the components (programs) of the system that the agent investigates; each component writes one log."""
SEARCH_BY_FINDING: Mapping[str, str] = {
    "alarm_time": "alarm",
    "gateway_host": "circuit",
    "address": "burst",
    "first_request": "rejected",
    "dump_name": "dump",
    "healthy_time": "healthy",
    "error_code": "given_up",
    "shard": "lagging",
    "account": "two_regions",
    "fingerprint": "unknown_key",
    "setting": "by_hand",
    "former_value": "by_hand",
    "ruled_out": "no_difference",
    "damage_offset": "damage",
    "lost_orders": "lost",
}
"""Name of the search in a log that prints each value, by name of the value."""
LOG_BY_SEARCH: Mapping[str, str] = {
    **dict.fromkeys(("alarm", "circuit", "burst"), "gateway"),
    **dict.fromkeys(("rejected", "dump", "healthy"), "app"),
    **dict.fromkeys(("given_up", "lagging"), "ledger"),
    **dict.fromkeys(("two_regions", "unknown_key"), "auth"),
    "damage": "queue",
    **dict.fromkeys(("by_hand", "no_difference"), "deploy"),
}
"""Name of the log in which each search finds its message, by name of the search; `lost` is missing, as it searches the dumps."""
FINDINGS_BY_PAGE: Mapping[str, tuple[str, ...]] = {
    "requests": ("first_request", "gateway_host"),
    "cause": ("error_code", "shard"),
    "change": ("setting", "former_value"),
    "intruder": ("address", "fingerprint"),
    "damage": ("damage_offset", "dump_name", "lost_orders"),
    "timeline": ("alarm_time", "healthy_time"),
    "blocklist": ("address",),
    "suspects": ("ruled_out",),
    "people": ("account",),
    "retention": (),
}
"""Names of the facts from logs that each page of the report states, by name of the page; each seed selects some of the pages."""
SETTLED_BY_PAGE: Mapping[str, tuple[str, ...]] = {
    "timeline": ("time_suffix", "separator"),
    "blocklist": ("deny_word",),
    "suspects": ("cleared_word",),
    "people": ("person_mark",),
    "retention": ("keep_days",),
}
"""Names of the facts in the request that a page of the report needs besides findings, by name of the page."""
PROMPT_FACTS = ("heading", "audience", "ticket")
"""Names of the facts in the request that are needed for every seed."""
LOOKS = ("count", "errors", "middle", "open", "warnings")
"""Ways to look at a log before it is searched; the scripted agent uses some of them for each log, depending on the seed."""
CLOSE_LOOKS: Levels[tuple[str, ...]] = Levels(easy=(), standard=(), hard=("minutes", "repeated", "last"))
"""Further ways to look at each log, by difficulty; they come after those of `LOOKS` and before the searches."""
PAPERS = ("runbook", "addendum", "form")
"""Documents in the workspace from which the seed chooses one to state a fact of `Structure.desk_facts`."""
OPTIONAL_FILING_FACTS = ("incident_class", "desk", "case_number")
HANDOVER_FACTS = (
    "case_number",
    "error_code",
    "dump_name",
    "setting",
    "ruled_out",
    "cleared_word",
    "keep_days",
    "shard",
)
"""Names of the facts that the hand-over document may state, if the task has them."""
MISLEADING_COUNT = 10
"""Number of misleading messages in `logs.MISLEADING`, from which each seed selects some for the logs."""

PAGE_COUNTS = Levels(easy=range(5, 7), standard=range(6, 10), hard=range(9, 11))
LOOK_SHARES = Levels(easy=(0.4, 0.6), standard=(0.65, 0.95), hard=(0.9, 1.0))
CONTEXT_LINES = Levels(easy=range(4, 14), standard=range(8, 36), hard=range(24, 38))
"""Number of lines that a search prints before the message, and again after it, for each difficulty."""
LATE_SHARES = Levels(easy=(0.0, 0.3), standard=(0.1, 1.0), hard=(0.8, 1.0))
"""Bounds of the share of pages that are due only after all logs are searched, rather than once their facts are known."""
HANDOVER_COUNTS = Levels(easy=range(2, 4), standard=range(2, 6), hard=range(5, 8))
MISLEADING_COUNTS = Levels(easy=range(3), standard=range(2, 8), hard=range(6, 11))
SEAL_AT_ONCE_SHARE, OPEN_LATE_SHARE = 0.5, 0.75
"""Probability that all logs are sealed at once, and probability that the case is opened only after some logs are searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Choices that a seed makes for the task, such as the questions asked and the order of the work.

    The values to remember are not part of the structure.
    """

    logs: tuple[str, ...]
    """Names of the logs that the agent searches, in order."""
    pages: tuple[tuple[str, int], ...]
    """Name of each page of the report, and number of searched logs after which the page is due, in the order of the work."""
    looks: tuple[tuple[str, tuple[str, ...]], ...]
    """Name of each log, and the ways in which the agent looks at the log before the first search; see `LOOKS`, `CLOSE_LOOKS`."""
    contexts: tuple[tuple[str, int], ...]
    """Name of each search, and number of lines that the search prints before the message and again after it."""
    first_portion: int
    """Number of logs that are sealed in the first of two portions; 0 if all logs are sealed at once."""
    open_after: int
    """Number of logs that are searched before the case is opened."""
    papers: tuple[tuple[str, str], ...]
    """Name of each fact that a document in the workspace can state, and name of the document; see `PAPERS`."""
    filing_facts: tuple[str, ...]
    """Names of the facts that the report states for the archive, besides its heading, its audience and its ticket."""
    handover_facts: tuple[str, ...]
    """Names of the facts that the hand-over document states."""
    misleading: tuple[int, ...]
    """Indexes in `logs.MISLEADING` of the misleading messages that the logs contain."""
    sheets: SheetSet
    """Information sheets that the task asks for, and the places where it states the facts in them."""

    @property
    def page_names(self) -> tuple[str, ...]:
        """Names of the pages of the report, in the order of the work."""
        return tuple(name for name, _ in self.pages)

    @property
    def findings(self) -> tuple[str, ...]:
        """Names of the findings (facts from logs) that the pages of the report need."""
        return list_findings(self.page_names)

    @property
    def settled_facts(self) -> tuple[str, ...]:
        """Names of the facts that the user's request states, apart from facts that only information sheets need."""
        return (*PROMPT_FACTS, *(fact for page in sorted(self.page_names) for fact in SETTLED_BY_PAGE.get(page, ())))

    @property
    def desk_facts(self) -> tuple[str, ...]:
        """Names of the needed facts that a document in the workspace states, not the request or a log."""
        mask = ("mask",) if "blocklist" in self.page_names else ()
        return (*mask, *(name for name in ("incident_class", "desk") if name in self.filing_facts))

    def list_searches(self, log: str) -> tuple[str, ...]:
        """Return the name of each search that the agent makes in a log, without duplicates."""
        searches = dict.fromkeys(SEARCH_BY_FINDING[finding] for finding in self.findings)
        return tuple(search for search in searches if LOG_BY_SEARCH.get(search) == log)


def list_findings(pages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the facts from logs (findings) that the given pages of the report need.

    No name is repeated.
    """
    needed = {finding for page in pages for finding in FINDINGS_BY_PAGE[page]}
    return tuple(finding for finding in SEARCH_BY_FINDING if finding in needed)


def draw_structure(draws: StructureDraws) -> Structure:
    """Draw the structure of the task at random: all choices of a seed except the values to remember."""
    others = tuple(page for page in FINDINGS_BY_PAGE if page != "cause")
    names = ("cause", *draws.draw_subset("pages", others, draws.draw_count("page count", PAGE_COUNTS) - 1))
    searched = {LOG_BY_SEARCH.get(SEARCH_BY_FINDING[finding]) for finding in list_findings(names)}
    logs = draws.draw_order("logs", (log for log in COMPONENTS if log in searched))
    looks, place = draws.make_rng("looks"), draws.make_rng("papers")
    look_share = draws.draw_share("look share", LOOK_SHARES)
    filing = ("error_code", *draws.draw_subset("filing", OPTIONAL_FILING_FACTS, draws.make_rng("filing count").randint(1, 3)))
    settled = (*PROMPT_FACTS, *(fact for page in sorted(names) for fact in SETTLED_BY_PAGE.get(page, ())))
    times = draws.make_rng("times")
    is_case_filed = "case_number" in filing
    known = {*list_findings(names), *settled, *["case_number"] * is_case_filed}
    handover = tuple(fact for fact in HANDOVER_FACTS if fact in known)
    return Structure(
        logs=logs,
        pages=_schedule_pages(draws, names, logs),
        looks=tuple((log, (*(look for look in LOOKS if looks.random() < look_share), *draws.pick(CLOSE_LOOKS))) for log in logs),
        contexts=tuple(
            (search, draws.make_rng(f"context {search}").choice(draws.pick(CONTEXT_LINES))) for search in LOG_BY_SEARCH
        ),
        first_portion=0 if times.random() < SEAL_AT_ONCE_SHARE else times.randrange(1, len(logs)),
        open_after=times.randint(1, len(logs)) if times.random() < OPEN_LATE_SHARE else 0,
        papers=tuple((fact, place.choice(PAPERS)) for fact in ("mask", "incident_class")),
        filing_facts=filing,
        handover_facts=draws.draw_subset("handover", handover, draws.draw_count("handover count", HANDOVER_COUNTS)),
        misleading=draws.draw_subset("misleading messages", range(MISLEADING_COUNT), draws.draw_count("m", MISLEADING_COUNTS)),
        sheets=draw_sheets(draws, settled, (*logs, "answers", "report"), load_fact_texts(__package__, "constraints.md")),
    )


def _schedule_pages(draws: StructureDraws, names: tuple[str, ...], logs: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Draw when each page of the report is due: once its facts are known, or only after all logs are searched.

    Returns:
        Name of each page, and number of searched logs after which the page is due, in the order of the work.
    """
    rng, late_share = draws.make_rng("due pages"), draws.draw_share("late share", LATE_SHARES)
    schedule = []
    for name in draws.draw_order("page order", names):
        searched = [LOG_BY_SEARCH.get(SEARCH_BY_FINDING[finding]) for finding in FINDINGS_BY_PAGE[name]]
        earliest = max((logs.index(log) + 1 for log in searched if log), default=len(logs))
        schedule.append((name, len(logs) if rng.random() < late_share else earliest))
    return tuple(sorted(schedule, key=lambda page: page[1]))
