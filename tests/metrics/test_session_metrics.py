"""Tests of the probes of facts, in sessions built by hand and in whole sessions of the task suite."""

import functools
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import MessageAdded
from harness.conversation.view import View, fold
from harness.metrics.call_metrics import CallMetricsBuilder
from harness.metrics.calls import compute_template_signature
from harness.metrics.compaction_effects import measure_compactions, summarize_effects
from harness.metrics.session_metrics import FactProber, find_token, measure_session
from harness.models.scripted.profiles import READERS
from harness.models.scripted.visible_state import extract_searchable_text
from harness.task import CallTemplate, Check, Evidence, Fact, Grader, Script, Step, Task, World
from harness.task_checks.simulation import HUGE_WINDOW_TOKENS
from harness.tasks import make_task
from tests.laws.suite import each, simulate_with_cache
from tests.metrics.sessions import COUNTER, Session, edited_sessions, sessions

PORT_PATTERN = re.compile(r"port is (\d+)")
PORT = Fact(name="port", kind="constraint", said_in="prompt", patterns=(PORT_PATTERN.pattern,), prior="80")
TABLE = Fact(
    name="table",
    kind="artifact",
    said_in="file",
    patterns=(r"table `(\w+)`",),
    prior="cards",
    recover=CallTemplate(tool="read_file", arguments=(("path", "docs.md"),)),
    source="docs.md",
)
CALL = CallTemplate(tool="write_file", arguments=(("path", "conf"), ("content", "port=${port} table=${table}")))
TASK = Task(
    name="t", title="T", tags=(), prompt="The port is 4711.", workspace=(), runtime="python",
    checks=(Check(name="c", title="C"),), grader=Grader(judge=lambda submission: ()), facts=(PORT, TABLE),
    script=Script(
        steps=(Step(name="s", text="", calls=(CALL,), done=Evidence(), required_facts=("port", "table")),), final_text=""
    ),
    values={"port": "4711", "table": "learners"},
)  # fmt: skip


@given(sessions())
def test_a_session_measured_in_one_pass_equals_one_measured_entry_by_entry(session):
    retrievals = frozenset(compute_template_signature(fact.recover) for fact in TASK.facts if fact.recover)
    call_metrics, prober = CallMetricsBuilder(COUNTER, retrievals), FactProber(TASK)
    view = View()
    for entry in session.entries:
        before, view = view, fold(view, entry, COUNTER)
        call_metrics.add_entry(entry, before, view)
        prober.add_entry(entry, before, view)
    effects = summarize_effects(measure_compactions(session.entries, COUNTER))
    metrics = replace(call_metrics.build_metrics(), **effects)
    entry_by_entry = prober.add_use_counts(metrics), prober.build_probes()
    assert measure_session(session.entries, TASK, COUNTER) == entry_by_entry


def seen(session, task=TASK):
    return measure_session(session.entries, task, COUNTER)


def rows(session):
    """Return fact, version, visibility before and after, and use of every probe."""
    probes = seen(session).probes
    names = {fact.number: fact.name for fact in probes.facts}
    return [(names[row.fact], row.version, row.seen_before, row.seen_after, row.used) for row in probes.rows]


def test_a_fact_in_view_before_and_after_is_retained():
    session = Session(task=TASK.prompt)
    session.read("docs.md", "Rows live in the table `learners`.")
    session.compact(4, 5)
    assert rows(session) == [("port", 1, True, True, None), ("table", 1, True, False, None)]


def test_a_summary_in_other_words_retains_it_for_the_tolerant_reader_alone():
    session = Session(task=TASK.prompt)
    session.compact(3, summary="- **Port**: 4711")
    visible = {
        reader: [row.seen_after for row in measure_session(session.entries, TASK, COUNTER, reader).probes.rows]
        for reader in READERS
    }
    assert visible == {"exact": [False], "tolerant": [True]}


def test_a_summary_that_tells_it_retains_it():
    session = Session(task=TASK.prompt)
    session.compact(3, summary="- the port is 4711")
    session.compact(summary="")
    assert rows(session) == [("port", 1, True, True, None)] * 2


@pytest.mark.parametrize(
    ("summary", "stands"),
    [
        ("- the port is 4711", True),
        ("port: 4711", True),
        ("It listens on :4711, as asked.", True),
        ("the port is 14711, no, 47110 or p4711", False),
        ("the port is 14711, no, 4711", True),
        ("a port was given", False),
    ],
)
def test_a_value_stands_in_a_summary_whatever_the_words_but_not_within_a_longer_token(summary, stands):
    session = Session(task=TASK.prompt)
    session.compact(3, summary=summary)
    (row,) = seen(session).probes.rows
    assert (row.seen_after, row.stands_after) == (summary == "- the port is 4711", stands)


STATEMENTS = ("The port is 4711.", "The port is 8080.", "4711", "x4711", "8080: free")


@given(edited_sessions(st.sampled_from(STATEMENTS)))
def test_a_value_stands_in_view_if_a_message_has_it_as_a_word(session):
    view, stated, stands = View(), list[str](), dict[int, bool]()
    for entry in session.entries:
        view = fold(view, entry, COUNTER)
        if isinstance(entry.event, MessageAdded) and entry.event.message.role == "user":
            values = PORT_PATTERN.findall(extract_searchable_text(entry.event.message))
            stated += [value for value in values if stated[-1:] != [value]]
        stands[entry.seq] = any(
            find_token(extract_searchable_text(message), value) >= 0 for message in view.messages for value in stated[-1:]
        )
    probes = measure_session(session.entries, replace(TASK, facts=(PORT,)), COUNTER).probes
    assert [row.stands_after for row in probes.rows] == [stands[row.event] for row in probes.rows]


def test_a_value_that_is_lost_again_stands_in_the_same_message_until_that_is_removed_too():
    session = Session(task=TASK.prompt)
    bare = session.reply("4711")
    session.compact(3, summary="")
    session.compact(session.say(TASK.prompt), summary="")
    session.compact(session.say(TASK.prompt), bare, summary="")
    lost = [(row.seen_after, row.stands_after) for row in seen(session).probes.rows]
    assert lost == [(False, True), (False, True), (False, False)]


def test_a_value_in_a_call_of_the_agent_or_at_the_edge_of_a_text_is_found():
    session = Session(task="Begin.")
    session.read("docs.md", "Rows live in the table `=deck=`.")
    session.write("schema.sql", "x=deck=y")
    session.compact(4, 5, summary="")
    signs = replace(TASK, facts=(PORT, replace(TABLE, patterns=(r"table `([=\w]+)`",))))
    (row,) = seen(session, signs).probes.rows
    assert (row.seen_after, row.stands_after) == (False, True)


def test_only_the_summary_can_keep_what_no_kept_message_shows():
    session = Session(task=TASK.prompt)
    session.say("Rows live in the table `learners`.")
    session.compact(3, summary="the port is 4711", summarizer="scripted/extractive")
    session.compact(replace=[4], summary="", summarizer="scripted/empty")
    session.compact()
    visibility = [(row.seen_in_kept, row.seen_after) for row in seen(session).probes.rows]
    assert visibility == [(False, True), (True, True), (True, True), (False, False), (None, True)]


def test_other_places_of_a_short_value_are_unknown():
    session = Session(task="The port is 471.")
    session.compact(3, summary="port 471")
    (row,) = seen(session).probes.rows
    assert (row.seen_after, row.stands_after) == (False, None)


def test_a_lost_fact_has_no_rows_until_it_is_stated_again():
    session = Session(task=TASK.prompt)
    session.compact(3)
    session.compact(summary="")
    session.say("As I said, the port is 4711.")
    session.compact(summary="")
    assert rows(session) == [("port", 1, True, False, None), ("port", 1, True, True, None)]


def test_the_value_of_the_newest_statement_is_searched_for():
    session = Session(task="The port is 99.")
    session.say("No: the port is 4711.")
    session.compact(4, summary="the port is 99")
    assert rows(session) == [("port", 2, True, False, None)]


def test_the_next_use_of_a_fact_is_detected_and_judged():
    session = Session(task=TASK.prompt)
    session.compact(3)
    session.write("conf", "port=80 table=learners")
    session.write("conf", "port=4711 table=learners")
    assert rows(session) == [("port", 1, True, False, "wrong")]
    metrics = seen(session).metrics
    assert (metrics.fact_uses, metrics.wrong_uses, metrics.stale_uses, metrics.constraint_violations) == (4, 1, 0, 1)


def test_a_value_that_was_replaced_by_then_is_stale():
    session = Session(task="The port is 99.")
    session.write("conf", "port=99 table=learners")
    session.say("No: the port is 4711.")
    session.compact(3)
    session.write("conf", "port=99 table=learners")
    assert rows(session) == [("port", 2, True, True, "stale")]
    assert (seen(session).metrics.wrong_uses, seen(session).metrics.stale_uses) == (1, 1)


OUTDATED = replace(TASK, facts=(replace(PORT, former_patterns=(r"port was (\d+)",)), TABLE))
"""The task with a fact whose older value is stated in other words."""


@pytest.mark.parametrize("first", ["page", "request"])
def test_a_value_that_stands_in_words_that_are_out_of_date_is_stale_wherever_they_stand(first):
    session = Session(task=TASK.prompt if first == "request" else "Begin.")
    session.read("docs.md", "Then the port was 99.")
    if first == "page":
        session.say("Now the port is 4711.")
    session.write("conf", "port=99 table=learners")
    session.write("conf", "port=98 table=learners")
    metrics = seen(session, OUTDATED).metrics
    assert (metrics.wrong_uses, metrics.stale_uses) == (2, 1)


def test_a_fact_stated_only_with_an_older_value_or_by_the_agent_is_not_stale():
    session = Session(task="Begin.")
    session.read("docs.md", "Then the port was 99.")
    session.write("conf", "port=99 table=learners")
    session.write("notes", "I guess that the port was 98.")
    session.read("notes", "I guess that the port was 98.")
    session.say("Now the port is 4711.")
    session.write("conf", "port=98 table=learners")
    metrics = seen(session, OUTDATED).metrics
    assert (metrics.wrong_uses, metrics.stale_uses) == (2, 0)


def test_an_outdated_statement_does_not_make_its_fact_visible():
    session = Session(task="Begin.")
    session.read("docs.md", "Then the port was 4711.")
    session.compact()
    assert seen(session, OUTDATED).probes.rows == ()


def test_a_tool_output_with_text_of_the_agent_states_no_fact():
    session = Session(task="Begin.")
    session.write("notes", "The port is 80.")
    session.read("notes", "The port is 80.")
    session.compact()
    assert rows(session) == []


def test_an_old_page_does_not_bring_a_replaced_value_back():
    session = Session(task="Begin.")
    session.read("docs.md", "the port is 99")
    session.say("From now on the port is 4711.")
    session.read("docs.md", "the port is 99")
    session.compact(summary="")
    assert rows(session) == [("port", 2, True, True, None)]


def test_uses_are_unknown_where_no_call_is_recognised():
    session = Session(task=TASK.prompt)
    session.compact(3)
    session.write("elsewhere", "port=80")
    assert rows(session) == [("port", 1, True, False, None)]
    assert seen(session).metrics.fact_uses is None


def test_only_facts_with_probes_are_kept_with_how_they_are_got_again():
    session = Session(task="Begin.")
    session.read("docs.md", "the table `learners`")
    session.compact(summary="")
    (fact,) = seen(session).probes.facts
    assert (fact.number, fact.name, fact.kind, fact.said_in, fact.reacquisition_calls) == (1, "table", "artifact", "file", 2)


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("name", each())
def test_every_use_of_a_fact_is_right_without_compaction(name):
    task = make_task(name, 1)
    run = simulate_with_cache(task, NoCompaction(), window_tokens=HUGE_WINDOW_TOKENS)
    metrics, probes = measure_session(run.entries, task, COUNTER)
    assert metrics.fact_uses
    assert metrics.wrong_uses == metrics.constraint_violations == metrics.evicted_tokens == 0
    assert probes.rows == ()
    assert sum(step.counts["reacquisitions"] for step in metrics.steps) == 0


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_summaries_that_keep_all_lose_no_needed_fact_and_empty_ones_lose_the_prompt():
    task, counter = make_task("flashcards", 1), KeepLast().counter
    kept, lost = (
        measure_session(simulate_with_cache(task, KeepLast(summarizer=f"scripted/{name}")).entries, task, counter)
        for name in ("oracle", "empty")
    )
    assert all(row.seen_after for row in kept.probes.rows)
    assert kept.metrics.wrong_uses == 0
    told_once = {fact.number for fact in lost.probes.facts if fact.said_in == "prompt"}
    first = min(row.event for row in lost.probes.rows)
    assert not any(row.seen_after for row in lost.probes.rows if row.fact in told_once and row.event == first)
    assert lost.metrics.constraint_violations


@functools.cache
def forgetful(name, world):
    task = make_task(name, 1, world)
    return measure_session(simulate_with_cache(task, KeepLast(summarizer="scripted/empty")).entries, task, KeepLast().counter)


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_an_agent_that_forgets_a_correction_uses_the_value_of_the_outdated_page():
    outdated = {fact.name for fact in make_task("spec-api", 1).facts if fact.former_patterns}
    metrics, probes = forgetful("spec-api", World())
    names = {fact.number: fact.name for fact in probes.facts}
    assert metrics.stale_uses
    assert {names[row.fact] for row in probes.rows if row.used == "stale"} <= outdated


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_violations_do_not_depend_on_how_many_facts_are_revised():
    """Check worlds with equal forgetting that differ in the values stated first."""
    sessions = [forgetful("flashcards", World(update_rate=rate)) for rate in (0.0, 0.5, 1.0)]
    assert min(metrics.constraint_violations for metrics, _ in sessions) >= 10
    assert all("constraint" in {fact.kind for fact in probes.facts} for _, probes in sessions)
