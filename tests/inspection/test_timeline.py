"""Tests of the numbers of a session, and of its reconstructed requests, which the digests in the log confirm."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.swe_agent import SweAgent
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.conversation.events import Entry, MessageAdded
from harness.conversation.messages import user
from harness.conversation.tokens import QuarterOfCharacters, RoundedQuarter
from harness.conversation.view import fold_all
from harness.errors import UsageError
from harness.inspection.timeline import MESSAGE_KINDS, find_counter, inspect_session, reconstruct_request
from harness.store.journal import Journal
from harness.testing.strategies import sessions, sessions_with_rollback
from tests.store.samples import ENDED, begun, compaction, finished, opening, step

POLICIES = (
    NoCompaction(),
    KeepLast(threshold=0.1, keep_last=2),
    SweAgent(keep_results=1),
    ThreeTiers(max_output_tokens=15_000, prune_at="step", protect_tokens=60, prune_minimum_tokens=30),
)
LOGS = st.sampled_from(POLICIES).flatmap(sessions)
LIVES = LOGS | st.sampled_from(POLICIES).flatmap(sessions_with_rollback)


@pytest.mark.slow
@settings(max_examples=25)
@given(LIVES)
def test_the_numbers_are_those_of_the_view_and_of_the_log(log):
    """S3.18: totals, distribution of tokens and timeline."""
    report, view = inspect_session(log), fold_all(log, find_counter(log))
    assert (report.view_tokens, report.view_messages) == (view.tokens, len(view.items))
    assert sum(share.view_tokens for share in report.shares) == view.tokens
    assert sum(share.view_messages for share in report.shares) == len(view.items)
    assert sum(share.logged_messages for share in report.shares if share.kind in MESSAGE_KINDS[:4]) == report.messages
    assert (report.summaries + report.prunings, report.totals.steps) == (view.rounds, view.steps)
    assert sum(report.events.values()) == len(log)
    assert [point.step for point in report.timeline] == list(range(1, view.steps + 1))
    assert (report.status == "active") == (log[-1].event.kind != "session-ended")


@pytest.mark.slow
@settings(max_examples=25)
@given(LIVES)
def test_the_numbers_are_those_of_the_journal(log):
    """S3.18: parts are counted as the view `parts` lists them, also after a rollback."""
    report = inspect_session(log)
    with TemporaryDirectory() as folder, Journal.open(Path(folder) / "j.sqlite") as journal:
        begun(journal, "s").append([entry.event for entry in log])
        ((parts, gone),) = journal.query("SELECT count(*), coalesce(sum(is_compacted), 0) FROM parts WHERE session_id = 's'")
        cuts = journal.query(
            """SELECT tool, count(*), sum(json_extract(data_json, '$.cut.characters')),
              iif(count(*) = count(json_extract(data_json, '$.cut.bytes')), sum(json_extract(data_json, '$.cut.bytes')), NULL)
            FROM parts WHERE type = 'tool-result' AND data_json IS NOT NULL AND NOT is_compacted GROUP BY tool ORDER BY tool"""
        )
        ((prompt, output),) = journal.query(
            "SELECT sum(input_tokens + cache_read_tokens + cache_write_tokens), sum(output_tokens) FROM step"
        )
    assert (report.parts, report.compacted_parts) == (parts, gone)
    if not gone:
        assert [tuple(cut) for cut in cuts] == list(report.totals.cuts)
        assert (report.totals.prompt_tokens, report.totals.output_tokens) == (prompt or 0, output or 0)


@pytest.mark.slow
@settings(max_examples=30)
@given(LOGS, st.integers(0, 200))
def test_a_log_that_goes_on_is_inspected_as_far_as_it_goes(log, length):
    beginning = log[:length]
    report, view = inspect_session(beginning), fold_all(beginning, find_counter(beginning))
    assert (report.view_tokens, report.totals.steps) == (view.tokens, view.steps)
    assert report.status == ("active" if len(beginning) < len(log) else report.status)


def test_summaries_and_prunings_are_counted_apart_with_their_parts(tmp_path):
    """S3.18."""
    with Journal.open(tmp_path / "j.sqlite") as journal:
        log = begun(journal)
        entries = log.append([*opening(), *step(1), *step(2), compaction(forget=[4, 5], before_step=3), *step(3), ENDED])
    report = inspect_session(entries)
    assert (report.summaries, report.prunings, report.totals.fruitless_attempts, report.compacted_parts) == (1, 0, 0, 3)
    assert [(share.kind, share.view_messages) for share in report.shares] == [
        ("system", 1),
        ("user", 1),
        ("assistant", 2),
        ("tool results", 2),
        ("summaries", 1),
    ]
    assert report.compactions[0].outcome == "summary"
    assert (report.totals.cost_usd, report.totals.summarizer_cost_usd) == (0.75, 0.125)
    assert (report.turns, report.messages, report.totals.cache_read_tokens) == (1, 8, 90 + 180 + 270)
    assert report.parts == 11 + 1 + 2 * 3 + 1, "of messages, of the summary, of the steps and of the compaction"


@pytest.mark.parametrize(
    ("policy_json", "counter"),
    [
        ('{"kind":"three-tiers"}', RoundedQuarter()),
        ('{"kind":"keep-last"}', QuarterOfCharacters()),
        ('{"kind":"recorded","source":"pi"}', QuarterOfCharacters()),
        ("not JSON", QuarterOfCharacters()),
        ("[1]", QuarterOfCharacters()),
    ],
)
def test_tokens_are_estimated_as_the_policy_of_the_session_does(policy_json, counter, tmp_path):
    with Journal.open(tmp_path / "j.sqlite") as journal:
        first, *rest = opening()
        entries = begun(journal).append([replace(first, policy_json=policy_json), *rest])
    assert find_counter(entries) == counter
    assert inspect_session(entries).view_tokens == fold_all(entries, counter).tokens


def test_an_empty_log_has_no_numbers():
    report = inspect_session([])
    assert (report.session_id, report.messages, report.view_tokens, report.shares, report.timeline) == ("", 0, 0, (), ())


@pytest.mark.slow
@settings(max_examples=25)
@given(LOGS)
def test_every_step_of_a_session_shows_the_messages_of_its_digest(log):
    steps = [entry.event for entry in log if entry.event.kind == "step-finished"]
    for logged in steps:
        sent = reconstruct_request(log, logged.step)
        assert sent.matches_log
        assert (sent.view.tokens, len(sent.view.items)) == (logged.view_tokens, logged.view_messages)
        assert len(sent.results) == len(sent.answer.calls) == logged.calls
        assert all(compaction.step == logged.step for compaction in sent.compactions)


def test_a_message_that_differs_from_the_sent_one_is_detected_by_its_digest():
    events = [*opening(), *step(1)]
    log = [Entry(seq, event) for seq, event in enumerate(events, 1)]
    honest = reconstruct_request(log, 1)
    log[5] = Entry(6, replace(finished(1), request_digest=honest.digest))
    assert reconstruct_request(log, 1).matches_log
    log[2] = Entry(3, MessageAdded(message=user("something else"), step=0))
    assert not reconstruct_request(log, 1).matches_log


@pytest.mark.parametrize("asked", [0, 3, 99])
def test_an_unfinished_step_is_refused_with_the_finished_ones(asked):
    log = [Entry(seq, event) for seq, event in enumerate([*opening(), *step(1), *step(2)], 1)]
    with pytest.raises(UsageError, match="it has steps 1 to 2"):
        reconstruct_request(log, asked)
    with pytest.raises(UsageError, match="no step has finished"):
        reconstruct_request(log[:3], 1)


def test_a_step_without_an_answer_is_a_log_that_is_not_whole():
    with pytest.raises(UsageError, match="no answer of the model"):
        reconstruct_request([Entry(1, finished(1))], 1)
