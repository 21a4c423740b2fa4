"""Kill writers of a journal with SIGKILL at random times and check the files that they left.

`test_database` runs this program with 120 kills; `python -m tests.store.killing FOLDER KILLS` runs it with any number. Files
take turns as whole and as scratch journals.

It prints one line of JSON with the findings of all kills. Writers are forked from this small single-threaded process, so that
hundreds of them take seconds.
"""

import itertools
import json
import os
import random
import signal
import sqlite3
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from harness.conversation.events import Event
from harness.conversation.view import fold_all
from harness.store.journal import Journal
from tests.store.samples import begun, compaction, opening, step

KILLS_A_FILE = 20
EVENTS_A_STEP = 3


def make_batches() -> Iterator[list[Event]]:
    """Yield what a writer logs, without end: an opening, then steps, every seventh followed by a compaction.

    Outputs return after some steps, so that events share long texts and their JSON.
    """
    length = 0
    for number in itertools.count():
        batch = step(number, f"output {number % 5}\n" * (1 + number % 9 * 20)) if number else opening()
        length += len(batch)
        yield batch
        if number and number % 7 == 0:
            length += 1
            yield [compaction(forget=range(3, length - 1), number=number // 7)]


def write_until_killed(path: Path, pipe: int, *, is_scratch: bool) -> None:
    """Append batches that are not in the log yet and write the length of the log to the pipe after each."""
    with Journal.open(path, is_scratch=is_scratch) as journal:
        log = begun(journal)
        seq = 0
        for batch in make_batches():
            seq += len(batch)
            if seq > log.length:
                os.write(pipe, struct.pack("q", log.append(batch)[-1].seq))


def last_told(reading: int, data: bytes) -> int:
    """Return the last log length that the killed writer reported; -1 if it reported none."""
    while block := os.read(reading, 65536):
        data += block
    whole = len(data) // 8 * 8
    return int(struct.unpack("q", data[whole - 8 : whole])[0]) if whole else -1


def kill_one(path: Path, after_seconds: float, *, wait: bool, is_scratch: bool) -> int:
    """Start a writer and kill it some time after its start or its first batch."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        write_until_killed(path, writing, is_scratch=is_scratch)
    os.close(writing)
    first = os.read(reading, 8) if wait else b""
    time.sleep(after_seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, f"a writer ended by itself: {status}"
    length = last_told(reading, first)
    os.close(reading)
    return length


def find_fault(path: Path, acknowledged: int, before: int) -> tuple[str, int]:
    """Return the fault of the file after a kill (empty if there is none) and the length of the log."""
    if not path.exists():
        return "", 0
    connection = sqlite3.connect(path)
    whole = connection.execute("PRAGMA integrity_check").fetchone()[0]
    strays = connection.execute("PRAGMA foreign_key_check").fetchall()
    connection.close()
    if whole != "ok" or strays:
        return f"integrity: {whole}, {strays}", 0
    with Journal.open(path) as journal:
        return wrong_with(journal, acknowledged, before)


def wrong_with(journal: Journal, acknowledged: int, before: int) -> tuple[str, int]:
    """Return the fault in the tables of the file, or an empty string."""
    entries = list(begun(journal).entries())
    (messages,) = journal.query("SELECT count(*) FROM messages WHERE NOT is_compacted")[0]
    (typed,) = journal.query("SELECT count(*) FROM step")[0]
    steps = sum(entry.event.kind == "step-finished" for entry in entries)
    compactions = sum(entry.event.kind == "compaction" for entry in entries)
    length = len(entries)
    logged = list(itertools.islice(itertools.chain.from_iterable(make_batches()), length))
    bodies = journal.query("SELECT data FROM body ORDER BY data")
    used = journal.query("SELECT DISTINCT body FROM whole_event WHERE kind <> 'step-finished' ORDER BY body")
    problems = {
        "the events are not those that were logged": [entry.event for entry in entries] != logged,
        "the stored JSON is not that of the events, each once": [*map(tuple, bodies)] != [*map(tuple, used)],
        "events are missing": [entry.seq for entry in entries] != list(range(1, length + 1)),
        f"lost: {length} events of {max(acknowledged, before)} that were told": length < max(acknowledged, before),
        f"more than one step beyond what was told: {length}, {acknowledged}": acknowledged > 0
        and length > acknowledged + EVENTS_A_STEP,
        f"half a step: {length} events, {steps} steps ({typed} typed), {compactions} compactions": length > 0
        and (length != 3 + EVENTS_A_STEP * steps + compactions or typed != steps),
        "the messages are not those of the view": len(fold_all(entries).items) != messages,
    }
    return "; ".join(problem for problem, holds in problems.items() if holds), length


def main(folder: Path, kills: int) -> None:
    """Kill writers and print the findings."""
    random.seed(1)
    wrong: list[str] = []
    lengths: dict[Path, int] = {}
    in_flight = beyond = 0
    for number in range(kills):
        path = folder / f"{number // KILLS_A_FILE}.sqlite"
        before = lengths.get(path, 0)
        is_scratch = number // KILLS_A_FILE % 2 > 0
        acknowledged = kill_one(path, random.uniform(0.0, 0.02), wait=number % 12 > 0, is_scratch=is_scratch)
        problem, lengths[path] = find_fault(path, acknowledged, before)
        if problem:
            wrong.append(f"kill {number}: {problem}")
        in_flight += acknowledged > 0
        beyond += lengths[path] > max(acknowledged, before)
    outcome = {"kills": kills, "while writing": in_flight, "committed untold": beyond, "longest": max(lengths.values())}
    print(json.dumps({**outcome, "wrong": wrong}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
