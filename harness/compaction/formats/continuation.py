"""The summary of the fourth design document (S3.3): a text to go on from; a strategy may say what it is to attend to."""

from dataclasses import dataclass

from harness import transcript
from harness.messages import Message, system, user
from harness.plan import SummaryRequest

_PROMPT = """\
You are a helpful AI assistant tasked with summarizing conversations.

When asked to summarize, provide a detailed but concise summary of the conversation.
Focus on information that would be helpful for continuing the conversation, including:
- What was done
- What is currently being worked on
- Which files are being modified
- What needs to be done next
- Key user requests, constraints, or preferences that should persist
- Important technical decisions and why they were made

Your summary should be comprehensive enough to provide context but concise enough
to be quickly understood."""
_ASKED = "Provide a detailed summary for continuing our conversation."
_UPDATED = "Provide an updated summary that takes the new messages into the previous one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """Free text. The system prompt is the seed's own; a former summary stands in the transcript or apart from it."""

    focus: tuple[str, ...] = ()
    """What a strategy wants attention for (S3.15), a line each."""

    def prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """The system prompt, and one user message."""
        focus = "".join(f"\n- {line}" for line in self.focus)
        told = transcript.text(request.to_summarize)
        former = f"\n\nPREVIOUS SUMMARY:\n{request.previous_summary}" if request.previous_summary else ""
        asked = f"{_UPDATED if former else _ASKED}{former}\n\nMESSAGES TO SUMMARIZE:\n{told}"
        return (system(f"{_PROMPT}\n\nFocus on:{focus}" if focus else _PROMPT), user(asked))

    def render(self, text: str, request: SummaryRequest) -> str:
        """The text as it is."""
        return text.strip()
