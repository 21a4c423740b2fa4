"""A document of named sections: what most published agents ask a summarizer for, each with sections of its own."""

from dataclasses import dataclass

from harness import transcript
from harness.messages import Message, user
from harness.plan import SummaryRequest


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

    def prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """One user message: the sections, the former summary if it is told apart, and the transcript."""
        titles = "\n".join(f"## {title}" for title in self.titles)
        former = (
            f"\n\nPREVIOUS SUMMARY, to be brought up to date:\n{request.previous_summary}" if request.previous_summary else ""
        )
        task = f"\n\nORIGINAL USER TASK:\n{request.task}" if self.with_task else ""
        told = transcript.text(request.to_summarize)
        asked = (
            "Write down what an agent needs to go on with the work below when it can no longer see these messages. Use these "
            f"sections, and leave none out:\n\n{titles}"
        )
        return (user(f"{asked}{task}{former}\n\nMESSAGES TO SUMMARIZE:\n{told}"),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """The answer between opening and closing line."""
        return "\n\n".join(part for part in (self.opening, text.strip(), self.closing) if part)
