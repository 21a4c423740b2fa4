"""Oracle restoration: exactly the facts that a compaction dropped are told again (RESEARCH 5.6).

Only a task knows what its facts are, so this is for sessions of tasks. What is told are the very lines that told the facts
before, not their values alone, so that whoever reads them reads what it would have read. A session that is forked right
behind the compaction and restored differs from one that is not in these lines only.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.errors import UsageError, format_count
from harness.events import Compaction, Entry
from harness.metrics.measurement import behaviour
from harness.models.scripted.patterns import compile_fact_patterns
from harness.models.scripted.visible_state import extract_searchable_text
from harness.task import Task
from harness.tokens import Counter
from harness.view import View, drop_rolled_back, fold_all

HEADING = "Do not forget:"


class Dropped(NamedTuple):
    """What a compaction took out of view."""

    facts: tuple[str, ...]
    """Names, in the order of the task."""
    lines: tuple[str, ...]
    """Those that told their newest values, in the order of the view."""

    @property
    def reminder(self) -> str:
        """A user message that tells them again."""
        return "\n".join((HEADING, *self.lines))


def compaction_of_round(entries: Iterable[Entry], number: int) -> int:
    """The event of an applied compaction.

    Raises:
        UsageError: there was no such round.
    """
    rounds = {
        event.round: seq
        for seq, event in drop_rolled_back(entries)
        if isinstance(event, Compaction) and event.status == "applied"
    }
    if number not in rounds:
        raise UsageError(f"the session has no compaction of round {number}; it has {format_count(len(rounds), 'round')}")
    return rounds[number]


def dropped(entries: Sequence[Entry], task: Task, compaction: int, counter: Counter) -> Dropped:
    """The facts whose newest value stood in view before a compaction and not after it.

    Args:
        entries: the log, at least up to the compaction.
        task: what the session worked on.
        compaction: its event.
        counter: the policy's.
    """
    counts = [entry for entry in drop_rolled_back(entries) if entry.seq <= compaction]
    probes = behaviour(counts, task, counter).probes
    names = {fact.number: fact.name for fact in probes.facts}
    gone = [row.fact for row in probes.rows if row.event == compaction and row.seen_before and not row.seen_after]
    facts = tuple(names[number] for number in sorted(gone))
    return Dropped(facts, _lines(fold_all(counts[:-1], counter), task, frozenset(facts)))


def _lines(view: View, task: Task, wanted: frozenset[str]) -> tuple[str, ...]:
    """The newest line of each fact, in the order of the view."""
    patterns, newest = compile_fact_patterns(task.facts), dict[str, tuple[int, str]]()
    lines = [line for item in view.items for line in extract_searchable_text(item.message).splitlines()]
    for at, line in enumerate(lines):
        newest.update({name: (at, line) for name, _ in patterns.find_values(line) if name in wanted})
    return tuple(line for _, line in sorted(set(newest.values())))
