"""Docstrings, and the entries of their sections, are sentences: they begin with a capital letter and end with a full stop.

Percentages in texts have one form, that of `harness.text.format_percent`.
"""

import ast
import inspect
from collections.abc import Iterator

import pytest
from docstring_parser import DocstringStyle, parse

from tests.house.source import CHECKOUT, Module, list_paths, read
from tests.house.source import parse as parse_module

ENDS = (".", "?", "!", ":")


def list_docstrings(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the line number and the text of each docstring, including the strings under fields and constants."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, inspect.cleandoc(node.value.value)


def list_sentences(docstring: str) -> Iterator[str]:
    """Yield the first paragraph of a docstring and each entry of its sections, such as `Args` and `Raises`."""
    yield docstring.partition("\n\n")[0]
    parsed = parse(docstring, DocstringStyle.GOOGLE)
    yield from (entry.description or "" for entry in (*parsed.params, *parsed.raises))


def find_fragments(module: Module) -> list[str]:
    """Return the texts in docstrings that begin with a small letter or end without a full stop."""
    texts = [(line, text.strip()) for line, docstring in list_docstrings(module) for text in list_sentences(docstring)]
    return [f"{module.path}:{line}: {text!r}" for line, text in texts if text[:1].islower() or not text.endswith(ENDS)]


@pytest.mark.parametrize("path", list_paths(), ids=lambda path: path.relative_to(CHECKOUT).as_posix())
def test_docstrings_are_sentences(path):
    assert find_fragments(read(path)) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('"""A module."""\n', 0),
        ('"""a module."""\n', 1),
        ('"""A module"""\n', 1),
        ('LIMIT = 3\n"""number of tries."""\n', 1),
        ('class A:\n    size: int\n    """95 % of the size."""\n', 0),
        ('def f(a):\n    """Do it.\n\n    Args:\n        a: Number of tries.\n    """\n', 0),
        ('def f(a):\n    """Do it.\n\n    Args:\n        a: number of tries.\n    """\n', 1),
        ('def f(a):\n    """Do it.\n\n    Args:\n        a: Number of tries\n    """\n', 1),
        ('def f(a):\n    """Do it.\n\n    Raises:\n        UsageError: it was tried before.\n    """\n', 1),
    ],
)
def test_fragments_are_detected(text, count):
    assert len(find_fragments(parse_module(text, "x.py"))) == count


def find_percent_formats(module: Module) -> list[str]:
    """Return the places where a text formats a number as a percentage itself, with the format `%`."""
    formats = (node for node in ast.walk(module.tree) if isinstance(node, ast.FormattedValue) and node.format_spec)
    return [
        f"{module.path}:{node.lineno}"
        for node in formats
        if isinstance(node.format_spec, ast.JoinedStr) and ast.unparse(node.format_spec).rstrip("'\"").endswith("%")
    ]


@pytest.mark.parametrize("path", list_paths(), ids=lambda path: path.relative_to(CHECKOUT).as_posix())
def test_percentages_have_one_form(path):
    assert find_percent_formats(read(path)) == []


@pytest.mark.parametrize(("text", "count"), [('f"{share:.0%}"', 1), ('f"{share:+.1%} of"', 1), ('f"{share:.1f} %"', 0)])
def test_other_forms_of_percentages_are_detected(text, count):
    assert len(find_percent_formats(parse_module(text, "x.py"))) == count
