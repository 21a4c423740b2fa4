"""Initial workspace of the task `spec-api`: a specification in several pages, tools, samples, and an empty Python package."""

import json
from collections.abc import Mapping
from functools import partial

from harness.tasks import kit
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prose import write_specification
from harness.tasks.kit.texts import fill_text, load_text

NOUNS = (
    *("parcel", "depot", "carrier", "shelf", "gateway", "ledger", "label", "lorry", "tariff", "customs form", "pallet", "clerk"),
    *("contract", "sorting hall", "receipt", "region", "note", "seal", "cage", "timetable", "scanner", "recipient", "sender"),
)
PAGE_SIZES = {
    "01-conventions": 8_900,
    "02-authentication": 9_300,
    "03-identifiers": 8_700,
    "04-collections": 8_800,
    "05-reliability": 9_200,
    "06-resources": 12_600,
    "07-errors": 9_000,
    "08-webhooks": 8_600,
    "10-labels": 8_900,
    "11-statements": 9_100,
    "09-errata": 8_300,
}
"""Minimum length in characters of each page that is generated for the specification, by name of the page."""
TOOLS = ("enroll", "contract", "check_money", "conform", "push", "changelog")
SAMPLE_COUNT = 70
STREETS = ("Mill Lane", "Harbour Row", "Long Acre", "Kiln Street", "Ash Walk", "Fish Market", "Tower Hill", "Weir Road")


def build_workspace(values: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file that the agent finds in the workspace at the start of the task."""
    registry = {name: values[name] for name in ("salt", "revision", "rounding")} | {"profile": values["next_profile"]}
    return (
        ("spec/README.md", load_text(__package__, "spec/README.md")),
        *write_specification(__package__, "spec", PAGE_SIZES, NOUNS, partial(make_rng, "spec-api", task_seed), values),
        *((f"tools/{name}.py", fill_text(__package__, f"tools/{name}.py", values)) for name in TOOLS),
        ("tools/run_tests.py", load_text(kit.__name__, "run_tests.py")),
        ("tools/registry.json", json.dumps(registry) + "\n"),
        ("README.md", "# depot\n\nNothing is built yet. The specification is in spec/, the team's helpers are in tools/.\n"),
        ("CHANGELOG.md", "# Change log\n\n- version 0.9.0 (ticket XX-0001): a spreadsheet did all this\n"),
        ("docs/README.md", "Pages for those who use the client; there are none yet.\n"),
        ("samples/parcels.csv", _draw_samples(task_seed)),
        ("depot/__init__.py", '"""The client of the parcel depot."""\n'),
        ("tests/__init__.py", ""),
    )


def _draw_samples(task_seed: int) -> str:
    rng = make_rng("spec-api", task_seed, "samples")
    serials = rng.sample(range(10**8, 10**9), SAMPLE_COUNT)
    rows = [f"{serial},{rng.randint(1, 99)} {rng.choice(STREETS)},{rng.randint(80, 9000)}" for serial in serials]
    return "\n".join(["serial,recipient,grams", *rows]) + "\n"
