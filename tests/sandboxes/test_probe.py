"""A probe believes only what it sees."""

from pathlib import Path

import pytest

from harness.protocols import SandboxLimits
from harness.sandboxes.bubblewrap import Bubblewrap
from harness.sandboxes.client import ServedSandbox
from harness.sandboxes.local import Local
from harness.sandboxes.probe import probe


def test_a_backend_without_isolation_does_not_pass():
    limits = SandboxLimits()
    found = probe("local", lambda: ServedSandbox(Local(limits, unsafe=True), limits))
    assert not found.ok
    assert found.reason
    assert found.advice


@pytest.mark.bubblewrap
def test_a_backend_with_a_network_does_not_pass():
    limits = SandboxLimits(network=True)
    found = probe("bubblewrap", lambda: ServedSandbox(Bubblewrap(limits), limits))
    assert found.ok is (len(Path("/proc/net/route").read_text().splitlines()) <= 1)
    assert found.ok or "network" in found.reason


@pytest.mark.bubblewrap
def test_bubblewrap_passes_and_names_its_version():
    limits = SandboxLimits()
    found = probe("bubblewrap", lambda: ServedSandbox(Bubblewrap(limits), limits))
    assert found.ok, found.reason
    assert "bubblewrap" in found.reason
    assert found.advice == ""


@pytest.mark.bubblewrap
def test_a_sandbox_without_the_program_that_is_needed_does_not_pass():
    limits = SandboxLimits()
    found = probe("bubblewrap", lambda: ServedSandbox(Bubblewrap(limits), limits), "no-such-runtime")
    assert not found.ok
    assert found.reason == "no program no-such-runtime in it"
    assert "/usr/local/bin" in found.advice
    assert probe("bubblewrap", lambda: ServedSandbox(Bubblewrap(limits), limits), "sed").ok
