"""Safety rules of graders, tested with a judge of three lines."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.session.grading import format_grader_command, list_grader_files, parse_verdicts
from harness.tasks.kit.graders import build_grader

JUDGE = """
def verdicts():
    yield "seen", same(observed(), "x", 5)
    yield "told", mentions("told.txt", "seven")
"""
OBSERVER = """
import json, os, sys
sys.path.insert(0, os.getcwd())
import agent
print()
print(json.dumps({"x": agent.x}))
"""


def judge(root, code):
    return judged(root, build_grader(JUDGE, OBSERVER), code)


def judged(root, made, code, nonce="n0nce"):
    (root / "agent.py").write_text(code)
    (root / "told.txt").write_text("seven of them\n")
    for path, text in list_grader_files(made, nonce):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    done = subprocess.run(
        ["/bin/sh", "-c", format_grader_command(made).replace("python3", sys.executable)],
        check=False, cwd=root, capture_output=True, timeout=20,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {name: verdict.passed for name, verdict in parse_verdicts(done.stdout, nonce).items()}


def test_right_code_passes(tmp_path):
    assert judge(tmp_path, "x = 5") == {"seen": True, "told": True}


@pytest.mark.parametrize(
    "code",
    [
        "x = 6",
        "import os; os._exit(0)",
        "raise SystemExit",
        "print('{\"x\": ' * 5000)",
        "import os; os.write(1, b'n0nce check seen pass\\n'); x = 6",
        "x = [5]",
    ],
)
def test_wrong_or_hostile_code_costs_its_own_check_only(code, tmp_path):
    assert judge(tmp_path, code) == {"seen": False, "told": True}


def test_nothing_of_the_grader_is_there_when_the_agents_code_runs(tmp_path):
    code = "import os\nx = 5\nopen('seen', 'w').write(' '.join(os.listdir('.')) + ' '.join(os.environ))"
    assert judge(tmp_path, code) == {"seen": True, "told": True}
    seen = (tmp_path / "seen").read_text()
    assert "agent.py" in seen
    assert ".grade" not in seen
    assert ".nonce" not in seen


PRY = """
import re
x, planted = 5, "plant-" + str(4321)
found = set()
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if "rw" in line.split()[1]:
            memory.seek(begin)
            found |= set(re.findall(rb"(?:plant|expected|n0nce)-[0-9]{4}", memory.read(end - begin)))
open("seen", "wb").write(b" ".join(sorted(found)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads its memory through /proc")
def test_the_memory_of_the_agents_process_holds_neither_nonce_nor_expected_values(tmp_path):
    made = build_grader(JUDGE.replace('"x", 5', '"x", "expected-5678"'), OBSERVER)
    assert judged(tmp_path, made, PRY, nonce="n0nce-1234") == {"seen": False, "told": True}
    assert (tmp_path / "seen").read_text() == "plant-4321"


@pytest.mark.parametrize("forever", ["import time; time.sleep(60)", "while True: print('more', flush=True)"])
def test_an_observer_that_never_ends_costs_what_it_has_not_seen_yet(forever, tmp_path):
    patient = build_grader(JUDGE.replace("def verdicts", "LIMIT_SECONDS = 1\ndef verdicts"), OBSERVER)
    assert judged(tmp_path, patient, f"x = 5\n{forever}") == {"seen": False, "told": True}


def test_what_the_agents_code_started_ends_with_its_observer(tmp_path):
    code = (
        "import subprocess\nx = 5\nopen('pid', 'w').write(str(subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL).pid))"
    )
    assert judge(tmp_path, code) == {"seen": True, "told": True}
    status = Path(f"/proc/{(tmp_path / 'pid').read_text()}/status")
    assert not status.exists() or "State:\tZ" in status.read_text()


def test_an_observer_of_another_language_is_run_by_the_program_that_is_named(tmp_path):
    lines = 'echo noise\necho "{\\"x\\": $(wc -c < agent.py)}"'
    made = build_grader(JUDGE.replace("observed()", "observed('/bin/sh', '-c')"), lines, in_python=False)
    assert judged(tmp_path, made, "x=555") == {"seen": True, "told": True}
    assert judged(tmp_path, made, "x=5") == {"seen": False, "told": True}
