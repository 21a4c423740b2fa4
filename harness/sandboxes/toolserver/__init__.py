"""Programs that run inside a sandbox: single files that are sent there as source and need only Python 3.8 and its library."""

import marshal
from functools import cache
from importlib import resources


@cache
def load_source(name: str) -> bytes:
    """Return the source of a program that runs inside a sandbox, such as `server`, by its module name."""
    return (resources.files(__name__) / f"{name}.py").read_bytes()


@cache
def compile_source(name: str) -> bytes:
    """Return a program that runs inside a sandbox, compiled to the bytecode of this version of Python."""
    return marshal.dumps(compile(load_source(name), name, "exec", dont_inherit=True, optimize=0))
