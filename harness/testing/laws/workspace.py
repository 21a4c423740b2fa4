"""Laws of the workspace: it can be laid, and what is said to be got again from it can be."""

import json
from collections.abc import Iterator
from contextlib import closing
from string import Template

from harness.compaction.presets.none import NoCompaction
from harness.errors import ToolError
from harness.messages import ToolCall, ToolResult
from harness.protocols import Sandbox
from harness.session.resources import write_workspace
from harness.task import CallTemplate, Fact, Task
from harness.testing.laws.findings import Finding, read_values
from harness.testing.laws.session_cache import SessionCache, compute_max_steps
from harness.testing.laws.simulation import HUGE_WINDOW_TOKENS, open_task_sandbox, run_session
from harness.tools import make_session_tools
from harness.transcript import find_key_argument


def check_files(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that each file can be laid where it belongs."""
    task = sessions.make_task(seed)
    with closing(open_task_sandbox(task, sessions.sandbox)) as sandbox:
        sandbox.start()
        for path, text in task.workspace:
            try:
                sandbox.write(path, text.encode())
            except ToolError as error:
                yield Finding(message=f"the file {path!r} cannot be laid: {error}", seed=seed)


def check_recovery(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the recovering call of a fact shows its value, in the workspace as it is laid or as the work leaves it.

    Of a fact that is told anew the call may show a value that no longer holds.
    """
    task = sessions.make_task(seed)
    facts = [fact for fact in task.facts if fact.recover]
    with closing(open_task_sandbox(task, sessions.sandbox)) as sandbox:
        sandbox.start()
        write_workspace(task, sandbox)
        later = [fact for fact in facts if _find_recovery_error(fact, task, sandbox)]
    if not later:
        return
    with closing(open_task_sandbox(task, sessions.sandbox)) as sandbox:
        run_session(sandbox, task, NoCompaction(), window_tokens=HUGE_WINDOW_TOKENS, max_steps=compute_max_steps(task))
        for fact in later:
            if missed := _find_recovery_error(fact, task, sandbox):
                words = f"it cannot be got again, neither from the workspace as it is laid nor as the work leaves it: {missed}"
                yield Finding(message=words, fact=fact.name, seed=seed)


def _find_recovery_error(fact: Fact, task: Task, sandbox: Sandbox) -> str:
    """Return why a fact cannot be got again from a workspace; empty = it can."""
    files = sandbox.snapshot().files
    if fact.source and fact.source not in files and not any(path.startswith(f"{fact.source}/") for path in files):
        return f"its source {fact.source!r} is not there"
    if fact.recover is None:
        return "it has no recovering call"
    call = _build_call(fact.recover)
    value, output = task.values[fact.name], _run_call(call, sandbox).output
    found = read_values(output, fact)
    if value in found or (found and fact.is_superseded):
        return ""
    return f"its patterns read no {value!r} in what {call.name} {find_key_argument(call)!r:.100} shows: {output!r:.100}"


def _build_call(template: CallTemplate) -> ToolCall:
    written = {name: Template(text).substitute() for name, text in template.arguments}
    return ToolCall(call_id="again", name=template.tool, arguments_json=json.dumps(written))


def _run_call(call: ToolCall, sandbox: Sandbox) -> ToolResult:
    tools = {tool.spec.name: tool for tool in make_session_tools(NoCompaction(), sandbox, None)}
    return tools[call.name].run(call)
