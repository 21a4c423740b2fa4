"""The four standard tools, which run a command, read a file, write a file and list a folder inside the sandbox."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from harness.conversation.truncation import Essentials, Truncation
from harness.protocols import ExecResult, OutputStore, Sandbox
from harness.tools.function_tool import FunctionTool, build_spec

DEFAULT_LIMITS = Truncation(max_characters=10_000, keep_essentials=True)
"""Default limits on the length of a tool output: 10,000 characters, the end of a command's standard error included."""

STDERR_HEADING = "[stderr]"
"""Line above what a command wrote to standard error."""
MAX_STDERR_LINES = 20
"""Maximum number of last lines of standard error that are kept if the output of a command is cut."""
MAX_STDERR_CHARACTERS = 2_000
"""Maximum number of characters in the last lines of standard error that are kept if the output of a command is cut."""


def make_standard_tools(
    sandbox: Sandbox,
    *,
    timeout_seconds: float = 60.0,
    limits: Truncation = DEFAULT_LIMITS,
    outputs: OutputStore | None = None,
) -> tuple[FunctionTool, ...]:
    """Return the tools `execute_command`, `read_file`, `write_file` and `list_directory` for a sandbox.

    Args:
        sandbox: Started sandbox in which the tools run; the caller closes it.
        timeout_seconds: Maximum duration of one command in seconds.
        limits: Limits on the length of a tool output.
        outputs: Store for complete outputs that exceed `limits`, used if `limits` asks for saving. None discards the part of an
            output beyond the limits.

    Example:
        >>> import harness
        >>> sandbox = harness.open_sandbox(session_id="example")  # doctest: +SKIP
        >>> sandbox.start()  # doctest: +SKIP
        >>> [tool.spec.name for tool in harness.make_standard_tools(sandbox)]  # doctest: +SKIP
        ['execute_command', 'read_file', 'write_file', 'list_directory']
    """

    def make_tool(name: str, description: str, act: Callable[[Mapping[str, str]], str], **parameters: str) -> FunctionTool:
        properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
        spec = build_spec(name, description, properties, parameters)
        tool = FunctionTool(spec, act, tuple(parameters), limits, outputs)
        return replace(tool, find_essentials=find_essentials) if act is execute else tool

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
    parts = [f"exit code {result.exit_code}"]
    if result.timed_out:
        parts.append(f"[killed: the command ran longer than {timeout_seconds:g} s]")
    if result.oom_killed:
        parts.append("[killed: out of memory]")
    parts += _format_stream(result.stdout, result.stdout_bytes, result.stdout_tail_bytes, "")
    parts += _format_stream(result.stderr, result.stderr_bytes, result.stderr_tail_bytes, f"{STDERR_HEADING}\n")
    return "\n".join(parts)


def find_essentials(output: str) -> Essentials:
    """Return the parts of a command's output to keep: its exit code and the last lines of its standard error.

    The lines directly below the exit code are kept with it if they say that the command was killed, or that the sandbox left out
    a part of the output.
    """
    status = re.match(r"exit code -?\d+(?:\n\[killed: [^\n]*\])*(?:\n\[first \d+ and last \d+ of \d+ bytes\])?", output)
    _, heading, errors = output.rpartition(f"\n{STDERR_HEADING}\n")
    lines = [STDERR_HEADING, *errors.split("\n")] if heading else []
    last_lines = "\n".join(lines[-1 - MAX_STDERR_LINES :])[-MAX_STDERR_CHARACTERS:]
    return Essentials(opening=status[0] if status else "", ending=last_lines)


def _format_stream(captured: bytes, total_bytes: int, tail_bytes: int, heading: str) -> list[str]:
    """Return an output stream as text, with the number of bytes left out; an empty list for an empty stream."""
    if not total_bytes:
        return []
    head_bytes, left_out_bytes = len(captured) - tail_bytes, total_bytes - len(captured)
    head, tail = (part.decode(errors="replace") for part in (captured[:head_bytes], captured[head_bytes:]))
    if not left_out_bytes:
        return [heading + (head + tail).rstrip("\n")]
    if not tail_bytes:
        return [f"{heading}[first {head_bytes} of {total_bytes} bytes]\n" + head.rstrip("\n")]
    mark = f"[first {head_bytes} and last {tail_bytes} of {total_bytes} bytes]"
    return [f"{heading}{mark}\n{head}\n[{left_out_bytes} bytes left out]\n{tail}".rstrip("\n")]


def _format_listing(sandbox: Sandbox, path: str) -> str:
    short = {"directory": "dir"}
    entries = sandbox.list(path)
    if not entries:
        return "(empty)"
    return "\n".join(
        f"{short.get(entry.kind, entry.kind)}  {entry.name}" + (f"  {entry.size_bytes}" if entry.kind == "file" else "")
        for entry in entries
    )
