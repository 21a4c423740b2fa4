"""Summary formats that several presets share, and what they ask around a summary.

Lists of files are not left to the summarizer: they are read off the calls and carried from summary to summary.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from harness import transcript
from harness.messages import Message, Part, Text, ToolCall, ToolResult, system, user
from harness.plan import SummaryProcedure, SummaryRequest
from harness.view import render_messages

READ_TAG, MODIFIED_TAG = "read-files", "modified-files"
READ_TOOLS = frozenset({"read_file"})
WRITE_TOOLS = frozenset({"write_file"})


def append_file_lists(text: str, request: SummaryRequest) -> str:
    """A summary with the lists of files read and modified below it: those of the former one and what was called since."""
    body = re.sub(rf"<({READ_TAG}|{MODIFIED_TAG})>.*?</\1>\s*", "", text, flags=re.DOTALL).strip()
    calls = [call for message in request.to_summarize for call in message.calls]
    modified_paths = {*extract_paths(MODIFIED_TAG, request.previous_summary), *_list_paths(calls, WRITE_TOOLS)}
    read_paths = {*extract_paths(READ_TAG, request.previous_summary), *_list_paths(calls, READ_TOOLS)} - modified_paths
    lists = ((tag, "\n".join(sorted(paths))) for tag, paths in ((READ_TAG, read_paths), (MODIFIED_TAG, modified_paths)) if paths)
    return "\n\n".join((body, *(f"<{tag}>\n{lines}\n</{tag}>" for tag, lines in lists)))


def extract_paths(tag: str, text: str) -> list[str]:
    """The paths of the lists of one kind in a summary; one of two parts may have two."""
    found = re.findall(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.DOTALL)
    return [path for lines in found for path in lines.splitlines()]


def _list_paths(calls: Iterable[ToolCall], tools: frozenset[str]) -> Iterable[str]:
    for call in calls:
        path = transcript.parse_arguments(call).get("path")
        if call.name in tools and isinstance(path, str):
            yield " ".join(path.split())


def format_material(request: SummaryRequest) -> str:
    """Return the former summary, if there is one, and the transcript of what is to be summarized, each under a heading."""
    former = f"PREVIOUS SUMMARY:\n{request.previous_summary}\n\n" if request.previous_summary else ""
    return f"{former}MESSAGES TO SUMMARIZE:\n{transcript.render(request.to_summarize)}"


INSTRUCTION_OPENING = "Create a summary"
"""How an instruction begins, so that a reader of the prompt knows where the material ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """One instruction, the same each time but for a sentence about a former summary."""

    instruction: str
    """Begins with `Create a summary`."""
    merge: str = ""
    """Added to the instruction when a former summary is told apart."""
    heading: str = ""
    """Before the answer, a line of its own."""
    closing: str = ""
    """Behind the answer, a line of its own."""
    system: str = ""
    """System message of the prompt; empty = none, but for the layout `session`."""
    layout: Literal["transcript", "session", "system"] = "transcript"
    """`transcript`: text and instruction in one user message. `session`: the session's own messages, then the instruction, so
    that the prompt begins as the request before it did. `system`: text and instruction are the system message, and the user
    asks for what it says."""
    files: bool = False
    """Whether lists of the files that were read and modified are carried on below the answer."""
    most_characters: int | None = None
    """A longer answer is cut; None = it is not."""
    drops: str = ""
    """Name of a tag that is taken out of the answer with all that is in it, e.g. a scratchpad."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """The messages in the layout."""
        instruction = f"{self.instruction}\n{self.merge}" if self.merge and request.previous_summary else self.instruction
        if self.layout == "session":
            own = (system(self.system),) if self.system else (request.system,) if request.system else ()
            former = (user(request.previous_summary),) if request.previous_summary else ()
            return (*render_messages((*own, *former, *request.to_summarize)), user(instruction))
        prompt_text = f"{format_material(request)}\n\n{instruction}"
        if self.layout == "system":
            return system(prompt_text), user("Write the summary that the instructions above ask for.")
        return (*((system(self.system),) if self.system else ()), user(prompt_text))

    def render(self, text: str, request: SummaryRequest) -> str:
        """The answer between the fixed texts."""
        body = remove_tag(self.drops, text) if self.drops else text.strip()
        body = truncate_text(body, self.most_characters) if self.most_characters is not None else body
        body = append_file_lists(body, request) if self.files else body
        return "\n".join(part for part in (self.heading, body, self.closing) if part)


def remove_tag(tag: str, text: str) -> str:
    """A text without what stands between `<tag>` and `</tag>`; as it is if nothing else would be left."""
    before, opening, rest = text.partition(f"<{tag}>")
    _, ending, after = rest.partition(f"</{tag}>")
    left = f"{before}{after}".strip() if opening and ending else ""
    return left or text.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class CapTexts:
    """Shows a summarizer the beginning of long texts only."""

    result_characters: int
    """Of one tool result."""
    text_characters: int | None = None
    """Of any other text; None = whole."""
    without: str = ""
    """What the user says in a message that is not shown, e.g. the question that a former summary answered."""

    def select(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """See `harness.plan.Excerpt`."""
        shown = (message for message in messages if not (self.without and message == user(self.without)))
        return tuple(replace(message, parts=tuple(map(self._cap_part, message.parts))) for message in shown)

    def _cap_part(self, part: Part) -> Part:
        if isinstance(part, ToolResult):
            return replace(part, output=truncate_text(part.output, self.result_characters))
        if isinstance(part, Text) and self.text_characters is not None:
            return replace(part, text=truncate_text(part.text, self.text_characters))
        return part


def truncate_text(text: str, limit_characters: int) -> str:
    """The first characters of a text, with a mark that says how many are left out."""
    gone = len(text) - limit_characters
    return text if gone <= 0 else f"{text[:limit_characters]}\n[... {gone} more characters]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantText:
    """Always the same text. See `harness.plan.StandIn`."""

    words: str

    def write_summary(self, request: SummaryRequest) -> str:
        """The words."""
        return self.words


ACCEPT_EMPTY = SummaryProcedure(stand_in=ConstantText(words=""), stand_in_for="empty")
"""An answer without text is taken as the summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """One instruction over the transcript; the answer stands under a heading."""

    instruction: str
    heading: str

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """One user message."""
        asked = f"\n\nORIGINAL USER TASK:\n{request.task}" if request.task else ""
        return (user(f"{self.instruction}\n\n{format_material(request)}{asked}"),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """The answer under the heading."""
        return f"{self.heading}\n{text.strip()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """One instruction with the titles of the sections; the answer stands under an opening line."""

    titles: tuple[str, ...]
    """Of the sections, in order."""
    opening: str
    """Stands above the answer in the view; tells the agent what it is reading."""
    closing: str = ""
    """Stands below it."""
    with_task: bool = False
    """Whether the summarizer is given the user's request from the log, also where it is among the messages."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """One user message: the sections, the former summary if it is told apart, and the transcript."""
        titles = "\n".join(f"## {title}" for title in self.titles)
        heading = "PREVIOUS SUMMARY, to be brought up to date"
        former = f"\n\n{heading}:\n{request.previous_summary}" if request.previous_summary else ""
        task = f"\n\nORIGINAL USER TASK:\n{request.task}" if self.with_task else ""
        transcript_text = transcript.render(request.to_summarize)
        asked = (
            "Write down what an agent needs to go on with the work below when it can no longer see these messages. Use these "
            f"sections, and leave none out:\n\n{titles}"
        )
        return (user(f"{asked}{task}{former}\n\nMESSAGES TO SUMMARIZE:\n{transcript_text}"),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """The answer between opening and closing line."""
        return "\n\n".join(part for part in (self.opening, text.strip(), self.closing) if part)


_SIX_SECTIONS_PROMPT = """\
You are summarizing a coding agent's conversation history. Your summary
will replace the compacted messages, so preserve all information needed
to continue the task.

PREVIOUS SUMMARY (if any):
{previous}

MESSAGES TO SUMMARIZE:
{messages}

ORIGINAL USER TASK:
{task}

Create a summary with these sections:
1. Original Task - preserve the user's request verbatim
2. Completed Work - table of files with actions and purposes
3. Key Technical Decisions - choices that affect future work
4. Current State - what's being worked on now
5. Pending Work - remaining items as checklist
6. Errors & Resolutions - issues and how they were fixed

CONSTRAINTS:
- Maximum {max_tokens} tokens
- Use bullet points and tables
- Include exact file paths
- No code blocks unless critical
- If previous summary exists, integrate (don't duplicate)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SixSections:
    """Six sections under "Session Summary (Compaction Round N)". Prompt, heading and closing line are the seed's own: S0.6."""

    max_tokens: int = 800

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """One user message with the former summary, the transcript and the original task."""
        filled = _SIX_SECTIONS_PROMPT.format(
            previous=request.previous_summary or "None - this is the first compaction",
            messages=transcript.render(request.to_summarize),
            task=request.task,
            max_tokens=self.max_tokens,
        )
        return (user(filled),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """The text under the heading with its round number, which replaces one that the summarizer wrote itself."""
        body = text.strip()
        if body.startswith("## Session Summary"):
            body = body.partition("\n")[2].strip()
        heading = f"## Session Summary (Compaction Round {request.round})"
        chained = f"\n\nThis summary incorporates context from {request.round - 1} previous rounds." if request.round > 1 else ""
        return f"{heading}\n\n{body}{chained}"
