"""The cached sandbox compared with a real one: with an empty, full or partly evicted cache, both give equal answers."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import FileMissing, SandboxDied, ToolError
from harness.protocols import SandboxLimits
from harness.sandboxes import open_sandbox
from harness.sandboxes.action_cache import ActionCache, CachedSandbox
from harness.sandboxes.action_cache.cache import CACHE_FILE
from harness.sandboxes.action_cache.sandbox import SandboxPool

pytestmark = pytest.mark.bubblewrap

LIMITS = SandboxLimits(file_bytes=2_000, disk_bytes=2**20)
PATHS = ["a", "b", "d", "d/x", "d/e/y", "/workspace/d/x", "d/../a", "../a", "/etc/passwd", "a/b", ".", "l", "d//./x", "n\0", "ü"]
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
        found = getattr(sandbox, name)(*arguments)
    except ToolError as error:
        return type(error), str(error)
    return replace(found, seconds=0.0) if name == "run" else found


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


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(action(COMMANDS), min_size=3, max_size=14))
def test_any_calls_are_answered_as_by_a_real_sandbox(machines, calls):
    agree(machines, calls)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(action(COMMANDS + ODD_COMMANDS * 2), min_size=3, max_size=10))
def test_what_no_mirror_can_hold_is_left_to_the_real_one(machines, calls):
    agree(machines, calls)


def test_a_known_action_starts_nothing(tmp_path):
    for expected in ((0, 2), (2, 0)):
        cache = ActionCache(tmp_path)
        cache.infos["property"] = info()
        with cached(cache) as sandbox:
            sandbox.write("a", b"1\n")
            assert sandbox.run("cat a; echo 2 > b").stdout == b"1\n"
            assert sandbox.run("cat b").stdout == b"2\n"
            assert (sandbox.counts.hits, sandbox.counts.misses) == expected
            assert sandbox._started == (expected[0] == 0)
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


@pytest.mark.parametrize("command", ["sleep 9", "head -c 2000000 /dev/zero", "kill -9 $$"])
def test_a_command_that_a_limit_ended_is_not_kept_and_does_not_end_the_keeping(tmp_path, command):
    with closing(ActionCache(tmp_path)) as cache:
        with cached(cache) as sandbox:
            sandbox.run(command, timeout_seconds=0.5)
            sandbox.run("echo 1")
        assert [kept.command for kept in cache.list_largest(9)] == ["echo 1"]


def test_time_out_workspace_and_limits_are_part_of_the_key(tmp_path):
    with closing(ActionCache(tmp_path)) as cache:
        with cached(cache) as sandbox:
            sandbox.run("echo 1", timeout_seconds=5)
            sandbox.run("echo 1", timeout_seconds=6)
            sandbox.write("a", b"")
            sandbox.run("echo 1", timeout_seconds=5)
            sandbox.run("echo 1", timeout_seconds=5)
            assert (sandbox.counts.hits, sandbox.counts.misses) == (1, 3)
        other = open_sandbox("bubblewrap", session_id="property", limits=replace(LIMITS, pids=99))
        with CachedSandbox(other, cache, kind="other", task="") as sandbox:
            sandbox.run("echo 1", timeout_seconds=5)
            assert sandbox.counts.misses == 1


def test_the_unsafe_backend_has_no_cache(tmp_path):
    local = open_sandbox("local", session_id="property", unsafe_local=True)
    with closing(ActionCache(tmp_path)) as cache:
        with CachedSandbox(local, cache, kind="local", task="") as sandbox:
            sandbox.run("echo 1")
            sandbox.run("echo 1")
            assert sandbox.counts.misses == 2
        assert cache.read_summary().entries == 0


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
def spares(monkeypatch):
    """A sandbox pool for one test."""
    with closing(SandboxPool()) as spares:
        monkeypatch.setattr("harness.sandboxes.action_cache.sandbox.SANDBOX_POOL", spares)
        yield spares


@pytest.fixture
def cache(tmp_path):
    with closing(ActionCache(tmp_path)) as cache:
        yield cache


def pooled(cache, kind="a kind"):
    return CachedSandbox(open_sandbox("bubblewrap", session_id="spares"), cache, kind=kind, task="spares")


def served(sandbox):
    """Return the real sandbox behind a cached one."""
    sandbox.bypass_cache()
    return sandbox._real


def test_the_next_session_of_a_kind_gets_the_sandbox_of_the_last_one(spares, cache):
    with pooled(cache) as first:
        before = served(first)
    with pooled(cache, "another kind") as other, pooled(cache) as second:
        assert served(other) is not before
        assert served(second) is before


def test_it_finds_nothing_of_what_was_there(spares, cache):
    with pooled(cache) as first:
        real = served(first)
        real.write("secret/a", b"1")
        real.run("mkdir -p deep/er; echo 2 > deep/er/b; chmod 700 deep")
    with pooled(cache) as second:
        assert served(second) is real
        assert real.run("ls -lAR . /tmp; ps ax 2>/dev/null | grep -c '[s]leep'").stdout == b".:\ntotal 0\n\n/tmp:\ntotal 0\n0\n"
        with pytest.raises(FileMissing):
            real.read("secret/a")


def test_one_that_holds_more_than_can_be_told_is_not_kept_and_ends_quietly(spares, cache):
    fill = "import os\nfor n in range(6_000):\n os.close(os.open('%05d' % n + '\\x01' * 240, os.O_CREAT))"
    with pooled(cache) as first:
        real = served(first)
        real.write("fill.py", fill.encode())
        assert real.run("python3 fill.py && rm fill.py").exit_code == 0
    with pytest.raises(SandboxDied):
        real.run("true")
    with pooled(cache) as second:
        assert served(second) is not real


def test_contents_that_an_earlier_session_had_are_read_anew(spares, cache):
    """The server does not send contents that its client has, but the client of the next session has none."""
    for _ in range(3):
        with pooled(cache) as sandbox:
            real = served(sandbox)
            real.run("echo the same > made")
            (state,) = sandbox.snapshot().files.values()
            assert real._blobs.get(state.sha256) == b"the same\n"


LEAVES = {
    "a file": "echo x > /tmp/x",
    "shared memory": "echo x > /dev/shm/x",
    "a process": "sleep 30 > /dev/null 2>&1 &",
    "the workspace locked": "chmod 500 .",
    "a lower priority": "python3 -c 'import os; os.setpriority(os.PRIO_PROCESS, 1, 15)'",
    "another scheduler": "python3 -c 'import os; os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))'",
}


@pytest.mark.parametrize("leaves", LEAVES.values(), ids=list(LEAVES))
def test_a_sandbox_in_which_something_was_left_serves_nobody_else(spares, cache, leaves):
    with pooled(cache) as first:
        before = served(first)
        before.run(leaves)
    with pooled(cache) as second:
        assert served(second) is not before
        assert before._death_reason


def test_a_sandbox_that_is_lost_or_at_work_serves_nobody_else(spares, cache):
    with pooled(cache) as first:
        served(first).close()
    assert spares.take("a kind") is None
    with pooled(cache) as second:
        real = served(second)
        real._lock.acquire()
        try:
            assert not run_elsewhere(real.reset_for_reuse)
        finally:
            real._lock.release()


def run_elsewhere(work):
    """Return the result of a function called in another thread."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_a_named_sandbox_ends_with_its_session(spares, tmp_path):
    local = open_sandbox("local", session_id="spares", unsafe_local=True)
    local.start()
    with closing(local):
        assert not spares.give_back("local", local)


def test_closing_ends_all_that_wait(cache):
    spares = SandboxPool()
    real = open_sandbox("bubblewrap", session_id="spares")
    real.start()
    assert spares.give_back("a kind", real)
    spares.close()
    assert spares.take("a kind") is None
    assert real._death_reason
