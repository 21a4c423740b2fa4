"""A real sandbox that serves several sessions one after the other: each finds it as a new one."""

from contextlib import closing

import pytest

from harness.errors import FileMissing, SandboxDied
from harness.sandboxes import open_sandbox
from harness.sandboxes.action_cache import ActionCache, CachedSandbox
from harness.sandboxes.action_cache.sandbox import SandboxPool

pytestmark = pytest.mark.bubblewrap


@pytest.fixture
def spares(monkeypatch):
    """Those of one test, ended with it."""
    with closing(SandboxPool()) as spares:
        monkeypatch.setattr("harness.sandboxes.action_cache.sandbox.SANDBOX_POOL", spares)
        yield spares


@pytest.fixture
def cache(tmp_path):
    with closing(ActionCache(tmp_path)) as cache:
        yield cache


def cached(cache, kind="a kind"):
    return CachedSandbox(open_sandbox("bubblewrap", session_id="spares"), cache, kind=kind, task="spares")


def served(sandbox):
    """The real sandbox at work below a cached one."""
    sandbox.bypass_cache()
    return sandbox._real


def test_the_next_session_of_a_kind_gets_the_sandbox_of_the_last_one(spares, cache):
    with cached(cache) as first:
        before = served(first)
    with cached(cache, "another kind") as other, cached(cache) as second:
        assert served(other) is not before
        assert served(second) is before


def test_it_finds_nothing_of_what_was_there(spares, cache):
    with cached(cache) as first:
        real = served(first)
        real.write("secret/a", b"1")
        real.run("mkdir -p deep/er; echo 2 > deep/er/b; chmod 700 deep")
    with cached(cache) as second:
        assert served(second) is real
        assert real.run("ls -lAR . /tmp; ps ax 2>/dev/null | grep -c '[s]leep'").stdout == b".:\ntotal 0\n\n/tmp:\ntotal 0\n0\n"
        with pytest.raises(FileMissing):
            real.read("secret/a")


def test_one_that_holds_more_than_can_be_told_is_not_kept_and_ends_quietly(spares, cache):
    fill = "import os\nfor n in range(6_000):\n os.close(os.open('%05d' % n + '\\x01' * 240, os.O_CREAT))"
    with cached(cache) as first:
        real = served(first)
        real.write("fill.py", fill.encode())
        assert real.run("python3 fill.py && rm fill.py").exit_code == 0
    with pytest.raises(SandboxDied):
        real.run("true")
    with cached(cache) as second:
        assert served(second) is not real


def test_contents_that_an_earlier_session_had_are_read_anew(spares, cache):
    """The server does not send what its caller has; the next caller has nothing."""
    for _ in range(3):
        with cached(cache) as sandbox:
            real = served(sandbox)
            real.run("echo the same > made")
            (state,) = sandbox.snapshot().files.values()
            assert real._blobs.get(state.sha256) == b"the same\n"


LEAVES = {
    "a file": "echo x > /tmp/x",
    "shared memory": "echo x > /dev/shm/x",
    "a process": "sleep 30 > /dev/null 2>&1 &",
    "the workspace locked": "chmod 500 .",
    "lower limits": "python3 -c 'import resource as r; r.prlimit(1, r.RLIMIT_NOFILE, (64, 64))'",
    "a lower priority": "python3 -c 'import os; os.setpriority(os.PRIO_PROCESS, 1, 15)'",
    "another scheduler": "python3 -c 'import os; os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))'",
}


@pytest.mark.parametrize("leaves", LEAVES.values(), ids=list(LEAVES))
def test_a_sandbox_in_which_something_was_left_serves_nobody_else(spares, cache, leaves):
    with cached(cache) as first:
        before = served(first)
        before.run(leaves)
    with cached(cache) as second:
        assert served(second) is not before
        assert before._death_reason


def test_a_sandbox_that_is_lost_or_at_work_serves_nobody_else(spares, cache):
    with cached(cache) as first:
        served(first).close()
    assert spares.take("a kind") is None
    with cached(cache) as second:
        real = served(second)
        real._lock.acquire()
        try:
            assert not run_elsewhere(real.reset_for_reuse)
        finally:
            real._lock.release()


def run_elsewhere(work):
    """The answer in another thread."""
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
