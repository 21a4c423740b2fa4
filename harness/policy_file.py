"""Policies in Python files of the user: a function `(messages, budget) -> messages` or a policy class, named `FILE.py:NAME`.

The class of such a policy is made here, with its name as its kind, so that plans, logs and worker processes can name it. A file
is executed only if a person names it in this process, in a plan, on the command line or in code. A stored session or result that
names a file executes nothing.
"""

import inspect
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.compaction.function_policy import FunctionPreset, PolicyFunction
from harness.conversation.codec import from_plain, to_plain
from harness.errors import UnknownName, UsageError
from harness.files.user_file import hash_file, load_module

MEMORY_PREFIX = "function:"
"""Beginning of the kind of a policy whose function is in no file, such as a cell of a notebook."""
_loaded: dict[str, tuple[str, type[Any]]] = {}
"""Digest of the file and class of each policy that was loaded in this process, by its name."""


def is_file_name(name: str) -> bool:
    """Return whether the name of a policy has the form `FILE.py:NAME`."""
    path, colon, _ = name.rpartition(":")
    return bool(colon) and path.endswith(".py")


def hash_policy_file(kind: str) -> str:
    """Return the SHA-256 digest of the file that defines a policy and of the modules beside it; empty if there is no such file.

    Args:
        kind: Kind of the policy, such as `mine.py:my_policy` or `keep-last`.

    Raises:
        UsageError: The file cannot be read or is too large.
    """
    file = Path(kind.rpartition(":")[0])
    return hash_file(file) if is_file_name(kind) and file.is_file() else ""


def find_loaded_class(name: str) -> type[Any] | None:
    """Return the class of a policy in a file, if this process loaded it before; no file is executed."""
    return _loaded[name][1] if name in _loaded else None


def load_file_policy(name: str, where: str = "policy") -> type[Any]:
    """Return the policy class for a function or class in a Python file, which is executed.

    Args:
        name: `FILE.py:NAME`.
        where: Place of the policy in the configuration, which error messages name. Default: `'policy'`.

    Raises:
        UnknownName: The file has no such function or class.
        UsageError: The file does not exist, its code raises an error, or what it has under the name is no policy.
    """
    path_text, _, attribute = name.rpartition(":")
    path = Path(path_text)
    if not path.is_file():
        raise UsageError(
            f"{where}: no policy file {path_text!r} in {str(Path.cwd())!r}; a policy of your own is named FILE.py:NAME, "
            "with the path from the folder in which harness is started"
        )
    digest = hash_file(path)
    if name in _loaded and _loaded[name][0] == digest:
        return _loaded[name][1]
    module = load_module(path, "policy")
    names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
    if not hasattr(module, attribute):
        raise UnknownName(f"{where}: function or class of {path_text}", attribute, names)
    return _remember(name, digest, getattr(module, attribute), where)


def wrap_function(function: PolicyFunction, where: str = "policy") -> Any:
    """Return the policy that calls a function, with default settings.

    A function at the top of a Python file gets the name `FILE.py:NAME`, by which worker processes find it.

    Raises:
        UsageError: The function does not take two arguments.
    """
    code = getattr(function, "__code__", None)
    qualified_name = getattr(function, "__qualname__", type(function).__name__)
    file = Path(code.co_filename) if code else Path()
    if code is None or not qualified_name.isidentifier() or file.suffix != ".py" or not file.is_file():
        return _make_class(f"{MEMORY_PREFIX}{qualified_name}", function, where)()
    path = file.absolute()
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return _remember(f"{shown}:{qualified_name}", hash_file(path), function, where)()


def rebuild_policy(name: str, fields: Mapping[str, object]) -> Any:
    """Return a policy in a file from its name and fields, in another process.

    Raises:
        UsageError: This machine does not have the file.
    """
    path = Path(name.rpartition(":")[0])
    if not path.is_file():
        raise UsageError(
            f"policy: no file {str(path)!r} in {str(Path.cwd())!r} on {socket.gethostname()}, and a worker does not get the file "
            "with the job; copy it and the modules beside it to each machine, and start the workers where the path leads to it"
        )
    return from_plain(load_file_policy(name), {**fields, "kind": name})


def _remember(name: str, digest: str, value: object, where: str) -> type[Any]:
    if name not in _loaded or _loaded[name][0] != digest:
        _loaded[name] = digest, _make_class(name, value, where)
    return _loaded[name][1]


def _make_class(name: str, value: object, where: str) -> type[Any]:
    """Return a policy class whose kind is a name, made from a function or a policy class."""
    if not callable(value):
        raise UsageError(f"{where}: {name!r} is {value!r:.80}, expected a function (messages, budget) -> messages or a class")
    base: Any = FunctionPreset
    members: dict[str, Any] = {"function": staticmethod(value)}
    if isinstance(value, type):
        parameters = getattr(value, "__dataclass_params__", None)
        if parameters is None or not parameters.frozen:
            raise UsageError(f"{where}: the class {name!r} must be a frozen dataclass, since its fields are its configuration")
        base, members = value, {}
    else:
        _check_parameters(name, value, where)
    members |= {
        "__annotations__": {"kind": Literal[name]},
        "__doc__": inspect.getdoc(value) or f"Policy of the function {name}.",
        "__module__": base.__module__,
        "__reduce__": _reduce,
        "kind": name,
    }
    return dataclass(frozen=True, kw_only=True)(type(base.__name__, (base,), members))


def _check_parameters(name: str, function: Any, where: str) -> None:
    try:
        inspect.signature(function).bind([], None)
    except TypeError:
        signature = inspect.signature(function)
        raise UsageError(f"{where}: the function {name!r} must take (messages, budget), its parameters are {signature}") from None
    except ValueError:  # a built-in function shows no parameters
        return
    if inspect.iscoroutinefunction(function):
        raise UsageError(f"{where}: {name!r} is a coroutine function; a policy must return the messages at once")


def _reduce(policy: Any) -> tuple[Any, ...]:
    plain = to_plain(policy)
    return rebuild_policy, (plain.pop("kind"), plain)
