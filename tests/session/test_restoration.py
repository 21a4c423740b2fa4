"""Oracle restoration: each fact that a compaction took out of view can be read again, by the patterns of its task."""

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.errors import UsageError
from harness.events import Compaction, Entry, MessageAdded
from harness.messages import user
from harness.metrics.measurement import measure_session
from harness.models.scripted.patterns import compile_fact_patterns
from harness.session.restoration import find_compaction, find_dropped_facts
from harness.tasks import make_task
from harness.testing.laws.simulation import WINDOW_TOKENS, simulate
from harness.view import fold_all

POLICY = KeepLast(threshold=0.5, keep_last=4, summarizer="scripted/empty")


@pytest.fixture(scope="module")
def task():
    return make_task("spec-api", 0)


@pytest.fixture(scope="module")
def entries(task):
    return simulate(task, POLICY, window_tokens=WINDOW_TOKENS).entries


@pytest.mark.bubblewrap
@pytest.mark.slow
def test_the_reminder_tells_all_that_was_dropped_and_nothing_else_went(task, entries):
    patterns = compile_fact_patterns(task.facts)
    probes = measure_session(entries, task, POLICY.counter).probes
    names = {fact.number: fact.name for fact in probes.facts}
    rounds = [entry for entry in entries if isinstance(entry.event, Compaction) and entry.event.status == "applied"]
    losses = 0
    for seq, event in rounds:
        lost = find_dropped_facts(entries, task, find_compaction(entries, event.round), POLICY.counter)
        rows = [row for row in probes.rows if row.event == seq]
        assert set(lost.fact_names) == {names[row.fact] for row in rows if row.seen_before and not row.seen_after}
        before = {name: values[-1] for name, values in patterns.find_values("\n".join(_texts(fold_all(entries[: seq - 1]))))}
        told = {name: values[-1] for name, values in patterns.find_values(lost.reminder)}
        assert {name: told.get(name) for name in lost.fact_names} == {name: before[name] for name in lost.fact_names}
        reminded = (*entries[:seq], Entry(seq + 1, MessageAdded(message=user(lost.reminder), step=event.step)))
        again = {name for name, _ in patterns.find_values("\n".join(_texts(fold_all(reminded))))}
        assert set(lost.fact_names) <= again
        losses += len(lost.fact_names)
    assert losses > 3
    with pytest.raises(UsageError, match="no compaction of round 999"):
        find_compaction(entries, 999)


def _texts(view):
    return [part.text if hasattr(part, "text") else getattr(part, "output", "") for one in view.messages for part in one.parts]
