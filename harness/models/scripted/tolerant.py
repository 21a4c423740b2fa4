"""Tolerant reading: finds the value of a fact in a text that states the fact in other words than the task, e.g. in a summary.

A statement is a clause (see `statements`) that names the subject of a fact and contains one value of the fact's type. A clause
names the subject if it has all words of one of the sets of key words, or most words of one of the text patterns. By default
there is one set for the name of the fact, and one for each of its text patterns. The group of the first pattern gives the type of
the value, so the author of a task declares nothing twice. Numbers are also read in words and in other units.

Precision comes before recall. A value is not read in these cases:

- The clause names something else before the value, or between the value and the subject.
- Words negate the value, mark it as outdated, or attribute it to somebody else, another project, or a case that is not real.
- A noun of another subject or another unit follows a number.
- Two values remain.
- The value stands in a record of something else: lines like "interval: 10" below a line like "stop: harbour".
- The text has several lines and ends within the clause, like a summary that was cut off at its limit.

Words within quotation marks or back-ticks are values and never count as such marks. The word lists below contain English words of
grammar and of projects in general, and no words of particular tasks.

The result depends on the text alone. Text that the exact patterns match is treated like any other text; callers combine both
readings, and the later one in the text counts.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from harness.errors import UsageError
from harness.models.scripted import patterns
from harness.models.scripted.quantities import UNITS, list_quantities
from harness.models.scripted.statements import Clause, list_clauses
from harness.task import Fact

MAX_FOREIGN_WORDS = 2
"""Maximum number of words of another subject before a value, if the clause contains at least two key words of the fact."""
MAX_CANDIDATES = 30
"""Maximum number of possible values in a clause that states a fact; a longer enumeration states none."""
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
_STALE_BEFORE = frozenset(
    (
        *("former", "formerly", "previous", "previously", "old", "older", "originally", "initially", "another", "other"),
        *(
            "elsewhere",
            "except",
            "unlike",
            "earlier",
            "obsolete",
            "outdated",
            "wrong",
            "without",
            "deprecated",
            "rejected",
            "instead",
        ),
    )
)
"""Words before a value that mark it as outdated, or as the value of something else."""
_NEGATED = re.compile(r"\b(?:not|never|neither|nor|n't|than)(?: (?:be|called|named|to|as|with|at))?[\s`\"'*:]*$", re.IGNORECASE)
_COMPARED = re.compile(r"\b(?:more|less|fewer|later|longer|other|higher|lower) than[\s`\"'*:]*$", re.IGNORECASE)
_STALE_AFTER = re.compile(
    r"\b(?:closed|former|formerly|obsolete|outdated|deprecated|superseded|rejected|wrong|anymore|previously|earlier|once"
    r"|not valid|no longer)\b",
    re.IGNORECASE,
)
"""Words shortly after a value that mark it as outdated, unless they belong to the next value."""
NEAR_CHARACTERS = 40
"""Number of characters after a value in which a word can mark it as outdated."""
_NO_VALUES = frozenset(
    (
        *("none", "unknown", "pending", "tbd", "yes", "no", "true", "false", "done", "required", "same", "missing", "null"),
        *("unspecified", "undefined", "defined", "set", "here", "this", "that", "it", "complete", "completed"),
        *("string", "integer", "number", "word", "todo", "value", "optional", "open", "used", "unchanged", "is", "the"),
    )
)
"""Words that say that there is no value, or what kind of value there is."""
_UNREAL_WORDS = (
    *("if", "whether", "unless", r"suppos\w+", r"assum\w+", "imagine", "maybe", "perhaps", "might", "could have", r"suggest\w*"),
    *(
        r"would(?! like\b| rather\b| prefer\b)",
        r"propos\w*",
        r"guess\w*",
        "considered",
        "considering",
        r"recommend\w*",
        "used to",
    ),
    *("(?:before|earlier|previously),? it", r"hypothetical\w*", r"alternatives?", "discarded", "rejected", "superseded"),
    *(
        "not sure",
        "at first",
        "in case",
        "idea",
        "asked for",
        "mentioned",
        "possible",
        "mistaken",
        "mistook",
        "demo",
        r"had\b.*\bbeen",
        "unclear",
        "competitor",
        r"rivals?",
        "colleague",
        "example",
    ),
)
_UNREAL = re.compile(rf"\b(?:{'|'.join(_UNREAL_WORDS)})\b", re.IGNORECASE)
"""Words before a value which say that it does not hold, or holds elsewhere."""
_UNREAL_AFTER = re.compile(
    r"\b(?:(?:was|were|been) (?:considered|suggested|proposed|discussed|tried|guessed)|or something else|fail(?:s|ed)\b"
    r"|would have|would fail|worked|turned down|dismissed|(?:is|was|are) (?:forbidden|wrong|impossible|ruled out)"
    r"|(?:of|in|for|by) (?:an?|the )?(?:other|another|former|old)\b)",
    re.IGNORECASE,
)
"""Words behind a value which say that it does not hold, or holds elsewhere."""
_OWNING_VERBS = ("uses", "has", "have", "had", "wants", "prefers", "runs")
_OWNER = re.compile(
    rf"\b(?:the|an?|our|their|his|her|some) (?:[^\W\d_]+ )?([^\W\d_]+) (?:{'|'.join(_OWNING_VERBS)})\b(?! been\b| to\b)"
    r"|\b([^\W\d_]+)['’]s\b",
    re.IGNORECASE,
)
"""Somebody or something that has the value."""
_REFUSED = re.compile(
    r"\b(?:not|never|cannot|avoid\w*|forb[ia]d\w*|refus\w*|neither|nor|no longer|nobody (?:wants|likes|asked))\b|n['’]t\b",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"\b(?:than|exceed\w*|below|above|beyond|under|over|before|after|until|without|unless|as)\b(?!\s+\w+\s*$)|\bthan\b",
    re.IGNORECASE,
)
"""Words between a negation and a value that make the value a limit."""
MAX_REFUSED_WORDS = 10
"""Maximum number of words between a negation and the value that it refuses."""
_UNITS = frozenset(
    ("seconds", "minutes", "hours", "days", "weeks", "months", "years", "ms", "milliseconds", "kib", "bytes", "feet")
)
_ALIASES = {"maximum": "max", "license": "licence", "identifier": "id", "ids": "id"}
_NUMBER_PATTERNS = re.compile(r"\\d[+*]?|\\d\{[\d,]+\}|(?:\\d)+")
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9]{2})(?=[A-Z][a-z])")
_NUMBERED = re.compile(r"([^\W\d_]+)[\s_-]?(\d+)\b")
_RECORD = re.compile(r"(?<!`{3}yaml\n)(?<!`{3}yml\n)^([a-z][a-z\d -]*: .*)\n(?:[a-z][a-z\d -]*: .*(?:\n|\Z))+", re.MULTILINE)
"""Lines with a name in lower case and a value, like in the output of a program; the first one says what the record is about."""
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”|\*\*([^*\n]+)\*\*|'([^'\n]+)'")
_NEWER = re.compile(r"(?:\b(?:now|currently|to|new|updated|into|became|by|but)|→|⇒|->|=>)[\s`\"'*:]*$", re.IGNORECASE)
_OLDER = re.compile(r"\b(?:was|were|from|had been)[\s`\"'*:]*$", re.IGNORECASE)


def stem(word: str) -> str:
    """Return the beginning (stem) that the forms of a word share, e.g. `cop` for copy and copies, by a rough rule."""
    word = _ALIASES.get(word.lower(), word.lower())
    for endings in (("s",), ("ing", "ed"), ("ie", "al", "or", "er", "y", "e")):
        ending = next((ending for ending in endings if word.endswith(ending) and len(word) - len(ending) >= 3), "")
        if ending and not word.endswith("ss"):
            word = word.removesuffix(ending)
            if ending in {"ing", "ed"} and len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":  # e.g. "tagged"
                word = word[:-1]
    return word


_FUNCTION_STEMS = frozenset(map(stem, _FUNCTION_WORDS))
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
    value: _ValueType
    unit: str
    """Unit of the value that can be converted, e.g. `seconds`; empty if there is none."""
    is_revised: bool
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
    vocabulary = frozenset(list_stems(" ".join([fact.name.replace("_", " "), *phrases, *fact.subjects])))
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
        value=value,
        unit=_find_unit(fact),
        is_revised=fact.is_superseded,
        is_outdated=not _STALE_BEFORE.isdisjoint(fact.name.split("_")),
    )


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


class TolerantStatements:
    """Reader that finds the values of facts in texts that state the facts in other words than the task.

    Results are cached, since the sessions of one task contain mostly equal texts.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._subjects = [subject for fact in facts if (subject := make_subject(fact))]
        self._by_stem: dict[str, list[_Subject]] = {}
        for subject in self._subjects:
            for stem in {min(key) for key in subject.keys} | {stem for key in subject.phrases for stem in key & subject.content}:
                self._by_stem.setdefault(stem, []).append(subject)
        self.find = lru_cache(maxsize=patterns.MAX_CACHED_TEXTS)(self._find)
        """Function that returns the statements in a text in order, each with the name of the fact, the value and its position."""

    def _find(self, text: str) -> tuple[patterns.FactMatch, ...]:
        end = _find_finished_end(text)
        readable_text = _blank(text, [match.span() for match in _RECORD.finditer(text) if not self._has_subject(match[1])])
        whole = (clause for clause in list_clauses(readable_text) if clause.offset + len(clause.text) <= end)
        matches = {match for clause in whole for match in self._read_clause(clause)}
        return tuple(sorted(matches, key=lambda match: match.offset))

    def _has_subject(self, line: str) -> bool:
        """Return whether a text contains all words of a set of key words of any fact."""
        stems = frozenset(list_stems(line))
        near = (subject for stem in stems for subject in self._by_stem.get(stem, ()))
        return any(key <= stems for subject in near for key in subject.keys)

    def _read_clause(self, clause: Clause) -> Iterator[patterns.FactMatch]:
        stems = frozenset(list_stems(f"{clause.label} . {clause.text}"))
        near = {subject.name: subject for stem in stems for subject in self._by_stem.get(stem, ())}
        if not near:
            return
        labelled = frozenset(list_stems(clause.label)) - _FUNCTION_STEMS if clause.label else frozenset()
        read = list[tuple[tuple[bool, int], str, _Candidate]]()
        for subject in near.values():
            full = [key for key in subject.keys if key <= stems]
            keys = full or _list_partial_keys(subject, stems, labelled)
            if keys and (value := _find_value(clause, subject, keys, is_partial=not full)):
                if clause.text.lower().startswith("the setting") and self._names_another(
                    value.value, subject
                ):  # e.g. "the setting `max_days` is 30"
                    continue
                read.append(((bool(full), max(len(key & stems) for key in keys)), subject.name, value))
        for rank, name, value in read:
            # a number belongs to the fact that is named by most words, e.g. to the "second interval" rather than the "interval"
            rivals = [others for others, rival, other in read if other.start == value.start and rival != name]
            if all(rank > others or (rank == others and rank[0]) for others in rivals):
                yield patterns.FactMatch(name, value.value, clause.offset + value.start)

    def _names_another(self, value: str, subject: _Subject) -> bool:
        """Return whether a value that is a word consists of the key words of another fact."""
        if not subject.value.is_open:
            return False
        stems = frozenset(list_stems(value))
        near = (other for stem in stems for other in self._by_stem.get(stem, ()) if other.name != subject.name)
        return len(stems) > 1 and any(key <= stems and len(key) > 1 for other in near for key in other.keys)


def _list_partial_keys(subject: _Subject, stems: frozenset[str], labelled: frozenset[str]) -> list[frozenset[str]]:
    """Return the words of a clause that name a fact although no set of key words is complete; nothing if they are too few."""
    if labelled and labelled <= subject.vocabulary and len(labelled & subject.content) > 1:
        return [labelled & subject.content]
    if subject.unit and stems & _UNIT_STEMS:  # another unit, e.g. "minutes", stands for that of the phrase
        stems = stems | {stem(subject.unit)}
    shares = [phrase & stems for phrase in subject.phrases if len(phrase & stems) >= max(2, MIN_PHRASE_SHARE * len(phrase))]
    return [words for words in shares if words & subject.content]


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


def _find_value(clause: Clause, subject: _Subject, keys: Sequence[frozenset[str]], *, is_partial: bool) -> _Candidate | None:
    """Return the only value of a fact in a clause and its position; None if there are no or several values."""
    values = list[_Candidate]()
    candidates = list(islice(_list_candidates(clause, subject), MAX_CANDIDATES + 1))
    if not candidates or len(candidates) > MAX_CANDIDATES:
        return None
    plain = _blank(clause.text, [one[1:3] for one in candidates])
    unquoted = _QUOTED.sub(lambda match: match[0] if match[4] else " " * len(match[0]), plain)
    description = _blank(clause.text, [one[1:3] for one in candidates if _is_open_value(one.value, subject)])
    for candidate in candidates:
        _, start, end, _ = candidate
        other_stems = frozenset(list_stems(f"{clause.label} . {description[:start]} . {description[end:]}"))
        if candidate.has_unit:
            other_stems |= {stem(subject.unit)}
        key_count = max((len(key - _FUNCTION_STEMS) for key in keys if key <= other_stems), default=-1)
        max_foreign_words = MAX_FOREIGN_WORDS if key_count > 1 and not clause.label and not is_partial else 0
        if not is_partial and not clause.label and (key_count > 1 or not (subject.value.is_open or subject.value.is_number)):
            # "ticket AB-1": the noun right before the value names it, whatever the sentence tells
            max_foreign_words += MAX_FOREIGN_WORDS if _is_adjacent(plain[:start], subject) else 0
        arrow = _ARROW.search(plain[:start]) if clause.label else None
        foreign = _count_foreign(f"{clause.label} {plain[arrow.end() if arrow else 0 : start]}", subject)
        if key_count < 0 or foreign > max_foreign_words or not _is_current(clause, unquoted, candidate, subject):
            continue
        is_replacement = subject.is_outdated and _NEWER.search(clause.text[:start])  # e.g. "renamed to `b`" for the old name
        if is_replacement or _describes_another(clause, keys, end, subject) or _is_separated(clause, keys, start, end, subject):
            continue
        values.append(candidate)
    if len({one.value for one in values}) > 1:
        newer = [one for one in values if _NEWER.search(clause.text[: one.start])]
        older = [one for one in values if _OLDER.search(clause.text[: one.start])]
        values = newer if len({one.value for one in newer}) == 1 else [one for one in values if one not in older] if older else []
    elif values and subject.is_revised and _OLDER.search(clause.text[: values[0].start]):
        return None
    return values[-1] if len({one.value for one in values}) == 1 else None


def _is_adjacent(before: str, subject: _Subject) -> bool:
    """Return whether the word right before a value is a noun of the subject."""
    word = re.search(r"([^\W\d_]+)[\s`\"'*:(]*$", before)
    return word is not None and stem(word[1]) in subject.content


def _is_open_value(text: str, subject: _Subject) -> bool:
    """Return whether a quoted text can only be a value, so that its words do not say what the clause is about.

    For example, "the tag `draft` in `tags`" is not about a fact `draft_tag`, but "`draft_tag` is `raw`" is.
    """
    return subject.value.is_open and not any(key <= {*list_stems(text)} for key in subject.keys)


def _blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text with spaces in the given places, so that all positions stay the same."""
    characters = list(text)
    for start, end in spans:
        characters[start:end] = " " * (end - start)
    return "".join(characters)


def _describes_another(clause: Clause, keys: Sequence[frozenset[str]], end: int, subject: _Subject) -> bool:
    """Return whether a value under the label of a fact begins a statement about something else.

    An example is "folder: `a` keeps the name": the word after the value is no word of the fact or of grammar.
    """
    following = re.match(r"[`\"'*]*\s+([^\W\d_]+)", clause.text[end:])
    stems = frozenset(list_stems(clause.text))
    if not clause.label or following is None or any(key <= stems for key in keys):
        return False
    return stem(following[1]) not in subject.vocabulary | _FUNCTION_STEMS | _UNIT_STEMS


def _is_separated(clause: Clause, keys: Sequence[frozenset[str]], start: int, end: int, subject: _Subject) -> bool:
    """Return whether something else stands between a value and the key words after it.

    An example is "the `compat` module keeps the old name", where `compat` is not the old name.
    """
    before = f"{clause.label} . {clause.text[:start]}"
    for match in _WORD.finditer(clause.text, end):
        stems = frozenset(list_stems(f"{before} . {clause.text[end : match.end()]}"))
        if any(key <= stems for key in keys):
            return False
        if stem(match[0]) not in subject.vocabulary | _FUNCTION_STEMS | _UNIT_STEMS:
            return True
    return False


_ARROW = re.compile(r"(?:→|⇒|->|=>)\s*(?!.*(?:→|⇒|->|=>))")
_BEHIND = re.compile(r"\s+\(.*$|,\s.*$")
"""Remark behind a value."""


def _list_candidates(clause: Clause, subject: _Subject) -> Iterator[_Candidate]:
    """Yield the parts of a clause that have the form of a value, each with its start and end."""
    text, value = clause.text, subject.value
    if value.is_number:
        for quantity in list_quantities(text):
            number = (
                text[quantity.start : quantity.end] if quantity.is_plain and not quantity.unit else quantity.express(subject.unit)
            )
            if number and value.whole.fullmatch(number):
                yield _Candidate(number, quantity.start, quantity.end, bool(quantity.unit and subject.unit))
        return
    if not value.is_open:
        for match in value.fragment.finditer(text):
            yield _Candidate(match[1], match.start(1), match.end(1))
        return
    for match in _QUOTED.finditer(text):
        content = match[match.lastindex or 0]
        if (whole := value.whole.fullmatch(content)) and content.lower() not in _NO_VALUES:
            yield _Candidate(whole[whole.lastindex or 0], match.start(match.lastindex or 0), match.end(match.lastindex or 0))
    bare = text.strip(" .*_`\"'")
    if {*list_stems(bare)} <= subject.vocabulary | _FUNCTION_STEMS:  # e.g. "operator: the operator"
        return
    shift = 0
    if arrow := _ARROW.search(text):  # e.g. "from Ito → Tanaka (changed)"
        shift = arrow.end()
        bare = _BEHIND.sub("", text[shift:]).strip(" .*_`\"'")
    is_listed = clause.following.startswith(",") and bare.isalpha() and bare.islower()  # e.g. "the client: announce, list, ask"
    if clause.label and not is_listed and (whole := value.whole.fullmatch(bare)) and bare.lower() not in _NO_VALUES:
        start = text.find(bare, shift)
        yield _Candidate(whole[whole.lastindex or 0], start, start + len(bare))
    elif final := re.search(r"\b(?:is|be|was|to|called|named)\s+(?:now\s+|currently\s+)?([^\W\d_]\S*?)[.*_]*$", text):
        bare = final[1]
        if bare != bare.lower() and value.whole.fullmatch(bare) and bare.lower() not in _NO_VALUES:
            yield _Candidate(bare, final.start(1), final.end(1))


def _count_foreign(text: str, subject: _Subject) -> int:
    """Count the words of a text that belong neither to the fact nor to grammar; a quoted text is one word."""

    def replace(match: re.Match[str]) -> str:
        content = match[match.lastindex or 0]
        is_key = match[4] or not content.strip() or subject.vocabulary.issuperset({*list_stems(content)} - _FUNCTION_STEMS)
        return f" {content} " if is_key else " quotedtext "

    stems = [word for word in list_stems(_QUOTED.sub(replace, text)) if not word[-1].isdigit()]
    if not subject.value.is_number:  # e.g. the "opening day"
        stems = [word for word in stems if word not in _UNIT_STEMS]
    return sum(word not in subject.vocabulary and word not in _FUNCTION_STEMS for word in stems)


def _is_current(clause: Clause, plain: str, candidate: _Candidate, subject: _Subject) -> bool:
    """Return whether a value is stated as the present one of the subject, and is no number of something else.

    Args:
        clause: Clause with the value.
        plain: Text of the clause with spaces in place of quoted words and values.
        candidate: Value in question.
        subject: Subject of the fact.
    """
    _, start, end, _ = candidate
    before, after = plain[:start], plain[end:]
    vocabulary = subject.content
    if _NEGATED.search(clause.text[:start]) and not _COMPARED.search(before):
        return False
    if _is_refused(before, vocabulary):
        return False
    if clause.introduction and _count_foreign(clause.introduction, subject):
        return False
    if _ROLE.match(clause.text[end:]) and not _TAKEN.search(before):  # "with `x` as the name" is no statement
        return False
    lead = f"{clause.introduction} {clause.label} {before}"
    for pattern in (_UNREAL, _UNREAL_AFTER):
        text = f"{clause.context} {lead}" if pattern is _UNREAL else after + clause.following
        if any(stem(match[0]) not in vocabulary for match in pattern.finditer(text)):
            return False
    if (owner := _OWNER.search(lead)) and stem(owner[1] or owner[2]) not in subject.vocabulary | _FUNCTION_STEMS | _UNIT_STEMS:
        return False
    earlier = (word.lower() for word in _WORD.findall(lead))
    if any(word in _STALE_BEFORE and stem(word) not in vocabulary for word in earlier):
        return bool(_COMPARED.search(before))
    later = (clause.text[end:] + clause.following)[:NEAR_CHARACTERS]
    for match in _STALE_AFTER.finditer(later):
        belongs_to_next = re.match(r"(?: (?:of|was|were))?[\s:`\"'*]*[`\"'*\d]", later[match.end() :])
        if not belongs_to_next and stem(match[0]) not in vocabulary:
            return False
    if not subject.value.is_number or candidate.has_unit:
        return True
    return _counts_subject(clause.text[:start], clause.text[start:end], clause.text[end:], subject)


_ROLE = re.compile(r"[`\"'*]*\s+as (?:the|a|an|our|its)\b")
"""Words behind a value that give it a role."""
_TAKEN = re.compile(
    r"(?:^|\b(?:we|i|it|user|agreed on|chose|chosen|use|used|using|set|take|took|settled on|sends?))\W*\w*\W*$",
    re.IGNORECASE,
)
"""Words before a value "as" something that state it as chosen."""


def _is_refused(before: str, vocabulary: frozenset[str]) -> bool:
    """Return whether the words before a value refuse it, as in "do not use"; "must not fall below" states a limit."""
    negations = list(_REFUSED.finditer(before))
    if not negations:
        return False
    between = before[negations[-1].end() :]
    if stem(negations[-1][0]) in vocabulary or _LIMIT.search(between) or re.search(r"[,:;.]\s|\bbut\b", between):
        return False
    return len(between.split()) <= MAX_REFUSED_WORDS


def _counts_subject(before: str, number: str, after: str, subject: _Subject) -> bool:
    """Return whether a number belongs to the subject, and not to a word beside it as in "3 files" or "step 3"."""
    unit = re.match(r"[\s`\"'*)\]-]*[^\W\d_]+[\s-]+([^\W\d_]+)", after)  # e.g. "6 working days"
    if unit and stem(unit[1]) in _UNIT_STEMS - subject.vocabulary:
        return False
    following = re.match(r"[\s`\"'*)\]-]*((?:(?:new|other|more|old|further|additional)\s+)?[^\W\d_]+)", after)
    nouns = list(map(stem, following[1].split())) if following else []
    if any(noun not in subject.vocabulary and noun not in _FUNCTION_STEMS for noun in nouns):
        return False
    last = re.search(r"([^\W\d_]+)[\s_-]?$", before)
    if last is None or stem(last[1]) in _FUNCTION_STEMS:
        return True
    if stem(last[1]) not in subject.vocabulary:
        return any(noun in subject.vocabulary - _FUNCTION_STEMS for noun in nouns)
    return stem(last[1]) + number not in subject.vocabulary and (len(number) > 1 or bool(nouns))


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
