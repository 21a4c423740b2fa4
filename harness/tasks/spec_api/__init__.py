"""The task `spec-api`: build the client of an interface whose specification is long and scattered, in about eighty steps.

Which memory it loads, and why:

| part of the work | steps | what must be remembered |
| --- | --- | --- |
| first look | orient, read the index, enrol, look at the tools | a key that is handed out once |
| basics | headers, parcel numbers, paging, retry | values of five pages; an erratum that replaces one of them |
| parcels | fields, limits, error codes, first portion of samples | values in tables, one beyond what an output shows; a mark |
| money | a rounding that the depot's books refuse | an error that teaches a value |
| wire | signing, clocks, transport, batches, tariffs, redaction | constraints of the order; one makes a page out of date |
| whole | webhooks, settings, client, stand-in service, labels, statements | values of eight pages, read long ago |
| command line | contract, about, cli, the next profile | goal and exit status of the order; a pointer to what comes next |
| papers | README, integration, settings, hand-over, change log | nearly all of it once more |

Facts of pages can be read again, but a page costs 2,000 tokens and more, and two facts of one page are rarely needed together:
that is the price of forgetting them. The order's own constraints, the key and the mark cannot be got again. Two values are
*superseded*: the pages still hold the old ones, which are the priors, so whoever loses the newer word uses the stale value.

Pages are generated from the seed; modules and tests are real and are written from `files/`, filled with what was read.
"""

import json
from collections.abc import Mapping
from string import Template

from harness.task import Task
from harness.tasks.facts import make_rng
from harness.tasks.kit import load_text
from harness.tasks.kit.prompts import render_prompt
from harness.tasks.spec_api.checks import CHECKS, FILES_PACKAGE, build_grader
from harness.tasks.spec_api.constraints import CONSTRAINTS
from harness.tasks.spec_api.facts import FACTS, draw_values
from harness.tasks.spec_api.pages import generate_pages
from harness.tasks.spec_api.steps import TOOLS, build_script

SAMPLE_COUNT = 70
"""Rows of the sample file."""
_STREETS = ("Mill Lane", "Harbour Row", "Long Acre", "Kiln Street", "Ash Walk", "Fish Market", "Tower Hill", "Weir Road")


def make_spec_api(task_seed: int) -> Task:
    """The task under a seed, which gives every fact its value."""
    values = draw_values(task_seed)
    return Task(
        name="spec-api",
        title="Build an interface's client from a long specification",
        tags=("constraints", "values", "superseded values", "artifacts", "errors", "bookkeeping"),
        prompt=render_prompt(
            load_text(FILES_PACKAGE, "prompt.md"), CONSTRAINTS, make_rng("spec-api", task_seed, "order"), values
        ),
        workspace=(*generate_pages(values, task_seed), *_build_tool_files(values), *_build_other_files(task_seed)),
        runtime="python",
        checks=CHECKS,
        grader=build_grader(values),
        facts=FACTS,
        script=build_script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )


def _build_tool_files(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    registry = {"salt": values["salt"], "revision": values["revision"], "rounding": values["rounding"]}
    texts = [(f"tools/{name}.py", Template(load_text(FILES_PACKAGE, f"tools/{name}.py")).substitute(values)) for name in TOOLS]
    runner = ("tools/run_tests.py", load_text("harness.tasks.kit", "run_tests.py"))
    return (*texts, runner, ("tools/registry.json", json.dumps({**registry, "profile": values["next_profile"]}) + "\n"))


def _build_other_files(task_seed: int) -> tuple[tuple[str, str], ...]:
    rng = make_rng("spec-api", task_seed, "samples")
    serials = rng.sample(range(10**8, 10**9), SAMPLE_COUNT)
    rows = [f"{serial},{rng.randint(1, 99)} {rng.choice(_STREETS)},{rng.randint(80, 9000)}" for serial in serials]
    return (
        ("README.md", "# depot\n\nNothing is built yet. The specification is in spec/, the team's helpers are in tools/.\n"),
        ("CHANGELOG.md", "# Change log\n\n- version 0.9.0 (ticket XX-0001): a spreadsheet did all this\n"),
        ("docs/README.md", "Pages for those who use the client; there are none yet.\n"),
        ("samples/parcels.csv", "\n".join(["serial,recipient,grams", *rows]) + "\n"),
        ("depot/__init__.py", '"""The client of the parcel depot."""\n'),
        ("tests/__init__.py", ""),
    )
