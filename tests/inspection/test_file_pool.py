"""Reading of files by several processes: order, a program that workers cannot import, and a worker that is killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.inspection import file_pool
from harness.inspection.file_pool import map_files

SCRIPT = """
import sys
from pathlib import Path
from harness.inspection.recording_folder import load_sessions

load_sessions(sys.argv[1], workers=2, cache_folder=Path(sys.argv[2]))
print("done")
"""


def write_files(folder: Path, count: int) -> list[Path]:
    folder.mkdir()
    paths = [folder / f"{number:04}.txt" for number in range(count)]
    for path in paths:
        path.write_text(path.stem)
    return paths


def kill_itself(path: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("workers", [1, 2, None])
def test_results_come_in_the_order_of_the_files(tmp_path, workers):
    paths = write_files(tmp_path / "files", 1_000)
    assert list(map_files(partial(Path.read_text, encoding="utf-8"), paths, workers)) == [path.stem for path in paths]


def list_process(path: Path) -> int:
    return os.getpid()


def test_small_files_are_read_in_this_process_unless_workers_are_asked_for(tmp_path, monkeypatch):
    paths = write_files(tmp_path / "files", 2)
    assert set(map_files(list_process, paths)) == {os.getpid()}
    assert os.getpid() not in set(map_files(list_process, paths, 2))
    monkeypatch.setattr(file_pool, "MIN_SHARED_BYTES", 2)
    assert (os.getpid() in set(map_files(list_process, paths))) == (os.cpu_count() == 1)


def test_a_killed_worker_is_reported(tmp_path):
    with pytest.raises(UsageError, match="workers=1"):
        list(map_files(kill_itself, write_files(tmp_path / "files", 2), 2))


def test_no_thread_fails_when_a_worker_is_killed_while_many_files_wait(tmp_path, monkeypatch):
    failures: list[threading.ExceptHookArgs] = []
    report = Future.set_exception

    def report_slowly(future: Future[object], error: BaseException) -> None:
        report(future, error)
        if not failures:
            time.sleep(0.02)  # as on a busy machine: the caller goes on while the thread of the pool still reports the failure

    monkeypatch.setattr(threading, "excepthook", failures.append)
    monkeypatch.setattr(Future, "set_exception", report_slowly)
    with pytest.raises(UsageError, match="one was killed"):
        list(map_files(kill_itself, [tmp_path / f"{number}.txt" for number in range(20)], 2))
    assert not failures


def test_files_that_nobody_waits_for_are_not_read(tmp_path):
    paths = write_files(tmp_path / "files", 1_000)
    results = map_files(Path.unlink, paths, 2)
    next(results)
    results.close()
    assert sum(path.exists() for path in paths) > 900


@pytest.mark.slow
@pytest.mark.parametrize("is_file", [True, False])
def test_a_program_that_workers_cannot_import_is_told_what_to_do(tmp_path, is_file):
    write_files(tmp_path / "files", 3)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    arguments = [str(tmp_path / "files"), str(tmp_path / "cache")]
    program = [sys.executable, str(script) if is_file else "-", *arguments]
    done = subprocess.run(program, input="" if is_file else SCRIPT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    message = next(line for line in reversed(done.stderr.splitlines()) if line.startswith("harness.errors."))
    assert message.startswith("harness.errors.UsageError: worker processes cannot start")
    assert "__main__" in message
