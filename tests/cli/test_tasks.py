import re

from harness.tasks import SUITE
from tests.cli.command import TINY, harness, within


def test_the_suite_is_listed_with_loads_facts_and_runtime():
    shown = harness("tasks")
    assert shown.returncode == 0
    rows = {line.split()[0]: line for line in shown.stdout.splitlines() if line[:1].strip()}
    assert set(SUITE) <= set(rows)
    for word in ("constraints", "91", "8 constraint", "11 of 23", "python"):
        assert word in rows["flashcards"]


def test_a_task_is_shown_with_facts_and_checks_and_never_a_value():
    shown = within("tasks", "flashcards").stdout
    task = SUITE["flashcards"](0)
    assert "Which memory it loads, and why" in shown
    for fact in task.facts:
        (line,) = [line for line in shown.splitlines() if line.startswith(f"{fact.name} ") and f" {fact.said_in} " in line]
        assert fact.kind in line
        assert task.values[fact.name] not in re.split(r"\s{2,}", line.rstrip())
    for check in task.checks:
        assert check.title in shown
    assert "knobs: world.recoverable_share, world.use_lag_steps, world.redundancy, world.update_rate\n" in shown
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
