"""Write one session to a journal while other processes write to it; `test_database` runs this program."""

import sys
from pathlib import Path

from harness.store.journal import Journal
from tests.store.samples import ENDED, begun, opening, step

if __name__ == "__main__":
    path, name, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    with Journal.open(path) as journal:
        log = begun(journal, name)
        log.append(opening(name))
        for number in range(1, steps + 1):
            log.append(step(number, f"{name} {number % 10}\n" * 200))
        log.append([ENDED])
