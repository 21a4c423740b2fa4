from harness.store.journal import Journal
from tests.cli.command import within
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
