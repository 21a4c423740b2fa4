"""What must be remembered: the facts, how each is read out of visible text, and the values that a seed gives them.

Nine stand in the order alone and are needed at the end. Fourteen are needles in logs, printed by a search; each can be found
again, at 500 to 1,500 tokens a search. Three stand in the desk's papers. Two are printed by commands that cannot be run again
without harm.
"""

import hashlib
from functools import partial

from harness.task import Fact, FactKind
from harness.tasks.facts import drawn, outdated, printed, stated, written
from harness.tasks.log_forensics.searches import SEARCHES


def _needle(name: str, kind: FactKind, search: str, prior: str, pattern: str) -> Fact:
    """A fact that the search of that name prints."""
    found = SEARCHES[search]
    return printed(name, kind, found.command, prior, pattern, source=found.source)


FACTS: tuple[Fact, ...] = (
    stated("heading", "constraint", "Incident report", r"report is headed `([^`\n]+)`"),
    stated("audience", "goal", "management", r"report is written for the (\w+) and nobody else"),
    stated("ticket", "value", "INC-1", r"work is booked on the ticket ([A-Z]{2}-\d{4})\b"),
    stated("time_suffix", "constraint", "Z", r"time of the timeline ends with `(\w+)`"),
    stated("separator", "constraint", ",", r"columns of the timeline are separated by `([^`\s])`"),
    stated("deny_word", "constraint", "block", r"line of the block-list begins with the word `(\w+)`"),
    stated("person_mark", "preference", "user", r"account is never named but shown as `([\w-]+)/`"),
    stated("cleared_word", "decision", "innocent", r"suspect that was ruled out is called `(\w+)`"),
    stated("keep_days", "constraint", "90", r"[Ee]vidence is kept for (\d+) days"),
    written("mask", "constraint", "docs/runbook.md", "32", r"names networks with a mask of (\d\d) bits"),
    written("incident_class", "decision", "docs/runbook.md", "C1", r"losing settled orders is an incident of class ([A-Z]\d)\b"),
    outdated(
        written("desk", "superseded", "docs/addendum.md", "operations", r"reports go to the desk `([a-z]+)` from now on"),
        r"reports went to ([a-z]+)\b",
    ),
    _needle("alarm_time", "progress", "alarm", "00:00:00", r"(\d\d:\d\d:\d\d) .{0,30}first alarm of this night"),
    _needle("gateway_host", "value", "circuit", "gw-1", r"circuit opened for good by (gw-\d+)\b"),
    _needle("address", "artifact", "burst", "192.0.2.1", r"logins refused in a burst, all of them from ([\d.]+\d)\b"),
    _needle("first_request", "artifact", "rejected", "r00000", r"ledger turned down request (r[0-9a-f]{5}) before any other"),
    _needle(
        "dump_name", "next-step", "dump", "ledger-0001.txt", r"went into dumps/(ledger-\d{4}\.txt) for whoever looks into it"
    ),
    _needle("healthy_time", "progress", "healthy", "23:59:59", r"(\d\d:\d\d:\d\d) .{0,30}every queue is drained and calm again"),
    _needle("error_code", "error", "given_up", "LK-0000", r"transaction given up with the code (LK-\d{4})\b"),
    _needle("shard", "value", "lagging", "s-00", r"replica fell behind on shard (s-\d\d)\b"),
    _needle("account", "artifact", "two_regions", "u0000", r"session of (u\d{4}) seen in two regions at once"),
    _needle("fingerprint", "value", "unknown_key", "00:00:00", r"unknown key, fingerprint ((?:[0-9a-f]{2}:){2}[0-9a-f]{2})\b"),
    _needle("setting", "artifact", "by_hand", "pool_size", r"setting (\w+) altered by hand\b"),
    _needle("former_value", "value", "by_hand", "100", r"altered by hand, formerly (\d+)\b"),
    _needle("ruled_out", "error", "no_difference", "d-0000", r"taking back (d-\d{4}) made no difference"),
    _needle("damage_offset", "value", "damage", "0", r"^[-* ]*(\d+):segment damaged beyond repair"),
    _needle("lost_orders", "value", "lost", "0", r"orders lost for good: (\d+)\b"),
    printed("case_number", "artifact", "", "CASE-000", r"opened as (CASE-\d{3})\b"),
    printed("seal_mark", "progress", "", "begin", r"[Ss]eal the rest with --after ([0-9a-f]{6})\b"),
)

_CHOICES: dict[str, tuple[str, ...]] = {
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
    "former_value": tuple(str(value) for value in range(130, 960, 23)),
}
TIMES = {"alarm_time": (3 * 3600, 4 * 3600), "healthy_time": (5 * 3600, 6 * 3600 - 300)}
"""When something is seen: first and last second after midnight."""


def draw(task_seed: int) -> dict[str, str]:
    """The value of every fact under a seed but `damage_offset`, which follows from the logs; `salt` is the workspace's own."""
    source = partial(drawn, "log-forensics", task_seed)
    values = {name: source(name).choice(choices) for name, choices in _CHOICES.items()}
    for name, (first, last) in TIMES.items():
        second = source(name).randrange(first, last)
        values[name] = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    values["ticket"] = f"{source('team').choice(('NX', 'FR', 'OP', 'LG'))}-{source('ticket').randrange(1000, 10_000)}"
    network = source("network").choice(("198.51.100", "203.0.113", "198.18.7", "198.19.44"))
    values["address"] = f"{network}.{source('address').randrange(2, 250)}"
    values["first_request"] = f"r{source('request').randrange(16**4, 16**5):05x}"
    values["dump_name"] = f"ledger-{source('dump').choice(range(3, 15)):04d}.txt"
    values["account"] = f"u{source('account').randrange(1000, 10_000)}"
    values["fingerprint"] = ":".join(f"{source(f'key{part}').randrange(16, 256):02x}" for part in range(3))
    values["ruled_out"] = f"d-{source('deploy').randrange(1000, 10_000)}"
    values["lost_orders"] = str(source("lost").randrange(300, 4000))
    values["salt"] = f"{source('salt').getrandbits(48):012x}"
    values["case_number"] = f"CASE-{int(_digest(values['salt'], 'case:0'), 16) % 900 + 100}"
    values["seal_mark"] = _digest(values["salt"], "seal:3")
    return values


def _digest(salt: str, what: str) -> str:
    """As tools/open_case.py and tools/seal.py compute it."""
    return hashlib.sha256(f"{salt}:{what}".encode()).hexdigest()[:6]
