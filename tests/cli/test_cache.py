import pytest

from harness.sandboxes.action_cache import ActionCache
from tests.cli.command import LOCAL, within
from tests.sandboxes.action_cache.storing import key, make_entry


@pytest.fixture
def folder(tmp_path):
    cache = ActionCache(tmp_path / "actions")
    cache.put(key(1), make_entry(1, 10), task="one", command="echo 1\n\x1b[31m")
    cache.put(key(2), make_entry(2, 900), task="two", command="echo 2")
    cache.get(key(1))
    cache.close()
    return tmp_path / "actions"


def test_the_cache_command_shows_folder_entries_bytes_hits_and_largest_entries(folder):
    shown = within("cache", "--cache", folder).stdout.splitlines()
    assert shown[0].split() == ["folder", str(folder)]
    assert [line.split()[1] for line in (shown[1], shown[3])] == ["2", "1"]
    assert [line.split(": ")[1] for line in shown[4:]] == ["echo 2", "echo 1 \ufffd[31m"]
    assert len(within("cache", "--cache", folder, "--largest", "1").stdout.splitlines()) == 5


def test_entries_of_one_task_can_be_shown(folder):
    shown = within("cache", "--cache", folder, "--task", "one").stdout.splitlines()
    assert [line.split(": ")[1] for line in shown[4:]] == ["echo 1 \ufffd[31m"]


@pytest.mark.parametrize("order", [("--cache", "{}", "clear"), ("clear", "--cache", "{}")])
def test_clear_forgets_everything(folder, order):
    arguments = [part.format(folder) for part in order]
    assert within("cache", *arguments).stdout.startswith("deleted 2 entries, ")
    assert within("cache", "--cache", folder).stdout.splitlines()[1].split() == ["entries", "0"]


@pytest.mark.parametrize("order", [(), ("clear",), ("--task", "flashcards")])
def test_looking_for_a_cache_makes_none_and_says_that_there_is_none(tmp_path, order):
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder in (tmp_path / "nowhere", empty):
        refused = within("cache", "--cache", folder, *order)
        assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
        assert f"there is no action cache in '{folder}'" in refused.stderr
    assert [*tmp_path.rglob("*")] == [empty]


def test_the_command_says_that_there_is_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for arguments in ((), ("clear",)):
        result = within("cache", *arguments)
        assert (result.exit_code, result.stdout.count("\n")) == (0, 1)
        assert result.stdout.startswith(f"there is no action cache in '{tmp_path}/harness/actions'")
    assert [*tmp_path.iterdir()] == []


def test_an_unknown_task_is_refused_with_the_nearest_name_and_a_task_without_entries_is_reported(folder):
    refused = within("cache", "--cache", folder, "--task", "flashcard")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "unknown task 'flashcard'; did you mean 'flashcards'" in refused.stderr
    assert "did you mean 'two'" in within("cache", "--cache", folder, "--task", "twoo").stderr
    assert within("cache", "--cache", folder, "--task", "flashcards").stdout.splitlines()[4:] == [
        "the cache has no entries of task 'flashcards'"
    ]


def test_a_folder_that_cannot_be_is_one_line_and_a_failure(tmp_path):
    (tmp_path / "file").write_text("")
    refused = within("cache", "--cache", tmp_path / "file" / "below")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)


def test_a_use_of_the_cache_that_there_is_not_is_refused_with_its_path(tmp_path):
    plan = tmp_path / "e" / "plan.toml"
    plan.parent.mkdir()
    plan.write_text("[experiment]\naction_cache = 'never'\n[trial]\ntask = 'flashcards'\n[trial.policy]\nkind = 'none'\n")
    refused = within("run", plan.parent, *LOCAL)
    assert refused.exit_code == 2
    assert "experiment.action_cache" in refused.stderr
