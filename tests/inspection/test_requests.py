"""What was sent at a step: the very messages, which the digest in the log proves."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from harness.errors import UsageError
from harness.events import Entry, MessageAdded
from harness.inspection.requests import reconstruct_request
from harness.messages import user
from tests.inspection.test_timeline import LOGS
from tests.store.samples import finished, opening, step


@settings(max_examples=25)
@given(LOGS)
def test_every_step_of_a_session_shows_the_messages_of_its_digest(log):
    steps = [entry.event for entry in log if entry.event.kind == "step-finished"]
    for logged in steps:
        sent = reconstruct_request(log, logged.step)
        assert sent.matches_log
        assert (sent.view.tokens, len(sent.view.items)) == (logged.view_tokens, logged.view_messages)
        assert len(sent.results) == len(sent.answer.calls) == logged.calls
        assert all(one.step == logged.step for one in sent.compactions)


def test_a_message_that_is_not_what_was_sent_is_seen():
    events = [*opening(), *step(1)]
    log = [Entry(seq, event) for seq, event in enumerate(events, 1)]
    honest = reconstruct_request(log, 1)
    log[5] = Entry(6, replace(finished(1), request_digest=honest.digest))
    assert reconstruct_request(log, 1).matches_log
    log[2] = Entry(3, MessageAdded(message=user("something else"), step=0))
    assert not reconstruct_request(log, 1).matches_log


@pytest.mark.parametrize("asked", [0, 3, 99])
def test_a_step_that_was_not_finished_is_refused_by_what_there_is(asked):
    log = [Entry(seq, event) for seq, event in enumerate([*opening(), *step(1), *step(2)], 1)]
    with pytest.raises(UsageError, match="it has steps 1 to 2"):
        reconstruct_request(log, asked)
    with pytest.raises(UsageError, match="it finished none"):
        reconstruct_request(log[:3], 1)


def test_a_step_without_an_answer_is_a_log_that_is_not_whole():
    with pytest.raises(UsageError, match="no answer of a model"):
        reconstruct_request([Entry(1, finished(1))], 1)
