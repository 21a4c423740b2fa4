"""Measures how well the tolerant reader reads summaries by large models in recorded sessions.

`python -m experiments.reader_quality.native FOLDER` needs a folder of recorded sessions, which is not part of the project. The
facts in `style_texts/native.toml` were written down by a person who read the summaries, before the reader was run on them.
"""

import argparse
import json
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from experiments.reader_quality.styles import FOLDER
from harness.conversation.messages import assistant
from harness.models.scripted.visible_state import FactReader
from harness.task import Fact

FACTS = FOLDER / "native.toml"
HASH_CHARACTERS = 16


class NativeReading(NamedTuple):
    """Result of the tolerant reader for one fact of one summary."""

    file: str
    number: int
    fact: str
    value: str | None
    """Newest value that was read; None if there is none."""
    is_correct: bool


def list_summaries(path: Path) -> list[str]:
    """Return the summaries in a recorded session of Claude Code or pi, in order."""
    summaries = list[str]()
    for line in path.read_text(encoding="utf-8").split("\n"):
        row: dict[str, Any] = json.JSONDecoder().raw_decode(line)[0] if line.startswith("{") else {}
        if row.get("isCompactSummary"):
            content = row["message"]["content"]
            summaries.append(content if isinstance(content, str) else " ".join(part.get("text", "") for part in content))
        elif row.get("type") == "compaction":
            summaries.append(row["summary"])
    return summaries


def read_native(folder: Path) -> Iterator[NativeReading]:
    """Yield what the tolerant reader reads for each fact that a recorded summary states."""
    rows = tomllib.loads(FACTS.read_text(encoding="utf-8"))["fact"]
    for (file, number), group in groupby(rows, key=lambda row: (row["file"], row["number"])):
        stated = {row["name"]: row["value"] for row in group}
        facts = tuple(
            Fact(name=row["name"], kind="value", said_in="prompt", patterns=(row["pattern"],), prior="none")
            for row in rows
            if (row["file"], row["number"]) == (file, number)
        )
        text = list_summaries(folder / file)[number]
        read = {match.name: match.value for match in FactReader(facts, "tolerant").find_newest(assistant(text))}
        for name, expected in stated.items():
            value = read.get(name)
            is_correct = value is not None and sha256(value.encode()).hexdigest()[:HASH_CHARACTERS] == expected
            yield NativeReading(file, number, name, value, is_correct)


def main() -> None:
    """Print what was read, and how many of the stated facts were read as stated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of recorded sessions")
    readings = list(read_native(parser.parse_args().folder))
    for one in readings:
        print(one.file, one.number, one.fact, one.value, "correct" if one.is_correct else "", sep=" | ")
    correct, misread = (
        sum(one.is_correct for one in readings),
        sum(one.value is not None and not one.is_correct for one in readings),
    )
    print(f"{correct} of {len(readings)} stated facts read; {misread} values misread")


if __name__ == "__main__":
    main()
