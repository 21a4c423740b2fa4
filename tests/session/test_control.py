from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.agent.conversation import StreamBuffer
from harness.conversation.events import Entry, MessageAdded, MessageQueued, TextDelta, ToolStarted, Waiting
from harness.conversation.messages import ToolCall, assistant
from harness.session.control import SAVE_INTERVAL_SECONDS, DraftSaver
from harness.store import records

CALL = ToolCall(call_id="c", name="execute_command", arguments_json="{}")
ENDED = Entry(1, MessageAdded(message=assistant("whole"), step=1))
HEARD = st.one_of(
    st.builds(TextDelta, text=st.text(max_size=5), part=st.sampled_from(["text", "reasoning"])),
    st.just(ToolStarted(call=CALL)),
    st.just(TextDelta(text="", anew=True)),
    st.just(Waiting(what="a summary")),
    st.just(Entry(1, MessageQueued(text="later"))),
    st.just(ENDED),
)


class Keeper:
    """Recorder of the saved drafts, with a clock that the test sets."""

    def __init__(self):
        self.now = 0.0
        self.kept: list[tuple[float, records.UnfinishedStep]] = []
        self.draft = DraftSaver(lambda draft: self.kept.append((self.now, draft)), lambda: self.now)


@given(st.lists(st.tuples(HEARD, st.floats(0, 2))))
def test_the_answer_so_far_is_saved_at_most_once_a_second(heard):
    keeper, answer = Keeper(), StreamBuffer()
    for one, seconds in heard:
        keeper.now += seconds
        keeper.draft.add_event(one)
        before = len(keeper.kept)
        if isinstance(one, TextDelta):
            answer.add(one)
        elif one == ENDED:
            answer = StreamBuffer()
        keeper.draft.save_if_due(7)
        if len(keeper.kept) > before:
            assert keeper.kept[-1][1] == records.UnfinishedStep(7, answer.text, answer.reasoning)
    times = [at for at, _ in keeper.kept]
    assert all(later >= earlier + SAVE_INTERVAL_SECONDS for earlier, later in pairwise(times))


def test_a_draft_is_saved_after_a_second_even_without_new_text():
    keeper = Keeper()
    for piece in ("I was ", "about ", "to say"):
        keeper.draft.add_event(TextDelta(text=piece))
        keeper.draft.save_if_due(1)
    assert keeper.kept == [(0.0, records.UnfinishedStep(1, "I was "))]
    keeper.now = SAVE_INTERVAL_SECONDS
    keeper.draft.save_if_due(1)
    keeper.draft.save_if_due(1)
    assert keeper.kept[1:] == [(SAVE_INTERVAL_SECONDS, records.UnfinishedStep(1, "I was about to say"))]


def test_a_logged_answer_is_not_saved_as_a_draft():
    keeper = Keeper()
    keeper.draft.add_event(TextDelta(text="whole"))
    keeper.draft.add_event(ENDED)
    keeper.draft.save_if_due(1)
    assert keeper.kept == []
