"""Images that are not here, and images without a python3."""

import contextlib
import os
import uuid

import pytest

from harness.errors import SandboxUnavailable
from harness.sandboxes.backends import open_sandbox
from harness.sandboxes.docker.images import find_image, find_served_image, split_image

IMAGE = os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py")
_HIDE = "for name in /usr/bin/python3* /bin/python3*; do [ -e $name ] && mv $name /usr/lib/hidden-$(basename $name); done"
_FIND = "cd /usr/lib; for name in hidden-*; do cp -a $name /usr/bin/${name#hidden-}; done"


@pytest.fixture
def client():
    import docker

    with contextlib.closing(docker.from_env()) as client:
        yield client


@pytest.fixture
def bare(client):
    """An image without python3 whose package manager can bring it back, without a network."""
    name = f"bare-{uuid.uuid4().hex[:12]}"
    script = f"{_HIDE}; printf '%s\\n' '#!/bin/sh' '{_FIND}' > /usr/bin/apt-get; chmod 755 /usr/bin/apt-get"
    container = client.containers.run(IMAGE, ["sh", "-c", script], user="0:0", network_mode="none", detach=True)
    assert container.wait()["StatusCode"] in (0, 1)
    container.commit(name, "1", conf={"User": "1000:1000"})
    container.remove()
    digest = client.images.get(f"{name}:1").id
    yield f"{name}:1"
    served = find_served_image(client.api, digest)
    for made in (served, f"{name}:1"):
        if made:
            client.images.remove(made, force=True)


@pytest.mark.docker
def test_an_image_without_python_is_given_one_once(client, bare):
    assert client.containers.run(bare, ["sh", "-c", "python3 || echo none"], network_mode="none", remove=True) == b"none\n"
    for attempt in (1, 2):
        with contextlib.closing(open_sandbox("docker", session_id=f"{bare[:-2]}-{attempt}", image=bare)) as sandbox:
            sandbox.start()
            assert sandbox.run("echo served").stdout == b"served\n"
            assert str(sandbox.info.image).startswith(bare)
    assert find_served_image(client.api, find_image(client.api, bare)) is not None


@pytest.mark.docker
def test_an_image_that_cannot_be_had_is_named(client):
    with pytest.raises(SandboxUnavailable, match="no-such-image-here:1"):
        find_image(client.api, "no-such-image-here:1")


def test_a_name_without_a_tag_means_latest_and_never_all_tags():
    assert split_image("a/b") == ("a/b", "latest")
    assert split_image("a/b:1") == ("a/b", "1")
    assert split_image("host:5000/b") == ("host:5000/b", "latest")
    assert split_image("b@sha256:12") == ("b@sha256:12", None)
