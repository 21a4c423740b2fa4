"""Tests of the list and the download of local models, and of sessions at the endpoint of the scripted models."""

import json
import signal
import urllib.request
from contextlib import contextmanager

import pytest

from harness.models.survival_table import describe_survival, load_survival_table
from tests.cli.command import LOCAL, TINY, harness, started, within


def test_every_model_is_listed_with_its_size_and_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_MODELS", str(tmp_path))
    done = within("models")
    assert done.exit_code == 0
    for word in ("local/smollm2-135m", "98 MB", "window 8,192", "local/qwen2.5-coder-1.5b", "1,117 MB"):
        assert word in done.stdout


def test_a_name_that_there_is_not_is_refused_before_anything_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_MODELS", str(tmp_path))
    done = within("models", "fetch", "local/smollm2-135m", "local/smollm")
    assert done.exit_code == 2
    assert "did you mean 'local/smollm2-135m'" in done.stderr
    assert list(tmp_path.iterdir()) == []


@contextmanager
def serving(*arguments):
    """Run an endpoint in a process of its own and yield its address."""
    process = started("serve-scripted", "--port", "0", *arguments)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().removeprefix("HOSTED_VLLM_API_BASE=")
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert "requests answered" in errors


@pytest.mark.slow
def test_the_endpoint_prints_its_address_lists_its_models_and_ends_on_ctrl_c():
    with serving("--task", TINY) as address, urllib.request.urlopen(f"{address}/models", timeout=30) as answer:
        names = [one["id"] for one in json.load(answer)["data"]]
    survival = [f"scripted/survival:{name}" for name in load_survival_table().profiles]
    assert names == [
        "scripted/tiny:attentive",
        "scripted/extractive",
        "scripted/lossy-0.3",
        "scripted/empty",
        "scripted/oracle",
        *survival,
    ]


def session_through(faults, *options):
    """Run a session at an endpoint with faults, and return the process."""
    with serving("--task", TINY, *(word for fault in faults for word in ("--fault", fault))) as address:
        return harness(
            "agent",
            *("--task", TINY, "--model", "hosted_vllm/scripted/tiny:attentive", "--window", "64000"),
            *("--summarizer", "hosted_vllm/scripted/oracle", "--no-journal", *options, *LOCAL),
            HOSTED_VLLM_API_BASE=address,
        )


@pytest.mark.slow
def test_a_session_tells_of_every_fault_and_goes_on():
    done = session_through(("429:0@2", "malformed@3", "unknown-tool@4", "500@5", "reset@7"))
    assert done.returncode == 0, done.stderr
    for expected in (
        "retry 1 of 3: rate limited by the provider of 'hosted_vllm/scripted/tiny:attentive'; asked to wait 0 s",
        "[consult_oracle] seq 1 400 && echo round-1- -> error",
        "retry 1 of 3: the provider of 'hosted_vllm/scripted/tiny:attentive' failed (500)",
        "session ended: completed (replied)",
        "checks: 2 of 2 passed",
    ):
        assert expected in done.stderr
    assert done.stderr.count("-> error") == 2
    assert done.stderr.count("waiting ") == 3


@pytest.mark.slow
def test_an_overflow_is_compacted_away_where_the_policy_does_so():
    done = session_through(("overflow:anthropic@8",), "--policy", "three-tiers")
    assert done.returncode == 0, done.stderr
    assert "compaction 1 before step 8" in done.stderr
    assert "checks: 2 of 2 passed" in done.stderr


@pytest.mark.slow
def test_an_overflow_ends_a_session_elsewhere_whose_policy_does_nothing_then_and_says_so():
    done = session_through(("overflow:anthropic@8",), "--policy", "codex")
    assert done.returncode == 1
    assert "session ended: failed (overflow): prompt too long" in done.stderr
    assert "compact earlier" in done.stderr


@pytest.mark.slow
def test_a_session_that_compacts_goes_on_after_an_overflow_elsewhere():
    done = session_through(("overflow:anthropic@8",))
    assert done.returncode == 0, done.stderr
    assert "checks: 2 of 2 passed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "flashcard"), "did you mean 'flashcards'"),
        (("--fault", "stal@1"), "did you mean 'stall'"),
        (("--fault", "429"), "write KIND[:VALUE]@FIRST[-LAST]"),
    ],
)
@pytest.mark.slow
def test_a_model_that_cannot_be_served_is_refused(arguments, message):
    done = within("serve-scripted", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_the_published_survival_figures_are_printed_with_their_sources():
    printed = within("models", "survival")
    assert printed.exit_code == 0
    assert printed.stdout.splitlines() == list(describe_survival())
    assert "https://arxiv.org/abs/2608.22752" in printed.stdout
