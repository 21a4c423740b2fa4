"""Lines are ranked as the library bm25s ranks them, word for word and bit for bit."""

import bm25s
import bm25s.stopwords
from hypothesis import example, given
from hypothesis import strategies as st

from harness.models.scripted.summarizers import score_lines, split_words

LINES = st.lists(st.text("ab c.\n\tÄßIİ_1'", max_size=12) | st.text(max_size=20), max_size=12)
WORDS = st.lists(st.sampled_from(["deck", "card", "due", "ease", "port"]), max_size=6).map(tuple)


def known_words(lines: list[tuple[str, ...]]) -> list[str]:
    return sorted({word for line in lines for word in line})


@given(LINES)
@example([" ".join(bm25s.stopwords.STOPWORDS_EN), "The port will be 4711 in_the end."])
def test_a_line_has_the_words_that_the_library_finds(lines: list[str]) -> None:
    found = bm25s.tokenize(lines, stopwords="en", return_ids=False, show_progress=False)
    assert [list(split_words(line)) for line in lines] == found


@given(st.lists(WORDS, min_size=1, max_size=30), st.data())
@example([("deck", "deck", "card"), (), ("card",), ("deck", "due") * 3], None)
def test_scores_are_those_of_the_library_to_the_last_bit(lines: list[tuple[str, ...]], data: st.DataObject | None) -> None:
    known = known_words(lines)
    if not known:
        return
    asked = data.draw(st.lists(st.sampled_from(known), min_size=1, unique=True)) if data else known
    index = bm25s.BM25()
    index.index([list(line) for line in lines], show_progress=False)
    assert score_lines(lines, asked) == index.get_scores(sorted(asked)).tolist()
