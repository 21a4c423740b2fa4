"""Ending of a session of another agent, which no process of this project ran, as far as its messages show it.

Such a log has what the agent sent and was answered, and nothing says why no more came. Its last answer shows the difference
between an agent that ended and one that stopped in the middle of its work, for example because it was killed.
"""

from collections.abc import Sequence

from harness.conversation.events import SessionEnded
from harness.conversation.messages import Message, ToolCall

MINI_FINAL_LINE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""Text that a command of mini-swe-agent prints to end the session."""
FINAL_TOOLS = frozenset(("submit", "finish", "final_answer", "attempt_completion", "complete_task", "task_complete", "task_done"))
"""Tools with which agents end a session and return no result: of SWE-agent and Inspect, OpenHands, smolagents, Cline, Gemini CLI,
GitHub Copilot and trae-agent."""


def infer_ending(messages: Sequence[Message]) -> SessionEnded:
    """Return how a session ended after whose last message nothing more is known.

    An answer without tool calls ends the session (`replied`), and so does a call with which agents end (`declared`). Any other
    session was broken off.

    Args:
        messages: Messages of the session, or the newest ones from the last answer on.
    """
    behind = next((count for count, message in enumerate(reversed(messages)) if message.role == "assistant"), None)
    if behind is None:
        return SessionEnded(status="failed", reason="broken_off", detail="the model gave no answer")
    answer, results = messages[-1 - behind], messages[len(messages) - behind :]
    if all(message.role == "tool" for message in results) and (final := next(filter(_is_final, answer.calls), None)):
        return SessionEnded(status="completed", reason="declared", detail=f"the agent ended by its tool {final.name}")
    if results:
        detail = "the record ends with a request that has no answer: the agent was stopped, or the answer was not recorded"
        return SessionEnded(status="failed", reason="broken_off", detail=detail)
    if not answer.calls:
        return SessionEnded(status="completed", reason="replied")
    names = ", ".join(dict.fromkeys(call.name for call in answer.calls))
    detail = f"the last answer calls {names:.200}, and no result came back: the agent was stopped, or it ends by such a call"
    return SessionEnded(status="failed", reason="broken_off", detail=detail)


def _is_final(call: ToolCall) -> bool:
    return call.name in FINAL_TOOLS or MINI_FINAL_LINE in call.arguments_json
