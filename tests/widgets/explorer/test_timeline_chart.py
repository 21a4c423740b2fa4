"""The timeline chart shows the same numbers as the table and the page."""

import numpy as np
import pytest

from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import build_sample_log
from harness.widgets.explorer.exploration import Exploration
from harness.widgets.explorer.timeline_chart import draw_timeline


@pytest.fixture(scope="module")
def explored():
    return Exploration(RecordedSession(name="a $session_", entries=build_sample_log(30_000)), "keep-last", 24_000)


def test_its_lines_are_the_tokens_of_every_step(explored):
    (ax,) = draw_timeline(explored).axes
    lines = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in ax.lines}
    assert lines["whole conversation"] == explored.uncompacted_tokens
    assert lines["in view"] == explored.build_run()["curve"]
    assert set(lines["threshold"]) == {explored.run.budget.threshold_tokens}


def test_the_timeline_marks_every_applied_compaction_and_has_a_caption(explored):
    figure = draw_timeline(explored)
    marks = next(line for line in figure.axes[0].lines if line.get_marker() == "v")
    assert np.asarray(marks.get_xdata()).tolist() == [
        attempt.step for attempt in explored.list_attempts() if attempt.status == "applied"
    ]
    words = " ".join(text.get_text() for text in figure.texts)
    assert "open loop" in words
    assert "a $session_" in words


def test_the_timeline_can_be_drawn_on_given_axes(explored):
    figure = draw_timeline(explored)
    assert draw_timeline(explored, figure.axes[0]) is figure
