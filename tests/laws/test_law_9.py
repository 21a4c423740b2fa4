"""Law 9: a run with the action cache equals the run in a real sandbox, byte for byte except for times.

Three runs of each task: in a real sandbox, with an empty cache, and with the cache that the second run filled, which executes
nothing. Other tests check that hidden checks are executed nevertheless. Seeds and policies (one that summarizes and one that
masks) are spread over the tasks; with HARNESS_LAWS=full each task is combined with both policies.
"""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.swe_agent import ComplexityTrapMask
from harness.conversation.events import Entry, StepFinished
from harness.sandboxes.action_cache import ActionCache, CachedSandbox
from harness.task_checks.simulation import BUBBLEWRAP, open_task_sandbox, simulate
from harness.tasks import SUITE
from tests.laws.suite import FULL, Case, simulate_in_real_sandbox, spread

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

POLICIES = (KeepLast(summarizer="scripted/extractive"), ComplexityTrapMask())


def timeless(entry: Entry) -> Entry:
    """Return an entry without measured times."""
    event = entry.event
    return Entry(entry.seq, replace(event, tool_seconds=0.0)) if isinstance(event, StepFinished) else entry


@pytest.mark.parametrize("case", spread(POLICIES, rounds=2 if FULL else 1))
def test_law_9_a_run_from_the_action_cache_equals_the_run_in_a_real_sandbox(case: Case, tmp_path: Path) -> None:
    task = SUITE[case.task](case.seed)
    real = simulate_in_real_sandbox(case)
    assert real.compactions
    for warm in (False, True):
        opened = open_task_sandbox(task, BUBBLEWRAP)
        cache = ActionCache(tmp_path)
        with closing(cache), closing(CachedSandbox(opened, cache, kind=case.task, task=case.task)) as sandbox:
            run, counts = simulate(task, case.policy, sandbox=sandbox, model_spec=case.reader), sandbox.counts
        assert [timeless(entry) for entry in run.entries] == [timeless(entry) for entry in real.entries]
        assert [request for request, _ in run.requests] == [request for request, _ in real.requests]
        assert run.files == real.files
        assert run.check_results == real.check_results
        if task.cacheable:
            assert (counts.hits if warm else counts.misses) > 0
            assert not (warm and counts.misses)
