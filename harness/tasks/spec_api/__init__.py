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
from harness.tasks.facts import drawn
from harness.tasks.kit import text
from harness.tasks.kit.prompts import order
from harness.tasks.spec_api.checks import CHECKS, FILES, grader
from harness.tasks.spec_api.constraints import CONSTRAINTS
from harness.tasks.spec_api.facts import FACTS, draw
from harness.tasks.spec_api.pages import pages
from harness.tasks.spec_api.steps import TOOLS, script

SAMPLES = 70
"""Rows of the sample file."""
_STREETS = ("Mill Lane", "Harbour Row", "Long Acre", "Kiln Street", "Ash Walk", "Fish Market", "Tower Hill", "Weir Road")


def spec_api(task_seed: int) -> Task:
    """The task under a seed, which gives every fact its value."""
    values = draw(task_seed)
    return Task(
        name="spec-api",
        title="Build an interface's client from a long specification",
        tags=("constraints", "values", "superseded values", "artifacts", "errors", "bookkeeping"),
        prompt=order(text(FILES, "prompt.md"), CONSTRAINTS, drawn("spec-api", task_seed, "order"), values),
        workspace=(*pages(values, task_seed), *_tools(values), *_rest(task_seed)),
        runtime="python",
        checks=CHECKS,
        grader=grader(values),
        facts=FACTS,
        script=script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )


def _tools(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    registry = {"salt": values["salt"], "revision": values["revision"], "rounding": values["rounding"]}
    texts = [(f"tools/{name}.py", Template(text(FILES, f"tools/{name}.py")).substitute(values)) for name in TOOLS]
    runner = ("tools/run_tests.py", text("harness.tasks.kit", "run_tests.py"))
    return (*texts, runner, ("tools/registry.json", json.dumps({**registry, "profile": values["next_profile"]}) + "\n"))


def _rest(task_seed: int) -> tuple[tuple[str, str], ...]:
    source = drawn("spec-api", task_seed, "samples")
    serials = source.sample(range(10**8, 10**9), SAMPLES)
    rows = [f"{serial},{source.randint(1, 99)} {source.choice(_STREETS)},{source.randint(80, 9000)}" for serial in serials]
    return (
        ("README.md", "# depot\n\nNothing is built yet. The specification is in spec/, the team's helpers are in tools/.\n"),
        ("CHANGELOG.md", "# Change log\n\n- version 0.9.0 (ticket XX-0001): a spreadsheet did all this\n"),
        ("docs/README.md", "Pages for those who use the client; there are none yet.\n"),
        ("samples/parcels.csv", "\n".join(["serial,recipient,grams", *rows]) + "\n"),
        ("depot/__init__.py", '"""The client of the parcel depot."""\n'),
        ("tests/__init__.py", ""),
    )
