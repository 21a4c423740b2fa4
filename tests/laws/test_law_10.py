"""Law 10: a trial with a fresh model process for every call, no memoisation, equals the trial in process (sampled).

Requests of one recorded session of each task go to a process of their own each, which knows nothing but what it is sent. It
draws the task itself from its seed, so that not even the task's objects are shared. Another hash seed and another order
of the requests stand for everything else that differs between processes.
"""

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from harness import codec
from harness.compaction.presets.keep_last import KeepLast
from harness.protocols import Reply, Request
from harness.tasks import SUITE
from harness.testing.laws.simulation import WINDOW, Reader, Run, simulate
from tests.laws.suite import needs

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

PROGRAM = Path(__file__).with_name("fresh_process.py")
POLICY = KeepLast(summarizer="scripted/extractive")
TASK_SEED = 1
READER = Reader("scripted:typical")
"""One that draws by chance, so that its draws are tried too."""


def sampled(run: Run) -> list[int]:
    """Indexes of four requests: the first and the last, the first after a compaction, and one between."""
    compacted = run.compactions[0].step - 1
    last = len(run.requests) - 1
    return sorted({0, compacted, (compacted + last) // 2, last}, reverse=True)


def answered_elsewhere(name: str, request: Request, hash_seed: int) -> list[object]:
    """Message and usage that a new process gives, as JSON-ready values."""
    given = {
        "task": name,
        "task_seed": TASK_SEED,
        "model": READER.name,
        "model_seed": READER.seed,
        "window_tokens": WINDOW,
        "request": codec.to_plain(request),
    }
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], input=json.dumps(given).encode(), capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    answer: list[object] = json.loads(done.stdout)
    return answer


def in_process(reply: Reply) -> list[object]:
    return [codec.to_plain(reply.message), codec.to_plain(reply.usage)]


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in sorted(SUITE)])
def test_law_10_a_fresh_process_for_every_call_answers_as_the_session_did(name: str) -> None:
    task = SUITE[name](TASK_SEED)
    run = simulate(task, POLICY, reader=READER)
    hash_seeds = count(1)
    for at in sampled(run):
        request, reply = run.requests[at]
        assert answered_elsewhere(name, request, next(hash_seeds)) == in_process(reply), f"request {at + 1}"
