"""Loading of tasks by name or from a file."""

import hashlib
import importlib.util
import os
import sys
from types import ModuleType

import pytest

from harness.errors import UnknownName, UsageError
from harness.files.user_file import MAX_USER_FILE_BYTES
from harness.task import DIFFICULTIES, World
from harness.tasks import (
    SUITE,
    TASKS,
    hash_task_file,
    list_knobs,
    load_task,
    make_shared_task,
    make_task,
    make_variant,
)


def test_every_task_of_the_suite_is_loaded_by_its_name():
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
        "from harness.tasks.flashcards import make_flashcards\n\n"
        "def shorter(task_seed):\n    return replace(make_flashcards(task_seed), name='shorter')\n"
    )
    assert load_task(f"{file}:shorter")(3).name == "shorter"


def test_a_missing_function_is_named(tmp_path):
    (tmp_path / "mine.py").write_text("def shorter(task_seed): ...\n")
    with pytest.raises(UnknownName, match="did you mean 'shorter'"):
        load_task(f"{tmp_path / 'mine.py'}:short")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match="no task file"):
        load_task(f"{tmp_path / 'none.py'}:shorter")


def write_task(folder, title, **modules):
    """Write a task whose title stands in a module beside it, and return the name of the task."""
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(
        "from dataclasses import replace\nfrom harness.tasks.flashcards import make_flashcards\nfrom helpers import TITLE\n\n"
        "def mine(seed):\n    return replace(make_flashcards(seed), title=TITLE)\n"
    )
    (folder / "helpers.py").write_text(f"TITLE = {title!r}\n")
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return f"{folder / 'mine.py'}:mine"


def test_a_task_imports_the_modules_beside_its_file_and_no_others_see_them(tmp_path, monkeypatch):
    other = ModuleType("helpers")
    monkeypatch.setitem(sys.modules, "helpers", other)
    names = [write_task(tmp_path / title, title) for title in ("first", "second")]
    assert [make_task(name, 1).title for name in names] == ["first", "second"]
    assert sys.modules["helpers"] is other
    assert make_task(write_task(tmp_path / "first", "changed"), 1).title == "changed", "the file is read anew"
    monkeypatch.delitem(sys.modules, "helpers")
    make_task(names[0], 1)
    assert "helpers" not in sys.modules


def test_an_edit_of_equal_size_within_a_second_takes_effect(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    name = write_task(tmp_path, "old")
    (tmp_path / "helpers.py").write_text("from pack.part import TITLE\n")
    (tmp_path / "pack").mkdir()
    for title in ("old", "new"):
        (tmp_path / "pack" / "__init__.py").write_text("")
        (tmp_path / "pack" / "part.py").write_text(f"TITLE = {title!r}\n")
        for file in tmp_path.rglob("*.py"):
            os.utime(file, (1, 1))
        assert make_task(name, 0).title == title


def test_an_error_in_a_module_beside_a_task_names_the_task_and_leaves_nothing_behind(tmp_path):
    name = write_task(tmp_path, "", helpers="import deeper", deeper="1 / 0")
    before = list(sys.meta_path)
    with pytest.raises(UsageError, match=r"the task file .*mine\.py' cannot be loaded \(line 3\): ZeroDivisionError"):
        make_task(name, 1)
    assert sys.meta_path == before
    assert not {"helpers", "deeper"} & set(sys.modules)


@pytest.mark.parametrize(
    ("module", "today"), [("harness.tasks.rows", "harness.tasks.kit"), ("harness.messages", "harness.conversation.messages")]
)
def test_a_task_file_for_an_older_version_says_where_a_module_is_today(tmp_path, module, today):
    file = tmp_path / "old.py"
    file.write_text(f"from {module} import look\n")
    with pytest.raises(
        UsageError, match=rf"\(line 1\): ModuleNotFoundError: .*; `{module}` of an older version is now `{today}`"
    ):
        make_task(f"{file}:old", 1)
    assert importlib.util.find_spec(today) is not None


def test_the_digest_of_a_task_covers_the_modules_beside_it_that_it_imports(tmp_path):
    name = write_task(tmp_path, "x", helpers="import deeper, json, pack.part", deeper="", unused="", json="")
    (tmp_path / "pack").mkdir()
    digests = [hash_task_file(name)]
    for path, is_covered in (
        ("helpers.py", True), ("deeper.py", True), ("pack/__init__.py", True), ("pack/part.py", True),
        ("unused.py", False), ("json.py", False), ("data.txt", False),
    ):  # fmt: skip
        (tmp_path / path).write_text("import deeper, json, pack.part  # changed" if path == "helpers.py" else "# changed")
        digests.append(hash_task_file(name))
        assert (digests[-1] != digests[-2]) == is_covered, path


def test_the_digest_of_a_task_without_modules_beside_it_is_that_of_its_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("import json\n\ndef mine(seed): ...\n")
    assert hash_task_file(f"{file}:mine") == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    file = tmp_path / "large.py"
    with file.open("wb") as opened:
        opened.truncate(MAX_USER_FILE_BYTES + 1)
    for use in (load_task, hash_task_file):
        with pytest.raises(UsageError, match=r"cannot read the file .*large\.py': it has 16,777,217 bytes"):
            use(f"{file}:shorter")


@pytest.mark.parametrize(
    ("text", "where", "error"),
    [
        ("x = 1\ny = 1 / 0\n", "line 2", "ZeroDivisionError: division by zero"),
        ("def f():\n    raise KeyError('k')\n\nf()\n", "line 2", "KeyError: 'k'"),
        ("\n\nimport json\njson.loads('[')\n", "line 4", "JSONDecodeError"),
        ("x = 1\ndef broken(:\n", "line 2", "SyntaxError"),
        ("import sys\nsys.exit('bye')\n", "line 2", "SystemExit: bye"),
        ("class Own(Exception): ...\nraise Own('mine')\n", "line 2", "Own: mine"),
    ],
)
def test_any_error_of_a_file_is_reported_with_file_type_and_line(tmp_path, text, where, error):
    (tmp_path / "raising.py").write_text(text)
    with pytest.raises(UsageError, match=rf"raising\.py' cannot be loaded \({where}\)") as refused:
        load_task(f"{tmp_path / 'raising.py'}:f")
    assert error in str(refused.value)
    assert "harness_task_raising" not in sys.modules


@pytest.mark.parametrize(
    ("body", "explanation"),
    [
        ("return 1 / 0", r"cannot be made with seed 7 \(line 2\): ZeroDivisionError: division by zero"),
        ("raise SystemExit", r"cannot be made with seed 7 \(line 2\): SystemExit"),
        ("return [].pop(seed)", r"cannot be made with seed 7 \(line 2\): IndexError"),
        ("return None", "returned None for seed 7, expected a Task"),
    ],
)
@pytest.mark.parametrize("world", [None, World(redundancy=2)])
def test_a_function_that_makes_no_task_is_refused_with_its_seed(tmp_path, body, explanation, world):
    (tmp_path / "mine.py").write_text(f"def none(seed):\n    {body}\n")
    with pytest.raises(UsageError, match=rf"mine\.py:none' .*{explanation}"):
        make_task(f"{tmp_path / 'mine.py'}:none", 7, world)


@pytest.mark.parametrize("text", ["def broken(:\n", "import no_such_module_anywhere\n", "x = undefined_name\n"])
def test_a_file_that_is_no_module_is_refused(tmp_path, text):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(UsageError, match=r"mine\.py.*cannot be loaded"):
        load_task(f"{tmp_path / 'mine.py'}:broken")


def test_a_knob_that_a_task_does_not_have_is_refused():
    assert make_task("flashcards", 1, World()) == load_task("flashcards")(1)
    with pytest.raises(UsageError, match=r"world\.steps: 'flashcards' supports only recoverable_share, "):
        make_task("flashcards", 1, World(steps=9))


def test_the_difficulty_reaches_a_template_that_has_levels():
    by_level = {level: make_task("flashcards", 1, World(difficulty=level)) for level in DIFFICULTIES}
    assert by_level["standard"] == make_task("flashcards", 1)
    assert len({len(task.facts) for task in by_level.values()}) == 3
    hard_and_late = make_task("flashcards", 1, World(difficulty="hard", redundancy=2))
    assert hard_and_late.script == by_level["hard"].script
    assert hard_and_late.later_messages != by_level["hard"].later_messages
    assert "difficulty" in list_knobs(load_task("flashcards"))


def test_a_template_without_levels_has_only_the_standard_difficulty(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from harness.tasks.flashcards import make_flashcards\n\ndef mine(seed):\n    return make_flashcards(seed)\n")
    assert make_task(f"{file}:mine", 1, World(difficulty="standard")).name == "flashcards"
    with pytest.raises(UsageError, match=r"world\.difficulty: .*has no levels of difficulty.*'hard'"):
        make_task(f"{file}:mine", 1, World(difficulty="hard"))
    assert "difficulty" not in list_knobs(load_task(f"{file}:mine"))


def test_an_unknown_difficulty_is_refused_and_the_nearest_one_offered():
    with pytest.raises(UnknownName, match="did you mean 'hard'"):
        World(difficulty="hrad")  # type: ignore[arg-type]


def test_a_correction_takes_its_old_values_from_an_instance_of_equal_structure():
    for seed in range(5):
        task = make_task("flashcards", seed, World(update_rate=0.5))
        assert any(message.text.startswith("A correction") for message in task.later_messages)


def test_a_variant_has_the_structure_of_one_seed_and_the_values_of_another():
    template = load_task("flashcards")
    variant = make_variant(template, 3, 4)
    assert (variant.script, variant.facts, variant.checks) == (template(3).script, template(3).facts, template(3).checks)
    assert variant.values["ticket"] == template(4).values["ticket"]
    assert make_variant(lambda seed: template(seed), 3, 4) == template(4), "a template without structure follows one seed"


def test_a_task_of_the_suite_is_built_once_for_consecutive_trials(monkeypatch):
    world = World(difficulty="hard")
    assert make_shared_task("flashcards", 1, world) is make_shared_task("flashcards", 1, World(difficulty="hard"))
    assert make_shared_task("flashcards", 1, world) == make_task("flashcards", 1, world)
    assert make_shared_task("flashcards", 2, world).prompt != make_shared_task("flashcards", 1, World()).prompt
    monkeypatch.setitem(TASKS, "flashcards", SUITE["bug-hunt"])
    assert make_shared_task("flashcards", 1, world) == make_task("bug-hunt", 1, world)


def test_a_task_of_a_file_is_built_anew_for_each_trial(tmp_path):
    (tmp_path / "mine.py").write_text("from harness.tasks.flashcards import make_flashcards as mine\n")
    name = f"{tmp_path / 'mine.py'}:mine"
    assert make_shared_task(name, 1) == make_shared_task(name, 1)
    assert make_shared_task(name, 1) is not make_shared_task(name, 1)
