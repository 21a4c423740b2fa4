"""What a script leaves behind, without a model: the calls that change the final workspace, with known values."""

import re
from collections.abc import Mapping
from pathlib import Path
from string import Template

from harness.task import Step, Task
from tests.tasks.flashcards.reference import act, lay


def final(step: Step):
    """The calls that count in the end: those of the repair, if the first cut has to be mended."""
    return (*(step.repairs[0].calls if step.repairs else ()), *step.calls)


def built(task: Task, root: Path, values: Mapping[str, str], effects: str) -> Path:
    """Carry out every write, and every command in which the regular expression `effects` is found; all must end well."""
    lay(task, root)
    for step in task.script.steps:
        for call in final(step):
            key = Template(call.arguments[0][1]).substitute(values)
            if call.tool == "write_file" or (call.tool == "execute_command" and re.search(effects, key)):
                result = act(root, call.tool, {name: Template(text).substitute(values) for name, text in call.arguments})
                assert result.well, result.output
    return root


def rewritten(task: Task, root: Path, fact: str, value: str) -> bool:
    """Write the files that tell a fact once more, with another value; False if a command tells it too, which is not done."""
    values, told = {**task.values, fact: value}, "${" + fact + "}"
    telling = [call for step in task.script.steps for call in final(step) if any(told in text for _, text in call.arguments)]
    for call in telling:
        if call.tool == "write_file":
            act(root, call.tool, {name: Template(text).substitute(values) for name, text in call.arguments})
    return all(call.tool == "write_file" for call in telling)


def failed(verdicts: Mapping[str, str]) -> set[str]:
    """Names of the checks that did not pass."""
    return {name for name, verdict in verdicts.items() if verdict != "pass"}
