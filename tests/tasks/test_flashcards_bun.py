"""The task `flashcards-bun`: pages, program on Bun, and grader."""

import contextlib
import re
import shutil

import pytest

from harness.sandboxes import open_sandbox
from harness.task import DIFFICULTIES
from harness.tasks.flashcards_bun import make_flashcards_bun
from harness.tasks.flashcards_bun.program import PROGRAM
from harness.tasks.kit.structure import StructureDraws
from tests.tasks.workshop import act, built, failed, grade, grade_about, lay, rewritten, run

EFFECTS = r"tools/(reserve|feed|audit|changelog)"
SEED = next(seed for seed in range(1, 20) if "feed_mark" in make_flashcards_bun(seed).values)
"""Seed of an instance in which the sample deck is fed to the catalogue."""
TASK = make_flashcards_bun(SEED)
FACTS = TASK.facts
RESTING = {fact.name: {check.name for check in TASK.checks if fact.name in check.required_facts} for fact in FACTS}
bun = pytest.mark.bun


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Return the workspace of `SEED` with the program that the script builds."""
    return built(TASK, tmp_path_factory.mktemp("program"), TASK.values, EFFECTS)


@bun
@pytest.mark.parametrize("seed", [2])
def test_the_work_of_the_scripted_agent_passes_every_check(seed, tmp_path):
    task = make_flashcards_bun(seed)
    assert failed(grade(task, built(task, tmp_path, task.values, EFFECTS))) == set()


@bun
def test_the_untouched_workspace_fails_every_check(tmp_path):
    task = TASK
    assert failed(grade(task, lay(task, tmp_path))) == {check.name for check in task.checks}


@bun
@pytest.mark.parametrize("fact", [fact.name for fact in FACTS])
def test_a_fact_that_is_never_known_fails_all_checks_that_rest_on_it(fact, program, tmp_path):
    task, root = TASK, tmp_path / "copy"
    prior = next(one.prior for one in FACTS if one.name == fact)
    shutil.copytree(program, root)
    if not rewritten(task, root, fact, prior):
        root = built(task, tmp_path / "again", {**task.values, fact: prior}, EFFECTS)
    assert RESTING[fact]
    assert failed(grade_about(task, root, RESTING[fact])) >= RESTING[fact]


def test_every_fact_carries_a_check_and_all_kinds_of_facts_are_there():
    assert {name for check in TASK.checks for name in check.required_facts} == {fact.name for fact in FACTS}
    assert len({fact.kind for fact in FACTS}) == 10


@pytest.mark.parametrize("seed", range(5))
def test_pages_are_long_and_hold_each_value_in_one_place(seed):
    task = make_flashcards_bun(seed)
    texts = {path: text for path, text in task.workspace if path.startswith("docs/")}
    assert len(texts) == 8
    assert all(5_000 <= len(text) < 10_000 for text in texts.values())
    for fact in (fact for fact in FACTS if fact.said_in == "file" and fact.source in texts):
        (pattern,) = fact.patterns
        places = [(path, value) for path, text in texts.items() for value in re.findall(pattern, text, re.MULTILINE)]
        assert places == [(fact.source, task.values[fact.name])]


def test_the_page_on_numbers_still_holds_the_figure_that_is_out_of_date():
    (stale,) = (fact for fact in FACTS if fact.kind == "superseded")
    assert f"began at an interval of {stale.prior} days" in dict(TASK.workspace)["docs/numbers.md"]


@bun
@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("reserve.ts", "one_release"),
        ("feed.ts decks/flags.csv --count 3", "fed_once"),
        ("changelog.ts --version 1 --ticket A again", "changelog"),
    ],
)
def test_repeating_an_action_that_must_happen_once_fails_its_check(command, check, program, tmp_path):
    task, root = TASK, tmp_path / "copy"
    shutil.copytree(program, root)
    assert run(root, f"bun tools/{command}").well
    assert failed(grade(task, root)) == {check}


@bun
@pytest.mark.parametrize(
    ("module", "tests"),
    [
        ("scheduler", "sh tools/test.sh scheduler"),
        ("storage", "bun tools/check_storage.ts"),
        ("session", "sh tools/test.sh session"),
        ("cli", "sh tools/test.sh cli"),
    ],
)
def test_a_first_cut_really_fails_and_the_mended_one_does_not(module, tests, program, tmp_path):
    task, root = TASK, tmp_path / "copy"
    shutil.copytree(program, root)
    steps = {step.name: step for step in task.script.steps}
    (call,) = steps[f"write_{module}"].calls
    first = re.sub(r"\$\{(\w+)\}", lambda name: task.values[name[1]], call.arguments[1][1]).replace("$$", "$")
    repair = next(
        step.repairs[0] for step in steps.values() if step.repairs and step.repairs[0].calls[0].arguments[0] == call.arguments[0]
    )
    assert run(root, tests).well
    act(root, "write_file", {"path": f"src/{module}.ts", "content": first})
    broken = run(root, tests)
    assert not broken.well
    assert re.search(repair.error_pattern, broken.output)


@bun
def test_the_runner_of_tests_repeats_to_the_byte_and_tells_of_a_failure(program, tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(program, root)
    first, again = run(root, "sh tools/test.sh"), run(root, "sh tools/test.sh")
    assert first.well
    assert first.output == again.output
    assert first.output.count("is green") == 7
    assert not re.search(r"\d ?m?s\]|/copy", first.output)
    page = root / "tests/numbers.test.ts"
    page.write_text(page.read_text().replace("0.667", "0.666"))
    broken = run(root, "sh tools/test.sh numbers")
    assert not broken.well
    assert "result: tests/numbers.test.ts has failures" in broken.output
    assert not re.search(r"\d ?m?s\]|/copy", broken.output)


@bun
@pytest.mark.bubblewrap
def test_in_a_sandbox_bun_leaves_nothing_outside_of_the_workspace(program):
    """Check that tests leave no files behind, since such files would make every later command miss the action cache."""
    with contextlib.closing(open_sandbox("bubblewrap", session_id="bun-leaves", runtime="bun")) as sandbox:
        sandbox.start()
        for path in program.rglob("*.*"):
            sandbox.write(str(path.relative_to(program)), path.read_bytes())
        for command in ("bun tools/check_storage.ts", "sh tools/test.sh", "bun src/main.ts --db study/a.db import"):
            traced = sandbox.run_traced(command)
            assert (traced.result.exit_code, traced.contained) == (0, True), traced.result


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_script_facts_and_checks_depend_on_the_structure_seed_and_not_on_the_values(difficulty):
    one, other = (make_flashcards_bun(seed, difficulty=difficulty, structure_seed=3) for seed in (1, 2))
    assert (one.script, one.facts, one.checks) == (other.script, other.facts, other.checks)
    assert one.values != other.values
    assert make_flashcards_bun(1, difficulty=difficulty, structure_seed=4).script != one.script


def test_instances_differ_in_the_order_of_their_parts_and_each_part_comes_after_those_it_needs():
    orders = [PROGRAM.draw_structure(StructureDraws("flashcards-bun", seed)).work.parts for seed in range(30)]
    assert len(set(orders)) > 4
    for parts in orders:
        for part, needed in PROGRAM.choices.prerequisites.items():
            assert all(parts.index(first) < parts.index(part) for first in needed)
