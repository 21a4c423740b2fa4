"""Each setting that every task supports has its effect in simulated sessions, not only in the texts."""

import functools
import re
from dataclasses import replace

import pytest

from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import MessageAdded
from harness.errors import UsageError
from harness.task import Fact, Script, Task, World
from harness.task_checks.findings import trace
from harness.task_checks.simulation import HUGE_WINDOW_TOKENS, Run, simulate
from harness.tasks import SUITE, list_knobs, list_parameters, load_task, make_task, make_variant
from harness.tasks.kit.facts import make_output_fact
from harness.tasks.kit.sheets import ORDER_PATH, remove_page
from harness.tasks.variants import KNOBS, ORDER_FILE, vary_task

TASKS = sorted(set(SUITE) - {"long-march"})
LAG = 12
ALL = World(use_lag_steps=LAG, redundancy=3, update_rate=0.5, recoverable_share=0.5)
NAME = "rename-sweep"
"""Name of the task whose sessions are simulated."""


def turned(world: World, seed: int = 1, name: str = NAME) -> Task:
    return make_task(name, seed, world)


@functools.cache
def session(world: World) -> Run:
    return simulate(turned(world), NoCompaction(), window_tokens=HUGE_WINDOW_TOKENS)


def list_statements(fact: Fact, world: World) -> list[tuple[int, str]]:
    """Return request number and value of each statement of a fact by the user; 1 is the first request."""
    statements = []
    for event in session(world).list_events(MessageAdded):
        if event.message.role == "user":
            statements += [
                (max(event.step, 1), match[1]) for text in fact.patterns for match in re.finditer(text, event.message.text)
            ]
    return statements


def needed(fact: Fact) -> list[int]:
    """Return the steps of the script that use a fact."""
    steps = enumerate(turned(World()).script.steps, start=1)
    return [number for number, step in steps if f"${{{fact.name}}}" in str((step.text, step.calls, step.repairs))]


@functools.cache
def first_uses(world: World) -> dict[str, int]:
    """Return the number of the request that first used each fact."""
    task = turned(world)
    needs = {step.name: step.required_facts for step in task.script.steps}
    used: dict[str, int] = {}
    for move in trace(task, session(world).requests):
        for name in needs.get(move.step, ()):
            used.setdefault(name, move.number)
    return used


def asked(task: Task) -> list[Fact]:
    """Return the facts that the unchanged request states."""
    return [fact for fact in task.facts if fact.said_in == "prompt"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_world_changes_nothing_but_what_the_user_says_and_writes_down(name: str) -> None:
    plain, world = remove_page(load_task(name)(1)), turned(ALL, name=name)
    same = ("script", "checks", "grader", "values", "title", "tags", "runtime", "cacheable")
    assert [getattr(world, one) for one in same] == [getattr(plain, one) for one in same]
    assert world.workspace[: len(plain.workspace)] == plain.workspace
    assert [path for path, _ in world.workspace[len(plain.workspace) :]] == [ORDER_FILE]
    assert set(plain.later_messages) <= set(world.later_messages)
    others = [vary_task(functools.partial(make_variant, load_task(name), 1), seed, ALL) for seed in (2, 3)]
    assert [other.facts for other in others] == [world.facts] * 2, "facts do not depend on the values"
    steps = [[(late.step, late.text.split("\n")[0]) for late in other.later_messages] for other in others]
    assert steps[0] == steps[1]


@pytest.mark.parametrize("name", TASKS)
def test_settings_equal_to_those_of_a_task_do_not_change_it(name: str) -> None:
    assert turned(World(redundancy=1, update_rate=0.0), name=name) == load_task(name)(1)
    assert turned(World(redundancy=1, update_rate=0.0, recoverable_share=0.0), name=name) == remove_page(load_task(name)(1))


def test_a_task_whose_share_is_set_has_no_page_of_its_own_that_repeats_the_request() -> None:
    plain, world = load_task("flashcards")(1), turned(World(recoverable_share=0.0), name="flashcards")
    assert ORDER_PATH in dict(plain.workspace)
    assert ORDER_PATH not in dict(world.workspace)
    assert not any(ORDER_PATH in text for _, text in world.workspace)
    assert {fact.recover for fact in world.facts if fact.said_in == "prompt"} == {None}


@pytest.mark.parametrize("name", TASKS)
def test_shares_are_of_the_facts_of_the_request_that_hold_for_good(name: str) -> None:
    plain = load_task(name)(1)
    steady = [fact for fact in asked(plain) if not fact.is_superseded and re.search(fact.patterns[0], plain.prompt)]
    for share in (0.5, 1.0):
        world = turned(World(recoverable_share=share), name=name)
        written = {fact.name for fact in asked(world) if fact.recover}
        assert len(written) == round(share * len(steady))
        order = dict(world.workspace)[ORDER_FILE]
        assert written == {fact.name for fact in asked(world) if any(re.search(text, order) for text in fact.patterns)}
    changed = turned(World(update_rate=0.5), name=name)
    before, after = ({fact.name for fact in task.facts if fact.is_superseded} for task in (plain, changed))
    assert before <= after
    assert len(after) - len(before) == round(0.5 * len(steady))


@pytest.mark.parametrize("name", sorted(SUITE))
def test_a_fact_that_is_revised_keeps_its_kind(name: str) -> None:
    calm, changed = (turned(World(update_rate=rate), name=name) for rate in (0.0, 0.5))
    assert [(fact.name, fact.kind) for fact in changed.facts] == [(fact.name, fact.kind) for fact in calm.facts]
    assert sum(fact.revised for fact in changed.facts) > sum(fact.revised for fact in calm.facts) == 0


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_fact_of_the_request_is_stated_a_fixed_lag_before_its_first_use() -> None:
    world = World(use_lag_steps=LAG)
    for fact in asked(turned(world)):
        ((at, value),) = list_statements(fact, world)
        assert value == turned(world).values[fact.name]
        assert at == max(1, needed(fact)[0] - LAG)
        assert first_uses(world)[fact.name] >= needed(fact)[0], "a repair puts off what follows"
    assert session(world).failed_checks == set()


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_facts_that_are_still_needed_are_repeated_at_even_intervals() -> None:
    world = World(redundancy=4)
    steps = len(turned(world).script.steps)
    reminders = [1 + turn * steps // 4 for turn in (1, 2, 3)]
    for fact in asked(turned(world)):
        assert [at for at, _ in list_statements(fact, world)] == [1, *(at for at in reminders if at <= needed(fact)[-1])]
    assert max(len(list_statements(fact, world)) for fact in asked(turned(world))) == 4
    assert session(world).failed_checks == set()


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_changed_fact_is_stated_with_another_value_and_corrected_before_its_first_use() -> None:
    world = World(update_rate=1.0)
    for fact in asked(turned(world)):
        (first, old), (at, new) = list_statements(fact, world)
        assert (first, new) == (1, turned(world).values[fact.name])
        assert old != new
        assert 1 < at <= first_uses(world)[fact.name]
    assert session(world).failed_checks == set()


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_reminder_states_the_values_that_hold_at_its_step() -> None:
    for fact in asked(turned(ALL)):
        values = [value for _, value in list_statements(fact, ALL)]
        assert values[-1] == turned(ALL).values[fact.name]
        assert len(set(values)) == (2 if fact.is_superseded else 1)
        assert sorted(values, key=values[0].__ne__) == values, "the old value is not told after the correction"
    assert session(ALL).failed_checks == set()


def test_facts_written_to_a_file_have_a_call_that_recovers_them() -> None:
    task = turned(World(recoverable_share=1.0))
    for fact in asked(task):
        assert fact.recover is not None
        assert fact.recover.arguments == (("path", ORDER_FILE),)
        assert (fact.source, fact.reacquisition_calls) == (ORDER_FILE, 2)
    assert ORDER_FILE in task.prompt


def test_every_task_has_knobs_and_one_has_all() -> None:
    for name in TASKS:
        levels = ("difficulty",) * ("difficulty" in list_parameters(SUITE[name]))
        assert list_knobs(SUITE[name]) == (*KNOBS, *levels)
    assert len(list_knobs(SUITE["long-march"])) == 8
    assert set(KNOBS) < set(list_knobs(SUITE["long-march"]))


@pytest.mark.parametrize(
    ("world", "explanation"),
    [
        (World(steps=9), r"world\.steps: .*supports only recoverable_share, .*'long-march' supports every setting"),
        (World(output_sigma=1.0), r"world\.output_sigma"),
        (World(use_lag_steps=0), r"world\.use_lag_steps: .*at least 1"),
        (World(redundancy=1_000), r"world\.redundancy: .*at most \d+ \(got 1000\)"),
    ],
)
def test_a_setting_that_does_not_fit_a_task_is_refused_by_its_name(world: World, explanation: str) -> None:
    with pytest.raises(UsageError, match=explanation):
        turned(world)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_lag_that_would_turn_nothing_is_refused_with_the_largest_that_turns_something(name: str) -> None:
    with pytest.raises(UsageError, match=r"world\.use_lag_steps: .* at most \d+, .*\(got 5000\)") as refused:
        turned(World(use_lag_steps=5_000), name=name)
    (most,) = map(int, re.findall(r"at most (\d+)", str(refused.value)))
    plain = load_task(name)(1)
    for lag in (1, most // 2, most):
        assert len(turned(World(use_lag_steps=lag), name=name).later_messages) > len(plain.later_messages)
    with pytest.raises(UsageError, match=rf"at most {most}, .*\(got {most + 1}\)"):
        turned(World(use_lag_steps=most + 1), name=name)


def test_a_correction_that_would_come_too_late_is_refused() -> None:
    task = load_task(NAME)(1)
    at_once = replace(task.script.steps[0], required_facts=tuple(fact.name for fact in asked(task)))

    def hasty(seed: int) -> Task:
        return replace(load_task(NAME)(seed), script=Script(steps=(at_once, *task.script.steps[1:]), final_text="Done."))

    with pytest.raises(UsageError, match=r"world\.update_rate: of the \d+ facts .* 0 can be corrected .* at most 0 \(got 1\)"):
        vary_task(hasty, 1, World(update_rate=1.0))


@pytest.mark.slow
def test_a_request_without_facts_is_refused() -> None:
    def silent(seed: int) -> Task:
        return replace(load_task(NAME)(seed), facts=(make_output_fact("desk", "next-step", "", "office", r"the desk `(\w+)`"),))

    with pytest.raises(UsageError, match=r"world\.redundancy: the request of 'rename-sweep' states no fact"):
        vary_task(silent, 1, World(redundancy=2))
