"""Precision and recall of `later_use_of_evicted` against the fact ledger: `python -m tests.replay.fact_ledger [SEEDS]`.

Scripted agents work on the built-in tasks without compaction. At boundaries every ten steps, everything before is taken as
evicted. The ledger knows each use of a fact in a tool call. A use counts if the fact was stated before the boundary by the user
or a tool, and its value was in no such message between the boundary and the use.

- recall: share of these uses whose value, or a word of it, the metric finds in the same step;
- recall of distinctive values: the same for values with a word of one of the metric's kinds;
- precision: share of the words found that belong to the value of a fact used in that step. Other words, such as the names of
  files that are no facts, may be uses as well, so this is a lower bound.
"""

import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.conversation.events import Entry, MessageAdded
from harness.conversation.tokens import QuarterOfCharacters, iter_texts
from harness.conversation.view import View, fold
from harness.experiment.experiment import Experiment
from harness.experiment.trial import Trial
from harness.metrics.session_metrics import FactProber
from harness.replay.later_use import KINDS, find_later_uses
from harness.store.journal import Journal
from harness.store.sessions.lookup import JOURNAL_FILE
from harness.task import Task
from harness.tasks import load_task

TASKS = ("flashcards", "bug-hunt", "spec-api", "rename-sweep", "changing-requirements", "log-forensics")
EVERY_STEPS = 10


class Agreement(NamedTuple):
    """Counts of uses: those in the ledger, found ones, distinctive ones and found ones of these; words found, and right ones."""

    uses: int = 0
    found_uses: int = 0
    distinctive_uses: int = 0
    found_distinctive_uses: int = 0
    words: int = 0
    right_words: int = 0

    def plus(self, other: "Agreement") -> "Agreement":
        return Agreement(*(one + two for one, two in zip(self, other, strict=True)))

    def describe(self) -> str:
        def share(part: int, whole: int) -> str:
            return f"{part / whole:.1%} ({part} of {whole})" if whole else "none"

        recall, precision = share(self.found_uses, self.uses), share(self.right_words, self.words)
        distinctive = share(self.found_distinctive_uses, self.distinctive_uses)
        return f"recall {recall}, of distinctive values {distinctive}, precision at least {precision}"


class _Use(NamedTuple):
    step: int
    value: str


def measure(entries: Sequence[Entry], task: Task) -> Agreement:
    """Return the agreement over all boundaries of a session without compactions."""
    counter, prober, view = QuarterOfCharacters(), FactProber(task), View()
    shown: list[tuple[int, str]] = []
    for entry in entries:
        before, view = view, fold(view, entry, counter)
        prober.add_entry(entry, before, view)
        if isinstance(entry.event, MessageAdded) and entry.event.message.role in {"user", "tool"}:
            shown.append((entry.event.step, "\n".join(iter_texts(entry.event.message))))
    uses = sorted({_Use(use.step, use.value) for use in prober.uses if use.use == "right"})
    total = Agreement()
    for boundary in range(EVERY_STEPS + 1, view.steps, EVERY_STEPS):
        total = total.plus(_compare(entries, boundary, list(_select_uses(uses, shown, boundary))))
    return total


def _select_uses(uses: Iterable[_Use], shown: Sequence[tuple[int, str]], boundary: int) -> Iterator[_Use]:
    """Yield the first use of each value behind a boundary, if it was stated before it and not shown again until the use."""
    known = set[str]()
    for use in uses:
        if use.step < boundary or use.value in known:
            continue
        known.add(use.value)
        steps = [step for step, text in shown if use.value in text]
        if any(step < boundary for step in steps) and not any(boundary <= step < use.step for step in steps):
            yield use


def _compare(entries: Sequence[Entry], boundary: int, uses: Sequence[_Use]) -> Agreement:
    words = {(use.step, use.word) for use in find_later_uses(entries, boundary)}
    distinctive = [use for use in uses if any(pattern.search(use.value) for pattern in KINDS.values())]

    def is_found(use: _Use) -> bool:
        return any(step == use.step and (word in use.value or use.value in word) for step, word in words)

    right = sum(any(step == use.step and (word in use.value or use.value in word) for use in uses) for step, word in words)
    return Agreement(
        uses=len(uses),
        found_uses=sum(map(is_found, uses)),
        distinctive_uses=len(distinctive),
        found_distinctive_uses=sum(map(is_found, distinctive)),
        words=len(words),
        right_words=right,
    )


def run_sessions(folder: Path, tasks: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[str, Agreement]]:
    """Run a session without compaction for each task and seed, and yield the name of the task with the agreement."""
    base = Trial(task=tasks[0], policy="none", window_tokens=10_000_000)
    experiment = Experiment(name="ledger", base=base, axes={"task": list(tasks), "seed": list(seeds)}, folder=folder)
    results = experiment.run(workers=1, progress="off")
    with Journal.open(folder / "output" / JOURNAL_FILE, read_only=True) as journal:
        for task, seed, session in results.trials[["task", "seed", "session_id"]].itertuples(index=False):
            yield task, measure(tuple(journal.read_entries(session)), load_task(task)(int(seed)))


def main(seeds: int) -> None:
    """Print the agreement of each task, and of all together."""
    by_task: dict[str, Agreement] = {}
    with tempfile.TemporaryDirectory() as folder:
        for task, agreement in run_sessions(Path(folder), TASKS, range(seeds)):
            by_task[task] = by_task.get(task, Agreement()).plus(agreement)
    total = Agreement()
    for task, agreement in by_task.items():
        total = total.plus(agreement)
        print(f"{task}: {agreement.describe()}")
    print(f"all: {total.describe()}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
