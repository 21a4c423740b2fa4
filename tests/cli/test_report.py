import os
import signal
import time
from pathlib import Path

import pytest

from harness.cli.report import print_current_report
from harness.inspection.loading import load
from harness.reporting.current_report import RECORD_FILE, list_sources
from harness.store.journal import Journal
from harness.store.tables import export
from tests.cli.command import started_anew, within
from tests.experiment.records import record
from tests.reporting.page.experiments import write_experiment


def test_an_experiment_that_never_ran_is_refused_with_the_command_that_runs_it(tmp_path):
    refused = within("report", tmp_path)
    assert refused.exit_code != 0
    assert refused.stderr.startswith("error: ")
    assert refused.stderr.count("\n") == 1
    assert "harness run" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_one_line_and_a_failure(tmp_path):
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.record_trial(record(), ())
    (tmp_path / "file").write_text("")
    failed = within("report", tmp_path, "--output", tmp_path / "file" / "below")
    assert failed.exit_code == 1
    assert failed.stderr.startswith("error: cannot write the report to ")
    assert failed.stderr.endswith("; name another folder\n")
    assert failed.stderr.count("\n") == 1


def loads_matplotlib(pid):
    """Return whether a process has begun to load the library that draws charts."""
    return "/matplotlib/" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("to", [os.kill, os.killpg], ids=["alone", "with its group"])
def test_sigterm_ends_a_report_that_draws_its_charts(to, tmp_path):
    write_experiment(tmp_path)
    process = started_anew("report", tmp_path, start_new_session=True)
    patience = time.monotonic() + 300
    while not (loading := loads_matplotlib(process.pid)) and process.poll() is None and time.monotonic() < patience:
        time.sleep(0.01)
    assert loading
    to(process.pid, signal.SIGTERM)
    _, errors = process.communicate()  # returns when all processes have closed the pipes
    assert process.returncode == 130
    assert errors == "stopped\n"
    assert not list(tmp_path.glob("charts/*"))


def finish_trials(folder, seeds):
    with Journal.open(folder / "journal.sqlite") as journal:
        for seed in seeds:
            journal.record_trial(record(trial_id=f"t{seed}", seed=seed, success=seed > 0), ())
    export(folder / "journal.sqlite", folder / "results")
    return load(folder)


@pytest.mark.slow
def test_a_report_is_written_again_only_if_something_has_changed(tmp_path, capsys):
    print_current_report(finish_trials(tmp_path, [0, 1]), tmp_path)
    printed = capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert tmp_path / "report.md" in before
    print_current_report(load(tmp_path), tmp_path)
    again = capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before
    assert again.endswith(f"nothing has changed since the report was written to {tmp_path}\n")
    assert again.splitlines()[:10] == printed.splitlines()[:10]


@pytest.mark.slow
@pytest.mark.parametrize("change", ["a trial", "a file", "against", "the record"])
def test_a_report_that_is_outdated_is_written_again(change, tmp_path, capsys):
    results = finish_trials(tmp_path, [0, 1])
    print_current_report(results, tmp_path, "a" if change == "against" else None)
    if change == "a trial":
        results = finish_trials(tmp_path, [2])
    elif change == "a file":
        (tmp_path / "report.md").unlink()
    elif change == "the record":
        (tmp_path / RECORD_FILE).write_text("[]")
    capsys.readouterr()
    print_current_report(results, tmp_path)
    assert f"wrote {tmp_path / 'report.txt'}" in capsys.readouterr().out
    assert (tmp_path / "report.md").is_file()


@pytest.mark.slow
def test_a_row_is_explained_and_the_methods_are_printed_without_writing_a_report(tmp_path):
    write_experiment(tmp_path)
    before = sorted(tmp_path.iterdir())
    explained = within("report", tmp_path, "--explain", "b against a")
    assert "Numbers of b against a" in explained.stdout
    assert "SELECT avg(value) FROM" in explained.stdout
    assert "on 2 tasks (t1, t2)" in " ".join(within("report", tmp_path, "--methods").stdout.split())
    assert sorted(tmp_path.iterdir()) == before
    refused = within("report", tmp_path, "--explain", "bb")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: unknown row of the report 'bb'; did you mean 'b'? A comparison is named")
    both = within("report", tmp_path, "--explain", "a", "--methods")
    assert both.stderr.startswith("error: --explain and --methods both print a text instead of the report")


@pytest.mark.slow
def test_a_page_is_written_on_request(tmp_path):
    write_experiment(tmp_path)
    assert not list(tmp_path.glob("*.html"))
    done = within("report", tmp_path, "--html")
    assert done.exit_code == 0, done.output
    assert f"wrote {tmp_path / 'report.html'}" in done.output
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_a_report_counts_as_outdated_after_a_change_of_any_code_or_data_that_writes_it():
    names = {"/".join(path.parts[-2:]) for path in list_sources()}
    assert {
        "analysis/comparison.py",
        "reporting/claims.py",
        "reporting/experiment_report.py",
        "reporting/reader_quality.json",
        "store/columns.py",
    } <= names
