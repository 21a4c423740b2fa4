"""Initial workspace of the task `rename-sweep`: over forty modules that call one function, with tests, documents and tools."""

import random
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from harness.tasks import kit
from harness.tasks.kit.agreements import load_all_fact_texts
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prose import Writer
from harness.tasks.kit.statements import render_request
from harness.tasks.kit.texts import fill_text, load_text
from harness.tasks.rename_sweep.facts import CHOICES, DESKS, HELPERS
from harness.tasks.rename_sweep.structure import MODULES, ORDERS, Structure

STRAY_MODULES = ("signals", "tariffs", "watch")
"""Names of the modules that lie directly in the generated package rather than in one of its folders."""
LEDGER_TOOL = "tools/ledger.py"
"""Path of the tool that keeps the ledger; most of its commands must not run twice."""
NOUNS = ("ship", "tide", "rope", "pilot", "buoy", "crane", "fee", "captain", "list", "wind", "basin", "lamp", "crew", "anchor")
VERBS = ("noted", "counted", "charged", "waited", "weighed", "called", "moved", "asked")
CASES = (("ORION", 5), ("MARTHA", 31), ("KAP HORN", 112))
"""Arguments (a ship and a number of hours) with which the generated tests call each function."""


KEY_BY_FACT: Mapping[str, str] = {
    "ticket": "ticket",
    "old_name": "old_name",
    "new_name": "new_name",
    "excluded_folder": "left_alone",
    "alias_module": "alias_in",
    "removal_release": "alias_until",
    "first_folder": "first_batch",
    "last_folder": "last_batch",
    "collision_name": "helpers_called",
    "registry_key": "registry_entry",
    "ledger_book": "book",
    "receipt": "receipt",
    "desk": "desk_to_tell",
    "goal_left": "goal_files_left",
}
"""Key of each fact in the JSON object of the hand-over document, by name of the fact."""


class Figure(NamedTuple):
    """Function in the generated package, which computes `factor * callee(ship, hours) + offset`."""

    name: str
    """Name of the generated function."""
    factor: int
    """Factor by which the generated function multiplies the result of the function that it calls."""
    offset: int
    """Number that the generated function adds after multiplying the result of the function that it calls."""
    callee: str
    """Name of the function that this generated function calls."""


def build_workspace(structure: Structure, values: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file in the workspace at the start of the task."""
    old = values["old_name"]
    files = dict(_generate_papers(structure, values, task_seed))
    files["quay/__init__.py"] = '"""Which ship lies where, for how long, and what that costs."""\n'
    files["quay/core.py"] = fill_text(__package__, "agent/core.py", {"new_name": old})
    files["quay/registry.py"] = fill_text(__package__, "agent/registry.py", {"new_name": old, "registry_key": "slots"})
    files[f"quay/{values['alias_module']}.py"] = (
        f'"""What programs outside of the harbour call."""\n\nfrom quay.core import {old}\n'
    )
    for name in STRAY_MODULES:
        rng = make_rng("rename-sweep", task_seed, name)
        files[f"quay/{name}.py"] = _render_module(name, _draw_figures(rng, old, ""), old, "quay.core", Writer(rng, NOUNS))
    for folder in (*structure.folders, values["first_folder"], values["last_folder"], values["excluded_folder"]):
        has_helper = folder in structure.collision_folders
        files.update(_generate_folder(folder, values, task_seed, has_helper=has_helper))
    files.update(structure.sheets.render_files(_render_parts(structure), load_all_fact_texts(__package__), values))
    files["tests/__init__.py"] = ""
    files[LEDGER_TOOL] = structure.sheets.keep_output(LEDGER_TOOL, files[LEDGER_TOOL])
    return tuple(sorted(files.items()))


def render_prompt(structure: Structure, values: Mapping[str, str]) -> str:
    """Return the user's request, which states facts and the order of the folders."""
    folder_list = f": {', '.join(structure.folders)}" if structure.order == "listed" else ""
    keys = ", ".join(KEY_BY_FACT[fact] for fact in (*structure.rule_facts, *structure.result_facts))
    words = {**values, "folder_order": f"{ORDERS[structure.order]}{folder_list}", "keys": keys}
    return render_request(
        load_text(__package__, "prompt.md"), structure.sheets.statements, load_all_fact_texts(__package__), words
    )


def _render_parts(structure: Structure) -> dict[str, str]:
    """Return, for each part of the work, the words that say that an information sheet is due after it."""
    folders = {folder: f"after the folder {folder}" for folder in structure.folders}
    return {
        "start": "after the first batch",
        **folders,
        "closing": "after the strays, alias and registry",
        "papers": "after the hand-over",
    }


def _generate_folder(folder: str, values: Mapping[str, str], task_seed: int, *, has_helper: bool) -> Iterator[tuple[str, str]]:
    rng = make_rng("rename-sweep", task_seed, folder)
    writer = Writer(rng, NOUNS)
    core_module = f"quay.{values['alias_module']}" if folder == values["excluded_folder"] else "quay.core"
    yield f"quay/{folder}/__init__.py", ""
    tested_modules = []
    for name in MODULES:
        helper = values["new_name"] if has_helper and name == "stays" else ""
        figures = _draw_figures(rng, values["old_name"], helper)
        tested_modules.append((name, figures))
        yield (
            f"quay/{folder}/{name}.py",
            _render_module(f"{folder}: {name}", figures, values["old_name"], core_module, writer, helper),
        )
    yield f"tests/test_{folder}.py", _render_tests(folder, tested_modules, values["old_name"])


def _draw_figures(rng: random.Random, old: str, helper: str) -> list[Figure]:
    functions = [helper if helper and number % 2 else old for number in range(len(VERBS))]
    verbs = zip(rng.sample(VERBS, len(VERBS)), functions, strict=True)
    return [Figure(f"{verb}_{rng.choice(NOUNS)}", rng.randint(2, 40), rng.randint(1, 900), callee) for verb, callee in verbs]


def _render_module(title: str, figures: list[Figure], old: str, core_module: str, writer: Writer, helper: str = "") -> str:
    parts = [f'"""{title.capitalize()}.\n\n{writer.write_sentence()}\n"""\n\nfrom {core_module} import {old}\n']
    if helper:
        parts.append(
            f'\n\ndef {helper}(ship, hours):\n    """A guess from before there was a rule."""\n    return len(ship) + hours\n'
        )
    for figure in figures:
        docstring = f'    """{writer.write_sentence()}\n\n    {writer.write_sentence()}\n    """\n'
        body = f"    place = {figure.callee}(ship, hours)\n    return {figure.factor} * place + {figure.offset}\n"
        parts.append(f"\n\ndef {figure.name}(ship, hours):\n{docstring}{body}")
    return "".join(parts)


def _render_tests(folder: str, tested_modules: list[tuple[str, list[Figure]]], old: str) -> str:
    imports = "".join(f"from quay.{folder} import {name}\n" for name, _ in tested_modules)
    heading = f'"""Figures of {folder}, recorded years ago."""\n\nimport unittest\n\n{imports}\nCASES = {CASES!r}\n'
    parts = [heading, "\n\nclass FiguresTest(unittest.TestCase):\n"]
    for name, figures in tested_modules:
        for figure in figures:
            values = [_compute_figure(figure, ship, hours, old) for ship, hours in CASES]
            assertion = f"        self.assertEqual([{name}.{figure.name}(*case) for case in CASES], {values})\n"
            parts.append(f'    def test_{name}_{figure.name}(self):\n        """{name}: {figure.name}"""\n{assertion}\n')
    return "".join(parts).rstrip() + "\n"


def _compute_figure(figure: Figure, ship: str, hours: int, old: str) -> int:
    """Return the right result of a generated function, which is the same before and after the renaming."""
    place = (sum(map(ord, ship)) + 3 * hours) % 97 if figure.callee == old else len(ship) + hours
    return figure.factor * place + figure.offset


def _generate_papers(structure: Structure, values: Mapping[str, str], task_seed: int) -> Iterator[tuple[str, str]]:
    reserve_time = "right before it is needed" if structure.is_reserved_late else "right after that"
    for page in ("plan", "ledger", "tests"):
        writer = Writer(make_rng("rename-sweep", task_seed, page), NOUNS)
        prose = {f"prose_{number}": "\n\n".join(writer.write_paragraph() for _ in range(3)) for number in (1, 2, 3)}
        yield f"docs/{page}.md", fill_text(__package__, f"docs/{page}.md", {**values, **prose, "reserve_time": reserve_time})
    yield "README.md", load_text(__package__, "docs/README.md")
    yield "CHANGELOG.md", "# Changes\n\n- Added the folder of the tugs (HQ-0412)\n- Mended the fees of long stays (HQ-0455)\n"
    sums = {key: zlib.crc32(key.encode()) for key in CHOICES["registry_key"]}
    entries = ", ".join(f'"{key}": {number}' for key, number in sums.items())
    checksum = str(sums[values["registry_key"]])
    yield ("tools/check_registry.py", fill_text(__package__, "tools/check_registry.py", {"known": entries, "checksum": checksum}))
    yield LEDGER_TOOL, fill_text(__package__, "tools/ledger.py", {"helpers": repr(HELPERS), "desks": repr(DESKS)})
    yield "tools/changelog.py", load_text(__package__, "tools/changelog.py")
    yield "tools/left.sh", load_text(__package__, "tools/left.sh")
    yield "tools/run_tests.py", load_text(kit.__name__, "run_tests.py")
    yield "ledger/key", values["key"] + "\n"
