"""Policies that ask for a summary in the session's own prompt, and go on from the summary alone."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.pipeline import Pipeline, Rule, Share, SummarizingPreset
from harness.compaction.stages import EVERYTHING, Summarize
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import Always, Full, ShareOfAvailable
from harness.conversation.messages import Message
from harness.conversation.plan import SummaryFormat, SummaryRequest

INLINE_INSTRUCTION = """\
Create a summary of the session now, and call no tool in this answer. The next request will contain the summary in place of the
session. Write down what the user asked for, what was done and with which tools, the state of each file, what the last calls
returned, and what comes next."""
BRIEF_INSTRUCTION = """\
Create a summary of the session as a brief for a new session, which sees nothing else. State the goal, the constraints, what is
done, what was learned with exact names, paths and values, and the first thing to do."""
BRIEF_HEADING = "Brief from the previous session:"
REQUEST_HEADING = "Request of the user, verbatim:"


@dataclass(frozen=True, kw_only=True)
class InSession(SummarizingPreset):
    """Base class of policies that replace everything behind the system message by a summary.

    Attributes:
        threshold: Share of the window that triggers compaction, above 0 and at most 1; the conversation is measured by the
            provider's last report and an estimate of later messages. Default: `0.85`.
    """

    __slots__ = ()

    threshold: Share = 0.85

    def build_pipeline(self, layout: SummaryFormat) -> Pipeline:
        """Return a pipeline that summarizes everything at the threshold and after an overflow.

        Args:
            layout: Format of the prompt for the summarizer, and of the summary.
        """
        summarize = Summarize(middle=EVERYTHING, format=layout, max_tokens=self.summary_max_tokens, former="among")
        rules = (Rule(Full(measure="reported-and-since"), summarize), Rule(Always(), summarize, hook="overflow"))
        return Pipeline(ShareOfAvailable(share=self.threshold), rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshBrief:
    """Summary format of a brief with which a new session begins: the user's request verbatim, and the brief."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return the messages of the session, and one more that asks for the brief."""
        return Brief(instruction=BRIEF_INSTRUCTION, layout="session").build_prompt(request)

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the user's request and the brief, as the agent sees them at the beginning of the new session."""
        opening = (REQUEST_HEADING, request.task, "") if request.task else ()
        return "\n".join((*opening, BRIEF_HEADING, text.strip()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CopilotInline(InSession):
    """Policy that asks the agent's own model for a summary within the session at 85 % of the window.

    Choose it when you compare VS Code Copilot, or want the request for a summary to read the provider's cache.

    Source: VS Code Copilot, pull request 4956 of microsoft/vscode-copilot-chat (2026-04-03), as its description says.

    The instruction is appended to the session, so the prompt for the summary begins with the same bytes as the last request. The
    answer then replaces everything behind the system message.

    If the summary fails or is empty, the conversation stays unchanged.

    One difference from the original: it keeps the user's request as a message of its own, where its prompts are assembled anew.

    Example:
        >>> from harness.policies import CopilotInline
        >>> from harness.conversation.tokens import Window
        >>> CopilotInline().budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        27852
    """

    kind: Literal["copilot-inline"] = "copilot-inline"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize everything at the threshold and after an overflow."""
        return self.build_pipeline(Brief(instruction=INLINE_INSTRUCTION, layout="session"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff(InSession):
    """Policy that ends the session with a brief at 80 % of the window, and begins a new one with it.

    Choose it when you compare compaction with a handoff to a fresh session, as users do by hand.

    Source: this project; requests of users such as hermes-agent 20372 and pi 3945 describe the practice, and none has parameters.

    The new session has the system message, the user's first request verbatim, and the brief. Nothing else of the old session
    stays. The log is that of one session, so the steps and costs of both add up.

    If the summary fails or is empty, the conversation stays unchanged.

    Attributes:
        threshold: Share of the window that triggers the handoff, above 0 and at most 1, which is a choice of this project; the
            conversation is measured by the provider's last report and an estimate of later messages. Default: `0.8`.

    Example:
        >>> from harness.policies import Handoff
        >>> from harness.conversation.tokens import Window
        >>> Handoff(threshold=0.5).budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        16384
    """

    threshold: Share = 0.8
    kind: Literal["handoff"] = "handoff"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which replace everything by the request and a brief at the threshold and after an overflow."""
        return self.build_pipeline(FreshBrief())
