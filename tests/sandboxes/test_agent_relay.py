"""External agents in a sandbox: they reach the model's socket through the relay, and neither the network nor other folders."""

import os
import shlex
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import SandboxError, UsageError
from harness.protocols import ExecResult
from harness.sandboxes import agent_relay, bubblewrap
from harness.sandboxes.agent_relay import ADDRESS, COMMAND, INSIDE, PORT, AgentRelay, open_relay
from harness.sandboxes.backends import open_sandbox
from harness.sandboxes.bubblewrap import BoundFolder
from harness.sandboxes.client import ServedSandbox

pytestmark = pytest.mark.bubblewrap

FETCH = f'python3 -c \'import urllib.request as u; print(u.urlopen("{ADDRESS}/x", data=b"q" * 300_000).read().decode())\''


@pytest.fixture
def relay() -> Iterator[AgentRelay]:
    with open_relay() as opened:
        yield opened


@pytest.fixture
def sandbox(relay: AgentRelay) -> Iterator[ServedSandbox]:
    with open_sandbox("bubblewrap", session_id="relay", folders=[relay.folder]) as opened:
        yield opened


def serve_lengths(relay: AgentRelay, connections: int) -> threading.Thread:
    """Answer requests on the relay's socket with the length of their body."""

    def serve() -> None:
        for _ in range(connections):
            client, _ = relay.listening.accept()
            with client, client.makefile("rb") as received:
                length = 0
                while (line := received.readline().strip()) != b"":
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                text = b"%d" % len(received.read(length))
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def run(relay: AgentRelay, sandbox: ServedSandbox, command: str, **variables: str) -> ExecResult:
    relay.write_script(command, variables)
    return sandbox.run(COMMAND, timeout_seconds=60)


def test_an_agent_reaches_the_socket_through_loopback_and_nothing_else(relay: AgentRelay, sandbox: ServedSandbox) -> None:
    thread = serve_lengths(relay, 2)
    outside = socket.create_server(("127.0.0.1", 0))
    elsewhere = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {outside.getsockname()[1]}), timeout=3)'"
    with outside:
        result = run(relay, sandbox, f"{FETCH}; {FETCH}; wc -l < /proc/net/route; {elsewhere} || echo refused; exit 7")
    thread.join(10)
    assert result.stdout.decode().split() == ["300000", "300000", "1", "refused"], result
    assert result.exit_code == 7


def test_an_agent_cannot_change_what_it_shares_with_the_harness(relay: AgentRelay, sandbox: ServedSandbox) -> None:
    result = run(relay, sandbox, f"touch {INSIDE}/stop || rm {INSIDE}/socket || echo x > {INSIDE}/relay.py || echo closed")
    assert result.stdout == b"closed\n"


def test_variables_and_working_folder(relay: AgentRelay, sandbox: ServedSandbox) -> None:
    text = 'it\'s $HOME\n`id` "ü"'
    result = run(relay, sandbox, 'printf %s "$GIVEN"; pwd', GIVEN=text)
    assert result.stdout.decode() == f"{text}/workspace\n"


def test_the_harness_can_end_an_agent_with_its_children(relay: AgentRelay, sandbox: ServedSandbox) -> None:
    def stop_at_request() -> None:
        client, _ = relay.listening.accept()
        with client:
            relay.stop()

    threading.Thread(target=stop_at_request, daemon=True).start()
    started = time.monotonic()
    result = run(relay, sandbox, f"sleep 300 & {FETCH}; sleep 300")
    assert result.exit_code == 143
    assert time.monotonic() - started < 50
    assert b"sleep" not in sandbox.run("cat /proc/[0-9]*/comm").stdout


def test_a_socket_that_nobody_serves_ends_the_connection(relay: AgentRelay, sandbox: ServedSandbox) -> None:
    relay.listening.close()
    result = run(relay, sandbox, FETCH)
    assert result.exit_code == 1
    ends = (b"RemoteDisconnected", b"reset", b"Broken pipe")  # what the agent sees depends on how far its request has come
    assert any(end in result.stderr for end in ends), result.stderr


def test_named_folders_are_visible_and_read_only(relay: AgentRelay, tmp_path_factory: pytest.TempPathFactory) -> None:
    base = Path("/var/tmp") / tmp_path_factory.mktemp("tools").name  # sandboxes have a /tmp of their own
    base.mkdir()
    try:
        (base / "seen").mkdir()
        (base / "seen" / "tool").write_text("#!/bin/sh\necho the tool runs\n")
        (base / "seen" / "tool").chmod(0o755)
        (base / "unseen").write_text("secret")
        folders = [relay.folder, BoundFolder(base / "seen", str(base / "seen"))]
        with open_sandbox(session_id="relay", folders=folders) as sandbox:
            result = run(relay, sandbox, f"{base}/seen/tool; cat {base}/unseen; touch {base}/seen/x || echo read-only; ls {base}")
        assert result.stdout.decode().split("\n") == ["the tool runs", "read-only", "seen", ""]
    finally:
        for path in (base / "seen" / "tool", base / "unseen"):
            path.unlink()
        (base / "seen").rmdir()
        base.rmdir()


def test_hidden_checks_stay_hidden_in_a_named_folder(relay: AgentRelay, monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(bubblewrap.__file__).parents[1]
    places = BoundFolder(package.parent, str(package.parent))
    with open_sandbox(session_id="relay", folders=[relay.folder, places]) as sandbox:
        assert run(relay, sandbox, f"ls {shlex.quote(str(package.parent))} | grep -c '^harness$'").stdout == b"1\n"
        assert run(relay, sandbox, f"ls -A {shlex.quote(str(package))}").stdout == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_root_still_becomes_another_user(relay: AgentRelay, sandbox: ServedSandbox) -> None:
    result = run(relay, sandbox, f"stat -c %u {INSIDE}; id -u")
    assert result.stdout.split() == [b"1000", b"1000"]
    assert relay.folder.source.stat().st_uid == bubblewrap.NOBODY


def test_only_bubblewrap_shows_folders(relay: AgentRelay) -> None:
    with pytest.raises(UsageError, match="'docker' cannot show folders of this machine; use 'bubblewrap'"):
        open_sandbox("docker", session_id="relay", folders=[relay.folder])


def test_a_path_that_is_too_long_for_a_socket_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    with pytest.raises(SandboxError, match=r"no socket in .*x{120}.*set TMPDIR to another folder"):
        AgentRelay(long)


def test_the_folder_is_private_and_deleted() -> None:
    with open_relay() as relay:
        source = relay.folder.source
        assert source.stat().st_mode & 0o777 == 0o700
        assert {path.name for path in source.iterdir()} == {"relay.py", "socket"}
    assert not source.exists()
    assert PORT in range(1024, 32_768), agent_relay.__doc__  # below the ports that systems give to clients
