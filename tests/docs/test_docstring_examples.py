"""Every public name has an example in its docstring, and the examples run as doctests.

Examples that take long are skipped (`# doctest: +SKIP`) or written as a literal block (`Example::`). Their imports, names and
arguments must exist as well.
"""

import builtins
import doctest
import inspect
import re
import textwrap

import pytest

from harness import figures
from tests.docs.test_examples import WRONG, check_python
from tests.docs.test_reference import PUBLIC

EXPLAINED = {name: value for name, value in PUBLIC.items() if inspect.isclass(value) or inspect.isfunction(value)}
EXPLAINED |= {f"figures.{name}.table": module.table for name, module in figures.FIGURES.items()}
EXPLAINED |= {f"figures.{name}.draw": module.draw for name, module in figures.FIGURES.items()}
LITERAL = re.compile(r"^Example::\n\n((?: {4}.*\n?|\n)+)", re.MULTILINE)


def find_doctests(value: object, name: str) -> list[doctest.DocTest]:
    return [test for test in doctest.DocTestFinder().find(value, name, module=False, globs={}) if test.examples]


def run_doctest(test: doctest.DocTest) -> str:
    """Run an example in an empty name space and return the report of failures."""
    report: list[str] = []
    try:
        doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    finally:
        vars(builtins).pop("_", None)  # in which an example leaves its last value
    return "".join(report)


def extract_programs(value: object, name: str) -> list[str]:
    """Return the source text of the examples of a class or function, whether they run or not."""
    literal = [textwrap.dedent(block) for block in LITERAL.findall(inspect.getdoc(value) or "")]
    return ["".join(example.source for example in test.examples) for test in find_doctests(value, name)] + literal


@pytest.mark.parametrize("name", EXPLAINED)
def test_every_public_name_has_an_example(name):
    assert extract_programs(EXPLAINED[name], name)


@pytest.mark.parametrize("name", [name for name in EXPLAINED if find_doctests(EXPLAINED[name], name)])
def test_the_examples_of_a_public_name_run(name):
    for test in find_doctests(EXPLAINED[name], name):
        assert run_doctest(test) == ""


@pytest.mark.parametrize("name", EXPLAINED)
def test_examples_use_names_and_arguments_that_exist(name):
    for program in extract_programs(EXPLAINED[name], name):
        check_python(f"import harness\n{program}")


def explain_wrongly() -> None:
    """Do nothing.

    Example:
        >>> 1 + 1
        3

    Example::

        harness.Trial(tsk="flashcards")
    """


def test_wrong_examples_are_detected():
    programs = extract_programs(explain_wrongly, "wrong")
    assert programs == ["1 + 1\n", 'harness.Trial(tsk="flashcards")']
    assert "Expected" in run_doctest(find_doctests(explain_wrongly, "wrong")[0])
    with pytest.raises(WRONG):
        check_python(f"import harness\n{programs[1]}")
