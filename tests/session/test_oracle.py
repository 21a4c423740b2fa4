"""Tests of the oracle: it predicts exactly the facts and evidence that the scripted model looks for."""

from dataclasses import replace

import pytest

from harness.compaction.presets.bounds import OracleRetention
from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.messages import assistant, system, user
from harness.errors import UsageError
from harness.experiment.preflight import check_trials
from harness.experiment.trial import Trial
from harness.protocols import Need
from harness.session.oracle import ScriptedOracle, supply_oracle
from harness.tasks import load_task
from tests.models.scripted.test_agent import FACTS, SCRIPT, START, looked, read, written

FUTURE = ScriptedOracle(FACTS, SCRIPT)


def test_facts_are_needed_by_the_next_step_that_names_them() -> None:
    assert FUTURE.predict_needs(START) == [None, Need(1, lost_for_good=True)]


def test_evidence_of_what_is_done_is_needed_at_every_step() -> None:
    assert FUTURE.predict_needs(looked()) == [None, Need(0, lost_for_good=True), None, Need(0, receipt_only=True)]


def test_a_fact_that_can_be_looked_up_is_not_lost_for_good() -> None:
    assert FUTURE.predict_needs(read())[-1] == Need(0, lost_for_good=False)


def test_a_page_with_the_old_value_does_not_bring_a_corrected_fact_back() -> None:
    for said_in, lost in (("prompt", True), ("output", True), ("file", False)):
        facts = tuple(replace(fact, revised=True, said_in=said_in) if fact.recover else fact for fact in FACTS)  # type: ignore[arg-type]
        assert ScriptedOracle(facts, SCRIPT).predict_needs(read())[-1] == Need(0, lost_for_good=lost)


def test_a_fact_that_no_open_step_names_is_needed_no_more() -> None:
    needs = FUTURE.predict_needs(written())
    assert needs[1] is None
    assert needs[5] is None


def test_only_the_newest_value_counts_and_only_one_message_for_a_step() -> None:
    revised = (*looked(), user("Sorry: the port must be 9999."), assistant("[list_directory] docs -> ok"))
    needs = FUTURE.predict_needs(revised)
    assert (needs[1], needs[4]) == (None, Need(0, lost_for_good=True))
    assert [need for need in (needs[3], needs[5]) if need] == [Need(0, receipt_only=True)]


def test_oracle_retention_is_refused_without_a_script() -> None:
    with pytest.raises(UsageError, match="a forecast of the messages"):
        supply_oracle(OracleRetention(), None, None)
    plain = KeepLast()
    assert supply_oracle(plain, None, None) is plain


def test_a_trial_with_the_oracle_passes_the_check() -> None:
    check_trials([Trial(task="flashcards", policy=OracleRetention(), window_tokens=32_768)])
    assert FUTURE.predict_needs((system("a"),)) == [None]


def test_the_oracle_of_the_suite_knows_what_the_request_holds() -> None:
    task = load_task("flashcards")(1)
    needs = ScriptedOracle(task.facts, task.script).predict_needs((system("s"), user(task.prompt)))
    assert needs[1] is not None
    assert needs[1].lost_for_good
