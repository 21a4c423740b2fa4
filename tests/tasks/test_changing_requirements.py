"""The task `changing-requirements`: only the newest rule is right, and an agent that loses it writes the outdated one."""

import functools
import re
from dataclasses import replace

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import MessageAdded
from harness.task import DIFFICULTIES, Difficulty, Fact, Task
from harness.task_checks.simulation import HUGE_WINDOW_TOKENS, Run, rewrite_facts
from harness.tasks.changing_requirements import make_changing_requirements
from harness.tasks.changing_requirements.facts import FACTS, draw_all_values
from harness.tasks.changing_requirements.structure import Structure, draw_structure
from harness.tasks.kit.structure import StructureDraws
from tests.laws.suite import simulate_with_cache

REVISED = [fact for fact in FACTS if fact.kind == "superseded"]


@functools.cache
def task(seed: int = 1) -> Task:
    return make_changing_requirements(seed)


def structure(seed: int = 1) -> Structure:
    return draw_structure(StructureDraws("changing-requirements", seed))


@functools.cache
def plain() -> Run:
    return simulate_with_cache(task(), NoCompaction(), window_tokens=HUGE_WINDOW_TOKENS)


def read(fact: Fact, text: str) -> list[str]:
    return [value for pattern in fact.patterns for value in re.findall(pattern, text)]


@pytest.mark.parametrize("seed", range(50))
def test_each_message_states_a_revised_rule_with_another_value_and_the_last_with_the_final_one(seed: int) -> None:
    here, values = task(seed), draw_all_values(seed, "none")
    texts = (here.prompt, *(late.text for late in here.later_messages))
    values_by_fact = {fact.name: [value for text in texts for value in read(fact, text)] for fact in REVISED}
    assert values_by_fact["interval"] == [values["interval_1"], values["interval_2"], values["interval"]]
    for fact in REVISED:
        assert values_by_fact[fact.name][-1] == here.values[fact.name]
        assert len({*values_by_fact[fact.name], fact.prior}) == len(values_by_fact[fact.name]) + 1


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_the_user_changes_the_rules_after_a_given_number_of_sheets_and_before_their_revision() -> None:
    seen = []
    written: set[str] = set()
    for event in plain().list_events(MessageAdded):
        written |= {
            stop for call in event.message.calls for stop in structure().stops if f'"sheets/{stop}.txt"' in call.arguments_json
        }
        if event.message.role == "user":
            seen.append((len(written), sum("revise.sh" in call for _, call in plain().calls[: event.step])))
    assert [count for count, _ in seen] == [0, *(change.sheet_count for change in structure().changes)]
    assert seen[1][1] == 0


@pytest.mark.bubblewrap
def test_sheets_written_under_the_old_rules_are_revised() -> None:
    stops, (_, second) = structure().stops, structure().changes
    for stop in stops:
        lines = plain().files[f"sheets/{stop}.txt"].splitlines()
        assert f"interval: {task().values['interval']}" in lines
        assert ("changed in round 2" in lines[-1]) == (stop in stops[: second.sheet_count])
    assert plain().failed_checks == set()


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_an_agent_that_lost_a_revision_uses_the_old_rule_and_fails_its_check() -> None:
    """Extractive summaries of this instance keep the old rules of the prompt and lose a later message in other words."""
    values = draw_all_values(2, "none")
    run = simulate_with_cache(task(2), KeepLast(measure="estimate", summarizer="scripted/extractive"))
    assert {"interval", "first_bus"} <= run.failed_checks
    sheets = "\n".join(run.files[f"sheets/{stop}.txt"] for stop in structure(2).stops)
    assert f"interval: {values['interval_1']}" in sheets
    assert f"first: {values['first_bus_1']}" in sheets
    assert f"interval: {next(fact.prior for fact in REVISED)}" not in sheets, "it is wrong without guessing"


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_asking_twice_for_the_permit_does_harm() -> None:
    steps = task().script.steps
    (index,) = (index for index, step in enumerate(steps) if step.name == "permit")
    (call,) = steps[index].calls
    twice = replace(steps[index], name="again", calls=(replace(call, arguments=(("command", "sh  tools/permit.sh; true"),)),))
    done = replace(twice.done, receipts=(("execute_command", "permit.sh; true$"),), summary_pattern="")
    script = replace(task().script, steps=(*steps[: index + 1], replace(twice, done=done), *steps[index + 1 :]))
    run = simulate_with_cache(replace(task(), script=script), NoCompaction(), window_tokens=HUGE_WINDOW_TOKENS)
    assert run.failed_checks == {"permit", "one_permit"}


def test_a_fact_with_several_statements_is_rewritten_as_a_whole() -> None:
    values = draw_all_values(1, "none")
    other = rewrite_facts(task(), {"interval": "77"})
    assert read(REVISED[0], other.prompt) == [values["interval_1"]]
    assert [read(REVISED[0], late.text) for late in other.later_messages] == [[values["interval_2"]], ["77"]]
    blank = rewrite_facts(task(), {"interval": None})
    assert [read(REVISED[0], text) for text in (blank.prompt, *(late.text for late in blank.later_messages))] == [[], [], []]


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_script_facts_and_checks_depend_on_the_structure_seed_and_not_on_the_values(difficulty: Difficulty) -> None:
    one, other = (make_changing_requirements(seed, difficulty=difficulty, structure_seed=3) for seed in (1, 2))
    assert (one.script, one.facts, one.checks) == (other.script, other.facts, other.checks)
    assert [late.step for late in one.later_messages] == [late.step for late in other.later_messages]
    assert one.values != other.values
    assert make_changing_requirements(1, difficulty=difficulty, structure_seed=4).script != one.script


def test_instances_differ_in_their_stops_their_changes_and_their_bays() -> None:
    drawn = [structure(seed) for seed in range(20)]
    assert len({one.stops for one in drawn}) == 20
    assert len({tuple(change.sheet_count for change in one.changes) for one in drawn}) > 8
    assert len({len(one.bays) for one in drawn}) > 3
    for one in drawn:
        first, second = (change.sheet_count for change in one.changes)
        assert 0 < first < second < len(one.stops)
        assert set(one.bays) <= set(one.stops)


@pytest.mark.parametrize("seed", range(10))
def test_the_request_names_the_stops_in_the_order_of_the_script(seed: int) -> None:
    here = task(seed)
    assert f": {', '.join(structure(seed).stops)}. A sheet" in here.prompt
    sheets = [step.name.removeprefix("sheet-") for step in here.script.steps if step.name.startswith("sheet-")]
    assert tuple(sheets) == structure(seed).stops
