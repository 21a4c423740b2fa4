"""The task `bug-hunt`: tests fail before the fix and pass after it, the first fix is refused, and forgotten facts fail checks."""

import re
import shutil
from pathlib import Path

import pytest

from harness.tasks.bug_hunt import make_bug_hunt
from harness.tasks.bug_hunt.facts import draw_values
from harness.tasks.bug_hunt.stages import TIERED_STAGES
from tests.tasks.workshop import carried_out, do, failed, grade, lay, shell

EFFECTS = (
    *("note_01", "note_03", "first_patch", "first_try", "second_patch", "second_try", "regression_test"),
    *("changelog", "announce", "report", "handover"),
)
"""Names of the steps whose effects the checks examine."""
TESTS = "python3 tools/run_tests.py"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the workspace of seed 1 after the whole script."""
    task = make_bug_hunt(1)
    return carried_out(task, tmp_path_factory.mktemp("closed"), task.values, EFFECTS)


@pytest.fixture
def copied(closed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(closed, tmp_path / "copy"))


def again(root: Path, step: str) -> None:
    task = make_bug_hunt(1)
    (found,) = [one for one in task.script.steps if one.name == step]
    for call in found.calls:
        do(root, call, task.values)


def test_the_tests_of_the_reference_fail_before_and_all_tests_pass_after(copied: Path, tmp_path: Path) -> None:
    status, before = shell(lay(make_bug_hunt(1), tmp_path / "found"), TESTS)
    assert status == 1
    assert set(re.findall(r"^result: (\S+) .* [1-9]\d* failed$", before, re.MULTILINE)) == {"tests.test_reference"}
    status, after = shell(copied, TESTS)
    assert (status, re.findall(r"FAIL|ERROR", after)) == (0, [])


def test_the_closed_case_passes_every_check(copied: Path) -> None:
    assert failed(grade(make_bug_hunt(1), copied)) == set()


def test_another_seed_is_another_case_and_closes_too(tmp_path: Path) -> None:
    task = make_bug_hunt(8)
    assert failed(grade(task, carried_out(task, tmp_path, task.values, EFFECTS))) == set()


def test_the_first_fix_is_refused_tells_the_rate_in_force_and_leaves_the_module_alone(tmp_path: Path) -> None:
    task, values = make_bug_hunt(1), draw_values(1)
    root = carried_out(task, tmp_path, values, ["first_patch"])
    module = root / f"wattbook/stages/{values['culprit']}.py"
    found = module.read_text()
    status, said = shell(root, f"python3 tools/ci.py patches/first.sed {module.relative_to(root)}")
    assert status == 1
    assert f"the invoices imply a rate of `{values['final_rate']}`" in said
    assert module.read_text() == found


def test_a_patch_that_was_refused_costs_a_check_when_it_is_tried_again(copied: Path) -> None:
    again(copied, "first_try")
    assert failed(grade(make_bug_hunt(1), copied)) == {"tries"}


@pytest.mark.parametrize(("step", "check"), [("changelog", "changelog"), ("announce", "announced")])
def test_what_must_be_done_once_fails_when_done_twice(step: str, check: str, copied: Path) -> None:
    again(copied, step)
    assert failed(grade(make_bug_hunt(1), copied)) == {check}


@pytest.mark.parametrize("fact", [fact.name for fact in make_bug_hunt(1).facts])
def test_a_fact_that_is_never_known_fails_a_check_that_rests_on_it(fact: str, tmp_path: Path) -> None:
    task = make_bug_hunt(1)
    prior = next(one.prior for one in task.facts if one.name == fact)
    missed = failed(grade(task, carried_out(task, tmp_path, {**task.values, fact: prior}, EFFECTS)))
    assert missed & {check.name for check in task.checks if fact in check.required_facts}


def test_a_regression_test_that_does_not_notice_the_bug_is_none(copied: Path) -> None:
    page = copied / "tests/regressions/test_drift.py"
    page.write_text(re.sub(r"self\.assertEqual\(.*\)", "self.assertTrue(COMPLAINT)", page.read_text()))
    assert failed(grade(make_bug_hunt(1), copied)) == {"regression_test"}


def test_changing_a_test_or_tidying_up_on_the_way_fails(copied: Path) -> None:
    for path in ("tests/test_money.py", "wattbook/text.py"):
        (copied / path).write_text((copied / path).read_text() + "\n")
    assert failed(grade(make_bug_hunt(1), copied)) == {"suite", "only_one_module"}


def test_every_tiered_stage_holds_the_bug_under_some_seed() -> None:
    cases = [draw_values(seed) for seed in range(50)]
    assert {case["culprit"] for case in cases} == {stage.name for stage in TIERED_STAGES}
    assert all(case["suspect"] != case["culprit"] for case in cases)
    assert all(len({case[f"{kind}_rate"] for kind in ("stale", "provisional", "final")}) == 3 for case in cases)


def test_the_package_has_at_least_thirty_python_files() -> None:
    assert sum(path.endswith(".py") for path, _ in make_bug_hunt(1).workspace) >= 30
