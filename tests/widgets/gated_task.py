"""Task with which a grid stays half done for as long as a test wants.

All trials except those of seed 0 wait in their worker process until a file exists. The environment variable `GATE` names the
file; without the variable no trial waits.
"""

import os
import time
from multiprocessing import parent_process
from pathlib import Path

from tests.experiment.tiny_task import tiny

GATE = "HARNESS_TEST_GATE"


def gated(seed):
    gate = os.environ.get(GATE)
    while seed and gate and parent_process() and not Path(gate).exists():
        time.sleep(0.05)
    return tiny(seed)
