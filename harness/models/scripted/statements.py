"""Splits a text into clauses: parts of sentences, list items and table rows, and pairs of a key and a value, e.g. in JSON.

A clause has a label where the text gives one, e.g. the words before a colon, a JSON key, or the heading right above a value.
Every clause is a part of the text at its position, so a value that is found in a clause has a position in the text.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_LABEL_WORDS = 8
"""Maximum number of words in a label: the text before a colon, or a table cell that says what the next cell contains."""
MAX_LABELS = 10
"""Maximum number of labels in a sentence, as in "decisions: storage: folder: `a`"; after more labels, no value is read."""
_SENTENCE_WORDS = 5
"""Number of words from which a string in JSON is split into sentences."""
_VALUE_WORDS = 6
"""Maximum number of words of a line that is the value of a heading."""
_BARE_WORDS = 4
"""Maximum number of words that are one value behind a label, even with a word such as "and"."""
_FOLLOWING_CHARACTERS = 60
_ITEM = re.compile(r"[\s>]*(?:(?:[-*+•]|\d+[.)])\s+)*(?:\[[ xX]?\]\s*)?")
_HEADING = re.compile(r"\s*(?![-*+•`\"'(\[{|~>_])[^\w\s]{1,6}\s+(?=\S)")
"""Mark of a heading before its words: punctuation that begins neither a list item nor a quotation."""
_UNDERLINE = re.compile(r"\s*(?:-{3,}|={3,})\s*$")
_FENCE = re.compile(r"\s*(?:`{3}|~{3})")
_SENTENCE_END = re.compile(r"(?<=[.!?])[*_]*\s+(?=[^a-z])|\s*;\s+")
_CLAUSE_END = re.compile(
    r"(?:,\s+|\s+[-–—]\s+|(?<!hundred)(?<!thousand)\s+(?:but|because|whereas|although|which|and|while)\s+)"
    r"(?!(?:but |and |is |it is )?(?:now|not|then)\b|(?<=but )[`\"'*]|[`\"'*]*\S*\d)"
)
_LABEL_END = re.compile(r"\s*(?::|=|→|⇒|->|=>)[*_`]*(?=\s|$)|\s+(?:[-–—]|=|→|⇒|->)\s+")
_BOUND_KEY = re.compile(
    r"(?:(?:export|set|let|const|var) )?([`*_\"']*[A-Za-z_][\w.-]*[`*_\"']*|[A-Za-z_][\w .-]{0,60}\w)[:=](?=[^\s:=/\\])(?=\S*$)"
)
"""Key that is joined with its value, as in "max_days=30"."""
_CODE_PAIR = re.compile(r"`([\w .-]+)(?::\s|\s?=\s?)([^`]+)`")
_HEADER = re.compile(r"(?:\*\*|__)?([^\s*_:`][^:*]{0,80}?)(?:(?:\*\*|__)\s*:?|:(?:\*\*|__)?)\s*(?:\Wbr\s?/?\W)?\s*$")
"""Line that only names what the next line states: bold words, or words before a colon."""
_CODE = re.compile(r"`[^`\n]+`|\"[^\"\n]+\"")
_PARENTHESIS = re.compile(r"(?<!`)\(([^()]*)\)(?!`)")
_JSON_LINE = re.compile(r"\s*(?:[{\[\]}]|\"(?:[^\"\\]|\\.)*\"\s*(?::|,\s*$|$))")
_JSON_TOKEN = re.compile(r"\"((?:[^\"\\]|\\.)*)\"(\s*:)?|([{\[])|([}\]])|(-?\d[\d.]*)|(true|false|null)\b")
_NAME_KEYS = frozenset({"name", "key", "fact", "item", "label", "title", "field", "parameter", "subject", "setting"})
_VALUE_KEYS = frozenset({"value", "val", "current", "current_value", "content"})
"""Keys of two fields that together state a fact, as in {"name": "port", "value": 80}."""
_PRONOUN = re.compile(
    r"(?:(?:and|but|so|then|now|currently|today|since then|in the end|finally|later|before|earlier|previously)\b,?\s*)*"
    r"(?:it|this|that|the value"
    r"|the user (?:has |then |later )?(?:changed|set|raised|lowered|revised|updated) (?:it|this|that))\b",
    re.IGNORECASE,
)
_VERB = re.compile(r"\s(?:is|was|were|are|used to|has been|had been|became|must|should|will)\b|:", re.IGNORECASE)
_INTRODUCTION = re.compile(r"(?:at first|initially|originally|previously|formerly|earlier|before)\b,?\s*", re.IGNORECASE)
_LEAD_IN = re.compile(
    r"\s*(?:at first|initially|originally|previously|formerly|earlier|before|elsewhere|(?:in|with|for|at|on|under) \S)",
    re.IGNORECASE,
)
_TIME = re.compile(r"(?:until|in|as of|since|on|at)\b(?:\s+\w+){1,3}?,?\s+(?=the\b)", re.IGNORECASE)
_COMMA = re.compile(r",\s+")
_PAIRS = re.compile(r"[^,=:;]{1,60}(?:\s=\s|:\s)[^,=:;]+(?:,\s+[^,=:;]{1,60}(?:\s=\s|:\s)[^,=:;]+)+$")
"""Several pairs of a label and a value in one line, separated by commas."""
_STRUCK = re.compile(r"~~[^~\n]*~~")


class Clause(NamedTuple):
    """Part of a sentence, with its position in the text and the label before it, as in "label: value"."""

    text: str
    offset: int
    label: str
    following: str
    """Beginning of the text behind the clause."""
    context: str = ""
    """Heading above the clause."""
    introduction: str = ""
    """Beginning of the sentence that is a clause of its own, as in "in the other project, …"."""


def list_clauses(text: str) -> Iterator[Clause]:
    """Yield the clauses of a text in order."""
    if "~~" in text:
        text = _STRUCK.sub(lambda match: " " * len(match[0]), text)
    yield from _Splitter(text).split()


class _Splitter:
    """Splitter of one text; it remembers headings and keys whose values stand on later lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._context = ""
        self._awaited = ""
        """Label from an earlier line, whose value the next line may be."""
        self._keys: list[tuple[int, str]] = []
        """Indentations and names of the keys above the line, as in YAML."""
        self._json: list[tuple[str, str]] = []
        """Key and record name of each bracket of JSON that is open."""
        self._json_key = ""
        self._json_name = ""
        self._record_name = ""

    def split(self) -> Iterator[Clause]:
        """Yield the clauses of the text in order."""
        lines = self._text.splitlines(keepends=True)
        offset, blank_lines = 0, 0
        for at, line in enumerate(lines):
            if not line.strip():
                blank_lines += 1
                if blank_lines > 1:
                    self._awaited = ""
            elif _FENCE.match(line):
                self._json.clear()
            elif _UNDERLINE.match(line):
                pass
            else:
                below = lines[at + 1] if at + 1 < len(lines) else ""
                yield from self._split_line(line.rstrip(), offset, is_heading=bool(_UNDERLINE.match(below)))
                blank_lines = 0
            offset += len(line)

    def _split_line(self, line: str, offset: int, *, is_heading: bool) -> Iterator[Clause]:
        if _JSON_LINE.match(line) and (self._json or _is_json(line)):
            yield from self._split_json(line, offset)
            return
        self._json.clear()
        if line.lstrip().startswith("|") or " | " in line:
            self._awaited = ""
            yield from _split_row(line, offset, self._context)
            return
        heading = _HEADING.match(line)
        marker = heading or _ITEM.match(line)
        begin = 0 if marker is None else marker.end()
        body, start = line[begin:], offset + begin
        if heading or is_heading:
            self._context = self._awaited = _strip_marks(body)
            self._keys.clear()
            if _LABEL_END.search(body.rstrip(":* ")):
                yield from _split_sentences(body, start, "")
            return
        while self._keys and self._keys[-1][0] >= begin:
            self._keys.pop()
        if header := _HEADER.match(body):
            label = _strip_marks(header[1])
            parents = [key for _, key in self._keys]
            self._keys.append((begin, label))
            self._awaited = " ".join([*parents[1:], label])
            if len(label.split()) > MAX_LABEL_WORDS:
                self._awaited = ""
            return
        awaited, self._awaited = self._awaited, ""
        pair = re.match(r"[`\"']?(\w+)[`\"']?\s*:\s+", body)
        if pair and pair[1].lower() in _NAME_KEYS:
            self._record_name = _strip_marks(body[pair.end() :])
        elif pair and pair[1].lower() in _VALUE_KEYS and (self._record_name or self._keys):
            awaited, self._record_name = self._record_name or self._keys[-1][1], ""
            body, start = body[pair.end() :], start + pair.end()
        else:
            self._record_name = ""
        context = " ".join([self._context, *(key for _, key in self._keys)])
        is_value = len(body.split()) <= _VALUE_WORDS or body[0] in "`\"'*"
        if awaited and is_value and not _LABEL_END.search(body) and not body.endswith("?"):
            first, first_start = next(_split_clauses(body, start))
            yield Clause(first, first_start, awaited, body[len(first) :][:_FOLLOWING_CHARACTERS], context)
        yield from _split_sentences(body, start, context)

    def _split_json(self, line: str, offset: int) -> Iterator[Clause]:
        for match in _JSON_TOKEN.finditer(line):
            text, colon, opened, closed, number, literal = match.groups()
            if colon:
                self._json_key = text
            elif opened:
                self._json.append((self._json_key, self._json_name))
                self._json_key = self._json_name = ""
            elif closed:
                self._json_key, self._json_name = "", self._json.pop()[1] if self._json else ""
            elif literal:
                self._json_key = ""
            else:
                content, start = (number, match.start()) if number is not None else (text, match.start(1))
                yield from self._read_json_value(content, offset + start)
                if not (self._json and line[match.end() :].lstrip().startswith(",") and not self._json_key):
                    self._json_key = ""

    def _read_json_value(self, content: str, start: int) -> Iterator[Clause]:
        key, self._json_key = self._json_key, ""
        if key.lower() in _NAME_KEYS:
            self._json_name = content
            return
        parents = [name for name, _ in self._json if name]
        if key.lower() in _VALUE_KEYS and (self._json_name or parents):
            key, parents = (self._json_name, parents) if self._json_name else (parents[-1], parents[:-1])
        if key:
            yield Clause(content, start, " ".join([*parents[1:], key]), "", " ".join([self._context, *parents]))
        if not key or len(content.split()) >= _SENTENCE_WORDS:
            yield from _split_sentences(content, start, self._context)


def _is_json(line: str) -> bool:
    stripped = line.strip()
    return stripped in {"{", "["} or bool(re.match(r"[{\[]\s*[\"{\[]|\"[^\"]+\"\s*:", stripped))


def _strip_marks(text: str) -> str:
    return text.strip(" \t*_`\"':").strip()


def _split(pattern: re.Pattern[str], text: str, offset: int) -> Iterator[tuple[str, int]]:
    start = 0
    for match in pattern.finditer(text):
        yield text[start : match.start()], offset + start
        start = match.end()
    yield text[start:], offset + start


def _split_row(line: str, offset: int, context: str) -> Iterator[Clause]:
    cells = [(match[0], offset + match.start()) for match in re.finditer(r"(?:\\.|`[^`]*`|[^|\\`\n]|`)+", line)]
    cells = [(text, start) for text, start in cells if text.strip(" -:")]
    if len(cells) > 2 and re.fullmatch(r"\W*\d{1,3}\W*", cells[0][0]):  # number of the row
        del cells[0]
    for index, (text, start) in enumerate(cells):
        if index or len(text.split()) > MAX_LABEL_WORDS:
            yield from _split_sentences(text.rstrip(), start, context)
        label = cells[0][0] if index == 1 else cells[1][0] if len(cells) == 2 else ""
        if label and len(label.split()) <= MAX_LABEL_WORDS:
            first, first_start = next(_split(_SENTENCE_END, text, start))
            yield Clause(first, first_start, label, "", context)


def _split_sentences(body: str, offset: int, context: str) -> Iterator[Clause]:
    topic = ""
    for sentence, start in _split(_SENTENCE_END, body, offset):
        if sentence.rstrip(" *_").endswith("?"):
            continue
        pronoun = _PRONOUN.match(sentence) if topic else None
        if pronoun:
            rest = sentence[pronoun.end() :]
            yield Clause(rest, start + pronoun.end(), f"{sentence[: pronoun.end()]} {topic}", "", context)
            continue
        topic = _find_topic(sentence)
        yield from _split_sentence(sentence, start, context)


def _find_topic(sentence: str) -> str:
    """Return the words of a sentence before its verb or colon, to which "it" in the next sentence refers."""
    verb = _VERB.search(sentence)
    if verb is None:
        return ""
    topic = _INTRODUCTION.sub("", sentence[: verb.start()], count=1)
    if lead := _TIME.match(topic):
        topic = topic[lead.end() :]
    return topic if 0 < len(topic.split()) <= MAX_LABEL_WORDS else ""


def _split_sentence(sentence: str, offset: int, context: str) -> Iterator[Clause]:
    for pair in _CODE_PAIR.finditer(sentence):
        yield Clause(pair[2], offset + pair.start(2), pair[1], "", context)
    if ", " in sentence and _PAIRS.match(sentence):
        for pair_text, start in _split(_COMMA, sentence, offset):
            yield from _split_sentence(pair_text, start, context)
        return
    if bound := _BOUND_KEY.match(sentence):
        yield Clause(sentence[bound.end() :], offset + bound.end(), bound[1], "", context)
        return
    for number in range(MAX_LABELS):
        label_end = _LABEL_END.search(sentence)
        if label_end is None or not 0 < len(sentence[: label_end.start()].split()) <= MAX_LABEL_WORDS:
            break
        # "a: 1 → 2" and "changed a from 1 → 2": the arrow joins an older value with a newer one
        is_change = any(arrow in label_end[0] for arrow in ("→", "⇒", "->", "=>")) and (
            number or " " in sentence[: label_end.start()]
        )
        label, rest, start = sentence[: label_end.start()], sentence[label_end.end() :], offset + label_end.end()
        first, first_start = (rest, start) if len(rest.split()) <= _BARE_WORDS else next(_split_clauses(rest, start))
        yield Clause(first, first_start, label, rest[len(first) :][:_FOLLOWING_CHARACTERS], context)
        if is_change:
            break
        sentence, offset = rest, start
    else:  # with so many labels, the text is no sentence
        return
    for match in _PARENTHESIS.finditer(sentence):
        before = sentence[: match.start()].rsplit(",", maxsplit=1)[-1]
        yield Clause(match[1], offset + match.start(1), before, "", context)
    introduction = ""
    for text, start in _split_clauses(sentence, offset):
        end = start - offset + len(text)
        yield Clause(text, start, "", sentence[end : end + _FOLLOWING_CHARACTERS], context, introduction)
        if start == offset and _LEAD_IN.match(text):
            introduction = text


def _split_clauses(sentence: str, offset: int) -> Iterator[tuple[str, int]]:
    """Yield the clauses of a sentence with their positions; words within quotation marks do not separate clauses."""
    masked = _CODE.sub(lambda match: "`" + "x" * (len(match[0]) - 2) + "`", sentence)
    for text, start in _split(_CLAUSE_END, masked, 0):
        yield sentence[start : start + len(text)], offset + start
