"""Tables that let a scripted model work through the tools of other agents, such as mini-swe-agent or Codex CLI.

A scripted model calls `execute_command`, `read_file`, `write_file` and `list_directory`. Other agents offer a shell under a name
of their own. `DialectModel` recognises the agent by the tools in its request. It translates the calls and results in the request
into those that the scripted model knows, and the calls of its answer into commands of the agent's shell. Both are pure functions
of the request, so an answer depends on nothing else. A request that offers no known shell is answered without a translation.

A shell command is translated back only if it is exactly the one that this module writes for some call, so that a command of the
task that looks similar is not taken for another call.
"""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from harness.conversation.endings import MINI_FINAL_LINE
from harness.conversation.events import TextDelta
from harness.conversation.messages import Message, Part, ToolCall, ToolResult
from harness.errors import ModelError
from harness.models.openai_format import make_call_namer
from harness.models.wrapped_model import WrappedModel
from harness.protocols import Reply, Request, ToolSpec, ignore

Arguments = Mapping[str, str]
END_OF_FILE = "END_OF_FILE"
"""Line that ends the content in a command that writes a file; a number follows if the content has this line, too."""
_CODE_PRINTER = "\n)\nprintf '\\n[exit code %s]\\n' \"$?\""
"""End of a command that prints its own exit code."""
_READ = re.compile(r"cat -- (?P<path>.+)")
_LIST = re.compile(r"ls -1Ap -- (?P<path>.+)")
_WRITE = re.compile(
    r"(?:mkdir -p -- .+? && )?cat > (?P<path>.+?) << '(?P<end>END_OF_FILE(?:_\d+)?)'(?P<cut> && truncate -s -1 [^\n]+)?\n"
    r"(?P<content>.*)(?P=end)\n?",
    re.DOTALL,
)


class _Call(NamedTuple):
    """Tool call of the scripted model."""

    tool: str
    arguments: Arguments


class Outcome(NamedTuple):
    """Outcome of a call as the agent reports it."""

    exit_code: int
    """Exit code of a shell command; 0 or 1 for other tools."""
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Tools of one agent, and how they express the calls of a scripted model.

    Attributes:
        name: Name of the agent. Required.
        shell_tool: Name of the tool that runs a shell command in the workspace. Required.
        command_key: Name of the tool's argument that holds the command. Default: `'command'`.
        more_arguments: Names and values of further arguments of the tool. Default: none.
        other_tools: Names of other tools by which the agent is told from those whose shell has the same name. Default: none.
        keeps_shell: Whether one shell runs all commands, so that each needs a subshell to leave it as it was. Default: `False`.
        hides_exit_code: Whether the results of the tool have no exit code, so that each command prints its own. Default: `False`.
        read_outcome: Function that reads the exit code and the output in a result of the tool. Required.
        final_command: Command that ends the session, where an answer without a call does not. Default: `''`.
    """

    name: str
    shell_tool: str
    command_key: str = "command"
    more_arguments: tuple[tuple[str, int], ...] = ()
    other_tools: frozenset[str] = frozenset()
    keeps_shell: bool = False
    hides_exit_code: bool = False
    read_outcome: Callable[[str], Outcome]
    final_command: str = ""

    def encode(self, call: ToolCall) -> ToolCall:
        """Return the agent's call for a call of the scripted model.

        Raises:
            ModelError: No shell command does what the tool does.
        """
        command = self._wrap(write_command(_Call(call.name, json.loads(call.arguments_json)), self.name))
        return replace(call, name=self.shell_tool, arguments_json=self.write_arguments(command))

    def write_arguments(self, command: str) -> str:
        """Return the arguments with which the agent's shell runs a command, as JSON."""
        return json.dumps({self.command_key: command, **dict(self.more_arguments)})

    def decode(self, call: ToolCall) -> ToolCall:
        """Return the call of the scripted model that a call of the agent stands for; another call of the agent stays as it is."""
        command = _parse_command(call.arguments_json, self.command_key) if call.name == self.shell_tool else None
        if command is None:
            return call
        known = read_command(self._unwrap(command))
        return replace(call, name=known.tool, arguments_json=json.dumps(dict(known.arguments)))

    def decode_result(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return the result of the agent's shell as the tool of this project would report it.

        Args:
            call: Decoded call, which the result answers.
            result: Result that the agent reports.
        """
        outcome = self.read_outcome(result.output)
        if call.name == "execute_command":
            lines = (f"exit code {outcome.exit_code}", outcome.output.rstrip("\n"))
            return replace(result, name=call.name, output="\n".join(filter(None, lines)))
        if outcome.exit_code:
            return replace(result, name=call.name, output=outcome.output, status="error")
        output = _render_output(_Call(call.name, json.loads(call.arguments_json)), outcome.output)
        return replace(result, name=call.name, output=output)

    def _wrap(self, command: str) -> str:
        if self.hides_exit_code:
            return f"(\n{command}{_CODE_PRINTER}"
        if not self.keeps_shell:
            return command
        # a terminal repeats the lines of a command in its output, so one line is better, where no comment hides the bracket
        return f"(\n{command}\n)" if "\n" in command or "#" in command else f"( {command} )"

    def _unwrap(self, command: str) -> str:
        stripped = command.strip()
        if self.hides_exit_code:
            is_wrapped = stripped.startswith("(\n") and stripped.endswith(_CODE_PRINTER)
            return stripped[2 : -len(_CODE_PRINTER)] if is_wrapped else command
        ends = (stripped[:2], stripped[-2:])
        return stripped[2:-2] if self.keeps_shell and ends in {("(\n", "\n)"), ("( ", " )")} else command


def write_command(call: _Call, agent: str) -> str:
    """Return the shell command that does what a call of the scripted model asks for.

    Raises:
        ModelError: No command does what the tool does.
    """
    command = _write_plain_command(call, agent)
    # a command of the task that reads as another call is marked, so that it is read as itself
    return f":; {command}" if call.tool == "execute_command" and _is_marked_or_translated(command) else command


def _is_marked_or_translated(command: str) -> bool:
    return command.startswith(":; ") or _read_translated(command) is not None


def _write_plain_command(call: _Call, agent: str) -> str:
    arguments = call.arguments
    match call.tool:
        case "execute_command":
            return arguments["command"]
        case "read_file":
            return f"cat -- {shlex.quote(arguments['path'])}"
        case "list_directory":
            return f"ls -1Ap -- {shlex.quote(arguments['path'])}"
        case "write_file":
            return _write_file_command(arguments["path"], arguments["content"])
    raise ModelError(f"the scripted model calls the tool {call.tool!r}, for which {agent} has no counterpart; use another task")


def _write_file_command(path: str, content: str) -> str:
    quoted, folder = shlex.quote(path), path.rpartition("/")[0]
    lines, end, number = content.split("\n"), END_OF_FILE, 1
    while end in lines:
        number += 1
        end = f"{END_OF_FILE}_{number}"
    cut = "" if content.endswith("\n") else f" && truncate -s -1 {quoted}"
    text = content if content.endswith("\n") else content + "\n"
    return f"{f'mkdir -p -- {shlex.quote(folder)} && ' if folder else ''}cat > {quoted} << '{end}'{cut}\n{text}{end}"


def read_command(command: str) -> _Call:
    """Return the call that `write_command` wrote as this command; a command that it never writes is an `execute_command`."""
    return _read_translated(command) or _Call("execute_command", {"command": command.removeprefix(":; ")})


def _read_translated(command: str) -> _Call | None:
    calls = []
    if match := _READ.fullmatch(command):
        calls.append(_Call("read_file", {"path": _unquote(match["path"])}))
    elif match := _LIST.fullmatch(command):
        calls.append(_Call("list_directory", {"path": _unquote(match["path"])}))
    elif match := _WRITE.fullmatch(command):
        content = match["content"][:-1] if match["cut"] else match["content"]
        calls.append(_Call("write_file", {"path": _unquote(match["path"]), "content": content}))
    # agents strip the end of a command
    return next((call for call in calls if _write_plain_command(call, "") == command.rstrip("\n")), None)


def _unquote(text: str) -> str:
    try:
        return "".join(shlex.split(text))
    except ValueError:
        return text


def _render_output(call: _Call, output: str) -> str:
    match call.tool:
        case "write_file":
            return f"wrote {len(call.arguments['content'].encode())} bytes to {call.arguments['path']}"
        case "list_directory":
            names = output.splitlines()
            kinds = (("dir", name[:-1]) if name.endswith("/") else ("file", name) for name in names)
            return "\n".join(f"{kind}  {name}" for kind, name in kinds) or "(empty)"
        case _:
            return output


def _parse_command(arguments_json: str, key: str) -> str | None:
    try:
        arguments = json.loads(arguments_json)
    except (ValueError, RecursionError):
        return None
    command = arguments.get(key) if isinstance(arguments, dict) else None
    return command if isinstance(command, str) else None


def read_mini_outcome(text: str) -> Outcome:
    """Return the outcome in an observation of mini-swe-agent, which is a JSON object; a cut output has a mark in its place."""
    try:
        observation = json.loads(text)
        code, exception = int(observation["returncode"]), observation.get("exception_info") or ""
        if "output" in observation:
            return Outcome(code, "\n".join(filter(None, (observation["output"], exception))))
        head, tail, elided = (observation[key] for key in ("output_head", "output_tail", "elided_chars"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Outcome(1, text)
    return Outcome(code, f"{head}\n[{elided} characters left out]\n{tail}")


_ESCAPES = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]|\r")
_OPENHANDS_METADATA = re.compile(
    r"(?:\n\[The command completed with exit code -?\d+\.\])?"
    r"(?:\n\[Current working directory: [^\n]*\])?"
    r"(?:\n\[Python interpreter: [^\n]*\])?\n?\[Command finished with exit code (-?\d+)\]\s*$"
)


def read_openhands_outcome(text: str) -> Outcome:
    """Return the outcome in an observation of the tool `terminal` of OpenHands, which ends with lines about the command."""
    plain = _ESCAPES.sub("", text)
    match = _OPENHANDS_METADATA.search(plain)
    return Outcome(int(match[1]), plain[: match.start()].rstrip("\n")) if match else Outcome(1, plain)


_LANGCHAIN_EXIT_CODE = re.compile(r"\n*Exit code: (-?\d+)\s*$")


def read_langchain_outcome(text: str) -> Outcome:
    """Return the outcome in a result of LangChain's shell tool, which names the exit code of failed commands only."""
    match = _LANGCHAIN_EXIT_CODE.search(text)
    output = text[: match.start()] if match else text
    plain = "" if output.strip() == "<no output>" else re.sub(r"^\[stderr\] ", "", output, flags=re.MULTILINE)
    return Outcome(int(match[1]) if match else 0, plain)


_CODEX_OUTPUT = re.compile(r"(?:^|\n)Process exited with code (-?\d+)\n(?:Original token count: \d+\n)?Output:\n?")


def read_codex_outcome(text: str) -> Outcome:
    """Return the outcome in a result of `exec_command` of Codex CLI, which begins with lines about the process."""
    match = _CODEX_OUTPUT.search(text)
    return Outcome(int(match[1]), text[match.end() :]) if match else Outcome(1, text)


_PRINTED_CODE = re.compile(r"\n\[exit code (\d+)\]\s*$")


def read_opencode_outcome(text: str) -> Outcome:
    """Return the outcome in a result of OpenCode's shell, where the command printed its exit code at the end."""
    match = _PRINTED_CODE.search(text)
    return Outcome(int(match[1]), text[: match.start()]) if match else Outcome(1, text)


_PI_EXIT_CODE = re.compile(r"(?:^|\n\n)Command exited with code (\d+)\s*$")


def read_pi_outcome(text: str) -> Outcome:
    """Return the outcome in a result of pi's shell, which names the exit code of failed commands only."""
    match = _PI_EXIT_CODE.search(text)
    output = text[: match.start()] if match else text
    return Outcome(int(match[1]) if match else 0, "" if output == "(no output)" else output)


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        dialect.name: dialect
        for dialect in (
            Dialect(
                name="codex",
                shell_tool="exec_command",
                command_key="cmd",
                # otherwise a command that takes ten seconds goes on in the background, and its result has no exit code
                more_arguments=(("yield_time_ms", 30_000),),
                read_outcome=read_codex_outcome,
            ),
            Dialect(name="langchain", shell_tool="shell", keeps_shell=True, read_outcome=read_langchain_outcome),
            Dialect(
                name="mini-swe-agent",
                shell_tool="bash",
                read_outcome=read_mini_outcome,
                final_command=f"echo {MINI_FINAL_LINE}",
            ),
            Dialect(
                name="opencode",
                shell_tool="bash",
                other_tools=frozenset(("edit", "glob", "write")),
                hides_exit_code=True,
                read_outcome=read_opencode_outcome,
            ),
            Dialect(name="openhands", shell_tool="terminal", keeps_shell=True, read_outcome=read_openhands_outcome),
            Dialect(name="pi", shell_tool="bash", other_tools=frozenset(("edit", "write")), read_outcome=read_pi_outcome),
        )
    }
)
"""Dialects by the name of the agent."""


def find_dialect(tools: Sequence[ToolSpec]) -> Dialect | None:
    """Return the dialect of the agent that offers these tools; None if it offers the tools of this project, or no known shell."""
    names = {tool.name for tool in tools}
    if "execute_command" in names:
        return None
    fitting = [dialect for dialect in DIALECTS.values() if {dialect.shell_tool, *dialect.other_tools} <= names]
    return max(fitting, key=lambda dialect: len(dialect.other_tools), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectModel(WrappedModel):
    """Scripted model whose calls are translated into the tools that the request offers.

    Token counts are those of the translated request. Thread-safe if the wrapped model is.
    """

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request in the dialect of the agent that made it.

        Raises:
            ModelError: The scripted model calls a tool for which the agent has no counterpart.
        """
        dialect = find_dialect(request.tools)
        if dialect is None:
            return self.model.reply(request, listen)
        reply = self.model.reply(replace(request, messages=decode_messages(request.messages, dialect)), listen)
        return replace(reply, message=_encode_answer(reply.message, request.messages, dialect))


def _encode_answer(message: Message, conversation: Sequence[Message], dialect: Dialect) -> Message:
    parts: tuple[Part, ...] = tuple(dialect.encode(part) if isinstance(part, ToolCall) else part for part in message.parts)
    if dialect.final_command and not message.calls:
        arguments = dialect.write_arguments(dialect.final_command)
        call_id = make_call_namer(conversation)("call_final")
        parts = (*parts, ToolCall(call_id=call_id, name=dialect.shell_tool, arguments_json=arguments))
    return replace(message, parts=parts)


def decode_messages(messages: Sequence[Message], dialect: Dialect) -> tuple[Message, ...]:
    """Return messages of an agent with the calls and results that the scripted model knows; all other text stays as it is."""
    originals: dict[str, ToolCall] = {}
    calls: dict[str, ToolCall] = {}

    def decode_part(part: Part) -> Part:
        if isinstance(part, ToolCall):
            originals[part.call_id], calls[part.call_id] = part, dialect.decode(part)
            return calls[part.call_id]
        if isinstance(part, ToolResult) and calls.get(part.call_id) != originals.get(part.call_id):
            return dialect.decode_result(calls[part.call_id], part)
        return part

    return tuple(replace(message, parts=tuple(map(decode_part, message.parts))) for message in messages)
