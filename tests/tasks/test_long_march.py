"""Each setting of `long-march` has its effect in simulated sessions, not only in the schedule."""

import functools
import itertools
import re
import statistics
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.errors import UsageError
from harness.events import MessageAdded
from harness.models.tokenizer import count_text_tokens
from harness.task import Evidence, Fact, Step, Task, World
from harness.tasks import make_task
from harness.tasks.kit.calls import run
from harness.tasks.long_march.facts import PRIOR, draw_values
from harness.tasks.long_march.schedule import complete_world, plan_marks
from harness.testing.laws.simulation import HUGE_WINDOW_TOKENS, Run, simulate

BASE = World(
    steps=60, tokens_per_step=300, output_sigma=1.0, recoverable_share=0.5, use_lag_steps=18, redundancy=1, update_rate=0.5
)
WORLDS = st.builds(
    World,
    steps=st.integers(60, 400),
    tokens_per_step=st.integers(150, 1_000),
    output_sigma=st.floats(0, 2),
    recoverable_share=st.floats(0, 1),
    use_lag_steps=st.integers(2, 50),
    redundancy=st.integers(1, 2),
    update_rate=st.floats(0, 1),
)


def march(world: World, seed: int = 1) -> Task:
    return make_task("long-march", seed, world)


@functools.cache
def marched(world: World) -> Run:
    return simulate(march(world), NoCompaction(), window_tokens=HUGE_WINDOW_TOKENS)


def tellings(fact: Fact, world: World) -> list[tuple[int, str]]:
    """Return step and value of each statement of a fact by prompt, page or report; the prompt is step 0."""
    told = []
    for event in marched(world).list_events(MessageAdded):
        text = "\n".join(result.output for result in event.message.results) or event.message.text
        if event.message.role in {"user", "tool"}:
            told += [(event.step - 1 if event.step else 0, value) for value in re.findall(fact.patterns[0], text)]
    return told


def used(fact: Fact, world: World) -> int:
    """Return the step whose message writes the note of a fact."""
    path = f"notes/{fact.name.replace('_', '')}.md"
    events = marched(world).list_events(MessageAdded)
    return next(event.step - 1 for event in events for call in event.message.calls if path in call.arguments_json)


@given(WORLDS)
@settings(max_examples=25, deadline=None)
def test_the_script_has_the_steps_and_the_facts_their_shares_that_the_world_says(world: World) -> None:
    task = march(world)
    assert len(task.script.steps) == world.steps
    for share, found in (
        (world.recoverable_share, [fact for fact in task.facts if fact.recover]),
        (world.update_rate, [fact for fact in task.facts if fact.is_superseded]),
    ):
        assert share is not None
        assert len(found) == round(share * len(task.facts))
    assert (march(world, seed=2).facts, march(world, seed=2).script) == (task.facts, task.script)


@pytest.mark.bubblewrap
def test_a_fact_is_used_a_fixed_lag_after_it_was_told() -> None:
    for fact in march(BASE).facts:
        first = tellings(fact, BASE)[0][0]
        assert used(fact, BASE) - first in ([18] if first else [19, 20, 21]), "the orders of the prompt are used one by one"


@pytest.mark.bubblewrap
def test_a_fact_is_told_as_often_as_redundancy_says() -> None:
    calm = replace(BASE, update_rate=0.0)
    for world in (calm, replace(calm, redundancy=3)):
        assert {len(tellings(fact, world)) for fact in march(world).facts} == {world.redundancy}
        assert marched(world).failed_checks == set()


@pytest.mark.bubblewrap
def test_a_revised_fact_is_told_anew_before_it_is_used_and_the_others_are_not() -> None:
    task = march(BASE)
    for fact in task.facts:
        values = [value for _, value in tellings(fact, BASE)]
        assert values[-1] == task.values[fact.name]
        assert len(set(values)) == len(values) == (2 if fact.is_superseded else 1)
        assert max(step for step, _ in tellings(fact, BASE)) < used(fact, BASE)
    assert marched(BASE).failed_checks == set()


@pytest.mark.bubblewrap
@pytest.mark.parametrize("world", [BASE, replace(BASE, tokens_per_step=600, output_sigma=1.9), replace(BASE, output_sigma=0.0)])
def test_a_step_brings_as_many_tokens_into_view_as_the_world_says(world: World) -> None:
    sizes = [step.usage.prompt_tokens for step in marched(world).steps]
    assert (sizes[-1] - sizes[0]) / (len(sizes) - 1) == pytest.approx(world.tokens_per_step, rel=0.05)


@pytest.mark.bubblewrap
def test_sigma_is_the_tail_of_the_outputs() -> None:
    def tail(sigma: float) -> float:
        events = marched(replace(BASE, output_sigma=sigma)).list_events(MessageAdded)
        sizes = [count_text_tokens(result.output) for event in events for result in event.message.results]
        reports = [size for size in sizes if size > 40]
        return statistics.quantiles(reports, n=20)[-1] / statistics.median(reports)

    assert tail(0.0) < 1.5 < tail(1.0) < tail(1.9)


@pytest.mark.bubblewrap
def test_what_is_said_once_is_not_said_again_and_asking_does_harm() -> None:
    world = replace(BASE, recoverable_share=0.0, update_rate=0.0)
    task = march(world)
    steps, walk = list(task.script.steps), "sh tools/walk.sh 11"
    again = Step(
        name="again", text="Once more.", calls=(run(f"{walk} again"),), done=Evidence(receipts=(("execute_command", "again$"),))
    )
    script = replace(task.script, steps=(*steps[:12], again, *steps[12:]))
    twice = simulate(replace(task, script=script), NoCompaction(), window_tokens=HUGE_WINDOW_TOKENS)
    first, second = (output for key, output in outputs(twice) if key.startswith(walk))
    assert re.search(task.facts[4].patterns[0], first)
    assert "read out once" in second
    assert not re.search(task.facts[4].patterns[0], second)
    assert twice.failed_checks == {"each_post_once"}


def outputs(run: Run) -> list[tuple[str, str]]:
    """Return key argument and output of each call."""
    results = [result.output for event in run.list_events(MessageAdded) for result in event.message.results]
    return [(key, output) for (_, key), output in zip(run.call_keys, results, strict=True)]


@pytest.mark.bubblewrap
def test_when_nothing_of_the_march_is_in_view_the_log_tells_where_it_stands() -> None:
    """No post is walked twice even if only the newest message is kept and summaries are empty."""
    policy = KeepLast(threshold=0.2, keep_last=1, summarizer="scripted/empty")
    run = simulate(march(replace(BASE, update_rate=0.0, recoverable_share=1.0)), policy, window_tokens=24_000)
    assert run.compactions
    assert run.failed_checks == set(), "what can be got again is got again"


@pytest.mark.bubblewrap
def test_a_correction_that_is_forgotten_leaves_the_old_number_in_use() -> None:
    world = World(update_rate=1.0, recoverable_share=0.0)
    known = plan_marks(complete_world(world))
    task, values = march(world, seed=3), draw_values(known, 3)
    run = simulate(task, KeepLast(summarizer="scripted/extractive"))
    wrong = {mark.key: run.files[mark.note_path] for mark in known if f"note_{mark.key}" in run.failed_checks}
    stale = [key for key, note in wrong.items() if note == f"{key}: {values.first[key]}\n"]
    guessed = [key for key, note in wrong.items() if note == f"{key}: {PRIOR}\n"]
    assert stale
    assert guessed
    assert len(stale) + len(guessed) == len(wrong)


@pytest.mark.parametrize(
    ("world", "named"),
    [
        (World(steps=30), "world.steps"),
        (World(steps=10_001), r"world.steps: .* at most 10000 steps \(got 10001\)"),
        (World(tokens_per_step=20), "world.tokens_per_step"),
        (World(use_lag_steps=1), "world.use_lag_steps"),
        (World(use_lag_steps=4, redundancy=5), "world.redundancy"),
    ],
)
def test_knobs_that_do_not_go_together_are_refused_by_name(world: World, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        march(world)


def test_ten_thousand_steps_are_laid_out_with_legs_of_equal_load() -> None:
    task = march(World(steps=10_000))
    assert len(task.script.steps) == 10_000
    due = [int(step.name.removeprefix("post-")) for step in task.script.steps if step.required_facts]
    assert {later - sooner for sooner, later in itertools.pairwise(due[3:])} == {6}
    assert len(task.checks) == len(task.facts) + 1
