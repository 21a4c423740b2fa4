"""What the scripts of the suite say about progress is true: the effect of each step, and what the status calls show."""

import json
from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple

import pytest

from harness.compaction.presets.none import NoCompaction
from harness.conversation.messages import Message, ToolCall, assistant, system, tool, user
from harness.models.scripted.agent import build_arguments_json
from harness.models.scripted.visible_state import ConversationReader, VisibleState
from harness.protocols import Sandbox
from harness.task import Task
from harness.task_checks.findings import Move, trace
from harness.task_checks.simulation import BUBBLEWRAP, HUGE_WINDOW_TOKENS, Run, open_task_sandbox, simulate
from harness.tasks import SUITE
from harness.tools.standard import make_standard_tools
from tests.laws.suite import FULL, each

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

STATUS_INTERVAL = 1 if FULL else 9
"""Number of requests of the agent from one reading of the status to the next."""


class Progress(NamedTuple):
    """Session without compaction, with the state of the workspace and the visible status before each request."""

    task: Task
    run: Run
    trees: list[str]
    """Digest of the workspace before each request, and after the last step."""
    statuses: dict[int, VisibleState]
    """What the status calls alone would show, by index of the request before which they are made."""

    def trace(self) -> tuple[Move, ...]:
        """Return the step that the agent took at each request."""
        return trace(self.task, self.run.requests)


def watch_progress(name: str) -> Progress:
    task = SUITE[name](3)
    trees: list[str] = []
    statuses: dict[int, VisibleState] = {}

    def look(sandbox: Sandbox) -> None:
        trees.append(sandbox.snapshot().tree_id)
        if len(trees) % STATUS_INTERVAL == 1 or STATUS_INTERVAL == 1:
            statuses[len(trees) - 1] = read_status(task, sandbox)

    with closing(open_task_sandbox(task, BUBBLEWRAP)) as sandbox:
        run = simulate(
            task,
            NoCompaction(),
            window_tokens=HUGE_WINDOW_TOKENS,
            sandbox=sandbox,
            before_request=lambda: look(sandbox),
            is_graded=False,
        )
    return Progress(task, run, trees, statuses)


def read_status(task: Task, sandbox: Sandbox) -> VisibleState:
    """Return what a conversation of only the status calls and their results shows."""
    tools = {each_tool.spec.name: each_tool for each_tool in make_standard_tools(sandbox)}
    calls = tuple(
        ToolCall(call_id=f"status_{number}", name=call.tool, arguments_json=build_arguments_json(call, task.values))
        for number, call in enumerate(task.script.status_calls)
    )
    messages: list[Message] = [system("."), user("go on"), assistant("", *calls)]
    messages += [tool(tools[call.name].run(call)) for call in calls]
    return ConversationReader(task.facts, task.script).read(tuple(messages))


@pytest.mark.parametrize("name", each())
def test_a_script_declares_effects_and_a_status_that_are_true(name: str) -> None:
    progress = watch_progress(name)
    moves, steps = progress.trace(), progress.task.script.steps
    effects: Mapping[str, str] = {step.name: step.effect for step in steps}
    order = {step.name: index for index, step in enumerate(steps)}
    changed = [
        move.step
        for move, (before, after) in zip(moves, pairwise(progress.trees), strict=False)
        if move.kind == "step" and effects[move.step] != "change" and before != after
    ]
    assert not changed, sorted(set(changed))
    finished = -1
    for number, move in enumerate(moves):
        if status := progress.statuses.get(number):
            assert status.frontier <= finished, (move, steps[status.frontier].name)
            missing = {steps[index].name for index in status.missing_steps if index <= finished}
            assert not missing, (move, json.dumps(sorted(missing)))
        finished = max(finished, order[move.step] if move.kind == "step" else -1)
    last = progress.statuses[max(progress.statuses)]
    assert last.frontier >= len(steps) // 3, "the status shows nothing of two thirds of the work"
