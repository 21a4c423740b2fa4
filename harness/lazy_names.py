"""Loading of public names when they are first used, so that importing a package takes almost no time."""

import sys
from collections.abc import Mapping
from importlib import import_module


def load_name(package: str, name: str, module_by_name: Mapping[str, str]) -> object:
    """Import the value of a public name of a package, and store it in the package.

    Args:
        package: Name of the package, such as `harness.testing`.
        name: Public name; a name that is also the last part of its module's name stands for the module.
        module_by_name: Module of each public name.

    Raises:
        AttributeError: The package has no such public name.
    """
    if name not in module_by_name:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module = import_module(module_by_name[name])
    value: object = module if module.__name__.endswith(f".{name}") else getattr(module, name)
    setattr(sys.modules[package], name, value)
    return value
