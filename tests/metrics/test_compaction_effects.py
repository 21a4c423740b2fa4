"""Tests of the effects of compactions, measured from the log of a session alone."""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.conditions import Background
from harness.compaction.presets.langchain import LangChainClear
from harness.compaction.presets.swe_agent import SweAgent
from harness.conversation.events import Compaction, Entry, ItemId, MessageAdded, Patch, Replace, SessionStarted, StepFinished
from harness.conversation.messages import assistant, system, user
from harness.conversation.tokens import Estimated, Measured, QuarterOfCharacters, Usage
from harness.conversation.view import View, fold, fold_all
from harness.metrics.compaction_effects import (
    TEXT_KINDS,
    compare_with_recency,
    describe_effects,
    list_texts,
    measure_compactions,
    measure_survival,
    summarize_effects,
)
from harness.metrics.session_metrics import measure_session
from harness.policies import KeepLast, NoCompaction
from harness.store.records import SessionMetrics
from tests.compaction.conversations import call, step
from tests.compaction.test_conditions import SMALL, make_spec, run
from tests.metrics.sessions import edited_sessions

COUNTER = QuarterOfCharacters()


def make_step(number: int, kept_messages: int, messages: int, prompt: int = 1_000, kept_tokens: int = 0) -> StepFinished:
    return StepFinished(
        step=number,
        view_tokens=Estimated(prompt),
        view_messages=messages,
        usage=Usage(input_tokens=Measured(prompt), output_tokens=Measured(0)),
        cost_usd=None,
        request_digest="",
        kept_prefix_messages=kept_messages,
        kept_prefix_tokens=Estimated(kept_tokens),
        calls=0,
        call_errors=0,
        model_seconds=1.0,
        tool_seconds=0.0,
    )


def make_log(*events) -> list[Entry]:
    start = SessionStarted(
        session_id="s", task="", model="m", policy_json="", window_tokens=0, threshold_tokens=800, budget_rule="", sandbox=""
    )
    return [Entry(seq, event) for seq, event in enumerate((start, *events), 1)]


def make_compaction(*forgotten: int, before: int, after: int, **values) -> Compaction:
    return Compaction(
        round=1,
        step=2,
        moment="step",
        status="applied",
        reason="full",
        patch=Patch(forget=tuple(ItemId(number) for number in forgotten)),
        tokens_before=Estimated(before),
        tokens_after=Estimated(after),
        messages_before=5,
        messages_after=3,
        **values,
    )


@pytest.mark.parametrize(
    ("message", "kind", "texts"),
    [
        (user("look at src/app/main.py and /etc/hosts."), "path", {"src/app/main.py", "/etc/hosts"}),
        (assistant("", call("execute_command", command="make test")), "command", {"make test"}),
        (user("port 8123, 3.25 seconds and 7 items"), "number", {"8123", "3.25"}),
        (user("see max_retries in RunConfig2 at 82f5a8c"), "identifier", {"max_retries", "RunConfig2", "82f5a8c"}),
        (assistant("I have decided to keep the cache in memory."), "decision", {"I have decided to keep the cache in memory."}),
        (user("You must never change the tests. Go on."), "user constraint", {"You must never change the tests."}),
        (user("I have decided to keep the cache in memory."), "decision", set()),
    ],
)
def test_texts_are_recognized_by_their_form_and_place(message, kind, texts):
    assert list_texts(message)[kind] == texts


PATH = re.compile(r"(?<![\w/:.])/?(?:[\w.-]+/)+[\w.-]*[\w-]")
NUMBER = re.compile(r"(?<![\w.-])\d(?:[\d,._]*\d)?(?![\w-])")
IDENTIFIER = re.compile(
    r"\b(?:[0-9a-f]{7,40}|[A-Za-z]+(?:[_-][A-Za-z0-9]+)*[_-]?\d[\w-]*|[a-z]+(?:_[a-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+)\b"
)
FRAGMENTS = st.sampled_from(
    ["src/app", "/etc", "./", "//", "deadbeef", "82f5a8c", "abc", "Run", "max_retries", "utf-8", "1,000", "3.25", ".8123", "42"]
)


@given(st.lists(FRAGMENTS | st.sampled_from("a9F_-/.,: \n\x1c\xa0é²٣'"), max_size=12).map("".join))
def test_texts_are_those_that_plain_patterns_find(text):
    rest = PATH.sub(" ", text)
    identifiers = {match[0] for match in IDENTIFIER.finditer(rest)}
    texts = list_texts(system(text))
    assert texts["path"] == {match[0] for match in PATH.finditer(text)}
    assert texts["identifier"] == identifiers
    assert texts["number"] == {match[0] for match in NUMBER.finditer(rest) if len(match[0]) >= 3} - identifiers


def test_what_a_compaction_removed_survives_only_if_a_visible_message_has_it_as_a_whole_word():
    messages = [system("s"), user("ports 8123 and 9000"), assistant("noted 81234"), user("go on: 9000")]
    before = fold_all(Entry(seq, MessageAdded(message=message, step=0)) for seq, message in enumerate(messages, 1))
    after = fold_all([*[Entry(seq, MessageAdded(message=message, step=0)) for seq, message in enumerate(messages, 1)],
                      Entry(5, make_compaction(2, before=10, after=5))])  # fmt: skip
    rows = {row.kind: row for row in measure_survival(before, after)}
    assert rows["number"][1:] == (2, 1)
    assert rows["number"].share == 0.5
    assert rows["path"].share is None


def count_survivors(log, counter):
    """Return removed and surviving texts by kind, each compaction measured from its whole views."""
    view, counts = View(), dict.fromkeys(TEXT_KINDS, (0, 0))
    for entry in log:
        before, view = view, fold(view, entry, counter)
        if isinstance(entry.event, Compaction) and entry.event.status == "applied":
            for kind, removed, kept in measure_survival(before, view):
                counts[kind] = counts[kind][0] + removed, counts[kind][1] + kept
    return {kind: pair for kind, pair in counts.items() if pair[0]}


REPEATED = st.sampled_from(
    [
        "8123",
        "81234",
        "é8123",
        "x_8123",
        "src/app.py",
        "app.py",
        "src app",
        "max_retries",
        "retries",
        "port 8123",
        "git status",
        "git\nstatus",
        "src/é.py",
        "'",
    ]
)


@given(edited_sessions(st.lists(REPEATED, min_size=1, max_size=3).map(" ".join)))
def test_what_survives_is_found_as_in_the_whole_views(session):
    survival = measure_compactions(session.entries, COUNTER).survival
    assert {row.kind: row[1:] for row in survival} == count_survivors(session.entries, COUNTER)


def test_a_command_of_several_lines_survives_where_its_words_follow_each_other():
    asked = assistant("", call("execute_command", command="make\ntest"), call("execute_command", command="make\ndocs"))
    messages = (system("s"), user("Go on."), asked, user("I ran make test."))
    log = make_log(*(MessageAdded(message=message, step=0) for message in messages), make_compaction(4, before=10, after=5))
    (row,) = [row for row in measure_compactions(log, COUNTER).survival if row.kind == "command"]
    assert row[1:] == (2, 1)


@pytest.mark.parametrize(
    "policy", [KeepLast(**SMALL), LangChainClear(trigger_tokens=500), SweAgent()], ids=lambda policy: policy.kind
)
def test_the_survival_of_a_session_is_that_of_its_compactions(policy):
    log = run(make_spec(policy=policy, max_steps=40))
    survival = count_survivors(log, policy.counter)
    assert survival
    assert {row.kind: row[1:] for row in measure_compactions(log, policy.counter).survival} == survival


def test_a_text_that_the_replacement_of_its_message_still_has_survives():
    short = Replace(item=ItemId(3), message=user("port 8123"))
    event = replace(make_compaction(before=10, after=5), patch=Patch(replace=(short,)))
    log = make_log(*(MessageAdded(message=message, step=0) for message in (system("s"), user("ports 8123 and 9000"))), event)
    (row,) = [row for row in measure_compactions(log, COUNTER).survival if row.kind == "number"]
    assert row[1:] == (2, 1)


def test_the_control_keeps_the_newest_messages_with_as_many_tokens_as_stay():
    old, middle, new = "old 11111 " + "x" * 100, "middle 22222 " + "y" * 90, "new 33333 " + "z" * 100
    messages = [system("s"), user("build it"), assistant(old), user(middle), assistant(new)]
    log = [Entry(seq, MessageAdded(message=message, step=0)) for seq, message in enumerate(messages, 1)]
    before = fold_all(log)
    after = fold_all([*log, Entry(6, make_compaction(4, before=95, after=60))])
    rows = {row.kind: row for row in compare_with_recency(before, after)}
    assert rows["number"][1:] == (3, 2, 2), "11111 and 33333 stay, and the control has 22222 and 33333"
    tighter = fold_all([*log, Entry(6, make_compaction(4, 5, before=95, after=32))])
    rows = {row.kind: row for row in compare_with_recency(before, tighter)}
    assert rows["number"][1:] == (3, 1, 1)


def test_prefixes_triggers_floors_and_steps_to_resume_are_counted():
    texts = [MessageAdded(message=message, step=0) for message in (system("s"), user("u" * 400), assistant("a" * 400))]
    red = [MessageAdded(message=message, step=1) for message in step(1, "exit code 1\nbad", key="pytest -q")]
    again = [MessageAdded(message=message, step=2) for message in step(2, "exit code 1\nbad", key="pytest -q")]
    new = MessageAdded(message=assistant("", call("write_file", path="a.py", content="x")), step=3)
    log = make_log(
        *texts,
        *red,
        make_step(1, 0, 3),
        make_compaction(3, before=210, after=100, summarizer_seconds=2.5, summarizer="m"),
        *again,
        make_step(2, 1, 4, kept_tokens=50),
        new,
        make_step(3, 4, 6, kept_tokens=60),
        make_compaction(4, before=200, after=190),
    )
    effects = measure_compactions(log, COUNTER)
    assert effects.trigger_errors == (1.25, 1.25)
    assert effects.freed_shares == pytest.approx((1 - 100 / 210, 0.05))
    assert (effects.floor_growth_tokens, effects.cycles_to_stuck) == (90, 1)
    assert (effects.prefix_breaks, effects.prefix_breaks_per_100_steps) == (1, 50)
    assert len(effects.prefix_shares) == 1
    assert 0 < effects.prefix_shares[0] < 1
    assert effects.resume_steps == (1,)
    assert (effects.cuts_in_loop, effects.duplicate_calls, effects.blocking_seconds) == (2, 1, 2.5)
    rows = dict(describe_effects(effects))
    assert "stuck after 1" in rows["freed"]
    assert rows["resumed"] == "after 1 steps, 1 calls were made twice; 2 of 2 compactions while tests failed"


EFFECTS = (
    *("path_survival", "command_survival", "number_survival", "identifier_survival", "decision_survival"),
    *("user_constraint_survival", "freed_share", "floor_growth_tokens", "cycles_to_stuck", "prefix_breaks_per_100_steps"),
    *("stable_prefix_share", "blocking_seconds", "trigger_error", "duplicate_calls", "resume_steps", "cuts_in_loop"),
)


@pytest.mark.slow
def test_metrics_of_a_session_are_the_effects_that_its_log_shows():
    log = run(make_spec(policy=KeepLast(**SMALL)))
    metrics = measure_session(log, None, COUNTER).metrics
    effects = measure_compactions(log, COUNTER)
    columns = summarize_effects(effects)
    assert tuple(columns) == EFFECTS
    assert {name: getattr(metrics, name) for name in EFFECTS} == columns
    assert columns["freed_share"] == pytest.approx(sum(effects.freed_shares) / len(effects.freed_shares))
    assert columns["path_survival"] == next(row.share for row in effects.survival if row.kind == "path")
    assert columns["blocking_seconds"] == effects.blocking_seconds
    assert effects.blocking_seconds


def test_a_compaction_of_another_agent_without_a_duration_has_no_time_to_wait():
    timed = make_compaction(3, before=210, after=100, summarizer_seconds=2.5, summary="S", reported_tokens_before=900)
    untimed = make_compaction(3, before=210, after=100, summary="S", reported_tokens_before=900)
    message = MessageAdded(message=user("go"), step=0)
    opening = (MessageAdded(message=system("be good"), step=0), message, message)
    effects = [measure_compactions(make_log(*opening, event), COUNTER) for event in (timed, untimed)]
    assert [one.blocking_seconds for one in effects] == [2.5, None]
    assert "waited" not in dict(describe_effects(effects[1]))


def test_what_was_not_measured_has_no_value_instead_of_0():
    columns = summarize_effects(measure_compactions(make_log(make_step(1, 0, 3)), COUNTER))
    assert {name for name, value in columns.items() if value is not None} == {"duplicate_calls"}
    assert all(getattr(SessionMetrics(), name) is None for name in EFFECTS)


def test_a_session_without_compactions_has_no_rows():
    effects = measure_compactions(make_log(make_step(1, 0, 3)), COUNTER)
    assert (effects.floor_growth_tokens, effects.cycles_to_stuck, effects.prefix_breaks_per_100_steps) == (None, None, None)
    assert list(describe_effects(effects)) == []


@pytest.mark.slow
def test_an_append_only_session_breaks_no_prefix_and_a_background_summary_blocks_less():
    plain = measure_compactions(run(make_spec(policy=NoCompaction(), window_tokens=40_000, max_steps=40)), COUNTER)
    assert (plain.prefix_breaks, plain.steps) == (0, 40)
    waiting = measure_compactions(run(make_spec(policy=KeepLast(**SMALL))), COUNTER)
    background = measure_compactions(run(make_spec(policy=KeepLast(when=(Background(),), **SMALL))), COUNTER)
    assert background.blocking_seconds is not None
    assert waiting.blocking_seconds is not None
    assert 0 <= background.blocking_seconds < waiting.blocking_seconds
    assert waiting.prefix_breaks >= len(waiting.floors_tokens) > 0
    assert all(0.5 < error < 2 for error in waiting.trigger_errors)
    assert all(0 <= row.kept <= row.removed for row in waiting.survival)
    assert not math.isnan(waiting.floor_growth_tokens or 0.0)
