"""Compiled text patterns of a task, with which a scripted model finds values of facts and finished steps in a text.

A script may have ten thousand steps, so the time of a search depends on the length of the text and not on the number of steps:

- The tool calls that show a step as done (receipts) are looked up in a dictionary, if their pattern has no wildcards.
- Steps that are counted in the text, as in "7 of 20 files renamed", share one pattern.
- A fact that requires a word is searched for only in texts with this word.
- A pattern is tried only on texts with the literal text that every match contains. If this literal text has a word between two
  spaces, it is looked for only in texts with this word, which are most often none.
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
_TOKEN = re.compile(r"\\([^\w])|\\[\s\S]|\{\d*,?\d*\}|\[\^?\]?(?:\\[\s\S]|[^\]\\])*\]|([^\\\[().^$*+?{}|])|[\s\S]")
"""Regular expression that splits another regular expression into its tokens.

A token is an escaped character (group 1), a plain character (group 2), or something else, such as a set of characters.
"""
NOTES_PATH = ".notes.md"
"""Path of the file in the workspace into which a scripted agent writes notes."""
READ_NOTES = CallTemplate(tool="read_file", arguments=(("path", NOTES_PATH),))
"""Tool call with which the agent reads its notes."""
APPEND_NOTES = f"cat >> {NOTES_PATH} "
"""Beginning of the command with which the agent appends to its notes."""
MAX_CACHED_TASKS = 4
"""Number of tasks whose compiled patterns are cached; few are enough, because trials are run task by task and seed by seed."""
MAX_CACHED_PATTERNS = 1_000
"""Number of patterns that are cached; tasks that differ only in their seed have the same patterns."""
MAX_CACHED_TEXTS = 4_000
MAX_CACHED_LINES = 20_000

ReceiptSlot = tuple[int, int]
"""Index of a step in the task's script, and index of one of the tool calls that together show the step as done."""


class FactMatch(NamedTuple):
    """Value of a fact that was found in a text.

    The offset counts characters from the beginning of the text.
    """

    name: str
    value: str
    offset: int


_NamedPatterns = tuple[str, list[tuple[str, re.Pattern[str]]]]
"""Name of a fact and its patterns, each with a literal text that every match contains."""
ValueOffsets = tuple[tuple[str, int], ...]
"""Values of one fact that a text states, each with its position in characters, in the order of the text."""


def find_literal(pattern: str) -> str:
    """Return the longest literal text that every match of a regular expression contains.

    For example, the result for `port: (.+)` is `port: `. A simple rule is used: text inside groups does not count, and the result
    is empty for a regular expression with alternatives or flags.
    """
    if re.search(r"\(\?[a-zA-Z]", pattern):
        return ""
    runs, depth, position = [""], 0, 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        assert token is not None
        position = token.end()
        depth += (token[0] == "(") - (token[0] == ")")
        if token[0] == "|" and depth == 0:
            return ""
        literal = token[1] or token[2] or ""
        if depth or not literal or pattern[position : position + 1] in {"*", "?", "{"}:
            runs.append("")
        elif pattern[position : position + 1] == "+":
            runs += [runs.pop() + literal, ""]
        else:
            runs[-1] += literal
    return max(runs, key=len)


def find_spaced_word(literal: str) -> str:
    """Return the longest word of a literal text that stands between two spaces; empty if there is none.

    A text that contains the literal text has this word as one of its parts between spaces or line ends.
    """
    return max([word for word in literal.split(" ")[1:-1] if word.split() == [word]], key=len, default="")


@lru_cache(maxsize=MAX_CACHED_PATTERNS)
def _compile_pattern(text: str) -> tuple[str, re.Pattern[str]]:
    """Return the literal text that every match of a fact's pattern contains, and the compiled pattern."""
    return find_literal(text), re.compile(text, re.MULTILINE)


class FactPatterns:
    """Compiled patterns that find the values of facts in texts.

    Results are cached, since the sessions of one task contain mostly the same texts.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._anywhere: list[_NamedPatterns] = []
        self._by_word: dict[str, list[_NamedPatterns]] = {}
        for fact in facts:
            group = self._by_word.setdefault(fact.required_word, []) if fact.required_word else self._anywhere
            group.append((fact.name, [_compile_pattern(text) for text in fact.patterns]))
        self._places_by_spaced_word: dict[str, list[int]] = {}
        """For each word that some literal text has between two spaces, the indexes of its facts in `_anywhere`."""
        for place, (_, patterns) in enumerate(self._anywhere):
            for literal, _ in patterns:
                self._places_by_spaced_word.setdefault(find_spaced_word(literal), []).append(place)
        self._unspaced_places = frozenset(self._places_by_spaced_word.pop("", ()))
        self._find_matches = lru_cache(maxsize=MAX_CACHED_TEXTS)(self._search)
        self.has_fact = lru_cache(maxsize=MAX_CACHED_LINES)(self._has_fact)
        """Function that returns whether a text contains the value of any fact."""

    def find_newest(self, text: str) -> tuple[FactMatch, ...]:
        """Return the last value of each fact in a text; facts without a value in the text are left out."""
        return tuple(FactMatch(name, *values[-1]) for name, values in self._find_matches(text))

    def find_values(self, text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return all values in a text, in order, by name of the fact; facts without a value are left out."""
        return tuple((name, tuple(value for value, _ in values)) for name, values in self._find_matches(text))

    def find_matches(self, text: str) -> tuple[FactMatch, ...]:
        """Return every value of every fact in a text; the values of one fact follow each other."""
        return tuple(FactMatch(name, *value) for name, values in self._find_matches(text) for value in values)

    def _search(self, text: str) -> tuple[tuple[str, ValueOffsets], ...]:
        matches_by_fact: list[tuple[str, ValueOffsets]] = []
        for name, patterns in self._select_patterns(text):
            matches: list[re.Match[str]] = []
            for literal, pattern in patterns:
                if literal in text:
                    matches += pattern.finditer(text)
            if matches:
                matches.sort(key=re.Match.start)
                matches_by_fact.append((name, tuple((match[1], match.start()) for match in matches)))
        return tuple(matches_by_fact)

    def _has_fact(self, text: str) -> bool:
        named_patterns = self._select_patterns(text)
        return any(literal in text and pattern.search(text) for _, patterns in named_patterns for literal, pattern in patterns)

    def _select_patterns(self, text: str) -> "list[_NamedPatterns]":
        places = set(self._unspaced_places)
        for spaced_word in self._places_by_spaced_word.keys() & set(text.split()):
            places.update(self._places_by_spaced_word[spaced_word])
        selected = [self._anywhere[place] for place in sorted(places)]
        words = self._by_word.keys() & WORD.findall(text) if self._by_word else ()
        return selected + [entry for word in sorted(words) for entry in self._by_word[word]]


@lru_cache(maxsize=MAX_CACHED_TASKS)
def compile_fact_patterns(facts: tuple[Fact, ...]) -> FactPatterns:
    """Return the compiled patterns of a task's facts; equal facts share one object in a process."""
    return FactPatterns(facts)


class ReceiptPatterns:
    """Patterns of the tool calls that show steps of a task's script as done."""

    def __init__(self, steps: Sequence[Step]) -> None:
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
        """Return the steps, and in each step the pattern, that match a successful call with this argument."""
        slots = [sign for sign, pattern in self._others.get(tool, ()) if pattern.search(key)]
        return (*self._exact.get((tool, key), ()), *slots)


def _parse_exact_key(pattern: str) -> str | None:
    """Return the only text that a pattern matches; None if the pattern has wildcards."""
    if not (pattern.startswith("^") and pattern.endswith("$")):
        return None
    key = re.sub(r"\\(.)", r"\1", pattern[1:-1])
    return key if re.escape(key) == pattern[1:-1] else None


class StepCounters:
    """Reader of counts in a text; "7 of 20 files renamed" means that the first seven steps are done."""

    def __init__(self, steps: Sequence[Step]) -> None:
        counted: dict[str, list[ReceiptSlot]] = {}
        for index, step in enumerate(steps):
            if step.done.count_pattern:
                counted.setdefault(step.done.count_pattern, []).append((step.done.minimum_count, index))
        self._patterns = [re.compile(pattern, re.MULTILINE) for pattern in counted]
        ordered = [sorted(pairs) for pairs in counted.values()]
        self._counts = [[count for count, _ in pairs] for pairs in ordered]
        self._indexes = [[index for _, index in pairs] for pairs in ordered]

    def read(self, text: str) -> dict[int, int]:
        """Return the highest count of finished steps in a text, by index of the pattern that finds the count."""
        counts = ((index, pattern.findall(text)) for index, pattern in enumerate(self._patterns))
        return {index: max(map(int, numbers)) for index, numbers in counts if numbers}

    def list_covered_steps(self, counter: int, number: int) -> list[int]:
        """Return the indexes of the steps that are done when a counter stands at `number`, the last one last."""
        return self._indexes[counter][: bisect_right(self._counts[counter], number)]


class DonePattern(NamedTuple):
    """Pattern that recognizes lines, such as those of a summary, that report a step of the script as done."""

    step: int
    pattern: re.Pattern[str]
    about: str
    in_output: bool

    def matches(self, text: str) -> bool:
        """Return whether a line of the text reports the step of this pattern as done."""
        if self.about not in text:
            return False
        return any(self.pattern.search(line) for line in text.splitlines() if self.about in line)


def compile_done_patterns(steps: Sequence[Step]) -> list[DonePattern]:
    """Return a compiled pattern for each step that a text can report as done."""
    return [
        DonePattern(index, re.compile(step.done.summary_pattern), step.done.required_text, step.done.in_output)
        for index, step in enumerate(steps)
        if step.done.summary_pattern
    ]


def list_look_ups(fact: Fact) -> Iterator[CallTemplate]:
    """Yield the tool calls that may show a fact again.

    The first call lists the folder of the fact's source file, and the second call reads the file. A fact without a source file
    has only the second call. A fact that cannot be recovered has none.
    """
    if fact.recover and fact.source:
        yield CallTemplate(tool="list_directory", arguments=(("path", fact.source.rpartition("/")[0] or "."),))
    if fact.recover:
        yield fact.recover


def compile_call_pattern(call: CallTemplate) -> re.Pattern[str]:
    """Return a regular expression for the first argument of a scripted tool call; its placeholders match any word."""
    parts = re.split(r"\$\{\w+\}", " ".join(next((value for _, value in call.arguments), "").split()))
    return re.compile("^" + r"\S+".join(map(re.escape, parts)) + "$")


def build_call_key(call: CallTemplate, values: Mapping[str, str] = NO_VALUES) -> tuple[str, str]:
    """Return the tool and the first argument of a scripted tool call, which together identify the call."""
    text = next((value for _, value in call.arguments), "")
    return call.tool, " ".join(Template(text).substitute(values).split())[:200]


def is_notes_call(tool: str, key: str) -> bool:
    """Return whether a tool call, given by its tool and key argument, reads the notes of a scripted agent or appends to them."""
    return key == NOTES_PATH if tool == READ_NOTES.tool else key.startswith(APPEND_NOTES)
