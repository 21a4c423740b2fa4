"""The task `rename-sweep`: tests pass throughout, the old name remains only where it must, and forgotten facts fail checks."""

import re
import shutil
from pathlib import Path

import pytest

from harness.task import DIFFICULTIES, Difficulty, Task
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.rename_sweep import make_rename_sweep
from harness.tasks.rename_sweep.facts import draw_values
from harness.tasks.rename_sweep.structure import ALL_FOLDERS, ORDERS, Structure, draw_structure
from tests.tasks.workshop import Rehearsal, carried_out, do, failed, grade, lay, shell

LOOKS = ("orient", "state", "suite_", "read_", "lines_", "test_", "half_way", "strays_known", "what_is_left")
"""Prefixes of the names of steps that change nothing."""
TESTS = "python3 tools/run_tests.py"


def structure_of(seed: int, difficulty: Difficulty = "standard") -> Structure:
    return draw_structure(StructureDraws("rename-sweep", seed, difficulty))


STRUCTURE = structure_of(1)
HELPED = STRUCTURE.collision_folders[0]


def deeds(task: Task) -> list[str]:
    """Names of the steps whose effects the checks examine."""
    return [step.name for step in task.script.steps if not step.name.startswith(LOOKS)]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the workspace of seed 1 after the whole script."""
    task = make_rename_sweep(1)
    return carried_out(task, tmp_path_factory.mktemp("swept"), task.values, deeds(task))


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsal:
    task = make_rename_sweep(1)
    return Rehearsal(task, tmp_path_factory.mktemp("rehearsed"), deeds(task))


@pytest.fixture
def copied(swept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(swept, tmp_path / "copy"))


def group_of(folder: str) -> int:
    return next(number for number, folders in enumerate(STRUCTURE.groups, start=1) if folder in folders)


def holding(root: Path, name: str) -> set[str]:
    """Return the modules of the package that contain a name."""
    texts = {path.relative_to(root).as_posix(): path.read_text() for path in (root / "quay").rglob("*.py")}
    return {path for path, text in texts.items() if re.search(rf"\b{name}\b", text)}


def test_instances_differ_in_folders_order_helpers_and_papers() -> None:
    structures = [structure_of(seed) for seed in range(60)]
    assert {folder for structure in structures for folder in structure.folders} == set(ALL_FOLDERS)
    assert {structure.order for structure in structures} == set(ORDERS)
    assert {len(structure.folders) for structure in structures} == {6, 7, 8, 9}
    assert {len(structure.collision_folders) for structure in structures} == {1, 2, 3}
    assert {structure.is_reserved_late for structure in structures} == {True, False}
    for distinct in ("folders", "reads", "pause_after", "closing_parts", "rule_facts", "result_facts", "sheets"):
        assert len({getattr(structure, distinct) for structure in structures}) > 4, distinct


def test_the_folders_are_in_the_order_that_the_request_tells() -> None:
    for seed in range(12):
        structure, prompt = structure_of(seed), make_rename_sweep(seed).prompt
        ordered = {"alphabetical": sorted(structure.folders), "reversed": sorted(structure.folders, reverse=True)}
        assert [*structure.folders] == ordered.get(structure.order, [*structure.folders])
        assert (", ".join(structure.folders) in prompt) is (structure.order == "listed")
        assert ORDERS[structure.order] in prompt


def test_a_higher_difficulty_has_more_folders_helpers_and_facts() -> None:
    def measure(difficulty: Difficulty) -> tuple[int, int, int]:
        structures = [structure_of(seed, difficulty) for seed in range(60)]
        stated = sum(len(structure.rule_facts) + len(structure.result_facts) for structure in structures)
        return (
            sum(len(structure.folders) for structure in structures),
            sum(len(structure.collision_folders) for structure in structures),
            stated,
        )

    easy, standard, hard = map(measure, DIFFICULTIES)
    assert all(low < middle < high for low, middle, high in zip(easy, standard, hard, strict=True))


def test_forty_modules_use_the_name_and_all_tests_pass_before(tmp_path: Path) -> None:
    root = lay(make_rename_sweep(1), tmp_path)
    assert len(holding(root, draw_values(1)["old_name"])) >= 40
    status, output = shell(root, TESTS)
    assert (status, re.findall(r"FAIL|ERROR", output)) == (0, [])


@pytest.mark.slow
def test_afterwards_all_tests_pass_and_every_module_can_be_imported(swept: Path) -> None:
    status, output = shell(swept, TESTS)
    assert (status, re.findall(r"FAIL|ERROR", output)) == (0, [])
    names = sorted(
        path.relative_to(swept).with_suffix("").as_posix().replace("/", ".") for path in (swept / "quay").rglob("*.py")
    )
    status, output = shell(swept, f"python3 -c 'import {', '.join(names)}'")
    assert (status, output) == (0, "")


def test_the_old_name_is_kept_where_it_is_demanded_and_nowhere_else(swept: Path) -> None:
    values = draw_values(1)
    kept = holding(swept, values["old_name"])
    alias = f"quay/{values['alias_module']}.py"
    assert alias in kept
    assert {path.split("/")[1] for path in kept - {alias}} == {values["excluded_folder"]}
    assert len(kept) <= int(values["goal_left"])
    imports = (
        f"from quay.{values['alias_module']} import {values['old_name']} as a; from quay.core import {values['new_name']} as b"
    )
    assert shell(swept, f"python3 -c '{imports}; print(a is b)'") == (0, "True\n")


@pytest.mark.slow
def test_the_sweep_passes_every_check(copied: Path) -> None:
    assert failed(grade(make_rename_sweep(1), copied)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_another_seed_is_another_sweep_and_passes_too(difficulty: Difficulty, tmp_path: Path) -> None:
    task = make_rename_sweep(6, difficulty=difficulty)
    assert failed(grade(task, carried_out(task, tmp_path, task.values, deeds(task)))) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "check"),
    [
        ("open", "opened_once"),
        ("reserve", "opened_once"),
        ("record_first", "ends"),
        (f"record_{STRUCTURE.folders[0]}", "recorded_1"),
        (f"record_{STRUCTURE.folders[-1]}", f"recorded_{len(STRUCTURE.groups)}"),
        ("record_last", "ends"),
        ("close", "closed"),
        ("changelog", "changelog"),
    ],
)
def test_repeating_an_action_that_must_happen_once_fails_its_check(step: str, check: str, copied: Path) -> None:
    task = make_rename_sweep(1)
    (matching_step,) = [one for one in task.script.steps if one.name == step]
    for call in matching_step.calls:
        do(copied, call, task.values)
    assert failed(grade(task, copied)) == {check}


@pytest.mark.slow
@pytest.mark.parametrize("fact", [fact.name for fact in make_rename_sweep(1).facts])
def test_a_fact_that_is_never_known_fails_every_check_that_rests_on_it(fact: str, rehearsed: Rehearsal, tmp_path: Path) -> None:
    task = make_rename_sweep(1)
    prior = next(one.prior for one in task.facts if one.name == fact)
    resting = {check.name for check in task.checks if fact in check.required_facts}
    assert resting
    assert failed(grade(task, rehearsed.repeat(tmp_path, {**task.values, fact: prior}))) >= resting


@pytest.mark.slow
def test_a_repeated_rehearsal_equals_a_script_that_was_carried_out(rehearsed: Rehearsal, tmp_path: Path) -> None:
    task = make_rename_sweep(1)
    for fact in (task.facts[0], task.facts[-1]):
        values = {**task.values, fact.name: fact.prior}
        roots = rehearsed.repeat(tmp_path / f"{fact.name}_again", values), tmp_path / fact.name
        carried_out(task, roots[1], values, deeds(task))
        again, whole = (
            {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()} for root in roots
        )
        assert again == whole


@pytest.mark.slow
def test_two_meanings_meet_where_a_helper_is_left_in_the_way(tmp_path: Path) -> None:
    task = make_rename_sweep(1)
    root = carried_out(task, tmp_path, task.values, [name for name in deeds(task) if name != f"helper_{HELPED}"])
    status, output = shell(root, f"{TESTS} tests.test_{HELPED}")
    assert (status, "FAIL" in output) == (1, True)
    assert {"tests", "helpers"} <= failed(grade(task, root)) <= {"tests", "helpers", f"folders_{group_of(HELPED)}"}


@pytest.mark.slow
def test_batches_that_are_recorded_out_of_order_fail(tmp_path: Path) -> None:
    task = make_rename_sweep(1)
    root = carried_out(task, tmp_path, task.values, deeds(task))
    record = root / "ledger/record.log"
    first, second, *others = record.read_text().splitlines()
    record.write_text("\n".join([second, first, *others]) + "\n")
    assert failed(grade(task, root)) == {"order"}


@pytest.mark.slow
def test_changing_an_excluded_folder_a_test_or_more_than_the_name_fails(copied: Path) -> None:
    excluded = f"quay/{draw_values(1)['excluded_folder']}/fees.py"
    folder = next(folder for folder in STRUCTURE.folders if folder not in STRUCTURE.collision_folders)
    for path in (excluded, f"tests/test_{folder}.py", f"quay/{folder}/talks.py"):
        (copied / path).write_text((copied / path).read_text() + "\n")
    assert failed(grade(make_rename_sweep(1), copied)) == {"left_alone", "tests", f"folders_{group_of(folder)}"}


def test_the_ledger_tells_nobody_which_folders_are_recorded(swept: Path) -> None:
    lines = (swept / "ledger/record.log").read_text().splitlines()
    assert len(set(lines)) == len(lines) == len(STRUCTURE.folders) + 2
    assert all(re.fullmatch(r"[0-9a-f]{24}", line) for line in lines)
