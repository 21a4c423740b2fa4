"""Tests of autopsies: they agree with the probes, the checks and the messages of a session."""

import dataclasses
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import RolledBack
from harness.errors import UsageError
from harness.inspection.autopsy import (
    NO_FACTS,
    NO_TASK,
    OUTCOMES,
    _describe_failed,
    build_autopsy,
    describe_action,
    describe_check,
    describe_compaction,
    describe_kept,
    describe_outcome,
    list_kept,
)
from harness.inspection.disposition import classify_messages
from harness.metrics.session_metrics import measure_session
from harness.models.scripted.visible_state import FactReader, extract_searchable_text
from harness.session.twins import CheckCause
from harness.store.records import CheckRecord
from harness.task import Check
from harness.task_checks.simulation import ScriptedModelSpec
from harness.tasks import make_task
from tests.laws.suite import simulate_with_cache
from tests.metrics.sessions import COUNTER, Session
from tests.metrics.test_session_metrics import TASK
from tests.store.samples import finished

CHECKED = dataclasses.replace(
    TASK,
    checks=(
        Check(name="conf", title="conf has the port", required_facts=("port",)),
        Check(name="rows", title="conf names port and table", required_facts=("port", "table")),
        Check(name="style", title="the code is tidy"),
    ),
)
READER = FactReader(TASK.facts, "exact")


class SteppedSession(Session):
    """Session whose log also has the end of each step."""

    def calls(self, *given):
        event = super().calls(*given)
        self.add(finished(self.step))
        return event

    def reply(self, text):
        event = super().reply(text)
        self.add(finished(self.step))
        return event


def check(name, passed=False):
    (title,) = (check.title for check in CHECKED.checks if check.name == name)
    return CheckRecord(trial_id="t", check=name, title=title, passed=passed, detail="as it is")


def examine(session, checks=None, task=CHECKED):
    return build_autopsy(session.entries, task, COUNTER, checks=checks)


def fates(session, number=1, **options):
    return {fate.name: fate for fate in examine(session, **options).find_compaction(number).fates}


_SUMMARIES = ["", "the port is 4711", "the port was told"]
_ACTS = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(["the port is 4711", "now the port is 99", "Go on."])),
    st.tuples(st.just("reply"), st.sampled_from(["Hm.", "the port is 4711"])),
    st.tuples(st.just("look"), st.sampled_from(["the table `learners`", "the table `decks`", "nothing"])),
    st.tuples(st.just("list"), st.just("docs.md")),
    st.tuples(st.just("write"), st.sampled_from(["port=4711 table=learners", "port=80 table=learners", "port=4711 table=cards"])),
    st.tuples(st.just("compact"), st.tuples(st.sampled_from(["all", "odd", "old"]), st.booleans(), st.sampled_from(_SUMMARIES))),
)  # fmt: skip


@st.composite
def sessions(draw):
    """Generate sessions that state, lose, look up and use the facts of the task."""
    session = SteppedSession(task=TASK.prompt)
    for deed, about in draw(st.lists(_ACTS, max_size=30)):
        match deed:
            case "look":
                session.read("docs.md", about)
            case "list":
                session.call("list_directory", f"file  {about}", path=".")
            case "write":
                session.write("conf", about)
            case "compact":
                which, replaces, summary = about
                shown = [entry.seq for entry in session.entries if entry.event.kind == "message-added"][1:]
                gone = {"all": shown, "odd": shown[::2], "old": shown[:-2]}[which]
                session.compact(*gone[::2] if replaces else gone, replace=gone[1::2] if replaces else (), summary=summary)
            case _:
                getattr(session, deed)(about)
    return session


@given(sessions())
def test_fates_are_the_rows_of_the_table_of_probes(session):
    probes = measure_session(session.entries, TASK, COUNTER).probes
    names = {fact.number: fact.name for fact in probes.facts}
    rows = {(row.event, names[row.fact]): row for row in probes.rows if row.seen_before}
    autopsy = examine(session)
    fates_by_key = {(compaction.event, fate.name): fate for compaction in autopsy.compactions for fate in compaction.fates}
    assert fates_by_key.keys() == rows.keys()
    for key, fate in fates_by_key.items():
        row = rows[key]
        assert fate.is_kept == row.seen_after
        assert (fate.use.step if fate.use else None, fate.use.use if fate.use else None) == (row.used_step, row.used)
        if fate.outcome in ("right", "wrong", "stale"):
            assert fate.outcome == row.used
        if row.used is None:
            assert fate.outcome in ("looked up", "stated again", "lost later", "unused")
        assert (fate.outcome == "lost later") == (fate.lost_by_round is not None)
        assert fate.outcome != "lost later" or fate.is_kept


@given(sessions())
def test_a_fate_quotes_the_value_and_what_was_done_to_its_message(session):
    for compaction in examine(session).compactions:
        done = {message.item_id: message for message in classify_messages(compaction.attempt)}
        texts_after = [extract_searchable_text(item.message) for item in compaction.attempt.after.items]
        for fate in compaction.fates:
            assert fate.before.value == fate.value
            holders = [
                message.disposition
                for message in done.values()
                if message.disposition != "summary" and fate.value in READER.find_values(message.message).get(fate.name, ())
            ]
            assert fate.is_kept or fate.action == holders[-1]
            if fate.is_kept:
                assert fate.after is not None
                assert fate.after.value == fate.value
            if fate.action == "kept":
                assert "kept" in holders
            if fate.after is not None:
                quote = f"{fate.after.text_before}{fate.after.value}{fate.after.text_after}"
                assert any(quote in text for text in texts_after)
            assert describe_outcome(fate)
            assert not (fate.is_kept and describe_action(fate))


@given(sessions())
def test_strips_agree_with_the_compactions_and_count_every_use(session):
    autopsy = examine(session)
    strips = {strip.name: strip for strip in autopsy.strips}
    metrics = measure_session(session.entries, TASK, COUNTER).metrics
    marks = Counter(mark.kind for strip in autopsy.strips for mark in strip.marks)
    assert marks["right"] + marks["wrong"] + marks["stale"] == (metrics.fact_uses or 0)
    assert marks["stale"] == (metrics.stale_uses or 0)
    for strip in autopsy.strips:
        ends = [(span.start, span.end) for span in strip.spans]
        assert all(start < end for start, end in ends)
        assert all(one[1] < other[0] for one, other in pairwise(ends))
        assert [span.visibility for span in strip.spans[1:]] == ["in view again"] * len(strip.spans[1:])
    for compaction in autopsy.compactions:
        later = [other for other in autopsy.compactions if other.event > compaction.event]
        if compaction.step_index >= len(autopsy.steps) or any(other.step_index == compaction.step_index for other in later):
            continue  # no request shows what this compaction left
        for fate in compaction.fates:
            spans = strips[fate.name].spans if fate.name in strips else ()
            is_visible = any(span.start <= compaction.step_index < span.end for span in spans)
            is_restated = fate.appearance is not None and fate.appearance.role in ("user", "summary")
            assert is_visible == fate.is_kept or is_restated


@given(sessions(), st.sets(st.sampled_from(["conf", "rows", "style"])))
def test_failed_checks_are_traced_to_compactions_that_lost_their_facts(session, failed):
    records = [check(one.name, one.name not in failed) for one in CHECKED.checks]
    autopsy = examine(session, records)
    assert {one.name for one in autopsy.failed_checks or ()} == failed
    for one in autopsy.failed_checks or ():
        (required,) = (known.required_facts for known in CHECKED.checks if known.name == one.name)
        assert sorted(cause.name for cause in one.causes) == sorted(required)
        for cause in one.causes:
            losses = [fate for compaction in autopsy.compactions for fate in compaction.lost if fate.name == cause.name]
            assert (cause.round is None) == (not losses)
            if cause.round is not None:
                gravest = min(losses, key=lambda fate: (fate.is_used_right, OUTCOMES.index(fate.outcome)))
                assert (cause.is_used_right, cause.outcome) == (gravest.is_used_right, gravest.outcome)
                lost = {fate.name: fate for fate in autopsy.find_compaction(cause.round).lost}
                assert one.title in lost[cause.name].failed_checks
    for compaction in autopsy.compactions:
        assert set(compaction.failed_checks) == {
            title for fate in compaction.lost for title in fate.failed_checks
        }  # the sentence counts each check once
        unused_right = {title for fate in compaction.lost if not fate.is_used_right for title in fate.failed_checks}
        assert set(compaction.explained_checks) == unused_right


def test_a_lost_fact_that_is_used_wrong_is_told_with_its_call_and_check():
    session = SteppedSession(task=TASK.prompt)
    session.reply("I begin.")
    session.compact(3)
    session.write("conf", "port=80 table=learners")
    session.write("conf", "port=4711 table=learners")
    autopsy = examine(session, [check("conf"), check("style")])
    compaction = autopsy.find_compaction(1)
    (port,) = compaction.fates
    assert (port.before.label, port.action, port.outcome) == ("request", "dropped", "wrong")
    assert describe_outcome(port) == [
        "wrong at step 2",
        "write_file conf: used 80, right is 4711",
        "source of 80: a guess; no message in view states it for port",
        "failed: conf has the port",
    ]
    assert describe_compaction(compaction) == (
        "1 of 1 fact lost; 1 later used wrong, at step 2. 1 failed check rests on facts lost here."
    )
    assert [describe_check(one) for one in autopsy.failed_checks or ()] == [
        "port: lost by compaction 1, used wrong at step 2",
        "needs no fact",
    ]
    (strip, _) = autopsy.strips
    assert [(span.start, span.end) for span in strip.spans] == [(0, 1)]
    assert [(mark.step_index, mark.kind, mark.value) for mark in strip.marks] == [(1, "wrong", "80"), (2, "right", "4711")]


def test_a_look_up_is_counted_with_the_listing_before_it_but_not_with_other_calls():
    session = SteppedSession(task="Begin.")
    shown = session.read("docs.md", "Rows live in the table `learners`.")
    session.compact(shown - 1, shown)
    session.call("list_directory", "file  docs.md", path=".")
    session.run("make")
    session.call("list_directory", "file  docs.md", path=".")
    session.read("docs.md", "Rows live in the table `learners`.")
    session.write("conf", "port=1 table=learners")
    table = fates(session)["table"]
    assert table.outcome == "looked up"
    results = [entry.event.message for entry in session.entries if getattr(getattr(entry.event, "message", None), "results", ())]
    listing, page = map(COUNTER.count, results[3:5])
    assert describe_outcome(table) == [
        "looked up again at step 5",
        f"+2 calls, +{listing + page} tokens",
        "then used right at step 6",
    ]
    assert table.appearance.step_index == 4


def test_a_call_that_shows_two_lost_facts_counts_once_in_the_sentence():
    session = SteppedSession(task="Begin.")
    shown = session.read("docs.md", "The port is 4711. Rows live in the table `learners`.")
    session.compact(shown - 1, shown)
    session.read("docs.md", "The port is 4711. Rows live in the table `learners`.")
    sentence = describe_compaction(examine(session).find_compaction(1))
    assert sentence.startswith("2 of 2 facts lost; 2 looked up again, +1 call, +")


def test_a_fact_that_a_later_compaction_removes_is_no_fault_of_the_earlier_one():
    session = SteppedSession(task=TASK.prompt)
    session.reply("I begin.")
    session.compact()
    session.reply("I go on.")
    session.compact(3)
    session.write("conf", "port=80 table=learners")
    assert fates(session, 1)["port"].outcome == "lost later"
    assert describe_outcome(fates(session, 1)["port"]) == ["in view until compaction 2"]
    assert fates(session, 2)["port"].outcome == "wrong"
    assert describe_compaction(examine(session).find_compaction(1)) == "The fact in view was kept."


@pytest.mark.parametrize(
    ("summary", "action", "quoted"),
    [
        ("The port is open.", "the value is gone", ""),
        ("It listens on 4711.", "the value is there, in words that the task does not know", "4711"),
        ("So far so good.", "", None),
    ],
)
def test_the_line_of_a_summary_that_is_about_a_lost_fact_is_quoted(summary, action, quoted):
    session = SteppedSession(task=TASK.prompt)
    session.reply("I begin.")
    session.compact(3, summary=summary)
    port = fates(session)["port"]
    assert (describe_action(port), port.after and port.after.value) == (action, quoted)


def test_events_that_were_rolled_back_do_not_count():
    session = SteppedSession(task=TASK.prompt)
    session.reply("I begin.")
    end = len(session.entries)
    session.compact(3)
    session.write("conf", "port=80 table=learners")
    session.add(RolledBack(step=1, to_event=end))
    autopsy = examine(session)
    assert (autopsy.compactions, len(autopsy.steps)) == ((), 1)
    assert autopsy.strips[0].marks == ()


@pytest.mark.parametrize(("task", "notice"), [(None, NO_TASK), (dataclasses.replace(TASK, facts=()), NO_FACTS)])
def test_without_facts_the_compactions_remain_and_the_view_says_so(task, notice):
    session = SteppedSession(task=TASK.prompt)
    session.reply("I begin.")
    session.compact(3)
    autopsy = examine(session, task=task)
    assert (autopsy.notice, autopsy.strips, autopsy.failed_checks) == (notice, (), None)
    assert autopsy.find_compaction(1).fates == ()
    assert [message.disposition for message in classify_messages(autopsy.find_compaction(1).attempt)][1] == "dropped"


@pytest.mark.parametrize(("compactions", "number"), [(0, 1), (1, 2), (2, 7)])
def test_a_compaction_beyond_the_last_is_refused_in_words(compactions, number):
    session = SteppedSession(task=TASK.prompt)
    for _ in range(compactions):
        session.reply("I begin.")
        session.compact()
    expected = {0: "no compaction was applied", 1: "only number 1", 2: "from 1 to 2"}[compactions]
    with pytest.raises(UsageError, match=expected):
        examine(session).find_compaction(number)


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_in_a_whole_session_every_failed_check_of_one_wrong_fact_leads_to_its_compaction():
    task, policy = make_task("flashcards", 0), KeepLast(threshold=0.6)
    run = simulate_with_cache(task, policy, window_tokens=16_384, model_spec=ScriptedModelSpec("scripted:typical"))
    probes = measure_session(run.entries, task, policy.counter).probes
    records = [
        CheckRecord(trial_id="t", check=one.name, title=one.title, passed=one.name not in run.failed_checks)
        for one in task.checks
    ]
    autopsy = build_autopsy(run.entries, task, policy.counter, checks=records)
    lost = sum(row.seen_before and not row.seen_after for row in probes.rows)
    assert sum(len(compaction.lost) for compaction in autopsy.compactions) == lost > 0
    wrong = {fate.name for compaction in autopsy.compactions for fate in compaction.lost if fate.outcome == "wrong"}
    assert wrong
    for one in autopsy.failed_checks or ():
        if wrong & {cause.name for cause in one.causes}:
            assert one.causes[0].outcome == "wrong"
            assert one.causes[0].round is not None


@given(sessions())
def test_a_replay_says_when_the_session_needs_a_fact_and_not_what_the_agent_would_have_used(session):
    recorded = examine(session)
    replay = build_autopsy(session.entries, CHECKED, COUNTER, is_replay=True)
    for one, other in zip(recorded.compactions, replay.compactions, strict=True):
        uses = {fate.name: (fate.outcome, fate.is_kept) for fate in one.fates}
        for fate in other.fates:
            outcome, is_kept = uses[fate.name]
            assert fate.is_kept == is_kept
            assert fate.outcome == ("needed" if outcome in ("right", "wrong", "stale") else outcome)
            assert not any("used" in line for line in describe_outcome(fate, is_replay=True)[1:])
    assert {mark.kind for strip in replay.strips for mark in strip.marks} <= {"needed", "looked up"}


@given(sessions())
def test_a_session_keeps_exactly_what_it_shows_when_compared_with_itself(session):
    autopsy = examine(session)
    strips = {strip.name: strip for strip in autopsy.strips}
    for compaction in autopsy.compactions:
        kept = list_kept(compaction, autopsy)
        for fate in compaction.lost:
            spans = strips[fate.name].spans if fate.name in strips else ()
            assert (fate.name in kept) == any(span.start <= compaction.step_index < span.end for span in spans)


def test_another_policy_is_compared_at_the_step_of_the_compaction():
    session, other = SteppedSession(task=TASK.prompt), SteppedSession(task=TASK.prompt)
    for one in (session, other):
        one.read("docs.md", "Rows live in the table `learners`.")
    session.compact(3, 4, 5)
    other.compact(3)
    for one in (session, other):
        one.reply("I go on.")
    compaction = examine(session).find_compaction(1)
    assert list_kept(compaction, examine(other)) == ("table",)
    assert describe_kept(compaction, examine(other), "the recorded session") == (
        "Compaction 1 of the recorded session, before step 2, lost 2 of 2 facts; this policy would have kept 1 of the 2."
    )


def test_the_first_consequence_counts_and_not_a_later_one():
    session = SteppedSession(task="Begin.")
    shown = session.read("docs.md", "Rows live in the table `learners`.")
    session.compact(shown - 1, shown)
    session.write("conf", "port=1 table=cards")
    again = session.read("docs.md", "Rows live in the table `learners`.")
    session.compact()
    session.write("conf", "port=1 table=learners")
    session.compact(again - 1, again)
    assert fates(session, 1)["table"].outcome == "wrong"
    assert fates(session, 2)["table"].outcome == "right"
    assert fates(session, 3)["table"].outcome == "unused"


def test_of_several_losses_the_gravest_explains_a_failed_check():
    session = SteppedSession(task="Begin.")
    shown = session.read("docs.md", "Rows live in the table `learners`.")
    session.compact(shown - 1, shown)
    again = session.read("docs.md", "Rows live in the table `learners`.")
    session.compact(again - 1, again)
    session.write("conf", "port=1 table=cards")
    (failed,) = examine(session, [check("rows")]).failed_checks
    assert describe_check(failed) == "table: lost by compaction 2, used wrong at step 3; port: not lost by a compaction"


def test_checks_with_the_same_result_of_twins_share_a_phrase():
    causes = [
        CheckCause(name, f"the {name}", 0, passed, 8) for name, passed in (("port", 8), ("note", 8), ("log", 7), ("rest", 0))
    ]
    assert _describe_failed(["the port", "the note", "the log", "the rest"], ["the port"], causes) == (
        "3 checks failed by it (the port, the note: passed by 8 of 8 twins with the lost facts put back, by 0 as it was; "
        "the log: passed by 7 of 8 twins with the lost facts put back, by 0 as it was). "
        "1 more failed check needs facts lost here, but did not fail by it: with the facts put back, twins have the same result."
    )


def test_a_lost_fact_that_was_then_used_right_explains_no_failed_check():
    session = SteppedSession(task="Begin.")
    shown = session.read("docs.md", "Rows live in the table `learners`.")
    session.compact(shown - 1, shown)
    session.read("docs.md", "Rows live in the table `learners`.")
    session.write("conf", "port=80 table=learners")
    autopsy = examine(session, [check("rows")])
    compaction = autopsy.find_compaction(1)
    assert describe_compaction(compaction).endswith("1 failed check needs facts lost here that were then used right.")
    assert compaction.explained_checks == ()
    (table,) = compaction.lost
    assert describe_outcome(table)[-1] == "then used right at step 3"
    (failed,) = autopsy.failed_checks
    assert describe_check(failed).startswith("table: lost by compaction 1, looked up again at step 2, then used right;")


@pytest.mark.parametrize(
    ("read", "source"),
    [
        ("The old decks are gone.", "perhaps step 2, output of read_file other.md, in view, which contains it"),
        ("Nothing.", "a guess; no earlier message states it"),
    ],
)
def test_the_source_of_a_wrong_value_is_named(read, source):
    session = SteppedSession(task="Begin.")
    shown = session.read("docs.md", "Rows live in the table `learners`.")
    session.compact(shown - 1, shown)
    session.read("other.md", read)
    session.write("conf", "port=80 table=decks")
    uses = [fate.use for fate in fates(session).values() if fate.name == "table"]
    assert [use.origin for use in uses if use] == [source]


def test_an_own_statement_is_the_source_of_a_wrong_value():
    session = SteppedSession(task="Begin.")
    shown = session.read("docs.md", "Rows live in the table `learners`.")
    session.compact(shown - 1, shown)
    session.reply("I take the table `decks`.")
    session.write("conf", "port=80 table=decks")
    use = fates(session)["table"].use
    assert use is not None
    assert use.origin == "step 2, the agent, which states it for table"
