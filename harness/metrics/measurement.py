"""How a session behaved and what became of its facts, from its log: the door of this room."""

from collections.abc import Iterable
from typing import NamedTuple

from harness.events import Entry
from harness.metrics.calls import compute_template_signature
from harness.metrics.pathologies import PathologyDetector
from harness.metrics.probes import FactProber
from harness.store.records import Probes, SessionMetrics
from harness.task import Task
from harness.tokens import Counter
from harness.view import View, fold


class Measurement(NamedTuple):
    """What is kept of a session beside its log."""

    metrics: SessionMetrics
    probes: Probes


def measure_session(entries: Iterable[Entry], task: Task, counter: Counter) -> Measurement:
    """Look at a session from beginning to end; pure.

    Args:
        entries: its log.
        task: what it worked on, with the answer key.
        counter: the policy's.
    """
    retrievals = frozenset(compute_template_signature(fact.recover) for fact in task.facts if fact.recover)
    pathologies, prober, view = PathologyDetector(counter, retrievals), FactProber(task), View()
    for entry in entries:
        before, view = view, fold(view, entry, counter)
        pathologies.add_entry(entry, before, view)
        prober.add_entry(entry, before, view)
    return Measurement(prober.add_use_counts(pathologies.build_metrics()), prober.build_probes())
