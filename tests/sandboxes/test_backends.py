"""Choosing a backend by a live test."""

import contextlib
import os
from pathlib import Path

import pytest

from harness.errors import SandboxUnavailable, UnknownName, UsageError
from harness.protocols import SandboxLimits
from harness.sandboxes import bubblewrap
from harness.sandboxes.backends import choose_backend, open_sandbox, probe_backend, run_cached_probe, run_probe
from harness.sandboxes.bubblewrap import BubblewrapLauncher
from harness.sandboxes.client import ServedSandbox
from harness.sandboxes.local import LocalLauncher


def test_a_backend_without_isolation_does_not_pass():
    limits = SandboxLimits()
    probe = run_probe("local", lambda: ServedSandbox(LocalLauncher(limits), limits))
    assert not probe.ok
    assert probe.reason
    assert probe.advice


@pytest.mark.bubblewrap
def test_a_backend_with_a_network_does_not_pass():
    limits = SandboxLimits(network=True)
    probe = run_probe("bubblewrap", lambda: ServedSandbox(BubblewrapLauncher(limits), limits))
    assert probe.ok is (len(Path("/proc/net/route").read_text().splitlines()) <= 1)
    assert probe.ok or "network" in probe.reason


@pytest.mark.bubblewrap
def test_bubblewrap_passes_and_names_its_version():
    limits = SandboxLimits()
    probe = run_probe("bubblewrap", lambda: ServedSandbox(BubblewrapLauncher(limits), limits))
    assert probe.ok, probe.reason
    assert "bubblewrap" in probe.reason
    assert probe.advice == ""


@pytest.mark.bubblewrap
def test_a_sandbox_without_the_program_that_is_needed_does_not_pass():
    limits = SandboxLimits()
    probe = run_probe("bubblewrap", lambda: ServedSandbox(BubblewrapLauncher(limits), limits), "no-such-runtime")
    assert not probe.ok
    assert probe.reason.startswith("the sandbox has no program no-such-runtime in /usr/local/sbin:/usr/local/bin:")
    assert "/usr/local/bin" in probe.advice
    assert run_probe("bubblewrap", lambda: ServedSandbox(BubblewrapLauncher(limits), limits), "sed").ok


NO_ENGINE = "unix:///nowhere/docker.sock"


@pytest.fixture
def fresh(monkeypatch):
    """Clear the results of live tests before and after a test that runs without an engine."""
    run_cached_probe.cache_clear()
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    yield
    run_cached_probe.cache_clear()


@pytest.mark.bubblewrap
def test_auto_takes_bubblewrap_where_there_is_no_engine(fresh):
    assert choose_backend() == "bubblewrap"
    with contextlib.closing(open_sandbox(session_id="x")) as sandbox:
        sandbox.start()
        assert sandbox.info.backend == "bubblewrap"


def test_a_named_image_is_docker_or_nothing(fresh):
    for open_backend in (choose_backend, lambda image: open_sandbox(session_id="x", image=image)):
        with pytest.raises(SandboxUnavailable, match=r"'docker' is not available: .*no other backend can use the image 'mine:1'"):
            open_backend("mine:1")


@pytest.mark.parametrize("backend", ["bubblewrap", "local"])
def test_a_named_image_is_refused_where_it_would_be_passed_over(backend):
    with pytest.raises(UsageError, match=f"image 'mine:1': the sandbox '{backend}' has no images"):
        open_sandbox(backend, session_id="x", image="mine:1", unsafe_local=True)
    with pytest.raises(UsageError, match=f"image 'mine:1': the sandbox '{backend}' has no images"):
        choose_backend("mine:1", backend=backend)


@pytest.mark.docker
def test_auto_takes_docker_where_the_image_is_there():
    run_cached_probe.cache_clear()
    assert choose_backend(os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py")) == "docker"


@pytest.mark.docker
def test_an_image_without_the_runtime_is_refused():
    image = os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py")
    with pytest.raises(SandboxUnavailable, match="'docker' is not available: the sandbox has no program bun"):
        choose_backend(image, "bun", "docker")


@pytest.mark.bubblewrap
@pytest.mark.bun
def test_bubblewrap_shows_the_bun_of_this_machine():
    assert choose_backend(None, "bun", "bubblewrap") == "bubblewrap"


def test_auto_never_falls_to_no_sandbox(fresh, monkeypatch, tmp_path):
    (tmp_path / "bwrap").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    bubblewrap.find_program.cache_clear()
    try:
        with pytest.raises(SandboxUnavailable, match=r"docker: .*nowhere.*bubblewrap: |docker: .*; bubblewrap: "):
            choose_backend()
    finally:
        bubblewrap.find_program.cache_clear()


def test_a_backend_is_probed_once_and_the_probe_says_what_to_do(fresh):
    probe = probe_backend("docker", "some-image")
    assert not probe.ok
    assert probe.reason
    assert "Docker Engine" in probe.advice
    assert probe_backend("docker", "some-image") is probe


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(UnknownName, match="bubblewrap"):
        open_sandbox("bubblewarp", session_id="x")
    with pytest.raises(UnknownName, match="python"):
        open_sandbox("bubblewrap", session_id="x", runtime="pyhton")
