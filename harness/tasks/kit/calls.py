"""Tool calls of scripts, and calls that show a fact again."""

from harness.task import CallTemplate


def write(path: str, content: str) -> CallTemplate:
    """Write a text with placeholders to a path."""
    return CallTemplate(tool="write_file", arguments=(("path", path), ("content", content)))


def read(path: str) -> CallTemplate:
    """Read a file."""
    return CallTemplate(tool="read_file", arguments=(("path", path),))


def run(command: str) -> CallTemplate:
    """Run a shell command."""
    return CallTemplate(tool="execute_command", arguments=(("command", command),))


def list_directory(path: str) -> CallTemplate:
    """List a folder."""
    return CallTemplate(tool="list_directory", arguments=(("path", path),))
