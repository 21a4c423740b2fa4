"""Processes that store and read entries until they are killed, and fail if an entry was changed: `storing.py FOLDER`."""

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path

from harness.protocols import ExecResult
from harness.sandboxes.action_cache.cache import ActionCache
from harness.sandboxes.action_cache.entry import CacheEntry, ChangedPath


def make_entry(number, size=100):
    """Return an entry that contains a number and that zstd cannot compress."""
    noise = random.Random(number).randbytes(size)
    result = ExecResult(exit_code=0, stdout=str(number).encode(), stderr=b"", stdout_bytes=len(str(number)), stderr_bytes=0)
    change = ChangedPath(path="f", mode=0o100644, content=noise)
    return CacheEntry(result=result, deleted_paths=("gone",), changed_paths=(change,), name_orders={"": ("f",)}, state_id="s")


def key(number):
    return hashlib.sha256(str(number).encode()).digest()


def work(folder, seed):
    draw, cache = random.Random(seed), ActionCache(folder, max_bytes=600_000)
    while True:
        number = draw.randrange(500)
        entry = cache.get(key(number))
        if entry is None:
            cache.put(key(number), make_entry(number, 3_000), task="t", command=f"echo {number}")
        elif entry != make_entry(number, 3_000):
            os._exit(1)
        if draw.random() < 0.05:
            cache.flush()


def main(folder):
    """Run eight processes three times, kill them one by one, and print how each of them ended."""
    draw = random.Random(1)
    for seed in range(3):
        children = [os.fork() or work(folder, 100 * seed + number) for number in range(8)]
        time.sleep(0.5)
        for child in children:
            time.sleep(draw.random() * 0.2)
            os.kill(child, signal.SIGKILL)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
