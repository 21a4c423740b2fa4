"""Python files of the user that define tasks or policies, and the modules beside such a file.

A file is executed anew whenever its task is made or its policy is loaded. While it is executed, it can import the modules and
packages in its own folder, as in `python FILE`. Only modules that the text of the file or of such a module names in an import
statement can be imported, so that a digest of their texts tells whether the task or the policy changed. They are not kept in
`sys.modules`, so files in different folders can have modules of the same name.
"""

import ast
import hashlib
import importlib
import importlib.util
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from harness.errors import UsageError, advise_moved_module
from harness.files.bounded_input import read_input

MAX_USER_FILE_BYTES = 16 * 2**20
"""Maximum size in bytes of a Python file of the user, and of each module beside it."""
_NOT_LOCAL = sys.stdlib_module_names | {__name__.partition(".")[0]}
"""Names of modules that are never taken from the folder of a user's file."""
_IMPORT_LOCK = threading.RLock()
"""Lock for the changes to `sys.modules` and `sys.meta_path` while a file is executed; trials may run in threads."""


def load_module(path: Path, noun: str = "task") -> ModuleType:
    """Execute a Python file that defines tasks or policies, and return it as a module.

    Args:
        path: Path of the file.
        noun: What the file defines, for error messages. Default: `'task'`.

    Raises:
        UsageError: The file or a module beside it cannot be read or is too large, or the code raises an error.
    """
    names = _find_local_modules(path)
    module_name = f"harness_task_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path, loader=_SourceLoader(module_name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        with _import_beside(path, names):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the file is code of the user
        sys.modules.pop(module_name, None)
        moved = advise_moved_module(error)
        raise UsageError(f"the {noun} file {str(path)!r} cannot be loaded{describe_error(error, spec.origin)}{moved}") from error
    return module


def hash_file(path: Path) -> str:
    """Return the SHA-256 digest of a Python file and of the modules beside it that it imports, directly or through each other.

    Raises:
        UsageError: A file cannot be read or is too large.
    """
    digest = hashlib.sha256(_read(path))
    for file in sorted({file for files in _find_local_modules(path).values() for file in files}):
        digest.update(f"\0{file.relative_to(path.parent).as_posix()}\0{hashlib.sha256(_read(file)).hexdigest()}".encode())
    return digest.hexdigest()


def describe_error(error: BaseException, file: str | None) -> str:
    """Return a description of an error, with the number of the line in a user's file that caused it."""
    executed_lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    if isinstance(error, SyntaxError) and error.filename == file and error.lineno:
        executed_lines.append(error.lineno)
    return f"{f' (line {executed_lines[-1]})' if executed_lines else ''}: {type(error).__name__}: {error}"


def _read(file: Path) -> bytes:
    try:
        return read_input(file, MAX_USER_FILE_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read the file {str(file)!r}: {error.strerror}") from error


def _find_local_modules(path: Path) -> dict[str, Sequence[Path]]:
    """Return the files of each module or package beside a file that the file imports, directly or through each other.

    The keys are the names of the modules. All Python files of a package count as imported.
    """
    modules: dict[str, Sequence[Path]] = {}
    pending = [path]
    while pending:
        for name in _list_imports(_read(pending.pop())) - modules.keys() - _NOT_LOCAL:
            if files := _list_files(path.parent, name):
                modules[name] = files
                pending += files
    return modules


def _list_files(folder: Path, name: str) -> Sequence[Path]:
    if (folder / name / "__init__.py").is_file():
        return sorted((folder / name).rglob("*.py"))
    file = folder / f"{name}.py"
    return [file] if file.is_file() else []


@lru_cache(maxsize=256)
def _list_imports(source: bytes) -> frozenset[str]:
    """Return the names of the top-level modules that a source text imports anywhere; none if it is no valid Python."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return frozenset(name.partition(".")[0] for name in names)


class _SourceLoader(SourceFileLoader):
    """Loader that compiles the text of a file and takes no bytecode from `__pycache__`.

    Python trusts stored bytecode while a file's size and the second of its change stay equal, so an edit soon after a run, such
    as from 6 to 4, would run the old code under the digest of the new one.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _LocalFinder:
    """Finder of the import system for certain modules and packages of one folder."""

    def __init__(self, folder: Path, names: frozenset[str]) -> None:
        self._folder, self._names = folder, names

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in self._names:
            return None
        spec = PathFinder.find_spec(name, [str(self._folder)] if path is None else path, target)
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _SourceLoader(name, spec.loader.path)
        return spec


@contextmanager
def _import_beside(path: Path, names: dict[str, Sequence[Path]]) -> Iterator[None]:
    """Let the code in the `with` block import these modules from the folder of a file; afterwards, they are forgotten."""
    if not names:
        yield
        return
    finder = _LocalFinder(path.parent.absolute(), frozenset(names))
    with _IMPORT_LOCK:
        others = _pop_modules(names)
        importlib.invalidate_caches()
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            _pop_modules(names)
            sys.modules.update(others)


def _pop_modules(names: dict[str, Sequence[Path]]) -> dict[str, ModuleType]:
    loaded_names = [name for name in sys.modules if name.partition(".")[0] in names]
    return {name: sys.modules.pop(name) for name in loaded_names}
