"""How a session behaved and what became of its facts, from its log: the door of this room."""

from collections.abc import Iterable
from typing import NamedTuple

from harness.events import Entry
from harness.experiment.behaviour.calls import template_signature
from harness.experiment.behaviour.pathologies import Watch
from harness.experiment.behaviour.probes import Prober
from harness.store.records import Probes, SessionConduct
from harness.task import Task
from harness.tokens import Counter
from harness.view import View, fold


class Behaviour(NamedTuple):
    """What is kept of a session beside its log."""

    conduct: SessionConduct
    probes: Probes


class Onlooker:
    """Hears the entries of a session one by one, while it runs or afterwards."""

    def __init__(self, task: Task, counter: Counter) -> None:
        """Nothing was heard yet.

        Args:
            task: what the session works on, with the answer key.
            counter: the policy's.
        """
        retrievals = frozenset(template_signature(fact.recover) for fact in task.facts if fact.recover)
        self._watch, self._prober, self._view, self._counter = Watch(counter, retrievals), Prober(task), View(), counter

    def hear(self, entry: Entry) -> None:
        """Take note of the next entry."""
        before, self._view = self._view, fold(self._view, entry, self._counter)
        self._watch.add(entry, before, self._view)
        self._prober.add(entry, before, self._view)

    def behaviour(self) -> Behaviour:
        """How the session behaved so far."""
        return Behaviour(self._prober.summed(self._watch.conduct()), self._prober.probes())


def behaviour(entries: Iterable[Entry], task: Task, counter: Counter) -> Behaviour:
    """How a session behaved from beginning to end, by its log; see `Onlooker`."""
    onlooker = Onlooker(task, counter)
    for entry in entries:
        onlooker.hear(entry)
    return onlooker.behaviour()
