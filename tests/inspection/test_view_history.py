"""Views in the middle of a long log: equal to a fold from the beginning, before, at and after every checkpoint."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import Entry, MessageAdded
from harness.conversation.messages import assistant
from harness.conversation.view import fold_all
from harness.inspection.timeline import find_counter
from harness.inspection.view_history import ENTRIES_PER_CHECKPOINT, ViewHistory
from harness.testing.strategies import sessions

pytestmark = pytest.mark.slow


@settings(max_examples=25)
@given(
    sessions(KeepLast(threshold=0.1, keep_last=2)),
    st.integers(0, 2 * ENTRIES_PER_CHECKPOINT),
    st.integers(0, 10**6),
    st.booleans(),
)
def test_a_view_in_the_middle_equals_a_fold_from_the_beginning(log, added, place, at_checkpoint):
    last = log[-1].seq
    log = [*log, *(Entry(last + 1 + one, MessageAdded(message=assistant(f"{one}"), step=1)) for one in range(added))]
    history = ViewHistory(find_counter(log), log)
    place %= len(log) + 1
    if at_checkpoint:
        place -= place % ENTRIES_PER_CHECKPOINT
    assert history.view_after(place) == fold_all(log[:place], find_counter(log))
    assert history.view == fold_all(log, find_counter(log))
    rest = ViewHistory(find_counter(log), log[place:], start=history.view_after(place), skipped=place)
    assert rest.view_after(place) == history.view_after(place)
    assert rest.view == history.view
    assert len(rest) == len(history) == len(log)
