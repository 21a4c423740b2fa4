"""The relay of external agents: connections and exit codes, on this machine."""

import socket
import threading
from pathlib import Path

import pytest

from harness.sandboxes.toolserver import relay


def listen(folder: Path) -> tuple[socket.socket, str]:
    address = str(folder / "socket")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    return listening, address


def test_an_end_in_one_direction_leaves_the_other_open(tmp_path: Path) -> None:
    listening, address = listen(tmp_path)
    client, inner = socket.socketpair()
    passing = threading.Thread(target=relay.connect, args=(inner, address))
    passing.start()
    server, _ = listening.accept()
    with listening, client, server, server.makefile("rb") as asked, client.makefile("rb") as answered:
        client.sendall(b"question" * 50_000)
        client.shutdown(socket.SHUT_WR)
        assert len(asked.read()) == 400_000  # the end of the question has arrived, too
        server.sendall(b"answer" * 50_000)
        server.shutdown(socket.SHUT_WR)
        assert len(answered.read()) == 300_000
    passing.join(60)
    assert not passing.is_alive()


def test_a_connection_without_a_server_is_closed(tmp_path: Path) -> None:
    client, inner = socket.socketpair()
    relay.connect(inner, str(tmp_path / "absent"))
    with client:
        assert client.recv(1) == b""


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("read line || exit 4", 4)])
def test_the_exit_code_is_that_of_the_script(tmp_path: Path, script: str, code: int) -> None:
    (tmp_path / "agent.sh").write_text(script)
    assert relay.run_script(tmp_path) == code


def test_the_file_stop_ends_the_script(tmp_path: Path) -> None:
    (tmp_path / "agent.sh").write_text("sleep 600")
    (tmp_path / "stop").touch()
    assert relay.run_script(tmp_path) == relay.STOPPED_EXIT_CODE
