"""Initial workspace of the task `bug-hunt`: an invoice program with bugs, its tests and documentation, tools and logs."""

import random
from collections.abc import Iterable, Iterator, Mapping

from harness.tasks import kit
from harness.tasks.bug_hunt.archive import generate_letters, generate_logs, generate_minutes, render_figure
from harness.tasks.bug_hunt.facts import DESKS, list_culprits
from harness.tasks.bug_hunt.stages import (
    HALF_CENT_SPACING,
    READING_FIELDS,
    STAGES,
    TIERED_STAGES,
    Stage,
    Tariff,
    draw_readings,
    draw_tariff,
)
from harness.tasks.bug_hunt.steps import list_section_facts
from harness.tasks.bug_hunt.structure import PARTS, RULES, Structure
from harness.tasks.kit.agreements import load_agreements
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.statements import load_fact_texts, render_request
from harness.tasks.kit.texts import fill_text, load_text

MODULES = ("__init__", "cli", "config", "engine", "errors", "ledger", "money", "reading", "reference", "text")
TEST_MODULES = ("test_engine", "test_money", "test_reference")
BENCH_TOOL = "tools/ci.py"
"""Path of the tool that tries a patch, which must not be tried twice."""
TOOLS = ("announce", "changelog", "ci", "compare", "probe")
PAGES = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *(f"docs/{name}.md" for name in ("architecture", "audit", "decree", "rounding")),
)
AUDITED_COUNT = 12
AUDITED_HALF_CENTS = 3
"""For each stage with a bug, number of audited invoices on which the amount of the stage ends in half a cent."""


def build_workspace(structure: Structure, values: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file in the workspace at the start of the task."""
    correct_tariff = draw_tariff(values, list_culprits(values), task_seed)
    files = dict(_generate_code_files(values, correct_tariff))
    words = {**values, **_render_figures(structure, values)}
    files.update((path, fill_text(__package__, f"docs/{path.rpartition('/')[2]}", words)) for path in PAGES)
    files.update((f"docs/stages/{stage.name}.md", _render_page(stage, correct_tariff, values)) for stage in STAGES)
    files.update(_generate_data_files(values, correct_tariff, task_seed))
    files.update(generate_logs(structure, values, task_seed))
    files.update((*generate_minutes(structure, values, task_seed), *generate_letters(structure, values, task_seed)))
    fact_texts = {**load_agreements(), **load_fact_texts(__package__, "constraints.md")}
    files.update(structure.sheets.render_files(PARTS, fact_texts, values))
    files |= {
        "notes/README.md": "Notes on the case at hand, one file a finding, numbered. Whoever takes over reads these first.\n",
        "patches/README.md": "Patches for the regulator's bench: scripts of sed, one stage each. See CONTRIBUTING.md.\n",
        "tests/regressions/__init__.py": "",
        "outbox/README.md": "What was announced, line by line. The desks read it every hour.\n",
        "ci/key": values["key"] + "\n",
        "ci/desks": "\n".join(DESKS) + "\n",
        "ci/attempts.log": "0 accepted patches/decree.sed wattbook/stages\n",
    }
    files[BENCH_TOOL] = structure.sheets.keep_output(BENCH_TOOL, files[BENCH_TOOL])
    return tuple(sorted(files.items()))


def _render_figures(structure: Structure, values: Mapping[str, str]) -> dict[str, str]:
    """Return the sentences of each page that state the figures for invoices, or name the page that does."""
    lines_by_page: dict[str, list[str]] = {"decree": [], "rounding": [], "audit": []}
    for fact, page in structure.pages:
        home = "decree" if fact == "decree_tier" else "rounding"
        if page in lines_by_page:
            lines_by_page[page].append(render_figure(fact, values))
        if page != home:
            lines_by_page[home].append(f"The figure in force stands in {structure.find_page(fact)}.")
    return {f"{page}_figures": " ".join(sentences) or "No figure is told here." for page, sentences in lines_by_page.items()}


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
    """Return the source of the module for one invoice item, with outdated prices if the item has a bug."""
    culprits = list_culprits(values)
    stale = stage.name in culprits
    words = {name: getattr(stage, name) for name in ("name", "title", "story", "letter", "field", "formula", "unit")}
    words |= {"base": str(correct_tariff.base[stage.name]), "mode": "down" if stale else correct_tariff.mode}
    if stage not in TIERED_STAGES:
        return fill_text(__package__, "package/plain.py", words)
    words["tier"] = values["stale_tier"] if stale else str(correct_tariff.tier)
    words["rate"] = values[f"stale_rate_{culprits.index(stage.name) + 1}"] if stale else str(correct_tariff.rate[stage.name])
    return fill_text(__package__, "package/tiered.py", words)


def _render_page(stage: Stage, correct_tariff: Tariff, values: Mapping[str, str]) -> str:
    if stage not in TIERED_STAGES:
        return f"# {stage.title}\n\nThis stage is {stage.story}. It knows no tier, and the decree left it alone.\n"
    culprits, rate = list_culprits(values), str(correct_tariff.rate[stage.name])
    if stage.name in culprits:
        rate = values[f"page_rate_{culprits.index(stage.name) + 1}"]
    words = {"title": stage.title, "story": stage.story, "base": str(correct_tariff.base[stage.name]), "rate": rate}
    return fill_text(__package__, "docs/stage.md", words)


def _generate_data_files(values: Mapping[str, str], correct_tariff: Tariff, task_seed: int) -> Iterator[tuple[str, str]]:
    culprits = list_culprits(values)
    counts_by_invoice = draw_readings(values, culprits, correct_tariff, task_seed)
    steps = {invoice: correct_tariff.compute_stage_cents(counts) for invoice, counts in counts_by_invoice.items()}
    audited_invoices = _choose_audited(
        list(counts_by_invoice), values["complaint"], len(culprits), make_rng("bug-hunt", task_seed, "audit")
    )
    counted_rows = [
        ",".join([invoice, *(str(counts[name]) for name in READING_FIELDS)]) for invoice, counts in counts_by_invoice.items()
    ]
    yield "data/readings.csv", _render_table(",".join(("invoice", *READING_FIELDS)), counted_rows)
    yield (
        "data/reference.csv",
        _render_table("invoice,cents", [f"{invoice},{sum(added.values())}" for invoice, added in steps.items()]),
    )
    rows = [f"{invoice},{stage},{cents}" for invoice in audited_invoices for stage, cents in steps[invoice].items()]
    yield "data/audited.csv", _render_table("invoice,stage,cents", rows)


def _choose_audited(invoices: list[str], complaint: str, bug_count: int, rng: random.Random) -> list[str]:
    """Choose the invoices that were audited, so that they reveal every bug.

    The invoice of the complaint is always chosen. For each stage with a bug, some invoices follow on which the amount of this
    stage ends in half a cent, and then random ones.
    """
    chosen = {complaint}
    for number in range(bug_count):
        chosen.update(rng.sample(invoices[number::HALF_CENT_SPACING], AUDITED_HALF_CENTS))
    others = [invoice for invoice in invoices if invoice not in chosen]
    return sorted([*chosen, *rng.sample(others, max(0, AUDITED_COUNT - len(chosen)))])


def _render_table(header: str, rows: list[str]) -> str:
    return "\n".join([header, *rows]) + "\n"


def render_prompt(structure: Structure, values: Mapping[str, str]) -> str:
    """Return the user's request, which states facts and lists the documents to write."""
    sections = "; ".join(f"{section}: {_name_facts(list_section_facts(structure, section))}" for section in structure.sections)
    announcement = "the severity and a text with the ticket" if structure.announces_severity else "a text with the ticket"
    papers = [
        f"- The announcement has {announcement}.",
        f"- REPORT.md has these sections, with a line `- NAME: VALUE` for each name: {sections}.",
        f"- handover.json has the keys {', '.join((*RULES, *structure.handover_facts))}, each with a text as its value.",
    ]
    if "reply" in structure.papers:
        papers.append(f"- REPLY.md has a line `- NAME: VALUE` for {_name_facts(structure.reply_facts)}.")
    places = {"operator": "logs/nightly.log", "council": structure.minutes_path, "customer": structure.letter_path}
    suspects = ", ".join(f"the {accuser} in {places[accuser]}" for accuser in structure.suspicions)
    words = {**values, "papers": "\n".join(papers), "blamed": suspects}
    fact_texts = {**load_agreements(), **load_fact_texts(__package__, "constraints.md")}
    return render_request(load_text(__package__, "prompt.md"), structure.sheets.statements, fact_texts, words)


def _name_facts(names: Iterable[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in names)
