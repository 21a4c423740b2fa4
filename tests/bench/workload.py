"""Texts of the sessions of benchmarks; they use only the standard library, since the drivers of other programs use them too."""

import random

REQUEST = "Look at every part of the repository and report what you see."
FINAL_TEXT = "done"
TOOL = "execute_command"
SYLLABLES = [first + vowel + last for first in "bdfgklmnprst" for vowel in "aeiou" for last in ("", "n", "r", "st", "x")]


def think(number: int) -> str:
    """Return the text that the model writes before its call of a tool, about 100 characters."""
    return f"Step {number}. " + "I look at the next part of it. " * 3


def command(number: int) -> str:
    """Return the command that the model calls its tool with, about 80 characters."""
    return f"grep -rn 'pattern number {number}' src/package_{number}/module_{number}.py | sort"


def words(number: int, characters: int = 2_000) -> str:
    """Return unique text that compresses like the output of a program."""
    draw = random.Random(number)

    def name() -> str:
        return "".join(draw.choices(SYLLABLES, k=draw.choice((2, 2, 3))))

    text = "exit code 0\n"
    while len(text) < characters:
        text += f"{draw.choice(('src', 'tests', 'docs'))}/{name()}.py:{draw.randrange(900)}: "
        text += f"{draw.choice(('def', 'return', 'assert', 'import'))} {name()}_{name()}({name()}, {draw.randrange(10_000)})\n"
    return text[:characters]


def make_outputs(steps: int, session: int = 0) -> list[str]:
    """Return the outputs of the tool in a session; its last step calls no tool, so there is one less than there are steps."""
    return [words(session * steps + step) for step in range(steps - 1)]


HEAPS_FACTOR, HEAPS_EXPONENT = 5.3, 0.61
"""Number of distinct words of a session after n words of tool outputs: 5.3 · n^0.61 (Heaps' law).

Both are medians of fits to 19 recorded sessions of seven agents with at least 20 tool results each, 3,028 results in all: the
words that the pattern `[^\\W_]+` finds in the first 10,000 characters. Half of the exponents lie between 0.54 and 0.76.
"""
REPEATED_IN_OUTPUT = 0.45
"""Share of the terms that repeat a term of the same output, among those that repeat a term of the session."""
NEW_TERMS = {"plain": 0.64, "number": 0.12, "identifier": 0.17, "path": 0.07}
"""Shares of the kinds of new terms."""


def make_typical_outputs(steps: int, session: int = 0) -> list[str]:
    """Return as many outputs as `make_outputs`, of the same length, with a vocabulary like that of recorded sessions.

    The vocabulary grows by Heaps' law. All other terms repeat earlier ones, the frequent ones more often (Simon's process, whose
    frequencies follow Zipf's law). The 265 outputs of the recorded sessions above that have 1,500 to 2,500 characters have the
    following means, beside those of 128 outputs of this function: 112 and 110 distinct words, 19 and 20 % of them new in the
    session, and 3.7 and 6.3 different paths, 10.3 and 10.3 numbers, and 11.4 and 13.6 identifiers as the metrics find them.
    Outputs of the scripted tasks have 32 to 70 distinct words in the mean. `make_outputs` has 216 distinct words in an output,
    72 % of them new in a session of 200 steps, and 35 paths, 63 numbers and 34 identifiers; in 3,000 steps, 232,000 distinct
    words, of which a session would have about 20,000 by the law.
    """
    draw = random.Random(f"typical {session}")
    terms, words_count, distinct_count = ["exit"], 1, 1
    outputs = list[str]()
    for _ in range(steps - 1):
        first, characters = len(terms), 0
        while characters < 2_000:
            if distinct_count < HEAPS_FACTOR * words_count**HEAPS_EXPONENT:
                term = _make_term(draw, terms)
                distinct_count += 1
            else:
                is_near = len(terms) > first and draw.random() < REPEATED_IN_OUTPUT
                term = terms[draw.randrange(first if is_near else 0, len(terms))]
            terms.append(term)
            words_count += 1 + term.count("_") + term.count("/") + term.count(".")
            characters += len(term) + 1
        lines = [" ".join(terms[start : start + 6]) for start in range(first, len(terms), 6)]
        outputs.append("\n".join(lines)[:2_000])
    return outputs


def _make_term(draw: random.Random, terms: list[str]) -> str:
    """Return a term with a new word: the word alone, a number, or an identifier or a path with earlier words."""
    kind = draw.choices(tuple(NEW_TERMS), tuple(NEW_TERMS.values()))[0]
    if kind == "number":
        return str(draw.randrange(100, 10 ** draw.randrange(3, 7)))
    word = "".join(draw.choices(SYLLABLES, k=draw.choice((2, 3, 4))))
    if kind == "plain":
        return word
    earlier = draw.choice(terms).replace("/", "_").replace(".", "_").split("_")[0]
    return f"{earlier}_{word}" if kind == "identifier" else f"{earlier}/{word}.py"
