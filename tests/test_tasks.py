"""Finding tasks by name, or in a file."""

import pytest

from harness.errors import UnknownName, UsageError
from harness.tasks import SUITE, load_task


def test_every_task_of_the_suite_is_found_by_its_own_name():
    for name, template in SUITE.items():
        assert load_task(name) is template
        assert template(1).name == name


def test_an_unknown_task_is_refused_and_the_nearest_one_offered():
    with pytest.raises(UnknownName, match="flashcards"):
        load_task("flashcard")


def test_a_function_in_a_file_is_a_task_too(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import replace\n"
        "from harness.tasks.flashcards import flashcards\n\n"
        "def shorter(task_seed):\n    return replace(flashcards(task_seed), name='shorter')\n"
    )
    assert load_task(f"{file}:shorter")(3).name == "shorter"


def test_a_missing_function_is_named(tmp_path):
    (tmp_path / "mine.py").write_text("def shorter(task_seed): ...\n")
    with pytest.raises(UnknownName, match="did you mean 'shorter'"):
        load_task(f"{tmp_path / 'mine.py'}:short")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match="no task file"):
        load_task(f"{tmp_path / 'none.py'}:shorter")


@pytest.mark.parametrize("text", ["def broken(:\n", "import no_such_module_anywhere\n", "x = undefined_name\n"])
def test_a_file_that_is_no_module_is_refused(tmp_path, text):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(UsageError, match=r"mine\.py.*cannot be loaded"):
        load_task(f"{tmp_path / 'mine.py'}:broken")
