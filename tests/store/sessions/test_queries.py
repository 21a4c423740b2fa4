"""Queries over a journal (S0.7, S3.13) agree with the view that is folded from the log."""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.swe_agent import SweAgent
from harness.conversation.events import Compaction
from harness.conversation.messages import extract_part_text
from harness.conversation.view import fold_all
from harness.errors import StoreError
from harness.session.totals import TOTALLED_KINDS, SessionTotals
from harness.store.journal import Journal
from harness.store.sessions import queries
from harness.testing.strategies import sessions
from tests.store.samples import ENDED, begun, compaction, opening, step, trial

STEP_PARTS = {"step-start", "step-finish", "patch"}
LONG = "x" * 20_000 + " the Needle " + "y" * 20_000
LOGS = st.sampled_from([KeepLast(threshold=0.1, keep_last=2), SweAgent(keep_results=1)]).flatmap(sessions)


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        events = [*opening("s"), *step(1, LONG), *step(2), compaction(forget=[4, 5], before_step=3), *step(3), ENDED]
        begun(journal, "s", created_at_ms=7).append(events)
        journal.record_trial(trial("t", "s"))
        begun(journal, "other", created_at_ms=9).append(opening("other"))
        yield journal


def shown(message):
    """Return the text of a message as SQLite shows it, which ends at a NUL."""
    return "\n".join(extract_part_text(part).partition("\0")[0] for part in message.parts)


@pytest.mark.slow
@settings(max_examples=25)
@given(LOGS)
def test_messages_parts_and_compactions_are_those_of_the_log(log):
    view = fold_all(log)
    with TemporaryDirectory() as folder, Journal.open(Path(folder) / "j.sqlite") as journal:
        begun(journal).append([entry.event for entry in log])
        active = queries.list_messages(journal, "s", active=True)
        everything = queries.list_messages(journal, "s")
        rounds = journal.query("SELECT round, coalesce(summary_content, ''), tokens_after FROM compaction_events ORDER BY round")
        whole = [queries.read_message(journal, row.message_id) for row in active]
    assert [(row.role, row.content, row.tokens) for row in active] == [
        (item.message.role, shown(item.message), item.tokens) for item in view.items
    ]
    assert [row.sequence for row in everything] == list(range(1, len(everything) + 1))
    assert {row.message_id for row in everything if not row.is_compacted} == {row.message_id for row in active}
    spoken = [[part.text for part in row.parts if part.type not in STEP_PARTS] for row in whole]
    assert ["\n".join(texts) for texts in spoken] == [shown(item.message) for item in view.items]
    applied = [entry.event for entry in log if isinstance(entry.event, Compaction) and entry.event.status == "applied"]
    assert len(applied) == view.rounds
    assert [tuple(row) for row in rounds] == [(place, one.summary, one.tokens_after) for place, one in enumerate(applied, 1)]


def test_sessions_are_listed_newest_first_with_what_they_took(journal):
    newest, older = queries.list_sessions(journal)
    assert (newest.session_id, newest.status, newest.trial_id) == ("other", "active", "")
    assert (older.session_id, older.trial_id, older.arm, older.reason) == ("s", "t", "keep-last 0.8", "replied")
    assert (older.messages, older.events) == (8, 14)
    assert (older.created_at_ms, older.updated_at_ms > older.created_at_ms, older.task) == (7, True, "build it")


@pytest.mark.slow
@settings(max_examples=25)
@given(LOGS)
def test_the_events_that_change_totals_have_the_totals_of_the_whole_log(log):
    with TemporaryDirectory() as folder, Journal.open(Path(folder) / "j.sqlite") as journal:
        begun(journal).append([entry.event for entry in log])
        whole, chosen = SessionTotals(), SessionTotals()
        for totals, kinds in ((whole, ()), (chosen, TOTALLED_KINDS)):
            for entry in journal.read_entries("s", kinds=kinds):
                totals(entry)
    assert chosen.event_count <= whole.event_count == len(log)
    assert chosen.cuts == ()
    assert replace(chosen, event_count=0, end_event=None) == replace(whole, event_count=0, end_event=None, cuts=())


def test_a_session_has_the_totals_of_its_steps(journal):
    totals = SessionTotals()
    for entry in journal.read_entries("s", kinds=TOTALLED_KINDS):
        totals(entry)
    assert (totals.steps, totals.compactions, totals.prompt_tokens, totals.cost_usd) == (3, 1, 103 + 193 + 283, 0.75)


def test_a_message_is_given_whole_with_its_parts_and_their_state(journal):
    answer = queries.read_message(journal, "s/3")
    assert [(part.type, part.tool, part.state) for part in answer.parts] == [
        ("step-start", "", ""),
        ("text", "", ""),
        ("tool", "execute_command", "compacted"),
        ("step-finish", "", ""),
    ]
    assert json.loads(answer.parts[-1].data_json)["cost"] == 0.25
    assert queries.read_message(journal, "s/4").content == LONG
    for name in ("s/3", "s/000003"):
        assert [part.part_id for part in queries.list_parts(journal, name)] == [f"s/000003/{number:04}" for number in range(4)]


def test_search_ignores_case_and_covers_packed_and_compacted_texts_and_summaries(journal):
    (hit,) = queries.search(journal, "THE NEEDLE")
    assert (hit.message_id, hit.role, hit.tool, hit.is_compacted) == ("s/000004", "tool", "execute_command", True)
    assert hit.excerpt == f"…{'x' * 59} the Needle {'y' * 59}…"
    assert [hit.role for hit in queries.search(journal, "what was done")] == ["assistant"]
    assert list(queries.search(journal, "t.e needle")) == [], "it is no pattern"
    assert len({hit.session_id for hit in queries.search(journal, "be good")}) == 2


@pytest.mark.parametrize("name", ["s/99", "s/", "s", "/3", "", "s/3/0", "s/¹", "s/99999999999999999999"])
def test_a_message_that_is_not_there_is_refused(journal, name):
    with pytest.raises(StoreError, match="has no message"):
        queries.read_message(journal, name)
    assert queries.list_parts(journal, name) == ()


def test_a_session_that_is_not_there_is_refused(journal):
    with pytest.raises(StoreError, match="has no session 'nobody'"):
        queries.list_messages(journal, "nobody")
