"""What runs inside of a sandbox, sent there as source: each module is one file of standard library, for Python 3.8 or later."""

from functools import cache
from importlib import resources


@cache
def load_source(name: str) -> bytes:
    """The text of one of them."""
    return (resources.files(__name__) / f"{name}.py").read_bytes()
