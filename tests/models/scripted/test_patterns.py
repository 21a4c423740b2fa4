"""Indexed lookups of patterns give the same results as trying every pattern."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.models.scripted.patterns import (
    FactPatterns,
    ReceiptPatterns,
    StepCounters,
    compile_fact_patterns,
    find_literal,
    find_spaced_word,
)
from harness.task import Evidence, Fact, Step
from harness.tasks import SUITE, load_task

WORDS = st.sampled_from(["oak7", "elm7", "reads", "12", "oak", "7", "Reads", "oak7s", "\n", "is", "3"])
TEXTS = st.lists(WORDS | st.sampled_from(["oak7 reads 12", "oak7 reads 3"]), max_size=30).map(" ".join)
TREES = ("oak7", "elm7", "oak")
KEYS = st.text(st.sampled_from("ab .-$^\\0(é"), max_size=4)


def fact(tree: str, word: str) -> Fact:
    return Fact(name=tree, kind="value", said_in="output", patterns=(rf"\b{tree} reads (\d+)",), prior="0", required_word=word)


def step(name: str, done: Evidence) -> Step:
    return Step(name=name, text="", calls=(), done=done)


@given(TEXTS)
def test_a_fact_that_names_its_word_is_read_as_if_it_did_not(text: str) -> None:
    named, plain = FactPatterns(fact(tree, tree) for tree in TREES), FactPatterns(fact(tree, "") for tree in TREES)
    assert sorted(named.find_newest(text)) == sorted(plain.find_newest(text))
    assert named.has_fact(text) == plain.has_fact(text)


@given(TEXTS)
def test_all_values_are_returned_in_order_and_the_last_is_the_newest(text: str) -> None:
    patterns = FactPatterns([fact("oak7", "")])
    matches = [(match[1], match.start()) for match in re.finditer(r"\boak7 reads (\d+)", text)]
    assert patterns.find_values(text) == ((("oak7", tuple(value for value, _ in matches)),) if matches else ())
    assert patterns.find_newest(text) == ((("oak7", *matches[-1]),) if matches else ())


@given(st.lists(TEXTS, max_size=5))
def test_cached_patterns_find_the_same_as_fresh_ones(texts: list[str]) -> None:
    shared = compile_fact_patterns(tuple(fact(tree, tree) for tree in TREES))
    for text in (*texts, *texts):
        fresh = FactPatterns(fact(tree, tree) for tree in TREES)
        assert (shared.find_newest(text), shared.find_values(text), shared.has_fact(text)) == (
            fresh.find_newest(text), fresh.find_values(text), fresh.has_fact(text),
        )  # fmt: skip


@given(st.lists(KEYS, min_size=1, max_size=5), KEYS)
def test_a_literal_receipt_is_looked_up(keys: list[str], asked: str) -> None:
    steps = [step(key, Evidence(receipts=(("run", f"^{re.escape(key)}$"), ("run", re.escape(key))))) for key in keys]
    tried = {
        (index, slot)
        for index, known in enumerate(steps)
        for slot, (_, pattern) in enumerate(known.done.receipts)
        if re.search(pattern, asked)
    }
    assert set(ReceiptPatterns(steps).match_receipt("run", asked)) == tried
    assert ReceiptPatterns(steps).match_receipt("read", asked) == ()


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 9))
def test_a_number_covers_the_steps_up_to_it(counts: list[int], number: int) -> None:
    counters = StepCounters([step(str(count), Evidence(count_pattern=r"mark (\d+)", minimum_count=count)) for count in counts])
    covered = counters.list_covered_steps(0, number) if counts else []
    assert sorted(covered) == [index for index, count in enumerate(counts) if count <= number]


def test_the_highest_number_of_a_text_counts() -> None:
    counters = StepCounters([step("a", Evidence(count_pattern=r"^mark (\d+)", minimum_count=1))])
    assert counters.read("mark 4\nmark 12\nmark 3\nat mark 99") == {0: 12}
    assert counters.read("nothing") == {}


LITERALS = {
    r"The port is (\d+)": "The port is ",
    r"[Ii]nterval may exceed (\d+) days": "nterval may exceed ",
    r"^\W*schema version: (\d+)$": "schema version: ",
    r"^[-* ]*\| `POST /parcels` \|[^|\n]*\| (\d+) KiB \|": "| `POST /parcels` |",
    r"abc?": "ab",
    r"ab{2}c": "a",
    r"\d{4}xy+z": "xy",
    r"one (two|three) four": " four",
    r"one|another": "",
    r"(?i)port is (\d+)": "",
    r"a.b\.c[]d]e(f)": "b.c",
}


@pytest.mark.parametrize(("pattern", "literal"), LITERALS.items())
def test_the_literal_text_of_a_pattern_is_the_longest_outside_of_groups(pattern: str, literal: str) -> None:
    assert find_literal(pattern) == literal


PATTERNS = sorted(
    {text for name in SUITE for fact in load_task(name)(1).facts for text in (*fact.patterns, *fact.former_patterns)}
)


@given(st.sampled_from([*PATTERNS, *LITERALS]).flatmap(lambda text: st.tuples(st.just(text), st.from_regex(text))))
def test_every_match_of_a_pattern_contains_its_literal_text(pair: tuple[str, str]) -> None:
    pattern, text = pair
    assert all(find_literal(pattern) in match[0] for match in re.finditer(pattern, text, re.MULTILINE))


@pytest.mark.parametrize(
    ("literal", "word"),
    [("The port is ", "port"), (" when no card is due", "when"), ("ticket", ""), ("two words", ""), (" a\tb ", ""), ("x  y", "")],
)
def test_the_spaced_word_of_a_literal_text_is_the_longest_between_two_spaces(literal: str, word: str) -> None:
    assert find_spaced_word(literal) == word


FACTS = tuple(
    Fact(name=text, kind="value", said_in="output", patterns=(text,), prior="0") for text in (r"([A-Z]{2}-\d{4})", *PATTERNS)
)
PIECES = st.sampled_from(FACTS).flatmap(lambda fact: st.from_regex(fact.name)) | st.sampled_from(
    ["is", "\n", "\x1c", "\xa0", "A"]
)


@given(st.lists(PIECES, max_size=6), st.sampled_from(["", " ", "\n"]))
def test_the_patterns_of_the_suite_find_what_plain_searches_find(pieces: list[str], separator: str) -> None:
    text = separator.join(pieces)
    plain = {fact.name: [match[1] for match in re.finditer(fact.name, text, re.MULTILINE)] for fact in FACTS}
    patterns = compile_fact_patterns(FACTS)
    assert patterns.find_values(text) == tuple((name, tuple(values)) for name, values in plain.items() if values)
    assert patterns.has_fact(text) == any(plain.values())


def test_nearly_every_pattern_of_the_suite_has_a_literal_text() -> None:
    assert sum(len(find_literal(pattern)) >= 4 for pattern in PATTERNS) > 0.95 * len(PATTERNS)
