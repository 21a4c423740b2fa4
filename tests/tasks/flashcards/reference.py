"""Execution of the script with known values, without a model: messages and workspace of an agent that forgets nothing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, user
from harness.conversation.transcript import read_outcome
from harness.task import CallTemplate, Step, Task
from tests.tasks.workshop import Result, act, lay

STATEFUL = ("tools/reserve.py", "tools/ingest.py", "tools/changelog.py")
"""Pattern of the commands with effects that the grader examines."""


@dataclass
class Build:
    """Workspace, with every message sent while it was built."""

    root: Path
    messages: list[Message] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Steps that failed without a repair."""
    repaired: list[str] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    """Number of messages after the success of each step, by step."""


class Agent:
    """Carry out a script; `only_effects` skips calls that do not change the final workspace."""

    def __init__(self, task: Task, root: Path, values: Mapping[str, str], *, only_effects: bool = False) -> None:
        self.task, self.values, self.only_effects = task, values, only_effects
        self.build = Build(lay(task, root), [system("You build software."), user(task.prompt)])
        self.overrides: dict[str, Mapping[str, str]] = {}
        """Values that replace the true values, by step."""

    def finish(self) -> Build:
        for step in self.task.script.steps:
            self.take(step)
        return self.build

    def take(self, step: Step) -> None:
        values = {**self.values, **self.overrides.get(step.name, {})}
        if self.only_effects:
            final = step.repairs[0].calls if step.repairs else step.calls
            self.calls("", [call for call in final if _has_effect(call)], values)
            return
        results = self.calls(step.text, step.calls, values)
        if not all(result.well for result in results):
            results = self.repair(step, results, values)
        self.build.ends[step.name] = len(self.build.messages)

    def repair(self, step: Step, results: list[Result], values: Mapping[str, str]) -> list[Result]:
        for repair in step.repairs:
            self.calls(repair.text, repair.calls, values)
            self.build.repaired.append(step.name)
        results = self.calls(step.text, step.calls, values)
        if not all(result.well for result in results):
            self.build.failures.append(f"{step.name}: {results[-1].output}")
        return results

    def calls(
        self, says: str, templates: "list[CallTemplate] | tuple[CallTemplate, ...]", values: Mapping[str, str]
    ) -> list[Result]:
        filled = [
            (template.tool, {name: Template(text).substitute(values) for name, text in template.arguments})
            for template in templates
        ]
        calls = [_call(len(self.build.messages) + index, tool, arguments) for index, (tool, arguments) in enumerate(filled)]
        self.build.messages.append(assistant(Template(says).substitute(values), *calls))
        results = [act(self.build.root, tool, arguments) for tool, arguments in filled]
        self.build.messages.extend(_answer(call, result) for call, result in zip(calls, results, strict=True))
        return results


def _has_effect(call: CallTemplate) -> bool:
    key = call.arguments[0][1]
    return call.tool == "write_file" or (call.tool == "execute_command" and any(name in key for name in STATEFUL))


def _call(number: int, tool: str, arguments: Mapping[str, str]) -> ToolCall:
    return ToolCall(call_id=f"call_{number}", name=tool, arguments_json=json.dumps(arguments))


def _answer(call: ToolCall, result: Result) -> Message:
    part = ToolResult(call_id=call.call_id, name=call.name, output=result.output)
    assert read_outcome(part) in {"ok", "exit code 0"} or not result.well
    return Message(role="tool", parts=(part,))
