"""The task `bug-hunt`: instances differ, tests fail before the fixes and pass after them, and forgotten facts fail checks."""

import re
import shutil
from pathlib import Path

import pytest

from harness.task import DIFFICULTIES, Difficulty, Task
from harness.tasks.bug_hunt import make_bug_hunt
from harness.tasks.bug_hunt.looks import LOOKS
from harness.tasks.bug_hunt.stages import TIERED_STAGES
from harness.tasks.bug_hunt.structure import Structure, draw_structure
from harness.tasks.kit.structure import StructureDraws
from tests.tasks.workshop import Rehearsal, carried_out, do, failed, grade, grade_about, lay, shell

DEEDS = ("note_", "patch_", "try_", "regression_test", "changelog", "announce", "report", "handover", "reply", "sheet_")
"""Prefixes of the names of the steps whose effects the checks examine."""
TESTS = "python3 tools/run_tests.py"
SEEDS = range(60)
SEED = 1


def structure_of(seed: int, difficulty: Difficulty = "standard") -> Structure:
    return draw_structure(StructureDraws("bug-hunt", seed, difficulty), tuple(LOOKS))


def deeds(task: Task) -> list[str]:
    return [step.name for step in task.script.steps if step.name.startswith(DEEDS)]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the workspace after the whole script."""
    task = make_bug_hunt(SEED)
    return carried_out(task, tmp_path_factory.mktemp("closed"), task.values, deeds(task))


@pytest.fixture
def copied(closed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(closed, tmp_path / "copy"))


def again(root: Path, step: str) -> None:
    task = make_bug_hunt(SEED)
    (matching_step,) = [one for one in task.script.steps if one.name == step]
    for call in matching_step.calls:
        do(root, call, task.values)


def test_instances_differ_in_bugs_suspicions_papers_places_and_order() -> None:
    structures = [structure_of(seed) for seed in SEEDS]
    assert {len(structure.refusals) for structure in structures} == {1, 2, 3}
    assert {len(structure.suspicions) for structure in structures} == {1, 2, 3}
    assert {page for structure in structures for _, page in structure.pages} == {"decree", "rounding", "minutes", "audit"}
    for distinct in ("papers", "parts", "sections", "handover_facts", "looks", "sheets"):
        assert len({getattr(structure, distinct) for structure in structures}) > 4, distinct
    scripts = {tuple(step.name for step in make_bug_hunt(seed).script.steps) for seed in range(10)}
    assert len(scripts) == 10


@pytest.mark.slow
def test_a_higher_difficulty_has_more_bugs_looks_and_facts() -> None:
    def measure(difficulty: Difficulty) -> tuple[int, int, int]:
        structures = [structure_of(seed, difficulty) for seed in SEEDS]
        bugs, looks = (
            sum(len(structure.refusals) for structure in structures),
            sum(sum(map(len, structure.looks)) for structure in structures),
        )
        return bugs, looks, sum(len(make_bug_hunt(seed, difficulty=difficulty).facts) for seed in range(8))

    easy, standard, hard = map(measure, DIFFICULTIES)
    assert all(low < middle < high for low, middle, high in zip(easy, standard, hard, strict=True))


def test_the_figures_of_an_instance_are_stated_on_the_pages_of_its_structure_and_nowhere_else() -> None:
    for seed in range(12):
        task, structure = make_bug_hunt(seed), structure_of(seed)
        for fact in (fact for fact in task.facts if fact.name in {"decree_tier", "rounding"}):
            stating = [path for path, text in task.workspace if re.search(fact.patterns[0], text)]
            assert stating == [structure.find_page(fact.name)]


@pytest.mark.slow
def test_the_tests_of_the_reference_fail_before_and_all_tests_pass_after(copied: Path, tmp_path: Path) -> None:
    status, before = shell(lay(make_bug_hunt(SEED), tmp_path / "found"), TESTS)
    assert status == 1
    assert set(re.findall(r"^result: (\S+) .* [1-9]\d* failed$", before, re.MULTILINE)) == {"tests.test_reference"}
    status, after = shell(copied, TESTS)
    assert (status, re.findall(r"FAIL|ERROR", after)) == (0, [])


@pytest.mark.slow
def test_the_closed_case_passes_every_check(copied: Path) -> None:
    assert failed(grade(make_bug_hunt(SEED), copied)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_another_seed_is_another_case_and_closes_too(difficulty: Difficulty, tmp_path: Path) -> None:
    task = make_bug_hunt(8, difficulty=difficulty)
    assert failed(grade(task, carried_out(task, tmp_path, task.values, deeds(task)))) == set()


def test_a_refused_patch_tells_the_rate_in_force_and_leaves_the_module_alone(tmp_path: Path) -> None:
    task = make_bug_hunt(SEED)
    number = 1 + structure_of(SEED).refusals.index(True)
    root = carried_out(task, tmp_path, task.values, [f"patch_{number}a"])
    module = root / f"wattbook/stages/{task.values[f'culprit_{number}']}.py"
    source = module.read_text()
    status, output = shell(root, f"python3 tools/ci.py patches/{number}a.sed {module.relative_to(root)}")
    assert status == 1
    assert f"the invoices imply a rate of `{task.values[f'final_rate_{number}']}`" in output
    assert module.read_text() == source


def test_a_patch_on_a_stage_without_a_difference_is_refused(copied: Path) -> None:
    status, output = shell(copied, "python3 tools/ci.py patches/1a.sed wattbook/stages/vat.py")
    assert (status, "the stage had no difference" in output) == (1, True)


@pytest.mark.slow
def test_the_comparison_numbers_the_stages_with_a_bug_in_the_order_of_the_tariff(tmp_path: Path) -> None:
    for seed in range(4):
        task = make_bug_hunt(seed)
        _, output = shell(lay(task, tmp_path / str(seed)), "python3 tools/compare.py --stale")
        culprits = [task.values[name] for name in sorted(task.values) if name.startswith("culprit_")]
        assert re.findall(r"stale stage \d is `(\w+)`", output) == culprits


@pytest.mark.slow
def test_a_patch_that_is_tried_again_costs_a_check(copied: Path) -> None:
    again(copied, "try_1a")
    assert failed(grade(make_bug_hunt(SEED), copied)) == {"tries_1"}


@pytest.mark.slow
def test_a_try_that_the_bench_never_saw_does_not_count(copied: Path) -> None:
    log = copied / "ci/attempts.log"
    log.write_text(re.sub(r"(accepted \S+ \S+) \d+", r"\1 1", log.read_text()))
    numbers = structure_of(SEED).bug_numbers
    assert {f"tries_{number}" for number in numbers} <= failed(grade(make_bug_hunt(SEED), copied))


@pytest.mark.slow
@pytest.mark.parametrize(("step", "check"), [("changelog", "changelog"), ("announce", "announced")])
def test_repeating_an_action_that_must_happen_once_fails_its_check(step: str, check: str, copied: Path) -> None:
    again(copied, step)
    assert failed(grade(make_bug_hunt(SEED), copied)) == {check}


@pytest.mark.slow
def test_a_fact_that_is_never_known_fails_a_check_that_rests_on_it(tmp_path: Path) -> None:
    task = make_bug_hunt(5)
    rehearsal = Rehearsal(task, tmp_path / "rehearsal", deeds(task))
    for fact in task.facts:
        root = rehearsal.repeat(tmp_path / fact.name, {**task.values, fact.name: fact.prior})
        resting = {check.name for check in task.checks if fact.name in check.required_facts}
        assert failed(grade_about(task, root, resting, ("suite", "regression_test"))) & resting, fact.name


@pytest.mark.slow
def test_a_regression_test_that_does_not_notice_the_bug_is_none(copied: Path) -> None:
    page = copied / "tests/regressions/test_drift.py"
    page.write_text(re.sub(r"self\.assertEqual\(.*\)", "self.assertTrue(COMPLAINT)", page.read_text()))
    assert failed(grade(make_bug_hunt(SEED), copied)) == {"regression_test"}


@pytest.mark.slow
def test_changing_a_test_or_tidying_up_on_the_way_fails(copied: Path) -> None:
    for path in ("tests/test_money.py", "wattbook/text.py"):
        (copied / path).write_text((copied / path).read_text() + "\n")
    assert failed(grade(make_bug_hunt(SEED), copied)) == {"suite", "only_stale_modules"}


def test_every_tiered_stage_holds_a_bug_under_some_seed_and_nobody_is_right_to_blame_one() -> None:
    values = [make_bug_hunt(seed).values for seed in range(24)]
    by_kind = [
        tuple({value for name, value in case.items() if re.fullmatch(kind, name)} for kind in (r"culprit_\d", r"\w+_suspect"))
        for case in values
    ]
    assert {culprit for culprits, _ in by_kind for culprit in culprits} == {stage.name for stage in TIERED_STAGES}
    assert all(not culprits & suspects for culprits, suspects in by_kind)


def test_the_package_has_at_least_thirty_python_files() -> None:
    assert sum(path.endswith(".py") for path, _ in make_bug_hunt(SEED).workspace) >= 30
