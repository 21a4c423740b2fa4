"""The cached sandbox compared with a real one: with an empty, full or partly evicted cache, both give equal answers."""

import socket
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import SandboxDied, SandboxUnavailable, ToolError
from harness.protocols import SandboxLimits
from harness.sandboxes import open_sandbox
from harness.sandboxes.action_cache import ActionCache, CachedSandbox
from harness.sandboxes.action_cache.cache import CACHE_FILE

pytestmark = pytest.mark.bubblewrap

LIMITS = SandboxLimits(file_bytes=2_000, disk_bytes=2**20)
PATHS = [
    "a",
    "b",
    "d",
    "d/x",
    "d/e/y",
    "/workspace/d/x",
    "d/../a",
    "../a",
    "/etc/passwd",
    "a/b",
    "a/../a",
    ".",
    "l",
    "d//./x",
    "n\0",
    "ü",
]
COMMANDS = [
    "ls -U -R -A", "find . | cat", "grep -rn '' . | head -c 3000", "cat a b d/x", "echo 1 >> a", "echo 2 > b; exit 3",
    "mv a d/x", "mv b a", "rm -rf d", "sed -i 's/1/2/' a", "mkdir -p d/e f", "cp -r d c", "chmod 600 a; umask 077; echo 3 > k",
    "stat -c '%a %s %F %n' a b d d/x f", "rm -f a; echo 4 > a", "touch d/q d/p d/o", "printf 'x\\377' > $(printf 'n\\377')",
]  # fmt: skip
ODD_COMMANDS = [
    "ln -s a l", "ln a hard", "mkfifo pipe", "echo t > /tmp/t", "cat /tmp/t", "chmod 000 d", "chmod 555 .", "sleep 9 &",
    "chmod u+s a", "head -c 900000 /dev/zero > big", "head -c 1500000 /dev/zero | head -c 1200000", "echo > /dev/shm/x",
    "kill -9 $$", "ls /proc | grep -c '^[0-9]*$' | head -c 0; exec 2>&1; nothing",
]  # fmt: skip


def action(commands):
    """Return a strategy for operations with their arguments."""
    paths, contents = st.sampled_from(PATHS), st.sampled_from([b"", b"1\n", b"one\n1\n2\n", bytes(1_500), bytes(2_001)])
    return st.one_of(
        st.tuples(st.just("run"), st.sampled_from(commands)),
        st.tuples(st.just("write"), paths, contents),
        st.tuples(st.just("read"), paths),
        st.tuples(st.just("list"), paths),
    )


def answer(sandbox, call):
    name, *arguments = call
    try:
        result = getattr(sandbox, name)(*arguments)
    except ToolError as error:
        return type(error), str(error)
    return replace(result, seconds=0.0) if name == "run" else result


def story(sandbox, calls):
    """Return all answers and the final contents of the workspace, in order."""
    answers = [answer(sandbox, call) for call in calls]
    snapshot = sandbox.snapshot()
    return answers, snapshot.tree_id, list(snapshot.files.items())


def opened():
    return open_sandbox("bubblewrap", session_id="property", limits=LIMITS)


def cached(folder_or_cache):
    cache = folder_or_cache if isinstance(folder_or_cache, ActionCache) else ActionCache(folder_or_cache)
    return CachedSandbox(opened(), cache, kind="property", task="property")


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """An action cache that all examples of a test fill."""
    with closing(ActionCache(tmp_path_factory.mktemp("actions"))) as cache:
        yield cache


def agree(cache, calls):
    with opened() as real:
        expected = story(real, calls)
    for forget in ("", "DELETE FROM entry WHERE id % 2", ""):
        with closing(sqlite3.connect(cache.folder / CACHE_FILE)) as connection, connection:
            connection.execute(forget or "SELECT 1")
        with cached(cache) as sandbox:
            assert story(sandbox, calls) == expected


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(action(COMMANDS), min_size=3, max_size=14))
def test_any_calls_are_answered_as_by_a_real_sandbox(machines, calls):
    agree(machines, calls)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(action(COMMANDS + ODD_COMMANDS * 2), min_size=3, max_size=10))
def test_workspaces_that_cannot_be_mirrored_are_left_to_the_real_sandbox(machines, calls):
    agree(machines, calls)


def test_a_path_that_leads_through_a_file_is_refused_as_by_a_real_sandbox(tmp_path):
    with opened() as real, closing(ActionCache(tmp_path)) as cache, cached(cache) as sandbox:
        for one in (real, sandbox):
            one.write("a", b"1")
        for call in (("read", "a/../a"), ("list", "a/.."), ("list", "a/../.")):
            assert answer(sandbox, call) == answer(real, call)
            assert answer(sandbox, call)[0] is ToolError


def test_a_file_that_does_not_fit_is_refused_as_by_a_real_sandbox(tmp_path):
    limits = SandboxLimits(disk_bytes=2**20)
    with closing(ActionCache(tmp_path)) as cache:
        for _ in range(2):  # the second time, no real sandbox has started before the write
            real = open_sandbox("bubblewrap", session_id="full", limits=limits)
            with CachedSandbox(real, cache, kind="full", task="") as sandbox:
                sandbox.run("echo 1")
                with pytest.raises(ToolError, match="File too large"):
                    sandbox.write("a", bytes(1_500_000))
                assert sandbox.run("echo alive").stdout == b"alive\n"


def test_parallel_calls_bypass_the_cache_and_later_commands_use_it_again(tmp_path):
    """S1.3. The files exist before, because the order in which files are created is part of the state of a workspace."""
    for hits in (0, 1):
        with closing(ActionCache(tmp_path)) as cache, cached(cache) as sandbox:
            for path in ("a", "b"):
                sandbox.write(path, b"")
            with sandbox.allow_parallel_calls(), ThreadPoolExecutor(2) as pool:
                results = list(pool.map(sandbox.run, ["echo 1 > a; echo one", "echo 2 > b; echo two"]))
            assert [result.stdout for result in results] == [b"one\n", b"two\n"]
            assert (sandbox.counts.hits, sandbox.counts.misses) == (0, 2)
            assert sandbox.run("cat a b").stdout == b"1\n2\n"
            assert (sandbox.counts.hits, sandbox.counts.misses) == (hits, 3 - hits)


def test_parallel_calls_with_effects_outside_the_workspace_end_the_use_of_the_cache(tmp_path):
    for _ in range(2):
        with closing(ActionCache(tmp_path)) as cache, cached(cache) as sandbox:
            with sandbox.allow_parallel_calls(), ThreadPoolExecutor(2) as pool:
                list(pool.map(sandbox.run, ["echo 1 > /tmp/t", "true"]))
            assert sandbox.run("cat /tmp/t").stdout == b"1\n"
            assert (sandbox.counts.hits, sandbox.counts.misses) == (0, 3)


def test_a_known_action_runs_nowhere(tmp_path):
    for expected in ((0, 2), (2, 0)):
        cache = ActionCache(tmp_path)
        cache.infos["property"] = info()
        with cached(cache) as sandbox:
            sandbox.write("a", b"1\n")
            assert sandbox.run("cat a; echo 2 > b").stdout == b"1\n"
            assert sandbox.run("cat b").stdout == b"2\n"
            assert (sandbox.counts.hits, sandbox.counts.misses) == expected
            assert sandbox._was_used == (expected[0] == 0)
        cache.close()


def test_a_file_that_was_replaced_by_itself_has_the_same_place_in_a_warm_run(tmp_path):
    for expected in ((0, 3), (3, 0)):
        with closing(ActionCache(tmp_path)) as cache, cached(cache) as sandbox:
            for name in "abc":
                sandbox.write(name, b"1\n")
            sandbox.run("sed -i s/1/2/ a")
            sandbox.run("mkdir d; echo 3 > d/x")
            sandbox.run("echo 4 > d/x")
            assert (sandbox.counts.hits, sandbox.counts.misses) == expected


def info():
    with opened() as sandbox:
        return sandbox.info


@pytest.mark.slow
@pytest.mark.parametrize(
    "leaves",
    ["echo x > $TMPDIR/x", "echo x > /dev/shm/x", "sleep 30 > /dev/null 2>&1 &", "setsid -f sleep 30", "ln -s a b", "ln a b",
     "mkfifo p", "chmod 500 .", "chmod 700 $TMPDIR", "python3 -c 'import os; os.mkdir(\"s\", 0); os.chmod(\"s\", 0)'"],
)  # fmt: skip
def test_after_a_command_that_leaves_what_no_key_holds_nothing_is_kept_or_looked_up(tmp_path, leaves):
    with closing(ActionCache(tmp_path)) as cache:
        with cached(cache) as sandbox:
            sandbox.write("a", b"")
            sandbox.run("echo known")
            sandbox.run(leaves)
            sandbox.run("echo known")
            sandbox.run("echo other")
            assert (sandbox.counts.hits, sandbox.counts.misses) == (0, 4)
        assert [kept.command for kept in cache.list_largest(9)] == ["echo known"]


@pytest.mark.parametrize("command", ["sleep 900", "head -c 2000000 /dev/zero", "kill -9 $$"])
def test_a_command_that_a_limit_ended_is_not_kept_and_does_not_end_the_keeping(tmp_path, command):
    with closing(ActionCache(tmp_path)) as cache:
        with cached(cache) as sandbox:
            sandbox.run(command, timeout_seconds=0.5 if "sleep" in command else 60)
            sandbox.run("echo 1")
        assert [kept.command for kept in cache.list_largest(9)] == ["echo 1"]


def test_time_out_workspace_and_limits_are_part_of_the_key(tmp_path):
    with closing(ActionCache(tmp_path)) as cache:
        with cached(cache) as sandbox:
            sandbox.run("echo 1", timeout_seconds=55)
            sandbox.run("echo 1", timeout_seconds=66)
            sandbox.write("a", b"")
            sandbox.run("echo 1", timeout_seconds=55)
            sandbox.run("echo 1", timeout_seconds=55)
            assert (sandbox.counts.hits, sandbox.counts.misses) == (1, 3)
        other = open_sandbox("bubblewrap", session_id="property", limits=replace(LIMITS, pids=99))
        with CachedSandbox(other, cache, kind="other", task="") as sandbox:
            sandbox.run("echo 1", timeout_seconds=55)
            assert sandbox.counts.misses == 1


def test_the_unsafe_backend_has_no_cache(tmp_path):
    local = open_sandbox("local", session_id="property", unsafe_local=True)
    with closing(ActionCache(tmp_path)) as cache:
        with CachedSandbox(local, cache, kind="local", task="") as sandbox:
            sandbox.run("echo 1")
            sandbox.run("echo 1")
            assert sandbox.counts.misses == 2
        assert cache.read_summary().entries == 0


def test_a_command_that_asks_the_network_is_asked_again_in_each_session(tmp_path):
    answers, limits = [], SandboxLimits(network=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, closing(ActionCache(tmp_path)) as cache:
        server.bind(("127.0.0.1", 0))
        server.settimeout(20)
        code = f"""
import socket
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(20)
client.sendto(b"x", ("127.0.0.1", {server.getsockname()[1]}))
print(client.recv(9))
"""
        for number in (1, 2):
            real = open_sandbox("bubblewrap", session_id="network", limits=limits)
            with CachedSandbox(real, cache, kind="network", task="") as sandbox, ThreadPoolExecutor(1) as pool:
                assert not sandbox.has_mirror
                answer = pool.submit(sandbox.run, f"python3 -c '{code}'")
                server.sendto(str(number).encode(), server.recvfrom(9)[1])
                answers.append(answer.result().stdout)
        assert cache.read_summary().entries == 0
    assert answers == [b"b'1'\n", b"b'2'\n"]


def test_a_sandbox_that_was_lost_answers_nothing_any_more(tmp_path):
    with closing(ActionCache(tmp_path)) as cache:
        with cached(cache) as sandbox:
            sandbox.run("echo 1")
        with cached(cache) as sandbox:
            sandbox.run("echo 2")
            sandbox._real.close()
            for command in ("echo 3", "echo 1"):
                with pytest.raises(SandboxDied):
                    sandbox.run(command)


def test_uncached_gives_the_real_sandbox_in_the_state_of_the_workspace(tmp_path):
    for _ in range(2):
        with closing(ActionCache(tmp_path)) as cache, cached(cache) as sandbox:
            sandbox.write("a", b"1")
            sandbox.run("mkdir d; cp a d/b; chmod 700 d/b")
            real = sandbox.bypass_cache()
            assert real.run("cat d/b; stat -c %a d/b").stdout == b"1700\n"
            assert real.snapshot() == sandbox.snapshot()


@pytest.fixture
def cache(tmp_path):
    with closing(ActionCache(tmp_path)) as cache:
        yield cache


def session(cache, kind="a kind"):
    return CachedSandbox(open_sandbox("bubblewrap", session_id="sessions"), cache, kind=kind, task="sessions")


LEAVE_TRACES = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
queue = libc.mq_open(b"/trace", os.O_CREAT | os.O_RDWR, 0o600, None)
assert queue >= 0 and libc.mq_send(queue, b"trace", 5, 0) == 0
for path in ("/workspace", "/tmp", "/dev/shm"):
    try:
        os.setxattr(path, "user.trace", b"1")
    except OSError:
        pass
    os.utime(path, (1, 1))
"""
FIND_TRACES = """
import ctypes, os
libc = ctypes.CDLL(None)
found = []
if libc.mq_open(b"/trace", os.O_RDWR) >= 0:
    found.append("queue")
for path in ("/workspace", "/tmp", "/dev/shm"):
    if os.listxattr(path):
        found.append("attribute of " + path)
    if os.stat(path).st_mtime == 1:
        found.append("time of " + path)
print(*found, sep=", ")
"""


def test_a_command_that_the_cache_lacks_takes_one_exchange_with_the_sandbox(cache):
    with session(cache) as sandbox:
        sandbox.run("mkdir d")
        for command in ("true", "echo 1 > d/f", "cat d/f", "rm -r d"):
            numbers = sandbox._real._connection._numbers
            before = next(numbers)
            sandbox.run(command)
            assert next(numbers) == before + 2
        assert sandbox.counts.misses == 5


def test_a_session_finds_nothing_that_another_session_left(cache):
    outputs = []
    for script in (LEAVE_TRACES + FIND_TRACES, FIND_TRACES):
        with session(cache) as sandbox:
            sandbox.write("script.py", script.encode())
            outputs.append(sandbox.run("python3 script.py").stdout.decode().strip())
    assert "queue" in outputs[0]
    assert outputs[1] == ""


OPEN_QUEUE = "import ctypes; ctypes.CDLL(None).mq_open(b'/queue', 0o102, 0o600, None)"
CONNECT = """
import socket
with socket.create_server(("127.0.0.1", 8000)) as server, socket.create_connection(("127.0.0.1", 8000)):
    server.accept()[0].close()
"""
LEFT_OUTSIDE = {
    "a file in /tmp": "echo x > /tmp/x",
    "a file in /dev/shm": "echo x > /dev/shm/x",
    "a process": "sleep 30 > /dev/null 2>&1 &",
    "a message queue": f'python3 -c "{OPEN_QUEUE}"',
    "System V memory": "python3 -c 'import ctypes; ctypes.CDLL(None).shmget(7, 4096, 0o1600)'",
    "an attribute of the workspace": 'python3 -c \'import os; os.setxattr(".", "user.x", b"1")\'',
    "an attribute of a file": 'python3 -c \'import os; os.setxattr("a", "user.x", b"1")\'',
    "an attribute of a directory": 'python3 -c \'import os; os.setxattr("d", "user.x", b"1")\'',
    "an attribute of /tmp": 'python3 -c \'import os; os.setxattr("/tmp", "user.x", b"1")\'',
    "a reserved port": f"python3 -c '{CONNECT}'",
}
"""Shell commands that leave something outside the snapshot of the workspace, by what they leave."""


@pytest.mark.slow
@pytest.mark.parametrize("command", LEFT_OUTSIDE.values(), ids=list(LEFT_OUTSIDE))
def test_after_a_command_that_left_something_outside_nothing_is_cached(cache, command):
    with session(cache) as sandbox:
        sandbox.run("mkdir d; echo 1 > a; cp a b; sleep 0.05")
        before = cache.read_summary().entries
        result = sandbox.run(command)
        if b"Operation not supported" in result.stderr:
            pytest.skip("this kernel has no attributes of users on memory file systems")
        assert (result.exit_code, result.stderr) == (0, b"")
        sandbox.run("cat a")
        assert cache.read_summary().entries == before
    with session(cache) as sandbox:
        sandbox.run("mkdir d; echo 1 > a; cp a b; sleep 0.05")
        assert sandbox.counts.hits == 1
        assert sandbox.run(command).stderr == b""
        assert sandbox.counts.hits == 1


def test_a_restored_sandbox_has_no_files_outside_the_workspace(cache):
    with session(cache) as sandbox:
        snapshot = sandbox.snapshot()
        sandbox.run(f'echo x > /dev/shm/x; echo x > /tmp/x; python3 -c "{OPEN_QUEUE}"')
        assert sandbox.run("ls -A /dev/shm /tmp /dev/mqueue | grep -c '[a-z]$'").stdout == b"3\n"
        sandbox.restore(snapshot)
        assert sandbox.run("ls -A /dev/shm /tmp /dev/mqueue").stdout == b"/dev/mqueue:\n\n/dev/shm:\n\n/tmp:\n"


def test_each_session_has_a_sandbox_that_ends_with_it(cache):
    served = []
    for _ in range(2):
        with session(cache) as sandbox:
            sandbox.run("echo 1 > a")
            served.append(sandbox.bypass_cache())
        with pytest.raises(SandboxDied):
            served[-1].run("true")
    assert served[0] is not served[1]


def test_a_session_of_a_known_kind_does_not_wait_for_its_sandbox(cache, monkeypatch):
    with session(cache) as first:
        first.run("echo 1")
    opened = open_sandbox("bubblewrap", session_id="sessions")
    release, start = threading.Event(), opened.start
    monkeypatch.setattr(opened, "start", lambda: (release.wait(), start()))
    with CachedSandbox(opened, cache, kind="a kind", task="sessions") as second:
        assert second.info == first.info
        assert second.run("echo 1").stdout == b"1\n"
        release.set()
        assert second.run("echo 2").stdout == b"2\n"


def test_a_sandbox_that_fails_to_start_is_reported_when_it_is_needed(cache, monkeypatch):
    with session(cache) as first:
        first.run("echo 1")
    monkeypatch.setattr("harness.sandboxes.bubblewrap.find_program", lambda: "/bin/false")
    with session(cache) as second:
        assert second.run("echo 1").stdout == b"1\n"
        with pytest.raises(SandboxUnavailable, match="did not start"):
            second.run("echo 2")
