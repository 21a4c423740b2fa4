"""Token counts of texts; long texts are counted in pieces."""

import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from harness.models.tokenizer import ENCODING, SPLIT_ABOVE_CHARACTERS, count_text_tokens

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
