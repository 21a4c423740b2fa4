"""Properties of docker only: names, images, network, leftovers, and frames of the engine (S0.2)."""

import contextlib
import io
import os
import re
import socket
import subprocess
import sys
import tarfile
import threading
import uuid

import pytest

from harness.errors import SandboxUnavailable, UsageError
from harness.protocols import SandboxLimits
from harness.sandboxes.backends import open_sandbox, probe_backend
from harness.sandboxes.docker import (
    AttachStream,
    DockerLauncher,
    connect,
    find_image,
    find_served_image,
    reap_leftovers,
    split_image,
)
from tests.sandboxes.conftest import LIMITS

IMAGE = os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py")
_HIDE = "for name in /usr/bin/python3* /bin/python3*; do [ -e $name ] && mv $name /usr/lib/hidden-$(basename $name); done"
_FIND = "cd /usr/lib; for name in hidden-*; do cp -a $name /usr/bin/${name#hidden-}; done"
_OWN_AND_DIE = """
import os, sys
from harness.sandboxes.leftovers import format_owner
import docker
client = docker.from_env()
labels = {"harness.owner": format_owner(), "harness.expires": "99999999999"}
client.containers.create(sys.argv[1], ["sleep", "99"], name=sys.argv[2], labels=labels)
"""


def leave_behind(session_id: str) -> None:
    subprocess.run([sys.executable, "-c", _OWN_AND_DIE, IMAGE, f"coding-agent-{session_id}"], check=True)


@pytest.fixture
def client():
    import docker

    with contextlib.closing(docker.from_env()) as client:
        yield client


@pytest.fixture
def session_id():
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.mark.docker
def test_the_container_carries_its_sessions_name_and_is_hardened(client, session_id):
    with contextlib.closing(open_sandbox("docker", session_id=session_id, image=IMAGE)) as sandbox:
        sandbox.start()
        seen = client.api.inspect_container(f"coding-agent-{session_id}")
        host = seen["HostConfig"]
        assert host["NetworkMode"] == "none"
        assert host["CapDrop"] == ["ALL"]
        assert host["ReadonlyRootfs"]
        assert host["AutoRemove"]
        assert host["Binds"] in (None, [])
        assert seen["Config"]["User"] == "1000:1000"
        assert str(sandbox.info.image).startswith(f"{IMAGE}@sha256:")
    assert not client.containers.list(all=True, ignore_removed=True, filters={"name": session_id})


@pytest.mark.docker
@pytest.mark.parametrize("network", [False, True])
def test_a_container_has_a_network_only_when_asked_for(session_id, network):
    limits = SandboxLimits(network=network)
    with contextlib.closing(open_sandbox("docker", session_id=session_id, image=IMAGE, limits=limits)) as sandbox:
        sandbox.start()
        devices = re.findall(rb"^ *([^ :]+):", sandbox.run("cat /proc/net/dev").stdout, re.MULTILINE)
    assert sorted(devices) == ([b"eth0", b"lo"] if network else [b"lo"])


@pytest.mark.docker
@pytest.mark.parametrize(("runtime", "image"), [("python", "python:3.12-slim"), ("bun", "oven/bun:latest")])
def test_the_default_image_is_that_of_the_runtime(client, session_id, runtime, image):
    mine = not client.images.list(image)
    if mine:
        client.images.get(IMAGE).tag(image)
    try:
        with contextlib.closing(open_sandbox("docker", session_id=session_id, runtime=runtime)) as sandbox:
            sandbox.start()
            assert str(sandbox.info.image).startswith(f"{image}@sha256:")
    finally:
        if mine:
            client.images.remove(image)


@pytest.mark.docker
def test_a_name_in_use_is_refused_and_one_of_a_dead_owner_taken_over(client, session_id):
    leave_behind(session_id)
    with contextlib.closing(open_sandbox("docker", session_id=session_id, image=IMAGE)) as first:
        first.start()
        second = open_sandbox("docker", session_id=session_id, image=IMAGE)
        with pytest.raises(SandboxUnavailable, match="its owner is still running"):
            second.start()
        second.close()
        assert first.run("echo unharmed").stdout == b"unharmed\n"


@pytest.mark.docker
def test_leftovers_of_dead_owners_are_reaped_and_others_left_alone(client, session_id):
    leave_behind(session_id)
    with contextlib.closing(open_sandbox("docker", session_id=f"{session_id}-alive", image=IMAGE)) as sandbox:
        sandbox.start()
        leave_behind(f"{session_id}-more")
        reaped = reap_leftovers(client.api)
        assert f"coding-agent-{session_id}-more" in reaped
        assert f"coding-agent-{session_id}-alive" not in reaped
        assert sandbox.run("true").exit_code == 0


@pytest.mark.docker
def test_an_image_that_cannot_be_had_is_named(session_id):
    sandbox = open_sandbox("docker", session_id=session_id, image="no-such-image-here:1")
    with pytest.raises(SandboxUnavailable, match="no-such-image-here:1"):
        sandbox.start()


@pytest.mark.docker
def test_an_image_without_python_says_that_python_is_needed(client, session_id):
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("file"))
    client.api.import_image_from_data(tar.getvalue(), repository=session_id, tag="1")
    try:
        with pytest.raises(SandboxUnavailable, match="python3"):
            open_sandbox("docker", session_id=session_id, image=f"{session_id}:1").start()
        assert not client.containers.list(all=True, ignore_removed=True, filters={"name": session_id})
    finally:
        client.images.remove(f"{session_id}:1")


def test_a_session_id_that_cannot_name_a_container_is_refused():
    for wrong in ("", "-x", "a b", "a/b", "x" * 200):
        with pytest.raises(UsageError, match="container"):
            DockerLauncher(wrong, IMAGE, LIMITS)


class Said(io.RawIOBase):
    """A connection that returns prepared chunks and then ends."""

    def __init__(self, chunks):
        self.chunks = list(chunks)

    def settimeout(self, seconds):
        assert seconds == 0

    def dup(self):
        return self

    def recv(self, size):
        return self.chunks.pop(0) if self.chunks else b""

    def shutdown(self, how):
        pass


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_frames_of_the_docker_engine_are_split_wherever_they_are_cut(size):
    raw = b"\x01\0\0\0\0\0\0\x03abc\x02\0\0\0\0\0\0\x02er\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x02de"
    stream = AttachStream(Said(raw[start : start + size] for start in range(0, len(raw), size)))
    output = b""
    while chunk := stream.receive():
        output += chunk
    assert (output, bytes(stream.stderr)) == (b"abcde", b"er")


@pytest.fixture
def bare(client):
    """Build an image without python3 whose package manager can install python3 without a network."""
    name = f"bare-{uuid.uuid4().hex[:12]}"
    script = f"{_HIDE}; printf '%s\\n' '#!/bin/sh' '{_FIND}' > /usr/bin/apt-get; chmod 755 /usr/bin/apt-get"
    container = client.containers.run(IMAGE, ["sh", "-c", script], user="0:0", network_mode="none", detach=True)
    assert container.wait()["StatusCode"] in (0, 1)
    container.commit(name, "1", conf={"User": "1000:1000"})
    container.remove()
    digest = client.images.get(f"{name}:1").id
    yield f"{name}:1"
    served = find_served_image(client.api, digest)
    for image in (served, f"{name}:1"):
        if image:
            client.images.remove(image, force=True)


@pytest.mark.docker
def test_an_image_without_python_is_given_one_once(client, bare):
    assert client.containers.run(bare, ["sh", "-c", "python3 || echo none"], network_mode="none", remove=True) == b"none\n"
    versions = []
    for attempt in (1, 2):
        with contextlib.closing(open_sandbox("docker", session_id=f"{bare[:-2]}-{attempt}", image=bare)) as sandbox:
            sandbox.start()
            assert sandbox.run("echo served").stdout == b"served\n"
            assert str(sandbox.info.image).startswith(bare)
            versions.append(dict(sandbox.info.versions)["harness-served"])
    served = find_served_image(client.api, find_image(client.api, bare))
    assert versions == [client.images.get(served).id] * 2


@pytest.fixture
def conda(client):
    """Build an image whose python3 is in a folder that only the image's own PATH contains."""
    name = f"conda-{uuid.uuid4().hex[:12]}"
    script = "mkdir -p /opt/conda/bin; mv /usr/bin/python3* /opt/conda/bin"
    container = client.containers.run(IMAGE, ["sh", "-c", script], user="0:0", network_mode="none", detach=True)
    assert container.wait()["StatusCode"] == 0
    container.commit(name, "1", conf={"User": "1000:1000", "Env": ["PATH=/opt/conda/bin:/usr/bin:/bin"]})
    container.remove()
    yield f"{name}:1"
    client.images.remove(f"{name}:1", force=True)


@pytest.mark.docker
def test_an_image_whose_python_commands_do_not_find_does_not_pass(conda):
    probe = probe_backend("docker", conda)
    assert not probe.ok
    assert probe.reason.startswith("the sandbox has no program python3 in /usr/local/sbin:")
    assert probe_backend("docker", IMAGE).ok


@pytest.mark.docker
def test_an_image_that_cannot_be_pulled_is_named(client):
    with pytest.raises(SandboxUnavailable, match="no-such-image-here:1"):
        find_image(client.api, "no-such-image-here:1")


def test_a_name_without_a_tag_means_latest_and_never_all_tags():
    assert split_image("a/b") == ("a/b", "latest")
    assert split_image("a/b:1") == ("a/b", "1")
    assert split_image("host:5000/b") == ("host:5000/b", "latest")
    assert split_image("b@sha256:12") == ("b@sha256:12", None)


def test_an_engine_that_is_not_there_is_named_by_its_address(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(SandboxUnavailable, match=r"nothing\.sock.*No such file.*install Docker Engine"):
        connect()


def test_an_engine_that_hangs_up_is_unavailable(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/d.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{tmp_path}/d.sock")
        server.listen()

        def hang_up():
            for _ in range(3):
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=hang_up)
        thread.start()
        try:
            with pytest.raises(SandboxUnavailable, match="Docker Engine"):
                connect()
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
