"""Which lines speak of what was asked: BM25 over the lines of one prompt.

A library would index every word of every line, which costs more than all the rest of a scripted session; here only the words
that are asked for are scored. A test holds the scores against those of the library `bm25s`, to the last bit.

Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009; in the variant of Kamphuis et al., Which BM25 Do
You Mean?, 2020, that they call Lucene (accurate).
"""

import math
import re
from array import array
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache

SATURATION, LENGTH_SHARE = 1.5, 0.75
"""k1 and b."""
MAX_CACHED_LINES = 20_000
_WORD = re.compile(r"\b\w\w+\b")
_STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of"),
        *("on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with"),
    )
)
"""English words that are not looked for."""


@lru_cache(maxsize=MAX_CACHED_LINES)
def split_words(line: str) -> tuple[str, ...]:
    """The words of a line that can be looked for, in small letters."""
    return tuple([word for word in _WORD.findall(line.lower()) if word not in _STOP_WORDS])


def score_lines(lines: Sequence[Sequence[str]], query: Collection[str]) -> list[float]:
    """How much each line has to do with what is asked.

    Args:
        lines: the words of each, at least one word in all of them together.
        query: words, each of which stands in a line; all count alike.

    Returns:
        One score a line, at least 0: sums of single precision, in the order of the alphabet.
    """
    average = sum(map(len, lines)) / len(lines)
    postings: dict[str, list[tuple[int, int]]] = {word: [] for word in sorted(query)}
    for at, words in enumerate(lines):
        for word, times in Counter([word for word in words if word in postings]).items():
            postings[word].append((at, times))
    lengths = [SATURATION * ((1 - LENGTH_SHARE) + LENGTH_SHARE * len(words) / average) for words in lines]
    scores, single = array("f", bytes(4 * len(lines))), array("f", (0.0, 0.0))
    for occurrences in postings.values():
        single[0] = math.log(1 + (len(lines) - len(occurrences) + 0.5) / (len(occurrences) + 0.5))
        for at, times in occurrences:
            single[1] = single[0] * (times / (lengths[at] + times))
            scores[at] += single[1]
    return scores.tolist()
