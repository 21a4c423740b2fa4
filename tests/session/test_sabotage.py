"""Runs with functions that are wrong on purpose: nobody can guess which they are, and edits change nothing else."""

import ast
import math
import subprocess
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sandboxes.toolserver import surveyor
from harness.session.sabotage import PATTERNS, Survey, apply_edits, collect_answers, list_missing, plan_runs, write_edits
from harness.task import FunctionChange, Interview

MODULE = '''"""A module."""


def share(part, whole):
    """Describe a share."""
    if whole == 0: return 0.0
    return (
        part  # comment
        / whole
    )


def pair(first, second):
    return first, second


class Words:
    def __init__(self, text):
        self.text = text

    def upper(self):
        def inner():
            return None

        inner()
        return self.text.upper() if self.text else "é"

    def longest(self):
        best = [word for word in self.text.split() if len(word) > 2]; return best


def walk():
    yield 1
    return 2
'''
CHANGES = (
    FunctionChange(path="app.py", function="share", kind="number", wrong=("value + 1", "value * 2 + 1")),
    FunctionChange(path="app.py", function="pair", kind="object", wrong=("None",), attributes=("count", "index")),
    FunctionChange(path="app.py", function="Words.upper", kind="text", wrong=("value[1:]", "value + 'x'")),
    FunctionChange(path="app.py", function="Words.longest", kind="list", wrong=("[*value][1:]", "[]")),
)
CALLS = {
    "share": lambda module: [module["share"](1, 4), module["share"](1, 0)],
    "pair": lambda module: [module["pair"](1, 2)],
    "Words.upper": lambda module: [module["Words"]("to and fro").upper(), module["Words"]("").upper()],
    "Words.longest": lambda module: [module["Words"]("to and fro").longest()],
}
"""Calls of each function, by its name."""
SCRIPT = """export function share(part: number, whole: number): number {
  return whole ? part / whole : 0;
}
export const upper = (text: string): string => text.toUpperCase();
export class Words {
  constructor(readonly text: string) {}
  longest(least = 3): string[] {
    return this.text.split(" ").filter((word) => word.length >= least);
  }
}
console.log(JSON.stringify([share(1, 4), upper("to"), new Words("to and fro").longest()]));
"""
SCRIPT_CHANGES = (
    FunctionChange(path="app.ts", function="share", kind="number", wrong=("value + 1",)),
    FunctionChange(path="app.ts", function="upper", kind="text", wrong=("value.slice(1)",)),
    FunctionChange(path="app.ts", function="Words.longest", kind="list", wrong=("value.slice(1)",)),
)
SUITE = Interview(source="", questions=("tests", "more"), changes=CHANGES, tests="tests")
PLAIN = Interview(source="", questions=("tests",), answer_names=("port",))


@pytest.fixture(scope="session")
def survey(tmp_path_factory):
    """Return what the surveyor finds in the module and in the script."""
    folder = tmp_path_factory.mktemp("survey")
    (folder / "app.py").write_text(MODULE, encoding="utf-8")
    (folder / "app.ts").write_text(SCRIPT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        functions = [[change.path, change.function] for change in (*CHANGES, *SCRIPT_CHANGES)]
        return Survey(**surveyor.survey({"functions": functions, "tests": []}))


def edit(survey, change, seed, *, is_wrong):
    """Return the text of a file in which one function is changed."""
    places = next(places for path, name, places in survey.functions if (path, name) == (change.path, change.function))
    text = survey.texts[change.path]
    return apply_edits(text, write_edits(text, change, places, is_wrong, Random(seed)))


def execute(text):
    """Return the names that a module defines."""
    module: dict[str, Any] = {}
    exec(compile(text, "app.py", "exec"), module)
    return module


def draw_pattern(survey, seed):
    """Return, for each run of the suite, whether it is one of those with a wrong function."""
    return tuple(run.names[run.interview.names[0]].startswith("broken_") for run in plan_runs([SUITE], survey, Random(seed)))


@pytest.mark.slow
def test_the_pattern_of_sabotaged_runs_can_be_guessed_at_most_once_in_thirty_times(survey):
    drawn = Counter(draw_pattern(survey, seed) for seed in range(4_000))
    assert max(drawn.values()) <= 4_000 / 30
    assert {len(pattern) for pattern in drawn} == {7}
    assert {sum(pattern) for pattern in drawn} == {3, 4}
    assert len(PATTERNS) == math.comb(6, 3) + math.comb(6, 4)


@given(st.integers(), st.sampled_from(CHANGES), st.booleans())
def test_an_edit_changes_every_result_of_its_function_and_else_nothing(survey, seed, change, is_wrong):
    before, after = execute(MODULE), execute(edit(survey, change, seed, is_wrong=is_wrong))
    for name, call in CALLS.items():
        pairs = list(zip(call(before), call(after), strict=True))
        assert all((old != new) is (is_wrong and name == change.function) for old, new in pairs)
    assert list(after["walk"]()) == [1]


@given(st.integers(), st.sampled_from(CHANGES))
def test_the_form_of_an_edit_does_not_depend_on_what_the_edit_does(survey, seed, change):
    """A right and a wrong edit differ in the place of the two values or in the condition, but not in their parts."""

    def collect(text):
        return Counter(type(node).__name__ for node in ast.walk(ast.parse(text)) if not isinstance(node, ast.Not | ast.UnaryOp))

    assert collect(edit(survey, change, seed, is_wrong=True)) == collect(edit(survey, change, seed, is_wrong=False))


def test_conditions_hold_as_often_in_right_edits_as_in_wrong_ones(survey):
    """Neither the negation nor the order of the two values tells a right edit from a wrong one."""
    change = CHANGES[0]
    for word in ("not hasattr", "if hasattr", "else _"):
        counts = [sum(word in edit(survey, change, seed, is_wrong=wrong) for seed in range(400)) for wrong in (True, False)]
        assert abs(counts[0] - counts[1]) < 100, word


@pytest.mark.bun
@pytest.mark.parametrize("change", SCRIPT_CHANGES, ids=lambda change: change.function)
def test_an_edit_in_typescript_changes_the_results_of_its_function_and_else_nothing(survey, change, tmp_path):
    number = SCRIPT_CHANGES.index(change)
    right = ["0.25", '"TO"', '["and","fro"]']
    for seed in range(4):
        path = tmp_path / f"app{seed}.ts"
        path.write_text(edit(survey, change, seed, is_wrong=seed % 2 == 1))
        done = subprocess.run(["bun", str(path)], capture_output=True, check=True, text=True)
        expected = [*right]
        if seed % 2 == 1:
            expected[number] = ["1.25", '"O"', '["fro"]'][number]
        assert done.stdout == f"[{','.join(expected)}]\n"


@given(st.integers())
def test_each_edited_run_edits_the_same_number_of_functions_and_wrong_functions_differ(survey, seed):
    changed = []
    for run in plan_runs([SUITE], survey, Random(seed)):
        if not run.replaced:
            continue
        ((path, text),) = run.replaced
        assert path == "app.py"
        before, after = execute(MODULE), execute(text)
        wrong = [name for name, call in CALLS.items() if call(before) != call(after)]
        is_wrong = run.names[run.interview.names[0]].startswith("broken_")
        assert len(wrong) == is_wrong
        changed += wrong
        assert text.count("hasattr") == 5
    assert len(changed) in (3, 4)
    assert len(set(changed)) >= 3


@given(st.integers())
def test_the_judge_gets_lists_of_answers_by_kind_of_run(survey, seed):
    runs = plan_runs([PLAIN, SUITE], survey, Random(seed))
    own_names = [name for run in runs for name in run.names]
    assert len(set(own_names)) == len(own_names) == 15
    answers = {name: f"{run.names[name]} {number}" for number, run in enumerate(runs) for name in run.names}
    collected = collect_answers(runs, answers)
    assert collected.pop("port") == "port 0"
    assert sorted(collected) == sorted(SUITE.names) == ["broken_more", "broken_tests", "more", "tests"]
    assert {name for name, texts in collected.items() for text in texts if text.split()[0] != name} == set()
    assert len(collected["tests"]) + len(collected["broken_tests"]) == len(runs) - 1
    missing = next(name for run in runs for name in run.names if run.names[name] == "broken_more")
    del answers[missing]
    assert "broken_more" not in collect_answers(runs, answers)


def test_an_interview_tells_nothing_about_the_kind_of_its_run(survey):
    runs = plan_runs([SUITE], survey, Random(1))
    assert {run.interview.source for run in runs} == {""}
    assert not any(run.interview.broken or run.interview.changes for run in runs)


def test_modules_before_a_correction_replace_those_of_the_workspace_in_two_runs(survey):
    old = Interview(source="", questions=("tests",), changes=CHANGES[:1], broken=(("app.py", "old"),))
    runs = plan_runs([old], survey, Random(1))
    assert len(runs) == 9
    replaced = [run for run in runs if run.replaced == (("app.py", "old"),)]
    assert [list(run.names.values()) for run in replaced] == [["broken_tests"]] * 2


def test_an_interview_whose_functions_are_missing_is_not_held_and_names_them(survey):
    absent = tuple(FunctionChange(path="app.py", function=name, kind="number", wrong=("0",)) for name in ("walk", "none", "x"))
    assert plan_runs([Interview(source="", questions=("tests",), changes=absent)], survey, Random(1)) == []
    assert list_missing([Interview(source="", questions=("tests",), changes=absent[:1])], survey) == ["app.py: walk"]
