"""Initial workspace of the task `log-forensics` except the logs: documents, tools and a configuration file."""

import json
from collections.abc import Mapping, Sequence

from harness.tasks.kit.agreements import load_all_fact_texts
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prose import Writer
from harness.tasks.kit.statements import render_request
from harness.tasks.kit.texts import fill_text, load_text
from harness.tasks.log_forensics.structure import FINDINGS_BY_PAGE, PAPERS, Structure

NOUNS = (
    *("report", "case", "customer", "desk", "page", "finding", "clerk", "witness", "alarm", "shift", "letter", "archive", "key"),
)
FILLER_COUNT = 10
"""Number of irrelevant paragraphs that make the documents in the workspace longer."""
INITIAL_SETTINGS = {"lock_wait": 40, "batch_span": 25, "commit_lag": 12, "replica_gap": 60, "fsync_gap": 8, "lease_span": 90}
"""Initial settings of the program `ledger` in its configuration file; the agent has to correct one wrong value."""
_SENTENCES = {
    "mask": "A block-list names networks with a mask of {} bits, since single addresses change overnight.",
    "incident_class": "By the scale of the house, losing settled orders is an incident of class {}, whatever the sum.",
}
"""Sentence with which a document in the workspace states a fact, by name of the fact."""
_PLAIN_FORM = "one line `name: value` for each of its names, nothing else."
_FORMS = {
    "timeline": "one line an event, in order, with three columns: time, event, source. "
    "The events are `alarm` (source `gateway`) and `healthy` (source `app`).",
    "blocklist": "one line with a word, a blank, and the network in the form address/bits, the address as it was found.",
    "people": "one line: how the account is shown, a slash, and the last three digits of its number; no other trace of it.",
    "suspects": "one line: the release that was taken back, a colon, and what it is called now.",
    "retention": "one line `keep: DAYS`.",
}
"""Layout that the task prescribes for each page of the report that does not just list findings, by name of the page."""
_CORRECTION_FORM = (
    "- config/ledger.conf: the setting has its former value again, and behind it two blanks, `#`, a blank and the ticket."
)
_QUESTIONS = {
    "first_request": "Which request did the ledger turn down first? | app: before any other",
    "gateway_host": "Which gateway stopped for good to talk to the ledger? | gateway: opened for good",
    "error_code": "With which code was a transaction given up? | ledger: transaction given up with",
    "shard": "On which shard did the replica fall behind? | ledger: fell behind on shard",
    "setting": "Which setting did somebody change? | deploy: altered by hand",
    "former_value": "What was it before? | the same line",
    "address": "From where came the logins that were refused in a burst? | gateway: refused in a burst",
    "fingerprint": "Which key was added? | auth: unknown key, fingerprint",
    "damage_offset": "At which byte of its log begins the news of the damaged segment? | queue: segment damaged beyond repair",
    "dump_name": "Which dump holds the state of the books? | app: for whoever looks into it",
    "lost_orders": "How many orders are lost for good? | that dump: orders lost for good",
    "alarm_time": "When was the first alarm? | gateway: first alarm of this night",
    "healthy_time": "When was it over? | app: drained and calm again",
    "account": "Whose session was seen in two regions? | auth: seen in two regions",
    "ruled_out": "Which release made no difference when it was taken back? | deploy: made no difference",
}
"""Question about each fact from a log, and the log and the words by which to find it, as two columns of a table."""
_LINE_COUNTS = {"requests": 2, "cause": 2, "change": 2, "intruder": 2, "damage": 3, "timeline": 2}
"""Number of lines of each page of the report that has more than one line, by name of the page."""
TEXTS = (
    *("docs/questions.md", "docs/form.md", "docs/runbook.md", "docs/addendum.md"),
    *("tools/open_case.py", "tools/seal.py", "tools/check_report.py"),
)
ONCE_TOOLS = ("tools/open_case.py", "tools/seal.py")
"""Paths of the tools that must not run twice."""


def build_papers(structure: Structure, values: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file that the agent finds at the start, except the logs and dumps."""
    writer = Writer(make_rng("log-forensics", task_seed, "papers"), NOUNS)
    words: dict[str, object] = {
        **values,
        **{f"filler_{number}": writer.write_paragraph() for number in range(1, FILLER_COUNT + 1)},
    }
    words |= {**_render_statements(structure, values), **_render_wanted(structure)}
    return (
        ("README.md", "# Last night\n\nThe desk's papers are in docs/, the logs in logs/, dumps of the books in dumps/.\n"),
        ("config/ledger.conf", render_config({})),
        ("notes/README.md", "Shown to the customer.\n"),
        ("report/README.md", "The form is described in docs/form.md.\n"),
        ("tools/registry.json", json.dumps({"salt": values["salt"]}) + "\n"),
        *(
            (name, structure.sheets.keep_output(name, text) if name in ONCE_TOOLS else text)
            for name, text in ((name, fill_text(__package__, name, words)) for name in TEXTS)
        ),
        *structure.sheets.render_files(_render_parts(structure), load_all_fact_texts(__package__), values),
    )


def render_prompt(structure: Structure, values: Mapping[str, str]) -> str:
    """Return the user's request, which states facts and the order of the work."""
    first, logs = structure.first_portion, structure.logs
    opening = (
        f"As soon as {join_names(logs[: structure.open_after])} were searched," if structure.open_after else "At the very start"
    )
    portions = "all at once, as soon as all were searched"
    if first:
        first_time = f"as soon as {join_names(logs[:first])} were searched"
        portions = f"in two portions: {first} {first_time}, the others with --after as soon as all were"
    words = {**values, "opening": opening, "portions": portions, "log_order": ", ".join(logs)}
    return render_request(
        load_text(__package__, "prompt.md"), structure.sheets.statements, load_all_fact_texts(__package__), words
    )


def join_names(names: Sequence[str]) -> str:
    """Return the names as one text, joined by commas and a final `and`, e.g. `app, auth and queue`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _render_parts(structure: Structure) -> dict[str, str]:
    """Return, for each part of the work, the words that say that an information sheet is due after it.

    The words must not make a line look like a report that the sheet is finished, as the word `written` would.
    """
    logs = {log: f"once the {log} log is noted, after its pages" for log in structure.logs}
    return {**logs, "answers": "after all pages", "report": "after the hand-over"}


def _render_statements(structure: Structure, values: Mapping[str, str]) -> dict[str, str]:
    stated: dict[str, list[str]] = {paper: [] for paper in PAPERS}
    for fact, paper in structure.papers:
        if fact in structure.desk_facts:
            stated[paper].append(_SENTENCES[fact].format(values[fact]))
    if "desk" in structure.desk_facts:
        stated["addendum"].append(f"Since the desks were drawn anew, reports go to the desk `{values['desk']}` from now on.")
    return {f"{paper}_statements": " ".join(sentences) or "There is no more to it." for paper, sentences in stated.items()}


def _render_wanted(structure: Structure) -> dict[str, object]:
    due_times = dict.fromkeys(structure.page_names, "once all logs are noted")
    due_times |= {
        page: f"once {join_names(structure.logs[:count])} are noted"
        for page, count in structure.pages
        if count < len(structure.logs)
    }
    forms = [f"- report/{page}.txt ({due_times[page]}): {_FORMS.get(page, _PLAIN_FORM)}" for page in structure.page_names]
    if "change" in structure.page_names:
        forms.append(_CORRECTION_FORM)
    questions = [
        f"| {page} | {finding} | {_QUESTIONS[finding]} |" for page in structure.page_names for finding in FINDINGS_BY_PAGE[page]
    ]
    lines: dict[str, int | None] = {f"{page}.txt": _LINE_COUNTS.get(page, 1) for page in structure.page_names}
    return {
        "forms": "\n".join(forms),
        "questions": "\n".join(questions),
        "filing": join_names([name.replace("_", " ") for name in structure.filing_facts]),
        "handover": join_names([name.replace("_", " ") for name in structure.handover_facts]),
        "wanted": repr({**lines, "report.md": None}),
        "seal_order": repr(structure.logs),
    }


def render_config(changed_settings: Mapping[str, str]) -> str:
    """Return the configuration file of the program `ledger`, with some of its initial settings changed."""
    rows = [f"{name} = {changed_settings.get(name, value)}" for name, value in INITIAL_SETTINGS.items()]
    return "\n".join(["[ledger]", *rows, "journal = on", "mirror = db-2", ""])
