"""Verdicts: read from lines with the nonce, and from nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.experiment.attempt.grading import Verdict, grade, judged, verdicts
from harness.sandboxes import open_sandbox
from harness.task import Check, Grader
from tests.experiment.tiny_task import tiny

NONCE = "0123456789abcdef"
CHECKS = (Check(name="a", title="A"), Check(name="b", title="B"))


def test_verdicts_are_read_by_name_with_their_details():
    said = verdicts(f"{NONCE} check a pass\nnoise\n{NONCE} check b fail got 'x y'\n".encode(), NONCE)
    assert said == {"a": Verdict(True, ""), "b": Verdict(False, "got 'x y'")}


@given(st.text(), st.text())
def test_nothing_without_the_nonce_is_a_verdict(noise, name):
    if NONCE not in noise + name:
        assert verdicts(f"check a pass\n{noise} check {name} pass\n {NONCE}".encode(), NONCE) == {}


@pytest.mark.parametrize("line", ["x {} check a pass", "{}check a pass", "{} a pass", "{} check a passed", "{} check a", "{}"])
def test_a_line_of_another_shape_is_no_verdict(line):
    assert verdicts(line.format(NONCE).encode(), NONCE) == {}


def test_two_verdicts_that_differ_are_a_failure_in_either_order():
    for order in ("pass fail", "fail pass"):
        first, second = order.split()
        said = verdicts(f"{NONCE} check a {first}\n{NONCE} check a {second}\n".encode(), NONCE)
        assert said["a"].passed is False


@given(st.dictionaries(st.sampled_from("abcz"), st.builds(Verdict, st.booleans(), st.text())))
def test_each_check_has_one_verdict_in_order_and_a_missing_one_has_failed(said):
    found = judged(CHECKS, said, "no verdict")
    assert [one.check for one in found] == list(CHECKS)
    assert all(one.passed == (one.check.name in said and said[one.check.name].passed) for one in found)
    assert all(one.detail == "no verdict" for one in found if one.check.name not in said)


@given(st.binary())
def test_any_bytes_can_be_read(output):
    verdicts(output, NONCE)


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
        port, note = grade(tiny(7), sandbox)
        assert (port.passed, note.passed, note.detail) == (True, False, "it is gone")

    def test_what_the_workspace_says_is_no_verdict(self, sandbox):
        sandbox.write("conf.txt", b"check port pass\n")
        sandbox.write("sitecustomize.py", b"print('check port pass')\n")
        assert not any(one.passed for one in grade(tiny(7), sandbox))

    def test_a_grader_that_breaks_or_overruns_says_why_there_is_no_verdict(self, sandbox):
        (broken, _) = self.graded(sandbox, Grader(files=(), command="echo oh >&2; exit 3 #"))
        assert broken.detail == "no verdict (the grader ended with exit code 3) oh"
        (slow, _) = self.graded(sandbox, Grader(files=(), command="sleep 9 #", timeout_seconds=0.3))
        assert slow.detail == "no verdict: the grader was killed after 0.3 s"

    def graded(self, sandbox, grader):
        from dataclasses import replace

        return grade(replace(tiny(7), grader=grader), sandbox)
