"""Each setting of `long-march` has its effect in simulated sessions, not only in the schedule."""

import functools
import json
import re
import statistics
from dataclasses import replace
from string import Template

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import MessageAdded
from harness.errors import UsageError
from harness.models.tokenizer import count_text_tokens
from harness.task import DIFFICULTIES, Evidence, Fact, Step, Task, World
from harness.task_checks.simulation import HUGE_WINDOW_TOKENS, Run, simulate
from harness.tasks import make_task
from harness.tasks.kit.calls import run
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.long_march.facts import PRIOR, draw_values, load_cairn_texts, load_orders
from harness.tasks.long_march.schedule import Mark
from harness.tasks.long_march.structure import Structure, draw_structure

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


def draw(world: World, seed: int = 1) -> Structure:
    return draw_structure(StructureDraws("long-march", seed, world.difficulty), world)


@functools.cache
def marched(world: World) -> Run:
    return simulate(march(world), NoCompaction(), window_tokens=HUGE_WINDOW_TOKENS)


def tellings(fact: Fact, world: World) -> list[tuple[int, str]]:
    """Return step and value of each statement of a fact by prompt, page or report; the prompt is step 0."""
    statements = []
    for event in marched(world).list_events(MessageAdded):
        text = "\n".join(result.output for result in event.message.results) or event.message.text
        if event.message.role in {"user", "tool"}:
            statements += [(event.step - 1 if event.step else 0, value) for value in re.findall(fact.patterns[0], text)]
    return statements


def used(fact: Fact, world: World) -> int:
    """Return the step whose message writes the number of a fact into a note."""
    key = fact.name.replace("_", "")
    events = marched(world).list_events(MessageAdded)
    written = ((event.step - 1, call) for event in events for call in event.message.calls if call.name == "write_file")
    return next(
        step for step, call in written if re.search(rf"^{key}: ", json.loads(call.arguments_json)["content"], re.MULTILINE)
    )


@pytest.mark.slow
@given(WORLDS)
@settings(max_examples=25, deadline=None)
def test_the_script_has_the_steps_and_the_facts_their_shares_that_the_world_says(world: World) -> None:
    task = march(world)
    # The first step of the march asks where it stands: the status call of the script.
    assert len(task.script.steps) + 1 == world.steps
    for share, facts in (
        (world.recoverable_share, [fact for fact in task.facts if fact.recover]),
        (world.update_rate, [fact for fact in task.facts if fact.is_superseded]),
    ):
        assert share is not None
        assert len(facts) == round(share * len(task.facts))
    other = make_task("long-march", 2, world, structure_seed=1)
    assert (other.facts, other.script) == (task.facts, task.script)
    assert all(other.values[fact.name] != task.values[fact.name] for fact in task.facts)


def test_settings_that_the_world_leaves_open_are_drawn_for_each_seed() -> None:
    drawn = [draw(World(), seed) for seed in range(20)]
    assert len({one.steps for one in drawn}) > 10
    assert len({len(one.list_notes()) for one in drawn}) > 5
    lags = [statistics.mean(mark.use_step - mark.told_step for mark in used_cairns(one)) for one in drawn]
    assert max(lags) > 1.5 * min(lags)
    for trait in ("on_page", "revised_step", "retold_steps", "has_story", "notes"):
        shares = [statistics.mean(bool(getattr(mark, trait)) for mark in used_cairns(one)) for one in drawn]
        assert min(shares) < 0.35, trait
        assert max(shares) > min(shares) + 0.2, trait
    assert {len(note.marks) for one in drawn for note in one.list_notes()} >= {1, 2}
    assert {bool(mark.use_step) for one in drawn for mark in one.marks} == {True, False}
    assert len({tuple(mark.key for mark in one.marks if mark.is_order) for one in drawn}) > 10


def used_cairns(structure: Structure) -> list[Mark]:
    return [mark for mark in structure.marks if mark.use_step and not mark.is_order]


def test_a_harder_march_has_more_facts_alive_for_longer_and_longer_reports() -> None:
    alive, sizes = [], []
    for difficulty in DIFFICULTIES:
        drawn = [draw(World(difficulty=difficulty), seed) for seed in range(10)]
        spans = [(mark.use_step - mark.told_step, one.steps) for one in drawn for mark in used_cairns(one)]
        alive.append(sum(lag / steps for lag, steps in spans) / len(drawn))
        sizes.append(drawn[0].tokens_per_step)
    assert 3 * alive[0] < 1.5 * alive[1] < alive[2]
    assert sizes == sorted(set(sizes))


def test_no_misleading_sentence_and_no_number_without_a_note_is_read_as_a_fact() -> None:
    world = World(difficulty="hard")
    structure, task = draw(world), march(world)
    assert structure.rumours
    assert any(statement.is_misleading for statement in structure.statements)
    idle = {mark.name for mark in structure.marks if not mark.use_step}
    assert idle
    assert not idle & {fact.name for fact in task.facts}
    sentences = [one.misleading for one in (*load_orders().values(), *load_cairn_texts())]
    texts = [Template(sentence).safe_substitute(place="ridge", number="4711") for sentence in sentences]
    assert not any(re.search(fact.patterns[0], text) for fact in task.facts for text in texts)
    stated = [value for fact in task.facts for value in re.findall(fact.patterns[0], task.prompt)]
    assert len(stated) == sum(1 for statement in structure.statements if not statement.is_misleading)


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_fact_is_used_a_fixed_lag_after_its_statement() -> None:
    for fact in march(BASE).facts:
        first = tellings(fact, BASE)[0][0]
        assert used(fact, BASE) - first in ([18] if first else [19, 20, 21]), "the orders of the prompt are used one by one"


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_fact_is_stated_as_often_as_redundancy_says() -> None:
    calm = replace(BASE, update_rate=0.0)
    for world in (calm, replace(calm, redundancy=3)):
        assert {len(tellings(fact, world)) for fact in march(world).facts} == {world.redundancy}
        assert marched(world).failed_checks == set()


@pytest.mark.bubblewrap
def test_only_a_revised_fact_is_stated_again_before_its_use() -> None:
    task = march(BASE)
    for fact in task.facts:
        values = [value for _, value in tellings(fact, BASE)]
        assert values[-1] == task.values[fact.name]
        assert len(set(values)) == len(values) == (2 if fact.is_superseded else 1)
        assert max(step for step, _ in tellings(fact, BASE)) < used(fact, BASE)
    assert marched(BASE).failed_checks == set()


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("world", [BASE, replace(BASE, tokens_per_step=600, output_sigma=1.9), replace(BASE, output_sigma=0.0)])
def test_a_step_brings_as_many_tokens_into_view_as_the_world_says(world: World) -> None:
    sizes = [step.usage.prompt_tokens for step in marched(world).steps]
    assert (sizes[-1] - sizes[0]) / (len(sizes) - 1) == pytest.approx(world.tokens_per_step, rel=0.05)


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_sigma_is_the_tail_of_the_outputs() -> None:
    def tail(sigma: float) -> float:
        events = marched(replace(BASE, output_sigma=sigma)).list_events(MessageAdded)
        sizes = [count_text_tokens(result.output) for event in events for result in event.message.results]
        reports = [size for size in sizes if size > 40]
        return statistics.quantiles(reports, n=20)[-1] / statistics.median(reports)

    assert tail(0.0) < 1.5 < tail(1.0) < tail(1.9)


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_fact_that_is_stated_once_is_not_repeated_and_asking_again_does_harm() -> None:
    world = replace(BASE, recoverable_share=0.0, update_rate=0.0)
    task, mark = march(world), used_cairns(draw(world))[0]
    (pattern,) = next(fact.patterns for fact in task.facts if fact.name == mark.name)
    steps, walk = list(task.script.steps), f"sh tools/walk.sh {mark.told_step}"
    again = Step(
        name="again", text="Once more.", calls=(run(f"{walk} again"),), done=Evidence(receipts=(("execute_command", "again$"),))
    )
    at = mark.told_step + 1
    script = replace(task.script, steps=(*steps[:at], again, *steps[at:]))
    twice = simulate(replace(task, script=script), NoCompaction(), window_tokens=HUGE_WINDOW_TOKENS)
    first, second = (output for key, output in outputs(twice) if re.match(rf"{walk}( again)?$", key))
    assert re.search(pattern, first)
    assert "read out once" in second
    assert not re.search(pattern, second)
    assert twice.failed_checks == {"each_post_once"}


def outputs(run: Run) -> list[tuple[str, str]]:
    """Return key argument and output of each call."""
    results = [result.output for event in run.list_events(MessageAdded) for result in event.message.results]
    return [(key, output) for (_, key), output in zip(run.call_keys, results, strict=True)]


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_when_nothing_of_the_march_is_in_view_the_log_tells_where_it_stands() -> None:
    """No post is walked twice even if only the newest message is kept and summaries are empty."""
    policy = KeepLast(threshold=0.2, keep_last=1, summarizer="scripted/empty")
    run = simulate(march(replace(BASE, update_rate=0.0, recoverable_share=1.0)), policy, window_tokens=24_000)
    assert run.compactions
    assert run.failed_checks == set(), "what can be got again is got again"


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_correction_that_is_forgotten_leaves_the_old_number_in_use() -> None:
    world = World(update_rate=1.0, recoverable_share=0.0)
    structure, task = draw(world, 4), march(world, seed=4)
    first, run = draw_values(structure.marks, 4).first, simulate(task, KeepLast(summarizer="scripted/extractive"))
    written = [line.split(": ") for path, text in run.files.items() if path.startswith("notes/") for line in text.splitlines()]
    names = {mark.key: mark.name for mark in structure.marks}
    wrong = {key: value for key, value in written if value != task.values[names[key]]}
    stale = [key for key, value in wrong.items() if value == first[key]]
    guessed = [key for key, value in wrong.items() if value == PRIOR]
    assert stale
    assert guessed
    assert len(stale) + len(guessed) == len(wrong)
    failed = {note.check_name for note in structure.list_notes() if any(mark.key in wrong for mark in note.marks)}
    assert failed == run.failed_checks - {"each_post_once"}


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


@pytest.mark.slow
def test_ten_thousand_steps_are_laid_out_with_tenths_of_equal_load() -> None:
    task = march(World(steps=10_000))
    assert len(task.script.steps) == 9_999, "the first step is the status call"
    due = [int(step.name.removeprefix("post-")) for step in task.script.steps for _ in step.required_facts]
    loads = [sum(tenth <= post // 1_000 < tenth + 1 for post in due) for tenth in range(10)]
    assert min(loads) > 0.8 * max(loads)
    assert len(task.facts) == len(due)
    texts = dict(task.workspace)
    leg_loads = [sum(int(row.split("\t")[1]) for row in texts[f"route/leg-{leg}.tsv"].splitlines()) for leg in range(100)]
    assert statistics.mean(leg_loads[:50]) == pytest.approx(statistics.mean(leg_loads[50:]), rel=0.1)
