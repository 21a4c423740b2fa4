"""Boundaries between two pieces of work in a conversation, at which a compaction disturbs least.

A boundary is recognized by tool calls and their results alone, as the agent sees them, so a plan stays a function of the view.
"""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from typing import NamedTuple

from harness.conversation import transcript
from harness.conversation.messages import Message, ToolCall
from harness.conversation.view import View

TEST_COMMAND = re.compile(
    r"(?:^|[\s;&|(/])(?:"
    r"pytest|unittest|tox|nox|jest|vitest|mocha|ctest|rspec|phpunit"
    r"|(?:npm|pnpm|yarn|bun|deno|cargo|go|make|mix|dotnet|swift|gradlew?|mvn)\s(?:[^;&|\n]*\s)?test"
    r")(?![\w.-])"
)
"""Pattern of shell commands that run tests, such as `python -m pytest -q` or `npm test`."""
TEST_TOOLS = ("run_tests", "run_test", "test")
"""Names of tools that run tests."""
PASSED_OUTCOMES = frozenset({"ok", "exit code 0"})
"""Outcomes of test runs that did not fail, as `read_outcome` returns them."""
PLAN_TOOLS = ("update_plan", "*todo*", "task_update", "update_todos", "plan_step*")
"""Shell patterns of the names of tools with which agents record the steps of a plan."""
_FINISHED = re.compile(r'"status"\s*:\s*"(?:completed|done)"|"(?:completed|done)"\s*:\s*true|\[x\]', re.IGNORECASE)
"""Pattern of the arguments of such a call that record a finished step."""


class _Answered(NamedTuple):
    call: ToolCall
    is_ok: bool
    """Whether the call ended without an error and, for a command, with exit code 0."""


def find_boundary(view: View, *, is_turn: bool) -> str | None:
    """Return which boundary the conversation has just reached, as a phrase; None inside a piece of work.

    Args:
        view: Messages that the model sees next.
        is_turn: Whether a message of the user follows that is not in the view yet.
    """
    newest = list(_iter_newest_results([item.message for item in view.items]))
    if any(is_test_run(answered.call) and answered.is_ok for answered in newest):
        return "tests have just succeeded"
    if is_testing(view.messages):
        return None
    if is_turn or (view.items and view.items[-1].message.role == "user" and view.pending):
        return "a message of the user begins a turn"
    if any(answered.is_ok and is_finished_plan_step(answered.call) for answered in newest):
        return "a step of the plan is finished"
    return None


def is_testing(messages: Sequence[Message]) -> bool:
    """Return whether the newest test run in a conversation has failed, so that the agent is in a loop of edits and tests."""
    calls = {call.call_id: call for message in messages for call in message.calls}
    for message in reversed(messages):
        for result in reversed(message.results):
            call = calls.get(result.call_id)
            if call is not None and is_test_run(call):
                return transcript.read_outcome(result) not in PASSED_OUTCOMES
    return False


def is_test_run(call: ToolCall) -> bool:
    """Return whether a tool call runs tests, as its tool or its command shows."""
    return call.name in TEST_TOOLS or bool(TEST_COMMAND.search(transcript.find_key_argument(call)))


def is_finished_plan_step(call: ToolCall) -> bool:
    """Return whether a tool call records that a step of a plan is finished."""
    return any(fnmatch(call.name.lower(), pattern) for pattern in PLAN_TOOLS) and bool(_FINISHED.search(call.arguments_json))


def _iter_newest_results(messages: Sequence[Message]) -> Iterator[_Answered]:
    """Yield the answered calls at the end of a conversation, behind its newest answer."""
    end = len(messages)
    while end and messages[end - 1].role == "tool":
        end -= 1
    calls = {call.call_id: call for call in messages[end - 1].calls} if end else {}
    for message in messages[end:]:
        for result in message.results:
            if (call := calls.get(result.call_id)) is not None:
                yield _Answered(call, transcript.read_outcome(result) in {"ok", "exit code 0"})
