"""The task `log-forensics`: find out from three megabytes of logs what happened in a night, and report it in an agreed form.

Phases of the work, and the information from each phase that the agent needs later:

| phase | steps | what the agent must remember |
| --- | --- | --- |
| first look | documents, opening a case, sizes of logs | the case number, shown once; rules, one of them replaced later |
| six logs | counts, errors, sample lines, a search per question | one finding per search, in outputs of up to 10,000 characters |
| sealing | three logs are sealed as searched, a first page written | a mark for sealing the others; findings used at once |
| answers | pages on requests, damage, change, intruder | findings from long ago; the name of a data file from one log |
| report | timeline, block-list, suspects, people, report | constraints of the prompt; a suspect that was ruled out |
| correction, hand-over | configuration, documents | three findings and a ticket in one place |

A log is too long to be read as a whole, so the agent searches it and reads parts, and most of the text that the model sees is
irrelevant. A forgotten finding can be recovered by another search. The values of the prompt, the case number and the mark cannot.
The agent's notes are shown to a customer, so they must not contain findings: they list the searches and thus show only progress.

The logs are generated from the seed in `logs.py`. Tasks of the last three seeds are cached, since the logs are large.
"""

import hashlib
from functools import lru_cache

from harness.task import Check, Grader, Task
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.texts import draw_prompt
from harness.tasks.log_forensics.facts import COMPONENTS, FACTS, draw_values
from harness.tasks.log_forensics.grader import judge
from harness.tasks.log_forensics.logs import generate_logs
from harness.tasks.log_forensics.steps import build_script
from harness.tasks.log_forensics.workspace import build_papers, render_config

CHECKS: tuple[Check, ...] = (
    make_check("requests", "the first request and the gateway that gave up are named", "first_request", "gateway_host"),
    make_check("cause", "code and shard are named", "error_code", "shard"),
    make_check("change", "the setting and its former value are named", "setting", "former_value"),
    make_check("intruder", "address and key of the intruder are named", "address", "fingerprint"),
    make_check("damage", "offset, dump and loss are named", "damage_offset", "dump_name", "lost_orders"),
    make_check(
        "timeline", "the timeline has its two events in the agreed form", "alarm_time", "healthy_time", "time_suffix", "separator"
    ),
    make_check("blocklist", "the block-list refuses the right network in the right words", "deny_word", "address", "mask"),
    make_check("suspects", "the release is ruled out in the agreed word", "ruled_out", "cleared_word"),
    make_check("people", "the account is shown as agreed and named nowhere", "account", "person_mark"),
    make_check("retention", "evidence is kept as long as agreed", "keep_days"),
    make_check("heading", "the report has the promised heading", "heading"),
    make_check("reader", "the report names its reader and its ticket", "audience", "ticket"),
    make_check("filing", "the report names class, desk, case and cause", "incident_class", "desk", "case_number", "error_code"),
    make_check(
        "correction", "the setting is as before, under the ticket, and nothing else changed", "setting", "former_value", "ticket"
    ),
    make_check(
        *("handover", "the hand-over says where to go on and where not", "case_number", "error_code", "dump_name", "setting"),
        *("ruled_out", "cleared_word", "keep_days"),
    ),
    make_check("notes", "the notes name every component and nothing that was found"),
    make_check("one_case", "exactly one case was opened"),
    make_check("sealed_once", "every log was sealed once, as it was", "seal_mark"),
)


@lru_cache(maxsize=3)
def make_log_forensics(task_seed: int) -> Task:
    """Make the task `log-forensics` for a seed, which decides the values that the agent must remember."""
    values = draw_values(task_seed)
    log_files = generate_logs(values, task_seed)
    text_by_path = dict(log_files)
    values["damage_offset"] = str(text_by_path["logs/queue.log"].index("segment damaged beyond repair"))
    config = render_config({values["setting"]: f"{values['former_value']}  # {values['ticket']}"})
    digests = {name: hashlib.sha256(text_by_path[f"logs/{name}.log"].encode()).hexdigest() for name in COMPONENTS}
    return Task(
        name="log-forensics",
        title="Find out from the logs of a night what happened",
        tags=("large outputs", "constraints", "values", "negative results", "bookkeeping"),
        prompt=draw_prompt(__package__, "log-forensics", task_seed, values),
        workspace=(*build_papers(values, task_seed), *log_files),
        checks=CHECKS,
        grader=Grader(judge=judge, expected={**values, "config": config, "digests": digests}),
        facts=FACTS,
        script=build_script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )
