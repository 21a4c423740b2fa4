"""Output folder of an experiment: one journal for all trials, written by the parent process only.

The folder contains these files::

    journal.sqlite       all finished trials
    journals/ID.sqlite   journal of a running trial, imported and deleted when the trial ends
    results/TABLE/       Parquet files of each table, brought up to date at the end of each run

A run locks the folder, so that only one run writes to it. Journals of trials that an interrupted run left behind are imported if
the trial is complete; else they are deleted and the trial runs again. If the machine itself failed, so do all trials that cost
nothing to run again, because their journals are not flushed to disk.
"""

import hashlib
import json
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness.conversation import codec
from harness.errors import StoreError, UsageError
from harness.experiment.job import FinishedTrial
from harness.experiment.paths import EARLIER_ARM_PATTERN, is_arm_setting
from harness.experiment.stored_revisions import find_current_revisions, find_raised, read_stored_revisions
from harness.revisions import FIRST_VERSIONS
from harness.store.database import may_be_incomplete
from harness.store.journal import Journal
from harness.store.log import RETENTION_MS
from harness.store.merge import merge
from harness.store.records import TrialRecord
from harness.store.sessions.locks import acquire_lock
from harness.store.sessions.lookup import JOURNAL_FILE, JOURNALS_FOLDER, list_trial_journals

RETRIABLE_REASONS = frozenset({"model_error", "sandbox_error", "store_error", "illegal_plan", "repeated_crash"})
"""Reasons of failure that may not occur again in another run, such as external faults or bugs that have been fixed since."""


PART_SUFFIX, PACKED_SUFFIX = ".part", ".packed"
"""Ends of the names of a journal that is being received from another machine, and of one that is being sent to a store."""


class Label(NamedTuple):
    """Label of a stored trial: its experiment, its configuration (arm) and its values of the settings under study.

    The label is updated when the plan changes, and is not part of the trial's id.
    """

    experiment: str
    arm: str
    axes_json: str


class OutputFolder:
    """Output folder of a running experiment, with the journal of all trials."""

    def __init__(self, folder: Path, journal: Journal, publish: "Callable[[OutputFolder, str], None] | None" = None) -> None:
        self.folder, self.journal = folder, journal
        self._publish = publish

    def locate_trial_journal(self, trial_id: str) -> Path:
        """Return the path of the journal file that a trial writes while it runs."""
        return self.folder / JOURNALS_FOLDER / f"{trial_id}.sqlite"

    def list_finished(self, *, retry_failed: bool) -> set[str]:
        """Return the ids of the trials that are finished and need not run again.

        Args:
            retry_failed: Whether to repeat trials that failed for external reasons, which then do not count as finished.
        """
        repeated_reasons = RETRIABLE_REASONS if retry_failed else ()
        statuses = self.journal.list_statuses()
        return {
            trial_id for trial_id, (status, reason) in statuses.items() if status != "crashed" and reason not in repeated_reasons
        }

    def list_stored(self) -> set[str]:
        """Return the ids of all recorded trials, finished or not."""
        return {*self.journal.list_statuses()}

    def relabel_trials(self, labels: Mapping[str, Label] | Iterable[tuple[str, Label]]) -> None:
        """Give stored trials the labels of the current plan: experiment, configuration and values under study.

        Trials that the current plan does not contain, or that ran with other revisions, get names of their own, so that their
        results are not mixed with its trials.
        """
        labels = dict(labels)
        for record in self.journal.list_trials():
            label = labels.get(record.trial_id) or _make_earlier_label(record)
            relabelled = replace(record, **label._asdict())
            if relabelled != record:
                self.journal.record_trial(relabelled, self.journal.list_checks(record.trial_id))

    def import_trial(self, finished_trial: FinishedTrial, *, is_published: bool = False) -> None:
        """Move a finished trial from its own journal into the journal of the experiment.

        The trial's own journal is deleted.

        Args:
            finished_trial: Results of the trial.
            is_published: Whether the trial's own journal needs no publishing.

        Raises:
            StoreError: The journal cannot be published. It is kept, and the next run publishes it.
        """
        if self._publish is not None and not is_published:
            self._publish(self, finished_trial.record.trial_id)
        source = self.locate_trial_journal(finished_trial.record.trial_id)
        if source.exists():
            merge(source, self.journal, replace=True)
        self.journal.record_trial(finished_trial.record, finished_trial.checks)
        remove_journal(source)

    def recover_journals(self) -> None:
        """Import the complete trials that an interrupted run left behind, and delete the journals of the others.

        Raises:
            StoreError: A journal cannot be read or published. It is kept, and the next run imports it.
        """
        for source in list_trial_journals(self.folder):
            finished_trial = None if may_be_incomplete(source) else read_finished_trial(source)
            if finished_trial is not None and finished_trial.record.trial_id == source.stem:
                self.import_trial(finished_trial)
            remove_journal(source)
        for suffix in (PART_SUFFIX, PACKED_SUFFIX):
            for part in (self.folder / JOURNALS_FOLDER).glob(f"*{suffix}"):
                part.unlink()


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock an output folder against other runs.

    Raises:
        StoreError: The folder cannot be written.
        UsageError: Another run uses the folder.
    """
    busy = f"another run is using {str(folder)!r}; wait until it has ended, or choose another output folder"
    with acquire_lock(folder / "run.lock", busy, "choose another output folder"):
        yield


@contextmanager
def open_output(folder: Path, publish: "Callable[[OutputFolder, str], None] | None" = None) -> Iterator[OutputFolder]:
    """Lock an output folder, open its journal, and recover what an interrupted run left behind.

    Args:
        folder: Folder to open.
        publish: Function that is called with the folder and a trial's id before the trial's own journal is imported and deleted.

    Raises:
        StoreError: The folder cannot be written.
        UsageError: Another run uses the folder.
    """
    with lock_folder(folder), Journal.open(folder / JOURNAL_FILE) as journal:
        journal.remove_outputs(int(time.time() * 1_000) - RETENTION_MS)
        output = OutputFolder(folder, journal, publish)
        output.recover_journals()
        yield output


def remove_journal(path: Path) -> None:
    """Delete a journal file together with the temporary files of its database."""
    for name in (f"{path.name}-wal", f"{path.name}-shm", path.name):
        path.with_name(name).unlink(missing_ok=True)


def _make_earlier_label(record: TrialRecord) -> Label:
    """Return a label for a stored trial that the current plan does not contain, marked `(earlier plan ...)`.

    The mark is `(earlier revision ...)` if a part of the trial, such as its policy, had another revision than today. Different
    configurations and revisions get different labels, so that their results are not mixed.
    """
    configuration = {name: value for name, value in json.loads(record.config_json).items() if is_arm_setting(name)}
    stored = read_stored_revisions(record.trial_id, record.config_json, record.provenance_json)
    current = find_current_revisions(record.config_json)
    raised = {part: number for part, (number, _) in find_raised(stored, current).items()} if current else dict(stored)
    identity = {"configuration": configuration, "revisions": raised} if raised else configuration
    digest = hashlib.sha256(codec.to_canonical_json(identity, dict).encode()).hexdigest()[:6]
    arm = re.sub(EARLIER_ARM_PATTERN, "", record.arm)
    return Label(record.experiment, f"{arm} (earlier {'revision' if raised else 'plan'} {digest})", "{}")


def refuse_newer_versions(folder: Path, kinds: Collection[str]) -> None:
    """Refuse to continue a folder with trials of a policy's first version by a plan that names only newer versions of the policy.

    Args:
        folder: Output folder; nothing is refused if it has no journal.
        kinds: Kinds of the policies that the plan contains.

    Raises:
        UsageError: The folder has trials of an older version; the message gives the name of that version.
        StoreError: The journal cannot be read.
    """
    newer = {stored: kind for stored in FIRST_VERSIONS for kind in kinds if kind.startswith(f"{stored}@")}
    file = folder / JOURNAL_FILE
    if not newer or not file.exists():
        return
    with Journal.open(file, read_only=True) as journal:
        stored_kinds = {kind for (kind,) in journal.query("SELECT DISTINCT policy FROM trial")}
    for stored, kind in newer.items():
        version = FIRST_VERSIONS[stored]
        if stored in stored_kinds and version not in kinds:
            raise UsageError(
                f"policy {stored!r}: the trials in {str(folder)!r} ran with {version!r}, and {stored!r} is {kind!r} today; write "
                f"{version!r} in the plan to continue them, or choose another output folder for {kind!r}"
            )


def read_finished_trial(source: Path) -> FinishedTrial | None:
    """Return the records in the journal of one trial; None if the trial did not end or was cancelled.

    Raises:
        StoreError: The journal cannot be read at present, e.g. because the disk is full, and may hold a finished trial.
    """
    if not source.exists():
        return None
    try:
        with Journal.open(source) as journal:
            ended_records = [record for record in journal.list_trials() if record.reason != "cancelled"]
            return FinishedTrial(ended_records[0], journal.list_checks(ended_records[0].trial_id)) if ended_records else None
    except StoreError as error:
        if isinstance(error.__cause__, sqlite3.OperationalError):  # a damaged file causes other errors of SQLite
            raise
        return None
