"""Runs with modules broken on purpose: nobody can guess which they are, and the judge gets the answers by kind of run."""

import re
import shutil
import subprocess
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.session.sabotage import PATTERNS, collect_answers, insert_code, plan_runs
from harness.task import Interview

SUITE = Interview(source="", questions=("tests", "more"), broken=(("a.py", "x = 2\n"), ("b.py", "y = 2\n")))
PLAIN = Interview(source="", questions=("tests",), answer_names=("port",))


def draw_pattern(seed):
    """Return, for each run of the suite, whether its modules are broken."""
    return tuple(run.names[run.interview.names[0]].startswith("broken_") for run in plan_runs([SUITE], Random(seed)))


@pytest.mark.slow
def test_who_knows_the_number_of_each_run_guesses_right_at_most_once_in_twenty_times():
    drawn = Counter(map(draw_pattern, range(20_000)))
    assert set(drawn) == set(PATTERNS)
    assert max(drawn.values()) <= 20_000 / 20
    assert all(0 < pattern.count(False) < len(pattern) for pattern in drawn)


@given(st.integers(), st.booleans())
def test_inserted_code_breaks_a_module_only_on_demand_and_looks_alike_otherwise(seed, is_broken):
    text = insert_code("a.py", "def f():\n    return 2\n", is_broken, Random(seed))
    module: dict[str, Any] = {}
    exec("def f():\n    return 1\n" + text, module)
    assert module["f"]() == (2 if is_broken else 1)
    other = insert_code("a.py", "def f():\n    return 2\n", not is_broken, Random(seed))
    assert re.sub(r"\d+", "0", text) == re.sub(r"\d+", "0", other)


@pytest.mark.bun
@pytest.mark.parametrize("is_broken", [False, True])
def test_inserted_code_works_alike_in_typescript(is_broken):
    assert (bun := shutil.which("bun"))
    for seed in range(5):
        program = "let f = () => 1;\n" + insert_code("src/a.ts", "f = () => 2;", is_broken, Random(seed)) + "console.log(f());"
        assert subprocess.run([bun, "-e", program], capture_output=True, check=True).stdout == (b"2\n" if is_broken else b"1\n")


@given(st.integers())
def test_the_judge_gets_lists_of_answers_by_kind_of_run(seed):
    runs = plan_runs([PLAIN, SUITE], Random(seed))
    own_names = [name for run in runs for name in run.names]
    assert len(set(own_names)) == len(own_names) == 11
    answers = {name: f"{run.names[name]} {number}" for number, run in enumerate(runs) for name in run.names}
    collected = collect_answers(runs, answers)
    assert collected.pop("port") == "port 0"
    assert sorted(collected) == sorted(SUITE.names) == ["broken_more", "broken_tests", "more", "tests"]
    assert {name for name, found in collected.items() for text in found if text.split()[0] != name} == set()
    assert len(collected["tests"]) + len(collected["broken_tests"]) == len(runs) - 1
    missing = next(name for run in runs for name in run.names if run.names[name] == "broken_more")
    del answers[missing]
    assert "broken_more" not in collect_answers(runs, answers)


def test_what_is_appended_in_a_run_tells_nothing_about_the_kind_of_run_but_numbers():
    runs = plan_runs([SUITE], Random(1))
    assert len({re.sub(r"\d+", "0", str(run.interview.appended)) for run in runs}) == 1
    assert {re.sub(r"\d+", "0", str(run.interview.names)) for run in runs} == {"('0.0.tests', '0.0.more')"}
    assert not any(run.interview.broken for run in runs)
