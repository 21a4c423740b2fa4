from tests.cli.command import harness


def test_an_experiment_that_never_ran_is_told_how_to_run(tmp_path):
    refused = harness("report", tmp_path)
    assert refused.returncode != 0
    assert refused.stderr.startswith("error: ")
    assert refused.stderr.count("\n") == 1
    assert "harness run" in refused.stderr
    assert list(tmp_path.iterdir()) == []
