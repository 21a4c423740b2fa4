"""Contract suites of `harness.testing` for sandboxes, run over every backend; each exception is listed here with its reason."""

import os
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest

from harness.protocols import SandboxLimits
from harness.sandboxes import bubblewrap, leftovers, local, open_sandbox
from harness.sandboxes.action_cache import ActionCache, CachedSandbox
from harness.sandboxes.cgroups import ControlGroup
from harness.sandboxes.tmpfs import build_mount_command
from harness.testing.sandbox_attacks import KernelAttacks, ProcessAttacks, SandboxAttacks, ScriptedAttacks
from harness.testing.sandbox_contract import SMALL_LIMITS, SandboxContract

pytestmark = pytest.mark.slow


def possible_groups():
    """Return whether control groups can limit memory on this machine, and whether they can also count processes."""
    group = ControlGroup.make(SandboxLimits(), pids=True)
    if group is None:
        return False, False
    group.remove()
    return True, group.pids_path is not None


IMAGE = os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py")
GROUPS, COUNTS = possible_groups()
MOUNTS = bool(build_mount_command([], bubblewrap.NOBODY if os.geteuid() == 0 else None))
NO_GROUPS = {"memory_bytes": "without control groups memory is limited for each process only"}
NO_MOUNTS = {"files": "this machine forbids mounts in user namespaces"}
FOLDERS: dict[str, Path] = {}
"""Folder of the action cache of each test, filled by its first run."""
NO_ISOLATION = "it is no sandbox"


@pytest.mark.bubblewrap
class TestBubblewrap(SandboxContract, SandboxAttacks):
    sandbox_options: ClassVar = {"backend": "bubblewrap"}
    missing_abilities: ClassVar = ({} if GROUPS else NO_GROUPS) | ({} if MOUNTS else NO_MOUNTS)


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.skipif(os.geteuid() != 0, reason="only root is exempt from the limits of a user")
class TestBubblewrapOfRoot(ProcessAttacks, KernelAttacks, ScriptedAttacks):
    """Contract suite for bubblewrap as root: other users cannot reach its programs, so commands run as root."""

    sandbox_options: ClassVar = {"backend": "bubblewrap"}
    missing_abilities: ClassVar = {} if COUNTS else {"pids": "without control groups nothing counts the processes of root"}

    @pytest.fixture(autouse=True)
    def closed(self, monkeypatch):
        monkeypatch.setattr(bubblewrap, "_is_reachable_for_all", lambda path: False)


@pytest.mark.bubblewrap
class TestCached(SandboxContract):
    """Contract suite with the action cache: every test runs twice, the second time with answers from the cache."""

    sandbox_options: ClassVar = {"backend": "bubblewrap"}
    missing_abilities: ClassVar = {} if MOUNTS else NO_MOUNTS

    @pytest.fixture(params=["cold", "warm"], autouse=True)
    def kept_actions(self, request, tmp_path_factory):
        law = request.node.name.replace(request.param, "")
        if request.param == "cold":
            FOLDERS[law] = tmp_path_factory.mktemp("cache")
        self.actions = ActionCache(FOLDERS.get(law) or tmp_path_factory.mktemp("cache"))
        yield
        self.actions.close()

    actions: ActionCache

    def make_sandbox(self, limits=SMALL_LIMITS):
        opened = open_sandbox(session_id="contract", limits=limits, **self.sandbox_options)
        return CachedSandbox(opened, self.actions, kind=limits, task="contract")


@pytest.mark.docker
class TestDocker(SandboxContract, SandboxAttacks):
    sandbox_options: ClassVar = {"backend": "docker", "image": IMAGE}

    def has_no_leftovers(self, session_id):
        import docker

        client = docker.from_env()
        try:
            names = [container.name for container in client.containers.list(all=True, ignore_removed=True)]
        finally:
            client.close()
        return f"coding-agent-{session_id}" not in names


class TestLocal(SandboxContract, SandboxAttacks):
    sandbox_options: ClassVar = {"backend": "local", "unsafe_local": True}
    missing_abilities: ClassVar = dict.fromkeys(
        (
            "memory_bytes",
            "pids",
            "disk_bytes",
            "files",
            "network",
            "read_only_root",
            "drop_rights",
            "namespaces",
            "kill_all",
            "hide_descriptors",
            "seccomp",
        ),
        NO_ISOLATION,
    )

    def has_no_leftovers(self, session_id):
        local.reap_directories()
        owners = [path.read_text() for path in Path(tempfile.gettempdir()).glob(f"{local.DIRECTORY_PREFIX}*/{local.OWNER_FILE}")]
        return not any(leftovers.is_owner_dead(owner) for owner in owners)
