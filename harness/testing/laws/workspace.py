"""Laws of the workspace: it can be laid, and what is said to be got again from it can be."""

import json
from collections.abc import Iterator
from contextlib import closing
from string import Template

from harness.compaction.presets.none import NoCompaction
from harness.errors import ToolError
from harness.messages import ToolCall, ToolResult
from harness.protocols import Sandbox
from harness.task import CallTemplate, Fact, Task
from harness.testing.laws.findings import Finding
from harness.testing.laws.scripts import values_in
from harness.testing.laws.session_cache import Sessions, most_steps
from harness.testing.laws.simulation import HUGE, sandbox_for, session_in
from harness.tools import tools_under
from harness.transcript import key_argument


def can_be_laid(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """Each file can be laid where it belongs."""
    task = sessions.task(seed)
    with closing(sandbox_for(task, sessions.sandbox)) as sandbox:
        sandbox.start()
        for path, text in task.workspace:
            try:
                sandbox.write(path, text.encode())
            except ToolError as error:
                yield Finding(words=f"the file {path!r} cannot be laid: {error}", seed=seed)


def comes_back(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """The recovering call of a fact shows its value, in the workspace as it is laid or as the work leaves it.

    Of a fact that is told anew the call may show a value that no longer holds.
    """
    task = sessions.task(seed)
    facts = [fact for fact in task.facts if fact.recover]
    with closing(sandbox_for(task, sessions.sandbox)) as sandbox:
        sandbox.start()
        for path, text in task.workspace:
            sandbox.write(path, text.encode())
        later = [fact for fact in facts if _missed(fact, task, sandbox)]
    if not later:
        return
    with closing(sandbox_for(task, sessions.sandbox)) as sandbox:
        session_in(sandbox, task, NoCompaction(), window_tokens=HUGE, max_steps=most_steps(task))
        for fact in later:
            if missed := _missed(fact, task, sandbox):
                words = f"it cannot be got again, neither from the workspace as it is laid nor as the work leaves it: {missed}"
                yield Finding(words=words, fact=fact.name, seed=seed)


def _missed(fact: Fact, task: Task, sandbox: Sandbox) -> str:
    """Why a fact cannot be got again from a workspace; empty = it can."""
    files = sandbox.snapshot().files
    if fact.source and fact.source not in files and not any(path.startswith(f"{fact.source}/") for path in files):
        return f"its source {fact.source!r} is not there"
    if fact.recover is None:
        return "it has no recovering call"
    call = _call(fact.recover)
    value, output = task.values[fact.name], _result(call, sandbox).output
    found = values_in(output, fact)
    if value in found or (found and fact.superseded):
        return ""
    return f"its patterns read no {value!r} in what {call.name} {key_argument(call)!r:.100} shows: {output!r:.100}"


def _call(template: CallTemplate) -> ToolCall:
    written = {name: Template(text).substitute() for name, text in template.arguments}
    return ToolCall(call_id="again", name=template.tool, arguments_json=json.dumps(written))


def _result(call: ToolCall, sandbox: Sandbox) -> ToolResult:
    tools = {tool.spec.name: tool for tool in tools_under(NoCompaction(), sandbox, None)}
    return tools[call.name].run(call)
