"""Law 9: a run from the action cache equals the run in a real sandbox, byte for byte, timings aside.

Three runs of each task: in a real sandbox, through an empty cache, and through the cache that this filled.
"""

from contextlib import closing
from dataclasses import replace

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.events import Entry, StepFinished
from harness.sandboxes import open_sandbox
from harness.sandboxes.actions import ActionCache, CachedSandbox
from harness.tasks import SUITE
from harness.testing.laws.simulation import session_in
from tests.laws.suite import needs

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

POLICY = KeepLast(summarizer="scripted/extractive")


def timeless(entry: Entry) -> Entry:
    """An entry without the times that were measured."""
    event = entry.event
    return Entry(entry.seq, replace(event, tool_seconds=0.0)) if isinstance(event, StepFinished) else entry


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in sorted(SUITE)])
def test_law_9_a_run_from_the_action_cache_equals_the_run_in_a_real_sandbox(name, tmp_path):
    task = SUITE[name](1)
    with closing(open_sandbox("bubblewrap", session_id="law-9")) as sandbox:
        real = session_in(sandbox, task, POLICY)
    for warm in (False, True):
        opened = open_sandbox("bubblewrap", session_id="law-9")
        cache = ActionCache(tmp_path)
        with closing(cache), closing(CachedSandbox(opened, cache, kind=name, task=name)) as sandbox:
            run, counts = session_in(sandbox, task, POLICY), sandbox.counts
        assert [timeless(entry) for entry in run.entries] == [timeless(entry) for entry in real.entries]
        assert [request for request, _ in run.requests] == [request for request, _ in real.requests]
        assert run.files == real.files
        assert run.judged == real.judged
        if task.cacheable:
            assert (counts.hits if warm else counts.misses) > 0
