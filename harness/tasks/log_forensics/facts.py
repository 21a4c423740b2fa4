"""Facts (values to remember) of the task `log-forensics`: patterns that find each value, and the random draw of the values.

Nine facts are stated only in the prompt and needed at the end. Fourteen are printed by a search in a log and can be found again
at 500 to 1,500 tokens per search. Three are stated in documents. Two are printed by commands that do harm if they
are run twice.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from harness.task import Fact, FactKind
from harness.tasks.kit.draws import compute_digest, draw_choices, make_rng
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact

COMPONENTS = ("gateway", "app", "ledger", "auth", "queue", "deploy")
"""Names of the components (programs) of the system that the agent investigates; each component writes one log."""


class Search(NamedTuple):
    """A shell command that searches a log for a message, and the path of the log.

    Most commands also print the lines around the message, as a person would do to understand it. Repeating a search therefore
    costs as many tokens as the first search.
    """

    command: str
    """Shell command that searches the log and prints the line with the lines around it."""
    source: str
    """Path of the log that the command searches; a directory listing must show the path before a search is repeated."""


def _search_around(log: str, words: str, lines: int) -> Search:
    return Search(f"grep -n -C {lines} '{words}' logs/{log}.log", f"logs/{log}.log")


SEARCHES = {
    "alarm": _search_around("gateway", "first alarm of this night", 14),
    "circuit": _search_around("gateway", "opened for good", 30),
    "burst": _search_around("gateway", "refused in a burst", 22),
    "rejected": _search_around("app", "turned down request", 26),
    "dump": _search_around("app", "for whoever looks into it", 18),
    "healthy": _search_around("app", "drained and calm again", 12),
    "given_up": _search_around("ledger", "transaction given up with", 34),
    "lagging": _search_around("ledger", "fell behind on shard", 20),
    "two_regions": _search_around("auth", "seen in two regions", 28),
    "unknown_key": _search_around("auth", "unknown key, fingerprint", 16),
    "by_hand": _search_around("deploy", "altered by hand", 24),
    "no_difference": _search_around("deploy", "made no difference", 15),
    "damage": Search("grep -bo 'segment damaged beyond repair' logs/queue.log", "logs/queue.log"),
    "lost": Search("grep -n -B 35 'orders lost for good' dumps/ledger-*.txt", "dumps/ledger-0001.txt"),
}


def _find(name: str, kind: FactKind, search: str, prior: str, pattern: str) -> Fact:
    """Make a fact (a value to remember) that the agent finds by searching a log; `search` is a key of `SEARCHES`."""
    search_command = SEARCHES[search]
    return make_output_fact(name, kind, search_command.command, prior, pattern, source=search_command.source)


FACTS: tuple[Fact, ...] = (
    make_prompt_fact("heading", "constraint", "Incident report", r"report is headed `([^`\n]+)`"),
    make_prompt_fact("audience", "goal", "management", r"report is written for the (\w+) and nobody else"),
    make_prompt_fact("ticket", "value", "INC-1", r"work is booked on the ticket ([A-Z]{2}-\d{4})\b"),
    make_prompt_fact("time_suffix", "constraint", "Z", r"time of the timeline ends with `(\w+)`"),
    make_prompt_fact("separator", "constraint", ",", r"columns of the timeline are separated by `([^`\s])`"),
    make_prompt_fact("deny_word", "constraint", "block", r"line of the block-list begins with the word `(\w+)`"),
    make_prompt_fact("person_mark", "preference", "user", r"account is never named but shown as `([\w-]+)/`"),
    make_prompt_fact("cleared_word", "decision", "innocent", r"suspect that was ruled out is called `(\w+)`"),
    make_prompt_fact("keep_days", "constraint", "90", r"[Ee]vidence is kept for (\d+) days"),
    make_file_fact("mask", "constraint", "docs/runbook.md", "32", r"names networks with a mask of (\d\d) bits"),
    make_file_fact(
        "incident_class", "decision", "docs/runbook.md", "C1", r"losing settled orders is an incident of class ([A-Z]\d)\b"
    ),
    make_file_fact(
        "desk",
        "superseded",
        "docs/addendum.md",
        "operations",
        r"reports go to the desk `([a-z]+)` from now on",
        former_patterns=(r"reports went to ([a-z]+)\b",),
    ),
    _find("alarm_time", "progress", "alarm", "00:00:00", r"(\d\d:\d\d:\d\d) .{0,30}first alarm of this night"),
    _find("gateway_host", "value", "circuit", "gw-1", r"circuit opened for good by (gw-\d+)\b"),
    _find("address", "artifact", "burst", "192.0.2.1", r"logins refused in a burst, all of them from ([\d.]+\d)\b"),
    _find("first_request", "artifact", "rejected", "r00000", r"ledger turned down request (r[0-9a-f]{5}) before any other"),
    _find("dump_name", "next-step", "dump", "ledger-0001.txt", r"went into dumps/(ledger-\d{4}\.txt) for whoever looks into it"),
    _find("healthy_time", "progress", "healthy", "23:59:59", r"(\d\d:\d\d:\d\d) .{0,30}every queue is drained and calm again"),
    _find("error_code", "error", "given_up", "LK-0000", r"transaction given up with the code (LK-\d{4})\b"),
    _find("shard", "value", "lagging", "s-00", r"replica fell behind on shard (s-\d\d)\b"),
    _find("account", "artifact", "two_regions", "u0000", r"session of (u\d{4}) seen in two regions at once"),
    _find("fingerprint", "value", "unknown_key", "00:00:00", r"unknown key, fingerprint ((?:[0-9a-f]{2}:){2}[0-9a-f]{2})\b"),
    _find("setting", "artifact", "by_hand", "pool_size", r"setting (\w+) altered by hand\b"),
    _find("former_value", "value", "by_hand", "100", r"altered by hand, formerly (\d+)\b"),
    _find("ruled_out", "error", "no_difference", "d-0000", r"taking back (d-\d{4}) made no difference"),
    _find("damage_offset", "value", "damage", "0", r"^[-* ]*(\d+):segment damaged beyond repair"),
    _find("lost_orders", "value", "lost", "0", r"orders lost for good: (\d+)\b"),
    make_output_fact("case_number", "artifact", "", "CASE-000", r"opened as (CASE-\d{3})\b", also_in=("evidence/cases.log",)),
    make_output_fact("seal_mark", "progress", "", "begin", r"[Ss]eal the rest with --after ([0-9a-f]{6})\b"),
)

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


def draw_values(task_seed: int) -> dict[str, str]:
    """Draw at random the values that the agent must remember, except `damage_offset`, which depends on the generated logs."""
    rng_for = partial(make_rng, "log-forensics", task_seed)
    values = draw_choices("log-forensics", task_seed, FACTS, _CHOICES, ("NX", "FR", "OP", "LG"))
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
    values["seal_mark"] = compute_digest(values["salt"], "seal:3")[:6]
    return values
