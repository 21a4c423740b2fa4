"""The workspace of a seed: a package of more than forty modules that all use one function, its tests, pages and tools."""

import random
import zlib
from collections.abc import Iterator, Mapping
from string import Template
from typing import NamedTuple

from harness.tasks import kit
from harness.tasks.facts import drawn
from harness.tasks.kit import text
from harness.tasks.kit.prose import Writer
from harness.tasks.rename_sweep.facts import CHOICES, DESKS, HELPERS

FILES = "harness.tasks.rename_sweep.files"
FOLDERS = ("anchors", "buoys", "cranes", "docks", "ferries", "lights", "pilots", "tugs")
"""The batches between the first and the last one, in their order."""
COLLISIONS = ("cranes", "lights", "tugs")
"""Folders in which a helper has the new name already."""
MODULES = ("arrivals", "fees", "stays", "talks")
"""Of each folder."""
STRAYS = ("signals", "tariffs", "watch")
"""Modules outside of the folders."""
NOUNS = ("ship", "tide", "rope", "pilot", "buoy", "crane", "fee", "captain", "list", "wind", "basin", "lamp", "crew", "anchor")
VERBS = ("noted", "counted", "charged", "waited", "weighed", "called", "moved", "asked")
CASES = (("ORION", 5), ("MARTHA", 31), ("KAP HORN", 112))
"""Ships and hours for which the tests know figures."""


class Figure(NamedTuple):
    """A function of a module: `factor * place + offset`, and which of the two callables it asks."""

    name: str
    factor: int
    offset: int
    asks: str


def template(name: str) -> str:
    """A text of this task, placeholders unfilled."""
    return text(FILES, name)


def filled(name: str, values: Mapping[str, str]) -> str:
    """A text of this task with values."""
    return Template(template(name)).substitute(values)


def workspace(values: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Path and text of every file that the agent finds."""
    old = values["old_name"]
    made = dict(_papers(values, task_seed))
    made["quay/__init__.py"] = '"""Which ship lies where, for how long, and what that costs."""\n'
    core = Template(template("agent/core.py")).substitute(new_name=old)
    made["quay/core.py"] = core
    made["quay/registry.py"] = filled("agent/registry.py", {"new_name": old, "registry_key": "slots"})
    made[f"quay/{values['alias_module']}.py"] = (
        f'"""What programs outside of the harbour call."""\n\nfrom quay.core import {old}\n'
    )
    for name in STRAYS:
        draw = drawn("rename-sweep", task_seed, name)
        made[f"quay/{name}.py"] = _module(name, _figures(draw, old, ""), old, "quay.core", Writer(draw, NOUNS))
    for folder in (*FOLDERS, values["first_folder"], values["last_folder"], values["excluded_folder"]):
        made.update(_folder(folder, values, task_seed))
    made["tests/__init__.py"] = ""
    return tuple(sorted(made.items()))


def _folder(folder: str, values: Mapping[str, str], task_seed: int) -> Iterator[tuple[str, str]]:
    """The modules of a folder and its tests."""
    draw = drawn("rename-sweep", task_seed, folder)
    writer = Writer(draw, NOUNS)
    source = f"quay.{values['alias_module']}" if folder == values["excluded_folder"] else "quay.core"
    yield f"quay/{folder}/__init__.py", ""
    tested = []
    for name in MODULES:
        helper = values["new_name"] if folder in COLLISIONS and name == "stays" else ""
        figures = _figures(draw, values["old_name"], helper)
        tested.append((name, figures))
        yield f"quay/{folder}/{name}.py", _module(f"{folder}: {name}", figures, values["old_name"], source, writer, helper)
    yield f"tests/test_{folder}.py", _tests(folder, tested, values["old_name"])


def _figures(draw: random.Random, old: str, helper: str) -> list[Figure]:
    made = []
    for number, verb in enumerate(draw.sample(VERBS, len(VERBS))):
        noun = draw.choice(NOUNS)
        asks = helper if helper and number % 2 else old
        made.append(Figure(f"{verb}_{noun}", draw.randint(2, 40), draw.randint(1, 900), asks))
    return made


def _module(title: str, figures: list[Figure], old: str, source: str, writer: Writer, helper: str = "") -> str:
    """A module as it is found."""
    parts = [f'"""{title.capitalize()}.\n\n{writer.sentence()}\n"""\n\nfrom {source} import {old}\n']
    if helper:
        parts.append(
            f'\n\ndef {helper}(ship, hours):\n    """A guess from before there was a rule."""\n    return len(ship) + hours\n'
        )
    for one in figures:
        told = f'    """{writer.sentence()}\n\n    {writer.sentence()}\n    """\n'
        body = f"    place = {one.asks}(ship, hours)\n    return {one.factor} * place + {one.offset}\n"
        parts.append(f"\n\ndef {one.name}(ship, hours):\n{told}{body}")
    return "".join(parts)


def _tests(folder: str, tested: list[tuple[str, list[Figure]]], old: str) -> str:
    """The test module of a folder."""
    imports = "".join(f"from quay.{folder} import {name}\n" for name, _ in tested)
    heading = f'"""Figures of {folder}, recorded years ago."""\n\nimport unittest\n\n{imports}\nCASES = {CASES!r}\n'
    parts = [heading, "\n\nclass FiguresTest(unittest.TestCase):\n"]
    for name, figures in tested:
        for one in figures:
            known = [_value(one, ship, hours, old) for ship, hours in CASES]
            told = f"        self.assertEqual([{name}.{one.name}(*case) for case in CASES], {known})\n"
            parts.append(f'    def test_{name}_{one.name}(self):\n        """{name}: {one.name}"""\n{told}\n')
    return "".join(parts).rstrip() + "\n"


def _value(figure: Figure, ship: str, hours: int, old: str) -> int:
    """As the package computes it: the rule of core.py, or the guess of a helper."""
    place = (sum(map(ord, ship)) + 3 * hours) % 97 if figure.asks == old else len(ship) + hours
    return figure.factor * place + figure.offset


def _papers(values: Mapping[str, str], task_seed: int) -> Iterator[tuple[str, str]]:
    """Pages, tools and what else lies around."""
    for page in ("plan", "ledger", "tests"):
        writer = Writer(drawn("rename-sweep", task_seed, page), NOUNS)
        prose = {f"prose_{number}": "\n\n".join(writer.paragraph() for _ in range(3)) for number in (1, 2, 3)}
        yield f"docs/{page}.md", filled(f"docs/{page}.md", {**values, **prose})
    yield "README.md", template("docs/README.md")
    yield "CHANGELOG.md", "# Changes\n\n- Added the folder of the tugs (HQ-0412)\n- Mended the fees of long stays (HQ-0455)\n"
    sums = {key: zlib.crc32(key.encode()) for key in CHOICES["registry_key"]}
    known = ", ".join(f'"{key}": {number}' for key, number in sums.items())
    wanted = str(sums[values["registry_key"]])
    yield "tools/check_registry.py", filled("tools/check_registry.py", {"known": known, "checksum": wanted})
    yield "tools/ledger.py", filled("tools/ledger.py", {"helpers": repr(HELPERS), "desks": repr(DESKS)})
    yield "tools/changelog.py", template("tools/changelog.py")
    yield "tools/left.sh", template("tools/left.sh")
    yield "tools/run_tests.py", text(kit.__name__, "run_tests.py")
    yield "ledger/key", values["key"] + "\n"
