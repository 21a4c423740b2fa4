"""Facts of the task `log-forensics`: patterns that find each value, and the random draw of the values.

The request states some facts, which the agent needs late. Most facts are findings, which a search in a log prints; a forgotten
finding costs another search of 300 to 1,500 tokens. Documents in the workspace state up to three facts. The number of the case,
and a mark that continues the sealing of logs, are printed by commands that do harm if they are run twice.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from harness.task import Fact, FactKind
from harness.tasks.kit.agreements import draw_agreements
from harness.tasks.kit.draws import compute_digest, draw_choices, make_rng
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact
from harness.tasks.log_forensics.structure import LOG_BY_SEARCH, SEARCH_BY_FINDING, Structure


class Search(NamedTuple):
    """Shell command that searches a log for a message, with the path of the log.

    Most commands also print the lines around the message, so a repeated search costs as many tokens as the first one.
    """

    command: str
    """Shell command that searches the log and prints the message, usually with the lines around it."""
    source: str
    """Path of the log that the command searches; a directory listing must show the path before a search is repeated."""


WORDS_BY_SEARCH = {
    "alarm": "first alarm of this night",
    "circuit": "opened for good",
    "burst": "refused in a burst",
    "rejected": "before any other",
    "dump": "for whoever looks into it",
    "healthy": "drained and calm again",
    "given_up": "transaction given up with",
    "lagging": "fell behind on shard",
    "two_regions": "seen in two regions",
    "unknown_key": "unknown key, fingerprint",
    "by_hand": "altered by hand",
    "no_difference": "made no difference",
}
"""Words of a log message for which each search looks, by name of the search."""


def make_search(structure: Structure, name: str) -> Search:
    """Return the shell command of the search called `name`, with the log that it searches.

    `structure` decides how many lines around the message the command prints.
    """
    if name == "damage":
        return Search("grep -bo 'segment damaged beyond repair' logs/queue.log", "logs/queue.log")
    if name == "lost":
        return Search("grep -n -B 35 'orders lost for good' dumps/ledger-*.txt", "dumps/ledger-0001.txt")
    path = f"logs/{LOG_BY_SEARCH[name]}.log"
    return Search(f"grep -n -C {dict(structure.contexts)[name]} '{WORDS_BY_SEARCH[name]}' {path}", path)


class _Finding(NamedTuple):
    """Fact that a search in a log prints: its kind, a wrong guess (the prior), and the pattern of its value."""

    kind: FactKind
    prior: str
    pattern: str


_FINDINGS: Mapping[str, _Finding] = {
    "alarm_time": _Finding("progress", "00:00:00", r"(\d\d:\d\d:\d\d) .{0,30}first alarm of this night"),
    "gateway_host": _Finding("value", "gw-1", r"circuit opened for good by (gw-\d+)\b"),
    "address": _Finding("artifact", "192.0.2.1", r"logins refused in a burst, all of them from ([\d.]+\d)\b"),
    "first_request": _Finding("artifact", "r00000", r"ledger turned down request (r[0-9a-f]{5}) before any other"),
    "dump_name": _Finding("next-step", "ledger-0001.txt", r"went into dumps/(ledger-\d{4}\.txt) for whoever looks into it"),
    "healthy_time": _Finding("progress", "23:59:59", r"(\d\d:\d\d:\d\d) .{0,30}every queue is drained and calm again"),
    "error_code": _Finding("error", "LK-0000", r"transaction given up with the code (LK-\d{4})\b"),
    "shard": _Finding("value", "s-00", r"replica fell behind on shard (s-\d\d)\b"),
    "account": _Finding("artifact", "u0000", r"session of (u\d{4}) seen in two regions at once"),
    "fingerprint": _Finding("value", "00:00:00", r"unknown key, fingerprint ((?:[0-9a-f]{2}:){2}[0-9a-f]{2})\b"),
    "setting": _Finding("artifact", "pool_size", r"setting (\w+) altered by hand\b"),
    "former_value": _Finding("value", "100", r"altered by hand, formerly (\d+)\b"),
    "ruled_out": _Finding("error", "d-0000", r"taking back (d-\d{4}) made no difference"),
    "damage_offset": _Finding("value", "0", r"^[-* ]*(\d+):segment damaged beyond repair"),
    "lost_orders": _Finding("value", "0", r"orders lost for good: (\d+)\b"),
}
_SETTLED: tuple[Fact, ...] = (
    make_prompt_fact("heading", "constraint", "Incident report", r"report is headed `([^`\n]+)`"),
    make_prompt_fact("audience", "goal", "management", r"report is written for the (\w+) and nobody else"),
    make_prompt_fact("ticket", "value", "INC-1", r"work is booked on the ticket ([A-Z]{2}-\d{4})\b"),
    make_prompt_fact("time_suffix", "constraint", "Z", r"time of the timeline ends with `(\w+)`"),
    make_prompt_fact("separator", "constraint", ",", r"columns of the timeline are separated by `([^`\s])`"),
    make_prompt_fact("deny_word", "constraint", "block", r"line of the block-list begins with the word `(\w+)`"),
    make_prompt_fact("person_mark", "preference", "user", r"account is never named but shown as `([\w-]+)/`"),
    make_prompt_fact("cleared_word", "decision", "innocent", r"suspect that was ruled out is called `(\w+)`"),
    make_prompt_fact("keep_days", "constraint", "90", r"[Ee]vidence is kept for (\d+) days"),
    make_prompt_fact("mask", "constraint", "32", r"names networks with a mask of (\d\d) bits"),
    make_prompt_fact("incident_class", "decision", "C1", r"losing settled orders is an incident of class ([A-Z]\d)\b"),
)
_DESK = make_file_fact(
    "desk",
    "superseded",
    "docs/addendum.md",
    "operations",
    r"reports go to the desk `([a-z]+)` from now on",
    former_patterns=(r"reports went to ([a-z]+)\b",),
)
_CASE_NUMBER = make_output_fact(
    "case_number", "artifact", "", "CASE-000", r"opened as (CASE-\d{3})\b", also_in=("evidence/cases.log",)
)
_SEAL_MARK = make_output_fact("seal_mark", "progress", "", "begin", r"[Ss]eal the rest with --after ([0-9a-f]{6})\b")


def make_facts(structure: Structure) -> tuple[Fact, ...]:
    """Return all facts of a task with the given structure, wherever they are stated."""
    papers = dict(structure.papers)
    settled = {fact.name: fact for fact in _SETTLED}
    facts = (
        *(settled[name] for name in structure.settled_facts),
        *(_DESK if name == "desk" else _make_paper_fact(settled[name], papers[name]) for name in structure.desk_facts),
        *(_make_finding(structure, name) for name in structure.findings),
        *[_CASE_NUMBER] * ("case_number" in (*structure.filing_facts, *structure.handover_facts)),
        *[_SEAL_MARK] * bool(structure.first_portion),
    )
    return (*structure.sheets.add_sources(facts), *structure.sheets.facts)


def _make_paper_fact(fact: Fact, paper: str) -> Fact:
    return make_file_fact(fact.name, fact.kind, f"docs/{paper}.md", fact.prior, *fact.patterns)


def _make_finding(structure: Structure, name: str) -> Fact:
    search, (kind, prior, pattern) = make_search(structure, SEARCH_BY_FINDING[name]), _FINDINGS[name]
    return make_output_fact(name, kind, search.command, prior, pattern, source=search.source)


_CHOICES: dict[str, Sequence[object]] = {
    "heading": (
        "What the ledger lost",
        "A night of the ledger",
        "Findings on the ledger",
        "The ledger's bad night",
        "Lost orders",
    ),
    "audience": ("auditors", "insurers", "partners", "regulator", "shareholders", "merchants"),
    "time_suffix": ("UTC", "GMT", "CET", "local", "plant", "site"),
    "separator": ("|", ";", "~", "^", "#", "!"),
    "deny_word": ("deny", "drop", "refuse", "reject", "ban", "shun"),
    "person_mark": ("person", "someone", "holder", "account-holder", "subject", "individual"),
    "cleared_word": ("cleared", "excluded", "unrelated", "dismissed", "absolved", "discounted"),
    "keep_days": tuple(str(days) for days in (*range(100, 700, 35), 45, 75)),
    "mask": ("24", "25", "26", "27", "28", "29"),
    "incident_class": ("B2", "B3", "D1", "D4", "A2", "A3"),
    "desk": ("forensics", "continuity", "resilience", "integrity", "assurance", "oversight"),
    "gateway_host": tuple(f"gw-{number}" for number in range(2, 13)),
    "error_code": tuple(f"LK-{number}" for number in range(1207, 9800, 311)),
    "shard": tuple(f"s-{number}" for number in range(11, 64)),
    "setting": ("lock_wait", "batch_span", "commit_lag", "replica_gap", "fsync_gap", "lease_span"),
    "former_value": range(130, 960, 23),
}
TIME_RANGES = {"alarm_time": (3 * 3600, 4 * 3600), "healthy_time": (5 * 3600, 6 * 3600 - 300)}
"""Earliest and latest time, in seconds after midnight, of each logged event whose time is a fact, by name of the fact."""


def draw_values(structure: Structure, task_seed: int) -> dict[str, str]:
    """Draw at random the values that the agent must remember, and return them by name of the fact.

    The value of `damage_offset` is missing, since it depends on the generated logs.
    """
    rng_for = partial(make_rng, "log-forensics", task_seed)
    values = draw_choices("log-forensics", task_seed, (*_SETTLED, _DESK), _CHOICES, ("NX", "FR", "OP", "LG"))
    for name, (first, last) in TIME_RANGES.items():
        second = rng_for(name).randrange(first, last)
        values[name] = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    network = rng_for("network").choice(("198.51.100", "203.0.113", "198.18.7", "198.19.44"))
    values["address"] = f"{network}.{rng_for('address').randrange(2, 250)}"
    values["first_request"] = f"r{rng_for('request').randrange(16**4, 16**5):05x}"
    values["dump_name"] = f"ledger-{rng_for('dump').choice(range(3, 15)):04d}.txt"
    values["account"] = f"u{rng_for('account').randrange(1000, 10_000)}"
    values["fingerprint"] = ":".join(f"{rng_for(f'key{part}').randrange(16, 256):02x}" for part in range(3))
    values["ruled_out"] = f"d-{rng_for('deploy').randrange(1000, 10_000)}"
    values["lost_orders"] = str(rng_for("lost").randrange(300, 4000))
    values["case_number"] = f"CASE-{int(compute_digest(values['salt'], 'case:0')[:6], 16) % 900 + 100}"
    values["seal_mark"] = compute_digest(values["salt"], f"seal:{structure.first_portion}")[:6]
    return values | draw_agreements("log-forensics", task_seed)
