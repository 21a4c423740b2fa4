"""A sandbox whose server lies, stops or breaks the protocol is dead for good."""

import hashlib
import json
import threading
import time

import pytest

from harness.blobs import TemporaryBlobStore
from harness.errors import FileMissing, PathRefused, SandboxDied, SandboxError, SandboxUnavailable, ToolError, UsageError
from harness.protocols import FileState, Snapshot
from harness.sandboxes.client import ServedSandbox
from tests.sandboxes.conftest import LIMITS, Liar, frame

RUN = {
    "exit_code": 0,
    "timed_out": False,
    "oom_killed": False,
    "seconds": 0.1,
    "stdout_bytes": 2,
    "stderr_bytes": 0,
    "stdout_kept": 2,
    "contained": True,
}


def scan(*entries: list[object], body: bytes = b"", more: bool = False) -> bytes:
    index = json.dumps(entries).encode()
    return frame({"more": more, "index_bytes": len(index), "odd": False}, index + body)


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
    with pytest.raises(SandboxDied, match=r"in time|timed out"):
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
def test_a_snapshot_that_lies_ends_the_sandbox(lying, answer):
    sandbox = lying(answer, answer)
    with pytest.raises(SandboxDied):
        sandbox.snapshot()


def test_a_listing_that_lies_ends_the_sandbox(lying):
    for body in (b'[["x", "castle", 1]]', b'[["x", "file"]]', b"{}x"):
        with pytest.raises(SandboxDied):
            lying(frame({}, body)).list(".")


def test_errors_of_the_server_are_for_the_model(lying):
    answers = ({"error": "outside"}, {"error": "missing"}, {"error": "failed", "detail": "x" * 10_000})
    for header, kind in zip(answers, (PathRefused, FileMissing, ToolError), strict=True):
        sandbox = lying(frame(header))
        with pytest.raises(kind) as caught:
            sandbox.read("some/path")
        assert "some/path" in str(caught.value)
        assert len(str(caught.value)) < 500


def test_a_server_that_does_not_start_is_unavailable_with_its_last_words():
    launcher = Liar([], frame({"error": "failed", "detail": "no"}))
    with pytest.raises(SandboxUnavailable, match=r"words.*python3"):
        ServedSandbox(launcher, LIMITS).start()
    assert launcher.removed == 1


def test_restoring_a_snapshot_whose_contents_are_elsewhere_is_refused(lying):
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
