"""Print the sizes of modules, functions and signatures of the package (`make sizes`), for information only.

Code lines do not include docstrings, comments and blank lines.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from statistics import median, quantiles

from tests.house.source import Module, body_lines, is_command, modules, parameters

LONG_MODULE, SHORT_MODULE = 400, 40
LONG_BODY = 50
MANY_PARAMETERS = 6


def describe_sizes(measured: Sequence[Module]) -> str:
    """Return a table of sizes, followed by the modules and functions that are unusually large or small."""
    lengths = {module.path: len(module.code_lines) for module in measured}
    bodies = {
        f"{module.path}:{function.lineno} {function.name}": body_lines(module, function)
        for module in measured
        for function in module.functions
    }
    widths = {
        f"{module.path}:{function.lineno} {function.name}": len(parameters(function))
        for module in measured
        for function in module.functions
        if not is_command(function)
    }
    folders = Counter(str(PurePosixPath(path).parent) for path in lengths)
    names = [name for name in lengths if not name.endswith("__init__.py")]
    lines = [
        f"{sum(lengths.values()):,} code lines in {len(lengths)} modules and {len(folders)} folders",
        _row("code lines of a module", lengths.values()),
        _row("code lines of a function", bodies.values()),
        _row("parameters of a function", widths.values()),
        "",
        "Worth a question:",
        *_list("lines", {name: size for name, size in lengths.items() if size > LONG_MODULE}),
        *_list("lines", {name: lengths[name] for name in names if lengths[name] < SHORT_MODULE}),
        *_list("lines", {name: size for name, size in bodies.items() if size > LONG_BODY}),
        *_list("parameters", {name: size for name, size in widths.items() if size > MANY_PARAMETERS}),
    ]
    return "\n".join(lines)


def _row(title: str, sizes: Iterable[int]) -> str:
    values = sorted(sizes)
    if len(values) < 2:
        return f"{title}: {values}"
    return f"{title}: median {median(values):g}, 99th percentile {quantiles(values, n=100)[98]:g}, largest {values[-1]}"


def _list(unit: str, sizes: dict[str, int]) -> list[str]:
    return [f"  {name}: {size} {unit}" for name, size in sorted(sizes.items(), key=lambda pair: -pair[1])]


if __name__ == "__main__":
    print(describe_sizes(modules()))
