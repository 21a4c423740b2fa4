"""Tests of each metric of calls in a session built by hand, all against a slow reference, and dead ends in a real task."""

import pytest
from hypothesis import given

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.view import View, fold
from harness.metrics.call_metrics import CallMetricsBuilder
from harness.metrics.session_metrics import measure_session
from harness.tasks import make_task
from tests.laws.suite import simulate_with_cache
from tests.metrics import reference
from tests.metrics.sessions import COUNTER, Session, sessions


def compute_metrics(session, retrievals=frozenset()):
    watch, view = CallMetricsBuilder(COUNTER, retrievals), View()
    for entry in session.entries:
        before, view = view, fold(view, entry, COUNTER)
        watch.add_entry(entry, before, view)
    return watch.build_metrics()


def total(session, name):
    return sum(step.counts[name] for step in compute_metrics(session).steps)


def flagged(session, name):
    return [step.step for step in compute_metrics(session).steps if step.counts[name]]


# --- against the reference ---------------------------------------------------------------------------------------------


@given(sessions())
def test_repeats_and_redundant_calls_are_those_of_the_reference(session):
    flags = reference.repeats(session.entries)
    assert total(session, "repeats") == sum(repeated for repeated, _ in flags)
    assert total(session, "redundant") == sum(redundant for _, redundant in flags)


@given(sessions())
def test_reacquisitions_are_those_of_the_reference(session):
    expected = reference.reacquired(session.entries)
    assert flagged(session, "reacquisitions") == [step for step, _ in expected]
    assert total(session, "reacquired_steps") == sum(since for _, since in expected)


@given(sessions())
def test_the_number_of_repeated_evictions_equals_that_of_the_reference(session):
    assert compute_metrics(session).evicted_again == reference.evicted_again(session.entries)


@given(sessions())
def test_evicted_tokens_are_those_of_the_reference(session):
    assert compute_metrics(session).evicted_tokens == reference.evicted_tokens(session.entries)


@given(sessions())
def test_the_first_doom_loop_is_that_of_the_reference(session):
    expected = reference.loops(session.entries)
    measured = compute_metrics(session)
    assert (measured.loop_rule, measured.loop_onset_step) == (expected[0] if expected else ("", None))


@given(sessions())
def test_every_call_is_an_execution_or_a_retrieval(session):
    calls = reference.acts(session.entries)
    assert total(session, "executions") + total(session, "retrievals") == len(calls)
    assert total(session, "failures") == sum(not act.succeeded for _, act in calls)


# --- by hand -------------------------------------------------------------------------------------------------------------


def test_a_call_in_other_clothes_is_a_repeat():
    session = Session()
    session.call("read_file", "text", path="docs/a.md")
    session.call("read_file", "text", path=" ./docs//a.md")
    session.call("read_file", "text", path="/workspace/docs/a.md")
    assert flagged(session, "repeats") == [2, 3]


def test_a_repeat_with_the_same_answer_is_redundant():
    session = Session()
    session.read("a.py")
    session.run("make", "exit code 0\nbuilt in 0.31s")
    session.read("a.py")
    session.run("grep -n x a.py")
    session.run("grep -n x a.py")
    assert flagged(session, "redundant") == [3, 5]


def test_a_repeat_is_not_redundant_once_its_target_was_touched():
    session = Session()
    session.read("src/a.py")
    session.run("sed -i s/x/y/ src/a.py")
    session.read("src/a.py")
    session.call("list_directory", "file  a.py  4", path="src")
    session.write("src/a.py", "abcd")
    session.call("list_directory", "file  a.py  4", path="src")
    assert flagged(session, "redundant") == []


def test_running_the_tests_again_is_redundant_only_if_nothing_was_done_between():
    session = Session()
    session.run("make test", "exit code 1\n1 failed in 0.20s")
    session.run("make test", "exit code 1\n1 failed in 0.31s")
    session.write("a.py", "x = 1")
    session.run("make test", "exit code 1\n1 failed in 0.25s")
    assert flagged(session, "redundant") == [2]


def test_a_file_that_a_compaction_took_away_is_reacquired_once():
    session = Session()
    first = session.read("a.py")
    session.run("make")
    session.compact(first - 1, first)
    session.run("make all")
    session.run("cat a.py", "exit code 0\ntext")
    session.read("a.py")
    assert flagged(session, "reacquisitions") == [4]
    assert total(session, "reacquired_steps") == 2
    assert total(session, "reacquired_tokens") > 0


def test_each_compaction_has_its_own_reacquisition_and_both_make_thrash():
    session = Session()
    first = session.read("a.py")
    session.compact(first - 1, first)
    again = session.read("a.py")
    session.compact(again - 1, again)
    session.read("a.py")
    assert flagged(session, "reacquisitions") == [2, 3]
    assert compute_metrics(session).evicted_again == 1


def test_reading_a_masked_result_again_is_a_reacquisition():
    session = Session()
    first = session.read("a.py")
    session.compact(replace=[first], summary="")
    session.read("a.py")
    assert flagged(session, "reacquisitions") == [2]


def test_a_file_that_changed_meanwhile_is_read_and_not_reacquired():
    session = Session()
    first = session.read("a.py", "old")
    session.compact(first - 1, first)
    session.run("sed -i s/old/new/ a.py")
    session.read("a.py", "new")
    assert flagged(session, "reacquisitions") == []


def test_reading_an_evicted_file_that_the_agent_wrote_is_a_reacquisition():
    session = Session()
    first = session.write("a.py", "x = 1\n")
    session.compact(first - 1, first)
    session.read("a.py", "x = 1\n")
    assert flagged(session, "reacquisitions") == [2]


def test_a_command_is_a_retrieval_only_if_it_is_known_to_be_one():
    session = Session()
    session.run("python3 tools/version.py")
    assert (total(session, "executions"), total(session, "retrievals")) == (1, 0)
    known = frozenset(act.signature for _, act in reference.acts(session.entries))
    assert sum(step.counts["retrievals"] for step in compute_metrics(session, known).steps) == 1


def test_two_compactions_within_three_steps_are_close():
    session = Session()
    for steps in (0, 2, 3):
        for _ in range(steps):
            session.run("make")
        session.compact(3)
    assert compute_metrics(session).close_compactions == 1


def test_a_compaction_that_leaves_the_view_nearly_full_is_counted():
    session = Session(threshold_tokens=1000)
    session.compact(3, tokens_after=899)
    session.compact(3, tokens_after=900)
    assert compute_metrics(session).full_compactions == 1


def test_a_fruitless_attempt_evicts_nothing():
    session = Session()
    first = session.read("a.py")
    session.compact(first, status="failed", tokens_after=1000)
    session.read("a.py")
    measured = compute_metrics(session)
    assert (measured.evicted_tokens, measured.full_compactions, flagged(session, "reacquisitions")) == (0, 0, [])


def test_a_user_message_ends_a_loop_before_it_is_one():
    session = Session()
    for _ in range(3):
        session.run("make")
    session.say("Go on.")
    for _ in range(3):
        session.run("make")
    assert compute_metrics(session).loop_rule == ""
    session.run("make")
    assert (compute_metrics(session).loop_rule, compute_metrics(session).loop_onset_step) == ("same call and answer", 4)


def test_a_loop_has_its_distance_from_the_compaction_before_it():
    session = Session()
    session.read("a.py")
    session.compact(4, 5)
    session.read("b.py")
    for _ in range(3):
        session.run("make", "exit code 2")
    measured = compute_metrics(session)
    assert (measured.loop_rule, measured.loop_onset_step, measured.loop_after_steps) == ("same failing call", 3, 2)


def test_a_failure_that_is_tried_again_after_a_compaction_is_a_dead_end():
    session = Session()
    session.run("pip install x", "exit code 1\nno network")
    session.run("pip install x", "exit code 1\nno network")
    assert compute_metrics(session).repeated_dead_ends == 0
    session.compact(4, 5)
    session.run("pip install x", "exit code 1\nno network")
    assert compute_metrics(session).repeated_dead_ends == 1


def test_tests_that_fail_again_after_a_change_are_no_dead_end():
    session = Session()
    session.run("make test", "exit code 1")
    session.compact(4, 5)
    session.write("a.py", "x = 2")
    session.run("make test", "exit code 1")
    assert compute_metrics(session).repeated_dead_ends == 0


@pytest.mark.parametrize("repair", ["sed -i s/x/y/ a.py", "sh repair.sh"])
def test_nor_are_they_after_a_command_that_may_have_changed_something(repair):
    session = Session()
    session.run("make test", "exit code 1")
    session.compact(4, 5)
    session.run("cat a.py")
    session.run(repair)
    session.run("make test", "exit code 1")
    assert compute_metrics(session).repeated_dead_ends == 0


TRY = "python3 ci.py first.sed a.py"


def tried(*between, again="exit code 1\nattempt 3: refused"):
    """Return a session in which a rejected edit is repeated after other work and a compaction."""
    session = Session()
    session.write("first.sed", "s/x/y/")
    session.run(TRY, "exit code 1\nattempt 1: refused")
    session.compact(6, 7)
    for deed, about, more in between:
        getattr(session, deed)(about, more)
    session.run(TRY, again)
    return compute_metrics(session).repeated_dead_ends


@pytest.mark.parametrize(
    "between",
    [
        (),
        [("write", "notes.md", "first.sed was refused")],
        [("write", "second.sed", "s/x/z/"), ("run", "python3 ci.py second.sed a.py", "exit code 1\nattempt 2: refused")],
        [("write", "first.sed", "s/x/y/")],
    ],
)
def test_a_patch_that_was_refused_and_is_tried_again_as_it_was_is_a_dead_end_whatever_else_was_written(between):
    assert tried(*between) == 1


@pytest.mark.parametrize(
    "between",
    [
        [("write", "first.sed", "s/x/z/")],
        [("run", "sed -i s/y/z/ first.sed", "exit code 0")],
        [("write", "a.py", "x = 2")],
    ],
)
def test_a_failed_call_after_a_change_of_its_files_is_no_repeated_dead_end(between):
    assert tried(*between) == 0


def test_a_call_that_fails_in_another_way_is_no_repeated_dead_end():
    assert tried(again="exit code 1\nthe bench is busy") == 0


def test_a_text_that_failed_and_was_replaced_is_a_dead_end_when_it_is_written_again():
    session = Session()
    session.write("a.py", "first")
    session.run("make test", "exit code 1")
    session.write("a.py", "second")
    session.compact(4, 5, 6, 7)
    session.write("a.py", "second")
    assert compute_metrics(session).repeated_dead_ends == 0
    session.write("a.py", "first")
    assert compute_metrics(session).repeated_dead_ends == 1


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize(("summarizer", "again"), [("scripted/empty", True), ("scripted/oracle", False)])
def test_an_agent_that_forgets_a_failed_test_repeats_a_dead_end(summarizer, again):
    task, policy = make_task("bug-hunt", 1), KeepLast(summarizer=summarizer)
    run = simulate_with_cache(task, policy)
    assert run.compactions
    assert (measure_session(run.entries, task, policy.counter).metrics.repeated_dead_ends > 0) is again
