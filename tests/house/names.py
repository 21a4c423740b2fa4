"""Count the functions of the package whose name begins with a participle (`make names`).

The name of a function begins with a verb in the imperative. Names such as `told` or `fitted_policy` describe the history of a
value, not the work of the function. The word list is `participles.txt`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.house.source import Module, modules

WORDS = Path(__file__).with_name("participles.txt")
ENDING = re.compile(r"\w{2,}(?:ed|ing)")


class Count(NamedTuple):
    """Number of functions in some modules, without special methods such as `__init__`, and the participles among their names."""

    functions: int
    participles: tuple[str, ...]
    """Place and name of each function whose name begins with a participle."""

    @property
    def share(self) -> float:
        """Share of functions whose name begins with a participle, 0 to 1."""
        return len(self.participles) / self.functions if self.functions else 0.0


@cache
def read_words() -> tuple[frozenset[str], frozenset[str]]:
    """Return the irregular participles, and the words that only look like participles."""
    lines = [line for line in WORDS.read_text(encoding="utf-8").split() if line[0] in "+-"]
    return frozenset(line[1:] for line in lines if line[0] == "+"), frozenset(line[1:] for line in lines if line[0] == "-")


def is_participle(name: str) -> bool:
    """Return whether the first word of a name is a participle."""
    irregular, others = read_words()
    word = name.strip("_").split("_")[0]
    return word in irregular or (word not in others and ENDING.fullmatch(word) is not None)


def count_names(measured: Iterable[Module]) -> Count:
    """Count the functions, methods and properties of some modules."""
    names = list(_iter_names(measured))
    return Count(len(names), tuple(f"{place} {name}" for place, name in names if is_participle(name)))


def _iter_names(measured: Iterable[Module]) -> Iterator[tuple[str, str]]:
    for module in measured:
        for function in module.functions:
            if not re.fullmatch(r"__\w+__", function.name):
                yield f"{module.path}:{function.lineno}", function.name


if __name__ == "__main__":
    count = count_names(modules())
    packages = Counter(place.split("/")[1] for place in count.participles)
    print(f"{len(count.participles)} of {count.functions} functions begin with a participle: {100 * count.share:.2f} %")
    print(*(f"  {package}: {number}" for package, number in packages.most_common()), sep="\n")
    print(*(f"  {name}" for name in count.participles), sep="\n")
