"""Generator of the logs for the task `log-forensics`: three megabytes of irrelevant lines, and a few messages to be found.

Each log repeats lines from a pool of 400, so that megabytes are generated in milliseconds.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from harness.tasks.kit.draws import make_rng
from harness.tasks.log_forensics.structure import Structure

NIGHT_SECONDS = 6 * 3600
"""Number of seconds from midnight to six o'clock, the period that the logs cover."""


class _LogSpec(NamedTuple):
    name: str
    """Name of the component (program of the investigated system) that writes the log."""
    lines: int
    """Number of irrelevant lines in the generated log, that is, without the few messages that the agent has to find in it."""
    hosts: tuple[str, ...]
    """Names of the hosts whose lines appear in the log."""
    things: str
    """Subjects of the randomly generated sentences in the log, such as `letter to a customer`, separated by commas."""
    needles: tuple[str, ...]
    """The few messages that the agent has to find in the log, with placeholders such as `${address}` for values to remember."""


LOGS = (
    _LogSpec(
        *("gateway", 8_400, tuple(f"gw-{number}" for number in range(1, 14))),
        "request for the catalogue, login from the western region, order of a guest, page of the shop, picture of a lamp",
        (
            "first alarm of this night, answers take longer than the shop allows",
            "circuit opened for good by ${gateway_host}, nothing goes to the ledger from here",
            "logins refused in a burst, all of them from ${address}, no captcha was tried",
        ),
    ),
    _LogSpec(
        *("app", 7_600, tuple(f"app-{number}" for number in range(1, 9))),
        "basket of a regular, order of a merchant, voucher of the spring sale, return of a chair, letter to a customer",
        (
            "ledger turned down request ${first_request} before any other, the order stays open",
            "state of the books went into dumps/${dump_name} for whoever looks into it",
            "every queue is drained and calm again, orders are settled as they come",
        ),
    ),
    _LogSpec(
        *("ledger", 5_200, ("db-1", "db-2", "db-3")),
        "row of the orders, index over merchants, checkpoint of the books, page of the balances, vacuum of old rows",
        (
            "transaction given up with the code ${error_code} after nobody let go of the rows",
            "replica fell behind on shard ${shard} and did not catch up by itself",
        ),
    ),
    _LogSpec(
        *("auth", 4_800, ("id-1", "id-2")),
        "session of a customer, token of a robot, second factor of a clerk, password of a merchant, cookie of a guest",
        (
            "session of ${account} seen in two regions at once, both were let in",
            "unknown key, fingerprint ${fingerprint}, was added while nobody was on call",
        ),
    ),
    _LogSpec(
        *("queue", 4_200, ("mq-1", "mq-2", "mq-3")),
        "batch of invoices, message to the warehouse, segment of the evening, receipt for a parcel, letter for the archive",
        ("segment damaged beyond repair, readers skip it",),
    ),
    _LogSpec(
        *("deploy", 1_500, ("ci-1", "ci-2")),
        "build of the shop, image of the gateway, test of the basket, plan of the release, lint of the papers",
        (
            "setting ${setting} altered by hand, formerly ${former_value}, no ticket was given",
            "taking back ${ruled_out} made no difference, alarms went on",
        ),
    ),
)
MISLEADING = (
    ("gateway", "circuit opened for a moment by gw-1 and closed again at once"),
    ("gateway", "logins refused one by one, most of them from 192.0.2.44, all typing errors"),
    ("gateway", "last alarm of the night before, nobody was called"),
    ("app", "ledger turned down request r0a0b0 for a second time, the order was settled later"),
    ("app", "state of the shelves went into dumps of the warehouse, which nobody reads"),
    ("ledger", "transaction repeated under the code LK-1111 and settled at once"),
    ("auth", "session of u0001 moved from one region to another, as it does every night"),
    ("auth", "known key, fingerprint 11:22:33, was used by whoever was on call"),
    ("deploy", "setting cache_size altered by a plan, before that 512, under a ticket"),
    ("deploy", "taking back d-0001 was tried in spring, and it helped"),
)
"""Messages that look like those which the agent has to find, but are about something else: name of the log, and text."""
TIME_FACTS = {"first alarm of this night": "alarm_time", "every queue is drained": "healthy_time"}
"""Name of the fact that is the clock time of a log message, by the first words of the message."""
DUMP_COUNT = 16

_VERBS = "was accepted by, was passed on to, waited for, was read from, was kept by, was compared with, came back from"
_PLACES = "the eastern hall, a warm cache, the night shift, the second store, an old partner, the spare line, the archive"
_ENDS = "as usual, without delay, after a short pause, and nobody noticed, at the second try, like every night, in order"
_LEVELS = ("INFO ", "INFO ", "INFO ", "INFO ", "INFO ", "INFO ", "WARN ", "ERROR")
POOL_SIZE = 400
"""Number of different lines from which a log is generated; each line is repeated many times, with other clock times."""


@lru_cache(maxsize=1)
def _list_clock_times() -> tuple[str, ...]:
    return tuple(f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}" for second in range(NIGHT_SECONDS))


def generate_logs(structure: Structure, values: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each log, and of each dump (text file with data of a program)."""
    misleading = [MISLEADING[index] for index in structure.misleading]
    log_files = [
        (
            f"logs/{log.name}.log",
            _render_log(_add_messages(log, misleading), values, make_rng("log-forensics", task_seed, log.name)),
        )
        for log in LOGS
    ]
    return (*log_files, *_generate_dumps(values, make_rng("log-forensics", task_seed, "dumps")))


def _add_messages(log: _LogSpec, messages: Sequence[tuple[str, str]]) -> _LogSpec:
    """Return the specification of a log with more messages, given as pairs of the name of a log and a text."""
    return log._replace(needles=(*log.needles, *(message for name, message in messages if name == log.name)))


def _draw_line_pool(log: _LogSpec, rng: random.Random) -> list[str]:
    parts = (_LEVELS, log.hosts, *(names.split(", ") for names in (log.things, _VERBS, _PLACES, _ENDS)))
    rows = zip(*(rng.choices(part, k=POOL_SIZE) for part in parts), strict=True)
    return [f"{level} {host}: {thing} {verb} {place} {end}\n" for level, host, thing, verb, place, end in rows]


def _render_log(log: _LogSpec, values: Mapping[str, str], rng: random.Random) -> str:
    clock, count = _list_clock_times(), log.lines
    drawn_lines = rng.choices(_draw_line_pool(log, rng), k=count)
    lines = [f"{clock[index * NIGHT_SECONDS // count]} {text}" for index, text in enumerate(drawn_lines)]
    needles = [(_choose_second(needle, values, rng), needle) for needle in log.needles]
    for second, needle in sorted(needles, reverse=True):
        message = needle
        for name, value in values.items():
            message = message.replace("${" + name + "}", value)
        lines.insert(second * count // NIGHT_SECONDS + 1, f"{clock[second]} INFO  {rng.choice(log.hosts)}: {message}\n")
    return "".join(lines)


def _choose_second(needle: str, values: Mapping[str, str], rng: random.Random) -> int:
    """Return the number of seconds after midnight at which a message is logged.

    The number is random, unless the time of the message is itself a value to remember.
    """
    fact = next((name for words, name in TIME_FACTS.items() if needle.startswith(words)), "")
    if not fact:
        return rng.randrange(1_800, NIGHT_SECONDS - 1_800)
    hours, minutes, seconds = map(int, values[fact].split(":"))
    return hours * 3600 + minutes * 60 + seconds


def _generate_dumps(values: Mapping[str, str], rng: random.Random) -> Iterator[tuple[str, str]]:
    for number in range(1, DUMP_COUNT + 1):
        name = f"ledger-{number:04d}.txt"
        rows = [
            f"shelf {row:03d}: {rng.randrange(40, 99)} settled, {rng.randrange(1, 30)} open, checked by hand\n"
            for row in range(90)
        ]
        if name == values["dump_name"]:
            rows.insert(72, f"orders lost for good: {values['lost_orders']}\n")
        yield f"dumps/{name}", f"dump {number} of the books\n{''.join(rows)}orders still open: {rng.randrange(10, 90)}\n"
