"""Sessions of the validity checks that take the effects of commands from an action cache."""

from contextlib import closing
from dataclasses import replace

import pytest

from harness.compaction.presets.none import NoCompaction
from harness.errors import UsageError
from harness.sandboxes.action_cache import ActionCache
from harness.task_checks.simulation import SessionCache
from tests.experiment.tiny_task import ROUNDS, tiny

pytestmark = pytest.mark.bubblewrap


def test_the_first_session_fills_the_cache_the_second_equals_it_and_runs_no_command_and_a_repeated_one_runs_all(tmp_path):
    with closing(ActionCache(tmp_path)) as cache:
        first, second = (SessionCache(tiny, action_cache=cache).run(1) for _ in range(2))
        assert (second.calls, second.requests, second.files) == (first.calls, first.requests, first.files)
        cache.flush()
        used = cache.read_summary().hits
        assert used >= ROUNDS
        again = SessionCache(tiny, action_cache=cache)
        assert again.run_uncached(again.make_task(1)).files == first.files
        cache.flush()
        assert cache.read_summary().hits == used


def test_a_task_that_allows_no_cache_uses_none(tmp_path):
    with closing(ActionCache(tmp_path)) as cache:
        for _ in range(2):
            SessionCache(lambda seed: replace(tiny(seed), cacheable=False), action_cache=cache).run(1)
        assert cache.read_summary().entries == 0


def test_a_policy_may_be_given_by_its_name():
    sessions = SessionCache(tiny)
    assert sessions.run(1, "none") is sessions.run(1, NoCompaction()) is sessions.run(1)


def test_a_session_is_graded_only_when_its_verdicts_are_needed():
    sessions = SessionCache(tiny)
    ungraded = sessions.run(1, is_graded=False)
    with pytest.raises(UsageError, match="not graded"):
        _ = ungraded.score
    graded = sessions.run(1)
    assert (graded.calls, graded.files) == (ungraded.calls, ungraded.files)
    assert {judged.check.name for judged in graded.check_results} == {check.name for check in sessions.make_task(1).checks}
    assert sessions.run(1, is_graded=False) is graded
