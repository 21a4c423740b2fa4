"""Prompts for a summary as scripted summarizers read them: the lines to summarize, and the sections that are asked for.

Lines to summarize follow a heading such as `MESSAGES TO SUMMARIZE:` or a tag such as `<EVENT>`, or begin the prompt. Everything
above them, and the last line that begins with `Create a summary` with all below it, is the instruction. The sections are read
from the instruction, in whatever way it lists them: as Markdown headings, numbered titles, titles in capitals, or tags.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from harness.conversation.transcript import RECEIPT
from harness.models.scripted.visible_state import SUCCESS_OUTCOMES

HEADING = re.compile(r"^(?:PREVIOUS SUMMARY|MESSAGES TO SUMMARIZE|ORIGINAL USER TASK|CURRENT TASK)\b[^.]*:$")
"""Regular expression for a heading above lines to summarize; other lines in capitals are part of what is summarized."""
_MATERIAL_TAG = re.compile(r"^<(?:EVENT|PREVIOUS SUMMARY)>$")
_INSTRUCTION = "Create a summary"
_NO_FORMER = "None - this is the first compaction"
"""Line of a prompt in place of a former summary."""
_OMISSION = "leave out those for which there is nothing"
"""Words of an instruction that allows to leave sections out."""

_SECTION_LINES = (
    re.compile(r"^#{2,4} (?P<title>.+)$"),
    re.compile(r"^<(?P<title>[a-z_]+)></[a-z_]+>$"),
    re.compile(r"^\d\. (?P<title>[A-Z].*?)(?: - .*)?$"),
    re.compile(r"^(?P<title>[A-Z][A-Z_]+):$"),
)
"""Ways in which an instruction lists the sections of a summary; the first that occurs counts."""

FILE_RECORD = "[write_file] "
"""Beginning of a line that records a written file."""
NO_LINES = "None."
"""Text of a section for which a summary has no lines."""

KEPT_HEADING = "Kept from the work so far:"
"""First line of a summary by which the next summary recognizes it among other messages."""
_FORMER_BEGINS = frozenset({KEPT_HEADING, "<PREVIOUS SUMMARY>"})
"""Lines with which a former summary begins that has no heading of the prompt."""
_FORMER_ENDS = frozenset({"[system]", "[user]", "[assistant]", "</PREVIOUS SUMMARY>", "</EVENT>"})
"""Lines behind a former summary: the role of the next message in a transcript, or a closing tag."""

_TASK, _WORK, _NOTES, _STATE, _FAILURES = "task", "work", "notes", "state", "failures"
_TITLE_WORDS: dict[str, tuple[str, ...]] = {
    _TASK: (r"original|objective|goal|request|asked|intent|user_context", r"task\b(?!s|_)"),
    _WORK: (r"\bdone\b|complet", r"progress|artifact|actions|changes|files|history"),
    _NOTES: (r"decision|knowledge|detail|critical|important|(?<!user_)context|concept|highlight|summary", r"constraint"),
    _STATE: (r"current.state|\bactive$|in progress|state\b|done last",),
    _FAILURES: (r"error", r"problem|blocked"),
}
"""Regular expressions for titles of sections in lower case, by the kind of lines that belong there, in order of preference."""


class SummaryPrompt(NamedTuple):
    """Content of a prompt for a summary."""

    material: dict[str, list[str]]
    """Lines to summarize by the heading above them; lines of the user's request come first."""
    titles: tuple[str, ...]
    """Lines of the summary that open its sections, in order; empty if the prompt asks for a text without sections."""
    may_omit: bool
    """Whether the summary leaves out sections that have no lines."""

    @property
    def lines(self) -> list[str]:
        """All lines to summarize; a revised value comes after the old one."""
        return [line for lines in self.material.values() for line in lines]

    @property
    def request_lines(self) -> frozenset[str]:
        """Lines of the user's request, without surrounding white space."""
        return frozenset(line.strip() for heading, lines in self.material.items() if "TASK" in heading for line in lines)


@lru_cache(maxsize=16)
def read_summary_prompt(prompt: str) -> SummaryPrompt:
    """Return the lines to summarize, and the sections that the prompt asks for. The answer is shared: do not change it."""
    lines = prompt.splitlines()
    starts = (number for number, line in enumerate(lines) if HEADING.match(line) or _MATERIAL_TAG.match(line))
    begin = next(starts, 0)
    end = max((number for number, line in enumerate(lines) if line.startswith(_INSTRUCTION)), default=len(lines))
    end = end if end > begin else len(lines)
    material: dict[str, list[str]] = {}
    heading = ""
    for line in lines[begin:end]:
        if HEADING.match(line):
            heading = line
        elif line != _NO_FORMER:
            material.setdefault(heading, []).append(line)
    instruction = (*lines[:begin], *lines[end:])
    listed = ([match for line in instruction if (match := pattern.match(line))] for pattern in _SECTION_LINES)
    titles = tuple(map(_open_section, next((matches for matches in listed if matches), [])))
    ordered = dict(sorted(material.items(), key=lambda section: "TASK" not in section[0]))
    return SummaryPrompt(ordered, titles, any(_OMISSION in line for line in instruction))


def _open_section(listed: re.Match[str]) -> str:
    """Return the line that opens a section in the summary, given the line of the instruction that lists it."""
    line, title = listed[0], listed["title"]
    return f"<{title}>" if line[0] == "<" else f"### {title}" if line[0].isdigit() else line


class Material(NamedTuple):
    """Lines of a summary prompt that a summary replaces."""

    former: list[str]
    """Lines of the former summary."""
    new: list[str]
    """Lines of the messages, and of the user's request if there is no former summary."""


def split_material(prompt: str) -> Material:
    """Return the lines of a summary prompt that the summary replaces.

    Many prompts repeat the user's request. With a former summary, the repetition does not count, since what that summary has lost
    stays lost.
    """
    former: list[str] = []
    new: list[str] = []
    request: list[str] = []
    for heading, lines in read_summary_prompt(prompt).material.items():
        if "TASK" in heading:
            request += lines
        else:
            is_former = "PREVIOUS" in heading
            for line in lines:
                if line in _FORMER_BEGINS:
                    is_former = True
                elif is_former and line in _FORMER_ENDS:
                    is_former = False
                (former if is_former else new).append(line)
    return Material(former, new if any(map(str.strip, former)) else request + new)


class Layout(NamedTuple):
    """Order of the sections of a summary, and the kinds of lines that belong there."""

    titles: tuple[str, ...]
    places: dict[str, int]
    """Index of the section for each kind of lines that has one."""


@lru_cache(maxsize=64)
def _build_layout(titles: tuple[str, ...]) -> Layout:
    """Return the sections for the kinds of lines.

    Statements keep their order, so that the newest value of a fact stays the last: what was asked stands above notes, and the
    current state below them. Where the titles have another order, all of it goes to the notes.
    """
    places = {group: place for group, words in _TITLE_WORDS.items() if (place := _find_title(titles, words)) is not None}
    notes = places.setdefault(_NOTES, places.get(_STATE, places.get(_WORK, len(titles) - 1)))
    if places.get(_TASK, notes) >= notes:
        places.pop(_TASK, None)
    if places.get(_STATE, notes) <= notes:
        places.pop(_STATE, None)
    return Layout(titles, places)


def _find_title(titles: Sequence[str], patterns: Sequence[str]) -> int | None:
    return next((place for words in patterns for place, title in enumerate(titles) if re.search(words, title.lower())), None)


def arrange_summary(prompt: SummaryPrompt, chosen: Sequence[str]) -> str:
    """Return the chosen lines under the headings that the prompt asks for, or one below the other if it asks for none.

    Args:
        prompt: Prompt for the summary.
        chosen: Lines of the summary in the order of the prompt.

    Returns:
        The summary; an empty text if no lines are chosen.
    """
    if not chosen or not prompt.titles:
        return "\n".join(chosen)
    layout = _build_layout(prompt.titles)
    sections: list[list[str]] = [[] for _ in layout.titles]
    request_lines, newest_lines = prompt.request_lines, _find_newest(prompt)
    mended = {match.group(1, 2) for line in chosen if (match := RECEIPT.match(line)) and match[3] in SUCCESS_OUTCOMES}
    for line in chosen:
        group = _classify(line, request_lines, newest_lines, mended)
        sections[layout.places.get(group, layout.places[_NOTES])].append(line)
    return "\n".join(_format_sections(layout.titles, sections, may_omit=prompt.may_omit))


def build_empty_summary(prompt: SummaryPrompt) -> str:
    """Return the text that a summary of the prompt has besides its lines, at most."""
    return "\n".join(_format_sections(prompt.titles, [[] for _ in prompt.titles], may_omit=False))


def _classify(line: str, request: Collection[str], newest: Collection[str], mended: Collection[tuple[str, ...]]) -> str:
    """Return the kind of a line."""
    if match := RECEIPT.match(line):
        return _WORK if match.group(1, 2) in mended else _FAILURES
    if line.strip() in request:
        return _TASK
    return _STATE if line.strip() in newest else _NOTES


def _find_newest(prompt: SummaryPrompt) -> frozenset[str]:
    """Return the lines of the newest answer and its results that do not occur above it, without surrounding white space."""
    lines = [line.strip() for line in prompt.lines]
    start = next((place for place in range(len(lines) - 1, -1, -1) if lines[place] == "[assistant]"), len(lines))
    return frozenset(lines[start:]).difference(lines[:start])


def _format_sections(titles: Sequence[str], sections: Sequence[Sequence[str]], *, may_omit: bool) -> list[str]:
    """Return the lines of a summary with its sections, without the empty ones if `may_omit` is set."""
    lines = []
    for place, (title, section) in enumerate(zip(titles, sections, strict=True)):
        if may_omit and not section:
            continue
        is_parent = place + 1 < len(titles) and _count_level(titles[place + 1]) > _count_level(title)
        body = section or ([] if is_parent else [NO_LINES])
        lines += [title, *body, f"</{title[1:]}"] if title[0] == "<" else [title, *body]
    return lines


def _count_level(title: str) -> int:
    return len(title) - len(title.lstrip("#"))
