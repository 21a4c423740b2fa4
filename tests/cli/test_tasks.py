import inspect
import re
from pathlib import Path

import pytest

from harness.tasks import SUITE
from tests.cli.command import LOCAL, TINY, harness, within


def test_the_suite_is_listed_with_loads_facts_and_runtime():
    shown = harness("tasks")
    assert shown.returncode == 0
    rows = {line.split()[0]: line for line in shown.stdout.splitlines() if line[:1].strip()}
    assert set(SUITE) <= set(rows)
    task = SUITE["flashcards"](0)
    constraints = sum(fact.kind == "constraint" for fact in task.facts)
    recoverable = sum(fact.recover is not None for fact in task.facts)
    numbers = (str(len(task.script.steps)), f"{constraints} constraint", f"{recoverable} of {len(task.facts)}")
    for word in ("constraints", *numbers, "python"):
        assert word in rows["flashcards"]


def test_a_task_is_shown_with_facts_and_checks_and_never_a_value():
    shown = within("tasks", "flashcards").stdout
    task = SUITE["flashcards"](0)
    assert str(inspect.getdoc(inspect.getmodule(SUITE["flashcards"]))) in shown
    for fact in task.facts:
        (line,) = [line for line in shown.splitlines() if line.startswith(f"{fact.name} ") and f" {fact.said_in} " in line]
        assert fact.kind in line
        assert task.values[fact.name] not in re.split(r"\s{2,}", line.rstrip())
    for check in task.checks:
        assert check.title in shown
    assert "knobs: world.recoverable_share, world.use_lag_steps, world.redundancy, world.update_rate, world.difficulty\n" in shown
    assert "world.output_sigma" in within("tasks", "long-march").stdout.rpartition("knobs: ")[2]


def test_a_task_of_ones_own_is_shown_too():
    shown = within("tasks", TINY)
    assert "Write a port down" in shown.stdout
    assert "8080" in shown.stdout
    assert "4000" not in shown.stdout


def test_a_file_with_one_task_needs_no_name_of_its_function(tmp_path):
    assert within("task", "new", tmp_path / "mine.py").exit_code == 0
    shown = within("tasks", f"{tmp_path / 'mine.py'}")
    assert shown.exit_code == 0
    assert shown.stdout == within("tasks", f"{tmp_path / 'mine.py'}:greeting").stdout
    assert "Greet the guests" in shown.stdout


def test_an_unknown_task_is_refused():
    refused = within("tasks", "flashcard")
    assert refused.exit_code == 2
    assert "did you mean 'flashcards'" in refused.stderr


@pytest.mark.slow
def test_a_new_task_is_small_and_keeps_every_law(tmp_path):
    file = tmp_path / "mine.py"
    written = within("task", "new", file, "welcome")
    assert written.exit_code == 0
    assert len(file.read_text().splitlines()) <= 80
    checked = harness("task", "check", file, "--seeds", "1", *LOCAL)
    assert checked.returncode == 0, checked.stdout
    assert "FAIL" not in checked.stdout
    *_, untried, verdict = checked.stdout.splitlines()
    assert verdict == f"all validity checks that were run passed for {file}"
    for part in (
        "not run: policies other than",
        "law-8",
        "law-10 over HTTP",
        "law-9, because the sandbox `local` has no action cache",
    ):
        assert part in untried


def test_a_file_that_is_there_is_never_overwritten(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("mine")
    refused = within("task", "new", file)
    assert refused.exit_code == 2
    assert "not overwritten" in refused.stderr
    assert file.read_text() == "mine"


@pytest.mark.parametrize(("file", "name"), [("mine.txt", "greeting"), ("mine.py", "class"), ("mine.py", "a-b")])
def test_a_task_name_that_could_not_be_loaded_again_is_refused(tmp_path, file, name):
    refused = within("task", "new", tmp_path / file, name)
    assert refused.exit_code == 2
    assert not (tmp_path / file).exists()


def test_a_name_before_the_file_is_refused_with_the_right_order():
    refused = within("task", "new", "welcome", "mine.py")
    assert refused.exit_code == 2
    assert "the file comes first: harness task new mine.py welcome" in " ".join(refused.stderr.split())


def test_the_task_with_structure_in_the_guide_has_at_most_150_lines():
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "writing-a-task.md").read_text(encoding="utf-8")
    code = guide.partition("<!-- file signs.py -->\n```python\n")[2].partition("```")[0]
    assert all(part in code for part in ("later_messages=", "structure_seed", "Levels("))
    assert 100 < len(code.splitlines()) <= 150


def test_a_missing_folder_is_refused(tmp_path):
    refused = within("task", "new", tmp_path / "none" / "mine.py")
    assert refused.exit_code == 1
    assert "cannot write" in refused.stderr


VARIED = """\
import random

from tests.experiment.tiny_task import make_tiny_task


def varied(seed):
    return make_tiny_task(random.Random(seed).randrange(4_000), "seq 1 400")
"""
"""Tiny task whose port does not follow from the number of the seed."""


@pytest.mark.slow
def test_a_broken_law_is_printed_with_its_check_and_exit_code_one(tmp_path):
    file = tmp_path / "varied.py"
    file.write_text(VARIED)
    result = within("task", "check", f"{file}:varied", "--seeds", "1", *LOCAL)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("FAIL  idle: "))
    assert "check 'note', seed 1: passes although nothing was done" in lines[at + 1]
    assert any(line.startswith("--    law-3: not run") for line in lines)
    assert any(line.startswith("FAIL  claims: ") for line in lines)
    assert "2 validity checks failed for" in lines[-1]


def test_a_template_that_raises_is_a_broken_law_and_no_traceback():
    result = within("task", "check", TINY.replace(":tiny", ":broken"), *LOCAL)
    assert result.exit_code == 1
    lines = Path(TINY.removesuffix(":tiny")).read_text().splitlines()
    number = 1 + next(index for index, line in enumerate(lines) if "1 / 0" in line)
    assert f"seed 1: the template raises ZeroDivisionError: division by zero (line {number} of tiny_task.py)" in result.stdout


@pytest.mark.parametrize(
    ("body", "explanation"),
    [
        ("return None", "the template returns 'NoneType', expected a Task"),
        ("raise SystemExit", "the template raises SystemExit"),
    ],
)
@pytest.mark.parametrize("where", [LOCAL, pytest.param(("--backend", "bubblewrap"), marks=pytest.mark.bubblewrap)])
def test_a_template_that_makes_no_task_is_a_broken_law(tmp_path, body, explanation, where):
    file = tmp_path / "mine.py"
    file.write_text(f"def none(seed):\n    {body}\n")
    result = within("task", "check", file, *where)
    assert result.exit_code == 1
    assert f"seed 0: {explanation}" in result.stdout


@pytest.mark.slow
def test_a_file_outside_of_the_workspace_is_reported_with_its_name_and_seed(tmp_path):
    file = tmp_path / "mine.py"
    assert within("task", "new", file).exit_code == 0
    file.write_text(file.read_text().replace('("guests.txt",', '("../guests.txt",'))
    result = within("task", "check", file, "--seeds", "1", *LOCAL)
    assert result.exit_code == 1
    assert "seed 1: the file '../guests.txt' cannot be written: " in result.stdout


@pytest.mark.slow
def test_a_template_that_depends_on_hashes_is_reported_with_its_fact(tmp_path):
    file = tmp_path / "mine.py"
    assert within("task", "new", file).exit_code == 0
    drawn = "    times, greeting ="
    file.write_text(file.read_text().replace(drawn, f'    values["times"] = str(hash(f"times {{task_seed}}") % 10**9)\n{drawn}'))
    result = within("task", "check", file, *LOCAL)
    assert result.exit_code == 1
    assert "FAIL  template: " in result.stdout
    assert "fact 'times', seed 0: its value differs in another process" in result.stdout


def test_a_file_with_several_tasks_needs_the_name_of_one():
    refused = within("task", "check", TINY.removesuffix(":tiny"), *LOCAL)
    assert refused.exit_code == 2
    assert (
        "has 9 functions that take a seed (tiny, alone, wordy, slow, broken, losing, sleepy, greedy, trapped)" in refused.stderr
    )


def test_local_needs_leave():
    refused = within("task", "check", TINY, "--backend", "local")
    assert refused.exit_code == 2
    assert "--unsafe-local" in refused.stderr


def test_a_task_whose_seeds_are_copies_has_no_spread(tmp_path):
    file = tmp_path / "mine.py"
    assert within("task", "new", file).exit_code == 0
    measured = within("task", "spread", file, "--seeds", "2", "--first-seed", "3", *LOCAL)
    assert measured.exit_code == 1
    assert re.search(r"^seed 3: score 1\.000, \d compactions?, course [0-9a-f]{8}$", measured.stdout, re.MULTILINE)
    assert "standard deviation between seeds 0.000" in measured.stdout
    assert "FAIL  law-11: all 2 seeds repeat one case" in measured.stdout


CELL = """\
from dataclasses import replace

from harness.task import Cell
from tests.experiment.tiny_task import make_tiny_task


def roomy(seed):
    return replace(make_tiny_task(seed, "seq 1 40"), cells=(Cell(difficulty="standard", window_tokens=64_000),))


def easy(seed):
    return replace(roomy(seed), cells=(Cell(difficulty="easy", window_tokens=64_000),))
"""
"""Two tasks with a cell: one in whose window nothing is compacted, and one with a difficulty that its template does not know."""


def test_a_cell_in_which_every_session_succeeds_is_reported(tmp_path):
    file = tmp_path / "celled.py"
    file.write_text(CELL)
    measured = within("task", "cells", f"{file}:roomy", "--seeds", "2", *LOCAL)
    assert measured.exit_code == 1
    assert "standard, 64,000 tokens: 100 % of 2 sessions succeed (95 % interval 34 % to 100 %)" in measured.stdout
    assert "  0 % of the seeds have another result with lossy summaries" in measured.stdout
    assert "FAIL  law-15: 2 of 2 sessions have no compaction: choose a smaller window" in measured.stdout


def test_cells_that_are_missing_or_not_supported_are_refused(tmp_path):
    file = tmp_path / "celled.py"
    file.write_text(CELL)
    unsupported = within("task", "cells", f"{file}:easy", "--seeds", "1", *LOCAL)
    assert unsupported.exit_code == 2
    assert "has no levels of difficulty, so only 'standard' is possible (got 'easy')" in " ".join(unsupported.stderr.split())
    missing = within("task", "cells", TINY, "--seeds", "1", *LOCAL)
    assert missing.exit_code == 2
    assert "has no cells" in missing.stderr
    refused = within("task", "check", TINY, "--difficulty", "hard", *LOCAL)
    assert refused.exit_code == 2
    assert "has no levels of difficulty" in refused.stderr
