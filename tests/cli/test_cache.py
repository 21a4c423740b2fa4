import pytest

from harness.sandboxes.actions import ActionCache
from tests.cli.command import LOCAL, within
from tests.sandboxes.actions.storing import key, made


@pytest.fixture
def folder(tmp_path):
    cache = ActionCache(tmp_path / "actions")
    cache.put(key(1), made(1, 10), task="one", command="echo 1\n\x1b[31m")
    cache.put(key(2), made(2, 900), task="two", command="echo 2")
    cache.get(key(1))
    cache.close()
    return tmp_path / "actions"


def test_it_shows_folder_entries_bytes_and_hits_and_the_largest_entries(folder):
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
    assert within("cache", *arguments).stdout.startswith("forgot 2 entries, ")
    assert within("cache", "--cache", folder).stdout.splitlines()[1].split() == ["entries", "0"]


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
