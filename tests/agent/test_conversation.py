"""Collecting the pieces of a streamed reply."""

from hypothesis import given
from hypothesis import strategies as st

from harness.agent.conversation import StreamBuffer
from harness.conversation.events import TextDelta
from harness.conversation.messages import assistant

DELTAS = st.builds(TextDelta, text=st.text(max_size=3), part=st.sampled_from(["text", "reasoning"]))


@given(st.lists(DELTAS), st.lists(DELTAS), st.booleans())
def test_streamed_pieces_are_joined_by_part_and_start_again_with_a_new_answer(before, after, anew):
    deltas: list[TextDelta] = []
    heard = StreamBuffer(deltas.append)
    for delta in before:
        heard(delta)
        assert heard.text is heard.text
    if anew:
        heard(TextDelta(text="", anew=True))
    for delta in after:
        heard(delta)
    assert deltas == [delta for delta in (*before, *[TextDelta(text="", anew=True)] * anew, *after) if delta.text or delta.anew]
    counts = after if anew and any(delta.text for delta in after) else before + after
    text, reasoning = ("".join(delta.text for delta in counts if delta.part == part) for part in ("text", "reasoning"))
    assert heard.build_message() == (assistant(text, reasoning=reasoning) if text or reasoning else None)
    heard.clear()
    assert heard.build_message() is None
