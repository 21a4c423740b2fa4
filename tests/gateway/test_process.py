"""What the gateway says before its proxy runs; the running proxy is tested in tests/peers."""

import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import main as command_line
from harness.errors import UsageError
from harness.gateway import process
from harness.gateway.environment import LOCK, REQUIREMENTS, find_interpreter
from harness.gateway.process import describe_upstream


def run(*options: str) -> str:
    shown = CliRunner().invoke(command_line, ["gateway", *options])
    assert shown.exit_code == 2, shown.output
    return shown.output


def test_a_missing_environment_is_an_error_that_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_GATEWAY", str(tmp_path))
    with pytest.raises(UsageError, match="run `harness gateway --install` once"):
        find_interpreter()
    journal = str(tmp_path / "j.sqlite")
    assert "is not installed in" in run("--upstream", "http://127.0.0.1:1/v1", "--record-only", "--journal", journal)
    assert not Path(journal).exists()


def test_the_lock_holds_the_required_packages_with_hashes_and_no_address() -> None:
    text = LOCK.read_text()
    for requirement in REQUIREMENTS:
        name, equals, _ = requirement.partition("==")
        assert f"{requirement if equals else f'{name}=='}" in text, requirement
    assert text.count("--hash=sha256:") > text.count("==")
    assert "://" not in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--record-only",), "name the upstream"),
        (("--upstream", "gpt-4o"), "choose one of --policy NAME"),
        (("--upstream", "gpt-4o", "--record-only", "--policy", "none"), "choose one of --policy NAME"),
        (("--upstream", "gpt-4o", "--arm", "none"), "is the only arm"),
        (("--upstream", "gpt-4o", "--policy", "keep-lost"), "unknown policy 'keep-lost'"),
        (
            ("--upstream", "gpt-4o", "--policy", "keep-last,threshold"),
            "'threshold' has no value; write FIELD=VALUE behind a comma",
        ),
        (("--upstream", "gpt-4o", "--arm", "none", "--arm", "keep-last,=3"), "'=3' has no value"),
        (("--upstream", "gpt-4o", "--policy", "keep-last,threshold=.6"), "requests summaries"),
        (("--upstream", "gpt-4o", "--policy", "nowhere.py:mine"), "no policy file 'nowhere.py'"),
        (("--upstream", "http://h/v1", "--record-only", "--api-base", "http://h"), "is an address itself"),
        (("--upstream", "anthropic/*", "--record-only", "--api-base", "h:80"), "api_base: must be an http URL (got 'h:80')"),
        (("--upstream", "gpt-*", "--record-only"), "must begin with the name of a provider"),
    ],
)
def test_invalid_options_are_refused_at_once(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    assert words in run(*options, "--journal", str(tmp_path / "j.sqlite"))


def test_a_proxy_that_takes_long_to_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "WAIT_SECONDS", 0.05)
    lines = list[str]()
    reading, writing = os.pipe()

    def report(line: str) -> None:
        lines.append(line)
        if len(lines) == 2:
            os.write(writing, b"ready\n")

    with os.fdopen(reading, "rb") as stream:
        assert process._wait_for_output(stream, report)
        assert lines == ["the proxy has been starting for 0 s; it may take 300 s"] * 2
        assert stream.read1() == b"ready\n"
        monkeypatch.setattr(process, "START_SECONDS", 0.1)
        assert not process._wait_for_output(stream, lines.append)
    os.close(writing)


def test_an_upstream_is_an_address_or_a_model() -> None:
    def read(upstream: str) -> Any:
        row, *rest = describe_upstream(upstream)
        assert row["model_name"] == "*"
        assert [other["litellm_params"]["model"] for other in rest] == (["gemini/*"] if "://" in upstream else [])
        return row["litellm_params"]

    assert read("http://127.0.0.1:8000/v1/") == {
        "model": "openai/*",
        "api_base": "http://127.0.0.1:8000/v1",
        "api_key": "no-key-given",
        "max_retries": 0,
    }
    assert read("anthropic/claude-sonnet-4-5")["model"] == "anthropic/claude-sonnet-4-5"
    for upstream, gemini in (
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1beta"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1beta"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", "https://generativelanguage.googleapis.com/v1beta"),
        ("https://generativelanguage.googleapis.com/v1beta", "https://generativelanguage.googleapis.com/v1beta"),
    ):
        assert describe_upstream(upstream)[1]["litellm_params"]["api_base"] == gemini
    for given, base in (("http://h:1/", "http://h:1"), ("http://h:1/v1", "http://h:1"), ("http://h:1/a", "http://h:1/a")):
        (row,) = describe_upstream("anthropic/*", given)
        assert (row["litellm_params"]["model"], row["litellm_params"]["api_base"]) == ("anthropic/*", base)
    (row,) = describe_upstream("hosted_vllm/*", "http://h:1/v1")
    assert row["litellm_params"]["api_base"] == "http://h:1/v1"
    for wrong in ("", "ftp://host", "http://"):
        with pytest.raises(UsageError, match="upstream: must be"):
            describe_upstream(wrong)
