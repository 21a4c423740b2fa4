"""Templates of tool calls, used in the steps of a script and to read forgotten values again."""

from harness.task import CallTemplate


def write(path: str, content: str) -> CallTemplate:
    """Return the template of a tool call that writes a text, which may contain placeholders such as `${port}`, to a file."""
    return CallTemplate(tool="write_file", arguments=(("path", path), ("content", content)))


def read(path: str) -> CallTemplate:
    """Return the template of a tool call that reads a file."""
    return CallTemplate(tool="read_file", arguments=(("path", path),))


def run(command: str) -> CallTemplate:
    """Return the template of a tool call that runs a shell command."""
    return CallTemplate(tool="execute_command", arguments=(("command", command),))


def list_directory(path: str) -> CallTemplate:
    """Return the template of a tool call that lists a folder."""
    return CallTemplate(tool="list_directory", arguments=(("path", path),))
