"""The workspace of a seed: the package with its bug, its tests, the regulator's figures, pages, tools and logs."""

from collections.abc import Iterator, Mapping
from string import Template

from harness.tasks import kit
from harness.tasks.bug_hunt.archive import letters, logs, minutes
from harness.tasks.bug_hunt.stages import FIELDS, OLD_TIER, ORDER, TIERED, Stage, Tariff, readings, tariff
from harness.tasks.facts import drawn
from harness.tasks.kit import text

FILES = "harness.tasks.bug_hunt.files"
MODULES = ("__init__", "cli", "config", "engine", "errors", "ledger", "money", "reading", "reference", "text")
TESTS = ("test_engine", "test_money", "test_reference")
TOOLS = ("announce", "changelog", "ci", "compare", "probe")
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/architecture.md",
    "docs/audit.md",
    "docs/decree.md",
    "docs/rounding.md",
)
AUDITED = 6


def template(name: str) -> str:
    """A text of this task, placeholders unfilled."""
    return text(FILES, name)


def filled(name: str, values: Mapping[str, str]) -> str:
    """A text of this task with values."""
    return Template(template(name)).substitute(values)


def workspace(values: Mapping[str, str], desks: tuple[str, ...], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Path and text of every file that the agent finds."""
    right = tariff(values, task_seed)
    made = dict(_code(values, right))
    made.update((path, filled(f"docs/{path.rpartition('/')[2]}", values)) for path in PAGES)
    made.update((f"docs/stages/{stage.name}.md", _page(stage, right, values)) for stage in ORDER)
    made.update(_data(values, right, task_seed))
    made.update(logs(values, task_seed))
    made.update((*minutes(task_seed), *letters(task_seed)))
    made |= {
        "notes/README.md": "Notes on the case at hand, one file a finding, numbered. Whoever takes over reads these first.\n",
        "patches/README.md": "Patches for the regulator's bench: scripts of sed, one case each. See CONTRIBUTING.md.\n",
        "tests/regressions/__init__.py": "",
        "outbox/README.md": "What was announced, line by line. The desks read it every hour.\n",
        "ci/key": values["key"] + "\n",
        "ci/desks": "\n".join(desks) + "\n",
        "ci/attempts.log": "0 accepted patches/decree.sed wattbook/stages\n",
    }
    return tuple(sorted(made.items()))


def culprit_path(values: Mapping[str, str]) -> str:
    """The module with the bug."""
    return f"wattbook/stages/{values['culprit']}.py"


def _code(values: Mapping[str, str], right: Tariff) -> Iterator[tuple[str, str]]:
    names = "\n    ".join(f'"{stage.name}",' for stage in ORDER)
    for name in MODULES:
        yield f"wattbook/{name}.py", filled(f"package/{name}.py", {**values, "stage_names": names})
    yield "wattbook/stages/__init__.py", '"""The stages of an invoice, one module each."""\n'
    for stage in ORDER:
        yield f"wattbook/stages/{stage.name}.py", _module(stage, right, values)
        camel = stage.name.title().replace("_", "")
        words = {"name": stage.name, "camel": camel, "letter": stage.letter}
        yield f"tests/stages/test_{stage.name}.py", filled("tests/test_stage.py", words)
    for folder in ("tests", "tests/stages"):
        yield f"{folder}/__init__.py", ""
    for name in TESTS:
        yield f"tests/{name}.py", filled(f"tests/{name}.py", values)
    for name in TOOLS:
        yield f"tools/{name}.py", template(f"tools/{name}.py")
    yield "tools/run_tests.py", text(kit.__name__, "run_tests.py")


def _module(stage: Stage, right: Tariff, values: Mapping[str, str]) -> str:
    """A stage as it is found: the one with the bug has stale figures."""
    stale = stage.name == values["culprit"]
    words = {name: getattr(stage, name) for name in ("name", "title", "story", "letter", "field", "formula", "unit")}
    words |= {"base": str(right.base[stage.name]), "mode": "down" if stale else right.mode}
    if stage not in TIERED:
        return filled("package/plain.py", words)
    words["tier"] = str(OLD_TIER if stale else right.tier)
    words["rate"] = values["stale_rate"] if stale else str(right.rate[stage.name])
    return filled("package/tiered.py", words)


def _page(stage: Stage, right: Tariff, values: Mapping[str, str]) -> str:
    if stage not in TIERED:
        return f"# {stage.title}\n\nThis stage is {stage.story}. It knows no tier, and the decree left it alone.\n"
    rate = values["provisional_rate"] if stage.name == values["culprit"] else str(right.rate[stage.name])
    words = {"title": stage.title, "story": stage.story, "base": str(right.base[stage.name]), "rate": rate}
    return filled("docs/stage.md", words)


def _data(values: Mapping[str, str], right: Tariff, task_seed: int) -> Iterator[tuple[str, str]]:
    found = readings(values, right, task_seed)
    steps = {invoice: right.steps(counts) for invoice, counts in found.items()}
    draw = drawn("bug-hunt", task_seed, "audit")
    others = [invoice for invoice in found if invoice != values["complaint"]]
    audited = sorted([values["complaint"], *draw.sample(others, AUDITED - 1)])
    counted = [",".join([invoice, *(str(counts[name]) for name in FIELDS)]) for invoice, counts in found.items()]
    yield "data/readings.csv", _table(",".join(("invoice", *FIELDS)), counted)
    yield "data/reference.csv", _table("invoice,cents", [f"{invoice},{sum(added.values())}" for invoice, added in steps.items()])
    rows = [f"{invoice},{stage},{cents}" for invoice in audited for stage, cents in steps[invoice].items()]
    yield "data/audited.csv", _table("invoice,stage,cents", rows)


def _table(header: str, rows: list[str]) -> str:
    return "\n".join([header, *rows]) + "\n"
