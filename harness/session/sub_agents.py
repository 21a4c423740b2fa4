"""The tool `explore`: a sub-agent with a context of its own looks around in the same sandbox and returns a short answer (S3.20).

Only the answer takes space in the context of the session that asks. The sub-agent has a log of its own, whose session id begins
with that of the session that asks.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from harness.agent.loop import Outcome
from harness.agent.prompts import COMPLETION_MARKER
from harness.errors import SandboxDied
from harness.events import Entry, MessageAdded, Signal, SubAgentEnded
from harness.messages import ToolCall, ToolResult
from harness.protocols import Log, Tool, ToolSpec
from harness.session.resources import AssembledSession
from harness.session.totals import SessionTotals

EXPLORE_SPEC = ToolSpec(
    name="explore",
    description=(
        "Ask a helper with an empty context to look around in the sandbox (large files, long outputs, many files) and to answer "
        "one question in a few sentences. It sees nothing of this conversation, so say all that it needs to know."
    ),
    parameters_json=json.dumps(
        {
            "type": "object",
            "properties": {"question": {"type": "string", "description": "What is to be found out, and where to look"}},
            "required": ["question"],
        }
    ),
)
EXPLORE_PROMPT = """\
You explore a workspace for another agent, who sees nothing but your last message.

- Working directory is /workspace; change nothing in it
- Look with the tools until you can answer the question, and no longer
- Then reply without calling a tool: the answer in at most ten lines, with paths, names and numbers verbatim
- If it cannot be found, say what you have looked at"""
EXPLORE_TOOL_NAMES = frozenset({"execute_command", "read_file", "list_directory", "read_output", "search_output"})
"""Tools of a sub-agent, where the session has them: it explores and does not write."""
MAX_ANSWER_CHARACTERS = 2_000
"""A longer answer is cut."""


EXPLORE_MAX_STEPS = 20
"""Model calls after which a sub-agent ends without an answer."""


def select_exploring_tools(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return those tools of a session that its sub-agents have too."""
    return tuple(tool for tool in tools if tool.spec.name in EXPLORE_TOOL_NAMES)


@dataclass(slots=True, kw_only=True)
class ExploreTool:
    """Runs one sub-agent for each call."""

    open_sub_agent: Callable[[str, Callable[[Entry | Signal], None]], AbstractContextManager[AssembledSession]]
    """Opens the session of a sub-agent for a question and a listener."""
    spec: ToolSpec = EXPLORE_SPEC
    _finished_children: list[tuple[str, SessionTotals]] = field(default_factory=list)
    """Session ids and totals of the sub-agents that no step has reported yet."""

    def collect_subagent_events(self, step: int) -> Sequence[SubAgentEnded]:
        """Return one event for each sub-agent that has ended since the last call."""
        finished_children, self._finished_children = self._finished_children, []
        return [_make_ended_event(step, name, totals) for name, totals in finished_children]

    def run(self, call: ToolCall) -> ToolResult:
        """See `harness.protocols.Tool`."""
        question = _parse_question(call)
        if question is None:
            return _make_result(call, "error: explore takes an object with the string field: question", "error")
        totals = SessionTotals()
        with self.open_sub_agent(question, totals) as session:
            session_id = session.resources.session_id
            try:
                outcome = session.agent.run(session.start_event, EXPLORE_PROMPT)
            finally:
                self._finished_children.append((session_id, totals))
            answer = _extract_answer(session.agent.log) if outcome.status == "completed" else ""
        return _build_outcome_result(call, outcome, answer, session_id)


def _make_ended_event(step: int, session_id: str, totals: SessionTotals) -> SubAgentEnded:
    return SubAgentEnded(
        step=step,
        session_id=session_id,
        steps=totals.steps,
        prompt_tokens=totals.prompt_tokens + totals.summarizer_prompt_tokens,
        output_tokens=totals.output_tokens + totals.summarizer_output_tokens,
        cost_usd=totals.total_cost_usd,
    )


def _parse_question(call: ToolCall) -> str | None:
    try:
        arguments = json.loads(call.arguments_json)
    except (ValueError, RecursionError):
        return None
    question = arguments.get("question") if isinstance(arguments, dict) else None
    return question if isinstance(question, str) and question.strip() else None


def _extract_answer(log: Log) -> str:
    """Return the last reply of a session that is done."""
    answer_texts = [
        event.message.text for _, event in log.entries() if isinstance(event, MessageAdded) and event.message.role == "assistant"
    ]
    return answer_texts[-1].strip().removesuffix(COMPLETION_MARKER).strip() if answer_texts else ""


def _build_outcome_result(call: ToolCall, outcome: Outcome, answer: str, session_id: str) -> ToolResult:
    if outcome.reason == "sandbox_error":
        raise SandboxDied(outcome.detail)
    if outcome.reason == "cancelled":
        return _make_result(call, "error: the exploration was stopped before it had an answer", "interrupted")
    if not answer:
        reason = outcome.detail or "it said nothing"
        return _make_result(
            call, f"error: no answer after {outcome.steps} steps: {reason}; ask for less, or look yourself", "error"
        )
    cut = max(0, len(answer) - MAX_ANSWER_CHARACTERS)
    visible_answer = f"{answer[:MAX_ANSWER_CHARACTERS]}\n[{cut} more characters cut]" if cut else answer
    return replace(
        _make_result(call, f"{visible_answer}\n[{outcome.steps} steps, session {session_id}]", "completed"),
        clipped_characters=cut,
    )


def _make_result(call: ToolCall, output: str, status: Literal["completed", "error", "interrupted"]) -> ToolResult:
    return ToolResult(call_id=call.call_id, name=call.name, output=output, status=status)


if TYPE_CHECKING:
    _: type[Tool] = ExploreTool
