"""Sessions with the answer styles of real models: recorded and replayed, and with tool calls in text."""

import os

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.models.endpoint.server import make_model_finder, serve_endpoint
from tests.cli.command import LOCAL, TINY, within
from tests.experiment.tiny_task import tiny
from tests.models.openai_stub import Say, serving

pytestmark = pytest.mark.slow

THROUGH_THE_WIRE = (
    *("agent", "--task", TINY, "--model", "hosted_vllm/scripted/tiny:attentive", "--window", "16000", "--threshold", "0.5"),
    *("--summarizer", "hosted_vllm/scripted/oracle", *LOCAL),
)
WRITE = '<call_tool>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "<call_tool>\\n"}}\n</call_tool>'


def asked(*arguments, given="", **variables):
    environment = {name: None for name in os.environ if "API_" in name} | variables
    return CliRunner(env=environment).invoke(main, [*map(str, arguments)], given)


def test_a_recorded_session_is_replayed_without_endpoint_key_or_network(tmp_path):
    tape = tmp_path / "tape.jsonl"
    with serve_endpoint(make_model_finder([tiny(0)], window_tokens=16_000)) as endpoint:
        recorded = asked(*THROUGH_THE_WIRE, "--record", tape, HOSTED_VLLM_API_BASE=endpoint.address)
        answers = len(endpoint.served)
        again = asked(*THROUGH_THE_WIRE, "--record", tape, HOSTED_VLLM_API_BASE=endpoint.address)
        assert len(endpoint.served) == answers
    replayed = asked(*THROUGH_THE_WIRE, "--replay", tape)
    assert recorded.exit_code == again.exit_code == replayed.exit_code == 0, replayed.stderr
    assert recorded.stdout == again.stdout == replayed.stdout
    assert "compaction 1 before step" in replayed.stderr
    assert "checks: 2 of 2 passed" in replayed.stderr
    assert len(tape.read_bytes().splitlines()) == 1 + answers


def test_a_session_that_leaves_its_recording_says_so(tmp_path):
    tape = tmp_path / "tape.jsonl"
    with serve_endpoint(make_model_finder([tiny(0)], window_tokens=16_000)) as endpoint:
        asked(*THROUGH_THE_WIRE, "--record", tape, HOSTED_VLLM_API_BASE=endpoint.address)
    missed = asked(*THROUGH_THE_WIRE, "--replay", tape, given="Something else.")
    assert missed.exit_code == 1
    assert "session ended: failed (model_error): the cassette" in missed.stderr
    assert "it contains none of its messages" in missed.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--record", "a", "--replay", "b"), "exclude each other"),
        (("--replay", "nothing.jsonl"), "record one first"),
        (("--tool-calls", "text", "--task", TINY), "applies to real models"),
    ],
)
def test_invalid_options_for_cassettes_and_tool_calls_are_refused(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = within("agent", *options, *LOCAL, given="hello")
    assert done.exit_code == 2, done.stderr
    assert message in done.stderr


def test_a_model_without_native_calls_works_in_text(tmp_path):
    answers = (Say(pieces=("I wr", f"ite.\n{WRITE[:20]}", f"{WRITE[20:]}\nDone!")), Say(pieces=("It is written.",)))
    with serving(*answers) as stub:
        done = asked(
            *("agent", "--model", "hosted_vllm/stub", "--tool-calls", "text", "--window", "50000", "--keep", tmp_path / "kept"),
            *LOCAL,
            given="write it into a.txt",
            HOSTED_VLLM_API_BASE=stub.base,
        )
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "I write.\n\nIt is written.\n"
    assert (tmp_path / "kept" / "a.txt").read_text() == "<call_tool>\n"
    first, second = stub.asked
    assert "tools" not in first
    assert "TOOLS:" in first["messages"][0]["content"]
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    assert second["messages"][2]["content"] == f"I write.\n{WRITE}"
    assert second["messages"][3]["content"].startswith("<tool_result>\n")


def test_a_dead_endpoint_is_reported_with_what_to_check():
    with serving() as stub:
        base = stub.base
    done = asked("agent", "--model", "hosted_vllm/stub", "--window", "50000", *LOCAL, given="hello", HOSTED_VLLM_API_BASE=base)
    assert done.exit_code == 1
    assert done.stderr.count("retry ") == 3
    assert "session ended: failed (model_error)" in done.stderr
    assert "check the address, and that the server runs" in done.stderr
