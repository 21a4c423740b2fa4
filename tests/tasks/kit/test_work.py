"""The work of a task in which the agent writes a program: parts, looks and the optional item are drawn, and all texts follow."""

import pytest

from harness.task import DIFFICULTIES
from harness.tasks.flashcards.program import PROGRAM
from harness.tasks.kit.steps import look
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.kit.work import FIRST_PART, Work

SEEDS = range(20)
WORK = PROGRAM.choices


def draw(seed, difficulty="standard") -> Work:
    return WORK.draw(StructureDraws("flashcards", seed, difficulty))


def test_parts_have_another_order_for_each_seed_but_come_after_those_they_need_and_before_the_last() -> None:
    orders = [draw(seed).parts for seed in SEEDS]
    assert len(set(orders)) > 10
    for parts in orders:
        assert sorted(parts) == sorted(WORK.parts)
        assert parts[-2:] == WORK.last_parts
        assert all(parts.index(first) < parts.index(part) for part, needed in WORK.prerequisites.items() for first in needed)


def test_a_script_has_the_looks_that_were_drawn_and_the_steps_of_the_option_only_with_it() -> None:
    names = ("write_card", *sorted(WORK.option.steps), *WORK.looks)
    for work in map(draw, SEEDS):
        selected = [spec.name for spec in WORK.select_steps(work, (look(name, "…") for name in names))]
        option_steps = sorted(WORK.option.steps) if work.has_option else []
        assert selected == ["write_card", *option_steps, *(name for name in WORK.looks if name in work.looks)]
    assert {draw(seed).has_option for seed in SEEDS} == {True, False}


def test_the_action_is_due_once_and_sheets_are_due_after_their_parts() -> None:
    action, times = look("act", "…"), set()
    for work in map(draw, SEEDS):
        parts = {part: [spec.name for spec in work.carry_out(part, [look(part, "…")], action)] for part in work.parts}
        begun = [spec.name for spec in work.begin(action)]
        acted = [*["start"] * begun.count("act"), *(part for part, names in parts.items() if names[0] == "act")]
        assert acted == [work.parts[0] if work.action_time == FIRST_PART else work.action_time]
        for part, names in parts.items():
            sheets = [f"sheet_{sheet.name}" for sheet in work.sheets.sheets if sheet.slot == part]
            assert [name for name in names if name != "act"] == [part, *sheets]
        times.add(work.action_time)
    assert times == {"start", FIRST_PART, "commands"}


def test_request_facts_and_checks_have_the_optional_item_only_if_it_was_drawn() -> None:
    for seed in SEEDS:
        work = draw(seed)
        prompt = WORK.render_prompt(work, PROGRAM.draw_values(seed))
        assert ("tools/ingest.py" in prompt) == work.has_option
        assert (WORK.option.fact in {fact.name for fact in WORK.list_facts(work, PROGRAM.facts)}) == work.has_option
        (option_check,) = PROGRAM.list_checks(of_option=True)
        checks = WORK.list_checks(work, PROGRAM.list_checks(), option_check)
        assert (option_check in checks) == work.has_option
        assert set(work.sheets.checks) < set(checks)
        assert WORK.action_times[work.action_time] in prompt
        assert "${" not in prompt


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_share_of_looks_follows_the_difficulty(difficulty) -> None:
    low, high = WORK.look_shares.pick(difficulty)
    counts = {len(draw(seed, difficulty).looks) for seed in SEEDS}
    assert round(low * len(WORK.looks)) <= min(counts) <= max(counts) <= round(high * len(WORK.looks))
