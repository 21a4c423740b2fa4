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

from harness.task import Difficulty, Task
from harness.tasks.spec_api.grader import judge
from harness.tasks.spec_api.program import PROGRAM


def make_spec_api(task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None) -> Task:
    """Make the task `spec-api` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. the order of the work; None uses `task_seed`.
    """
    return PROGRAM.make_task(judge, task_seed, difficulty, structure_seed)
