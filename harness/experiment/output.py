"""The output folder of an experiment: one journal that the parent alone writes, and the small journals that trials bring in.

    output/journal.sqlite       all finished trials
    output/journals/ID.sqlite   one for each trial at work; brought in and deleted when it ends
    output/results/*.parquet    the tables, made anew at the end of a run

A run locks the folder, so two runs never write to one journal. Whatever a dead run left is either complete and brought in,
or deleted; its trial then runs again.
"""

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness import codec
from harness.errors import StoreError
from harness.experiment.grid import BLOCK_AXES
from harness.experiment.job import FinishedTrial
from harness.store.journal import Journal
from harness.store.log import RETENTION_MS
from harness.store.merge import merge
from harness.store.records import TrialRecord
from harness.store.sessions.locks import acquire_lock
from harness.store.sessions.lookup import JOURNAL_FILE, JOURNALS_FOLDER, list_trial_journals

RETRIABLE_REASONS = frozenset({"model_error", "sandbox_error", "store_error", "illegal_plan"})
"""Reasons of failure after which another run may end otherwise: no fault of the arm, or one of a policy that was mended since."""


_EARLIER_PLAN_SUFFIX = re.compile(r" \(earlier plan [0-9a-f]{6}\)$")


class Label(NamedTuple):
    """What a trial is called in a plan; no part of its identity."""

    experiment: str
    arm: str
    axes_json: str


class OutputFolder:
    """The output folder of a run at work; made by `open_output`."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.folder, self.journal = folder, journal

    def locate_trial_journal(self, trial_id: str) -> Path:
        """Where a trial writes while it runs."""
        return self.folder / JOURNALS_FOLDER / f"{trial_id}.sqlite"

    def list_finished(self, *, retry_failed: bool) -> set[str]:
        """Ids of the trials that need not run: all that did not crash; with `retry_failed` also not by outer causes."""
        records = self.journal.list_trials()
        return {record.trial_id for record in records if not _should_rerun(record, retry_failed)}

    def relabel_trials(self, labels: Mapping[str, Label]) -> None:
        """Give kept trials the names that they have in the plan of today, which may have other axes or another base.

        Those that it does not have become arms of their own, so that they are never taken for one of today's.
        """
        for record in self.journal.list_trials():
            label = labels.get(record.trial_id) or _make_earlier_label(record)
            relabelled = replace(record, **label._asdict())
            if relabelled != record:
                self.journal.record_trial(relabelled, self.journal.list_checks(record.trial_id))

    def import_trial(self, finished_trial: FinishedTrial) -> None:
        """Take a trial over from its own journal, which is deleted, and make sure that its record is there."""
        source = self.locate_trial_journal(finished_trial.record.trial_id)
        if source.exists():
            merge(source, self.journal)
        self.journal.record_trial(finished_trial.record, finished_trial.checks)
        remove_journal(source)

    def recover_journals(self) -> None:
        """Bring in what an earlier run finished but could not take over; delete what it left half done."""
        for source in list_trial_journals(self.folder):
            if read_finished_trial(source):
                merge(source, self.journal)
            remove_journal(source)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep runs out of an output folder.

    Raises:
        StoreError: the folder cannot be written.
        UsageError: a run is at work in it.
    """
    busy = f"another run is at work in {str(folder)!r}; wait for it or name another output folder"
    with acquire_lock(folder / "run.lock", busy, "name another output folder"):
        yield


@contextmanager
def open_output(folder: Path) -> Iterator[OutputFolder]:
    """Lock the folder, open its journal and take over what a dead run left.

    Raises:
        StoreError: the folder cannot be written.
        UsageError: another run is at work in it.
    """
    with lock_folder(folder), Journal.open(folder / JOURNAL_FILE) as journal:
        journal.remove_outputs(int(time.time() * 1_000) - RETENTION_MS)
        output = OutputFolder(folder, journal)
        output.recover_journals()
        yield output


def remove_journal(path: Path) -> None:
    """Delete a journal file with its companions."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


def _make_earlier_label(record: TrialRecord) -> Label:
    """The name of a trial that is not planned any more: one for each configuration, and on no axis."""
    configuration = {name: value for name, value in json.loads(record.config_json).items() if name not in BLOCK_AXES}
    configuration_digest = hashlib.sha256(codec.to_canonical_json(configuration, dict).encode()).hexdigest()[:6]
    arm = _EARLIER_PLAN_SUFFIX.sub("", record.arm)
    return Label(record.experiment, f"{arm} (earlier plan {configuration_digest})", "{}")


def read_finished_trial(source: Path) -> FinishedTrial | None:
    """What a trial's own journal says of it once it has ended; None of one that did not end, or was told to."""
    if not source.exists():
        return None
    try:
        with Journal.open(source) as journal:
            ended_records = [record for record in journal.list_trials() if record.reason != "cancelled"]
            return FinishedTrial(ended_records[0], journal.list_checks(ended_records[0].trial_id)) if ended_records else None
    except StoreError:
        return None


def _should_rerun(record: TrialRecord, retry_failed: bool) -> bool:
    return record.status == "crashed" or (retry_failed and record.reason in RETRIABLE_REASONS)
