"""Tests of stored verdicts: what is part of their key, what is never stored, and what happens if they are wrong."""

import json
import os
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import SandboxDied, VerdictMismatch
from harness.protocols import SandboxLimits
from harness.sandboxes import open_sandbox
from harness.sandboxes.action_cache import ActionCache, CachedSandbox
from harness.sandboxes.action_cache.entry import pack_bytes
from harness.session.grading import Verdict, grade_workspace
from harness.session.verdict_cache import UNSTABLE, compute_verdict_key, digest_package, grade_with_cache, is_drawn_for_test
from harness.task import Check, FunctionChange, Grader, Interview
from harness.tasks import SUITE, load_task
from harness.tasks.kit.graders import make_interviews
from tests.experiment import tiny_task

pytestmark = pytest.mark.bubblewrap

ASKING = Grader(
    judge=tiny_task.asking_judge,
    expected={"port": "4007"},
    interviews=(Interview(source="def anything():\n    return 1\n", questions=("anything",)),),
)
TASK = replace(tiny_task.tiny(7), grader=ASKING)


@pytest.fixture
def cache(tmp_path):
    with closing(ActionCache(tmp_path / "cache")) as cache:
        yield cache


@contextmanager
def submitted(cache, kind="verdicts", limits=None, **files):
    """Open a cached sandbox with the files of an agent's work: those of a passing submission unless others are given."""
    real = open_sandbox("bubblewrap", session_id="verdicts", limits=limits)
    with CachedSandbox(real, cache, kind=kind, task="tiny") as sandbox:
        for name, text in ({"conf": "port=4007\n", "note": "a note\n"} | files).items():
            sandbox.write(f"{name}.txt", text.encode())
        yield sandbox


def test_an_equal_workspace_gets_the_stored_verdicts_without_a_sandbox(cache):
    with submitted(cache) as first:
        graded = grade_with_cache(TASK, first, "t", reuse=True)
        assert not graded.is_cached
    with submitted(cache) as second:
        again = grade_with_cache(TASK, second, "t", reuse=True)
        assert again == (graded.checks, True)
        assert not second._has_started
        assert again.checks == grade_workspace(TASK, second)
    assert [check.passed for check in graded.checks] == [True, True]


def test_the_details_of_failed_checks_are_stored_too(cache):
    grades = []
    for _ in range(2):
        with submitted(cache, conf="port=1\n") as sandbox:
            grades.append(grade_with_cache(TASK, sandbox, "t", reuse=True))
    assert grades[0].checks == grades[1].checks
    assert grades[1].checks[0].detail == "got 'port=1\\n'"
    assert grades[1].is_cached


KEY_PARTS = {
    "content": lambda sandbox: sandbox.write("note.txt", b"another"),
    "a new file": lambda sandbox: sandbox.write("new.txt", b""),
    "mode": lambda sandbox: sandbox.run("chmod 755 note.txt"),
    "order of names": lambda sandbox: sandbox.run("mv conf.txt x; mv x conf.txt"),
}


@pytest.mark.parametrize("change", KEY_PARTS.values(), ids=list(KEY_PARTS))
def test_the_state_of_the_workspace_is_part_of_the_key(cache, change):
    with submitted(cache) as sandbox:
        before = compute_verdict_key(TASK, sandbox)
        change(sandbox)
        assert None not in (before, compute_verdict_key(TASK, sandbox))
        assert compute_verdict_key(TASK, sandbox) != before


def test_grader_checks_and_sandbox_are_part_of_the_key(cache):
    interview = ASKING.interviews[0]
    graders = [
        ASKING,
        replace(ASKING, judge=tiny_task.judge),
        replace(ASKING, expected={"port": "4008"}),
        replace(ASKING, interviews=()),
        replace(ASKING, interviews=(replace(interview, source=interview.source + "\n"),)),
        replace(ASKING, interviews=(replace(interview, timeout_seconds=9.0),)),
        replace(ASKING, interviews=(replace(interview, appended=(("a.py", "x"),)),)),
    ]
    tasks = [replace(TASK, grader=grader) for grader in graders]
    tasks.append(replace(TASK, checks=(*TASK.checks, Check(name="more", title="More"))))
    with submitted(cache) as sandbox:
        keys = [compute_verdict_key(task, sandbox) for task in tasks]
    with submitted(cache, kind="small", limits=SandboxLimits(pids=99)) as sandbox:
        keys.append(compute_verdict_key(TASK, sandbox))
    assert None not in keys
    assert len({*keys}) == len(keys)


def test_the_source_of_this_package_is_part_of_the_key(cache, monkeypatch):
    with submitted(cache) as sandbox:
        before = compute_verdict_key(TASK, sandbox)
        monkeypatch.setattr("harness.session.verdict_cache._PACKAGE", Path(__file__).parents[1])
        digest_package.cache_clear()
        after = compute_verdict_key(TASK, sandbox)
    digest_package.cache_clear()
    assert before != after


JUDGE = """
{imports}
def judge(submission):
    yield "port", {port}, ""
"""


@pytest.mark.parametrize(
    ("imports", "is_known"),
    [
        ("", True),
        ("import json\nfrom harness.tasks.kit import graders", True),
        ("import numpy", False),
        ("from . import expected", False),
        ("def later():\n    import expected", False),
    ],
)
def test_the_file_of_a_judge_is_part_of_the_key_and_imports_nothing_of_unknown_content(cache, tmp_path, imports, is_known):
    keys = []
    for port in (True, False):
        path = tmp_path / f"judge_{port}.py"
        text = JUDGE.format(imports=imports, port=port)
        path.write_text(text)
        names: dict[str, Any] = {"__name__": "harness_task_judge"}
        exec(compile(text.replace("from . import", "import os as"), str(path), "exec"), names)
        with submitted(cache) as sandbox:
            keys.append(compute_verdict_key(replace(TASK, grader=Grader(judge=names["judge"])), sandbox))
    assert (None not in keys) == is_known
    assert not is_known or keys[0] != keys[1]


def test_judges_that_no_file_describes_have_no_key(cache):
    def nested(_):
        return ()

    with submitted(cache) as sandbox:
        for judge in (nested, lambda _: ()):
            assert compute_verdict_key(replace(TASK, grader=Grader(judge=judge)), sandbox) is None
        assert compute_verdict_key(replace(TASK, grader=replace(ASKING, expected={"port": {1}})), sandbox) is None


@pytest.mark.slow
@pytest.mark.parametrize("command", ["ln -s conf.txt link", "sleep 30 > /dev/null 2>&1 &", "echo x > /tmp/x"])
def test_a_workspace_that_the_copy_cannot_hold_is_graded_each_time(cache, command):
    for _ in range(2):
        with submitted(cache) as sandbox:
            sandbox.run(command)
            assert compute_verdict_key(TASK, sandbox) is None
            graded = grade_with_cache(TASK, sandbox, "t", reuse=True)
            assert not graded.is_cached
            assert all(check.passed for check in graded.checks)


def test_no_verdict_is_stored_for_a_sandbox_with_a_network(cache):
    with submitted(cache, kind="network", limits=SandboxLimits(network=True)) as sandbox:
        assert sandbox.workspace_key is None


@pytest.mark.parametrize(
    "source",
    ["import time\ndef anything():\n    time.sleep(60)\n", "import os\ndef anything():\n    os._exit(0)\n"],
    ids=["time-out", "no answer"],
)
def test_verdicts_without_an_answer_to_each_question_are_not_stored(cache, source):
    interview = Interview(source=source, questions=("anything",), timeout_seconds=0.5)
    task = replace(TASK, grader=replace(ASKING, interviews=(interview,)))
    for _ in range(2):
        with submitted(cache) as sandbox:
            graded = grade_with_cache(task, sandbox, "t", reuse=True)
            assert not graded.is_cached
            assert [check.passed for check in graded.checks] == [False, False]
    assert cache.read_summary().entries == 0


def failing_judge(submission):
    yield "port", True, ""
    raise ValueError(submission.read_text("conf.txt"))


def test_verdicts_of_a_judge_that_failed_are_not_stored(cache):
    with submitted(cache) as sandbox:
        grade_with_cache(replace(TASK, grader=Grader(judge=failing_judge)), sandbox, "t", reuse=True)
    assert cache.read_summary().entries == 0


LOST: list[CachedSandbox] = []


def losing_judge(submission):
    LOST.pop().close()
    yield "port", submission.read_text("conf.txt") != "", ""


def test_no_verdict_is_stored_if_the_sandbox_is_lost(cache):
    with submitted(cache) as sandbox:
        LOST.append(sandbox)
        with pytest.raises(SandboxDied):
            grade_with_cache(replace(TASK, grader=Grader(judge=losing_judge)), sandbox, "t", reuse=True)
    assert cache.read_summary().entries == 0


def test_grading_gets_a_new_sandbox_after_commands_have_run(cache):
    with submitted(cache) as sandbox:
        sandbox.run("echo 1 > a; chmod 700 a")
        used, snapshot = sandbox._real, sandbox.snapshot()
        grade_with_cache(TASK, sandbox, "t", reuse=True)
        assert sandbox._real is not used
        with pytest.raises(SandboxDied):
            used.run("true")
        assert sandbox.snapshot() == snapshot


def test_grading_that_asks_no_questions_starts_no_sandbox_and_stores_the_verdicts(cache):
    task = replace(TASK, grader=replace(ASKING, judge=tiny_task.judge, interviews=()))
    with submitted(cache) as sandbox:  # learns the properties of the sandbox
        sandbox.run("true")
    with submitted(cache, note="") as sandbox:
        graded = grade_with_cache(task, sandbox, "t", reuse=True)
        assert not sandbox._has_started
        assert grade_with_cache(task, sandbox, "t", reuse=True) == (graded.checks, True)
        sandbox.write("conf.txt", b"port=1")
        assert [check.passed for check in grade_with_cache(task, sandbox, "t", reuse=True).checks] == [False, True]


@pytest.mark.slow
def test_wrong_stored_verdicts_end_the_run_when_they_are_tested(cache):
    with submitted(cache) as sandbox:
        grade_with_cache(TASK, sandbox, "t", reuse=True)
    with submitted(cache) as sandbox:
        key = compute_verdict_key(TASK, sandbox) or b""
        wrong = {"port": Verdict(False, "got nothing"), "note": Verdict(True, "")}
        cache.store(key, pack_bytes(key, json.dumps(wrong).encode()), task="tiny", command="")
        assert grade_with_cache(TASK, sandbox, "t", reuse=True).is_cached
        expected = r"trial abc: .* stored port: failed \(got nothing\), new port: passed; .* depends on the time of day, "
        with pytest.raises(VerdictMismatch, match=expected):
            grade_with_cache(TASK, sandbox, "abc", reuse=False)


@pytest.mark.slow
def test_tests_that_miss_one_function_get_the_same_verdict_in_each_trial(cache):
    names = "abcdef"
    module = "".join(f"def {name}():\n    return 1\n\n\n" for name in names)
    cases = "".join(f"    def test_{name}(self):\n        self.assertEqual(m.{name}(), 1)\n" for name in names[1:])
    tests = f"import unittest\n\nimport m\n\n\nclass T(unittest.TestCase):\n{cases}"
    changes = [FunctionChange(path="m.py", function=name, kind="number", wrong=("value + 1",)) for name in names]
    passed = set()
    for port in range(6):  # other values are another instance, with other functions that are wrong
        grader = Grader(judge=tiny_task.tests_judge, expected={"port": port}, interviews=make_interviews("", (), changes))
        task = replace(TASK, checks=(Check(name="tests", title="Tests that can fail"),), grader=grader)
        with submitted(cache) as sandbox:
            sandbox.write("m.py", module.encode())
            sandbox.write("tests/test_m.py", tests.encode())
            graded = [grade_with_cache(task, sandbox, f"trial {number}", reuse=False) for number in range(5)]
        assert len({one.checks for one in graded}) == 1
        assert not any(one.is_cached for one in graded)
        passed.add(graded[0].checks[0].passed)
    assert passed == {True, False}


@pytest.mark.slow
def test_work_that_behaves_at_random_has_failed_and_does_not_end_the_run(cache):
    source = "import os\n\n\ndef anything():\n    return os.urandom(1)[0] % 2\n"
    interview = Interview(source=source, questions=("anything",))
    checks = (*TASK.checks, Check(name="flip", title="The coin shows 1"))
    grader = Grader(judge=tiny_task.flipping_judge, expected={"port": "4007"}, interviews=(interview,))
    task = replace(TASK, checks=checks, grader=grader)
    for _ in range(12):  # all twelve agree by chance with a probability of 1 in 2,048
        with submitted(cache) as sandbox:
            *others, flip = grade_with_cache(task, sandbox, "t", reuse=False).checks
        assert all(graded.passed for graded in others)
        if flip.detail == UNSTABLE:
            assert not flip.passed
            return
    pytest.fail("no grading differed from the stored one")


def test_a_damaged_entry_is_graded_again(cache):
    with submitted(cache) as sandbox:
        key = compute_verdict_key(TASK, sandbox) or b""
        for data in (b"", os.urandom(90), pack_bytes(key, b"[1]"), pack_bytes(key, b'{"port": 1}'), pack_bytes(b"other", b"{}")):
            cache.store(key, data, task="tiny", command="")
        assert not grade_with_cache(TASK, sandbox, "t", reuse=True).is_cached


def test_a_twentieth_of_the_trials_is_chosen_for_a_second_grading_by_their_ids():
    drawn = [number for number in range(10_000) if is_drawn_for_test(f"trial {number}")]
    assert 400 < len(drawn) < 600
    assert drawn == [number for number in range(10_000) if is_drawn_for_test(f"trial {number}")]


def test_every_task_of_the_suite_has_verdicts_with_a_key(cache):
    with submitted(cache) as sandbox:
        assert all(compute_verdict_key(load_task(name)(1), sandbox) for name in SUITE)


@pytest.mark.slow
def test_all_trials_of_an_instance_of_a_task_make_the_same_random_choices():
    """The order of equal interviews, shown by the ids of their processes, depends on the expected values alone."""
    first = Interview(source="import os\ndef x():\n    return os.getpid()\n", questions=("x",), answer_names=("a",))
    orders = []

    def judge(submission):
        answers = submission.ask()
        orders.append(answers["a"] < answers["b"])
        return ()

    interviews = (first, replace(first, answer_names=("b",)))
    with open_sandbox("bubblewrap", session_id="again") as sandbox:
        for number, value in enumerate("abcdefabcdef"):
            task = replace(TASK, grader=Grader(judge=judge, expected={"port": value}, interviews=interviews))
            grade_with_cache(task, sandbox, f"trial {number}", reuse=False)
    assert orders[:6] == orders[6:]
    assert len(set(orders)) == 2
