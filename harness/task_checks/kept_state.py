"""Find out whether a call of a task's code changes state that stays in the process, such as a counter of calls.

Such code could behave differently the next time. The state is found by following references from a function: to global variables
of its module and of the task's other modules, closures, default values, attributes, and objects of any class. Other state, e.g.
in files or in C libraries, is not found.
"""

import hashlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CellType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

FOREIGN_PREFIXES = ("<frozen", *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
"""Path prefixes by which files of Python itself and of installed packages are recognized."""
_HARNESS_DIRECTORY = Path(__file__).parents[1]
_ATOMS = (type(None), bool, int, float, complex, str, bytes)


@cache
def is_task_file(path: str) -> bool:
    """Return whether a file contains code of a task.

    Files of Python, of installed packages and of the harness do not, except the harness's own tasks.
    """
    if not path or path.startswith(FOREIGN_PREFIXES):
        return False
    return not Path(path).is_relative_to(_HARNESS_DIRECTORY) or Path(path).relative_to(_HARNESS_DIRECTORY).parts[0] == "tasks"


def list_changed_variables(function: Callable[..., object], act: Callable[[], object], *values: object) -> list[str]:
    """Call `act` twice, and return the names of the variables that the second call changes.

    Changes by the first call are allowed, because it may fill a cache.

    Args:
        function: Function of a task that `act` calls; all variables that this function can reach are compared.
        act: Function that should do the same each time.
        values: Further values that the function can change; they are compared together, under the name `expected`.
    """
    act()
    before = _describe_state(function, *values)
    act()
    after = _describe_state(function, *values)
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _describe_state(function: Callable[..., object], *values: object) -> dict[str, str]:
    """Return a digest of each variable that a function can reach, by name of the variable."""
    description = _StateDescription()
    description.add_function(function)
    description.add("expected", values)
    description.add_environment()
    return description.digests


class _StateDescription:
    """Digests of the variables that functions of a task can reach, by name of the variable."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self._described_modules: set[int] = set()
        self._waiting: list[tuple[str, Mapping[str, object]]] = []

    def add(self, name: str, value: object) -> None:
        """Add the digest of one value; the modules of functions to which the value refers are added later."""
        digest = hashlib.sha256()
        for part in self._list_parts(value):
            digest.update(part.encode(errors="replace") + b"\0")
        self.digests[name] = digest.hexdigest()

    def add_function(self, function: Callable[..., object]) -> None:
        """Add the variables that a function can reach, those of its module first."""
        self.add(getattr(function, "__qualname__", type(function).__name__), function)
        is_first = True
        while self._waiting:
            module, names = self._waiting.pop()
            for name, value in list(names.items()):
                if not name.startswith("__"):
                    self._add_variable(name if is_first else f"{module}.{name}", value)
            is_first = False

    def add_environment(self) -> None:
        self.digests |= {f"os.environ[{name!r}]": value for name, value in os.environ.items()}

    def _add_variable(self, name: str, value: object) -> None:
        if not isinstance(value, ModuleType):
            self.add(name, value)
        elif is_task_file(getattr(value, "__file__", None) or ""):
            self._add_module(value.__name__, vars(value))
        else:  # modules of Python and of packages change inside; only plain values are stable
            plain = {key: member for key, member in vars(value).items() if isinstance(member, _ATOMS)}
            self.digests |= {f"{value.__name__}.{key}": repr(member) for key, member in plain.items()}

    def _add_module(self, name: str, names: Mapping[str, object]) -> None:
        if id(names) not in self._described_modules:
            self._described_modules.add(id(names))
            self._waiting.append((name, names))

    def _list_parts(self, value: object) -> Iterator[str]:
        """Yield texts that describe a value and every object to which the value refers, each object once."""
        objects = dict[int, object]()
        waiting = [iter((value,))]
        while waiting:
            for item in waiting[-1]:
                if isinstance(item, _ATOMS):
                    yield repr(item)
                elif id(item) in objects:
                    yield "described before"
                else:
                    objects[id(item)] = item
                    yield type(item).__qualname__
                    waiting.append(self._list_references(item))
                    break
            else:
                waiting.pop()

    def _list_references(self, value: Any) -> Iterator[object]:
        match value:
            case dict():
                yield from (part for item in list(value.items()) for part in item)
            case list() | tuple() | set() | frozenset():
                yield from list(value)
            case ModuleType():
                self._add_variable(value.__name__, value)
            case FunctionType() if _is_task_function(value):
                self._add_module(value.__module__, value.__globals__)
                yield from (vars(value), value.__defaults__, value.__kwdefaults__)
                yield from (cell.cell_contents for cell in value.__closure__ or () if cell != CellType())  # an empty cell
            case type() if _is_task_class(value):
                yield from (member for name, member in vars(value).items() if name not in {"__dict__", "__weakref__"})
            case FunctionType() | BuiltinFunctionType() | type():
                yield f"{value.__module__}.{value.__qualname__}"
            case MethodType():
                yield from (value.__self__, value.__func__)
            case partial():
                yield from (value.func, value.args, value.keywords)
            case staticmethod() | classmethod():
                yield value.__func__
            case property():
                yield from (value.fget, value.fset)
            case GeneratorType():
                yield from (value.gi_frame and value.gi_frame.f_lasti, value.gi_frame and value.gi_frame.f_locals)
            case _ if hasattr(value, "__wrapped__"):
                yield value.__wrapped__
            case _:
                yield from _reduce(value)


def _is_task_function(value: FunctionType) -> bool:
    return is_task_file(value.__globals__.get("__file__") or value.__code__.co_filename)


def _is_task_class(value: type) -> bool:
    return is_task_file(getattr(sys.modules.get(value.__module__), "__file__", None) or "") or any(
        isinstance(member, FunctionType) and _is_task_function(member) for member in vars(value).values()
    )


def _reduce(value: object) -> tuple[object, ...]:
    """Return the parts from which Python could copy an object; empty if the object cannot be copied."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  (code of any class)
        return ()
    return (
        (reduced,) if isinstance(reduced, str) else tuple(list(part) if isinstance(part, Iterator) else part for part in reduced)
    )
