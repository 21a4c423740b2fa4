"""The task `spec-api`: build the client of a web API from a long and scattered specification, in about eighty steps.

Phases of the work, and the information that the agent needs in each phase:

| phase | steps | what the agent must remember |
| --- | --- | --- |
| first look | index, registration of the client, tools | a key that is shown once |
| basics | headers, parcel numbers, paging, retry | values of five pages; a correction that replaces one of them |
| parcels | fields, limits, error codes; first samples sent | values in tables, one in a cut page; a mark to send the others |
| money | rounding of amounts, which a check first refuses | the rounding mode that the error message states |
| transport | signing, clocks, transport, batches, tariffs, redaction | constraints of the prompt; one replaces a page's value |
| integration | webhooks, settings, client, service, labels, statements | values of eight pages, read long ago; the mark |
| command line | version, commands, conformance test | goal and exit status from the prompt; name of the next test profile |
| documents | README, integration, settings, hand-over, change log | nearly all of the above once more |

The seed decides the structure of the task, which comprises:

- the order of the phases up to the command line, as far as one does not need the other;
- the information sheets, small documents that are due after some phases (see `harness.tasks.kit.sheets`);
- the form in which the prompt states each fact, and which misleading sentences stand among them;
- when the client is enrolled, and whether samples are sent;
- the lengths of the pages, and at which files and outputs the agent looks on the way.

Facts of pages can be read again, but a page costs at least 2,000 tokens, and two facts of one page are rarely needed together.
The constraints of the prompt, the key and the mark cannot be recovered. Two values are superseded: pages still state the old
values. An agent that loses the newer statement uses the outdated value, which is its default guess (prior).

Pages are generated from the seed. Modules and tests are real and written from the texts in `files/`, filled with values that the
agent has read.
"""

from harness.task import Check, Difficulty, Task
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.spec_api.facts import FACTS, draw_values
from harness.tasks.spec_api.grader import build_grader
from harness.tasks.spec_api.steps import build_script
from harness.tasks.spec_api.structure import WORK, draw_structure
from harness.tasks.spec_api.workspace import build_workspace

CHECKS: tuple[Check, ...] = (
    make_check("own_tests", "the suite that the agent wrote passes and has at least 30 tests"),
    make_check("edition_header", "every request names the edition", "version_header"),
    make_check("introduces_itself", "requests carry the agreed name and patience", "client_name", "timeout_seconds"),
    make_check(
        "signing", "signatures travel in their header and age in the newest time", "signature_header", "signature_seconds"
    ),
    make_check("clocks", "so much difference of clocks is borne", "skew_seconds"),
    make_check("check_value", "parcel numbers carry the right check value", "modulus"),
    make_check("paging", "pages are as long as allowed and walked to their end", "page_limit", "cursor_field"),
    make_check("insisting", "what is tried again, how often and when", "retry_status", "backoff_ms", "attempts"),
    make_check("parcel_fields", "parcels have the fields of the specification", "weight_field"),
    make_check("body_limit", "no body is larger than the depot takes", "body_kib"),
    make_check("batches", "no batch is larger than agreed", "batch_size"),
    make_check("error_codes", "a repeated parcel is told from other refusals", "conflict_code"),
    make_check("rounding", "amounts are rounded as in the depot's books", "rounding"),
    make_check("tariffs_kept", "tariffs are fetched again when their time is over", "cache_minutes"),
    make_check("webhooks", "hand-overs are seen in signed messages", "delivered_event", "signature_header"),
    make_check("labels", "lines of labels are as long as the paper allows", "label_width"),
    make_check("statements", "the sum of a statement is found", "sum_line"),
    make_check("redaction", "secrets do not stand in logs", "redaction_mark"),
    make_check("environment", "settings come from the agreed variables", "env_prefix"),
    make_check("unavailable", "an absent depot has its own exit status", "unavailable_status"),
    make_check(
        *("stand_in", "the stand-in takes what the depot takes"), *("page_limit", "cursor_field", "conflict_code", "weight_field")
    ),
    make_check("about", "the client names its version and contract", "goal_version", "revision"),
    make_check(
        *("settings", "the example settings say what holds"),
        *("client_name", "env_prefix", "client_key", "timeout_seconds", "batch_size", "cache_minutes"),
    ),
    make_check(
        "readme", "the README says how to use it", "goal_version", "env_prefix", "client_name", "unavailable_status", "sum_line"
    ),
    make_check(
        *("integration", "the page for users lists what holds", "version_header", "body_kib", "batch_size", "timeout_seconds"),
        *("signature_seconds", "skew_seconds", "cache_minutes", "redaction_mark", "rounding", "label_width"),
    ),
    make_check(
        *("handover", "the hand-over tells the next team what it needs", "ticket", "goal_version", "revision", "client_key"),
        *("redaction_mark", "rounding", "next_profile", "backoff_ms", "attempts", "retry_status", "delivered_event"),
    ),
    make_check("changelog", "the change log has exactly one new entry, with version and ticket", "goal_version", "ticket"),
    make_check("profiles", "the client was compared with the basic profile and the next one", "next_profile"),
    make_check("one_key", "exactly one key was taken"),
)
"""Checks of the task for every seed."""
PUSH_CHECK = make_check("pushed_once", "every sample parcel was pushed once", "push_mark")
"""Additional check if the task asks the agent to push sample parcels to the trial hall."""


def make_spec_api(task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None) -> Task:
    """Make the task `spec-api` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. the order of the work; None uses `task_seed`.
    """
    draws = StructureDraws("spec-api", task_seed if structure_seed is None else structure_seed, difficulty)
    structure = draw_structure(draws)
    work, values = structure.work, draw_values(task_seed)
    workspace = build_workspace(values, task_seed, structure, draws)
    facts = WORK.list_facts(work, FACTS)
    return Task(
        name="spec-api",
        title="Build an interface's client from a long specification",
        tags=("constraints", "values", "superseded values", "artifacts", "errors", "bookkeeping"),
        prompt=WORK.render_prompt(work, values),
        workspace=workspace,
        checks=WORK.list_checks(work, CHECKS, PUSH_CHECK),
        grader=build_grader(values, structure, dict(workspace)),
        facts=facts,
        script=build_script(structure),
        values={fact.name: values[fact.name] for fact in facts},
    )
