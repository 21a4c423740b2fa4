"""The searches that find a needle: where, by which words, and with how much of its surroundings.

A needle is seen only together with what stands around it, since that is what a person looks at to believe it; so finding it
again costs what it cost at first.
"""

from typing import NamedTuple


class Search(NamedTuple):
    """A command, and the path that must be known to be there before it is run again."""

    command: str
    source: str


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
