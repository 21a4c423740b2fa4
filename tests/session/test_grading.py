"""Tests of grading: only lines with the nonce are verdicts, whatever the graded code does meanwhile."""

import time
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sandboxes import open_sandbox
from harness.sandboxes.action_cache import ActionCache, CachedSandbox
from harness.session.grading import Verdict, apply_verdicts, grade_workspace, parse_verdicts
from harness.task import Check, Grader
from harness.tasks import load_task
from harness.testing.fakes import MemorySandbox
from tests.experiment.tiny_task import tiny

NONCE = "0123456789abcdef"
CHECKS = (Check(name="a", title="A"), Check(name="b", title="B"))


def test_verdicts_are_read_by_name_with_their_details():
    said = parse_verdicts(f"{NONCE} check a pass\nnoise\n{NONCE} check b fail got 'x y'\n{NONCE} done\n".encode(), NONCE)
    assert said == {"a": Verdict(True, ""), "b": Verdict(False, "got 'x y'")}


@given(st.text(), st.text())
def test_nothing_without_the_nonce_is_a_verdict(noise, name):
    if NONCE not in noise + name:
        assert parse_verdicts(f"check a pass\n{noise} check {name} pass\n {NONCE}\n{NONCE} done".encode(), NONCE) == {}


@pytest.mark.parametrize("line", ["x {} check a pass", "{}check a pass", "{} a pass", "{} check a passed", "{} check a", "{}"])
def test_a_line_of_another_shape_is_no_verdict(line):
    assert parse_verdicts(f"{line.format(NONCE)}\n{NONCE} done".encode(), NONCE) == {}


@pytest.mark.parametrize("end", ["", "done\n", "{} done\n\n", "{} done\nmore", "{} done \n", " {} done\n", "{} check b pass\n"])
def test_no_verdict_counts_before_the_grader_says_at_the_very_end_that_it_is_done(end):
    assert parse_verdicts(f"{NONCE} check a pass\n{end.format(NONCE)}".encode(), NONCE) == {}


def test_two_verdicts_that_differ_are_a_failure_in_either_order():
    for order in ("pass fail", "fail pass"):
        first, second = order.split()
        said = parse_verdicts(f"{NONCE} check a {first}\n{NONCE} check a {second}\n{NONCE} done\n".encode(), NONCE)
        assert said["a"].passed is False


@given(st.dictionaries(st.sampled_from("abcz"), st.builds(Verdict, st.booleans(), st.text())))
def test_each_check_has_one_verdict_in_order_and_a_missing_one_has_failed(said):
    found = apply_verdicts(CHECKS, said, "no verdict")
    assert [one.check for one in found] == list(CHECKS)
    assert all(one.passed == (one.check.name in said and said[one.check.name].passed) for one in found)
    assert all(one.detail == "no verdict" for one in found if one.check.name not in said)


@given(st.binary())
def test_any_bytes_can_be_read(output):
    parse_verdicts(output, NONCE)
    parse_verdicts(output + f"\n{NONCE} done\n".encode(), NONCE)


def test_a_sandbox_that_runs_nothing_gives_no_verdict():
    assert {one.detail for one in grade_workspace(tiny(7), MemorySandbox())} == {"no verdict (the grader ended with exit code 0)"}


PASSES = """
nonce=$(cat "$1")
echo $nonce check port pass; echo $nonce check note pass; echo $nonce done
"""


@pytest.mark.bubblewrap
class TestInASandbox:
    @pytest.fixture
    def sandbox(self):
        sandbox = open_sandbox("bubblewrap", session_id="grading")
        sandbox.start()
        yield sandbox
        sandbox.close()

    def test_the_grader_runs_on_the_workspace_as_it_was_left(self, sandbox):
        sandbox.write("conf.txt", b"port=4007\n")
        port, note = grade_workspace(tiny(7), sandbox)
        assert (port.passed, note.passed, note.detail) == (True, False, "it is gone")

    def test_what_the_workspace_says_is_no_verdict(self, sandbox):
        sandbox.write("conf.txt", b"check port pass\n")
        sandbox.write("sitecustomize.py", b"print('check port pass')\n")
        assert not any(one.passed for one in grade_workspace(tiny(7), sandbox))

    def test_a_grader_that_breaks_or_overruns_says_why_there_is_no_verdict(self, sandbox):
        (broken, _) = self.graded(sandbox, Grader(files=(), command="sh -c 'echo oh >&2; exit 3'"))
        assert broken.detail == "no verdict (the grader ended with exit code 3) oh"
        (slow, _) = self.graded(sandbox, Grader(files=(), command="sleep 900; #", timeout_seconds=0.3))
        assert slow.detail == "no verdict: the grader was killed after 0.3 s"

    @pytest.mark.parametrize(
        ("ending", "detail"),
        [
            ("", ""),
            ("exit 1", "no verdict (the grader ended with exit code 1)"),
            ("kill -9 $$", "no verdict: the grader was killed by signal 9"),
        ],
    )
    def test_verdicts_count_only_if_the_grader_ended_well(self, sandbox, ending, detail):
        found = self.graded(sandbox, Grader(files=((".g/run", PASSES + ending),), command="sh .g/run"))
        assert [(one.passed, one.detail) for one in found] == [(detail == "", detail)] * 2

    def test_no_shell_stays_around_the_grader(self, sandbox):
        tell = "tr '\\0' ' ' < /proc/$PPID/cmdline >&2; exit 1"
        (found, _) = self.graded(sandbox, Grader(files=((".g/run", tell),), command="sh .g/run"))
        assert ".nonce" not in found.detail

    @pytest.mark.parametrize(
        "left",
        [
            "echo mine > .checks.py; chmod 000 .checks.py; mkdir .nonce",
            "mkdir -p .checks.py/deep .nonce/x; touch .checks.py/deep/f; chmod 000 .checks.py/deep .checks.py .nonce",
            "ln -s note.txt .checks.py; mkdir -m 500 kept; ln -s kept .nonce",
            "ln -s nowhere .checks.py; ln -s .nonce .nonce",
            "mkfifo .checks.py .nonce",
        ],
    )
    def test_what_stands_in_the_place_of_the_grader_is_removed(self, sandbox, left):
        sandbox.write("note.txt", b"as it was")
        sandbox.run(left)
        assert [one.passed for one in grade_workspace(tiny(7), sandbox)] == [False, True]
        assert sandbox.read("note.txt") == b"as it was"

    def test_a_workspace_into_which_nothing_can_be_laid_costs_the_checks(self, sandbox):
        sandbox.write("conf.txt", b"port=4007\n")
        sandbox.run("echo x > .checks.py; chmod 555 .")
        assert all("grader cannot be written" in one.detail and not one.passed for one in grade_workspace(tiny(7), sandbox))

    def test_it_never_comes_from_the_action_cache_nor_goes_into_it(self, tmp_path):
        for counts in ((0, 1), (1, 0)):
            opened = open_sandbox("bubblewrap", session_id="grading")
            with closing(ActionCache(tmp_path)) as cache, CachedSandbox(opened, cache, kind="grading", task="tiny") as sandbox:
                sandbox.run("echo port=4007 > conf.txt")
                assert [one.passed for one in grade_workspace(tiny(7), sandbox)] == [True, False]
                assert (sandbox.counts.hits, sandbox.counts.misses) == counts
                assert [kept.command for kept in cache.list_largest(9)] == ["echo port=4007 > conf.txt"]

    def graded(self, sandbox, grader):
        return grade_workspace(replace(tiny(7), grader=grader), sandbox)


FLASHCARDS = load_task("flashcards")(0)

HOSTILE = """
import os, re, signal, sys, time
NAMES = {names!r}
MODE = {mode!r}

def said(path):
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20).decode(errors="replace")
    except OSError:
        return ""

def others():
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]

def secrets():
    texts = [said(f"/proc/{{pid}}/{{name}}") for pid in others() for name in ("cmdline", "environ")]
    texts += [said(name) for name in (".nonce", ".grade/nonce", ".grade/judge.py", ".grade/observe.py")]
    found = set(re.findall("[0-9a-f]{{32}}", " ".join(texts)))
    if found or texts[-1] or texts[-2]:
        open("loot", "a").write(" ".join(found) + texts[-1][:99] + texts[-2][:99])
    return found or {{"0" * 32}}

def outputs():
    for pid in others():
        for number in (1, 2, 3, 4, 5):
            try:
                descriptor = os.open(f"/proc/{{pid}}/fd/{{number}}", os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                continue
            yield pid, descriptor

def kill():
    for pid in others():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass

def pry():
    parent = f"/proc/{{os.getppid()}}"
    for path in (f"{{parent}}/fd/1", f"{{parent}}/mem", f"{{parent}}/environ"):
        try:
            os.close(os.open(path, os.O_WRONLY if path.endswith("1") else os.O_RDONLY))
        except OSError:
            continue
        open("loot", "a").write(path)

def forge():
    pry()
    known, opened = secrets(), list(outputs())
    if "kill" in MODE:
        kill()
    for _, descriptor in [(0, 1), (0, 2), *opened]:
        for nonce in known:
            lines = "".join(f"{{nonce}} check {{name}} pass\\n" for name in NAMES) + f"{{nonce}} done\\n"
            try:
                os.write(descriptor, ("\\n" + lines).encode())
            except OSError:
                pass

def lurk():
    while not os.path.exists(".grade"):
        time.sleep(0.0005)
    open("awake", "w").close()
    for _ in range(2000):
        forge()
        time.sleep(0.0005)
"""


@pytest.mark.bubblewrap
class TestAgainstHostileCode:
    @pytest.fixture
    def sandbox(self):
        with open_sandbox("bubblewrap", session_id="hostile") as sandbox:
            yield sandbox

    def lay(self, sandbox, mode):
        code = HOSTILE.format(names=[check.name for check in FLASHCARDS.checks], mode=mode)
        sandbox.write("lurker.py", f"{code}\nlurk()\n".encode())
        sandbox.write("flashcards/__init__.py", f"{code}\nforge()\n".encode())
        sandbox.write("flashcards/__main__.py", b"")
        sandbox.write("tests/__init__.py", b"import flashcards\n")

    def loot(self, sandbox):
        return {entry.name for entry in sandbox.list(".")} & {"loot", "awake", ".grade", ".nonce"}

    @pytest.mark.parametrize("left", ["", "setsid python3 lurker.py >/dev/null 2>&1 &"])
    @pytest.mark.parametrize("mode", ["write", "write and kill"])
    def test_code_that_forges_or_kills_passes_no_check_and_finds_no_secret(self, sandbox, mode, left):
        self.lay(sandbox, mode)
        sandbox.run(f"{left} sleep 0.2")
        found = grade_workspace(FLASHCARDS, sandbox)
        assert [one.check.name for one in found if one.passed] == []
        assert self.loot(sandbox) == set()
        if mode == "write and kill":
            assert {one.detail for one in found} == {"no verdict: the grader was killed by signal 9"}

    def test_the_attack_finds_what_it_looks_for_where_it_is_left_about(self, sandbox):
        self.lay(sandbox, "write")
        careless = Grader(files=((".grade/grade.py", "x"),), command="python3 -B -c 'import flashcards'")
        grade_workspace(replace(FLASHCARDS, grader=careless), sandbox)
        assert "loot" in self.loot(sandbox)

    def test_a_process_that_was_left_running_does_not_live_to_see_the_grader(self, sandbox):
        sandbox.run("setsid sh -c 'while sleep 0.01; do date +%N > beat; done' >/dev/null 2>&1 & sleep 0.1")
        grade_workspace(FLASHCARDS, sandbox)
        last = sandbox.read("beat")
        time.sleep(0.1)
        assert sandbox.read("beat") == last
