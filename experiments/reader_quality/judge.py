"""Compares what both readers read in the stored summaries with the facts of the prompts, and writes the figures of reports.

`python -m experiments.reader_quality.judge` needs no model. It prints a table by model, the false readings, and the readings of
generated distractors, and writes `harness/reporting/reader_quality.json`.
"""

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from scipy.stats import beta

from experiments.reader_quality.generate import FOLDER, KEYS, PROMPTS, SUMMARIES, Row, read_rows
from harness.analysis.intervals import ALPHA
from harness.conversation.messages import assistant
from harness.models.scripted.patterns import compile_fact_patterns
from harness.models.scripted.profiles import READERS, Reader
from harness.models.scripted.summary_prompts import read_summary_prompt
from harness.models.scripted.tolerant import compile_tolerant_statements, list_stems, make_subject
from harness.models.scripted.visible_state import FactReader
from harness.task import Task
from harness.tasks import SUITE, make_task
from tests.models.scripted.paraphrases import OTHERS, PACKAGES, list_misleading, write

VERDICTS = FOLDER / "verdicts.json"
"""Verdicts of a person on false readings: whether the summary itself states the value that was read."""
TARGET = Path(__file__).parents[2] / "harness" / "reporting" / "reader_quality.json"
DISTRACTOR_SEEDS = range(2_000, 2_010)


@dataclass(frozen=True)
class Reading:
    """Fact of a task after a summary: its value in the prompt, and whether and how the summary states it."""

    model: str
    session: tuple[str, int]
    compaction: int
    fact: str
    current: str | None
    """Newest value of the fact in the prompt; None if the prompt does not state the fact.

    Where the prompt states the fact in other words than the task, it is the value of the task.
    """
    stands: bool
    """Whether a line of the summary contains the value and a key word of the fact."""
    read: dict[Reader, str]
    """Value that each reader reads in the summary."""
    is_in_prompt: dict[Reader, bool]
    """Whether the value that a reader reads occurs in the prompt; the summarizer invented other values."""

    @property
    def key(self) -> str:
        """Text that identifies the reading among the verdicts, e.g. `local/smollm2-135m bug-hunt 1000 1 port`."""
        return " ".join(map(str, (self.model, *self.session, self.compaction, self.fact)))

    def is_false(self, reader: Reader) -> bool:
        """Return whether a reader reads another value than the current one."""
        return reader in self.read and self.read[reader] != self.current


@cache
def load(name: str, seed: int) -> Task:
    """Return the task of a seed."""
    return make_task(name, seed)


def judge(prompts: Iterable[Row], summaries: Iterable[Row]) -> Iterator[Reading]:
    """Yield what both readers read in each summary, for each fact of the task."""
    by_key = {tuple(row[key] for key in KEYS): row for row in prompts}
    for row in summaries:
        task, asked = load(row["task"], row["seed"]), by_key[tuple(row[key] for key in KEYS)]
        prompt = "\n".join(read_summary_prompt(asked["prompt"]).lines)
        current = {name: value for name, value in task.values.items() if value in prompt}
        current |= {match.name: match.value for match in compile_fact_patterns(task.facts).find_newest(prompt)}
        message = assistant(row["summary"])
        read = {reader: {m.name: m.value for m in FactReader(task.facts, reader).find_newest(message)} for reader in READERS}
        for fact in task.facts:
            values = {reader: found[fact.name] for reader, found in read.items() if fact.name in found}
            value, subject = current.get(fact.name), make_subject(fact)
            vocabulary = frozenset() if subject is None else frozenset(chain.from_iterable(subject.keys))
            yield Reading(
                model=row["model"],
                session=(row["task"], row["seed"]),
                compaction=row["compaction"],
                fact=fact.name,
                current=value,
                stands=value is not None and stands_in(value, vocabulary, row["summary"]),
                read=values,
                is_in_prompt={reader: one in prompt for reader, one in values.items()},
            )


def stands_in(value: str, vocabulary: frozenset[str], text: str) -> bool:
    """Return whether a line contains a value as a whole word together with a key word of its fact."""
    pattern = re.compile(rf"(?<!\w){re.escape(value)}(?!\w)")
    return any(pattern.search(line) and vocabulary & {*list_stems(pattern.sub(" ", line))} for line in text.splitlines())


class Rate(NamedTuple):
    """Share of cases with an event, and upper 95 % bounds of it that allow for sessions."""

    events: int
    cases: int
    bound: float
    """Bound for the design effect that the sessions show; without any event they show none."""
    dependent_bound: float
    """Bound if all cases of a session were copies of one case, which no session can exceed."""


def estimate_rate(counts: Iterable[tuple[int, int]]) -> Rate:
    """Return the share of cases with an event and its bounds, given the numbers of events and cases of each session.

    Both are exact binomial bounds for an effective number of cases: the number of cases over the design effect, which is the
    variance between sessions over the binomial variance, at least 1. For copies it is the mean size of the session of a case.
    """
    pairs = [(events, cases) for events, cases in counts if cases]
    events, cases = (sum(column) for column in zip(*pairs, strict=True)) if pairs else (0, 0)
    if not cases:
        return Rate(0, 0, 1.0, 1.0)
    rate, sessions = events / cases, len(pairs)
    effect = 1.0
    if 0 < rate < 1 and sessions > 1:
        variance = sessions / (sessions - 1) * sum((one - rate * size) ** 2 for one, size in pairs) / cases**2
        effect = max(1.0, variance / (rate * (1 - rate) / cases))
    copies = max(effect, sum(size**2 for _, size in pairs) / cases)
    return Rate(events, cases, bound_rate(events / effect, cases / effect), bound_rate(events / copies, cases / copies))


def bound_rate(events: float, cases: float) -> float:
    """Return the upper end of the two-sided exact 95 % interval (Clopper and Pearson); the numbers may be fractions."""
    return float(beta.ppf(1 - ALPHA / 2, events + 1, cases - events)) if events < cases else 1.0


def summarize(readings: list[Reading], reader: Reader, verdicts: Mapping[str, str]) -> dict[str, object]:
    """Return recall and false readings of a reader.

    A false reading is a misreading unless the verdict of a person is that the summary states the value.
    """
    by_session: dict[tuple[str, int], list[Reading]] = defaultdict(list)
    for one in readings:
        by_session[one.session].append(one)
    false = {session: sum(one.is_false(reader) for one in rows) for session, rows in by_session.items()}
    by_reading = estimate_rate((false[at], sum(reader in one.read for one in rows)) for at, rows in by_session.items())
    by_fact = estimate_rate((false[at], len(rows)) for at, rows in by_session.items())
    misread = estimate_rate(
        (
            sum(one.is_false(reader) and not verdicts.get(one.key, "").startswith("stated") for one in rows),
            sum(reader in one.read for one in rows),
        )
        for rows in by_session.values()
    )
    stated = [one for one in readings if one.stands]
    return {
        "stated": len(stated),
        "recalled": sum(one.read.get(reader) == one.current for one in stated),
        "readings": by_reading.cases,
        "sessions_with_readings": sum(any(reader in one.read for one in rows) for rows in by_session.values()),
        "false_readings": by_reading.events,
        "false_upper_bound": round(by_reading.bound, 4),
        "false_upper_bound_if_dependent": round(by_reading.dependent_bound, 4),
        "misreadings": misread.events,
        "misreading_upper_bound": round(misread.bound, 4),
        "facts": by_fact.cases,
        "false_upper_bound_per_fact": round(by_fact.bound, 4),
        "false_with_invented_value": sum(one.is_false(reader) and not one.is_in_prompt[reader] for one in readings),
    }


def judge_distractors() -> dict[str, int]:
    """Return the number of generated distractors and how many of them the tolerant reader reads as a fact."""
    sentences = read = 0
    for name in sorted(SUITE):
        for seed in DISTRACTOR_SEEDS:
            task, older = load(name, seed), load(name, seed + 500)
            reader = compile_tolerant_statements(task.facts)
            texts = list(list_misleading(name, task.values)) if name in PACKAGES else []
            named = [fact for fact in task.facts if fact.name in older.values and "former" not in fact.name]
            texts += [write(form, fact, "", older.values[fact.name]) for fact in named for form in OTHERS]
            sentences += len(texts)
            read += sum(bool(reader.find(text)) for text in texts)
    return {"sentences": sentences, "read": read}


def main() -> None:
    """Print the figures and write them beside the code of the reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of prompts and summaries")
    parser.add_argument("--no-write", action="store_true", help="print only")
    parser.add_argument("--show-false", action="store_true", help="print false readings; change no rule after that")
    chosen = parser.parse_args()
    summaries = read_rows(chosen.folder / SUMMARIES.name)
    readings = list(judge(read_rows(chosen.folder / PROMPTS.name), summaries))
    verdicts = json.loads(VERDICTS.read_text(encoding="utf-8"))
    figures = {
        "source": "experiments/reader_quality",
        "summaries": len(summaries),
        "sessions": len({one.session for one in readings}),
        "by_model": dict(sorted(Counter(row["model"] for row in summaries).items())),
        "readers": {reader: summarize(readings, reader, verdicts) for reader in READERS},
        "distractors": judge_distractors(),
    }
    for model in figures["by_model"]:  # type: ignore[attr-defined]
        for reader in READERS:
            print(model, reader, summarize([one for one in readings if one.model == model], reader, verdicts))
    print(json.dumps(figures, indent=2))
    if chosen.show_false:
        for one in readings:
            if any(map(one.is_false, READERS)):
                print(one.key, one.current, one.read, verdicts.get(one.key, "no verdict"), sep=" | ")
    if not chosen.no_write:
        TARGET.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
