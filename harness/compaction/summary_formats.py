"""Summary formats that several compaction policies share: how a model is asked for a summary, and how the agent sees it.

Lists of the files that were read or modified do not come from the summarizer. They are compiled from the tool calls, and copied
from each summary to the next.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import is_not
from typing import Literal

from harness.conversation import transcript
from harness.conversation.messages import Message, Part, Text, ToolCall, ToolResult, system, user
from harness.conversation.plan import SummaryProcedure, SummaryRequest
from harness.conversation.view import render_messages

READ_TAG, MODIFIED_TAG = "read-files", "modified-files"
READ_TOOLS = frozenset({"read_file"})
WRITE_TOOLS = frozenset({"write_file"})


def append_file_lists(text: str, request: SummaryRequest) -> str:
    """Return a summary followed by lists of the files that the agent has read and modified so far.

    The files are taken from the lists in former summaries and from the tool calls since then. A former summary that the
    summarizer reads among the messages is a message of the user.
    """
    user_texts = (message.text for message in request.to_summarize if message.role == "user")
    former_text = "\n".join((request.previous_summary, *user_texts))
    body = re.sub(rf"<({READ_TAG}|{MODIFIED_TAG})>.*?</\1>\s*", "", text, flags=re.DOTALL).strip()
    calls = [call for message in request.to_summarize for call in message.calls]
    modified_paths = {*extract_paths(MODIFIED_TAG, former_text), *_list_paths(calls, WRITE_TOOLS)}
    read_paths = {*extract_paths(READ_TAG, former_text), *_list_paths(calls, READ_TOOLS)} - modified_paths
    lists = ((tag, "\n".join(sorted(paths))) for tag, paths in ((READ_TAG, read_paths), (MODIFIED_TAG, modified_paths)) if paths)
    return "\n\n".join((body, *(f"<{tag}>\n{lines}\n</{tag}>" for tag, lines in lists)))


def extract_paths(tag: str, text: str) -> list[str]:
    """Return the file paths between all tags of a given name in a summary, such as `<read-files>`.

    A summary that consists of two parts may contain the tag twice.
    """
    blocks = re.findall(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.DOTALL)
    return [path for lines in blocks for path in lines.splitlines()]


def _list_paths(calls: Iterable[ToolCall], tools: frozenset[str]) -> Iterable[str]:
    for call in calls:
        path = transcript.parse_arguments(call).get("path")
        if call.name in tools and isinstance(path, str):
            yield " ".join(path.split())


def format_material(request: SummaryRequest) -> str:
    """Return the text that the summarizer reads: the former summary, if any, and a transcript of the messages."""
    former = f"PREVIOUS SUMMARY:\n{request.previous_summary}\n\n" if request.previous_summary else ""
    return f"{former}MESSAGES TO SUMMARIZE:\n{transcript.render(request.to_summarize)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """Summary format with a fixed instruction, to which a sentence is added if there is a former summary."""

    instruction: str
    """Instruction to the summarizer, which begins with `Create a summary`."""
    merge: str = ""
    """Sentence added to the instruction if a former summary is to be merged with new messages."""
    heading: str = ""
    """Line inserted above the summary that the agent sees; an empty text adds no line."""
    closing: str = ""
    """Line inserted below the summary that the agent sees; an empty text adds no line."""
    system: str = ""
    """System message of the prompt for the summarizer; the layout `system` ignores this field.

    If the field is empty, the layout `session` uses the system message of the session.
    """
    layout: Literal["transcript", "session", "system"] = "transcript"
    """Arrangement of the prompt for the summarizer.

    * `transcript`: a transcript of the messages and the instruction, in one user message.
    * `session`: the messages of the session, then the instruction, so that the provider can reuse its cache of the session.
    * `system`: a transcript and the instruction in the system message, then a user message that asks for the summary.
    """
    files: bool = False
    """Whether lists of the files that were read and modified so far are added below the summary."""
    most_characters: int | None = None
    """Maximum length of the summary in characters; None sets no limit."""
    drops: str = ""
    """Name of a tag whose content is removed from the summarizer's answer, such as `scratchpad`; empty removes nothing."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return the messages that ask the summarizer for a summary, arranged as `layout` specifies."""
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
        """Return the summarizer's answer between the heading and the closing line, as the agent sees it."""
        body = remove_tag(self.drops, text) if self.drops else text.strip()
        body = truncate_text(body, self.most_characters) if self.most_characters is not None else body
        body = append_file_lists(body, request) if self.files else body
        return "\n".join(part for part in (self.heading, body, self.closing) if part)


def remove_tag(tag: str, text: str) -> str:
    """Remove the first `<tag>...</tag>` from a text, unless nothing else would be left."""
    before, opening, rest = text.partition(f"<{tag}>")
    _, ending, after = rest.partition(f"</{tag}>")
    remaining_text = f"{before}{after}".strip() if opening and ending else ""
    return remaining_text or text.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class CapTexts:
    """Rule that cuts long texts, such as tool results, to their beginnings before the summarizer reads them."""

    result_characters: int
    """Maximum length in characters of a tool result that the summarizer reads."""
    text_characters: int | None = None
    """Maximum length in characters of any other text that the summarizer reads; None sets no limit."""
    without: str = ""
    """Text of a user message that is not shown to the summarizer, such as the question that an earlier summary answers."""
    hides_arguments: bool = False
    """Whether the summarizer reads only the names of the called tools, without the arguments of the calls."""

    def select(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages with long texts cut to their beginnings and without the message `without`."""
        shown = (message for message in messages if not (self.without and message == user(self.without)))
        return tuple(map(self._cap, shown))

    def _cap(self, message: Message) -> Message:
        parts = tuple([self._cap_part(part) for part in message.parts])
        return replace(message, parts=parts) if any(map(is_not, parts, message.parts)) else message

    def _cap_part(self, part: Part) -> Part:
        if isinstance(part, ToolResult):
            text = truncate_text(part.output, self.result_characters)
            return part if text is part.output else replace(part, output=text)
        if isinstance(part, Text) and self.text_characters is not None:
            text = truncate_text(part.text, self.text_characters)
            return part if text is part.text else replace(part, text=text)
        if isinstance(part, ToolCall) and self.hides_arguments:
            return replace(part, arguments_json="{}")
        return part


def truncate_text(text: str, limit_characters: int) -> str:
    """Return the first characters of a text, followed by a mark with the number of characters left out."""
    cut_count = len(text) - limit_characters
    return text if cut_count <= 0 else f"{text[:limit_characters]}\n[... {cut_count} more characters]"


ACCEPT_EMPTY = SummaryProcedure(empty_text="")
"""Procedure that accepts an empty answer of the summarizer as an empty summary, instead of treating it as a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """Summary format whose prompt is an instruction above a transcript; the summary gets a heading."""

    instruction: str
    """Instruction to the summarizer, placed above the messages to summarize."""
    heading: str
    """Line inserted above the summary that the agent sees."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return one user message with the instruction, the messages to summarize and the user's request."""
        request_text = f"\n\nORIGINAL USER TASK:\n{request.task}" if request.task else ""
        return (user(f"{self.instruction}\n\n{format_material(request)}{request_text}"),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the summarizer's answer below the heading, as the agent sees it."""
        return f"{self.heading}\n{text.strip()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """Summary format that asks for sections with given titles, and begins the summary with a fixed line."""

    titles: tuple[str, ...]
    """Titles of the sections that the summary must have, in order."""
    opening: str
    """Line above the summary that explains to the agent that the text is a summary of earlier messages."""
    closing: str = ""
    """Line inserted below the summary that the agent sees; an empty text adds no line."""
    with_task: bool = False
    """Whether the prompt for the summarizer repeats the user's request, even if the messages contain it."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return a user message with the section titles, the former summary and the messages to summarize."""
        titles = "\n".join(f"## {title}" for title in self.titles)
        heading = "PREVIOUS SUMMARY, to be brought up to date"
        former = f"\n\n{heading}:\n{request.previous_summary}" if request.previous_summary else ""
        task = f"\n\nORIGINAL USER TASK:\n{request.task}" if self.with_task else ""
        transcript_text = transcript.render(request.to_summarize)
        request_text = (
            "Write down what an agent needs to go on with the work below when it can no longer see these messages. Use these "
            f"sections, and leave none out:\n\n{titles}"
        )
        return (user(f"{request_text}{task}{former}\n\nMESSAGES TO SUMMARIZE:\n{transcript_text}"),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the summarizer's answer between the opening and the closing line, as the agent sees it."""
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
    """Summary format with six sections under the heading "Session Summary (Compaction Round N)"."""

    max_tokens: int = 800
    """Maximum length of the summary in tokens that the prompt asks for."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return one user message with the former summary, the messages to summarize and the user's request."""
        filled = _SIX_SECTIONS_PROMPT.format(
            previous=request.previous_summary or "None - this is the first compaction",
            messages=transcript.render(request.to_summarize),
            task=request.task,
            max_tokens=self.max_tokens,
        )
        return (user(filled),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the summary as the agent sees it, below a heading with the number of the compaction.

        If the summarizer wrote such a heading itself, that heading is removed.
        """
        body = text.strip()
        if body.startswith("## Session Summary"):
            body = body.partition("\n")[2].strip()
        heading = f"## Session Summary (Compaction Round {request.round})"
        chained = f"\n\nThis summary incorporates context from {request.round - 1} previous rounds." if request.round > 1 else ""
        return f"{heading}\n\n{body}{chained}"
