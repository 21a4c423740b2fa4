"""Tolerant reading: finds the value of a fact in a text that states the fact in other words than the task, e.g. in a summary.

A statement is a clause that contains the subject of a fact and one value of the fact's type. Clauses are the parts of a sentence,
a list item or a row of a table. A clause contains the subject if it has all words of one of the fact's sets of key words. By
default there is one set for the name of the fact, and one for each of its text patterns. The group of the first pattern gives the
type of the value, so the author of a task declares nothing twice.

Precision comes before recall. A value is not read in these cases:

- The clause names something else before the value, or between the value and the subject.
- Words such as "not" or "formerly" negate the value or mark it as outdated.
- A noun of another subject or another unit follows a number.
- Two values remain.
- The value stands in a record of something else: lines like "interval: 10" below a line like "stop: harbour".
- The text has several lines and ends within the clause, like a summary that was cut off at its limit.

The word lists below contain English words of grammar and of projects in general, and no words of particular tasks.

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
from harness.task import Fact

MAX_FOREIGN_WORDS = 2
"""Maximum number of words of another subject before a value, if the clause contains at least two key words of the fact."""
MAX_CANDIDATES = 30
"""Maximum number of possible values in a clause that states a fact; a longer enumeration states none."""
MAX_LABEL_WORDS = 8
"""Maximum number of words in a label: the text before a colon, or a table cell that says what the next cell contains."""
MAX_LABELS = 10
"""Maximum number of labels in a sentence, as in "decisions: storage: folder: `a`"; after more labels, no value is read."""
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
        *("constraints", "key", "stated", "reads", "listed", "see", "instead", "rather", "previously", "formerly"),
        *("remain", "chosen", "please", "show", "shown", "shows", "state", "states", "exact", "exactly", "literal", "whatever"),
    )
)
"""Words that name no subject: grammar, verbs that introduce a value, and words about projects in general."""
_STALE_BEFORE = frozenset(
    (
        *("former", "formerly", "previous", "previously", "old", "older", "originally", "initially", "another", "other"),
        *("except", "unlike", "earlier", "obsolete", "outdated", "wrong", "without", "deprecated", "rejected", "instead"),
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
_UNITS = frozenset(
    ("seconds", "minutes", "hours", "days", "weeks", "months", "years", "ms", "milliseconds", "kib", "bytes", "feet")
)
_ALIASES = {"maximum": "max", "license": "licence", "identifier": "id"}
_NUMBER_PATTERNS = re.compile(r"\\d[+*]?|\\d\{[\d,]+\}|(?:\\d)+")
_WORD = re.compile(r"[^\W_]+")
_NUMBERED = re.compile(r"([^\W\d_]+)[\s_-]?(\d+)\b")
_ITEM = re.compile(r"[\s>]*(?:(?:[-*+•]|\d+[.)])\s+)*(?:\[[ xX]?\]\s*)?")
_SENTENCE_END = re.compile(r"(?<=[.!?])[*_]*\s+(?=[^a-z])|\s*;\s+")
_CLAUSE_END = re.compile(
    r"(?:,\s+|\s+[-–—]\s+|\s+(?:but|because|whereas|although|which|and|while)\s+)"
    r"(?!(?:but |and |is |it is )?(?:now|not|then)\b|[`\"'*]*\S*\d)"
)
_LABEL_END = re.compile(r"\s*(?::|=|→|->|=>)[*_`]*(?=\s|$)|\s+(?:[-–—]|=|→|->)\s+")
_RECORD = re.compile(r"^([a-z][\w -]*: .*)\n(?:[a-z][\w -]*: .*(?:\n|\Z))+", re.MULTILINE)
"""Lines with a name in lower case and a value, like in the output of a program; the first one says what the record is about."""
_PARENTHESIS = re.compile(r"(?<!`)\(([^()]*)\)(?!`)")
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”|\*\*([^*\n]+)\*\*|'([^'\n]+)'")
_NEWER = re.compile(r"(?:\b(?:now|currently|to|new|updated|into|became|by)|→|->|=>)[\s`\"'*:]*$", re.IGNORECASE)
_OLDER = re.compile(r"\b(?:was|were|from|had been)[\s`\"'*:]*$", re.IGNORECASE)


def stem(word: str) -> str:
    """Return the beginning (stem) that the forms of a word share, e.g. `cop` for copy and copies, by a rough rule."""
    word = _ALIASES.get(word.lower(), word.lower())
    for endings in (("s",), ("ie", "ing", "ed", "al", "or", "er", "y", "e")):
        ending = next((ending for ending in endings if word.endswith(ending) and len(word) - len(ending) >= 3), "")
        word = word.removesuffix(ending) if not word.endswith("ss") else word
    return word


_FUNCTION_STEMS = frozenset(map(stem, _FUNCTION_WORDS))
_UNIT_STEMS = frozenset(map(stem, _UNITS))


def list_stems(text: str) -> list[str]:
    """Return the stems of all words of a text in order, followed by those of words before a number.

    The latter are joined with the number.
    """
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
    vocabulary: frozenset[str]
    value: _ValueType
    is_revised: bool
    is_outdated: bool
    """Whether the fact is a value that another one replaces, e.g. the old name of a function."""


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
    for phrase in phrases:
        stems = frozenset(list_stems(phrase))
        numbered = {stem for stem in stems if re.search(r"\D\d+$", stem)}
        content = {stem for stem in stems if stem not in _FUNCTION_STEMS | _UNIT_STEMS and not stem.isdigit()}
        content -= {re.sub(r"\d+$", "", stem) for stem in numbered}
        if len(content) > 1:
            sets.append(frozenset(content))
    vocabulary = frozenset(list_stems(" ".join([fact.name.replace("_", " "), *phrases, *fact.subjects])))
    keys = tuple(dict.fromkeys(key for key in sets if key))
    return _Subject(
        name=fact.name,
        keys=keys,
        vocabulary=vocabulary | {stem for key in keys for stem in key},
        value=value,
        is_revised=fact.is_superseded,
        is_outdated=not _STALE_BEFORE.isdisjoint(fact.name.split("_")),
    )


class _Clause(NamedTuple):
    """Part of a sentence, with its position in the text and the label before it, as in "label: value"."""

    text: str
    offset: int
    label: str
    following: str


def _split(pattern: re.Pattern[str], text: str, offset: int) -> Iterator[tuple[str, int]]:
    start = 0
    for match in pattern.finditer(text):
        yield text[start : match.start()], offset + start
        start = match.end()
    yield text[start:], offset + start


def list_clauses(text: str) -> Iterator[_Clause]:
    """Yield the clauses (parts of sentences, list items and rows of tables) of a text in order."""
    offset = 0
    for line in text.splitlines(keepends=True):
        yield from _split_row(line, offset) if line.lstrip().startswith("|") else _split_line(line.rstrip(), offset)
        offset += len(line)


def _split_row(line: str, offset: int) -> Iterator[_Clause]:
    cells = [(match[0], offset + match.start()) for match in re.finditer(r"(?:\\.|`[^`]*`|[^|\\`\n]|`)+", line)]
    cells = [(text, start) for text, start in cells if text.strip(" -:")]
    for index, (text, start) in enumerate(cells):
        if index or len(text.split()) > MAX_LABEL_WORDS:
            yield from _split_line(text.rstrip(), start)
        label = cells[0][0] if index == 1 else cells[1][0] if len(cells) == 2 else ""
        if label and len(label.split()) <= MAX_LABEL_WORDS:
            first, first_start = next(_split(_SENTENCE_END, text, start))
            yield _Clause(first, first_start, label, "")


def _split_line(line: str, offset: int) -> Iterator[_Clause]:
    marker = _ITEM.match(line)
    begin = marker.end() if marker else 0
    for sentence, start in _split(_SENTENCE_END, line[begin:], offset + begin):
        if not sentence.rstrip(" *_").endswith("?"):
            yield from _split_sentence(sentence, start)


def _split_sentence(sentence: str, offset: int) -> Iterator[_Clause]:
    for _ in range(MAX_LABELS):
        label_end = _LABEL_END.search(sentence)
        if label_end is None or not 0 < len(sentence[: label_end.start()].split()) <= MAX_LABEL_WORDS:
            break
        label, sentence, offset = sentence[: label_end.start()], sentence[label_end.end() :], offset + label_end.end()
        first, first_start = next(_split(_CLAUSE_END, sentence, offset))
        yield _Clause(first, first_start, label, sentence[len(first) :][:60])
    else:  # with so many labels, the text is no sentence
        return
    for match in _PARENTHESIS.finditer(sentence):
        yield _Clause(match[1], offset + match.start(1), sentence[: match.start()].rsplit(",", maxsplit=1)[-1], "")
    pieces = list(_split(_CLAUSE_END, sentence, offset))
    for text, start in pieces:
        end = start - offset + len(text)
        yield _Clause(text, start, "", sentence[end : end + 60])


class TolerantStatements:
    """Reader that finds the values of facts in texts that state the facts in other words than the task.

    Results are cached, since the sessions of one task contain mostly equal texts.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        subjects = [subject for fact in facts if (subject := make_subject(fact))]
        self._by_stem: dict[str, list[_Subject]] = {}
        for subject in subjects:
            for stem in {min(key) for key in subject.keys}:
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

    def _read_clause(self, clause: _Clause) -> Iterator[patterns.FactMatch]:
        stems = frozenset(list_stems(f"{clause.label} . {clause.text}"))
        near = {subject.name: subject for stem in stems for subject in self._by_stem.get(stem, ())}
        for subject in near.values():
            matched = [key for key in subject.keys if key <= stems]
            if matched and (value := _find_value(clause, subject, matched)):
                yield patterns.FactMatch(subject.name, value[0], clause.offset + value[1])


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


def _find_value(clause: _Clause, subject: _Subject, keys: Sequence[frozenset[str]]) -> tuple[str, int] | None:
    """Return the only value of a fact in a clause and its position; None if there are no or several values."""
    values: list[tuple[str, int, int]] = []
    candidates = list(islice(_list_candidates(clause, subject), MAX_CANDIDATES + 1))
    if len(candidates) > MAX_CANDIDATES:
        return None
    plain = _blank(clause.text, [(start, end) for _, start, end in candidates])
    description = _blank(clause.text, [(start, end) for value, start, end in candidates if _is_open_value(value, subject)])
    for value, start, end in candidates:
        other_stems = frozenset(list_stems(f"{clause.label} . {description[:start]} . {description[end:]}"))
        key_count = max((len(key - _FUNCTION_STEMS) for key in keys if key <= other_stems), default=-1)
        max_foreign_words = MAX_FOREIGN_WORDS if key_count > 1 and not clause.label else 0
        foreign = _count_foreign(f"{clause.label} {plain[:start]}", subject)
        if key_count < 0 or foreign > max_foreign_words or not _is_current(clause, start, end, subject):
            continue
        is_replacement = subject.is_outdated and _NEWER.search(clause.text[:start])  # e.g. "renamed to `b`" for the old name
        if is_replacement or _describes_another(clause, keys, end, subject) or _is_separated(clause, keys, start, end, subject):
            continue
        values.append((value, start, end))
    if len({value for value, _, _ in values}) > 1:
        newer = [match for match in values if _NEWER.search(clause.text[: match[1]])]
        older = [match for match in values if _OLDER.search(clause.text[: match[1]])]
        values = newer if len(newer) == 1 else [match for match in values if match not in older] if older else []
    elif values and subject.is_revised and _OLDER.search(clause.text[: values[0][1]]):
        return None
    return values[-1][:2] if len({value for value, _, _ in values}) == 1 else None


def _is_open_value(text: str, subject: _Subject) -> bool:
    """Return whether a quoted text can only be a value, so that its words do not say what the clause is about.

    For example, "the tag `draft` in `tags`" is not about a fact `draft_tag`, but "`draft_tag` is `raw`" is.
    """
    return subject.value.is_open and not any(key <= {*list_stems(text)} for key in subject.keys)


def _blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a text with spaces in the given places, so that all positions stay the same."""
    characters = list(text)
    for start, end in spans:
        characters[start:end] = " " * (end - start)
    return "".join(characters)


def _describes_another(clause: _Clause, keys: Sequence[frozenset[str]], end: int, subject: _Subject) -> bool:
    """Return whether a value under the label of a fact begins a statement about something else.

    An example is "folder: `a` keeps the name": the word after the value is no word of the fact or of grammar.
    """
    following = re.match(r"[`\"'*]*\s+([^\W\d_]+)", clause.text[end:])
    stems = frozenset(list_stems(clause.text))
    if not clause.label or following is None or any(key <= stems for key in keys):
        return False
    return stem(following[1]) not in subject.vocabulary | _FUNCTION_STEMS | _UNIT_STEMS


def _is_separated(clause: _Clause, keys: Sequence[frozenset[str]], start: int, end: int, subject: _Subject) -> bool:
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


def _list_candidates(clause: _Clause, subject: _Subject) -> Iterator[tuple[str, int, int]]:
    """Yield the parts of a clause that have the form of a value, each with its start and end."""
    text, value = clause.text, subject.value
    if not value.is_open:
        for match in value.fragment.finditer(text):
            yield match[1], match.start(1), match.end(1)
        return
    for match in _QUOTED.finditer(text):
        content = match[match.lastindex or 0]
        if (whole := value.whole.fullmatch(content)) and content.lower() not in _NO_VALUES:
            yield whole[whole.lastindex or 0], match.start(match.lastindex or 0), match.end(match.lastindex or 0)
    bare = text.strip(" .*_`\"'")
    if {*list_stems(bare)} <= subject.vocabulary | _FUNCTION_STEMS:  # e.g. "operator: the operator"
        return
    if clause.label and (whole := value.whole.fullmatch(bare)) and bare.lower() not in _NO_VALUES:
        start = text.find(bare)
        yield whole[whole.lastindex or 0], start, start + len(bare)
    elif final := re.search(r"\b(?:is|be|was|called|named)\s+([^\W\d_]\S*?)[.*_]*$", text):
        bare = final[1]
        if bare != bare.lower() and value.whole.fullmatch(bare) and bare.lower() not in _NO_VALUES:
            yield bare, final.start(1), final.end(1)


def _count_foreign(text: str, subject: _Subject) -> int:
    """Count the words of a text that belong neither to the fact nor to grammar; a quoted text is one word."""
    words = _QUOTED.sub(lambda match: match[0] if match[4] or not match[match.lastindex or 0].strip() else " quotedtext ", text)
    stems = [word for word in map(stem, _WORD.findall(words)) if not word.isdigit()]
    return sum(word not in subject.vocabulary and word not in _FUNCTION_STEMS for word in stems)


def _is_current(clause: _Clause, start: int, end: int, subject: _Subject) -> bool:
    """Return whether a value is neither negated nor outdated, nor a number of something else."""
    before, after = clause.text[:start], clause.text[end:]
    if _NEGATED.search(before) and not _COMPARED.search(before):
        return False
    earlier = (word.lower() for word in _WORD.findall(f"{clause.label} {before}"))
    if any(word in _STALE_BEFORE and stem(word) not in subject.vocabulary for word in earlier):
        return bool(_COMPARED.search(before))
    later = (after + clause.following)[:NEAR_CHARACTERS]
    for match in _STALE_AFTER.finditer(later):
        belongs_to_next = re.match(r"(?: (?:of|was|were))?[\s:`\"'*]*[`\"'*\d]", later[match.end() :])
        if not belongs_to_next and stem(match[0]) not in subject.vocabulary:
            return False
    return not subject.value.is_number or _counts_subject(before, clause.text[start:end], after, subject)


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
