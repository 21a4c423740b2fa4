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

from harness.task import Task
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prompts import draw_prompt
from harness.tasks.spec_api.checks import CHECKS, build_grader
from harness.tasks.spec_api.facts import FACTS, draw_values
from harness.tasks.spec_api.steps import build_script
from harness.tasks.spec_api.workspace import build_workspace


def make_spec_api(task_seed: int) -> Task:
    """Make the task under a seed, which gives every fact its value."""
    values = draw_values(task_seed)
    return Task(
        name="spec-api",
        title="Build an interface's client from a long specification",
        tags=("constraints", "values", "superseded values", "artifacts", "errors", "bookkeeping"),
        prompt=draw_prompt(__package__, make_rng("spec-api", task_seed, "order"), values),
        workspace=build_workspace(values, task_seed),
        runtime="python",
        checks=CHECKS,
        grader=build_grader(values),
        facts=FACTS,
        script=build_script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )
