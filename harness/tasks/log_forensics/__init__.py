"""The task `log-forensics`: find out from three megabytes of logs what happened, and report it in a form that was agreed.

Which memory it loads, and why:

| part of the work | steps | what must be remembered |
| --- | --- | --- |
| first look | papers, a case, sizes | a number that is shown once; rules of the desk, one of them newer than its page |
| six logs | count, errors, middle, then one search a question | a needle each, among outputs of up to 10,000 characters |
| first seal, first page | after three logs | a mark for the second portion; the only answers that are used at once |
| answers | pages on requests, damage, change, intruder | needles of long ago; a pointer from one log to a dump |
| report | timeline, block-list, suspects, people, report | constraints of the order; a negative result |
| correction, hand-over | configuration, papers | three finds and a ticket in one place |

A log is too long to be read: truncation, search and paging are the work, and what they bring into view is mostly noise. A
needle that was forgotten can be found again, at the price of the search; the order, the case and the mark cannot. The notes are
shown to the customer and therefore name searches, never finds: they are a sign of progress and no memory of values.

Logs follow from the seed (`logs.py`) and are kept for the last seeds, since they are large.
"""

from functools import lru_cache

from harness.task import Task
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prompts import draw_prompt
from harness.tasks.log_forensics.checks import CHECKS, build_grader
from harness.tasks.log_forensics.facts import FACTS, draw_values
from harness.tasks.log_forensics.logs import find_damage_offset, generate_logs
from harness.tasks.log_forensics.steps import build_script
from harness.tasks.log_forensics.workspace import build_papers


@lru_cache(maxsize=3)
def make_log_forensics(task_seed: int) -> Task:
    """Make the task under a seed, which gives every fact its value."""
    values = draw_values(task_seed)
    log_files = generate_logs(values, task_seed)
    text_by_path = dict(log_files)
    values["damage_offset"] = str(find_damage_offset(text_by_path))
    return Task(
        name="log-forensics",
        title="Find out from the logs of a night what happened",
        tags=("large outputs", "constraints", "values", "negative results", "bookkeeping"),
        prompt=draw_prompt(__package__, make_rng("log-forensics", task_seed, "order"), values),
        workspace=(*build_papers(values, task_seed), *log_files),
        runtime="python",
        checks=CHECKS,
        grader=build_grader(values, text_by_path),
        facts=FACTS,
        script=build_script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )
