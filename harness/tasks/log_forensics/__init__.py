"""The task `log-forensics`: find out from three megabytes of logs what happened in a night, and report it in an agreed form.

Parts of the work, and the information from each part that the agent needs later:

| part | what the agent does | what the agent must remember |
| --- | --- | --- |
| first look | reads documents and sizes of logs | questions, forms and rules, one of them replaced later |
| logs | looks at each log and searches it, in outputs of up to 10,000 characters | one finding for each search |
| case and seals | opens a case once, seals the logs in one or two portions | the case number and a mark, each shown once |
| pages | writes pages on requests, cause, damage, intruder, suspects and so on | findings, and forms from the prompt |
| report | writes report, hand-over and sheets | constraints of the prompt; findings from long ago |

A log is too long to be read as a whole, so the agent searches it and reads parts, and most of the text that the model sees is
irrelevant. A forgotten finding can be recovered by another search. The values of the prompt, the case number and the mark cannot.
The agent's notes are shown to a customer, so they must not contain findings: they list the searches and thus show only progress.

The seed decides the structure: which pages the report has and when each is due, which logs are searched in which order, what the
agent looks at before a search, how much each search prints, when the case is opened and the logs are sealed, where facts are
stated, and which misleading messages the logs contain. The logs are generated from the seed in `logs.py`. Tasks of the last three
seeds are cached, since the logs are large.
"""

import hashlib
from functools import lru_cache

from harness.task import Cell, Difficulty, Grader, Task
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.log_forensics.facts import draw_values, make_facts
from harness.tasks.log_forensics.grader import build_checks, judge
from harness.tasks.log_forensics.logs import generate_logs
from harness.tasks.log_forensics.steps import build_script
from harness.tasks.log_forensics.structure import draw_structure
from harness.tasks.log_forensics.workspace import build_papers, render_config, render_prompt


@lru_cache(maxsize=3)
def make_log_forensics(task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None) -> Task:
    """Make the task `log-forensics` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. which logs are searched; None uses `task_seed`.
    """
    seed = task_seed if structure_seed is None else structure_seed
    structure = draw_structure(StructureDraws("log-forensics", seed, difficulty))
    facts, values = make_facts(structure), draw_values(structure, task_seed)
    log_files = generate_logs(structure, values, task_seed)
    text_by_path = dict(log_files)
    values["damage_offset"] = str(text_by_path["logs/queue.log"].index("segment damaged beyond repair"))
    expected = {
        **values,
        "config": render_config({values["setting"]: f"{values['former_value']}  # {values['ticket']}"}),
        "digests": {name: hashlib.sha256(text_by_path[f"logs/{name}.log"].encode()).hexdigest() for name in structure.logs},
        "pages": structure.page_names,
        "filing": structure.filing_facts,
        "handover": structure.handover_facts,
        "sheets": structure.sheets.expected,
    }
    return Task(
        name="log-forensics",
        title="Find out from the logs of a night what happened",
        tags=("large outputs", "constraints", "values", "negative results", "bookkeeping"),
        prompt=render_prompt(structure, values),
        workspace=(*build_papers(structure, values, task_seed), *log_files),
        checks=build_checks(structure),
        grader=Grader(judge=judge, expected=expected),
        facts=facts,
        script=build_script(structure),
        values={fact.name: values[fact.name] for fact in facts},
        cells=(Cell(difficulty="easy", window_tokens=32_768),),
    )
