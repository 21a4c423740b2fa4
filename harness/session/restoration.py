"""Oracle restoration: exactly the facts that a compaction dropped are told again (RESEARCH 5.6).

Only a task knows what its facts are, so this is for sessions of tasks. What is told are the very lines that told the facts
before, not their values alone, so that whoever reads them reads what it would have read. A session that is forked right
behind the compaction and restored differs from one that is not in these lines only.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.errors import UsageError, format_count
from harness.events import Compaction, Entry
from harness.metrics.measurement import measure_session
from harness.models.scripted.patterns import compile_fact_patterns
from harness.models.scripted.visible_state import extract_searchable_text
from harness.task import Task
from harness.tokens import Counter
from harness.view import View, drop_rolled_back, fold_all

REMINDER_HEADING = "Do not forget:"


class DroppedFacts(NamedTuple):
    """What a compaction took out of view."""

    fact_names: tuple[str, ...]
    """Names, in the order of the task."""
    lines: tuple[str, ...]
    """Those that told their newest values, in the order of the view."""

    @property
    def reminder(self) -> str:
        """A user message that tells them again."""
        return "\n".join((REMINDER_HEADING, *self.lines))


def find_compaction(entries: Iterable[Entry], round_number: int) -> int:
    """The event of an applied compaction.

    Raises:
        UsageError: there was no such round.
    """
    seq_by_round = {
        event.round: seq
        for seq, event in drop_rolled_back(entries)
        if isinstance(event, Compaction) and event.status == "applied"
    }
    if round_number not in seq_by_round:
        raise UsageError(
            f"the session has no compaction of round {round_number}; it has {format_count(len(seq_by_round), 'round')}"
        )
    return seq_by_round[round_number]


def find_dropped_facts(entries: Sequence[Entry], task: Task, compaction_seq: int, counter: Counter) -> DroppedFacts:
    """The facts whose newest value stood in view before a compaction and not after it.

    Args:
        entries: the log, at least up to the compaction.
        task: what the session worked on.
        compaction_seq: its event.
        counter: the policy's.
    """
    live_entries = [entry for entry in drop_rolled_back(entries) if entry.seq <= compaction_seq]
    probes = measure_session(live_entries, task, counter).probes
    names = {fact.number: fact.name for fact in probes.facts}
    dropped_numbers = [row.fact for row in probes.rows if row.event == compaction_seq and row.seen_before and not row.seen_after]
    facts = tuple(names[number] for number in sorted(dropped_numbers))
    return DroppedFacts(facts, _find_fact_lines(fold_all(live_entries[:-1], counter), task, frozenset(facts)))


def _find_fact_lines(view: View, task: Task, fact_names: frozenset[str]) -> tuple[str, ...]:
    """The newest line of each fact, in the order of the view."""
    patterns, newest = compile_fact_patterns(task.facts), dict[str, tuple[int, str]]()
    lines = [line for item in view.items for line in extract_searchable_text(item.message).splitlines()]
    for at, line in enumerate(lines):
        newest.update({name: (at, line) for name, _ in patterns.find_values(line) if name in fact_names})
    return tuple(line for _, line in sorted(set(newest.values())))
