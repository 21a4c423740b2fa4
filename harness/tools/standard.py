"""The four tools of the first design document (S0.1): run a command, read, write and list, all inside the sandbox.

A tool never raises for what happens in the workspace: a failing command, a missing file or a refused path is a result that
the model reads. Outputs are cut here, before they are logged (S0.9).
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import ToolError
from harness.messages import ToolCall, ToolResult
from harness.protocols import ExecResult, OutputStore, Sandbox, ToolSpec
from harness.truncation import Truncation, describe_location, format_preview, preview_output


@dataclass(frozen=True, slots=True)
class SandboxTool:
    """One of the four: its description, and the function that does it."""

    spec: ToolSpec
    act: Callable[[Mapping[str, str]], str]
    parameters: tuple[str, ...]
    limits: Truncation
    outputs: OutputStore | None
    lock: threading.Lock
    """Shared by the tools of one sandbox, which serves one caller at a time."""

    def run(self, call: ToolCall) -> ToolResult:
        """See `harness.protocols.Tool`."""
        try:
            arguments = self._parse_arguments(call)
            with self.lock:
                output, status = self.act(arguments), "completed"
        except ToolError as error:
            output, status = f"error: {error}", "error"
        kept, cut = self._shorten(output)
        return ToolResult(call_id=call.call_id, name=call.name, output=kept, status=status, clipped_characters=cut)  # type: ignore[arg-type]

    def _shorten(self, output: str) -> tuple[str, int]:
        """An output within its limits, and how many of its characters went."""
        preview = preview_output(output, self.limits)
        if preview.cut_bytes:
            return format_preview(preview, self.limits, self._save_output(output)), preview.cut_characters
        most = self.limits.max_characters
        if most is None or len(output) <= most:
            return output, 0
        name = self._save_output(output)
        where = f"\n\n{describe_location(name)}" if name else ""
        shown, cut = clip(output, max(0, most - len(where)), ends=self.limits.keep == "ends")
        return shown + where, cut

    def _save_output(self, output: str) -> str:
        """The name of an output that is kept whole; empty where none is."""
        if self.outputs is None or not self.limits.saved:
            return ""
        with self.lock:
            return self.outputs.save(output)

    def _parse_arguments(self, call: ToolCall) -> Mapping[str, str]:
        try:
            given: Any = json.loads(call.arguments_json)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"the arguments are not valid JSON: {error}") from None
        wanted = ", ".join(self.parameters)
        if not isinstance(given, dict) or not all(isinstance(given.get(name), str) for name in self.parameters):
            raise ToolError(f"{self.spec.name} takes an object with the string fields: {wanted}")
        return given


def clip(text: str, most_characters: int, *, ends: bool = False) -> tuple[str, int]:
    """The text, cut to at most that many characters with a line that says how many went; and that number.

    With `ends` that line stands between the first and the last characters, half of them each.
    """
    if len(text) <= most_characters:
        return text, 0
    room = max(0, most_characters - 60)
    cut, tail = len(text) - room, room // 2 if ends else 0
    last = f"\n{text[len(text) - tail :]}" if tail else ""
    return f"{text[: room - tail]}\n[{cut} of {len(text)} characters cut]{last}"[:most_characters], cut


DEFAULT_LIMITS = Truncation(max_characters=10_000)
"""S0.9."""


def make_standard_tools(
    sandbox: Sandbox,
    *,
    timeout_seconds: float = 60.0,
    limits: Truncation = DEFAULT_LIMITS,
    outputs: OutputStore | None = None,
) -> tuple[SandboxTool, ...]:
    """The four tools over a started sandbox.

    Args:
        sandbox: who opened it closes it.
        timeout_seconds: of one command.
        limits: of an output that is logged.
        outputs: keeps the longer ones whole, if the limits say so; None = nobody does.
    """
    lock = threading.Lock()

    def make_tool(name: str, description: str, act: Callable[[Mapping[str, str]], str], **parameters: str) -> SandboxTool:
        schema = {
            "type": "object",
            "properties": {key: {"type": "string", "description": text} for key, text in parameters.items()},
            "required": list(parameters),
        }
        spec = ToolSpec(name=name, description=description, parameters_json=json.dumps(schema))
        return SandboxTool(spec, act, tuple(parameters), limits, outputs, lock)

    def execute(arguments: Mapping[str, str]) -> str:
        return _format_result(sandbox.run(arguments["command"], timeout_seconds=timeout_seconds), timeout_seconds)

    def read(arguments: Mapping[str, str]) -> str:
        return sandbox.read(arguments["path"]).decode(errors="replace")

    def write(arguments: Mapping[str, str]) -> str:
        content = arguments["content"].encode(errors="replace")
        sandbox.write(arguments["path"], content)
        return f"wrote {len(content)} bytes to {arguments['path']}"

    def list_entries(arguments: Mapping[str, str]) -> str:
        return _format_listing(sandbox, arguments["path"])

    command = "Shell command, run by sh in /workspace"
    path = "Path relative to /workspace"
    return (
        make_tool("execute_command", "Execute a shell command in the sandbox", execute, command=command),
        make_tool("read_file", "Read the contents of a file", read, path=path),
        make_tool("write_file", "Create or overwrite a file", write, path=path, content="The whole new content"),
        make_tool("list_directory", "List the contents of a directory", list_entries, path=path),
    )


def _format_result(result: ExecResult, timeout_seconds: float) -> str:
    """A command's result as the model reads it: exit code, output, errors, and what the limits did."""
    parts = [f"exit code {result.exit_code}"]
    if result.timed_out:
        parts.append(f"[killed: the command ran longer than {timeout_seconds:g} s]")
    if result.oom_killed:
        parts.append("[killed: out of memory]")
    parts += _format_stream(result.stdout, result.stdout_bytes, "")
    parts += _format_stream(result.stderr, result.stderr_bytes, "[stderr]\n")
    return "\n".join(parts)


def _format_stream(captured: bytes, total_bytes: int, heading: str) -> list[str]:
    if not total_bytes:
        return []
    if total_bytes > len(captured):
        heading += f"[first {len(captured)} of {total_bytes} bytes]\n"
    return [heading + captured.decode(errors="replace").rstrip("\n")]


def _format_listing(sandbox: Sandbox, path: str) -> str:
    """Name, type and size of each entry, one a line (no times, so that runs repeat)."""
    short = {"directory": "dir"}
    entries = sandbox.list(path)
    if not entries:
        return "(empty)"
    return "\n".join(
        f"{short.get(entry.kind, entry.kind)}  {entry.name}" + (f"  {entry.size_bytes}" if entry.kind == "file" else "")
        for entry in entries
    )
