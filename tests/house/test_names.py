"""Names: `harness.__all__` is complete, public names have docstrings, files have specific names, functions begin with verbs.

Variables of tests are named after what they contain.
"""

import ast
import inspect
import re
from pathlib import Path, PurePosixPath

import pytest

import harness
import harness.testing
from tests.house.names import count_names, is_participle
from tests.house.source import PACKAGE, list_paths, modules, parse, read

VAGUE_FILES = {"base", "common", "core", "helpers", "misc", "types", "util", "utils"}
NOT_MIRRORED = {"bench", "contracts", "docs", "golden", "house", "laws", "notebooks", "peers"}
NAMES_AT_MOST = 46
PARTICIPLES_AT_MOST = 0.02
EMPTY_NAMES = {"found", "made", "said", "talk", "told"}
"""Names that say how a value came about, not what it is."""

LAZY_MODULES = (harness, harness.testing)
"""Packages that import a public name when it is first used."""


def order(name: str) -> tuple[int, str]:
    """Return a sort key: constants, then classes, then functions, in the order of the linter."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2, name)


def bound_names(tree: ast.Module) -> set[str]:
    """Return the public names that a module binds at its top level or under `TYPE_CHECKING`."""
    checked = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    names: set[str] = set()
    for node in [*tree.body, *(inner for block in checked for inner in block.body)]:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("harness"):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("module", LAZY_MODULES)
def test_exported_names_are_sorted_and_few(module):
    assert module.__all__ == sorted(set(module.__all__), key=order)
    assert len(module.__all__) <= NAMES_AT_MOST


@pytest.mark.parametrize("module", LAZY_MODULES)
def test_exported_names_are_exactly_what_the_module_binds(module):
    assert bound_names(read(Path(module.__file__)).tree) == {name for name in module.__all__ if not name.startswith("_")}


@pytest.mark.parametrize("module", LAZY_MODULES)
def test_every_exported_name_is_there_and_described(module):
    values = {name: getattr(module, name) for name in module.__all__}
    documented = {name: value for name, value in values.items() if inspect.isclass(value) or inspect.isroutine(value)}
    assert [name for name, value in documented.items() if not inspect.getdoc(value)] == []


@pytest.mark.parametrize("module", LAZY_MODULES)
def test_every_exported_name_is_listed_by_dir(module):
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("module", LAZY_MODULES)
def test_an_unknown_name_is_an_attribute_error(module):
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(module, "no_such_name")  # noqa: B009, the type checker refuses plain access


def test_no_public_name_of_a_package_hides_a_module_of_it():
    hidden = {}
    for module in modules():
        folder = PACKAGE.parent / PurePosixPath(module.path).parent
        if PurePosixPath(module.path).name == "__init__.py":
            own_names = {
                alias.asname or alias.name
                for node in ast.walk(module.tree)
                if isinstance(node, ast.ImportFrom) and node.module != module.path.removesuffix("/__init__.py").replace("/", ".")
                for alias in node.names
            }
            hidden[module.path] = own_names & {path.stem for path in folder.glob("*.py")}
    assert {path: names for path, names in hidden.items() if names} == {}


def undescribed(tree: ast.Module, path: str) -> list[str]:
    """Return public modules, classes and functions without a docstring, except overrides and overloads."""
    missing = [] if ast.get_docstring(tree) else [path]
    scopes: list[tuple[str, list[ast.stmt]]] = [(path, tree.body)]
    while scopes:
        owner, body = scopes.pop()
        for node in body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            told_elsewhere = {"override", "overload"} & {ast.unparse(d).split(".")[-1] for d in node.decorator_list}
            if node.name.startswith("_") or told_elsewhere:
                continue
            name = f"{owner}:{node.name}" if owner == path else f"{owner}.{node.name}"
            missing += [] if ast.get_docstring(node) else [name]
            scopes += [(name, node.body)] if isinstance(node, ast.ClassDef) else []
    return missing


def test_every_public_name_has_a_docstring():
    assert [name for module in modules() for name in undescribed(module.tree, module.path)] == []


def test_a_missing_docstring_is_seen():
    tree = ast.parse('"""M."""\nclass A:\n    """A."""\n    def f(self): ...\n    def _g(self): ...\ndef h(): ...\n')
    assert undescribed(tree, "x.py") == ["x.py:h", "x.py:A.f"]


def test_no_file_has_a_name_that_could_mean_anything():
    assert [module.path for module in modules() if PurePosixPath(module.path).stem.strip("_") in VAGUE_FILES] == []


def mirrored(test: PurePosixPath) -> list[PurePosixPath]:
    """Return the modules and scripts that a test file may test; some names, such as `test_checks`, stand for a whole package."""
    name = test.stem.removeprefix("test_")
    if name.endswith("_properties") or name in {"checks", "constants", "defaults", "facts", "steps", "texts"}:
        return [test.parent / "__init__.py"]
    files = (f"{name}.py", f"_{name}.py", f"{name}.js", f"{name}/__init__.py")
    return [test.parent / file for file in files]


def test_tests_mirror_the_code(checkout: Path):
    tests = (path.relative_to(checkout / "tests") for path in (checkout / "tests").rglob("test_*.py"))
    judged = [PurePosixPath(test) for test in tests if test.parts[0] not in NOT_MIRRORED]
    assert [str(test) for test in judged if not any((PACKAGE / place).exists() for place in mirrored(test))] == []


def test_functions_are_named_by_verbs():
    count = count_names(modules())
    assert count.functions > 1_000
    assert count.share <= PARTICIPLES_AT_MOST, count.participles


SCRIPT_FUNCTION = re.compile(
    r"^\s*(?:async )?function (\w+)|^\s*const (\w+) = (?:async )?(?:\([^()]*\)|\w+) =>|^  (?:async )?(\w+)\([^()]*\) {$",
    re.MULTILINE,
)
"""Functions and methods of a script; its first words are in camel case."""


def test_functions_of_scripts_are_named_by_verbs():
    texts = {path.name: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("js/*.js")}
    names = [(name, match[1] or match[2] or match[3]) for name, text in texts.items() for match in SCRIPT_FUNCTION.finditer(text)]
    assert len(names) > 100
    assert [name for name in names if is_participle(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name[1]).lower())] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("told", True),
        ("_fitted_policy", True),
        ("listening", True),
        ("seed", False),
        ("need", False),
        ("tell", False),
        ("is_told", False),
    ],
)
def test_participles_are_recognised_by_the_first_word(name, expected):
    assert is_participle(name) is expected
    module = parse(f"def {name}(): ...\ndef __init__(): ...\n", "harness/made_up.py")
    assert count_names([module]) == (1, (f"harness/made_up.py:1 {name}",) if expected else ())


def list_empty_names(text: str, path: str) -> list[str]:
    """Return place and name of each variable, parameter, function and class with a name that does not say what it is."""
    names = [(1, PurePosixPath(path).stem)]
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.append((node.lineno, name))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.append((node.lineno, name))
    return [f"{path}:{line} {name}" for line, name in sorted(names) if name.strip("_") in EMPTY_NAMES]


def test_names_in_tests_say_what_a_value_is(checkout: Path):
    files = {path: path.read_text(encoding="utf-8") for path in list_paths(checkout / "tests")}
    assert [name for path, text in files.items() for name in list_empty_names(text, str(path.relative_to(checkout)))] == []


@pytest.mark.parametrize(
    "line",
    [
        "found = 1",
        "for told in (): ...",
        "def said(): ...",
        "check(lambda made: 1)",
        "self.talk = 1",
        "if (found := 1): ...",
        "_told: int = 1",
    ],
)
def test_a_variable_name_without_meaning_is_reported(line):
    assert len(list_empty_names(f"{line}\n", "tests/x.py")) == 1
    assert list_empty_names("answer.found.told(said)\n", "tests/x.py") == []
