"""Generator of the logs for the task `log-forensics`: three megabytes of irrelevant lines, and a few messages to be found.

The components that write logs, and the parts of their sentences, are in `logs.toml`. Each log repeats lines from a pool of 400,
so that megabytes are generated in milliseconds.
"""

import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
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
    hosts: Sequence[str]
    """Names of the hosts whose lines appear in the log."""
    things: Sequence[str]
    """Subjects of the randomly generated sentences in the log, such as `letter to a customer`."""
    needles: Sequence[str]
    """The few messages that the agent has to find in the log, with placeholders such as `${address}` for values to remember."""


_TEXTS = tomllib.loads(files(__package__).joinpath("logs.toml").read_text(encoding="utf-8"))
LOGS = tuple(_LogSpec(**log) for log in _TEXTS["logs"])
MISLEADING: tuple[tuple[str, str], ...] = tuple((name, text) for name, text in _TEXTS["misleading"])
"""Messages that look like those which the agent has to find, but are about something else: name of the log, and text."""
TIME_FACTS = {"first alarm of this night": "alarm_time", "every queue is drained": "healthy_time"}
"""Name of the fact that is the clock time of a log message, by the first words of the message."""
DUMP_COUNT = 16

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
    parts = (_LEVELS, log.hosts, log.things, *(_TEXTS[name] for name in ("verbs", "places", "ends")))
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
