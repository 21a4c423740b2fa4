"""Tools of a session under each policy, and the path of a long output from tool to log and back."""

import json
from collections.abc import Callable

import pytest

from harness.compaction.description import choose_truncation
from harness.compaction.presets.bounds import OracleRetention
from harness.compaction.presets.gemini import GeminiMasking
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.conversation.messages import ToolCall, ToolResult
from harness.conversation.truncation import EXPLORE_PROPOSAL
from harness.inspection.sample_run import SampleOracle
from harness.policies import PRESETS
from harness.protocols import ExecResult, Policy
from harness.store.log import MemoryOutputs
from harness.testing.fakes import MemorySandbox
from harness.tools import make_session_tools

LONG = "\n".join(f"line {number}" for number in range(1, 3_001)).encode()


def long(_: str) -> ExecResult:
    return ExecResult(exit_code=0, stdout=LONG, stderr=b"", stdout_bytes=len(LONG), stderr_bytes=0)


ACCENTED = "\n".join(["é" * 20] * 3_000)


def write_accents(command: str) -> ExecResult:
    text = ACCENTED if command == "long" else "é"
    return ExecResult(exit_code=0, stdout=text.encode(), stderr=b"", stdout_bytes=len(text.encode()), stderr_bytes=0)


def fail(_: str) -> ExecResult:
    return ExecResult(exit_code=2, stdout=LONG, stderr=b"no such port", stdout_bytes=len(LONG), stderr_bytes=12)


OWN = {
    *("none", "drop-all", "random", "oracle", "paced", "keep-last", "ratio", "seed-opencode", "seed-gemini", "reserve-recent"),
    *("three-tiers", "message-window"),
}
"""Kinds of the policies that this project designed."""


class Bench:
    def __init__(
        self,
        policy: Policy,
        outputs: MemoryOutputs | None = None,
        run: Callable[[str], ExecResult] = long,
        *,
        explore: bool = False,
    ) -> None:
        tools = make_session_tools(choose_truncation(policy, explore=explore), MemorySandbox(run), outputs)
        self.tools = {tool.spec.name: tool for tool in tools}

    def use(self, name: str, **arguments: object) -> ToolResult:
        return self.tools[name].run(ToolCall(call_id="c", name=name, arguments_json=json.dumps(arguments)))


def test_an_output_of_more_than_2000_lines_is_cut_at_the_tool_and_can_be_searched_and_read() -> None:
    bench = Bench(ThreeTiers(), MemoryOutputs())
    result = bench.use("execute_command", command="seq 3000")
    assert result.output.startswith("exit code 0\nline 1\nline 2\n")
    assert "line 1999\n\n..." in result.output
    assert "line 2000" not in result.output
    assert result.clipped_characters == len("exit code 0\n") + len(LONG) - len(result.output.split("\n\n...")[0])
    name = result.output.split("Full output saved to: ")[1].split("\n")[0]
    assert bench.use("search_output", output=name, text="line 2750").output.startswith("2751: line 2750")
    assert bench.use("read_output", output=name, from_line=3_001).output == "3001: line 3000\n[lines 3001 to 3001 of 3001]"


@pytest.mark.parametrize("policy", [ThreeTiers(), KeepLast(), GeminiMasking()], ids=lambda policy: type(policy).__name__)
def test_text_cut_from_an_output_is_counted_in_characters_and_utf_8_bytes(policy: Policy) -> None:
    """S3.16, under limits on bytes and on characters."""
    bench = Bench(policy, MemoryOutputs(), write_accents)
    result, whole = (bench.use("execute_command", command=command) for command in ("long", "short"))
    assert result.clipped_bytes - result.clipped_characters == ACCENTED.count("é") - result.output.count("é") > 0
    assert (whole.clipped_characters, whole.clipped_bytes) == (0, 0)


@pytest.mark.parametrize("kind", sorted(OWN))
def test_policies_of_this_project_keep_exit_code_and_end_of_standard_error(kind: str) -> None:
    """S3.1: any cut of this project's own; every policy that cuts so is revised, so that its old trials are run again."""
    policy = PRESETS[kind]()
    output = Bench(policy, run=fail).use("execute_command", command="x").output
    assert output.startswith("exit code 2\nline 1\n")
    assert output.endswith("\n[stderr]\nno such port")
    assert policy.revision >= 1


def test_the_oracle_keeps_the_cut_of_its_policy() -> None:
    """S3.1."""
    output = Bench(OracleRetention().with_oracle(SampleOracle()), run=fail).use("execute_command", command="x").output
    assert output.endswith("\n[stderr]\nno such port")


CHANGED_OTHERWISE = {
    **dict.fromkeys(("cline-basic", "codex@2025", "deepagents", "gemini-masking", "inspect-edit", "inspect-trim"), 1),
    **dict.fromkeys(("langchain-clear-tool-uses", "langchain-summary", "openhands-v0", "pi"), 1),
    **dict.fromkeys(("pydantic-window", "roo-sliding"), 1),
    **dict.fromkeys(("dexto", "goose", "inspect-summary", "letta", "openhands", "pydantic-summary", "roo-code"), 2),
    **dict.fromkeys(("cline", "opencode@v1"), 3),
}
"""Revisions of the policies of other systems that changed for another reason than the cut of outputs."""


@pytest.mark.parametrize("kind", sorted(set(PRESETS) - OWN))
def test_policies_of_other_systems_cut_as_before(kind: str) -> None:
    """S3.1: what a model reads under these policies is unchanged, character by character."""
    policy = PRESETS[kind]()
    whole = f"exit code 2\n{LONG.decode()}\n[stderr]\nno such port"
    mark = f"[{len(whole) - 9_940} of {len(whole)} characters cut]"
    output = Bench(policy, run=fail).use("execute_command", command="x").output
    head = whole[: 4_970 if kind == "mini-swe-agent" else 9_940]
    assert output == f"{head}\n{mark}" + (f"\n{whole[-4_970:]}" if kind == "mini-swe-agent" else "")
    assert policy.revision == CHANGED_OTHERWISE.get(kind, 0)


def test_the_tail_stays_where_the_policy_says_so() -> None:
    output = Bench(ThreeTiers(truncate_keep="tail", truncate_lines=3), MemoryOutputs()).use("execute_command", command="x").output
    assert "bytes truncated...\n\nline 2998\nline 2999\nline 3000\n\nFull output saved to: output-" in output


def test_a_long_output_is_cut_for_good_without_a_store() -> None:
    bench = Bench(ThreeTiers())
    assert set(bench.tools) == {"execute_command", "read_file", "write_file", "list_directory"}
    assert bench.use("execute_command", command="x").output.endswith("bytes truncated...")


def test_other_policies_cut_at_their_number_of_characters_and_have_the_four_tools() -> None:
    for policy in (NoCompaction(clip_characters=500), ThreeTiers(truncate=False, clip_characters=500)):
        bench = Bench(policy, MemoryOutputs())
        assert len(bench.tools) == 4
        result = bench.use("execute_command", command="x")
        assert len(result.output) <= 500
        assert result.output.endswith(f"[{result.clipped_characters} of {len(LONG) + 12} characters cut]")


def test_a_policy_that_saves_outputs_saves_those_of_too_many_characters_whole() -> None:
    bench = Bench(GeminiMasking(clip_characters=500), MemoryOutputs())
    result = bench.use("execute_command", command="x")
    assert len(result.output) <= 500
    name = result.output.split("Full output saved to: ")[1].split("\n")[0]
    assert bench.use("read_output", output=name, from_line=3_001).output.startswith("3001: line 3000")
    shown = result.output.partition("\n[")[0]
    assert LONG.decode().startswith(shown.removeprefix("exit code 0\n"))
    assert result.clipped_characters == len("exit code 0\n") + len(LONG) - len(shown)
    assert bench.use("list_directory", path=".").output == "(empty)", "what is short is not touched"


@pytest.mark.parametrize("kind", sorted(PRESETS))
def test_a_cut_output_proposes_to_explore_where_the_agent_can_and_the_policy_is_of_this_project(kind: str) -> None:
    """S3.20: the mark of a cut output proposes the sub-agent; other systems cut as before, and so do sessions without it."""
    policy = PRESETS[kind]()
    plain, proposing = (
        Bench(policy, MemoryOutputs(), explore=explore).use("execute_command", command="x").output for explore in (False, True)
    )
    assert "explore" not in plain
    if kind not in OWN:
        assert proposing == plain
    assert (EXPLORE_PROPOSAL in proposing) == (kind in OWN)
    if kind == "three-tiers":
        assert proposing == f"{plain}\n{EXPLORE_PROPOSAL}", "below the lines with the name of the saved output"
    assert len(Bench(policy, MemoryOutputs(), explore=True).use("write_file", path="a", content="b").output) < 50, (
        "nothing was cut"
    )


@pytest.mark.slow
def test_the_proposal_counts_towards_the_limit_on_characters() -> None:
    """S3.20."""
    output = Bench(NoCompaction(), explore=True).use("execute_command", command="x").output
    assert output.endswith(EXPLORE_PROPOSAL)
    assert len(output) <= 10_000
