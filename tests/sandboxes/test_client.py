"""A sandbox whose server lies, stops or breaks the protocol is dead for good."""

import dataclasses
import hashlib
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.errors import FileMissing, PathRefused, SandboxDied, SandboxError, SandboxUnavailable, ToolError, UsageError
from harness.files.blobs import TemporaryBlobStore
from harness.protocols import FileState, Snapshot
from harness.sandboxes import open_sandbox
from harness.sandboxes.client import ServedSandbox
from harness.sandboxes.framing import Frame, FrameConnection, SocketStream
from tests.sandboxes.conftest import LIMITS, Liar, frame

RUN = {
    "exit_code": 0,
    "timed_out": False,
    "oom_killed": False,
    "seconds": 0.1,
    "stdout_bytes": 2,
    "stderr_bytes": 0,
    "stdout_kept": 2,
    "stdout_tail": 0,
    "stderr_tail": 0,
    "contained": True,
}


def scan(*entries: list[object], body: bytes = b"", more: bool = False) -> bytes:
    index = json.dumps(entries).encode()
    return frame({"more": more, "index_bytes": len(index), "odd": False, "left_out": [], "left_out_count": 0}, index + body)


def test_an_honest_answer_is_a_result(lying):
    result = lying(frame(RUN, b"ok")).run("x")
    assert (result.stdout, result.stderr, result.exit_code) == (b"ok", b"", 0)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"\x00\x00",
        b"\xff\xff\xff\xff\x00\x00\x00\x00",
        b"\x00\x00\x00\x02\xff\xff\xff\xff{}",
        frame(b"not json"),
        frame(b"[" * 100_000),
        frame([1, 2]),
        frame({}),
        frame(RUN | {"exit_code": "many"}),
        frame(RUN | {"stdout_kept": None}),
        frame(RUN, bytes(LIMITS.output_bytes + 3)),
        frame(RUN | {"stdout_tail": 3}, b"ok"),
        frame(RUN | {"stderr_tail": 1}, b"ok"),
        frame(RUN | {"stdout_tail": -1}, b"ok"),
        frame({"error": "other"})[:-1] + b"\xff",
    ],
    ids=lambda answer: repr(answer)[:24],
)
def test_an_answer_that_breaks_the_protocol_ends_the_sandbox(lying, answer):
    sandbox = lying(answer, frame(RUN, b"ok"))
    with pytest.raises(SandboxDied):
        sandbox.run("x", timeout_seconds=1)
    with pytest.raises(SandboxDied, match="gone"):
        sandbox.run("x")
    assert sandbox._launcher.removed == 1


def test_silence_ends_the_sandbox_at_the_deadline(lying):
    sandbox = lying(b"")
    with pytest.raises(SandboxDied, match="before the deadline"):
        sandbox.run("x", timeout_seconds=0.1)


def test_a_close_and_the_death_that_it_causes_wait_for_each_other(lying):
    sandbox, ended = lying(b""), []

    def work() -> None:
        with pytest.raises(SandboxDied):
            sandbox.run("x")
        ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.05)
    sandbox.close()
    thread.join()
    assert ended
    assert sandbox._launcher.removed == 2
    assert not sandbox._launcher.together


@pytest.mark.parametrize(
    "answer",
    [
        scan(["../x", 0o100644, 1, hashlib.sha256(b"x").hexdigest(), 1], body=b"x"),
        scan(["/x", 0o100644, 1, hashlib.sha256(b"x").hexdigest(), 1], body=b"x"),
        scan(["x", 0o100644, 1, hashlib.sha256(b"y").hexdigest(), 1], body=b"x"),
        scan(["x", "mode", 1, hashlib.sha256(b"x").hexdigest(), 1], body=b"x"),
        scan(["x"]),
        frame({"more": False, "index_bytes": 2, "odd": False}, b"no"),
        scan(["x", 0o100644, 9_000_000, None, 9_000_000], body=bytes(9_000_000), more=True),
    ],
    ids=["up", "absolute", "hash", "mode", "short", "no-json", "endless"],
)
def test_an_inconsistent_snapshot_ends_the_sandbox(lying, answer):
    sandbox = lying(answer, answer)
    with pytest.raises(SandboxDied):
        sandbox.snapshot()


def test_an_inconsistent_listing_ends_the_sandbox(lying):
    for body in (b'[["x", "castle", 1]]', b'[["x", "file"]]', b"{}x"):
        with pytest.raises(SandboxDied):
            lying(frame({}, body)).list(".")


INTERRUPTED_SCRIPT = r"""
import os, signal, threading, time
from harness.sandboxes import open_sandbox

signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell makes background jobs ignore the signal


def interrupt():
    while "begun" not in {entry.name for entry in sandbox.list(".")}:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

with open_sandbox("bubblewrap", session_id="interrupted") as sandbox, sandbox.allow_parallel_calls():
    threading.Thread(target=interrupt).start()
    other = threading.Thread(target=lambda: print(sandbox.run("until [ -s go ]; do sleep 0.01; done; echo other").stdout))
    other.start()
    try:
        sandbox.run("(sleep 1000) & touch begun; sleep 1000; true", timeout_seconds=900)
    except KeyboardInterrupt:
        print("interrupted")
    count = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 100[0]'"
    # a killed process keeps its command line until the kernel lets it end
    print(sandbox.run(f"for _ in 1 2 3 4 5 6 7 8 9; do {count} >/dev/null || break; sleep 0.2; done; {count}").stdout)
    sandbox.write("go", b"1")
    other.join()
"""


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_an_interrupt_cancels_its_own_command_and_leaves_the_sandbox_usable():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_SCRIPT], capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.splitlines() == ["interrupted", r"b'0\n'", r"b'other\n'"], done.stderr


SCANNED_COMMANDS = """
true
echo a > f; echo out; echo err >&2
true
mkdir -p d/e && mv f d/e/g
chmod 700 d
touch z a
rm z; touch z
rm -r d
yes | head -c 9000000 > big
yes n | head -c 20000000 > big; mkdir m
touch m/$(seq -s ' m/' 6000)
ln -s a l
true
rm l; mkfifo p
rm p
exit 3
sleep 1000 & echo left
true
"""
"""Commands that change a workspace; some need more than one part of a scan, and the last but one leaves a process."""


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_snapshot_that_comes_with_a_command_is_that_of_a_request_after_it():
    with (
        open_sandbox("bubblewrap", session_id="together") as together,
        open_sandbox("bubblewrap", session_id="apart") as apart,
    ):
        for command in SCANNED_COMMANDS.strip().splitlines():
            traced, plain = together.run_traced(command, with_snapshot=True), apart.run_traced(command)
            assert dataclasses.replace(traced.result, seconds=0) == dataclasses.replace(plain.result, seconds=0)
            assert (traced.contained, traced.repeatable) == (plain.contained, plain.repeatable)
            snapshot = apart.snapshot()
            assert traced.snapshot == (snapshot if plain.contained else None)
            assert together.snapshot() == snapshot
            assert together.has_incomplete_snapshot == apart.has_incomplete_snapshot


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_snapshot_that_an_interrupt_keeps_back_is_taken_as_a_whole():
    done = subprocess.run([sys.executable, "-c", KEPT_BACK_SCRIPT], capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.splitlines() == ["interrupted", "['f', 'g']", "['f', 'g', 'h']"], done.stderr


KEPT_BACK_SCRIPT = r"""
import os, psutil, signal, threading, time
from harness.sandboxes import open_sandbox

signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell makes background jobs ignore the signal


def interrupt():
    while "sleep" not in {child.name() for child in psutil.Process().children(recursive=True)}:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

with open_sandbox("bubblewrap", session_id="interrupted") as sandbox:
    sandbox.run_traced("echo 1 > f", with_snapshot=True)
    threading.Thread(target=interrupt).start()
    try:
        sandbox.run_traced("echo 2 > g; sleep 1000; true", timeout_seconds=900, with_snapshot=True)
    except KeyboardInterrupt:
        print("interrupted")
    print(sorted(sandbox.snapshot().files))
    print(sorted(sandbox.run_traced("echo 3 > h", with_snapshot=True).snapshot.files))
"""


def test_a_reply_to_a_request_that_was_not_sent_ends_the_sandbox(lying):
    sandbox = lying(frame(RUN, b"ok", number=7))
    with pytest.raises(SandboxDied, match="request 7"):
        sandbox.run("x")


def test_replies_reach_the_threads_that_wait_for_them_in_any_order(lying):
    """The replies arrive in the opposite order of the requests."""
    ours, theirs = socket.socketpair()
    connection = FrameConnection(SocketStream(ours))
    barrier = threading.Barrier(8)

    def ask(name: str) -> object:
        barrier.wait()
        return connection.request(Frame(header={"op": name}), 300).header["op"]

    def serve() -> None:
        with theirs.makefile("rb") as incoming:
            headers = []
            for _ in range(8):
                header_bytes, _ = struct.unpack(">II", incoming.read(8))
                headers.append(json.loads(incoming.read(header_bytes)))
            for header in reversed(headers):
                theirs.sendall(frame({"op": header["op"]}, number=header["number"]))

    with ThreadPoolExecutor(9) as pool:
        server = pool.submit(serve)
        assert list(pool.map(ask, "abcdefgh")) == list("abcdefgh")
        server.result()
    connection.close()
    theirs.close()


def test_errors_of_the_server_are_for_the_model(lying):
    answers = ({"error": "outside"}, {"error": "missing"}, {"error": "failed", "detail": "x" * 10_000})
    for header, kind in zip(answers, (PathRefused, FileMissing, ToolError), strict=True):
        sandbox = lying(frame(header))
        with pytest.raises(kind) as caught:
            sandbox.read("some/path")
        assert "some/path" in str(caught.value)
        assert len(str(caught.value)) < 500


def test_a_server_that_does_not_start_is_unavailable_with_its_last_output():
    launcher = Liar([], frame({"error": "failed", "detail": "no"}))
    with pytest.raises(SandboxUnavailable, match=r"words.*python3"):
        ServedSandbox(launcher, LIMITS).start()
    assert launcher.removed == 1


def test_restoring_a_snapshot_without_file_contents_is_refused(lying):
    files = {"x": FileState(sha256="0" * 64, mode=0o100644, size_bytes=1)}
    sandbox = lying(frame({}), scan(), frame({}))
    with pytest.raises(SandboxError, match="no file content"):
        sandbox.restore(Snapshot(tree_id="1", files=files))


def test_blobs_are_named_while_the_workspace_is_empty(lying):
    sandbox = lying(scan(["x", 0o100644, 1, hashlib.sha256(b"x").hexdigest(), 1], body=b"x"))
    sandbox.use_blobs(TemporaryBlobStore()).snapshot()
    with pytest.raises(SandboxError, match="empty"):
        sandbox.use_blobs(TemporaryBlobStore())


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e9])
def test_a_time_out_that_is_none_is_refused(lying, seconds):
    with pytest.raises(UsageError, match="timeout_seconds"):
        lying().run("x", timeout_seconds=seconds)
