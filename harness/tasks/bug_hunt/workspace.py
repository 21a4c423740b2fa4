"""Initial workspace of the task `bug-hunt`: an invoice program with a bug, its tests and documentation, tools and logs."""

from collections.abc import Iterator, Mapping

from harness.tasks import kit
from harness.tasks.bug_hunt.archive import generate_letters, generate_logs, generate_minutes
from harness.tasks.bug_hunt.facts import DESKS
from harness.tasks.bug_hunt.stages import READING_FIELDS, STAGES, TIERED_STAGES, Stage, Tariff, draw_readings, draw_tariff
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.texts import fill_text, load_text

MODULES = ("__init__", "cli", "config", "engine", "errors", "ledger", "money", "reading", "reference", "text")
TEST_MODULES = ("test_engine", "test_money", "test_reference")
TOOLS = ("announce", "changelog", "ci", "compare", "probe")
PAGES = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *(f"docs/{name}.md" for name in ("architecture", "audit", "decree", "rounding")),
)
AUDITED_COUNT = 6


def build_workspace(values: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file that the agent finds in the workspace at the start of the task."""
    correct_tariff = draw_tariff(values, task_seed)
    files = dict(_generate_code_files(values, correct_tariff))
    files.update((path, fill_text(__package__, f"docs/{path.rpartition('/')[2]}", values)) for path in PAGES)
    files.update((f"docs/stages/{stage.name}.md", _render_page(stage, correct_tariff, values)) for stage in STAGES)
    files.update(_generate_data_files(values, correct_tariff, task_seed))
    files.update(generate_logs(values, task_seed))
    files.update((*generate_minutes(task_seed), *generate_letters(task_seed)))
    files |= {
        "notes/README.md": "Notes on the case at hand, one file a finding, numbered. Whoever takes over reads these first.\n",
        "patches/README.md": "Patches for the regulator's bench: scripts of sed, one case each. See CONTRIBUTING.md.\n",
        "tests/regressions/__init__.py": "",
        "outbox/README.md": "What was announced, line by line. The desks read it every hour.\n",
        "ci/key": values["key"] + "\n",
        "ci/desks": "\n".join(DESKS) + "\n",
        "ci/attempts.log": "0 accepted patches/decree.sed wattbook/stages\n",
    }
    return tuple(sorted(files.items()))


def _generate_code_files(values: Mapping[str, str], correct_tariff: Tariff) -> Iterator[tuple[str, str]]:
    names = "\n    ".join(f'"{stage.name}",' for stage in STAGES)
    for name in MODULES:
        yield f"wattbook/{name}.py", fill_text(__package__, f"package/{name}.py", {**values, "stage_names": names})
    yield "wattbook/stages/__init__.py", '"""The stages of an invoice, one module each."""\n'
    for stage in STAGES:
        yield f"wattbook/stages/{stage.name}.py", _render_module(stage, correct_tariff, values)
        camel = stage.name.title().replace("_", "")
        words = {"name": stage.name, "camel": camel, "letter": stage.letter}
        yield f"tests/stages/test_{stage.name}.py", fill_text(__package__, "tests/test_stage.py", words)
    for folder in ("tests", "tests/stages"):
        yield f"{folder}/__init__.py", ""
    for name in TEST_MODULES:
        yield f"tests/{name}.py", fill_text(__package__, f"tests/{name}.py", values)
    for name in TOOLS:
        yield f"tools/{name}.py", load_text(__package__, f"tools/{name}.py")
    yield "tools/run_tests.py", load_text(kit.__name__, "run_tests.py")


def _render_module(stage: Stage, correct_tariff: Tariff, values: Mapping[str, str]) -> str:
    """Return the Python module that computes one item of the invoice; in the item that has the bug, the prices are outdated."""
    stale = stage.name == values["culprit"]
    words = {name: getattr(stage, name) for name in ("name", "title", "story", "letter", "field", "formula", "unit")}
    words |= {"base": str(correct_tariff.base[stage.name]), "mode": "down" if stale else correct_tariff.mode}
    if stage not in TIERED_STAGES:
        return fill_text(__package__, "package/plain.py", words)
    words["tier"] = values["stale_tier"] if stale else str(correct_tariff.tier)
    words["rate"] = values["stale_rate"] if stale else str(correct_tariff.rate[stage.name])
    return fill_text(__package__, "package/tiered.py", words)


def _render_page(stage: Stage, correct_tariff: Tariff, values: Mapping[str, str]) -> str:
    if stage not in TIERED_STAGES:
        return f"# {stage.title}\n\nThis stage is {stage.story}. It knows no tier, and the decree left it alone.\n"
    rate = values["provisional_rate"] if stage.name == values["culprit"] else str(correct_tariff.rate[stage.name])
    words = {"title": stage.title, "story": stage.story, "base": str(correct_tariff.base[stage.name]), "rate": rate}
    return fill_text(__package__, "docs/stage.md", words)


def _generate_data_files(values: Mapping[str, str], correct_tariff: Tariff, task_seed: int) -> Iterator[tuple[str, str]]:
    counts_by_invoice = draw_readings(values, correct_tariff, task_seed)
    steps = {invoice: correct_tariff.compute_stage_cents(counts) for invoice, counts in counts_by_invoice.items()}
    rng = make_rng("bug-hunt", task_seed, "audit")
    others = [invoice for invoice in counts_by_invoice if invoice != values["complaint"]]
    audited = sorted([values["complaint"], *rng.sample(others, AUDITED_COUNT - 1)])
    counted = [
        ",".join([invoice, *(str(counts[name]) for name in READING_FIELDS)]) for invoice, counts in counts_by_invoice.items()
    ]
    yield "data/readings.csv", _render_table(",".join(("invoice", *READING_FIELDS)), counted)
    yield (
        "data/reference.csv",
        _render_table("invoice,cents", [f"{invoice},{sum(added.values())}" for invoice, added in steps.items()]),
    )
    rows = [f"{invoice},{stage},{cents}" for invoice in audited for stage, cents in steps[invoice].items()]
    yield "data/audited.csv", _render_table("invoice,stage,cents", rows)


def _render_table(header: str, rows: list[str]) -> str:
    return "\n".join([header, *rows]) + "\n"
