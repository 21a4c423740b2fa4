"""Initial workspace of the task `spec-api`: a specification in several pages, tools, samples, and an empty Python package."""

import json
from collections.abc import Mapping

from harness.tasks import kit
from harness.tasks.kit.agreements import load_all_fact_texts
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prose import write_specification
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.kit.texts import fill_text, load_text
from harness.tasks.spec_api.structure import PARTS, WORK, Structure

NOUNS = (
    *("parcel", "depot", "carrier", "shelf", "gateway", "ledger", "label", "lorry", "tariff", "customs form", "pallet", "clerk"),
    *("contract", "sorting hall", "receipt", "region", "note", "seal", "cage", "timetable", "scanner", "recipient", "sender"),
)
TOOLS = ("enroll", "contract", "check_money", "conform", "push", "changelog")
SAMPLE_COUNT = 70
STREETS = ("Mill Lane", "Harbour Row", "Long Acre", "Kiln Street", "Ash Walk", "Fish Market", "Tower Hill", "Weir Road")


def build_workspace(
    values: Mapping[str, str], task_seed: int, structure: Structure, draws: StructureDraws
) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file in the workspace at the start of the task."""
    registry = {name: values[name] for name in ("salt", "revision", "rounding")} | {"profile": values["next_profile"]}
    return (
        ("spec/README.md", load_text(__package__, "spec/README.md")),
        *write_specification(__package__, "spec", dict(structure.page_sizes), NOUNS, draws.make_rng, values),
        *((f"tools/{name}.py", fill_text(__package__, f"tools/{name}.py", values)) for name in TOOLS),
        ("tools/run_tests.py", load_text(kit.__name__, "run_tests.py")),
        ("tools/registry.json", json.dumps(registry) + "\n"),
        ("README.md", "# depot\n\nNothing is built yet. The specification is in spec/, the team's helpers are in tools/.\n"),
        ("CHANGELOG.md", "# Change log\n\n- version 0.9.0 (ticket XX-0001): a spreadsheet did all this\n"),
        ("docs/README.md", "Pages for those who use the client; there are none yet.\n"),
        ("samples/parcels.csv", _draw_samples(task_seed)),
        ("depot/__init__.py", '"""The client of the parcel depot."""\n'),
        ("tests/__init__.py", ""),
        *structure.work.sheets.render_files(
            {part: f"after {words}" for part, words in PARTS.items()}, load_all_fact_texts(WORK.package), values
        ),
    )


def _draw_samples(task_seed: int) -> str:
    rng = make_rng("spec-api", task_seed, "samples")
    serials = rng.sample(range(10**8, 10**9), SAMPLE_COUNT)
    rows = [f"{serial},{rng.randint(1, 99)} {rng.choice(STREETS)},{rng.randint(80, 9000)}" for serial in serials]
    return "\n".join(["serial,recipient,grams", *rows]) + "\n"
