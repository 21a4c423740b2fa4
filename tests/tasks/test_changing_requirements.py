"""The task `changing-requirements`: only the newest rule is right, and an agent that loses it writes the outdated one."""

import functools
import re

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.events import MessageAdded
from harness.task import Fact, Task
from harness.tasks.changing_requirements import make_changing_requirements
from harness.tasks.changing_requirements.facts import FACTS, STOPS, draw_values
from harness.tasks.changing_requirements.steps import SHEETS_BEFORE_FIRST_CHANGE, SHEETS_BEFORE_SECOND_CHANGE
from harness.testing.laws.simulation import HUGE_WINDOW_TOKENS, Run, rewrite_facts, simulate

REVISED = [fact for fact in FACTS if fact.kind == "superseded"]


@functools.cache
def task(seed: int = 1) -> Task:
    return make_changing_requirements(seed)


@functools.cache
def plain() -> Run:
    return simulate(task(), NoCompaction(), window_tokens=HUGE_WINDOW_TOKENS)


def read(fact: Fact, text: str) -> list[str]:
    return [value for pattern in fact.patterns for value in re.findall(pattern, text)]


@pytest.mark.parametrize("seed", range(50))
def test_a_revised_rule_is_told_by_each_message_with_another_value_and_last_with_its_own(seed: int) -> None:
    here, values = task(seed), draw_values(seed)
    texts = (here.prompt, *(late.text for late in here.later_messages))
    told = {fact.name: [value for text in texts for value in read(fact, text)] for fact in REVISED}
    assert told["interval"] == [values["interval_1"], values["interval_2"], values["interval"]]
    for fact in REVISED:
        assert told[fact.name][-1] == here.values[fact.name]
        assert len({*told[fact.name], fact.prior}) == len(told[fact.name]) + 1


@pytest.mark.bubblewrap
def test_the_user_speaks_up_when_so_many_sheets_are_written_and_before_they_are_set_anew() -> None:
    seen = []
    written: set[str] = set()
    for event in plain().list_events(MessageAdded):
        written |= {stop for call in event.message.calls for stop in STOPS if f'"sheets/{stop}.txt"' in call.arguments_json}
        if event.message.role == "user":
            seen.append((len(written), sum("revise.sh" in call for _, call in plain().calls[: event.step])))
    assert [count for count, _ in seen] == [0, SHEETS_BEFORE_FIRST_CHANGE, SHEETS_BEFORE_SECOND_CHANGE]
    assert seen[1][1] == 0


@pytest.mark.bubblewrap
def test_sheets_of_the_old_rules_are_set_anew() -> None:
    for stop in STOPS:
        lines = plain().files[f"sheets/{stop}.txt"].splitlines()
        assert f"interval: {task().values['interval']}" in lines
        assert ("changed in round 2" in lines[-1]) == (stop in STOPS[:SHEETS_BEFORE_SECOND_CHANGE])
    assert plain().failed_checks == set()


@pytest.mark.bubblewrap
def test_a_rule_whose_revision_is_lost_is_used_as_it_was_and_a_check_notices() -> None:
    """Extractive summaries keep the prompt with the old rules and lose a later message in other words."""
    values = draw_values(1)
    run = simulate(task(), KeepLast(summarizer="scripted/extractive"))
    assert {"interval", "first_bus"} <= run.failed_checks
    sheets = "\n".join(run.files[f"sheets/{stop}.txt"] for stop in STOPS)
    assert f"interval: {values['interval_1']}" in sheets
    assert f"first: {values['first_bus_1']}" in sheets
    assert f"interval: {next(fact.prior for fact in REVISED)}" not in sheets, "it is wrong without guessing"


@pytest.mark.bubblewrap
def test_asking_twice_for_the_permit_does_harm() -> None:
    run = simulate(task(), KeepLast(summarizer="scripted/empty"))
    assert {"permit", "one_permit"} <= run.failed_checks


def test_a_fact_that_is_told_several_times_is_retold_as_a_whole() -> None:
    values = draw_values(1)
    other = rewrite_facts(task(), {"interval": "77"})
    assert read(REVISED[0], other.prompt) == [values["interval_1"]]
    assert [read(REVISED[0], late.text) for late in other.later_messages] == [[values["interval_2"]], ["77"]]
    blank = rewrite_facts(task(), {"interval": None})
    assert [read(REVISED[0], text) for text in (blank.prompt, *(late.text for late in blank.later_messages))] == [[], [], []]
