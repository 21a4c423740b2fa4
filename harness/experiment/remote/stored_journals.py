"""Journals of trials in an object store that several machines reach: functions that write, find and import them."""

from collections.abc import Iterable

from harness.errors import StoreError
from harness.experiment.output import PACKED_SUFFIX, OutputFolder, read_finished_trial, remove_journal
from harness.experiment.remote.parcel import STORED_SUFFIX, compress_journal, name_stored_journal, write_journal
from harness.files.object_store import ObjectStore
from harness.store.sessions.lookup import JOURNALS_FOLDER


def list_missing(output: OutputFolder, store: ObjectStore) -> set[str]:
    """Return the ids of trials that have a journal in a store but no record in the output folder yet.

    A run that was killed leaves such journals, and another machine may have run the trials. A record with the reason
    `store_error` does not count, because the run may have failed to read the journal of a finished trial from the store.

    Raises:
        StoreError: The store cannot be reached or read.
    """
    names = store.list_names(JOURNALS_FOLDER)
    recorded = {trial_id for trial_id, (_, reason) in output.journal.list_statuses().items() if reason != "store_error"}
    return {name.removesuffix(STORED_SUFFIX) for name in names if name.endswith(STORED_SUFFIX)} - recorded


def fetch_journals(output: OutputFolder, store: ObjectStore, trial_ids: Iterable[str]) -> None:
    """Import trials into an output folder from their journals in a store; trials that did not end are left out.

    Raises:
        StoreError: The store cannot be reached or read.
    """
    for trial_id in trial_ids:
        place = output.locate_trial_journal(trial_id)
        write_journal(store.read_chunks(name_stored_journal(trial_id)), place)
        try:
            if finished := read_finished_trial(place):
                if finished.record.trial_id != trial_id:
                    raise StoreError(
                        f"the object {name_stored_journal(trial_id)!r} of the store holds the journal of another trial; delete it"
                    )
                output.import_trial(finished, is_published=True)
        finally:
            remove_journal(place)


def store_journal(output: OutputFolder, trial_id: str, store: ObjectStore) -> None:
    """Write the journal of a trial that ran on this machine to a store; do nothing if the trial has no journal.

    Raises:
        StoreError: The store cannot be reached or written.
    """
    journal = output.locate_trial_journal(trial_id)
    if journal.exists():
        packed = journal.with_suffix(PACKED_SUFFIX)
        try:
            compress_journal(journal, packed)
            store.write_file(name_stored_journal(trial_id), packed)
        finally:
            packed.unlink(missing_ok=True)
