"""Reading of many files in several processes at once."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from os import cpu_count
from pathlib import Path
from typing import TypeVar

from harness.errors import UsageError
from harness.process import end_if_imported_by_worker, pause_garbage_collection

Result = TypeVar("Result")
MIN_SHARED_BYTES = 8 * 2**20
"""Size of all files together from which several processes read them: to start these takes as long as to read that much."""


def map_files(read: Callable[[Path], Result], paths: Sequence[Path], workers: int | None = None) -> Generator[Result, None, None]:
    """Yield what a function returns for each file, in order.

    Args:
        read: Function of a module, or a `functools.partial` of one, that worker processes can import.
        paths: Files to read.
        workers: Number of processes. Default: one for each processor, or one if the files are small (`MIN_SHARED_BYTES`). With
            one, this process reads the files itself.

    Raises:
        UsageError: The worker processes cannot start, or one of them was killed.
    """
    count = min(workers or _choose_workers(paths), len(paths))
    read_one = partial(_read_undisturbed, read)
    if count <= 1:
        yield from map(read_one, paths)
        return
    end_if_imported_by_worker()
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__, getattr(read, "func", read).__module__])  # so that each worker need not import them
    # `max_tasks_per_child` stays unset: with it, Python 3.11 may wait forever for processes that it did not replace
    pool = ProcessPoolExecutor(count, mp_context=context)
    try:
        # not `pool.map`: if a worker is killed, it cancels what waits while the pool's thread still reports the failure to them
        waiting = deque([pool.submit(read_one, path) for path in paths])
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise UsageError(
            "worker processes cannot start, or one was killed: a script must call this under `if __name__ == '__main__':`, a "
            "program read from standard input must be saved in a file, and memory must not run out; with workers=1, this process "
            "reads the files itself"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _choose_workers(paths: Sequence[Path]) -> int:
    total_bytes = sum(path.stat().st_size for path in paths if path.is_file())
    return (cpu_count() or 1) if total_bytes >= MIN_SHARED_BYTES else 1


def _read_undisturbed(read: Callable[[Path], Result], path: Path) -> Result:
    with pause_garbage_collection():  # the search would visit the very many objects of a file again and again
        return read(path)
