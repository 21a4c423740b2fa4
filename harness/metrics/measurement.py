"""How a session behaved and what became of its facts, from its log: the door of this room."""

from collections.abc import Iterable
from typing import NamedTuple

from harness.events import Entry
from harness.metrics.calls import template_signature
from harness.metrics.pathologies import Watch
from harness.metrics.probes import Prober
from harness.store.records import Probes, SessionMetrics
from harness.task import Task
from harness.tokens import Counter
from harness.view import View, fold


class Behaviour(NamedTuple):
    """What is kept of a session beside its log."""

    conduct: SessionMetrics
    probes: Probes


def behaviour(entries: Iterable[Entry], task: Task, counter: Counter) -> Behaviour:
    """Look at a session from beginning to end; pure.

    Args:
        entries: its log.
        task: what it worked on, with the answer key.
        counter: the policy's.
    """
    retrievals = frozenset(template_signature(fact.recover) for fact in task.facts if fact.recover)
    watch, prober, view = Watch(counter, retrievals), Prober(task), View()
    for entry in entries:
        before, view = view, fold(view, entry, counter)
        watch.add(entry, before, view)
        prober.add(entry, before, view)
    return Behaviour(prober.summed(watch.conduct()), prober.probes())
