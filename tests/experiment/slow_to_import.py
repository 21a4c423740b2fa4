"""Work function in a module that a worker process needs some time to import, as if it were large or the machine busy."""

import multiprocessing
import time

from tests.experiment.stand_ins import overrun_or_refuse

SECONDS = 2.0

if multiprocessing.parent_process() is not None:
    time.sleep(SECONDS)


def refuse(job, cancellation):
    overrun_or_refuse(job, cancellation)
