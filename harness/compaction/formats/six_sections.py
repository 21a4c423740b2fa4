"""What a summarizer is asked for and how its text goes into the view."""

from dataclasses import dataclass

from harness import transcript
from harness.messages import Message, user
from harness.plan import SummaryRequest

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

    def prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """One user message with the former summary, the transcript and the original task."""
        filled = _SIX_SECTIONS_PROMPT.format(
            previous=request.previous_summary or "None - this is the first compaction",
            messages=transcript.text(request.to_summarize),
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
