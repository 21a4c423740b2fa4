"""Forked programs behave like started ones, are isolated from each other, and cannot harm the interpreter."""

import ast
import json
import sys
import uuid
from pathlib import Path

import pytest

from harness.protocols import Snapshot
from harness.sandboxes import open_sandbox
from harness.sandboxes.client import build_fork_request
from harness.sandboxes.snapshots import compute_tree_id
from harness.sandboxes.toolserver import forkserver
from tests.sandboxes.test_docker import IMAGE

SOURCE = Path(forkserver.__file__).read_text(encoding="utf-8")
MODULES = ("decimal", "json")
TELL = """
import json, os, sys
told = {
    "name": __name__, "file": __file__, "argv": sys.argv, "path": sys.path, "flags": repr(sys.flags), "stdin": sys.stdin.read(),
    "cwd": os.getcwd(), "environment": dict(os.environ), "session": os.getsid(0) == os.getpid(), "parent": os.getppid() == 1,
    "fds": sorted(os.listdir("/proc/self/fd"))[:-1], "main": sys.modules["__main__"].__dict__ is globals(),
    "limits": open("/proc/self/limits").read(), "dumpable": os.stat("/proc/self/mem").st_uid == os.getuid(),
}
"""
OTHERS = """
import os, sys
others = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) not in (1, os.getpid())]
"""
"""Python code that lists all processes except itself and process 1: the interpreter from which it was forked, if any."""


def test_its_syntax_is_that_of_python_3_8():
    ast.parse(SOURCE, feature_version=(3, 8))


def test_it_imports_nothing_but_the_standard_library():
    nodes = [node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize(
    "command", ["bun run x.ts", "python3 -c 'print(1)' x", "python3 -m unittest", "python3", "python3 -S", "sh x.py", ""]
)
def test_another_command_is_not_forked(command):
    assert build_fork_request(command, MODULES) is None


def test_a_script_is_forked_if_it_names_modules():
    found = build_fork_request("python3 -S -B a/b.py 'x y' -z", MODULES)
    assert found is not None
    assert (found["python"], found["script"], found["arguments"]) == (["python3", "-S", "-B"], "a/b.py", ["x y", "-z"])
    assert build_fork_request("python3 a.py", ()) is None


@pytest.fixture(
    params=[pytest.param("bubblewrap", marks=pytest.mark.bubblewrap), pytest.param("docker", marks=pytest.mark.docker)]
)
def sandbox(request):
    session_id = f"test-{uuid.uuid4().hex[:12]}"
    with open_sandbox(request.param, session_id=session_id, image=IMAGE if request.param == "docker" else None) as opened:
        yield opened


def run(sandbox, text, *, modules=MODULES, options="-S -B"):
    """Return the output of a program that is run like a grader."""
    sandbox.lay({".grade/x.py": text.encode()})
    result = sandbox.run_program(f"python3 {options} .grade/x.py word", modules=modules, timeout_seconds=100)
    assert (result.exit_code, result.stderr) == (0, b"")
    return result.stdout.decode()


def others(sandbox):
    """Return the ids of the processes other than the program and process 1."""
    return json.loads(run(sandbox, f"{OTHERS}\nprint([int(pid) for pid in others])"))


@pytest.mark.parametrize("options", ["-S -B", "", "-I"])
def test_a_forked_program_is_as_a_started_one(sandbox, options):
    text = f"{TELL}\nprint(json.dumps(told, sort_keys=True))"
    started, first, second = (run(sandbox, text, modules=names, options=options) for names in ((), MODULES, MODULES))
    assert first == started
    assert second == started


def test_its_modules_are_there_before_it_begins_and_none_of_the_workspace_takes_their_place(sandbox):
    sandbox.write("decimal.py", b"raise SystemExit('shadowed')")
    assert run(sandbox, "import sys; print('decimal' in sys.modules)") == "True\n"
    assert run(sandbox, "import sys; print('decimal' in sys.modules)", modules=()) == "False\n"


def test_one_interpreter_serves_program_after_program_until_a_command_is_run(sandbox):
    count = "set -- /proc/[1-9]*; echo $#"  # by the shell alone: a pipeline would count itself, or not
    before = sandbox.run(count).stdout
    (first,) = others(sandbox)
    assert others(sandbox) == [first]
    assert sandbox.run(count).stdout == before
    assert others(sandbox) != [first]


@pytest.mark.parametrize(
    ("ending", "code"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137), ("1 / 0", 1)]
)
def test_how_it_ends_is_told(sandbox, ending, code):
    sandbox.lay({".grade/x.py": f"print('said', flush=True)\n{ending}".encode()})
    result = sandbox.run_program("python3 .grade/x.py", modules=MODULES, timeout_seconds=100)
    assert (result.exit_code, result.stdout) == (code, b"said\n")
    assert (b"ZeroDivisionError" in result.stderr) == (code == 1)


def test_one_that_overruns_ends_and_the_next_one_runs(sandbox):
    sandbox.lay({".grade/x.py": b"import time; time.sleep(600)"})
    assert sandbox.run_program("python3 .grade/x.py", modules=MODULES, timeout_seconds=0.3).timed_out
    assert run(sandbox, "print(1)") == "1\n"


MEDDLING = {
    "kill": "os.kill(int(others[0]), 9)",
    "stop": "os.kill(int(others[0]), 19)",
    "limits": "try: resource.prlimit(int(others[0]), resource.RLIMIT_NOFILE, (50, 50))\nexcept PermissionError: pass",
    "priority": "os.setpriority(os.PRIO_PROCESS, int(others[0]), 19)",
    "scheduler": "os.sched_setscheduler(int(others[0]), os.SCHED_BATCH, os.sched_param(0))",
    "processors": "os.sched_setaffinity(int(others[0]), [min(os.sched_getaffinity(0))])",
}


@pytest.mark.parametrize("how", MEDDLING)
def test_a_program_that_meddles_with_the_interpreter_changes_nothing_for_the_next_one(sandbox, how):
    before = run(sandbox, f"{TELL}\nprint(told, sorted(os.sched_getaffinity(0)), os.nice(0), os.sched_getscheduler(0))")
    (first,) = others(sandbox)
    run(sandbox, f"{OTHERS}\nimport resource\n{MEDDLING[how]}")
    assert run(sandbox, f"{TELL}\nprint(told, sorted(os.sched_getaffinity(0)), os.nice(0), os.sched_getscheduler(0))") == before
    assert (others(sandbox) == [first]) == (how in ("stop", "limits"))


@pytest.mark.parametrize("how", ["os.open(f'/proc/{others[0]}/mem', os.O_RDWR)", "os.listdir(f'/proc/{others[0]}/fd')"])
def test_a_program_cannot_look_into_the_interpreter(sandbox, how):
    said = run(sandbox, f"{OTHERS}\ntry:\n    {how}\nexcept PermissionError:\n    print('shut')")
    assert said == "shut\n"


def test_a_forked_program_has_the_restricted_system_calls_of_a_command(sandbox):
    said = run(sandbox, "print([line for line in open('/proc/self/status') if line.startswith('Seccomp:')])")
    assert said == "['Seccomp:\\t2\\n']\n"


LINGER = """
import os, signal, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    while True:
        os.fork() or os.setsid()
        time.sleep(0.05)
        os.kill(-1, signal.SIGCONT)
time.sleep(0.2)
os._exit(0)
"""


def test_what_a_program_leaves_running_ends_and_the_interpreter_stays(sandbox):
    (first,) = others(sandbox)
    sandbox.lay({".grade/x.py": LINGER.encode()})
    sandbox.run_program("python3 -S -B .grade/x.py", modules=MODULES, timeout_seconds=100)
    assert others(sandbox) == [first]


LOOK = """
import re
planted, found = "plant-" + str(8765), 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if "rw" in line.split()[1]:
            memory.seek(begin)
            found += memory.read(end - begin).count(planted.encode())
print(found)
"""


def test_a_program_finds_nothing_of_another_sessions_files_in_its_memory(sandbox):
    plant = "plant-" + "8765"
    secret = f"x = {plant!r}\nprint(open('secret').read())"
    sandbox.write("secret", plant.encode())
    assert plant in run(sandbox, secret)
    assert int(run(sandbox, f"held = {plant!r}\n{LOOK}")) > 0
    sandbox.restore(Snapshot(tree_id=compute_tree_id({})))
    assert int(run(sandbox, LOOK)) == int(run(sandbox, LOOK, modules=()))
