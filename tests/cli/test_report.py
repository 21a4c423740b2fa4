from tests.cli.command import within


def test_an_experiment_that_never_ran_is_told_how_to_run(tmp_path):
    refused = within("report", tmp_path)
    assert refused.exit_code != 0
    assert refused.stderr.startswith("error: ")
    assert refused.stderr.count("\n") == 1
    assert "harness run" in refused.stderr
    assert list(tmp_path.iterdir()) == []
