import inspect
import os
import re
from pathlib import Path

import pytest

from harness.gateway.recorder import SessionRecorder, make_arms
from harness.inspection.loading import load
from harness.store.journal import Journal
from harness.tasks import SUITE, make_task
from tests.cli.command import LOCAL, TINY, harness, within
from tests.gateway.test_recorder import Agent

ALONE = TINY.replace(":tiny", ":alone")
"""Tiny task without a message that arrives later."""


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


def test_the_work_of_an_agent_outside_is_graded_and_its_session_marked(tmp_path):
    folder, journal = tmp_path / "work", tmp_path / "gateway.sqlite"
    started = within("task", "start", ALONE, folder, "--seed", "3")
    assert started.exit_code == 0, started.output
    assert started.stdout == make_task(ALONE, 3).prompt + "\n"
    assert (folder / "note.txt").read_text() == "a note\n"
    recorder = SessionRecorder(make_arms({"none": "none"}), journal=journal, window_tokens=20_000)
    for request in (started.stdout, f"Please solve this.\n\n{started.stdout}\nBe brief.", "Something else."):
        Agent(recorder, request).finish()
    recorder.close()
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    grade = ("task", "grade", ALONE, folder, "--seed", "3", "--mark", "--in", journal, *LOCAL)
    failed = within(*grade)
    assert failed.exit_code == 1
    assert "FAIL  port: The port is written down\n        got ''\nok    note: A note\n1 of 2 checks passed\n" in failed.stdout
    assert "marked failure" in failed.stdout
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    (row,) = [line for line in within("sessions", "list", journal).stdout.splitlines() if "marked failure" in line]
    assert re.search(r"marked failure .* 0\.50 .*The port is written down$", row)
    (folder / "conf.txt").write_text("port=4003\n")
    passed = within(*grade)
    assert passed.exit_code == 0, passed.output
    assert "2 of 2 checks passed" in passed.stdout
    trials = load(journal).trials
    assert trials["marked_success"].notna().sum() == 1
    (marked,) = trials[trials["marked_success"].notna()].itertuples()
    assert marked.marked_success
    assert (marked.marked_score, marked.marked_failed_checks) == (1.0, "")
    assert trials["marked_score"].notna().sum() == 1
    assert re.search(f"{marked.session_id}: marked success", passed.stdout)
    assert within("task", "grade", ALONE, folder, "--seed", "4", *LOCAL).exit_code == 1
    within("sessions", "mark", "failure", marked.session_id, "--in", journal)
    trials = load(journal).trials
    assert trials["marked_success"].sum() == 0
    assert trials["marked_score"].isna().all()  # by hand, without checks
    unknown = within("task", "grade", ALONE, folder, "--seed", "4", "--mark", "--in", journal, *LOCAL)
    assert "has the request of this task; check --in and --seed" in unknown.stderr


def test_a_journal_in_the_current_folder_is_named_where_in_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    within("task", "start", ALONE, "work")
    with Journal.open(Path("gateway.sqlite")):
        pass
    for arguments in (("task", "grade", ALONE, "work", "--mark", *LOCAL), ("sessions", "list"), ("inspect", "3f41")):
        refused = within(*arguments)
        assert refused.exit_code == 2
        assert "in this folder lies 'gateway.sqlite': add --in FILE" in " ".join(refused.stderr.split())


def test_a_hostile_folder_is_graded_without_its_links_and_pipes(tmp_path):
    folder, secret = tmp_path / "work", tmp_path / "secret"
    within("task", "start", ALONE, folder)
    secret.mkdir()
    (secret / "key").write_text("port=4000\n")
    (folder / "conf.txt").symlink_to(secret / "key")
    (folder / "linked").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    (folder / "large").touch()
    os.truncate(folder / "large", 2**40)
    (folder / os.fsdecode(b"\xff")).write_text("x")
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "sub" / "deep" / "file").write_text("x")
    shown = within("task", "grade", ALONE, folder, *LOCAL)
    assert shown.exit_code == 1, shown.output
    assert "FAIL  port" in shown.stdout
    assert "not graded, because it is a link, too large, or no file: conf.txt, large, linked, ... (4 in all)" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("task", "start", TINY, "new"), "has messages that arrive while the agent works"),
        (("task", "start", ALONE, "full"), "is not empty; name a new folder"),
        (("task", "start", ALONE, "full/file"), "is a file"),
        (("task", "grade", ALONE, "missing", *LOCAL), "there is no folder"),
        (("task", "grade", ALONE, "full", "--mark", *LOCAL), "pass a journal file or a folder to --in"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    refused = within(*arguments)
    assert refused.exit_code == 2
    assert message in " ".join(refused.output.split())
