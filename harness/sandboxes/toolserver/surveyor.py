"""Program that looks at the source files of a workspace before any code of the agent runs, and prints what it finds.

It finds the functions that a grader wants to change (see `harness.session.sabotage`), and counts the tests that the agent wrote.
It only parses files, so no code of the agent can forge the result. It uses the sandbox's Python, whose syntax the agent's code
has.

The argument is the path of a JSON file with a request: `functions` is a list of pairs of path and name, and `tests` the paths of
folders with tests. The program deletes its own folder. The output is a JSON object:

- `texts`: text of each file in which a function was found, by path.
- `functions`: triples of path, name and places. A place is a list of three positions in the text, in characters. In Python, there
  is one place for each `return`: its start, the start of the returned expression, and its end. In TypeScript, there is one place,
  the head of the definition: its start, and start and end of the name.
- `tests`: number of tests.

A test counts if it, or what it uses in the folder with tests, uses the agent's modules and asserts something, and if no other
test has the same code. Tests that exist only when the program runs do not count.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeAlias

    Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

MAX_FILE_BYTES = 1 << 20
"""Maximum size in bytes of a file that is parsed; a larger file counts as empty."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)
_ASSERTION = re.compile(r"assert|fail|expect|raises|warns|check|verify")
_SCRIPT_ENDINGS = (".ts", ".tsx", ".js", ".mjs")
_SCRIPT_TEST = re.compile(r"(?<![\w.$])(?:test|it)((?:\s*\.\s*\w+)*)\s*\(")
_SCRIPT_CALL = re.compile(r"\w\s*\(")
_SCRIPT_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`", re.DOTALL)


def read_text(path: str) -> str:
    """Return the text of a regular file; an empty string if it has none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        return content.decode() if len(content) <= MAX_FILE_BYTES else ""
    except (OSError, UnicodeDecodeError):
        return ""


def parse(text: str) -> ast.Module:
    """Return the syntax tree of a Python file; an empty one if it cannot be parsed."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def find_functions(path: str, names: list[str]) -> tuple[str, list[list[Any]]]:
    """Return the text of a file, and the places in it at which functions can be changed.

    The name of a method is preceded by the name of its class and a dot. An empty name stands for every function that is defined
    at the top level of the module.
    """
    text = read_text(path)
    if path.endswith(_SCRIPT_ENDINGS):
        return text, [[path, name, places] for name in names for places in [_find_heads(text, name)] if places]
    tree = parse(text)
    functions = []
    for name in names:
        for full_name, function in _list_definitions(tree):
            places = _find_returns(text, function)
            if places and (full_name == name or (not name and "." not in full_name)):
                functions.append([path, full_name, places])
    return text, functions


def _list_definitions(tree: ast.Module) -> list[tuple[str, Function]]:
    """Return the functions and methods of a module by name; of several with one name, only the last, which is in force."""
    definitions = {}
    for node in tree.body:
        if isinstance(node, _FUNCTIONS):
            definitions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            definitions.update({"%s.%s" % (node.name, part.name): part for part in node.body if isinstance(part, _FUNCTIONS)})
    return list(definitions.items())


def _find_returns(text: str, function: Function) -> list[list[int]]:
    """Return start, start of the expression, and end of each `return` of a function that returns a value."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines(keepends=True)

    def locate(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    places, waiting = [], list(function.body)  # type: list[list[int]], list[Any]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return []  # a generator returns no value
        if isinstance(node, ast.Return) and node.value is not None:
            start = locate(node.lineno, node.col_offset)
            places.append([start, start + len("return"), locate(node.end_lineno or 0, node.end_col_offset or 0)])
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))
    return sorted(places)


def _find_heads(text: str, name: str) -> list[list[int]]:
    """Return the head of the definition of a function in TypeScript: its start, and start and end of the name."""
    owner, _, method = name.rpartition(".")
    if not owner:
        head = re.search(r"^(?:export\s+)?(?:function|const)\s+(%s)(?![\w$])" % re.escape(name), text, re.MULTILINE)
    else:
        start = re.search(r"^(?:export\s+)?(?:default\s+)?class\s+%s\b" % re.escape(owner), text, re.MULTILINE)
        pattern = re.compile(r"^[ \t]+(?:public\s+)?(%s)\s*\([^;{}]*\)[^;{}()]*\{" % re.escape(method), re.MULTILINE)
        head = pattern.search(text, start.end()) if start else None
    return [[head.start(), head.start(1), head.end(1)]] if head else []


class TestFolder:
    """Python files of a folder with tests."""

    def __init__(self, folder: str, packages: set[str]) -> None:
        """Parse the files of a folder; `packages` are the names of the modules and folders with the agent's code."""
        self.packages = packages
        self.modules = {path: parse(read_text(path)) for path in walk_files(folder, (".py",))}
        self.shared: dict[str, list[ast.AST]] = {}
        self.imported: set[str] = set()
        """Names in any file of the folder that stand for modules of the agent or parts of them."""
        for tree in self.modules.values():
            self.imported |= self._list_imported(tree)
            for name, node in _list_names(tree):
                self.shared.setdefault(name, []).append(node)

    def list_tests(self) -> Iterator[str]:
        """Yield the code of each test that counts, with the code of its class, as text."""
        for path, tree in self.modules.items():
            if not os.path.basename(path).startswith("test_"):
                continue
            own = {}  # type: dict[str, list[ast.AST]]
            for name, node in _list_names(tree):
                own.setdefault(name, []).append(node)
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and node.bases and not _is_skipped(node):
                    yield from self._list_class(node, own)

    def _list_class(self, node: ast.ClassDef, own: dict[str, list[ast.AST]]) -> Iterator[str]:
        members, others = {}, []  # type: dict[str, ast.AST], list[ast.stmt]
        for owner in self._list_ancestors(node, own):
            for part in owner.body:
                if isinstance(part, _FUNCTIONS):
                    members.setdefault(part.name, part)
                elif not _is_text(part):
                    others.append(part)
        fixture = [member for name, member in members.items() if re.match(r"(async)?(setUp|tearDown)", name)]
        fixture += others
        surroundings = " ".join(map(_describe, fixture))
        for name, member in members.items():
            if name.startswith("test") and isinstance(member, _FUNCTIONS) and not _is_skipped(member):
                uses, asserts = self._explore([member, *fixture], members, own)
                if uses and asserts:
                    yield "%s %s" % (" ".join(_describe(line) for line in member.body if not _is_text(line)), surroundings)

    def _list_ancestors(self, node: ast.ClassDef, own: dict[str, list[ast.AST]]) -> list[ast.ClassDef]:
        ancestors = [node]
        for owner in ancestors:
            for base in owner.bases:
                name = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
                for known in own.get(name) or self.shared.get(name, []):
                    if isinstance(known, ast.ClassDef) and known not in ancestors:
                        ancestors.append(known)
        return ancestors

    def _explore(self, roots: list[Any], members: dict[str, ast.AST], own: dict[str, list[ast.AST]]) -> tuple[bool, bool]:
        """Return whether code, or what it calls in the folder, uses the agent's modules, and whether it asserts something."""
        uses, asserts, seen, waiting = False, False, set(), list(roots)  # type: bool, bool, set[int], list[Any]
        while waiting:
            root = waiting.pop()
            if id(root) in seen:
                continue
            seen.add(id(root))
            for node in ast.walk(root):
                if isinstance(node, (ast.Assert, ast.Raise)):
                    asserts = True
                elif isinstance(node, ast.Name):
                    uses = uses or node.id in self.imported
                    asserts = asserts or _ASSERTION.match(node.id) is not None
                    waiting.extend(own.get(node.id) or self.shared.get(node.id, []))
                elif isinstance(node, ast.Attribute):
                    asserts = asserts or _ASSERTION.match(node.attr.lstrip("_")) is not None
                    if node.attr in members:
                        waiting.append(members[node.attr])
                    else:
                        waiting.extend(part for part in self.shared.get(node.attr, []) if isinstance(part, _FUNCTIONS))
                elif isinstance(node, (ast.Import, ast.ImportFrom)):
                    uses = uses or bool(self._list_imported(ast.Module(body=[node], type_ignores=[])))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    uses = uses or not self.packages.isdisjoint(re.findall(r"\w+", node.value))
        return uses, asserts

    def _list_imported(self, tree: ast.Module) -> set[str]:
        """Return the names in a module that stand for modules of the agent or parts of them."""
        names = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.partition(".")[0] in self.packages:
                        names.add(alias.asname or alias.name.partition(".")[0])
            elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in self.packages:
                names.update(alias.asname or alias.name for alias in node.names)
        return names


def _list_names(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the name and the definition of each function, class and variable at the top level of a module."""
    for node in tree.body:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        yield part.id, node


def _is_skipped(node: Function | ast.ClassDef) -> bool:
    return any("skip" in _describe(decorator).lower() for decorator in node.decorator_list)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _describe(node: ast.AST) -> str:
    try:
        return ast.dump(node)
    except RecursionError:
        return ""


def list_script_tests(text: str) -> Iterator[str]:
    """Yield the code of each test in a TypeScript file that counts, as text; a test with a table counts once for each row."""
    # a file that does not import the program tests nothing of it
    if re.search(r"from\s*[\"'][^\"']*\bsrc/|import\(\s*[\"'`][^\"'`]*\bsrc/|\bsrc/\w+\.ts", text) is None:
        return
    # comments are removed; strings also match, so that a comment within a string stays
    code = _SCRIPT_TOKEN.sub(lambda match: "" if match[0].startswith("/") else match[0], text)
    if re.search(r"\b(?:expect|assert)\w*\s*[(.]", code) is None:
        return
    heads = list(_SCRIPT_TEST.finditer(code))
    for number, head in enumerate(heads):
        words = re.findall(r"\w+", head[1])
        body = code[head.end() : heads[number + 1].start() if number + 1 < len(heads) else len(code)]
        rows = 1
        if "each" in words:
            rows, body = _split_table(body)
        name = re.match(r"\s*(?:\"[^\"]*\"|'[^']*'|`[^`]*`)", body)
        body = body[name.end() :] if name else body
        if _SCRIPT_CALL.search(body) and not {"skip", "todo", "if", "skipIf", "todoIf"}.intersection(words):
            for row in range(rows):
                yield "%d %s" % (row, " ".join(body.split()))


def _split_table(body: str) -> tuple[int, str]:
    """Return the number of rows of a table literal, and the rest of the text after the table."""
    depth, rows, has_row = 1, 0, False
    bare = _SCRIPT_TOKEN.sub(lambda match: "0" * len(match[0]), body)
    for position, character in enumerate(bare):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth == 0:
                return max(1, rows + has_row), body[position + 1 :].lstrip().lstrip("(")
        if depth == 2 and character == ",":
            rows, has_row = rows + 1, False
        elif depth >= 2 and character not in "[ \n\t":
            has_row = True
    return 1, body


def walk_files(folder: str, endings: tuple[str, ...]) -> list[str]:
    """Return the sorted paths of the files below a folder whose names have one of the given endings."""
    return sorted(os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names if name.endswith(endings))


def count_tests(folder: str, packages: set[str]) -> int:
    """Return the number of tests in a folder that count."""
    tests = set(TestFolder(folder, packages).list_tests())
    for path in walk_files(folder, _SCRIPT_ENDINGS):
        if re.search(r"[._](?:test|spec)\.\w+$", path):
            tests.update(list_script_tests(read_text(path)))
    return len(tests)


def survey(request: dict[str, Any]) -> dict[str, Any]:
    """Return texts, functions and number of tests for a request."""
    names_by_path = {}  # type: dict[str, list[str]]
    for path, name in request["functions"]:
        names_by_path.setdefault(path, []).append(name)
    texts, functions = {}, []  # type: dict[str, str], list[Any]
    for path, names in names_by_path.items():
        text, found = find_functions(path, names)
        if found:
            texts[path] = text
            functions += found
    packages = {path.partition("/")[0].partition(".")[0] for path in names_by_path}
    return {"texts": texts, "functions": functions, "tests": sum(count_tests(folder, packages) for folder in request["tests"])}


def main() -> None:
    """Print what the files of the workspace contain."""
    path = sys.argv[1]
    with open(path, encoding="utf-8") as file:
        request = json.load(file)
    os.unlink(path)
    os.unlink(__file__)
    os.rmdir(os.path.dirname(__file__))
    sys.setrecursionlimit(5_000)
    sys.stdout.write(json.dumps(survey(request)))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
