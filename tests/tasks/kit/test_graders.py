"""The shared discipline of graders, with a judge of three lines."""

import subprocess
import sys

import pytest

from harness.experiment.attempt.grading import command_line, laid, verdicts
from harness.tasks.kit.graders import grader

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
    return judged(root, grader(JUDGE, OBSERVER), code)


def judged(root, made, code):
    (root / "agent.py").write_text(code)
    (root / "told.txt").write_text("seven of them\n")
    for path, text in laid(made, "n0nce"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    done = subprocess.run(
        ["/bin/sh", "-c", command_line(made).replace("python3", sys.executable)],
        check=False, cwd=root, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {name: verdict.passed for name, verdict in verdicts(done.stdout, "n0nce").items()}


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


def test_an_observer_of_another_language_is_run_by_the_program_that_is_named(tmp_path):
    lines = 'echo noise\necho "{\\"x\\": $(wc -c < agent.py)}"'
    made = grader(JUDGE.replace("observed()", "observed('/bin/sh', '-c')"), lines)
    assert judged(tmp_path, made, "x=555") == {"seen": True, "told": True}
    assert judged(tmp_path, made, "x=5") == {"seen": False, "told": True}
