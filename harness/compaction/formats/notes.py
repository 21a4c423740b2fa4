"""Short formats without prescribed sections: one instruction, the transcript, and a heading over the answer."""

from dataclasses import dataclass

from harness import transcript
from harness.messages import Message, user
from harness.plan import SummaryRequest

SINCE = "Summarize the conversation of a coding agent below, so that it can go on with its work from your summary alone."
"""Our words for the first seed's second document, which gives no prompt."""
CONCISE = (
    "Summarize the following conversation history concisely. Focus on: what files were read/written, what decisions were made, "
    "what problems were encountered, and what the current state of the task is. Be factual and brief."
)
"""The instruction of S4.3, word for word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """One instruction over the transcript; the answer stands under a heading."""

    instruction: str
    heading: str

    def prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """One user message."""
        former = f"\n\nPREVIOUS SUMMARY:\n{request.previous_summary}" if request.previous_summary else ""
        told = transcript.text(request.to_summarize)
        asked = f"\n\nORIGINAL USER TASK:\n{request.task}" if request.task else ""
        return (user(f"{self.instruction}{former}\n\nMESSAGES TO SUMMARIZE:\n{told}{asked}"),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """The answer under the heading."""
        return f"{self.heading}\n{text.strip()}"
