"""Initial workspace of the task `log-forensics` except the logs: documents, tools and a configuration file."""

import json
from collections.abc import Mapping

from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prose import Writer
from harness.tasks.kit.texts import fill_text

NOUNS = (
    *("report", "case", "customer", "desk", "page", "finding", "clerk", "witness", "alarm", "shift", "letter", "archive", "key"),
)
FILLER_COUNT = 10
"""Number of irrelevant paragraphs that make the documents in the workspace longer."""
INITIAL_SETTINGS = {"lock_wait": 40, "batch_span": 25, "commit_lag": 12, "replica_gap": 60, "fsync_gap": 8, "lease_span": 90}
"""Initial settings of the program `ledger` in its configuration file; the agent has to correct one wrong value."""
TEXTS = (
    *("docs/questions.md", "docs/form.md", "docs/runbook.md", "docs/addendum.md"),
    *("tools/open_case.py", "tools/seal.py", "tools/check_report.py"),
)


def build_papers(values: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file in the initial workspace, except the logs and dumps."""
    writer = Writer(make_rng("log-forensics", task_seed, "papers"), NOUNS)
    words = {**values, **{f"filler_{number}": writer.write_paragraph() for number in range(1, FILLER_COUNT + 1)}}
    return (
        ("README.md", "# Last night\n\nThe desk's papers are in docs/, the logs in logs/, dumps of the books in dumps/.\n"),
        ("config/ledger.conf", render_config({})),
        ("notes/README.md", "Shown to the customer.\n"),
        ("report/README.md", "The form is described in docs/form.md.\n"),
        ("tools/registry.json", json.dumps({"salt": values["salt"]}) + "\n"),
        *((name, fill_text(__package__, name, words)) for name in TEXTS),
    )


def render_config(changed_settings: Mapping[str, str]) -> str:
    """Return the text of the configuration file of the program `ledger`, with `changed_settings` replacing initial values."""
    rows = [f"{name} = {changed_settings.get(name, value)}" for name, value in INITIAL_SETTINGS.items()]
    return "\n".join(["[ledger]", *rows, "journal = on", "mirror = db-2", ""])
