"""Splits a text into clauses: sentences, list items, rows of tables, and pairs of a key and a value, e.g. in JSON.

A clause has a label where the structure of the text gives one, e.g. the words before a colon, a JSON key, the cell of a table
beside the value, or the heading right above the value. Every clause is a part of the text at its position, so a value that is
found in a clause has a position in the text.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_LABEL_WORDS = 8
"""Maximum number of words in a label: the text before a colon, or a table cell that says what the next cell contains."""
MAX_KEY_WORDS = 2
"""Maximum number of words of a key; a line of more words before a colon is an introduction."""
INTRODUCTION = ">"
"""First character of an introduction among keys."""
MAX_LABELS = 10
"""Maximum number of labels in a sentence, as in "decisions: storage: folder: `a`"; after more labels, no value is read."""
_BARE_WORDS = 6
"""Maximum number of words of a name behind its value."""
_MAX_VALUE_WORDS = 25
"""Maximum number of words of a line that states the value of the heading or the label above it."""
_MIN_WRAPPED_CHARACTERS = 60
"""Minimum length of a line whose sentence the next line may continue."""
_ITEM = re.compile(r"[\s>]*(?:(?:[-*+•▪◦–]|\d+[.)]|[a-zA-Z][.)])\s+)*(?:\[[ xX✓✔]?\]\s*)?")
_NUMBERED = re.compile(r"\d+[.)]\s")
_HEADING = re.compile(r"\s*(?![-*+•▪◦–`\"'(\[{|~>_$:])[^\w\s]{1,6}\s+(?=\S)")
"""Mark of a heading before its words: punctuation that begins neither a list item nor a quotation."""
_UNDERLINE = re.compile(r"\s*([-=~.*_^])\1{2,}\s*$")
_FENCE = re.compile(r"\s*(?:`{3}|~{3})")
_SENTENCE_END = re.compile(r"(?<=[.!?])[*_)\"]*\s+(?=[^a-z])|\s*;\s+")
_LABEL_END = re.compile(r"(?<![!~])\s*(?<![!~])(?::=|:|={1,3})[*_`]*(?=\s|$)|\s+(?:[-–—]|--)\s+|\s*(?:→|⇒|➜|-{1,2}>|=>)\s*")
_ARROW = re.compile(r"→|⇒|➜|->|=>")
_BOUND_KEY = re.compile(
    r"(?:(?:export|set|let|const|var) )?(\$?[`*_\"'\[]*[A-Za-z_][\w.-]*[`*_\"'\]]*(?<!\d)(?=[:=])|[A-Za-z_][\w .-]{0,60}\w(?==))"
    r"[:=](?=[^\s:=/\\])(?=\S*$)"
)
"""Key that is joined with its value, as in "max_days=30"."""
_CODE_PAIR = re.compile(r"`([A-Za-z_][\w .-]*?)(?::\s?|\s?=\s?)([^`:=\s][^`:=]*)`")
_HEADER = re.compile(
    r"(?:(?:\*{1,3}|__)([^\s*_:`][^:*]{0,80}?|`[^`]{1,60}`)(?:(?:\*{1,3}|__)\s*:?|:(?:\*{1,3}|__))"
    r"|([^\s*_:`][^:*]{0,80}?|`[^`]{1,60}`):)\s*(?:\Wbr\s?/?\W)?\s*$"
)
"""Line that only names what the next line states: bold words, or words before a colon."""
_PLAIN_HEADER = re.compile(r"([^\W\d][\w '-]{1,60}\w)")
_CODE_LINE = re.compile(r"`([\w .-]{1,60})`\s*$")
_JSON_LINE = re.compile(r"\s*(?:[{\[\]}]|\"(?:[^\"\\]|\\.)*\"\s*(?::|,\s*$|$))")
_JSON_TOKEN = re.compile(r"\"((?:[^\"\\]|\\.)*)\"(\s*:)?|([{\[])|([}\]])|(-?\d[\d.]*)|(true|false|null)\b")
_YAML_PAIR = re.compile(r"([\s>]*(?:[-*+]\s+)?)([`\"']?[A-Za-z_][\w .-]{0,60}?[`\"']?)\s*:\s+(\S.*)$")
_NAME_KEYS = frozenset(
    {"name", "key", "fact", "item", "label", "title", "field", "parameter", "subject", "setting", "id", "what", "option"}
    | {"constraint", "requirement", "rule", "decision", "property", "variable"}
)
_VALUE_KEYS = frozenset(
    {"value", "val", "current", "current value", "content", "is", "now", "new", "setting", "to", "after", "new value"}
)
"""Keys of two fields that together state a fact, as in {"name": "port", "value": 80}."""
_OLD_KEYS = frozenset(
    {"old", "previous", "former", "before", "was", "from", "old value", "previous value", "superseded", "replaces"}
)
"""Keys of a field with an older value."""
_REASON_KEYS = frozenset({"why", "reason", "source", "origin", "where", "because", "evidence", "said by", "by"})
"""Keys of a field that says where a value comes from."""
_REASON_WORDS = frozenset({"why", "reason", "source", "origin", "where", "because", "evidence", "by", "note", "notes", "comment"})
"""Words in the heading of a table column that says where values come from, or comments on them."""
_PRONOUN = re.compile(
    r"(?:(?:and|but|so|then|now|currently|today|since then|in the end|finally|later|instead)\b,?\s*)*"
    r"(?:it|this|that|the value"
    r"|(?:the user|we|i)(?: has| have)?(?: then| later| now)? "
    r"(?:changed|set|raised|lowered|revised|updated|moved) (?:it|this|that))\b",
    re.IGNORECASE,
)
_BACK_REFERENCE = re.compile(
    r"[\s*_]*(?:(?:and|but|however|yet|still|though|although|only|then|so)\b,?\s*)*(?:it|this|that|they|these|those|which|neither|both|"
    r"forget|ignore|never mind|not|no|wrong|never|(?:\w+\s+){1,4}?(?:it|this|that|them))\b",
    re.IGNORECASE,
)
_VERB = re.compile(r"\s(?:is|was|were|are|used to|has been|had been|became|must|should|will)\b|:", re.IGNORECASE)
_INTRODUCTION = re.compile(r"(?:at first|initially|originally|previously|formerly|earlier|before)\b,?\s*", re.IGNORECASE)
_TIME = re.compile(r"(?:until|in|as of|since|on|at)\b(?:\s+\w+){1,3}?,?\s+(?=the\b)", re.IGNORECASE)
_COMMA = re.compile(r",\s+")
_PAIRS = re.compile(r"[^,=:]{1,60}(?:\s?=\s?|:\s)[^,=:]+(?:,\s+[^,=:]{1,60}(?:\s?=\s?|:\s)[^,=:]+)+$")
"""Several pairs of a label and a value in one line, separated by commas."""
_BRACKETED = re.compile(r"([^,;:()]{1,60}?)\s\(([^()]{1,60})\)")
_BRACKETED_PAIRS = re.compile(rf"{_BRACKETED.pattern}(?:(?:,|,? and)\s+{_BRACKETED.pattern})+[.\s]*$")
"""Several names in one line, each with its value in parentheses."""
_MARKED = re.compile(r"\s*(?:`[^`]+`|\"[^\"]+\"|\*\*[^*]+\*\*|\S*\d\S*)\s*")
"""Text that can be a value by its form: marked, or with a digit."""
_TITLE = re.compile(r"[A-Z]\w+(?:\W+(?:[A-Z]\w+|[a-z]{1,3}\b))+")
"""Words that begin with capital letters, as in "Key Technical Decisions"."""
_NUMBERING = re.compile(r"\W*[A-Za-z]{0,2}-?\d{1,3}\W*")
"""First cell of a row that only numbers it."""
_ITALIC = re.compile(r"(?<![\w`\"'])_([^_\n`]+)_(?![\w`\"'])")
_STRUCK = re.compile(r"~~[^~\n]+~~")


class Clause(NamedTuple):
    """Part of a text that can state a value, with its position, and the words that belong to the statement."""

    text: str
    offset: int
    label: str = ""
    """Name of what the text states, as in "label: text"."""
    remarks: str = ""
    """Other words of the statement, e.g. keys around it, or further cells of its row."""
    context: str = ""
    """Headings above the clause, and reasons given for it."""
    following: str = ""
    """Next sentence, if it refers to the clause, as in "This was rejected."."""


class Sentence(NamedTuple):
    """Position of a sentence in a text."""

    start: int
    end: int
    is_question: bool


@dataclass(slots=True)
class _Object:
    """Object or array of JSON, or record of YAML, that is being read."""

    key: str
    path: tuple[str, ...]
    pairs: list[tuple[str, str, int]] = field(default_factory=list)
    """Key, text and position of each scalar."""


class _Line(NamedTuple):
    text: str
    offset: int

    @property
    def indentation(self) -> int:
        return len(self.text) - len(self.text.lstrip(" >"))


def list_clauses(text: str) -> Iterator[Clause]:
    """Yield the clauses of a text in order."""
    if "~~" in text:
        text = _STRUCK.sub(lambda match: " " * len(match[0]), text)
    if "_" in text:
        text = _ITALIC.sub(r" \1 ", text)
    yield from _Splitter(text).split()


def split_sentences(text: str, offset: int = 0) -> Iterator[Sentence]:
    """Yield the sentences of a line, with positions that begin at an offset."""
    for sentence, start in _split(_SENTENCE_END, text, offset):
        yield Sentence(start, start + len(sentence), sentence.rstrip(" *_").endswith("?"))


class _Splitter:
    """Splitter of one text; it remembers headings and keys whose values stand on later lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._heading = ""
        self._awaited = ""
        """Label from an earlier line, whose value the next line may be."""
        self._introduction = ""
        """Line that introduces the JSON that is being read."""
        self._keys: list[tuple[int, str]] = []
        """Indentations and names of the keys and labels above the line, as in YAML."""
        offset = 0
        self._lines: list[_Line] = []
        for line in text.splitlines(keepends=True):
            self._lines.append(_Line(line.rstrip(), offset))
            offset += len(line)

    def split(self) -> Iterator[Clause]:
        """Yield the clauses of the text in order."""
        at = blank_lines = 0
        while at < len(self._lines):
            line = self._lines[at]
            if not line.text.strip():
                blank_lines += 1
                if blank_lines > 1:
                    self._awaited = ""
                at += 1
                continue
            if blank_lines and not line.indentation and not _ITEM.match(line.text)[0].strip():  # type: ignore[index]
                self._keys.clear()
            blank_lines = 0
            above = self._lines[at - 1].text if at else ""
            if _UNDERLINE.match(line.text) and above.strip():
                at += 1
            elif _FENCE.match(line.text):
                self._keys.clear()
                at += 1
            elif _UNDERLINE.match(line.text):
                at += 1
            elif _is_row(line.text):
                end = self._find_table_end(at)
                self._awaited = ""
                yield from self._split_table(self._lines[at:end])
                at = end
            elif _is_json(line.text):
                end = self._find_json_end(at)
                yield from self._split_json(at, end)
                at = end
            else:
                used = yield from self._split_line(at)
                at += used

    def _find_table_end(self, at: int) -> int:
        while at < len(self._lines) and _is_row(self._lines[at].text):
            at += 1
        return at

    def _find_json_end(self, at: int) -> int:
        depth, end = 0, at
        while end < len(self._lines):
            text = self._lines[end].text
            if end > at and not (_JSON_LINE.match(text) or (depth > 0 and re.match(r"\s*[-\d.\w]+,?\s*$", text))):
                break
            plain = re.sub(r"\"(?:[^\"\\]|\\.)*\"", "", text)
            depth += len(re.findall(r"[{\[]", plain)) - len(re.findall(r"[}\]]", plain))
            end += 1
            if depth <= 0 and not text.rstrip().endswith(","):
                break
        return end

    def _split_line(self, at: int) -> Generator[Clause, None, int]:
        """Yield the clauses of a line; return the number of lines that belong to it."""
        line, offset = self._lines[at]
        below = self._lines[at + 1].text if at + 1 < len(self._lines) else ""
        heading = _HEADING.match(line)
        marker = heading or _ITEM.match(line)
        begin = 0 if marker is None else marker.end()
        body, start = line[begin:], offset + begin
        if not body:
            return 1
        if heading or (_UNDERLINE.match(below) and not marker[0].strip()):  # type: ignore[index]
            name = re.sub(r"^\d+[.)]\s+", "", _strip_marks(re.sub(r"\W{2,}$", "", body)))
            self._awaited, self._heading = name, name
            self._keys.clear()
            if _LABEL_END.search(body.rstrip(":* ")):
                yield from self._split_sentences(body, start, "", "")
            return 1
        while self._keys and self._keys[-1][0] >= begin:
            self._keys.pop()
        parents = [key for _, key in self._keys]
        header = _HEADER.match(body) or self._match_plain_header(at) or (_CODE_LINE.match(body) if below.strip() else None)
        awaited = self._awaited
        if header:
            if awaited and not body.endswith(":") and not _has_label(body):
                rest = " . ".join(key for key in parents if key != awaited)
                yield Clause(body.rstrip(), start, awaited, rest, self._heading)
            label = _strip_marks(next(group for group in header.groups() if group))
            # a line above the text that it introduces is like a heading, but one among list items is part of what they state
            is_title = (begin == 0 or _NUMBERED.match(line) or _TITLE.fullmatch(label)) and (
                len(label.split()) > MAX_KEY_WORDS or not body.endswith(":") or "," in label
            )
            self._keys.append((begin, f"{INTRODUCTION}{label}" if is_title else label))
            self._awaited = label if len(label.split()) <= MAX_LABEL_WORDS else ""
            return 1
        self._awaited = ""
        context = " . ".join([self._heading, *(key[1:] for key in parents if key.startswith(INTRODUCTION))])
        parents = [key for key in parents if not key.startswith(INTRODUCTION)]
        if len(parents) > 1:  # the outermost key of several names the whole document
            context, parents = f"{context} . {parents[0]}", parents[1:]
        record_end = self._find_record_end(at)
        if record_end > at:
            yield from self._split_record(at, record_end, parents)
            return record_end - at
        used = 1
        while self._is_wrapped(at + used - 1):
            used += 1
        if used > 1:
            last = self._lines[at + used - 1]
            body = self._text[start : last.offset + len(last.text)]
        if definition := re.match(r":\s+", body):
            body, start = body[definition.end() :], start + definition.end()
            awaited = awaited or _strip_marks(_ITEM.sub("", self._lines[at - 1].text)) if at else ""
        remarks = " . ".join(parents)
        if awaited and len(body.split()) <= _MAX_VALUE_WORDS and (not _has_label(body) or _MARKED.match(body)):
            rest = " . ".join(key for key in parents if key != awaited)
            first, first_start = next(_split(_SENTENCE_END, body, start))
            following = body[len(first) :] or (below if not _has_label(below) and not _HEADING.match(below) else "")
            if not first.rstrip(" *_").endswith("?"):
                yield Clause(first, first_start, awaited, rest, context, _find_reference(following))
        yield from self._split_sentences(body, start, remarks, context)
        return used

    def _match_plain_header(self, at: int) -> re.Match[str] | None:
        """Return the match of a line of a few words that a line with nothing but a value follows."""
        above = self._lines[at - 1].text if at else ""
        below = self._lines[at + 1].text if at + 1 < len(self._lines) else ""
        behind = self._lines[at + 2].text if at + 2 < len(self._lines) else ""
        if above.strip() or behind.strip() or (not _MARKED.fullmatch(below) and not re.fullmatch(r"\s*\S+\s*", below)):
            return None
        return _PLAIN_HEADER.fullmatch(self._lines[at].text)

    def _is_wrapped(self, at: int) -> bool:
        """Return whether the sentence of a line goes on in the next line."""
        if at + 1 >= len(self._lines):
            return False
        line, below = self._lines[at].text, self._lines[at + 1].text
        if len(line) < _MIN_WRAPPED_CHARACTERS or (line[-1] in ".!?:;|,{}[]" and line[-1] != ","):
            return False
        if not below.strip() or _FENCE.match(below) or _HEADING.match(below) or _is_row(below) or _is_json(below):
            return False
        marker = _ITEM.match(below)
        return not (marker and marker[0].strip(" >")) and not _HEADER.match(below.strip()) and not _has_label(below)

    def _find_record_end(self, at: int) -> int:
        """Return the end of a record of a name and a value in lines of equal indentation; `at` if there is none."""
        keys, end, column = list[str](), at, -1
        while end < len(self._lines) and (pair := _YAML_PAIR.match(self._lines[end].text)):
            if column not in (-1, len(pair[1])) or (end > at and pair[1].strip(" >")):
                break
            column = len(pair[1])
            keys.append(_normalize_key(pair[2]))
            end += 1
        has_name = bool(self._keys) or any(key in _NAME_KEYS for key in keys)
        return end if has_name and any(key in _VALUE_KEYS for key in keys) and end > at + (not self._keys) else at

    def _split_record(self, at: int, end: int, parents: Sequence[str]) -> Iterator[Clause]:
        record = _Object(parents[-1] if parents else "", tuple(parents[:-1]))
        for line in self._lines[at:end]:
            if pair := _YAML_PAIR.match(line.text):
                record.pairs.append((pair[2], pair[3], line.offset + pair.start(3)))
        yield from self._emit(record)

    def _split_json(self, at: int, end: int) -> Iterator[Clause]:
        first, last = self._lines[at], self._lines[end - 1]
        block = self._text[first.offset : last.offset + len(last.text)]
        is_introduced = bool(self._keys) and self._keys[-1][1] == f"{INTRODUCTION}{self._awaited}"
        parents = tuple(key for _, key in self._keys if not key.startswith(INTRODUCTION))
        root = _Object("" if is_introduced else self._awaited, parents)
        self._introduction = self._awaited if is_introduced else ""
        self._awaited, stack, key = "", [root], ""
        for match in _JSON_TOKEN.finditer(block):
            content, is_key, opened, closed, number, _ = match.groups()
            if opened:
                outer = stack[-1]
                stack.append(_Object(key or outer.key, (*outer.path, outer.key) if key else outer.path))
                key = ""
            elif closed:
                if len(stack) > 1:
                    yield from self._emit(stack.pop())
                key = ""
            elif is_key:
                key = content
            else:
                group = 1 if content is not None else 5 if number else 6
                if content and content[0] == content[-1] == "_":  # a string has no marks of emphasis, so its quotes are left
                    group = 0
                stack[-1].pairs.append((key, match[group], first.offset + match.start(group)))
                key = ""
        while stack:
            yield from self._emit(stack.pop())

    def _emit(self, record: _Object) -> Iterator[Clause]:
        """Yield the statements of an object: one of a name and a value, or one of each key."""
        names = [text for key, text, _ in record.pairs if _normalize_key(key) in _NAME_KEYS]
        values = [pair for pair in record.pairs if _normalize_key(pair[0]) in _VALUE_KEYS]
        if names:  # e.g. the value in {"setting": "port", "value": 80}
            values = [pair for pair in values if _normalize_key(pair[0]) not in _NAME_KEYS]
        path = [part for part in record.path if part]
        # the outermost key of several names the whole document
        root = path.pop(0) if len(path) + bool(record.key) > 1 else ""
        heading = f"{self._heading} . {self._introduction} . {root}"
        parents = " . ".join(path)
        if values and len(record.pairs) < MAX_LABEL_WORDS:
            rest = [
                (key, text)
                for key, text, start in record.pairs
                if start != values[0][2] and _normalize_key(key) not in _NAME_KEYS | _OLD_KEYS
            ]
            reasons = [text for key, text in rest if _normalize_key(key) in _REASON_KEYS]
            others = [
                f"{key} {'not' if text == 'false' else '' if text == 'true' else text}"
                for key, text in rest
                if _normalize_key(key) not in _REASON_KEYS
            ]
            label = names[0] if names else record.key
            if names and record.key:
                parents = f"{parents} . {record.key}"
            remarks = " . ".join([parents, *others])
            context = " . ".join([heading, *reasons])
            yield Clause(values[0][1], values[0][2], _strip_marks(label), remarks, context)
            return
        if len(record.pairs) == 2 and not any(key for key, _, _ in record.pairs):  # e.g. ["port", 80]
            (_, label, _), (_, text, start) = record.pairs
            if len(label.split()) <= MAX_LABEL_WORDS:
                yield Clause(text, start, label, f"{parents} . {record.key}", heading)
                return
        around = f"{parents} . {record.key}"
        for key, text, start in record.pairs:
            if key:
                yield Clause(text, start, key, around, heading)
            else:
                yield from self._split_sentences(text, start, around, heading)

    def _split_table(self, lines: Sequence[_Line]) -> Iterator[Clause]:
        rows = [_list_cells(line) for line in lines]
        header = list[str]()
        if len(rows) > 1 and rows[1] and all(re.fullmatch(r"\s*:?-+:?\s*", text) for text, _ in rows[1]):
            header, rows = [_normalize_key(text) for text, _ in rows[0]], rows[2:]
        for row in rows:
            yield from self._split_row(row, header)

    def _split_row(self, row: list[tuple[str, int]], header: Sequence[str]) -> Iterator[Clause]:
        """Yield each pair of cells of which one can be the name of the other, with the other cells as remarks."""
        columns = header if len(header) == len(row) else [""] * len(row)
        filled = [
            at
            for at, (text, _) in enumerate(row)
            if text.strip(" -–—") and not (len(row) > 2 and _NUMBERING.fullmatch(text) and at == 0)
        ]
        if len(filled) == 1:
            yield from self._split_sentences(row[filled[0]][0].rstrip(), row[filled[0]][1], "", self._heading)
        old = {at for at in filled if columns[at] in _OLD_KEYS}
        reasons = {at for at in filled if not _REASON_WORDS.isdisjoint(columns[at].split())} - old
        named = {at for at in filled if "value" in columns[at]} - old
        for at in filled:
            text, start = row[at]
            if at in old | reasons or (named and at not in named):
                continue
            others = [index for index in filled if index not in old | {at}]
            for name_at in others:
                if len(row[name_at][0].split()) > MAX_LABEL_WORDS or name_at in reasons:
                    continue
                if at < name_at and not _MARKED.fullmatch(text):
                    continue
                remarks = " . ".join(row[index][0] for index in others if index not in reasons | {name_at})
                context = " . ".join([self._heading, *(row[index][0] for index in reasons)])
                column = columns[at] if columns[at] not in _VALUE_KEYS | _NAME_KEYS else ""
                if len(filled) == 2:
                    context = f"{context} . {column}"
                else:
                    remarks = f"{remarks} . {column}"
                yield Clause(text.rstrip(), start, _strip_marks(row[name_at][0]), remarks, context)

    def _split_sentences(self, body: str, offset: int, remarks: str, context: str) -> Iterator[Clause]:
        topic = ""
        sentences = list(_split(_SENTENCE_END, body, offset))
        for at, (sentence, start) in enumerate(sentences):
            if sentence.rstrip(" *_").endswith("?"):
                continue
            following = _find_reference(sentences[at + 1][0]) if at + 1 < len(sentences) else ""
            pronoun = _PRONOUN.match(sentence) if topic else None
            if pronoun:
                rest = sentence[pronoun.end() :]
                label = f"{sentence[: pronoun.end()]} {topic}"
                yield Clause(rest, start + pronoun.end(), label, remarks, context, following)
                continue
            topic = _find_topic(sentence)
            yield from _split_sentence(sentence, start, Clause("", 0, "", remarks, context, following))


def _is_row(line: str) -> bool:
    return line.lstrip().startswith("|") or " | " in line or ("\t" in line and _is_tabbed(line))


def _is_tabbed(line: str) -> bool:
    """Return whether a line consists of two columns with a tab between them."""
    return "|" not in line and len([cell for cell in line.split("\t") if cell.strip()]) == 2


def _is_json(line: str) -> bool:
    stripped = line.strip()
    return stripped in {"{", "["} or bool(re.match(r"[{\[]\s*[\"{\[]|\"[^\"]+\"\s*:", stripped))


def _strip_marks(text: str) -> str:
    return text.strip(" \t*_`\"':").strip()


def _normalize_key(text: str) -> str:
    return _strip_marks(text).replace("_", " ").lower()


def _has_label(text: str) -> bool:
    end = _LABEL_END.search(text)
    return end is not None and end.end() < len(text)


def _find_reference(sentence: str) -> str:
    """Return a sentence if it refers to what stands before it."""
    return sentence if _BACK_REFERENCE.match(sentence.lstrip("; .")) else ""


def _split(pattern: re.Pattern[str], text: str, offset: int) -> Iterator[tuple[str, int]]:
    start = 0
    for match in pattern.finditer(text):
        yield text[start : match.start()], offset + start
        start = match.end()
    yield text[start:], offset + start


def _list_cells(line: _Line) -> list[tuple[str, int]]:
    """Return the cells of a row and their positions, without the empty ones outside of its first and last bar."""
    cells = [
        (match[0], line.offset + match.start())
        for match in re.finditer(r"(?:\\.|`[^`]*`|[^|\\`\n\t]|`)+|(?<=\|)(?=\|)", line.text)
    ]
    while cells and not cells[0][0].strip() and line.text.lstrip().startswith("|"):
        del cells[0]
    while cells and not cells[-1][0].strip():
        del cells[-1]
    return cells


def _find_topic(sentence: str) -> str:
    """Return the words of a sentence before its verb or colon, to which "it" in the next sentence refers."""
    verb = _VERB.search(sentence)
    if verb is None:
        return ""
    topic = _INTRODUCTION.sub("", sentence[: verb.start()], count=1)
    if lead := _TIME.match(topic):
        topic = topic[lead.end() :]
    return topic if 0 < len(topic.split()) <= MAX_LABEL_WORDS else ""


def _fill(frame: Clause, text: str, offset: int, label: str = "", remarks: str = "") -> Clause:
    """Return a clause with the context of a frame."""
    return Clause(text, offset, label, remarks or frame.remarks, frame.context, frame.following)


def _split_sentence(sentence: str, offset: int, frame: Clause) -> Iterator[Clause]:
    """Yield a sentence, or the pairs of a label and a value in it, with the remarks and the context of a frame."""
    pair = _CODE_PAIR.search(sentence)
    if pair:
        around = f"{frame.remarks} . {sentence[: pair.start()]} . {sentence[pair.end() :]}"
        yield _fill(frame, text=pair[2], offset=offset + pair.start(2), label=pair[1], remarks=around)
        return
    if ", " in sentence and _PAIRS.match(sentence):
        for part, start in _split(_COMMA, sentence, offset):
            yield from _split_sentence(part, start, frame)
        return
    if bound := _BOUND_KEY.match(sentence):
        yield _fill(frame, text=sentence[bound.end() :], offset=offset + bound.end(), label=bound[1].replace("[", " "))
        return
    labels, rest, start = list[str](), sentence, offset
    for number in range(MAX_LABELS + 1):
        inner = _fill(frame, "", 0, remarks=" . ".join([frame.remarks, *labels]))
        if labels and (bound := _BOUND_KEY.match(rest)):
            yield _fill(inner, text=rest[bound.end() :], offset=start + bound.end(), label=bound[1].replace("[", " "))
            return
        if "), " in rest and _BRACKETED_PAIRS.match(rest):
            for bracketed in _BRACKETED.finditer(rest):
                if _MARKED.fullmatch(bracketed[2]):
                    yield _fill(inner, text=bracketed[2], offset=start + bracketed.start(2), label=bracketed[1])
            return
        end = _LABEL_END.search(rest)
        if end is None or not 0 < len(rest[: end.start()].split()) <= MAX_LABEL_WORDS or end.end() >= len(rest):
            break
        before = rest[: end.start()]
        is_arrow = bool(_ARROW.search(end[0]))
        if number and (is_arrow or not re.search(r"[:=]", end[0]) or re.search(r"[`\"\d]", before)):
            break
        if is_arrow and _is_change(before):
            break
        if number == MAX_LABELS:  # with so many labels, the text is no sentence
            return
        if not number and _MARKED.fullmatch(
            before
        ):  # a value before its name, as in "`a` = folder" and "`a` → `b` for the folder"
            behind = rest[end.end() :]
            if is_arrow:
                yield _fill(frame, text=sentence, offset=offset)
            elif "=" in end[0] and len(behind.split()) <= _BARE_WORDS and not _MARKED.search(behind):
                yield _fill(frame, text=before, offset=offset, label=behind)
        labels.append(before)
        rest, start = rest[end.end() :], start + end.end()
        if ", " in rest and _PAIRS.match(rest):
            inner = _fill(frame, "", 0, remarks=" . ".join([frame.remarks, *labels]))
            for part, part_start in _split(_COMMA, rest, start):
                yield from _split_sentence(part, part_start, inner)
            return
    yield _fill(frame, text=rest, offset=start, label=" : ".join(labels))


def _is_change(before: str) -> bool:
    """Return whether an arrow joins an older value with a newer one: a value stands before it, besides a name."""
    return bool(re.search(r"\S\s+[`\"'*]*\S*\d\S*$|\S\s+[`\"'*]+[^`\"'*]+[`\"'*]+\s*$|\bfrom\b", before.rstrip()))
