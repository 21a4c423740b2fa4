"""An engine that cannot be reached says why, and what to do."""

import socket

import pytest

from harness.errors import SandboxUnavailable
from harness.sandboxes.docker.engine import connect


def test_an_engine_that_is_not_there_is_named_by_its_address(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(SandboxUnavailable, match=r"nothing\.sock.*No such file.*install Docker Engine"):
        connect()


def test_an_engine_that_hangs_up_is_unavailable(monkeypatch, tmp_path):
    import threading

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
