"""The list of local models, and fetching them by name."""

from tests.cli.command import within


def test_every_model_is_listed_with_its_size_and_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_MODELS", str(tmp_path))
    done = within("models")
    assert done.exit_code == 0
    for word in ("local/smollm2-135m", "98 MB", "window 8,192", "local/qwen2.5-coder-1.5b", "1,117 MB"):
        assert word in done.stdout


def test_a_name_that_there_is_not_is_refused_before_anything_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_MODELS", str(tmp_path))
    done = within("models", "fetch", "local/smollm2-135m", "local/smollm")
    assert done.exit_code == 2
    assert "did you mean 'local/smollm2-135m'" in done.stderr
    assert list(tmp_path.iterdir()) == []
