"""The patterns of a task, kept so that reading a text costs what the text holds, not what the task has.

A script of ten thousand steps has as many receipts to know again. So receipts that are told to the letter are looked up, facts
that name a word are tried only on texts that hold it, and steps that are counted share the pattern that reads the number.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from string import Template
from types import MappingProxyType
from typing import NamedTuple

from harness.task import CallTemplate, Fact, Step

NO_VALUES: Mapping[str, str] = MappingProxyType({})
WORD = re.compile(r"\w+")
MAX_CACHED_TASKS = 4
"""Trials of a grid follow each other task by task and seed by seed."""
MAX_CACHED_TEXTS = 4_000
MAX_CACHED_LINES = 20_000

ReceiptSlot = tuple[int, int]
"""Index of a step, and which of its receipts."""


class FactMatch(NamedTuple):
    """A value of a fact, and at which character of its message it stands."""

    name: str
    value: str
    offset: int


ValueOffsets = tuple[tuple[str, int], ...]
"""The values of a fact that a text tells, and at which character each stands, in the order of the text."""


class FactPatterns:
    """How facts are read out of a text. What was read before is remembered: sessions of one task see mostly the same texts."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        """Compile the patterns; nothing here holds a value."""
        self._anywhere: list[tuple[str, list[re.Pattern[str]]]] = []
        self._by_word: dict[str, list[tuple[str, list[re.Pattern[str]]]]] = {}
        for fact in facts:
            kept = self._by_word.setdefault(fact.required_word, []) if fact.required_word else self._anywhere
            kept.append((fact.name, [re.compile(text, re.MULTILINE) for text in fact.patterns]))
        self._find_matches = lru_cache(maxsize=MAX_CACHED_TEXTS)(self._search)
        self.has_fact = lru_cache(maxsize=MAX_CACHED_LINES)(self._has_fact)
        """Whether a text tells any fact."""

    def find_newest(self, text: str) -> tuple[FactMatch, ...]:
        """The last told value of every fact that a text tells."""
        return tuple(FactMatch(name, *told[-1]) for name, told in self._find_matches(text))

    def find_values(self, text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Name and all told values of every fact that a text tells, in the order of the text."""
        return tuple((name, tuple(value for value, _ in told)) for name, told in self._find_matches(text))

    def _search(self, text: str) -> tuple[tuple[str, ValueOffsets], ...]:
        """Name of every fact that a text tells, and where it does."""
        matches_by_fact: list[tuple[str, ValueOffsets]] = []
        for name, patterns in self._select_patterns(text):
            matches = sorted((match for pattern in patterns for match in pattern.finditer(text)), key=re.Match.start)
            if matches:
                matches_by_fact.append((name, tuple((match[1], match.start()) for match in matches)))
        return tuple(matches_by_fact)

    def _has_fact(self, text: str) -> bool:
        return any(pattern.search(text) for _, patterns in self._select_patterns(text) for pattern in patterns)

    def _select_patterns(self, text: str) -> list[tuple[str, list[re.Pattern[str]]]]:
        if not self._by_word:
            return self._anywhere
        words = self._by_word.keys() & WORD.findall(text)
        return self._anywhere + [entry for word in sorted(words) for entry in self._by_word[word]]


@lru_cache(maxsize=MAX_CACHED_TASKS)
def compile_fact_patterns(facts: tuple[Fact, ...]) -> FactPatterns:
    """The patterns of a task's facts: one object for all its sessions in this process."""
    return FactPatterns(facts)


class ReceiptPatterns:
    """Which receipts belong to which steps."""

    def __init__(self, steps: Sequence[Step]) -> None:
        """Sort the patterns into those that are told to the letter and the others."""
        self._exact: dict[tuple[str, str], list[ReceiptSlot]] = {}
        self._others: dict[str, list[tuple[ReceiptSlot, re.Pattern[str]]]] = {}
        for index, step in enumerate(steps):
            for slot, (tool, pattern) in enumerate(step.done.receipts):
                key = _parse_exact_key(pattern)
                if key is None:
                    self._others.setdefault(tool, []).append(((index, slot), re.compile(pattern)))
                else:
                    self._exact.setdefault((tool, key), []).append((index, slot))

    def match_receipt(self, tool: str, key: str) -> tuple[ReceiptSlot, ...]:
        """What a receipt that ended well is a sign of. The key is one line."""
        slots = [sign for sign, pattern in self._others.get(tool, ()) if pattern.search(key)]
        return (*self._exact.get((tool, key), ()), *slots)


def _parse_exact_key(pattern: str) -> str | None:
    """The one key that a pattern matches, or None if it is not plainly one."""
    if not (pattern.startswith("^") and pattern.endswith("$")):
        return None
    key = re.sub(r"\\(.)", r"\1", pattern[1:-1])
    return key if re.escape(key) == pattern[1:-1] else None


class StepCounters:
    """The numbers that count steps, and which steps each covers."""

    def __init__(self, steps: Sequence[Step]) -> None:
        """Gather the steps of each pattern in the order of their numbers."""
        counted: dict[str, list[ReceiptSlot]] = {}
        for index, step in enumerate(steps):
            if step.done.count_pattern:
                counted.setdefault(step.done.count_pattern, []).append((step.done.minimum_count, index))
        self._patterns = [re.compile(pattern, re.MULTILINE) for pattern in counted]
        ordered = [sorted(pairs) for pairs in counted.values()]
        self._counts = [[count for count, _ in pairs] for pairs in ordered]
        self._indexes = [[index for _, index in pairs] for pairs in ordered]

    def read(self, text: str) -> dict[int, int]:
        """The highest number that a text tells of each counter."""
        found = ((at, pattern.findall(text)) for at, pattern in enumerate(self._patterns))
        return {at: max(map(int, numbers)) for at, numbers in found if numbers}

    def list_covered_steps(self, counter: int, number: int, after: int = -1) -> list[int]:
        """Indexes of the steps that a number shows done, without those that the number `after` did."""
        counts = self._counts[counter]
        return self._indexes[counter][bisect_right(counts, after) : bisect_right(counts, number)]


class DonePattern(NamedTuple):
    """How a text tells that a step is done."""

    step: int
    pattern: re.Pattern[str]
    about: str
    in_output: bool

    def matches(self, text: str) -> bool:
        """Whether a line of the text tells of the step as done."""
        if self.about not in text:
            return False
        return any(self.pattern.search(line) for line in text.splitlines() if self.about in line)


def compile_done_patterns(steps: Sequence[Step]) -> list[DonePattern]:
    """Return the pattern of each step that a text can report as done."""
    return [
        DonePattern(index, re.compile(step.done.summary_pattern), step.done.required_text, step.done.in_output)
        for index, step in enumerate(steps)
        if step.done.summary_pattern
    ]


def list_look_ups(fact: Fact) -> Iterator[CallTemplate]:
    """The calls that may bring a fact back: a look for its source, if it has one, and the recovering call."""
    if fact.recover and fact.source:
        yield CallTemplate(tool="list_directory", arguments=(("path", fact.source.rpartition("/")[0] or "."),))
    if fact.recover:
        yield fact.recover


def build_call_key(call: CallTemplate, values: Mapping[str, str] = NO_VALUES) -> tuple[str, str]:
    """The (tool, key argument) of the receipt that a call from this template leaves; that of a look-up holds no placeholder."""
    text = next((value for _, value in call.arguments), "")
    return call.tool, " ".join(Template(text).substitute(values).split())[:200]
