"""Token counts of texts; long texts are counted in pieces."""

import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.messages import Message, Text
from harness.models.tokenizer import (
    ENCODING,
    MESSAGE_OVERHEAD_TOKENS,
    SPLIT_ABOVE_CHARACTERS,
    TokenCounts,
    count_message_tokens,
    count_text_tokens,
)

FRAGMENTS = [
    *("\n", "\n\n", "\r\n", "\r", " ", "  ", "\t", "\x0b", "\x1c", "\x85", "\xa0", "\u2028", "\u3000"),
    *("word", "'s", "B7", "1234", "é漢", "\U0001f600", "\ud800", ")", "./", "{}", ",;", "<|endoftext|>"),
]

texts = st.lists(st.sampled_from(FRAGMENTS), min_size=2, max_size=60).map("".join)


@given(text=texts)
def test_a_long_text_is_the_sum_of_its_pieces(text: str) -> None:
    long = text * (SPLIT_ABOVE_CHARACTERS // len(text) + 1)
    assert count_text_tokens(long) == len(tiktoken.get_encoding(ENCODING).encode_ordinary(long))


def test_a_long_line_is_counted_whole() -> None:
    assert count_text_tokens("word " * SPLIT_ABOVE_CHARACTERS) == SPLIT_ABOVE_CHARACTERS + 1


@given(parts=st.lists(texts, min_size=1, max_size=4))
def test_the_texts_of_a_message_are_counted_as_the_one_text_that_is_sent(parts: list[str]) -> None:
    message = Message(role="user", parts=tuple(Text(text=text) for text in parts))
    assert count_message_tokens(message) == MESSAGE_OVERHEAD_TOKENS + count_text_tokens("\n".join(parts))


def refuse(text: str) -> int:
    raise AssertionError(f"counted again: {text!r:.40}")


@given(words=st.lists(texts, max_size=9))
def test_packed_counts_give_the_same_numbers_in_another_process(words: list[str]) -> None:
    first, second = TokenCounts(), TokenCounts()
    counted = [first.find_or_count(text, len) for text in words]
    second.merge(first.pack() + b"part")
    for text, count in zip(words, counted, strict=True):
        assert second.find_or_count(text, refuse) == count
    assert (first.unsaved, second.unsaved) == (0, 0)


def test_the_oldest_counts_are_dropped_when_there_are_too_many(monkeypatch) -> None:
    monkeypatch.setattr("harness.models.tokenizer.MAX_COUNTS", 10)
    counts = TokenCounts()
    for number in range(14):
        counts.find_or_count(f"text with the number {number}", len)
    assert len(counts) == 8
    assert counts.find_or_count("text with the number 13", refuse) == 23
    assert counts.find_or_count("text with the number 3", lambda _: 0) == 0
