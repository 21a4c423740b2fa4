"""Data sent between the machine of a run and the machines of its workers: jobs, their outcomes, and compressed journals."""

import os
import pickle
import socket
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import zstandard

from harness.errors import StoreError, UsageError, WorkerDied
from harness.experiment.job import FinishedTrial, Job
from harness.experiment.output import PART_SUFFIX, remove_journal
from harness.experiment.remote.child_process import CallEnd
from harness.experiment.workers import TrialRunner
from harness.sandboxes.action_cache import find_default_folder
from harness.store.sessions.lookup import JOURNALS_FOLDER

STORED_SUFFIX = ".sqlite.zst"
"""End of the name of a compressed journal in a store."""
CHUNK_BYTES = 1 << 20
"""Maximum number of bytes of a journal that are sent at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Job with its function, pickled, as it is sent to a worker on another machine."""

    call: bytes
    """Pickled function that runs the job, with its arguments except the last: the worker adds the path of its own folder."""
    trial_id: str
    timeout_seconds: float
    inline_bytes: int | None = CHUNK_BYTES
    """Maximum size in bytes of a compressed journal that is returned with the result; None returns every journal so."""
    store: str = ""
    """URL of the store into which the worker writes the compressed journal instead of returning it; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """End of a job, with the compressed journal of its trial or the place of the journal."""

    end: CallEnd
    journal: bytes = b""
    """Compressed journal of the trial; empty if there is none, or if it is too large and has to be fetched in chunks."""
    journal_file: str = ""
    """Path of the compressed journal on the machine of the worker; empty if the journal is part of this value."""
    stored_name: str = ""
    """Name of the compressed journal in the store of the run; empty if the journal is not in a store."""
    journal_bytes: int = 0
    """Size of the compressed journal in bytes."""
    machine: str = ""
    """Name of the machine on which the job ran."""

    def resolve(self) -> FinishedTrial:
        """Return the result of the job, or raise the error with which it ended.

        Raises:
            WorkerDied: The child process died.
            TimeoutError: The job exceeded its time limit.
            Exception: The job raised this error.
        """
        match self.end.kind:
            case "returned":
                finished: FinishedTrial = pickle.loads(self.end.value)  # noqa: S301  (written by a worker of this run)
                return finished
            case "raised":
                raise pickle.loads(self.end.value)  # noqa: S301  (written by a worker of this run)
            case "overran":
                raise TimeoutError
            case _:
                raise WorkerDied(exit_code=self.end.exit_code, has_begun=self.end.has_begun)


def pack_job(
    run_job: TrialRunner, job: Job, timeout_seconds: float, inline_bytes: int | None = CHUNK_BYTES, store: str = ""
) -> Parcel:
    """Return a job together with its function, both pickled, ready to be sent to a worker.

    Args:
        run_job: Function that runs the job.
        job: Job to send.
        timeout_seconds: Maximum duration of the job in seconds.
        inline_bytes: Maximum size in bytes of a compressed journal that is returned with the result; None returns every one so.
        store: URL of the store for the journal; empty if the journal is returned.
    """
    return Parcel(
        call=pickle.dumps((_run_in_folder, (run_job, job))),
        trial_id=job.trial_id,
        timeout_seconds=timeout_seconds,
        inline_bytes=inline_bytes,
        store=store,
    )


def _run_in_folder(run_job: TrialRunner, job: Job, folder: Path) -> FinishedTrial:
    if job.trial.trial_id != job.trial_id:
        raise UsageError(
            f"the trial has the id {job.trial.trial_id} on {socket.gethostname()}, and {job.trial_id} where the run was started, "
            "so the version of harness or the file of the task or policy differs; install the same versions, copy the same file"
        )
    job = replace(job, journal=locate_journal(folder, job.trial_id))
    if job.cache_settings is not None and job.cache_settings.is_default:
        job = replace(job, cache_settings=replace(job.cache_settings, folder=find_default_folder()))
    return run_job(job, None)


def locate_journal(folder: Path, trial_id: str) -> Path:
    """Return the path of a trial's journal in the folder of a worker."""
    return folder / f"{trial_id}.sqlite"


def name_stored_journal(trial_id: str) -> str:
    """Return the name of a trial's compressed journal in a store."""
    return f"{JOURNALS_FOLDER}/{trial_id}{STORED_SUFFIX}"


def compress_journal(journal: Path, target: Path) -> int:
    """Write a compressed copy of a journal that nobody has open, and return the size of the copy in bytes.

    The journal of a killed trial is complete up to its last transaction.
    """
    with closing(sqlite3.connect(journal)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    with journal.open("rb") as source, target.open("wb") as copy:
        compressor.copy_stream(source, copy, size=journal.stat().st_size)
    return target.stat().st_size


def read_chunk(path: str, offset: int) -> bytes:
    """Return the next bytes of a file from an offset on, at most `CHUNK_BYTES`."""
    with Path(path).open("rb") as file:
        file.seek(offset)
        return file.read(CHUNK_BYTES)


def write_journal(chunks: Iterable[bytes], journal: Path) -> None:
    """Decompress a journal that a worker sent; the file appears only when it is complete.

    Raises:
        StoreError: The file cannot be written, or the chunks are no complete journal.
    """
    part = journal.with_name(f"{journal.name}{PART_SUFFIX}")
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        decompressor = zstandard.ZstdDecompressor().decompressobj()
        with part.open("wb") as file:
            for chunk in chunks:
                file.write(decompressor.decompress(chunk))
        if not decompressor.eof:
            raise StoreError(f"the journal {journal.name} arrived incomplete from its worker")
        remove_journal(journal)
        os.replace(part, journal)  # noqa: PTH105  (atomic)
    except (OSError, zstandard.ZstdError) as error:
        raise StoreError(f"the journal {journal.name} cannot be stored: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def split(content: bytes) -> Iterator[bytes]:
    """Yield the bytes of a compressed journal in parts of at most `CHUNK_BYTES`."""
    for offset in range(0, len(content), CHUNK_BYTES):
        yield content[offset : offset + CHUNK_BYTES]
