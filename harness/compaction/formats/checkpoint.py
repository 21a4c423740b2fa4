"""The Markdown document of the second seed: goal, constraints, progress, decisions, next steps, and the files touched (S2.4).

The lists of files are not left to the summarizer: they are read off the calls and carried from summary to summary.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from harness import transcript
from harness.messages import Message, ToolCall, user
from harness.plan import SummaryRequest

_SECTIONS = """\
## Goal
[What the user is trying to accomplish]

## Constraints & Preferences
- [Requirements and constraints mentioned by user]

## Progress
### Done
- [x] [Completed tasks]

### In Progress
- [ ] [Current work]

### Blocked
- [Blockers, if any]

## Key Decisions
- **[Decision]**: [Rationale and context]

## Next Steps
1. [What should happen next]

## Critical Context
- [Data, values, or state needed to continue]"""

READ, MODIFIED = "read-files", "modified-files"
READERS = frozenset({"read_file"})
WRITERS = frozenset({"write_file"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Seven sections and two lists of files. Sections and tags are the seed's own: S2.4, S2.5."""

    part_of_turn: bool = False
    """Whether it sums up the beginning of a turn that was split, instead of the history before it (S2.3)."""

    def prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """One user message; a former summary is to be merged with what is new (S2.5)."""
        told = transcript.text(request.to_summarize)
        if self.part_of_turn:
            what = "This is the beginning of a turn whose end stays as it is. Say what was asked, what was done so far, and what "
            return (user(f"{what}the rest of the turn needs to be understood.\n\nMESSAGES TO SUMMARIZE:\n{told}"),)
        former = f"\n\nPREVIOUS SUMMARY:\n{request.previous_summary}" if request.previous_summary else ""
        merge = " Merge the previous summary with the new messages into one document: keep what still holds." if former else ""
        asked = f"\n\nORIGINAL USER TASK:\n{request.task}"
        instruction = f"Create a summary of this coding session in exactly this format.{merge}\n\n{_SECTIONS}"
        return (
            user(f"The session so far is to be summarized.{former}\n\nMESSAGES TO SUMMARIZE:\n{told}{asked}\n\n{instruction}"),
        )

    def render(self, text: str, request: SummaryRequest) -> str:
        """The document with its lists; of a part of a turn, the text under a heading of its own."""
        if self.part_of_turn:
            return f"## Turn in progress\n{text.strip()}"
        return with_files(text, request)


def with_files(text: str, request: SummaryRequest) -> str:
    """A summary with the lists of files read and modified below it: those of the former one and what was called since."""
    body = re.sub(rf"<({READ}|{MODIFIED})>.*?</\1>\s*", "", text, flags=re.DOTALL).strip()
    calls = [call for message in request.to_summarize for call in message.calls]
    modified = {*listed(MODIFIED, request.previous_summary), *_paths(calls, WRITERS)}
    read = {*listed(READ, request.previous_summary), *_paths(calls, READERS)} - modified
    return "\n\n".join((body, *(_list(tag, paths) for tag, paths in ((READ, read), (MODIFIED, modified)) if paths)))


def _list(tag: str, paths: Iterable[str]) -> str:
    lines = "\n".join(sorted(paths))
    return f"<{tag}>\n{lines}\n</{tag}>"


def listed(tag: str, text: str) -> list[str]:
    """The paths of the lists of one kind in a summary; one of two parts may have two."""
    found = re.findall(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.DOTALL)
    return [path for lines in found for path in lines.splitlines()]


def _paths(calls: Iterable[ToolCall], tools: frozenset[str]) -> Iterable[str]:
    for call in calls:
        path = transcript.arguments(call).get("path")
        if call.name in tools and isinstance(path, str):
            yield " ".join(path.split())
