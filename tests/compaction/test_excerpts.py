"""What of the messages a summarizer is shown."""

from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.excerpts import NewestFromUser
from harness.messages import assistant, user
from harness.testing.strategies import conversations
from harness.tokens import QuarterOfCharacters

COUNTER = QuarterOfCharacters()


@given(messages=conversations(), tokens=st.integers(1, 2_000))
def test_an_excerpt_begins_with_the_user_and_holds_no_more_than_its_tokens(messages, tokens):
    shown = NewestFromUser(tokens=tokens, counter=COUNTER).select(messages)
    assert sum(map(COUNTER.count, shown)) <= tokens
    assert not shown or shown[0].role == "user"
    assert shown[1:] == messages[len(messages) - len(shown) + 1 :][: len(shown)]


def test_of_a_request_that_is_too_long_the_last_lines_are_shown():
    messages = (user("first line\nlast"), assistant("four"))
    assert NewestFromUser(tokens=2, counter=COUNTER).select(messages) == (user("last"), assistant("four"))


def test_without_a_user_among_the_newest_messages_nothing_is_shown():
    messages = (user("go"), assistant("x" * 40), assistant("y" * 40))
    assert NewestFromUser(tokens=10, counter=COUNTER).select(messages) == ()
    assert NewestFromUser(tokens=21, counter=COUNTER).select(messages) == messages
