"""Tests of grading: the judge decides outside the sandbox, whatever the graded code does meanwhile."""

import json
import time
from contextlib import closing
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.protocols import SandboxLimits
from harness.sandboxes import open_sandbox
from harness.sandboxes.action_cache import ActionCache, CachedSandbox
from harness.session.grading import MAX_DETAIL_CHARACTERS, Verdict, apply_verdicts, grade_workspace
from harness.task import Check, Grader, Interview
from harness.tasks import load_task
from harness.testing.fakes import MemorySandbox
from tests.experiment.tiny_task import tiny

LOOK_FOR_LEFTOVERS = """
import ctypes, os
libc = ctypes.CDLL(None)

def two():
    files = any(map(os.path.exists, ("left", "/tmp/left", "/dev/shm/left")))
    objects = [libc.shmget(4711, 100, 0o666), libc.semget(4711, 1, 0o666), libc.msgget(4711, 0o666)]
    return files or max(objects) >= 0 or os.stat(".").st_mode & 0o777 == 0o777 or os.stat("folder").st_mtime == 1
"""
CHECKS = (Check(name="a", title="A"), Check(name="b", title="B"))


def judged(judge, sandbox=None, *interviews, **expected):
    """Return the verdicts and details on the checks `a` and `b`."""
    task = replace(tiny(7), checks=CHECKS, grader=Grader(judge=judge, expected=expected, interviews=interviews))
    return [(one.passed, one.detail) for one in grade_workspace(task, sandbox or MemorySandbox())]


@given(st.dictionaries(st.sampled_from("abcz"), st.builds(Verdict, st.booleans(), st.text())))
def test_each_check_has_one_verdict_in_order_and_a_missing_one_has_failed(verdicts):
    results = apply_verdicts(CHECKS, verdicts, "no verdict")
    assert [one.check for one in results] == list(CHECKS)
    assert all(one.passed == (one.check.name in verdicts and verdicts[one.check.name].passed) for one in results)
    assert all(one.detail == "no verdict" for one in results if one.check.name not in verdicts)


def test_a_judge_reads_files_and_compares_them_with_what_it_expects():
    def judge(submission):
        yield "a", submission.read_text("x/a.txt") == submission.expected["text"], "a.txt differs"
        yield "b", submission.list_files("x") == ("a.txt",), "other files"

    sandbox = MemorySandbox()
    assert judged(judge, sandbox, text="one") == [(False, "a.txt differs"), (False, "other files")]
    sandbox.write("x/a.txt", b"one")
    sandbox.write("x/y/b.txt", b"two")
    assert judged(judge, sandbox, text="one") == [(True, ""), (True, "")]


def test_two_verdicts_that_differ_are_a_failure_in_either_order():
    for first in (True, False):
        results = judged(lambda _, first=first: (("a", first, ""), ("a", not first, ""), ("b", True, ""), ("b", True, "")))
        assert results == [(False, "the judge gave contradictory verdicts"), (True, "")]


def test_a_judge_that_fails_leaves_the_checks_that_it_has_not_decided_failed():
    def judge(submission):
        yield "a", True, ""
        yield "b", submission.read_text("missing")[0] == "x", ""

    assert judged(judge) == [(True, ""), (False, "no verdict: the judge failed with IndexError: string index out of range")]
    assert judged(lambda _: None)[0][1].startswith("no verdict: the judge failed with TypeError")


def test_details_are_one_line_of_printable_characters():
    ((_, detail), _) = judged(lambda _: [("a", False, "x\n\x1b[2J\u202e" + "y" * 999)])
    assert detail.startswith("x \\x1b[2J\\u202eyyy")
    assert len(detail) <= 2 * MAX_DETAIL_CHARACTERS


def test_files_cannot_be_read_once_the_agents_code_may_have_changed_them():
    errors = []

    def judge(submission):
        submission.ask()
        for read in (submission.read_text, submission.list_files):
            try:
                read("conf.txt")
            except UsageError as error:
                errors.append(str(error))
        return ()

    judged(judge)
    assert len(errors) == 2
    assert all("read all files before" in error for error in errors)


def test_questions_have_one_name_each():
    two = Interview(source="", questions=("x", "y")), Interview(source="", questions=("y",))
    with pytest.raises(UsageError, match=r"repeated: y"):
        Grader(judge=lambda _: (), interviews=two)


def test_a_sandbox_that_runs_nothing_gives_no_answer():
    def judge(submission):
        yield "a", True, ""
        yield "b", "x" not in submission.ask(), ""

    (_, b) = judged(judge, None, Interview(source="", questions=("x",)))
    assert b == (False, "no verdict: the interviewer ended with exit code 0 and 0 bytes of output")


def ask(sandbox, source, *questions, **more):
    """Return the answers to questions, or the reason why there are none."""
    answers = {}

    def judge(submission):
        answers.update(submission.ask())
        return ()

    interview = Interview(source=source, questions=questions, **{"timeout_seconds": 20, **more})
    results = judged(judge, sandbox, interview)
    return answers or results[0][1]


AGENT = "import agent\n\ndef x():\n    return agent.x\n\ndef y():\n    return agent.y()\n"


@pytest.mark.bubblewrap
def test_no_process_of_the_agent_changes_files_between_two_reads_of_the_judge():
    """A process that waits for a read, to replace the file before the next one, has ended when the judge begins."""

    def judge(submission):
        yield "a", True, ""
        yield "b", len({submission.read_text("beat") for _ in range(200)}) == 1, "changed"

    with open_sandbox("bubblewrap", session_id="beat") as sandbox:
        sandbox.run("(i=0; while :; do i=$((i+1)); echo $i > beat; done) >/dev/null 2>&1 & until [ -s beat ]; do :; done")
        assert judged(judge, sandbox) == [(True, ""), (True, "")]


@pytest.mark.bubblewrap
def test_a_small_limit_on_the_output_of_commands_does_not_cut_the_answers():
    with open_sandbox("bubblewrap", session_id="small", limits=SandboxLimits(output_bytes=100)) as sandbox:
        sandbox.write("agent.py", b"x = 'x' * 1000\ndef y(): return 2\n")
        assert ask(sandbox, AGENT, "x", "y") == {"x": "x" * 1000, "y": 2}
        assert len(sandbox.run("head -c 1000 /dev/zero").stdout) == 100


@pytest.mark.bubblewrap
class TestInASandbox:
    @pytest.fixture
    def sandbox(self):
        with open_sandbox("bubblewrap", session_id="grading") as sandbox:
            yield sandbox

    def test_the_judge_decides_on_the_workspace_as_it_was_left(self, sandbox):
        sandbox.write("conf.txt", b"port=4007\n")
        port, note = grade_workspace(tiny(7), sandbox)
        assert (port.passed, note.passed, note.detail) == (True, False, "it is gone")

    def test_questions_are_answered_by_the_agents_code(self, sandbox):
        sandbox.write("agent.py", b"x = {'a': [1, None]}\ndef y(): return 5 / 0\n")
        assert ask(sandbox, AGENT, "x", "y") == {"x": {"a": [1, None]}, "y": "ZeroDivisionError: division by zero"}

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ("raise SystemExit", {"x": "SystemExit: ", "y": "SystemExit: "}),
            ("import os; os._exit(0)", {}),
            ("x = 1\ndef y():\n    import os\n    os._exit(0)", {"x": 1}),
            ("x = 1\ndef y():\n    import time\n    time.sleep(60)", {"x": 1}),
            ("x = 1\ndef y(): return {1, 2}", {"x": 1, "y": "TypeError: Object of type set is not JSON serializable"}),
            ("x = 1\ndef y(): return 'y' * 70_000", {"x": 1}),
            ("x = 1\nclass T(list): pass\ny = lambda: eval('[' * 90 + ']' * 90)", {"x": 1, "y": json.loads("[" * 90 + "]" * 90)}),
            ("import os\nfor fd in range(99):\n    try: os.write(fd, b'0' * 32 + b' 5\\n')\n    except OSError: 0\nx=1\ny = str",
             {"x": 1, "y": ""}),
        ],
    )  # fmt: skip
    def test_code_that_misbehaves_costs_its_own_answers_only(self, sandbox, code, expected):
        sandbox.write("agent.py", code.encode())
        answers = ask(
            sandbox,
            "def before():\n    return 'early'\n\n"
            + AGENT.replace("import agent\n", "").replace("    return", "    import agent\n    return"),
            "before",
            "x",
            "y",
            timeout_seconds=3,
        )
        assert answers == {"before": "early", **expected}

    def test_output_before_a_question_is_no_answer(self, sandbox):
        """A process that answers everything at once, with the tokens of earlier questions, answers nothing that was not asked."""
        eager = (
            "import os, sys\nasked, answered = [fd for fd in range(3, 20) if os.path.exists(f'/proc/self/fd/{fd}')][:2]\n"
            "token = os.read(asked, 99).split()[0]\nos.write(answered, token + b' 1\\n' + token + b' 2\\n')\nos._exit(0)\n"
        )
        assert ask(sandbox, eager, "x", "y") == {"x": 1}

    def test_processes_started_by_the_agents_code_end_with_its_interview(self, sandbox):
        start = "import os, subprocess\ndef x():\n    return subprocess.Popen(['sleep', '60'], start_new_session=True).pid\n"
        look = (
            "import glob\n"
            "def y():\n    return [name for name in glob.glob('/proc/[0-9]*/cmdline') if b'sleep' in open(name, 'rb').read()]\n"
        )
        answers = {}

        def judge(submission):
            answers.update(submission.ask())
            return ()

        judged(judge, sandbox, Interview(source=start, questions=("x",)), Interview(source=look, questions=("y",)))
        assert isinstance(answers["x"], int)
        assert answers["y"] == []

    def test_text_is_appended_to_files_during_an_interview_only(self, sandbox):
        sandbox.write("agent.py", b"x = 1\n")
        sandbox.run("chmod 640 agent.py; ln -s agent.py link.py; mkfifo fifo.py; mkdir folder.py")
        answers = {}

        def judge(submission):
            answers.update(submission.ask())
            return ()

        extra = tuple((f"{name}.py", "x = 2\n") for name in ("agent", "link", "fifo", "folder", "missing"))
        changed = Interview(source="import agent\ndef one(): return agent.x", questions=("one",), appended=extra)
        after = Interview(source="import agent\ndef two(): return agent.x", questions=("two",))
        judged(judge, sandbox, changed, after)
        assert answers == {"one": 2, "two": 1}
        assert sandbox.read("agent.py") == b"x = 1\n"
        assert sandbox.run("stat -c %a agent.py; ls").stdout.split() == [*b"640 agent.py fifo.py folder.py link.py".split()]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("act", "expected"),
        [
            ("open('left', 'w').write('x')", {"one": None, "two": False}),
            ("open('/tmp/left', 'w').write('x')", {"one": None, "two": False}),
            ("open('/dev/shm/left', 'w').write('x')", {"one": None, "two": False}),
            ("__import__('os').chmod('.', 0o777)", {"one": None, "two": False}),
            ("__import__('os').utime('folder', (1, 1))", {"one": None, "two": False}),
            ("__import__('ctypes').CDLL(None).shmget(4711, 100, 0o1666); return None", {"one": None, "two": False}),
            ("__import__('ctypes').CDLL(None).semget(4711, 1, 0o1666); return None", {"one": None, "two": False}),
            ("__import__('ctypes').CDLL(None).msgget(4711, 0o1666); return None", {"one": None, "two": False}),
            ("__import__('os').setxattr('folder', 'user.x', b'1')", {"one": None}),
            ("open('agent.py', 'a').write('# x')", {"one": None}),
            ("__import__('os').unlink('agent.py')", {"one": None}),
        ],
    )
    def test_an_interview_finds_nothing_that_an_earlier_one_left(self, sandbox, act, expected):
        sandbox.run("echo 'x = 1' > agent.py; mkdir folder")
        answers = {}

        def judge(submission):
            answers.update(submission.ask())
            return ()

        first = Interview(source=f"def one():\n    {act}\n", questions=("one",))
        judged(judge, sandbox, first, Interview(source=LOOK_FOR_LEFTOVERS, questions=("two",)))
        assert answers == expected

    def test_equal_interviews_run_in_random_order_and_cannot_be_distinguished(self, sandbox):
        """Each reply tells the number of the process, and all that the process can see of its interview."""
        source = "import os, sys, json\ndef x():\n    return [os.getpid(), sorted(vars(sys.modules['__main__']))]\n"
        first = Interview(source=source, questions=("x",), answer_names=("a",))
        second, other = (
            replace(first, answer_names=("b",)),
            Interview(source=f"{source}\n", questions=("x",), answer_names=("c",)),
        )
        orders = set()
        for seed in range(8):
            answers: dict[str, Any] = {}

            def judge(submission, answers=answers):
                answers.update(submission.ask())
                return ()

            task = replace(tiny(7), grader=Grader(judge=judge, interviews=(first, other, second)))
            grade_workspace(task, sandbox, Random(seed))
            assert answers["a"][1] == answers["b"][1]
            pids = {name: answers[name][0] for name in "abc"}
            orders.add("".join(sorted(pids, key=pids.__getitem__)))
        assert orders == {"acb", "bca"}

    @pytest.mark.parametrize("seed", range(4))
    def test_the_answers_of_a_changed_run_do_not_depend_on_the_order(self, sandbox, seed):
        sandbox.run("echo 'x = 1' > agent.py; echo 1 > data")
        source = "import agent\ndef x():\n    if agent.x == 2:\n        open('data', 'a').write('2')\n    return agent.x\n"
        names = (("a", "x = 2\n"), ("b", "# end\n"))
        runs = [Interview(source=source, questions=("x",), answer_names=(n,), appended=(("agent.py", t),)) for n, t in names]
        answers = {}

        def judge(submission):
            answers.update(submission.ask())
            return ()

        grade_workspace(replace(tiny(7), grader=Grader(judge=judge, interviews=tuple(runs))), sandbox, Random(seed))
        assert "a" not in answers

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "left",
        [
            "echo mine > .grade; chmod 000 .grade",
            "mkdir -p .grade/deep; touch .grade/deep/f; chmod 000 .grade/deep .grade",
            "mkdir -m 500 kept; ln -s kept .grade",
            "ln -s .grade .grade",
            "mkfifo .grade",
            "echo 'raise SystemExit' | tee json.py os.py sitecustomize.py select.py > ctypes.py",
        ],
    )
    def test_files_in_the_way_of_the_interviewer_are_removed_or_ignored(self, sandbox, left):
        sandbox.run(left)
        assert ask(sandbox, "def x():\n    return 5", "x") == {"x": 5}

    def test_a_workspace_without_write_permission_costs_the_answers(self, sandbox):
        sandbox.run("echo x > .grade; chmod 555 .")
        assert "no verdict: the interviewer ended with exit code 1" in ask(sandbox, "def x():\n    return 5", "x")

    def test_an_interviewer_that_is_killed_has_no_answers(self, sandbox):
        kill = "import os\ndef x():\n    return 5\ndef y():\n    os.kill(os.getppid(), 9)"
        assert ask(sandbox, kill, "x", "y") == "no verdict: the interviewer was killed by signal 9"

    def test_a_process_that_was_left_running_does_not_live_to_see_the_questions(self, sandbox):
        sandbox.run("setsid sh -c 'while sleep 0.01; do date +%N > beat; done' >/dev/null 2>&1 & sleep 0.1")
        ask(sandbox, "def x():\n    return 5", "x")
        last = sandbox.read("beat")
        time.sleep(0.1)
        assert sandbox.read("beat") == last

    def test_grading_neither_reads_nor_fills_the_action_cache(self, tmp_path):
        for counts in ((0, 1), (1, 0)):
            opened = open_sandbox("bubblewrap", session_id="grading")
            with closing(ActionCache(tmp_path)) as cache, CachedSandbox(opened, cache, kind="grading", task="tiny") as sandbox:
                sandbox.run("echo port=4007 > conf.txt")
                assert [one.passed for one in grade_workspace(tiny(7), sandbox)] == [True, False]
                assert ask(sandbox, "def x():\n    return 5", "x") == {"x": 5}
                assert (sandbox.counts.hits, sandbox.counts.misses) == counts
                assert [kept.command for kept in cache.list_largest(9)] == ["echo port=4007 > conf.txt"]


SPY = """
import glob, os
found = set()
for name in os.listdir("/proc"):
    if not name.isdigit():
        continue
    for part in ("cmdline", "environ", "mem"):
        try:
            with open(f"/proc/{name}/{part}", "rb", 0) as file:
                if part != "mem":
                    found.add(file.read())
                    continue
                with open(f"/proc/{name}/maps") as maps:
                    for line in maps:
                        begin, end = (int(edge, 16) for edge in line.split()[0].split("-"))
                        if "rw" in line.split()[1]:
                            file.seek(begin)
                            found.add(file.read(end - begin))
        except (OSError, ValueError, OverflowError):
            continue
for path in glob.glob(".*/**", recursive=True) + glob.glob("/tmp/**", recursive=True):
    if os.path.isfile(path):
        found.add(open(path, "rb").read())
WANTED = [bytes(reversed(word)) for word in REVERSED]

def x():
    return [sum(word in text for text in found) for word in WANTED]
"""


@pytest.mark.bubblewrap
def test_no_process_and_no_file_in_the_sandbox_holds_an_expected_value():
    """A value that a question contains is found by the same search, so the search works."""
    secret, planted = b"expected-5678-value", b"planted-1234-value"
    source = SPY.replace("REVERSED", repr([bytes(reversed(secret)), bytes(reversed(planted))])) + f"\nPLANTED = {planted!r}\n"
    answers = {}

    def judge(submission):
        answers.update(submission.ask())
        yield "a", answers["x"][0] == 0, submission.expected["secret"]

    with open_sandbox("bubblewrap", session_id="spied") as sandbox:
        judged(judge, sandbox, Interview(source=source, questions=("x",)), secret=secret.decode())
    in_files, planted_in = answers["x"]
    assert in_files == 0
    assert planted_in > 0


def test_no_interview_of_the_suite_contains_a_value_that_the_agent_must_remember():
    """Candidates of a value are all there, under every seed, and the interviews of two seeds are equal where facts differ."""
    for name in ("flashcards", "flashcards-bun", "spec-api", "rename-sweep"):
        assert load_task(name)(1).grader.interviews == load_task(name)(2).grader.interviews
    sources = [[interview.source for interview in load_task("bug-hunt")(seed).grader.interviews] for seed in (1, 2)]
    assert sources[0] == sources[1]
    appended = {path: text for interview in load_task("bug-hunt")(1).grader.interviews for path, text in interview.appended}
    initial = dict(load_task("bug-hunt")(1).workspace)
    assert all(text.strip() == initial[path].strip() for path, text in appended.items() if path.startswith("wattbook/stages/"))
