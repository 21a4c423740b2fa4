"""Tolerant reading: finds the value of a fact in a text that states the fact in other words than the task, e.g. in a summary.

A statement is a clause (see `statements`) that names the subject of a fact and contains one value of the fact's type. A clause
names the subject if it has all words of one of the sets of key words, most words of one of the text patterns, or a word of the
name that no other fact has. By default there is one set for the name of the fact, and one for each of its text patterns. The
group of the first pattern gives the type of the value, so the author of a task declares nothing twice. Numbers are also read in
words and in other units.

Precision comes before recall: a value is read only if every word around it, in its clause, its label and its remarks, is a word
of the fact or a known word that leaves a statement as it is (see `known_words`). An unknown word, such as "suggested" or
"competitor", leaves the clause unread. Where several values stand in a clause, words such as "from" and "was" must mark all but
one as older. A value is not read, either, if it stands in a record of something else (lines like "interval: 10" below a line like
"stop: harbour"), or if the text has several lines and ends within the clause, like a summary that was cut off at its limit.

The result depends on the text alone. Text that the exact patterns match is treated like any other text; callers combine both
readings, and the later one in the text counts.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

from harness.errors import UsageError
from harness.models.scripted import patterns
from harness.models.scripted.known_words import (
    COPULA,
    COUNTED_WORDS,
    FOREIGN_WORDS,
    HARMFUL_PHRASES,
    HARMFUL_STEMS,
    HARMLESS_PHRASES,
    KNOWN_WORDS,
    OTHER,
    ROLES,
    TURNING_WORDS,
)
from harness.models.scripted.quantities import UNITS, Quantity, list_quantities
from harness.models.scripted.shapes import LIMIT_MARK, VALUE_MARK, has_stating_shape, list_roles
from harness.models.scripted.statements import Clause, list_clauses, split_sentences
from harness.task import Fact

MAX_CACHED_WORDS, MAX_CACHED_FACTS = 20_000, 2_000
"""Maximum number of words whose stems, and of facts whose key words, are kept for reuse."""
MAX_CANDIDATES = 30
"""Maximum number of possible values in a clause that states a fact; a longer enumeration states none."""
MAX_BRIEF_WORDS = 3
"""Maximum number of words of a text pattern that other sentences contain by chance, e.g. "ticket is"."""
MIN_WHOLE_SHARE = 0.8
"""Minimum share of the words of a text pattern in a clause that names its fact without a word that is special to it."""
MIN_PHRASE_SHARE = 0.6
"""Minimum share of the words of a text pattern in a clause that names its fact in other words."""
_FUNCTION_WORDS = frozenset(
    (
        *("a", "about", "after", "against", "all", "also", "always", "an", "and", "any", "are", "as", "at", "be", "been"),
        *("before", "but", "by", "can", "do", "does", "each", "every", "exactly", "following", "for"),
        *("from", "go", "goes", "has", "have", "here", "if", "in", "into", "is", "it", "its", "just", "know", "known", "least"),
        *("less", "limited", "made", "may", "more", "most", "must", "no", "not", "now", "of", "on", "one", "only", "or", "our"),
        *("per", "run", "runs", "s", "set", "shall", "should", "so", "stand", "still", "than", "that", "the", "their"),
        *("there", "these", "they", "this", "to", "under", "until", "up", "use", "used", "using", "was", "we", "were"),
        *("when", "which", "while", "who", "whole", "will", "with", "within", "you", "your", "call", "called", "calls"),
        *("name", "named", "names", "begin", "begins", "start", "starts", "end", "ends", "write", "written", "kept"),
        *("value", "defined", "given", "equal", "equals", "remains", "remember", "note", "ensure", "never"),
        *("currently", "current", "new", "updated", "changed", "confirmed", "agreed", "fixed", "settled", "decided"),
        *("task", "project", "user", "work", "session", "required", "requirement", "constraint", "important"),
        *(
            "setting",
            "option",
            "allowed",
            "total",
            "number",
            "count",
            "amount",
            "fact",
            "facts",
            "user's",
            "later",
            "raised",
            "lowered",
            "revised",
        ),
        *(
            "longer",
            "exceed",
            "exceeds",
            "limit",
            "capped",
            "higher",
            "lower",
            "beyond",
            "above",
            "below",
            "over",
            "whoever",
            "gets",
        ),
        *("get", "got", "everything", "nobody", "nothing", "once", "become", "becomes", "treated", "counts", "meant", "gave"),
        *("constraints", "key", "stated", "reads", "listed", "see", "instead", "rather", "previously", "formerly"),
        *("remain", "chosen", "please", "show", "shown", "shows", "state", "states", "exact", "exactly", "literal", "whatever"),
    )
)
"""Words that name no subject: grammar, verbs that introduce a value, and words about projects in general."""
_SHORT_WORDS = frozenset(
    (
        *("a", "an", "the", "of", "to", "in", "on", "is", "are", "be", "and", "or", "it", "its", "by", "at", "as", "for", "with"),
        *("that", "which", "will", "must", "has", "have", "should", "may", "was"),
    )
)
"""Words of grammar that say nothing about the subject of a clause."""
_NO_VALUES = frozenset(
    (
        *("none", "unknown", "pending", "tbd", "yes", "no", "true", "false", "done", "required", "same", "missing", "null"),
        *("rejected", "refused", "suggested", "proposed", "outdated", "final", "agreed", "fixed", "confirmed"),
        *("unspecified", "undefined", "defined", "set", "here", "this", "that", "it", "complete", "completed"),
        *("string", "integer", "number", "word", "todo", "value", "optional", "open", "used", "unchanged", "is", "the"),
    )
)
"""Words that say that there is no value, or what kind of value there is."""
_UNITS = frozenset(
    ("seconds", "minutes", "hours", "days", "weeks", "months", "years", "ms", "milliseconds", "kib", "bytes", "feet")
)
_ALIASES = {
    "maximum": "max",
    "maximal": "max",
    "license": "licence",
    "identifier": "id",
    "ids": "id",
    "app": "program",
    "directory": "folder",
    "dir": "folder",
    "delimiter": "separator",
    **dict.fromkeys(("longest", "highest", "largest", "greatest", "cap", "ceiling", "upper"), "max"),
    **dict.fromkeys(("lowest", "smallest", "shortest", "floor", "lower"), "min"),
    "target": "goal",
    "telephone": "phone",
    "database": "db",
    "environment": "env",
    "daily": "day",
    "yearly": "year",
    "licensed": "licence",
    "colour": "color",
}
_NUMBER_PATTERNS = re.compile(r"\\d[+*]?|\\d\{[\d,]+\}|(?:\\d)+")
_WORD = re.compile(r"[^\W_]+")
_UNKNOWN_MARK = re.compile(r"[^\w\s!-/:;=>\[-`{-}|–—→⇒➜•…‘’“”]|!=")
"""Sign that can turn a statement into another one, such as `≠`, `≈` or a cross."""
_CAMEL = re.compile(r"(?:(?<=[a-z0-9]{2})|(?<=[A-Z][a-z]))(?=[A-Z][a-z])")
_NUMBERED = re.compile(r"([^\W\d_]+)[\s_-]?(\d+)(?![^\W_])")
_RECORD = re.compile(r"(?<!`{3}yaml\n)(?<!`{3}yml\n)^([a-z][a-z\d -]*: .*)\n(?:[a-z][a-z\d -]*: .*(?:\n|\Z))+", re.MULTILINE)
"""Lines with a name in lower case and a value, like in the output of a program; the first one says what the record is about."""
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”|\*\*([^*\n]+)\*\*|'([^'\n]+)'")


@lru_cache(maxsize=MAX_CACHED_WORDS)
def stem(word: str) -> str:
    """Return the beginning (stem) that the forms of a word share, e.g. `cop` for copy and copies, by a rough rule."""
    word = _ALIASES.get(word.lower(), word.lower())
    for endings in (("s",), ("ment", "ity"), ("ing", "ed"), ("ie", "al", "or", "er", "y", "e")):
        ending = next((ending for ending in endings if word.endswith(ending) and len(word) - len(ending) >= 3), "")
        if ending and not word.endswith("ss"):
            word = word.removesuffix(ending)
            if ending in {"ing", "ed"} and len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":  # e.g. "tagged"
                word = word[:-1]
    return word


_FUNCTION_STEMS = frozenset(map(stem, _FUNCTION_WORDS))
_ORDINAL_STEMS = frozenset(map(stem, ("first", "second", "third", "new", "old")))
_SHORT_STEMS = frozenset(map(stem, _SHORT_WORDS))
_UNIT_STEMS = frozenset(map(stem, _UNITS | UNITS))


def list_stems(text: str) -> list[str]:
    """Return the stems of all words of a text in order, followed by those of words before a number.

    The latter are joined with the number.
    """
    if not text.islower() and _CAMEL.search(text):
        text = _CAMEL.sub(" ", text)
    numbered = [stem(word) + number for word, number in _NUMBERED.findall(text)]
    return [*map(stem, _WORD.findall(text)), *numbered]


def find_group(pattern: str) -> tuple[int, int]:
    """Return the start and the end of the capturing group of a regular expression, including its brackets."""
    position, start, depth, in_set = 0, -1, 0, False
    opened: list[int] = []
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 1
        elif in_set:
            # a `]` at the beginning of a set, as in `[]a]` or `[^]a]`, does not end the set
            in_set = character != "]" or pattern[position - 1] == "[" or pattern[position - 2 : position] == "[^"
        elif character == "[":
            in_set = True
        elif character == "(":
            opened.append(position)
            if start < 0 and pattern[position + 1 : position + 2] != "?":
                start, depth = position, len(opened)
        elif character == ")":
            if start >= 0 and len(opened) == depth:
                return start, position + 1
            opened.pop()
        position += 1
    raise UsageError(f"a pattern needs a group in parentheses, which matches the value (got {pattern!r})")


def extract_words(pattern: str) -> str:
    """Return the plain words of a regular expression outside of its capturing group, separated by spaces."""
    start, end = find_group(pattern)
    text = pattern[:start] + " " + pattern[end:]
    text = re.sub(r"\[([A-Z])[a-z]\]", lambda match: match[1].lower(), text)
    text = re.sub(r"\\[A-Za-z]|\[[^\]]*\]|\{[\d,]*\}|\(\?[^)]*\)", " ", text)
    return re.sub(r"[^A-Za-z0-9\s]", " ", text)


def _list_halves(pattern: str) -> tuple[str, str]:
    """Return the plain words of a regular expression before and behind its capturing group."""
    start, end = find_group(pattern)
    return extract_words(f"{pattern[:start]}(x)"), extract_words(f"(x){pattern[end:]}")


@dataclass(frozen=True, slots=True)
class _ValueType:
    """Form that all values of a fact have, as regular expressions.

    The form is the group of the fact's first text pattern, or the fact's `value_pattern` if it is set.
    """

    fragment: re.Pattern[str]
    """Regular expression that finds a value within a text, where certain characters may surround it.

    An example is the underscore in "the prefix `ABC_`".
    """
    whole: re.Pattern[str]
    is_number: bool
    is_open: bool
    """Whether ordinary words also have this form, so that only words marked as values, e.g. by quotes, are read."""


def _make_value_type(fact: Fact) -> _ValueType:
    pattern = fact.patterns[0]
    start, end = find_group(pattern)
    group, before, after = fact.value_pattern, "", ""
    if not group:
        group = pattern[start + 1 : end - 1]
        # punctuation next to the group, such as the `\$` of `costs \$(\d+)`, may be read as part of the value
        before_match = re.search(r"(?:\\[^\w\s`.]|[-/_])*$", pattern[:start])
        after_match = re.match(r"(?:\\[^\w\s`.,;:!?]|[-/_])*(?=[`\s\\]|$)", pattern[end:])
        before, after = before_match[0] if before_match else "", after_match[0] if after_match else ""
    whole = re.compile(f"(?:{before}({group}){after}|({group}))")
    fragment = re.compile(rf"(?<![\w./:\\-])(?:{before})?({group})(?:{after})?(?![\w/\\-]|[.:]\w)")
    is_open = any(re.fullmatch(group, text) for text in ("word", "some-word", "Word", "WORD", "workday", "^", "[word]"))
    return _ValueType(fragment, whole, bool(_NUMBER_PATTERNS.fullmatch(group)), is_open)


class _Subject(NamedTuple):
    """Key words by which a clause is recognized as being about a fact, and the form of the fact's values."""

    name: str
    keys: tuple[frozenset[str], ...]
    phrases: tuple[frozenset[str], ...]
    """Stems of the words of each text pattern, with verbs and prepositions, and of the name."""
    vocabulary: frozenset[str]
    name_stems: frozenset[str]
    """Stems of the name and of the key words that the task declares."""
    pairs: frozenset[tuple[str, str]]
    """Stems of words that follow each other in the name, the key words or a text pattern."""
    conditions: frozenset[str]
    """Stems behind "if" or "when" in a text pattern."""
    numbered_families: frozenset[str]
    """Beginning of the key words with a number, e.g. `stage` of "stage 1"; such a fact must be named in full."""
    value: _ValueType
    unit: str
    """Unit of the value that can be converted, e.g. `seconds`; empty if there is none."""
    is_brief: bool
    """Whether each text pattern has at most `MAX_BRIEF_WORDS` words."""
    has_negation: bool
    """Whether a text pattern contains "no", as in "no card is due"."""
    is_outdated: bool
    """Whether the fact is a value that another one replaces, e.g. the old name of a function."""

    @property
    def content(self) -> frozenset[str]:
        """Stems that name the subject, without words of grammar and units."""
        return self.vocabulary - _FUNCTION_STEMS - _UNIT_STEMS


def _split_name(name: str) -> frozenset[str]:
    words = re.sub(r"[_\s-]+(?=\d)", "", name.replace("_", " ")).replace("_", " ").split()
    name_words = [word for word in words if word not in _UNITS] or words
    return frozenset(_stem_key(word) for word in name_words)


def _stem_key(word: str) -> str:
    match = re.fullmatch(r"([^\W\d_]+)(\d+)", word)
    return stem(match[1]) + match[2] if match else stem(word)


@lru_cache(maxsize=MAX_CACHED_FACTS)
def make_subject(fact: Fact) -> _Subject | None:
    """Return the key words of a fact and the form of its values; None if its first text pattern has no group."""
    try:
        value = _make_value_type(fact)
    except UsageError:
        return None
    phrases = [extract_words(pattern) for pattern in fact.patterns]
    sets = [_split_name(fact.name), *(frozenset(map(_stem_key, text.split())) for text in fact.subjects)]
    wholes = list[frozenset[str]]()
    for phrase in phrases:
        stems = frozenset(list_stems(phrase))
        numbered = {stem for stem in stems if re.search(r"\D\d+$", stem)}
        unnumbered = {re.sub(r"\d+$", "", stem) for stem in numbered}
        content = {stem for stem in stems if stem not in _FUNCTION_STEMS | _UNIT_STEMS and not stem.isdigit()} - unnumbered
        if len(content) > 1:
            sets.append(frozenset(content))
        if not numbered:  # facts that differ in their number only are named in full
            wholes.append(frozenset(stem for stem in stems - _SHORT_STEMS if not stem.isdigit()))
    texts = [fact.name.replace("_", " "), *phrases, *fact.subjects]
    halves = [half for pattern in fact.patterns for half in _list_halves(pattern)]
    vocabulary = frozenset(list_stems(" ".join(texts)))
    keys = tuple(dict.fromkeys(key for key in sets if key))
    if any(word[-1:].isdigit() for key in keys for word in key):
        wholes = []
    else:
        wholes.append(keys[0])
    return _Subject(
        name=fact.name,
        keys=keys,
        phrases=tuple(whole for whole in wholes if len(whole) > 1),
        vocabulary=vocabulary | {stem for key in keys for stem in key},
        name_stems=frozenset(list_stems(" ".join([fact.name.replace("_", " "), *fact.subjects]))),
        pairs=frozenset(
            pair for text in [*halves, *texts[:1], *fact.subjects] for pair in pairwise(map(stem, _WORD.findall(text)))
        ),
        conditions=frozenset(
            word for phrase in phrases for text in re.split(r"\b(?:if|when|while)\b", phrase)[1:] for word in list_stems(text)
        )
        - _FUNCTION_STEMS,
        numbered_families=frozenset(re.sub(r"\d+$", "", word) for key in keys for word in key if re.search(r"\D\d+$", word)),
        value=value,
        unit=_find_unit(fact),
        is_brief=all(_is_brief(phrase.lower().split()) for phrase in phrases),
        has_negation=any("no" in phrase.lower().split() or "nothing" in phrase.lower().split() for phrase in phrases),
        is_outdated=not {"old", "former", "previous"}.isdisjoint(fact.name.split("_")),
    )


def _is_brief(words: Sequence[str]) -> bool:
    """Return whether other sentences contain the words of a text pattern by chance; a verb at their beginning has a subject."""
    return bool(words) and len(words) <= MAX_BRIEF_WORDS and ROLES.get(words[0]) != COPULA


def _find_unit(fact: Fact) -> str:
    """Return the unit of a fact's values: the word behind the group of its first pattern, or the end of its name."""
    _, end = find_group(fact.patterns[0])
    behind = re.match(r"\W*([A-Za-z]+)", fact.patterns[0][end:].replace("\\b", " "))
    words = [*([behind[1].lower()] if behind else []), fact.name.rpartition("_")[2]]
    return next((word for word in words if word in UNITS), "")


class _Candidate(NamedTuple):
    """Part of a clause that has the form of a value."""

    value: str
    start: int
    end: int
    has_unit: bool = False
    """Whether a unit that belongs to the number follows it."""


class _Evidence(NamedTuple):
    """How surely a clause names a fact; the larger one of two wins."""

    is_complete: bool
    """Whether all words of a set of key words stand in the clause."""
    words: int
    """Number of words of the fact in the clause."""
    content: int
    """Number of these words that are no words of grammar."""


class _Reading(NamedTuple):
    """Value that a clause may state for a fact, with the rest of the clause's text."""

    subject: _Subject
    value: _Candidate
    rest: str
    """Text of the clause with spaces in place of its values."""
    evidence: _Evidence


class TolerantStatements:
    """Reader that finds the values of facts in texts that state the facts in other words than the task.

    Results are cached, since the sessions of one task contain mostly equal texts.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._subjects = [subject for fact in facts if (subject := make_subject(fact))]
        self._content = frozenset(word for subject in self._subjects for word in subject.content & subject.name_stems)
        self._harmless = frozenset(word for subject in self._subjects for word in subject.content) - HARMFUL_STEMS
        """Stems of all words that name a fact or stand in a text pattern."""
        self._by_name = {subject.name: subject for subject in self._subjects}
        self._by_stem: dict[str, list[_Subject]] = {}
        for subject in self._subjects:
            for word in {word for key in subject.keys for word in key} | subject.content:
                self._by_stem.setdefault(word, []).append(subject)
        self._shared = frozenset(word for word in self._harmless if len(self._by_stem.get(word, ())) > 1)
        self._near = {word: list(subjects) for word, subjects in self._by_stem.items()}
        for subject in self._subjects:
            for word in {word for phrase in subject.phrases if not phrase & subject.content for word in phrase}:
                self._near.setdefault(word, []).append(subject)
        self.find = lru_cache(maxsize=patterns.MAX_CACHED_TEXTS)(self._find)
        """Function that returns the statements in a text in order, each with the name of the fact, the value and its position."""

    def _find(self, text: str) -> tuple[patterns.FactMatch, ...]:
        end = _find_finished_end(text)
        readable_text = _blank(text, [match.span() for match in _RECORD.finditer(text) if not self._has_subject(match[1])])
        whole = (clause for clause in list_clauses(readable_text) if clause.offset + len(clause.text) <= end)
        matches = {match for clause in whole for match in self._read_clause(clause)}
        return tuple(sorted(matches, key=lambda match: match.offset))

    def is_only_mentioned(self, text: str, match: patterns.FactMatch) -> bool:
        """Return whether a sentence contains the words of a text pattern without stating the value, e.g. as a question.

        The words before a pattern of a few words, such as "ticket is", must be known, because many sentences contain one.
        """
        subject = self._by_name.get(match.name)
        if subject is None:
            return False
        if match.value in _SHORT_WORDS:
            return True
        start = max(text.rfind("\n", 0, match.offset), text.rfind("|", 0, match.offset)) + 1
        end = text.find("\n", match.offset)
        sentence = next(
            (one for one in split_sentences(text[start : end if end >= 0 else len(text)], start) if one.end > match.offset), None
        )
        if sentence is None or sentence.is_question:
            return sentence is not None
        before = text[sentence.start : match.offset]
        if HARMFUL_STEMS & {*list_stems(before)} - subject.vocabulary - _POLITE_STEMS:
            return True
        before = re.sub(r"\d+", " ", before)
        return subject.is_brief and not (
            _is_known(before, subject) and has_stating_shape(_list_roles(f"{before} {VALUE_MARK}", subject, frozenset()))
        )

    def _has_subject(self, line: str) -> bool:
        """Return whether a text contains all words of a set of key words of any fact."""
        stems = frozenset(list_stems(line))
        near = (subject for stem in stems for subject in self._by_stem.get(stem, ()))
        return any(key <= stems for subject in near for key in subject.keys)

    def _read_clause(self, clause: Clause) -> Iterator[patterns.FactMatch]:
        stems = frozenset(list_stems(f"{clause.label} . {clause.text}"))
        near = {subject.name: subject for stem in stems for subject in self._near.get(stem, ())}
        if not near:
            return
        readings = [reading for subject in near.values() if (reading := self._make_reading(clause, subject))]
        # a number belongs to the fact that is named by most words, e.g. to the "second interval" rather than the "interval"
        best = [
            reading
            for reading in readings
            if all(
                reading.evidence > rival.evidence
                for rival in readings
                if rival is not reading and _overlap(reading.value, rival.value)
            )
        ]
        for reading in best:
            others = [other for other in best if other is not reading and other.evidence.is_complete]
            if _is_stated(clause, reading, others, self._harmless, self._shared):
                yield patterns.FactMatch(reading.subject.name, reading.value.value, clause.offset + reading.value.start)

    def _make_reading(self, clause: Clause, subject: _Subject) -> _Reading | None:
        candidates = list(islice(_list_candidates(clause, subject), MAX_CANDIDATES + 1))
        if not candidates or len(candidates) > MAX_CANDIDATES:
            return None
        chosen = _choose(clause, candidates, subject)
        if chosen is None:
            return None
        value, rest = chosen
        if subject.value.is_open and self._names_another(value.value, subject):
            return None
        named = rest if subject.value.is_open and not _names(subject, value.value) else clause.text
        evidence = self._weigh(clause, named, subject, value)
        return _Reading(subject, value, rest, evidence) if evidence else None

    def _names_another(self, value: str, subject: _Subject) -> bool:
        """Return whether a value that is a word consists of the key words of another fact."""
        stems = frozenset(list_stems(value))
        near = (other for word in stems for other in self._by_stem.get(word, ()) if other.name != subject.name)
        return any(key == stems or (len(key) > 1 and key <= stems) for other in near for key in other.keys)

    def _weigh(self, clause: Clause, text: str, subject: _Subject, value: _Candidate) -> _Evidence | None:
        """Return how surely a clause names a fact; None if it does not."""
        own = frozenset(list_stems(f"{clause.label} . {text}"))
        if value.has_unit:
            own |= {stem(subject.unit)}
        stems = own | frozenset(list_stems(clause.remarks)) if clause.remarks else own
        content = subject.content & stems
        words = len(content) + value.has_unit
        complete = [len(key) for key in subject.keys if key <= stems and key & own]
        if complete:
            return _Evidence(True, max(words, *complete), len(content))
        if subject.is_outdated:  # the words that it shares with its successor do not name it
            return None
        share = max((len(phrase & stems) / len(phrase) for phrase in subject.phrases if len(phrase & stems) > 1), default=0)
        if share >= MIN_WHOLE_SHARE:
            return _Evidence(False, words, len(content))
        named = frozenset(list_stems(clause.label)) & self._content
        if not content & (named or own) or any(number in stems for number in subject.numbered_families):
            return None
        if clause.label and _covers(subject, clause.label):
            return _Evidence(False, words, len(content))
        if words > 1 and (clause.label or share >= MIN_PHRASE_SHARE):
            return _Evidence(False, words, len(content))
        is_unique = any(len(self._by_stem[word]) == 1 for word in (content & subject.name_stems) - _ORDINAL_STEMS)
        return _Evidence(False, words, len(content)) if is_unique and (clause.label or not subject.value.is_number) else None


def _overlap(one: _Candidate, other: _Candidate) -> bool:
    return one.start < other.end and other.start < one.end


def _names(subject: _Subject, text: str) -> bool:
    """Return whether a quoted text consists of a fact's name, as in "`draft_tag` is `raw`"."""
    stems = {*list_stems(text)}
    return any(key <= stems for key in subject.keys)


def _covers(subject: _Subject, label: str) -> bool:
    """Return whether a label of several words consists of words of a fact, as in "announcement day"."""
    stems = frozenset(list_stems(label)) - _FUNCTION_STEMS - {"without"}
    return len(stems) > 1 and stems <= subject.vocabulary


def _find_finished_end(text: str) -> int:
    """Return where the finished part of a text ends. A clause that reaches beyond it may be cut off, e.g. by a token limit.

    The last row of a table is unfinished without its last `|`. Other text of several lines is unfinished without punctuation or a
    quotation mark at its end; a text of one line is taken as finished.
    """
    last_line = text.rfind("\n") + 1
    if not last_line:
        return len(text)
    if text.startswith("|", last_line):
        return len(text) if text.rstrip().endswith("|") else last_line
    return len(text) - 1 if text[-1].isalnum() else len(text)


def _blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text with spaces in the given places, so that all positions stay the same."""
    characters = list(text)
    for start, end in spans:
        characters[start:end] = " " * (end - start)
    return "".join(characters)


_ARROW = re.compile(r"(?:→|⇒|➜|-{1,2}>|=>)\s*(?!.*(?:→|⇒|➜|->|=>))")
_BEHIND = re.compile(r"\s+[(\[].*$|,\s.*$|\s+[-–—]\s.*$|\s{2,}.*$")
"""Remark behind a value."""
_ENUMERATION = re.compile(r"^[\s*_]*[a-z-]+,\s+[a-z-]+(?:,|\s+(?:and|or)\b)")
"""Several words in a row, none of which is a value, as in "the client itself: announce, list, ask for one"."""
_LIMIT = re.compile(r"\b(?:than|most|least|exceed|surpass|below|above|beyond|under|over|past)", re.IGNORECASE)
_LEAD = re.compile(r"(?:(?:currently|now|use|set to|is|must be|always|still|stays|remains|exactly)\s+)+", re.IGNORECASE)
"""Words before a value that need no other value."""
_POLITE_STEMS = frozenset({"question", "would", "neighbour", "plan", "vend", "suppli", "candidat", "upstream", "sampl"})
"""Stems of harmful words that requests contain, too, as in "questions go to" and "our neighbours joined"."""
_ADJUNCT = re.compile(
    r"\W*(?:in|on|at|for|under|with|during|within)\s+((?:[^\W\d_]+,?\s+){1,4}?)(?:the|its|our|a|an)\b", re.IGNORECASE
)
"""Words about a place or a case at the beginning of a sentence."""
_ENDINGS = frozenset({"s", "es", "ed", "ing", "ly"})
"""Endings of regular forms of words."""
_CONDITIONS = frozenset({"if", "when", "while"})
"""Words that begin a condition."""
_OLD_BEFORE = re.compile(
    r"\breplac(?:es|ing|ed)\b(?=(?:\s+\w[\w-]*){1,8}$)|\b(?:ignore|forget|disregard|(?:has|have|had) been|used to be"
    r"|instead of|rather than|in place of|no longer|not|previously|formerly|earlier|before"
    r"|originally|initially|was|were|been|from|replac(?:es|ing|ed)|supersed(?:es|ing|ed)|old|former|previous|overrides)\b"
    r"\W*(?:(?:the|it|its|value|of|was|at|be)\b\W*){0,3}$",
    re.IGNORECASE,
)
"""Words before a value that mark it as older than another value in the clause."""
_CONTRAST = re.compile(r"\bbut\W*(?:(?:it|that|this)\b(?:\s+is\b|['’]s\b)?)?\W*(?:now)?\W*$")
"""Words between an older value and a newer one."""
_OLD_AFTER = re.compile(
    r"[\s`\"'*)]*(?:until\b|(?:before|previously|formerly|earlier)(?=[,;.)]|$)|→|⇒|➜|-{1,2}>|=>"
    r"|\((?:old|before|previously|formerly)\)|(?:was|is|has been) (?:replac|supersed|chang)\w+\b)",
    re.IGNORECASE,
)
"""Words behind a value that mark it as older than another value in the clause."""
_REPLACES = re.compile(
    r"\b(?:renam|replac|chang|mov|supersed|switch|updat)\w*\b.*\b(?:to|by|with|into|as)[\s`\"'*]*$|(?:→|⇒|➜|->|=>)[\s`\"'*]*$",
    re.IGNORECASE,
)
"""Words before a value that replaces another one."""
_ORDINAL = re.compile(
    r"\b(?:step|rule|item|point|section|option|chapter|part|fact|requirement|note|phase|round)s?[\s]+$", re.IGNORECASE
)


def _choose(clause: Clause, candidates: Sequence[_Candidate], subject: _Subject) -> tuple[_Candidate, str] | None:
    """Return the value that a clause states, and the clause without its values; None if several values remain.

    The words that mark a value as an older one are taken out, too, where a newer value stands beside it.
    """
    text = clause.text
    if any(one.has_unit for one in candidates):
        candidates = [one for one in candidates if one.has_unit]
    spans = [(one.start, one.end) for one in candidates]
    if len({one.value for one in candidates}) == 1:
        value = candidates[-1]
        if subject.is_outdated and _REPLACES.search(f"{clause.label} {text[: value.start]}"):
            return None
        return value, _blank(text, spans)
    older, newer = list[_Candidate](), list[_Candidate]()
    for one in candidates:
        before = text[: one.start].rstrip(" `\"'*(:=")
        behind, ahead = _OLD_BEFORE.search(before), _OLD_AFTER.match(text, one.end)
        if behind and older and behind.start() < spans[-1][1]:  # e.g. the word "before" in "80 before, 90 now"
            behind = None
        (older if behind or ahead else newer).append(one)
        if behind:
            spans.append(behind.span())
        elif contrast := _CONTRAST.search(text[: one.start]):
            spans.append(contrast.span())
        if ahead:
            spans.append(ahead.span())
    is_renaming = subject.is_outdated and re.search(r"\b(?:renam|replac)\w*|→|⇒|➜|->|=>", text, re.IGNORECASE)
    chosen = older if is_renaming else newer
    if not older or not newer or len({one.value for one in chosen}) != 1:
        return None
    return chosen[-1], _blank(text, spans)


def _list_candidates(clause: Clause, subject: _Subject) -> Iterator[_Candidate]:
    """Yield the parts of a clause that have the form of a value, each with its start and end."""
    text, value = clause.text, subject.value
    if value.is_number:
        for quantity in list_quantities(text):
            has_unit = bool(quantity.unit and subject.unit)
            if quantity.unit and not subject.unit and stem(quantity.unit) not in subject.vocabulary:
                continue
            number = text[quantity.start : quantity.end] if quantity.is_plain and not has_unit else quantity.express(subject.unit)
            if number and value.whole.fullmatch(number) and not _counts_another(text, quantity, number, subject):
                end = text.lower().index(quantity.unit, quantity.end) + len(quantity.unit) if has_unit else quantity.end
                yield _Candidate(number, quantity.start, end, has_unit)
        return
    if not value.is_open:
        for match in value.fragment.finditer(text):
            if match[1] in {"A", "I"} and re.match(r"\s+[a-z]", text[match.end() :]):  # the article or the pronoun
                continue
            yield _Candidate(match[1], match.start(1), match.end(1))
        return
    quoted = list[_Candidate]()
    for match in _QUOTED.finditer(text):
        group = match.lastindex or 0
        content = match[group]
        if (whole := value.whole.fullmatch(content)) and content.lower() not in _NO_VALUES and not _names(subject, content):
            quoted.append(_Candidate(whole[whole.lastindex or 0], match.start(group), match.end(group)))
    yield from quoted
    bare, shift = text, 0
    if arrow := _ARROW.search(text):  # e.g. "from Ito → Tanaka (changed)"
        shift = arrow.end()
        bare = text[shift:]
        older = text[: arrow.start()].strip(" *_`\"'")
        if clause.label and value.whole.fullmatch(older) and not any(one.start < arrow.start() for one in quoted):
            start = text.find(older)
            yield _Candidate(older, start, start + len(older))
    if _ENUMERATION.match(bare):
        return
    bare = _BEHIND.sub("", bare).strip(" .*_`\"'")
    bare = _LEAD.sub("", bare)
    if {*list_stems(bare)} <= subject.vocabulary | _FUNCTION_STEMS:  # e.g. "operator: the operator"
        return
    if clause.label and (whole := value.whole.fullmatch(bare)) and bare.lower() not in _NO_VALUES:
        start = text.find(bare, shift)
        candidate = _Candidate(whole[whole.lastindex or 0], start, start + len(bare))
        if not any(_overlap(candidate, other) for other in quoted):
            yield candidate
    elif final := re.search(r"\b(?:is|be|was|to|by|as|called|named)\s+(?:now\s+|currently\s+)?([^\W\d_]\S*?)[.*_)]*$", text):
        bare = final[1]
        if re.search(r"[A-Z\d_]", bare) and value.whole.fullmatch(bare) and bare.lower() not in _NO_VALUES:
            yield _Candidate(bare, final.start(1), final.end(1))


def _counts_another(text: str, quantity: Quantity, number: str, subject: _Subject) -> bool:
    """Return whether a number belongs to a word beside it, as in "step 3", "3 files" or, for "stage 1", in "stage 1"."""
    behind = re.match(r"[\s`\"'*)-]*([^\W\d_]+)", text[quantity.end :])
    if behind and not (quantity.unit and subject.unit) and stem(behind[1]) not in subject.vocabulary:
        if behind[1].lower() not in KNOWN_WORDS - COUNTED_WORDS | TURNING_WORDS:
            return True
        unit = re.match(r"[\s`\"'*)-]*[^\W\d_]+[\s-]+([^\W\d_]+)", text[quantity.end :])  # e.g. "6 working days"
        if unit and stem(unit[1]) in _UNIT_STEMS - subject.vocabulary:
            return True
    before = re.search(r"([^\W\d_]+)[\s_-]?$", text[: quantity.start])
    if before is None:
        return False
    if stem(before[1]) + number in subject.vocabulary or (
        len(number) == 1
        and quantity.is_plain
        and not behind
        and not _OLD_AFTER.match(text, quantity.end)
        and stem(before[1]) not in _FUNCTION_STEMS
    ):
        return True
    return bool(_ORDINAL.search(text[: quantity.start])) and stem(before[1]) not in subject.content


def _is_stated(
    clause: Clause, reading: _Reading, others: Sequence[_Reading], harmless: frozenset[str], shared: frozenset[str]
) -> bool:
    """Return whether the words around a value are known, and form a statement.

    `harmless` are the stems of the words of all facts, `shared` those of words that several facts have.
    """
    subject = reading.subject
    rest = _blank(reading.rest, [other.value[1:3] for other in others])
    if HARMFUL_PHRASES.search(clause.label) or HARMFUL_PHRASES.search(rest):
        return False
    if clause.context and HARMFUL_STEMS & {*list_stems(HARMLESS_PHRASES.sub(" ", clause.context))} - subject.vocabulary:
        return False
    known = frozenset(word for other in others for word in other.subject.vocabulary)
    if reading.evidence.words > 1:
        known |= harmless
    elif clause.label and reading.evidence.is_complete:
        known |= shared
    if not _is_known(f"{clause.label} : {rest}", subject, known) or _is_elsewhere(rest, subject):
        return False
    if clause.remarks and not _is_known(clause.remarks, subject, known, with_numbers=True):
        return False
    if clause.following and not _is_known(clause.following, subject) and not _is_about_older(clause.following, subject):
        return False
    return _has_stating_shape(clause.label, rest, reading, known)


def _is_elsewhere(text: str, subject: _Subject) -> bool:
    """Return whether a sentence begins with a place or a case that is not the fact's own, as in "on staging the port is 80"."""
    adjunct = _ADJUNCT.match(text)
    return adjunct is not None and not _is_known(adjunct[1], subject)


def _has_stating_shape(label: str, rest: str, reading: _Reading, others: frozenset[str]) -> bool:
    """Return whether a clause with its label is built like a statement of the value."""
    value = reading.value
    text = f"{label} : {rest[: value.start]}{VALUE_MARK}{rest[value.end :]}"
    return has_stating_shape(_list_roles(text, reading.subject, others))


def _list_roles(text: str, subject: _Subject, others: frozenset[str]) -> str:
    def is_own(before: str, word: str, behind: str) -> bool:
        root = stem(word)
        if word in TURNING_WORDS:  # the other check has refused those that are not of the fact
            return True
        if ROLES.get(word) == OTHER and root not in subject.content:
            return (stem(before), root) in subject.pairs or (root, stem(behind)) in subject.pairs
        return root in subject.vocabulary or root in others or (word not in ROLES and _is_known_form(word, root))

    return list_roles(HARMLESS_PHRASES.sub(_mark_limit, _CAMEL.sub(" ", text)), is_own)


def _mark_limit(match: re.Match[str]) -> str:
    return LIMIT_MARK if _LIMIT.search(match[0]) else " "


def _is_about_older(text: str, subject: _Subject) -> bool:
    """Return whether a sentence that refers to a statement tells only an older value, as in "it was 80 before"."""
    return any(_OLD_BEFORE.search(text[: one.start].rstrip(" `\"'*(:=")) for one in _list_candidates(Clause(text, 0), subject))


def _is_known(text: str, subject: _Subject, others: frozenset[str] = frozenset(), *, with_numbers: bool = False) -> bool:
    """Return whether a text consists of words of a fact and of words that turn no statement."""
    if _UNKNOWN_MARK.search(text):
        return False
    previous = ""
    words = [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", HARMLESS_PHRASES.sub(" ", text)))]
    stems = [*map(stem, words), ""]
    for at, word in enumerate(words):
        root = stems[at]
        if stems[at + 1] == "s" and word not in KNOWN_WORDS and root not in subject.vocabulary:  # the value is of somebody else
            return False
        if word in TURNING_WORDS:
            # a condition of the fact itself, as in "if no card is due"
            is_own_condition = word in _CONDITIONS and _begins_with_one_of(subject.conditions, stems[at + 1 :])
            is_own_condition |= word == "without" and stems[at + 1] in subject.content and subject.has_negation
            is_own_condition |= previous in _CONDITIONS and word in {"no", "nothing"} and bool(subject.conditions)
            if not is_own_condition and (previous, root) not in subject.pairs and (root, stems[at + 1]) not in subject.pairs:
                return False
        elif word.isdigit():
            if not with_numbers and root not in subject.vocabulary:
                return False
        elif (subject.value.is_number and root in _UNIT_STEMS and root not in subject.vocabulary) or (
            word not in KNOWN_WORDS and root not in subject.vocabulary and not _is_known_form(word, root) and root not in others
        ):
            return False
        previous = root
    return True


def _is_known_form(word: str, root: str) -> bool:
    """Return whether a word is a regular form of a known word; "factory" is none of "fact", though they share their stem."""
    return root in KNOWN_WORDS and word not in FOREIGN_WORDS and word.removeprefix(root) in _ENDINGS


def _begins_with_one_of(wanted: frozenset[str], stems: Sequence[str]) -> bool:
    """Return whether the first of several stems that is no word of grammar is a wanted one."""
    return next((stem in wanted for stem in stems if stem not in _FUNCTION_STEMS), False)


@lru_cache(maxsize=patterns.MAX_CACHED_TASKS)
def compile_tolerant_statements(facts: tuple[Fact, ...]) -> TolerantStatements:
    """Return the tolerant reader for a task's facts; equal facts share one object in a process."""
    return TolerantStatements(facts)


def find_newest(matches: Sequence[patterns.FactMatch]) -> tuple[patterns.FactMatch, ...]:
    """Return the last match of each fact, in the order of their first matches."""
    newest: dict[str, patterns.FactMatch] = {}
    for match in sorted(matches, key=lambda match: match.offset):
        newest[match.name] = match
    return tuple(newest.values())
