"""Real programs in a sandbox whose system calls are restricted: interpreters, databases, version control and test runners."""

import importlib.util
import uuid
from pathlib import Path

import pytest

from harness.sandboxes import open_sandbox
from tests.sandboxes.test_docker import IMAGE

PYTHON = """
import asyncio, mmap, multiprocessing, os, resource, select, signal, sqlite3, subprocess, sys, tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

async def serve():
    async def answer(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"loopback\\n")
    print((await reader.readline()).decode().strip())
    writer.close()
    server.close()
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print('child')", stdout=subprocess.PIPE)
    print((await child.communicate())[0].decode().strip())

def main():
    with ThreadPoolExecutor(4) as threads, ProcessPoolExecutor(2) as processes:
        print(sum(threads.map(abs, range(10))), sum(processes.map(abs, range(10))))
    for method in ("fork", "spawn", "forkserver"):
        queue = multiprocessing.get_context(method).Queue()
        queue.put(method)
        print(queue.get(timeout=50))
    asyncio.run(serve())
    with sqlite3.connect("x.db") as database:
        print(*database.execute("PRAGMA journal_mode=wal").fetchone())
        database.execute("CREATE TABLE t (x)")
        database.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(100)])
        print(*database.execute("SELECT sum(x) FROM t").fetchone())
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    with tempfile.TemporaryFile() as file, select.epoll():
        file.truncate(8192)
        mmap.mmap(file.fileno(), 8192)[:4] = b"abcd"
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    signal.setitimer(signal.ITIMER_REAL, 10)
    print(subprocess.run("ulimit -n 50; ulimit -n", shell=True, capture_output=True, text=True).stdout.strip())

if __name__ == "__main__":
    main()
"""
PYTHON_OUTPUT = ["45 45", "fork", "spawn", "forkserver", "loopback", "child", "wal", "4950", "50"]
PYTEST_PACKAGES = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
TESTS = b"""
import pytest, sqlite3, subprocess

@pytest.mark.parametrize("number", range(3))
def test_numbers(number, tmp_path, capfd):
    (tmp_path / "x").write_text(str(number))
    subprocess.run(["cat", tmp_path / "x"], check=True)
    assert capfd.readouterr().out == str(number)

def test_fails():
    assert 1 == 2
"""
BUN_TESTS = b"""
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
test("database", () => {
  const database = new Database(":memory:");
  expect(database.query("select 6 * 7 as answer").get()).toEqual({ answer: 42 });
});
test("server, file and child", async () => {
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("loopback") });
  expect(await (await fetch(server.url)).text()).toBe("loopback");
  server.stop(true);
  await Bun.write("x.txt", "written");
  expect(await Bun.file("x.txt").text()).toBe("written");
  expect(await new Response(Bun.spawn(["cat", "x.txt"]).stdout).text()).toBe("written");
  const worker = new Worker("data:text/javascript,postMessage(7)");
  expect(await new Promise((resolve) => { worker.onmessage = (event) => resolve(event.data); })).toBe(7);
});
"""
GIT = """
set -e
git init -q -b main . && git config user.email a@b && git config user.name a
seq 2000 > f && git add . && git commit -q -m one && git checkout -q -b side && sed -i 1d f && git commit -q -a -m two
git checkout -q main && echo x >> f && git commit -q -a -m three && git merge -q side -m four > /dev/null
git gc -q && git fsck && git clone -q . copy && git -C copy log --oneline | wc -l
"""


@pytest.fixture(
    params=[pytest.param("bubblewrap", marks=pytest.mark.bubblewrap), pytest.param("docker", marks=pytest.mark.docker)]
)
def sandbox(request):
    session_id = f"test-{uuid.uuid4().hex[:12]}"
    with open_sandbox(request.param, session_id=session_id, image=IMAGE if request.param == "docker" else None) as opened:
        assert "seccomp" in opened.info.enforced
        yield opened


def run(sandbox, command, program):
    """Return the result of a command, or skip the test if the program is not installed."""
    if sandbox.run(f"command -v {program}").exit_code != 0:
        pytest.skip(f"the sandbox has no program {program}")
    return sandbox.run(command, timeout_seconds=60)


@pytest.mark.slow
def test_python_runs_threads_processes_servers_and_sqlite(sandbox):
    sandbox.write("x.py", PYTHON.encode())
    result = run(sandbox, "python3 x.py", "python3")
    assert (result.exit_code, result.stdout.decode().splitlines()) == (0, PYTHON_OUTPUT), result.stderr.decode()


@pytest.mark.slow
def test_pytest_runs(sandbox):
    origins = [Path(spec.origin) for name in PYTEST_PACKAGES if (spec := importlib.util.find_spec(name)) and spec.origin]
    packages = [
        (file, origin.parents[1]) for origin in origins if origin.name == "__init__.py" for file in origin.parent.rglob("*.py")
    ]
    modules = [(origin, origin.parent) for origin in origins if origin.name != "__init__.py"]
    sandbox.prepare_grading({f"lib/{file.relative_to(folder)}": file.read_bytes() for file, folder in (*packages, *modules)})
    sandbox.write("test_x.py", TESTS)
    result = run(sandbox, "PYTHONPATH=lib python3 -m pytest -q -p no:cacheprovider test_x.py", "python3")
    assert b"1 failed, 3 passed" in result.stdout, result.stdout + result.stderr


@pytest.mark.bun
def test_bun_runs_servers_files_children_workers_and_sqlite(sandbox):
    sandbox.write("x.test.ts", BUN_TESTS)
    result = run(sandbox, "bun test", "bun")
    assert b" 2 pass\n 0 fail" in result.stderr, result.stderr.decode()


def test_git_commits_merges_packs_and_clones(sandbox):
    result = run(sandbox, GIT, "git")
    assert (result.exit_code, result.stdout) == (0, b"4\n"), result.stderr.decode()
