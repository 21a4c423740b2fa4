"""Draw later uses of evicted words from a folder of recordings, and compute their precision from labels made by hand.

`python -m experiments.later_use.sample FOLDER` prints each event of the sample with its context, to be read. The labels stand in
`labels.tsv`, by key; a key is a digest, so that the file has no text of a recording. `--precision` reads the labels.
"""

import argparse
import csv
import hashlib
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.conversation.events import Compaction, Entry, MessageAdded
from harness.conversation.tokens import QuarterOfCharacters
from harness.inspection.distinctive_words import follow_words, join_texts
from harness.inspection.recording_folder import find_files, open_recordings
from harness.recordings.session_log import build_timed_log
from harness.replay.later_use import find_later_uses

SEED = 47
EVENTS = 100
BOUNDARIES_PER_SESSION = 3
CONTEXT_CHARACTERS = 160
LABELS = Path(__file__).with_name("labels.tsv")


class Event(NamedTuple):
    """Use of an evicted word.

    Args:
        key: Digest of file, boundary, kind, word and step.
        stratum: `real` for a compaction of the agent, `assumed` for a boundary at which everything is taken as evicted.
        kind: Kind of the word.
        word: The word.
        boundary: Step of the boundary.
        step: Step of the use.
        source: Where the word stood before, with its context.
        use: The message that uses it, around the word.
    """

    key: str
    stratum: str
    kind: str
    word: str
    boundary: int
    step: int
    source: str
    use: str


def iter_events(folder: Path) -> Iterator[Event]:
    """Yield the events of all recordings with texts in a folder, at compactions and at three assumed boundaries of each file."""
    for path in sorted(find_files(folder)):
        name = str(path.relative_to(folder))
        for recording in open_recordings(path).recordings:
            if recording.has_texts:
                entries = [timed.entry for timed in build_timed_log(recording, reading="recorded")]
                yield from _list_real(name, entries)
                yield from _list_assumed(name, entries)


def _list_real(name: str, entries: Sequence[Entry]) -> Iterator[Event]:
    steps = {entry.seq: entry.event.step for entry in entries if isinstance(entry.event, Compaction)}
    for seq, words in follow_words(entries, QuarterOfCharacters()).items():
        for fate in words.fates:
            if fate.fate == "used later" and fate.step is not None:
                source = f"{fate.before.label}: {fate.before.text_before}[{fate.word}]{fate.before.text_after}"
                use = _quote_use(entries, fate.word, fate.step, seq)
                yield _make(name, "real", fate.kind, fate.word, steps[seq], fate.step, source, use)


def _list_assumed(name: str, entries: Sequence[Entry]) -> Iterator[Event]:
    if any(isinstance(entry.event, Compaction) for entry in entries):
        return
    asked = [entry for entry in entries if isinstance(entry.event, MessageAdded) and entry.event.message.role == "assistant"]
    count = len(asked)
    for number in range(1, BOUNDARIES_PER_SESSION + 1):
        boundary = 1 + number * count // (BOUNDARIES_PER_SESSION + 1)
        if not 5 <= boundary <= count:
            continue
        first = asked[boundary - 1].seq
        for use in find_later_uses(entries, boundary):
            source = _quote_source(entries, use.word, first)
            seq = asked[use.step - 1].seq - 1
            yield _make(name, "assumed", use.kind, use.word, boundary, use.step, source, _quote_use(entries, use.word, None, seq))


def _make(name: str, stratum: str, kind: str, word: str, boundary: int, step: int, source: str, use: str) -> Event:
    digest = hashlib.sha256("\0".join((name, stratum, kind, word, str(boundary), str(step))).encode()).hexdigest()[:12]
    return Event(digest, stratum, kind, word, boundary, step, source, use)


def _quote(text: str, word: str) -> str:
    place = text.find(word)
    return " ".join(text[max(0, place - CONTEXT_CHARACTERS) : place + len(word) + CONTEXT_CHARACTERS].split())


def _quote_use(entries: Sequence[Entry], word: str, step: int | None, after: int) -> str:
    for entry in entries:
        event = entry.event
        if entry.seq > after and isinstance(event, MessageAdded) and event.message.role == "assistant":
            text = join_texts(event.message)
            if word in text and step in (None, event.step):
                return _quote(text, word)
    return "?"


def _quote_source(entries: Sequence[Entry], word: str, before: int) -> str:
    for entry in reversed(entries):
        event = entry.event
        if entry.seq < before and isinstance(event, MessageAdded) and word in (text := join_texts(event.message)):
            return f"step {event.step}, {event.message.role}: {_quote(text, word)}"
    return "?"


def draw_sample(events: Sequence[Event]) -> list[Event]:
    """Return all events at real compactions, at most `EVENTS`, filled up with drawn events at assumed boundaries."""
    rng = random.Random(SEED)
    ordered = sorted(events)  # by key: sets of words have no order of their own
    real = [event for event in ordered if event.stratum == "real"]
    assumed = [event for event in ordered if event.stratum == "assumed"]
    chosen = rng.sample(real, min(EVENTS, len(real)))
    return [*chosen, *rng.sample(assumed, min(EVENTS - len(chosen), len(assumed)))]


def compute_wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the ends of the 95 % Wilson interval of a share."""
    z = 1.959964
    share, square = hits / total, z * z / total
    middle, half = share + square / 2, z * math.sqrt(share * (1 - share) / total + square / total / 4)
    return (middle - half) / (1 + square), (middle + half) / (1 + square)


def read_labels() -> list[dict[str, str]]:
    """Return the rows of the labels: key, stratum, kind and label."""
    with LABELS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def print_precision(rows: Sequence[dict[str, str]]) -> None:
    """Print the precision, with unclear events counted as no re-use, for each stratum, each kind, and all."""
    groups = [("all", rows)]
    for column in ("stratum", "kind"):
        values = sorted({row[column] for row in rows})
        groups += [(value, [row for row in rows if row[column] == value]) for value in values]
    for name, part in groups:
        counts = [sum(row["label"] == label for row in part) for label in ("yes", "no", "unclear")]
        low, high = compute_wilson(counts[0], len(part))
        print(
            f"{name}: {counts[0]} yes, {counts[1]} no, {counts[2]} unclear; {counts[0] / len(part):.1%} [{low:.1%}, {high:.1%}]"
        )


def main() -> None:
    """Print the events of the sample, or the precision of its labels."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--precision", action="store_true")
    chosen = parser.parse_args()
    if chosen.precision:
        print_precision(read_labels())
        return
    events = list(iter_events(chosen.folder))
    totals = {stratum: sum(event.stratum == stratum for event in events) for stratum in ("real", "assumed")}
    print(totals)
    for number, event in enumerate(draw_sample(events), 1):
        print(f"{number} {event.key} {event.stratum} {event.kind} «{event.word}» boundary {event.boundary}, used at {event.step}")
        print(f"   HAD  {event.source}\n   USED {event.use}")


if __name__ == "__main__":
    main()
