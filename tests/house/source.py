"""Read the source code of the package and count its code lines, without docstrings, comments and blank lines."""

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PACKAGE = CHECKOUT / "harness"

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file of the package: path, text and syntax tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def code_lines(self) -> frozenset[int]:
        """Numbers of the lines that contain code."""
        return _find_code_lines(self.text, self.tree)

    @property
    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))


@cache
def modules() -> tuple[Module, ...]:
    """Return every Python file of the package, sorted by path."""
    return tuple(map(read, list_paths()))


def list_paths(folder: Path = PACKAGE) -> list[Path]:
    """Return the paths of the Python files in a folder, sorted."""
    return sorted(folder.rglob("*.py"))


@cache
def read(path: Path) -> Module:
    return parse(path.read_text(encoding="utf-8"), path.relative_to(CHECKOUT).as_posix())


def parse(text: str, path: str) -> Module:
    return Module(path=path, text=text, tree=ast.parse(text))


@cache  # apart from parsing, because splitting all files into tokens takes much longer than parsing them
def _find_code_lines(text: str, tree: ast.Module) -> frozenset[int]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {line for token in tokens if token.type not in _NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    return frozenset(code - _documentation(tree))


def body_lines(module: Module, function: Function) -> int:
    """Return the number of code lines in the body of a function, including nested functions."""
    first, last = function.body[0].lineno, function.end_lineno or function.lineno
    return sum(first <= line <= last for line in module.code_lines)


def parameters(function: Function) -> list[str]:
    """Return the names of the parameters of a function, except `self`, `cls` and `mcs`."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    stars = [star for star in (arguments.vararg, arguments.kwarg) if star is not None]
    return [argument.arg for argument in [*named, *stars] if argument.arg not in ("self", "cls", "mcs")]


def is_command(function: Function) -> bool:
    """Return whether a function is a click command, whose parameters are its options."""
    return any(".command" in ast.unparse(decorator) for decorator in function.decorator_list)


def _documentation(tree: ast.Module) -> set[int]:
    """Return the line numbers of docstrings, including the strings under fields."""
    strings = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return {line for node in strings for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
