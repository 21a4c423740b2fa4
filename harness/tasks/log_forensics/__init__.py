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

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from string import Template

from harness.task import Task
from harness.tasks.facts import make_rng
from harness.tasks.kit import load_text
from harness.tasks.kit.prompts import render_prompt
from harness.tasks.kit.prose import Writer
from harness.tasks.log_forensics.checks import CHECKS, build_grader
from harness.tasks.log_forensics.constraints import CONSTRAINTS
from harness.tasks.log_forensics.facts import FACTS, draw_values
from harness.tasks.log_forensics.logs import find_damage_offset, generate_logs
from harness.tasks.log_forensics.steps import COMPONENTS, FILES_PACKAGE, build_script

NOUNS = (
    "report",
    "case",
    "customer",
    "desk",
    "page",
    "finding",
    "clerk",
    "witness",
    "alarm",
    "shift",
    "letter",
    "archive",
    "key",
)
FILLER_COUNT = 10
"""Paragraphs of the desk's papers that matter to nobody."""
INITIAL_SETTINGS = {"lock_wait": 40, "batch_span": 25, "commit_lag": 12, "replica_gap": 60, "fsync_gap": 8, "lease_span": 90}
"""The configuration of the ledger as it is found, with one value that is wrong."""


@lru_cache(maxsize=3)
def make_log_forensics(task_seed: int) -> Task:
    """The task under a seed, which gives every fact its value."""
    values = draw_values(task_seed)
    files = generate_logs(values, task_seed)
    text_by_path = dict(files)
    values["damage_offset"] = str(find_damage_offset(text_by_path))
    digests = {name: hashlib.sha256(text_by_path[f"logs/{name}.log"].encode()).hexdigest() for name in COMPONENTS}
    return Task(
        name="log-forensics",
        title="Find out from the logs of a night what happened",
        tags=("large outputs", "constraints", "values", "negative results", "bookkeeping"),
        prompt=render_prompt(
            load_text(FILES_PACKAGE, "prompt.md"), CONSTRAINTS, make_rng("log-forensics", task_seed, "order"), values
        ),
        workspace=(*_build_papers(values, task_seed), *files),
        runtime="python",
        checks=CHECKS,
        grader=build_grader(
            values, _render_config({values["setting"]: f"{values['former_value']}  # {values['ticket']}"}), digests
        ),
        facts=FACTS,
        script=build_script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )


def _render_config(changed_settings: Mapping[str, str]) -> str:
    rows = [f"{name} = {changed_settings.get(name, value)}" for name, value in INITIAL_SETTINGS.items()]
    return "\n".join(["[ledger]", *rows, "journal = on", "mirror = db-2", ""])


def _build_papers(values: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    writer = Writer(make_rng("log-forensics", task_seed, "papers"), NOUNS)
    template_values = {**values, **{f"filler_{number}": writer.write_paragraph() for number in range(1, FILLER_COUNT + 1)}}
    names = (*(f"docs/{name}.md" for name in ("questions", "form", "runbook", "addendum")), *_TOOLS)
    return (
        ("README.md", "# Last night\n\nThe desk's papers are in docs/, the logs in logs/, dumps of the books in dumps/.\n"),
        ("config/ledger.conf", _render_config({})),
        ("notes/README.md", "Shown to the customer.\n"),
        ("report/README.md", "The form is described in docs/form.md.\n"),
        ("tools/registry.json", json.dumps({"salt": values["salt"]}) + "\n"),
        *((name, Template(load_text(FILES_PACKAGE, name)).substitute(template_values)) for name in names),
    )


_TOOLS = ("tools/open_case.py", "tools/seal.py", "tools/check_report.py")
