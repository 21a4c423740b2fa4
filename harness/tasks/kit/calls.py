"""Functions named after what a tool call does. They only describe the call, for a task's script; nothing is run or written.

The arguments may contain placeholders such as `${port}`, which are replaced by the values that the agent remembers.
"""

from harness.task import CallTemplate


def write(path: str, content: str) -> CallTemplate:
    """Return a tool call that writes a text to a file; the text may contain placeholders such as `${port}`."""
    return CallTemplate(tool="write_file", arguments=(("path", path), ("content", content)))


def read(path: str) -> CallTemplate:
    """Return a tool call that reads a file; the path may contain placeholders such as `${page}`."""
    return CallTemplate(tool="read_file", arguments=(("path", path),))


def run(command: str) -> CallTemplate:
    """Return a tool call that runs a shell command; the command may contain placeholders such as `${port}`."""
    return CallTemplate(tool="execute_command", arguments=(("command", command),))


def view_image(path: str) -> CallTemplate:
    """Return a tool call that shows an image; the task must name the tool `view_image` in its `tools`."""
    return CallTemplate(tool="view_image", arguments=(("path", path),))


def load_skill(name: str) -> CallTemplate:
    """Return a tool call that loads the rules of a skill; the task must name the tool `skill` in its `tools`."""
    return CallTemplate(tool="skill", arguments=(("name", name),))


def explore(question: str) -> CallTemplate:
    """Return a tool call that sends a sub-agent with a question; the task must name the tool `explore` in its `tools`."""
    return CallTemplate(tool="explore", arguments=(("question", question),))


def list_directory(path: str) -> CallTemplate:
    """Return a tool call that lists a folder; the path may contain placeholders such as `${folder}`."""
    return CallTemplate(tool="list_directory", arguments=(("path", path),))
