"""The counter of code lines behind `make sizes`."""

import pytest

from tests.house.sizes import describe_sizes
from tests.house.source import body_lines, parameters, parse


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('"""A module."""\n\nx = 1\n', 1),
        ("# why\nx = [\n    1,\n\n    2,\n]\n", 4),
        ('def f():\n    """Says.\n\n    More.\n    """\n    return 1\n', 2),
        ('class A:\n    x: int\n    """What it is."""\n', 2),
        ('x = """\na text\n"""\n', 3),
    ],
)
def test_code_lines_are_counted_without_docstrings_comments_and_blanks(text, lines):
    assert len(parse(text, "x.py").code_lines) == lines


def test_body_lines_and_parameters_are_counted():
    module = parse("class A:\n    def f(self, a, *, b, **c):\n        x = 1\n\n        return x\n", "x.py")
    (function,) = module.functions
    assert body_lines(module, function) == 2
    assert parameters(function) == ["a", "b", "c"]


def test_unusually_large_functions_are_listed():
    body = "".join(f"    x{number} = {number}\n" for number in range(60))
    report = describe_sizes([parse(f"def f(a, b, c, d, e, g, h):\n{body}", "harness/made_up.py")])
    assert "harness/made_up.py:1 f: 60 lines" in report
    assert "harness/made_up.py:1 f: 7 parameters" in report
    assert describe_sizes([parse("x = 1\n", "harness/made_up.py")]).count("made_up") == 1  # the module has under 40 lines
