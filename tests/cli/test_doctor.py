import re
import subprocess
import sys

import pytest

from harness.cli.doctor import PROVIDER_VARIABLES, check_keys, check_local_models, check_policies, check_sandboxes, run_checks
from harness.sandboxes import Probe
from tests.cli.command import harness
from tests.compaction.plugin import install


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in PROVIDER_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_keys_are_named_and_their_values_never_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "planted-0123456789")
    finding = check_keys()
    assert finding.state == "ok"
    assert finding.detail == "set: OPENAI_API_KEY"


def test_the_doctor_names_the_keys_that_can_be_set():
    finding = check_keys()
    assert finding.state == "missing"
    assert "ANTHROPIC_API_KEY" in finding.advice


@pytest.mark.slow
def test_every_finding_that_is_not_ok_comes_with_advice():
    for finding in run_checks("harness-test:py"):
        assert finding.detail
        assert finding.state == "ok" or finding.advice, finding


def test_a_policy_of_another_package_that_does_not_load_is_reported(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "1 / 0\n")
    finding = check_policies()
    assert finding.state == "missing"
    assert "odd-policies" in finding.detail


def probed(*working):
    def try_out(backend, image):
        ok = backend in working
        return Probe(backend=backend, ok=ok, reason="seen", advice="" if ok else "install it", seconds=0.1)

    return list(check_sandboxes("an-image", try_out))


def list_states(findings):
    return [(finding.subject, finding.state) for finding in findings]


def test_one_working_sandbox_backend_is_enough_and_docker_is_preferred():
    assert list_states(probed("docker", "bubblewrap")) == [("docker", "ok"), ("bubblewrap", "ok"), ("sandbox", "ok")]
    findings = probed("bubblewrap")
    assert list_states(findings) == [("docker", "optional"), ("bubblewrap", "ok"), ("sandbox", "ok")]
    assert findings[0].detail.startswith("not needed, since bubblewrap works: seen")
    assert findings[0].advice == "to use it: install it"


def test_the_doctor_fails_if_no_backend_isolates():
    assert list_states(probed()) == [("docker", "missing"), ("bubblewrap", "missing"), ("sandbox", "failed")]


def test_the_doctor_says_how_to_fetch_the_smallest_local_model(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_MODELS", str(tmp_path))
    finding = check_local_models()
    assert (finding.subject, finding.state) == ("local", "missing")
    assert finding.advice.startswith("for local/smollm2-135m: ")


@pytest.mark.local_llm
def test_installed_local_models_are_named():
    finding = check_local_models()
    assert finding.state == "ok"
    assert "local/smollm2-135m" in finding.detail.partition(";")[0]


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_the_command_prints_a_line_for_each_and_ends_well_where_a_session_could_run():
    done = harness("doctor", OPENAI_API_KEY="planted-0123456789")
    assert done.returncode == 0, done.stdout
    for word in ("python", "docker", "bubblewrap", "tasks", "flashcards", "policies", "litellm", "OPENAI_API_KEY"):
        assert word in done.stdout
    assert "planted" not in done.stdout + done.stderr
    assert "loaded in" in done.stdout, "litellm is imported for a provider whose key is set"


@pytest.mark.slow
def test_without_a_key_the_models_of_litellm_are_counted_without_importing_it():
    program = "import sys; from harness.cli import doctor\nprint(doctor.check_litellm().detail, 'litellm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"1\.[\d.]+, supports \d,\d{3} models False\n", done.stdout)
