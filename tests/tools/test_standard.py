"""The four standard tools in a real sandbox (S0.1), and the limits on their results (S0.9)."""

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.messages import ToolCall, ToolResult
from harness.conversation.truncation import Truncation
from harness.protocols import ExecResult, Sandbox
from harness.sandboxes import open_sandbox
from harness.testing.fakes import MemorySandbox
from harness.tools.function_tool import clip
from harness.tools.standard import DEFAULT_LIMITS, make_standard_tools


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    opened = open_sandbox("bubblewrap", session_id="tools")
    opened.start()
    yield opened
    opened.close()


def use(sandbox: Sandbox, name: str, timeout_seconds: float = 60.0, **arguments: str) -> ToolResult:
    tools = {tool.spec.name: tool for tool in make_standard_tools(sandbox, timeout_seconds=timeout_seconds)}
    return tools[name].run(ToolCall(call_id="c", name=name, arguments_json=json.dumps(arguments)))


@pytest.mark.bubblewrap
def test_a_file_is_written_listed_read_and_used_by_a_command(sandbox: Sandbox) -> None:
    assert use(sandbox, "write_file", path="src/a.txt", content="héllo\n").output == "wrote 7 bytes to src/a.txt"
    assert use(sandbox, "list_directory", path=".").output == "dir  src"
    assert use(sandbox, "list_directory", path="src").output == "file  a.txt  7"
    assert use(sandbox, "read_file", path="src/a.txt").output == "héllo\n"
    assert use(sandbox, "execute_command", command="cat src/a.txt; echo oops >&2; exit 3").output == (
        "exit code 3\nhéllo\n[stderr]\noops"
    )


@pytest.mark.bubblewrap
def test_a_file_name_cannot_imitate_a_line_of_a_listing(sandbox: Sandbox) -> None:
    names = ["a\nfile  b  1", "c\x1b[2Kd", "e\r\u2028\x85f"]
    for name in names:
        sandbox.write(f"forged/{name}", b"")
    listing = use(sandbox, "list_directory", path="forged").output
    assert listing.splitlines() == [r"file  a\nfile  b  1  0", r"file  c\x1b[2Kd  0", r"file  e\r\u2028\x85f  0"]


@pytest.mark.bubblewrap
@pytest.mark.parametrize("name", ["a b", "a\\nb", "ü", "\u3000\xa0x", "👩\u200d💻", "-rf", "'\"`$"])
def test_an_unusual_but_printable_name_is_listed_as_it_is(sandbox: Sandbox, name: str) -> None:
    sandbox.run("rm -rf plain")
    sandbox.write(f"plain/{name}", b"")
    assert use(sandbox, "list_directory", path="plain").output == f"file  {name}  0"


@pytest.mark.bubblewrap
def test_a_failing_command_and_a_time_out_are_results_for_the_model(sandbox: Sandbox) -> None:
    assert use(sandbox, "execute_command", command="false").status == "completed"
    late = use(sandbox, "execute_command", timeout_seconds=0.3, command="sleep 900").output
    assert "ran longer than 0.3 s" in late


@pytest.mark.bubblewrap
@pytest.mark.parametrize("path", ["../etc/passwd", "/etc/passwd", "src/../../x"])
def test_no_path_leads_out_of_the_workspace(sandbox: Sandbox, path: str) -> None:
    use(sandbox, "write_file", path="src/a.txt", content="")
    for name in ("read_file", "list_directory"):
        result = use(sandbox, name, path=path)
        assert result.status == "error"
        assert "outside of /workspace" in result.output


LINES = 5
"""Maximum number of lines of an output in the tests of essential parts."""


def run_cut(keep: str, result: ExecResult) -> str:
    """Return what the model reads of a command's result if only a few lines stay."""
    box = MemorySandbox(lambda _command: result)
    limits = Truncation(max_lines=LINES, keep=keep, keep_essentials=True, saved=True)  # type: ignore[arg-type]
    tools = make_standard_tools(box, limits=limits)
    return tools[0].run(ToolCall(call_id="c", name="execute_command", arguments_json='{"command": "make"}')).output


def make_result(exit_code: int, stdout: str, stderr: str, *, timed_out: bool = False) -> ExecResult:
    out, errors = stdout.encode(), stderr.encode()
    return ExecResult(
        exit_code=exit_code, stdout=out, stderr=errors, stdout_bytes=len(out), stderr_bytes=len(errors), timed_out=timed_out
    )


def number_lines(name: str, count: int) -> str:
    return "\n".join(f"{name} {number}" for number in range(count))


def test_a_cut_to_the_tail_keeps_the_exit_code() -> None:
    """S3.1."""
    output = run_cut("tail", make_result(137, number_lines("out", 90), "", timed_out=True))
    assert output.startswith("exit code 137\n[killed: the command ran longer than 60 s]\n\n...")
    assert output.endswith("bytes truncated...\n\n" + "\n".join(f"out {number}" for number in range(85, 90)))


def test_a_cut_to_the_head_keeps_the_end_of_standard_error() -> None:
    """S3.1."""
    output = run_cut("head", make_result(2, number_lines("out", 90), "Traceback\nValueError: no such port"))
    assert output.startswith("exit code 2\nout 0\nout 1\nout 2\nout 3\n\n...")
    assert output.endswith("bytes truncated...\n\n[stderr]\nTraceback\nValueError: no such port")
    long = run_cut("head", make_result(2, "", number_lines("error", 500)))
    assert long.endswith("\n\n" + "\n".join(f"error {number}" for number in range(500 - 21, 500)))


@pytest.mark.parametrize("keep", ["head", "tail"])
@given(out=st.integers(0, 30), errors=st.integers(0, 30))
def test_essential_lines_are_never_cut_nor_shown_twice(keep: str, out: int, errors: int) -> None:
    """S3.1."""
    result = make_result(3, number_lines("out", out), number_lines("error", errors))
    output = run_cut(keep, result)
    assert output.startswith("exit code 3")
    assert not errors or f"error {errors - 1}" in output.splitlines()
    shown = [line for line in output.splitlines() if line.startswith(("out ", "error "))]
    assert len(shown) == len(set(shown))


def run_clipped(result: ExecResult, limits: Truncation) -> str:
    """Return what the model reads of a command's result under the given limits."""
    tools = make_standard_tools(MemorySandbox(lambda _command: result), limits=limits)
    return tools[0].run(ToolCall(call_id="c", name="execute_command", arguments_json='{"command": "make"}')).output


def test_a_cut_to_a_number_of_characters_keeps_the_exit_code_and_the_end_of_standard_error() -> None:
    """S3.1, S0.9."""
    output = run_clipped(make_result(2, number_lines("out", 5_000), "Traceback\nValueError: no such port"), DEFAULT_LIMITS)
    assert output.startswith("exit code 2\nout 0\nout 1\n")
    assert output.endswith(" characters cut]\n[stderr]\nTraceback\nValueError: no such port")
    assert 9_900 < len(output) <= 10_000
    whole = f"exit code 2\n{number_lines('out', 5_000)}\n[stderr]\nTraceback\nValueError: no such port"
    assert f"\n[{len(whole) - 9_940} of {len(whole)} characters cut]\n" in output
    long = run_clipped(make_result(2, "", number_lines("error", 5_000)), DEFAULT_LIMITS)
    assert long.endswith("\n" + "\n".join(f"error {number}" for number in range(5_000 - 20, 5_000)))


@given(out=st.integers(0, 60), errors=st.integers(0, 60), most=st.integers(1, 600))
def test_no_cut_to_characters_loses_the_exit_code_or_shows_a_line_twice(out: int, errors: int, most: int) -> None:
    """S3.1."""
    result = make_result(3, number_lines("out", out), number_lines("error", errors))
    output = run_clipped(result, Truncation(max_characters=most, keep_essentials=True))
    assert len(output) <= most
    assert output.startswith("exit code 3"[:most])
    lines = [line for line in output.splitlines() if line.startswith(("out ", "error "))]
    assert len(lines) - len(set(lines)) <= 1 or most < 100, "a line that is cut in two may read like another line"
    if errors and most > 100:
        assert output.endswith(f"{errors - 1}")


def test_limits_that_keep_only_the_head_lose_the_end_of_standard_error() -> None:
    result = make_result(2, number_lines("out", 5_000), "the reason")
    assert run_clipped(result, Truncation(max_characters=10_000)).endswith(" characters cut]")


def test_the_result_names_the_limit_that_cut_or_killed() -> None:
    cut = ExecResult(
        exit_code=137, stdout=b"\xff" * 10, stderr=b"", stdout_bytes=99, stderr_bytes=0, oom_killed=True, timed_out=True
    )
    output = use(MemorySandbox(lambda _: cut), "execute_command", command="x").output
    assert "out of memory" in output
    assert "[first 10 of 99 bytes]" in output


def test_the_result_marks_where_the_sandbox_omitted_output() -> None:
    """S3.1."""
    ends = {"stdout": b"begin\n|end\n", "stdout_bytes": 5_000, "stdout_tail_bytes": 5}
    cut = ExecResult(exit_code=2, stderr=b"why|why\n", stderr_bytes=9_000, stderr_tail_bytes=4, **ends)  # type: ignore[arg-type]
    assert run_clipped(cut, DEFAULT_LIMITS) == (
        "exit code 2\n[first 6 and last 5 of 5000 bytes]\nbegin\n\n[4989 bytes left out]\n|end\n"
        "[stderr]\n[first 4 and last 4 of 9000 bytes]\nwhy|\n[8992 bytes left out]\nwhy"
    )


def test_a_huge_output_is_cut_to_10000_characters_and_says_so() -> None:
    kept, cut = clip("x" * 25_000, 10_000)
    assert len(kept) <= 10_000
    assert cut == (25_000 - kept.count("x"), 25_000 - kept.count("x"))
    assert kept.endswith(f"[{cut.characters} of 25000 characters cut]")
    assert clip("short", 10_000) == ("short", (0, 0))


@given(size=st.integers(0, 300), most=st.integers(0, 200))
def test_both_ends_of_a_huge_output_can_be_kept(size: int, most: int) -> None:
    text = "h" * (size - size // 2) + "t" * (size // 2)
    kept, cut = clip(text, most, ends=True)
    assert len(kept) <= max(most, 0)
    if size <= most:
        assert (kept, cut) == (text, (0, 0))
    elif most >= 100:
        before, line, after = re.split(r"\n(.*)\n", kept)
        assert (before, after) == ("h" * (most // 2 - 30 + most % 2), "t" * (most // 2 - 30))
        assert line == f"[{cut.characters} of {size} characters cut]"
        assert cut.characters == size - len(before) - len(after)
