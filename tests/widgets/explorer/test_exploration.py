"""The exploration keeps settings and numbers together, also when a policy fails in the middle of a session."""

from dataclasses import replace

import pytest

from harness.errors import UsageError
from harness.inspection.counterfactual import CounterfactualRun
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import build_sample_log
from harness.widgets.explorer.exploration import Exploration

FAILING_WINDOW_TOKENS = 20_000


def test_after_an_error_in_a_later_slice_the_numbers_are_those_of_the_settings(monkeypatch):
    exploration = Exploration(RecordedSession(name="a", entries=build_sample_log(30_000)), "keep-last", 24_000)
    run_step = CounterfactualRun._run_step

    def fail_at_step_6(run, step):
        if run.budget.window_tokens == FAILING_WINDOW_TOKENS and run.steps == 5:
            raise UsageError("step 6 fails")
        run_step(run, step)

    monkeypatch.setattr(CounterfactualRun, "_run_step", fail_at_step_6)
    settings = replace(exploration.settings, window_tokens=FAILING_WINDOW_TOKENS)
    exploration.advance(settings, lambda: True)  # the first slice is one step
    with pytest.raises(UsageError, match="step 6 fails"):
        exploration.advance(settings)
    assert exploration.settings == settings
    assert exploration.run.budget.window_tokens == FAILING_WINDOW_TOKENS
