"""Dialects of other agents: calls come back unchanged, and commands of the shell do what the standard tools do."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, tool, user
from harness.conversation.tokens import Measured, Usage, Window
from harness.errors import ModelError
from harness.models.dialects import DIALECTS, Dialect, DialectModel, Outcome, decode_messages, find_dialect
from harness.protocols import Reply, Request, ToolSpec
from harness.tasks import SUITE, make_task

dialects = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
paths = st.text(st.sampled_from("ab ./'$-\"*é"), min_size=1, max_size=12)
calls = st.one_of(
    st.builds(lambda text: ("execute_command", {"command": text}), texts.filter(str.strip)),
    st.builds(lambda path: ("read_file", {"path": path}), paths),
    st.builds(lambda path: ("list_directory", {"path": path}), paths),
    st.builds(lambda path, text: ("write_file", {"path": path, "content": text}), paths, texts),
)


def make_call(name: str, arguments: dict[str, str]) -> ToolCall:
    return ToolCall(call_id="call_1", name=name, arguments_json=json.dumps(arguments))


def make_tools(dialect: Dialect) -> tuple[ToolSpec, ...]:
    names = (dialect.shell_tool, *sorted(dialect.other_tools))
    return tuple(ToolSpec(name=name, description="", parameters_json="{}") for name in names)


@pytest.mark.slow
@dialects
@given(call=calls)
@example(call=("execute_command", {"command": "cat -- a"}))
@example(call=("execute_command", {"command": ":; cat -- a"}))
@example(call=("execute_command", {"command": ":; :; ls"}))
@example(call=("write_file", {"path": "a b/c", "content": "END_OF_FILE\nEND_OF_FILE_2\n"}))
@example(call=("write_file", {"path": "a", "content": "no newline"}))
@example(call=("write_file", {"path": "a", "content": ""}))
def test_a_call_comes_back_as_it_was(dialect: Dialect, call: tuple[str, dict[str, str]]) -> None:
    name, arguments = call
    if name == "execute_command" and dialect.keeps_shell:
        arguments = {"command": arguments["command"].strip()}
    assert dialect.decode(dialect.encode(make_call(name, arguments))) == make_call(name, arguments)


@pytest.mark.slow
@dialects
@pytest.mark.parametrize("name", SUITE)
def test_every_call_of_a_script_comes_back(dialect: Dialect, name: str) -> None:
    steps = make_task(name, 0).script.steps
    templates = [call for step in steps for calls in (step.calls, *(repair.calls for repair in step.repairs)) for call in calls]
    for template in templates:
        call = make_call(template.tool, dict(template.arguments))
        assert dialect.decode(dialect.encode(call)) == call


def decode_one(dialect: Dialect, call: ToolCall, output: str) -> tuple[Message, ...]:
    result = ToolResult(call_id=call.call_id, name=call.name, output=output)
    return decode_messages((assistant("", call), Message(role="tool", parts=(result,))), dialect)


def run_shell(dialect: Dialect, call: ToolCall, folder: Path) -> ToolResult:
    """Run a call as an agent does, by a shell, and return its result as the scripted model sees it."""
    encoded = dialect.encode(call)
    command = json.loads(encoded.arguments_json)[dialect.command_key]
    ran = subprocess.run(["/bin/sh", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    reports: dict[str, Callable[[int, str], str]] = {
        "mini-swe-agent": lambda code, text: json.dumps({"returncode": code, "output": text}),
        "openhands": lambda code, text: f"{text}\n[Current working directory: /w]\n[Command finished with exit code {code}]",
        "codex": lambda code, text: f"Wall time: 0.1 seconds\nProcess exited with code {code}\nOutput:\n{text}",
        "opencode": lambda _, text: text,
        "pi": lambda code, text: (text or "(no output)") + (f"\n\nCommand exited with code {code}" if code else ""),
        "langchain": lambda code, text: (text or "<no output>") + (f"\n\nExit code: {code}" if code else ""),
    }
    decoded = decode_one(dialect, encoded, reports[dialect.name](ran.returncode, ran.stdout.decode()))
    assert decoded[0].calls == (call,)
    return decoded[1].results[0]


@dialects
@pytest.mark.parametrize("content", ["two\nlines\n", "no newline", "", "\n", "$HOME `x` 'q' \"d\" \\ \t é\n", "END_OF_FILE\n"])
def test_files_are_written_and_read_exactly(dialect: Dialect, content: str, tmp_path: Path) -> None:
    written = run_shell(dialect, make_call("write_file", {"path": "new dir/it's", "content": content}), tmp_path)
    assert (tmp_path / "new dir/it's").read_text() == content
    assert written.output == f"wrote {len(content.encode())} bytes to new dir/it's"
    read = run_shell(dialect, make_call("read_file", {"path": "new dir/it's"}), tmp_path)
    assert (read.status, read.output.rstrip()) == ("completed", content.rstrip())


@dialects
def test_listings_failures_and_exit_codes_look_like_those_of_the_standard_tools(dialect: Dialect, tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / ".hidden").touch()
    (tmp_path / "part/a.py").touch()
    assert run_shell(dialect, make_call("list_directory", {"path": "."}), tmp_path).output == "file  .hidden\ndir  part"
    assert run_shell(dialect, make_call("list_directory", {"path": "part"}), tmp_path).output == "file  a.py"
    (tmp_path / "part/a.py").unlink()
    assert run_shell(dialect, make_call("list_directory", {"path": "part"}), tmp_path).output == "(empty)"
    missing = run_shell(dialect, make_call("read_file", {"path": "nothing"}), tmp_path)
    assert missing.status == "error"
    assert "No such file" in missing.output
    assert run_shell(dialect, make_call("write_file", {"path": "part", "content": "x"}), tmp_path).status == "error"
    failed = run_shell(dialect, make_call("execute_command", {"command": "echo out; exit 3"}), tmp_path)
    assert failed.output == "exit code 3\nout"
    assert run_shell(dialect, make_call("execute_command", {"command": "true"}), tmp_path).output == "exit code 0"


class Scripted:
    """A model that gives one answer and keeps the request."""

    name = "one"
    window = Window(tokens=100, source="configuration")

    def __init__(self, answer: Message) -> None:
        self.answer = answer
        self.asked: list[Request] = []

    def reply(self, request: Request, listen: object = None) -> Reply:
        self.asked.append(request)
        return Reply(message=self.answer, usage=Usage(input_tokens=Measured(1), output_tokens=Measured(1)), seconds=0.0)


@dialects
def test_the_agent_is_recognised_by_its_tools(dialect: Dialect) -> None:
    tools = make_tools(dialect)
    assert find_dialect(tools) is dialect
    own = ToolSpec(name="execute_command", description="", parameters_json="{}")
    assert find_dialect((*tools, own)) is None
    assert find_dialect(()) is None
    model = Scripted(assistant("Look.", make_call("read_file", {"path": "a"})))
    reply = DialectModel(model=model).reply(Request(messages=(user("Go."),), tools=tools))
    assert [call.name for call in reply.message.calls] == [dialect.shell_tool]
    last = DialectModel(model=Scripted(assistant("Done."))).reply(Request(messages=(user("Go."),), tools=tools))
    commands = [json.loads(call.arguments_json)[dialect.command_key] for call in last.message.calls]
    assert commands == [dialect.final_command] * bool(dialect.final_command)


@dialects
def test_a_tool_without_a_counterpart_is_an_error_that_names_it(dialect: Dialect) -> None:
    model = DialectModel(model=Scripted(assistant("", make_call("view_image", {"path": "a.svg"}))))
    with pytest.raises(ModelError, match=f"'view_image', for which {dialect.name} has no counterpart"):
        model.reply(Request(messages=(user("Go."),), tools=make_tools(dialect)))


@dialects
def test_calls_and_results_that_nobody_understands_stay(dialect: Dialect) -> None:
    strange: tuple[Message, ...] = (
        assistant("", ToolCall(call_id="c", name=dialect.shell_tool, arguments_json="no JSON")),
        tool(ToolResult(call_id="c", name=dialect.shell_tool, output="???")),
        tool(ToolResult(call_id="lost", name="other", output="x")),
    )
    decoded = decode_messages(strange, dialect)
    assert decoded[0] == strange[0]
    assert decoded[2] == strange[2]


def test_a_cut_observation_of_mini_swe_agent_keeps_both_ends() -> None:
    text = json.dumps({"returncode": 0, "output_head": "a", "output_tail": "z", "elided_chars": 7, "warning": "Output too long."})
    assert DIALECTS["mini-swe-agent"].read_outcome(text) == Outcome(0, "a\n[7 characters left out]\nz")


def test_a_terminal_of_openhands_leaves_neither_escapes_nor_its_own_lines() -> None:
    text = (
        "\x1b[?2004lport: 80\r\n\x1b[?2004h\n[The command completed with exit code 0.]\n[Current working directory: /w]\n"
        "[Python interpreter: /usr/bin/python]\n[Command finished with exit code 0]"
    )
    assert DIALECTS["openhands"].read_outcome(text) == Outcome(0, "port: 80")


def test_agents_whose_shells_have_one_name_are_told_apart_by_their_other_tools() -> None:
    def name(*tools: str) -> str:
        dialect = find_dialect([ToolSpec(name=tool, description="", parameters_json="{}") for tool in tools])
        assert dialect is not None
        return dialect.name

    assert name("bash") == "mini-swe-agent"
    assert name("read", "bash", "edit", "write") == "pi"
    assert name("bash", "edit", "glob", "grep", "read", "task", "todowrite", "write") == "opencode"
    assert name("exec_command", "write_stdin", "apply_patch", "update_plan") == "codex"


def test_a_result_of_codex_is_what_stands_behind_its_own_lines() -> None:
    text = "Chunk ID: 1f\nWall time: 0.2 seconds\nProcess exited with code 2\nOriginal token count: 3\nOutput:\nOutput:\nno\n"
    assert DIALECTS["codex"].read_outcome(text) == Outcome(2, "Output:\nno\n")
    running = "Chunk ID: 1f\nWall time: 30 seconds\nProcess running with session ID 5\nOutput:\nwait"
    assert DIALECTS["codex"].read_outcome(running) == Outcome(1, running)
