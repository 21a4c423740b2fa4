"""Importer of the chat histories of aider (`.aider.chat.history.md`), Markdown to which each chat of a project is appended.

Properties of the format:

- A chat begins with `# aider chat started at TIME`. Lines with `####` are of the user, lines with `>` of the program, all other
  lines are the answer of the model.
- A line `> Tokens: ...` behind an answer has the tokens and cost of the calls since the line before, with two digits above 999.
- Sent tokens include those written to the cache. Whether they include those read from it depends on the provider.
- Files that the user added, the map of the repository and the system prompt are sent but not recorded.
- Commands (`/add`) are recorded like messages. A heading `####` in an answer cannot be told from a message of the user.

Source: Aider-AI/aider at 5dc9490b (`aider/io.py`, `aider/utils.py`, `aider/coders/base_coder.py`).
"""

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.recordings.blocks import build_usage, make_text_parts
from harness.recordings.document import MAX_COUNT, Document
from harness.recordings.draft import Draft, Turn
from harness.text import replace_surrogates

HIDDEN_NAMES = (".aider.chat.history.md",)
"""File in which the agent stores the chats of a project."""

_START = re.compile(r"^# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[ \t]*$", re.MULTILINE)
_NUMBER = r"([\d.]+k?)"
_TOKENS = re.compile(rf"^Tokens: {_NUMBER} sent(?:, {_NUMBER} cache write)?(?:, {_NUMBER} cache hit)?, {_NUMBER} received\.")
_COST = re.compile(r"Cost: \$([\d.]+) message, \$([\d.]+) session\.")
_MODEL = re.compile(r"^(?:Main model|Model): (\S+)(?: with .*)?$")


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a chat history of aider, recognised by the headings of its chats."""
    return not document.rows and _START.search(document.text) is not None


def read(document: Document) -> Iterator[Draft]:
    """Yield each chat in a chat history of aider as an unfinished recording; a chat without a message is left out."""
    text = replace_surrogates(document.text)
    starts = list(_START.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    drafts: list[Draft] = []
    line, counted = 1, 0
    for start, end in zip(starts, ends, strict=True):
        line += text.count("\n", counted, start.start())
        counted = start.start()
        reader = _Reader(draft=Draft(session_id=f"aider-{start[1].replace(' ', 'T').replace(':', '-')}"))
        reader.draft.now_ms = round(dt.datetime.fromisoformat(start[1]).replace(tzinfo=dt.UTC).timestamp() * 1000)
        reader.read_lines(text[start.end() : end], line)
        if reader.draft.turns:
            drafts.append(reader.draft)
    for draft in drafts:
        draft.warn("", "times are those of the start of the chat on the clock of the machine, whose zone is not recorded")
    yield from drafts or [Draft()]


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reader of the lines of one chat."""

    draft: Draft
    kind: str = ""
    """Kind of the lines that are being collected: `user`, `tool` (of the program) or `assistant`."""
    lines: list[str] = field(default_factory=list)
    place: str = ""
    model: str = ""
    answer: Turn | None = None
    """Newest answer, whose usage is in a later line; None if there is none."""

    def read_lines(self, text: str, first_line: int) -> None:
        """Read all lines of a chat."""
        for number, line in enumerate(text.split("\n"), start=first_line):
            kind = "user" if line.startswith("####") else "tool" if line.startswith(">") else "assistant"
            if kind != self.kind and (line.strip() or kind != "assistant"):
                self.end()
                self.kind, self.place = kind, f"line {number}"
            elif self.kind == "user" and not line.strip():
                self.end()  # the lines of one message have none between them
            self.lines.append(line)
        self.end()

    def end(self) -> None:
        """Add the lines collected so far to the recording."""
        lines, self.lines = self.lines, []
        match self.kind:
            case "user":
                text = "\n".join(line.removeprefix("####").strip() for line in lines).strip()
                if text.startswith("/"):
                    self.draft.count_dropped("command of the user, which is no message to the model")
                elif text and text != "<blank>":
                    self.draft.add_message("user", make_text_parts(text), self.place)
                    self.answer = None
            case "assistant":
                if text := "\n".join(lines).strip():
                    self.answer = self.draft.add_answer(make_text_parts(text), self.place, model=self.model)
            case "tool":
                for line in lines:
                    self.read_note(line.removeprefix(">").strip())

    def read_note(self, text: str) -> None:
        """Read a line of the program, which may have the usage of the last answer."""
        if model := _MODEL.match(text):
            self.model = model[1]
            self.draft.add_model(self.model)
        elif tokens := _TOKENS.match(text):
            sent, written, read, received = (_parse_count(number) for number in tokens.groups())
            if self.answer is not None:
                usage = build_usage(sent - written, received, read=read, written=written)
                self.draft.annotate_answer(self.answer, self.model, usage)
            if read:
                self.draft.count_dropped("answer with tokens read from the cache, which its sent tokens may include")
        elif text and not _COST.match(text):
            self.draft.count_dropped("line of the program, such as the output of a command, whose text is not read")
        if (cost := _COST.search(text)) and self.answer is not None:
            self.answer.cost_usd = _parse_number(cost[1])


def _parse_count(number: str | None) -> int:
    """Return a number of tokens such as `812`, `5.1k` or `12k`."""
    if not number:
        return 0
    return round(_parse_number(number.removesuffix("k")) * (1000 if number.endswith("k") else 1))


def _parse_number(text: str) -> float:
    """Return a number in a text of digits and points; 0 if it is none, such as `1.2.3`."""
    try:
        return min(float(text), MAX_COUNT)
    except ValueError:
        return 0
