import os
import signal
import time
from pathlib import Path

import pytest

from harness.store.journal import Journal
from tests.cli.command import started, within
from tests.experiment.made import record


def test_an_experiment_that_never_ran_is_told_how_to_run(tmp_path):
    refused = within("report", tmp_path)
    assert refused.exit_code != 0
    assert refused.stderr.startswith("error: ")
    assert refused.stderr.count("\n") == 1
    assert "harness run" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_line_and_a_failure(tmp_path):
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.record_trial(record(), ())
    (tmp_path / "file").write_text("")
    failed = within("report", tmp_path, "--output", tmp_path / "file" / "below")
    assert failed.exit_code == 1
    assert failed.stderr.startswith("error: cannot write the report to ")
    assert failed.stderr.endswith("; name another folder\n")
    assert failed.stderr.count("\n") == 1


def helper_of(pid):
    """Return the id of the process that draws the charts of a report; None until it runs its own program."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        process = Path("/proc", child)
        if b"spawn_main" in (process / "cmdline").read_bytes() and "/numpy/" in (process / "maps").read_text():
            return int(child)
    return None


@pytest.mark.parametrize("to", [os.kill, os.killpg], ids=["alone", "with its group"])
def test_sigterm_ends_a_report_and_who_draws_its_charts(to, tmp_path):
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.record_trial(record(), ())
    process = started("report", tmp_path, start_new_session=True)
    patience = time.monotonic() + 300
    while (helper := helper_of(process.pid)) is None and time.monotonic() < patience:
        time.sleep(0.01)
    assert helper is not None
    to(process.pid, signal.SIGTERM)
    _, said = process.communicate()  # returns when all processes have closed the pipes, including the one that draws charts
    assert process.returncode == 130
    assert said == "stopped\n"
