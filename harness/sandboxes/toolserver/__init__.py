"""Programs that run inside a sandbox and are sent there as source: single files that need only Python 3.8 and its library."""

from functools import cache
from importlib import resources


@cache
def load_source(name: str) -> bytes:
    """Return the source of a program that runs inside a sandbox, such as `server`, by its module name."""
    return (resources.files(__name__) / f"{name}.py").read_bytes()
