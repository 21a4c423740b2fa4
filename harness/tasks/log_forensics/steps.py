"""Script of the task `log-forensics`: the messages and tool calls of a competent agent, which a scripted model follows."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from harness.task import Script
from harness.tasks.kit.calls import read, run, write
from harness.tasks.kit.sheets import SHEETS_FOLDER
from harness.tasks.kit.steps import StepSpec, do, do_once, look, look_around, make_script, verify
from harness.tasks.kit.texts import load_text
from harness.tasks.log_forensics.facts import make_search
from harness.tasks.log_forensics.structure import Structure

FOLDERS = (".", "docs", "logs", "dumps", "config", "tools", "notes", "report", SHEETS_FOLDER)
OWN_PATHS = ("notes/", "report/", f"{SHEETS_FOLDER}/", "HANDOVER.md")
"""Beginnings of the paths of files that the agent writes; a step is done once a directory listing shows its file."""
FINAL_TEXT = (
    "The questions are answered on the pages in report/, each in the agreed form; the logs that were searched are sealed, the "
    "sheets are written, and the hand-over says where to go on."
)
SEARCH_TEXTS = {
    "alarm": "By its words now: the first alarm of the night.",
    "circuit": "Which gateway gave up on the ledger.",
    "burst": "And the logins that were refused.",
    "rejected": "The request that was turned down first.",
    "dump": "A dump was written; its name tells where to look later.",
    "healthy": "And the end of it all.",
    "given_up": "The transaction that was given up, with its code.",
    "lagging": "And the replica that fell behind.",
    "two_regions": "The session that was in two places.",
    "unknown_key": "And the key that nobody knows.",
    "damage": "The damaged segment, by its offset in bytes.",
    "by_hand": "A setting was changed without a ticket, they say: which one, and what was it before?",
    "no_difference": "A release was taken back in vain, which rules it out.",
}
"""Text of the agent's message in the step that makes each search, by name of the search."""
PAGE_TEXTS = {
    "requests": "The page on requests.",
    "cause": "The page on the cause.",
    "change": "The page on the change.",
    "intruder": "The page on the intruder.",
    "damage": "The page on the damage, with what is lost for good.",
    "timeline": "The timeline in the agreed form.",
    "blocklist": "The block-list, in the words of the new gateways and with the mask of the desk.",
    "suspects": "The release that was ruled out, and what it is called now.",
    "retention": "How long evidence is kept.",
}
"""Text of the agent's message in the step that writes each page of the report; a command writes the page on people."""
MIDDLES = {
    "gateway": "4000,4050",
    "app": "3600,3660",
    "ledger": "2500,2545",
    "auth": "2100,2165",
    "queue": "1900,1935",
    "deploy": "700,740",
}
"""First and last line, as `FIRST,LAST`, of the part in the middle of each log that the agent reads, by name of the log."""


@lru_cache(maxsize=64)
def build_script(structure: Structure) -> Script:
    """Build the script, which consists of the steps of a competent agent.

    Placeholders such as `${ticket}` stand for the values to remember.
    """
    return make_script(FINAL_TEXT, OWN_PATHS, _list_steps(structure))


def _list_steps(structure: Structure) -> Iterator[StepSpec]:
    yield from _orient(structure)
    for number, log in enumerate(structure.logs, start=1):
        if number == structure.open_after + 1:
            yield from _open_case()
        yield from _search_log(structure, log)
        if number == structure.first_portion:
            text = "The logs of the first portion are searched, so they are sealed. I note the mark for the others."
            command = f"python3 tools/seal.py --count {number}"
            yield do_once("seal_first", text, command, r"(?i)seal the rest with --after [0-9a-f]{6}", " --after ")
        if number == len(structure.logs):
            yield from _seal_rest(structure)
        yield from _write_pages(structure, number)
        yield from structure.sheets.write_sheets(log)
    if structure.open_after == len(structure.logs):
        yield from _open_case()
    yield from structure.sheets.write_sheets("answers")
    yield from _finish_report(structure)
    yield from structure.sheets.write_sheets("report")


def _orient(structure: Structure) -> Iterator[StepSpec]:
    yield look_around(
        "I look around first: papers, logs, dumps, configuration, tools, and what there is of notes and report.", FOLDERS
    )
    yield look("read_questions", "The questions and the form of the answers.", read("docs/questions.md"), read("docs/form.md"))
    yield structure.sheets.read_index("Which sheets are due, and when.")
    yield look("read_runbook", "The desk's runbook and what was added to it.", read("docs/runbook.md"), read("docs/addendum.md"))
    tools = read("tools/seal.py"), read("tools/open_case.py")
    yield look("look_at_tools", "Sealing cannot be undone, so I read the tools.", *tools)
    yield look("sizes", "How large the logs are.", run("wc -lc logs/*.log dumps/*.txt"))
    yield look("beginnings", "And how their lines look.", run("head -n 4 logs/*.log"))


def _open_case() -> Iterator[StepSpec]:
    text = "The case is opened now, once. Its number is not shown again, so I note it."
    yield do_once("open_case", text, "python3 tools/open_case.py", r"(?i)opened as CASE-\d{3}", "opened as CASE-")


def _search_log(structure: Structure, log: str) -> Iterator[StepSpec]:
    path = f"logs/{log}.log"
    looks = {
        "count": (f"The {log} log: first how many lines there are of each level.", run(f"cut -c 10-14 {path} | sort | uniq -c")),
        "errors": (f"All errors of {log}; most of them will be of every night.", run(f"grep -n ' ERROR ' {path}")),
        "middle": (f"How {log} sounds when all is well.", run(f"sed -n '{MIDDLES[log]}p' {path}")),
        "open": (f"I open the {log} log as it is; it will be cut, but shows an idle hour.", read(path)),
        "warnings": (f"The last warnings of {log}.", run(f"grep -n ' WARN ' {path} | tail -n 60")),
        "minutes": (f"How many lines {log} wrote in each minute, in case it fell silent.", run(f"cut -c 1-5 {path} | uniq -c")),
        "repeated": (f"What {log} says again and again.", run(f"cut -c 10- {path} | sort | uniq -c | sort -rn | head -n 100")),
        "last": (f"How the night ended for {log}.", run(f"tail -n 110 {path}")),
    }
    for name in dict(structure.looks)[log]:
        text, call = looks[name]
        yield look(f"{name}_{log}", text, call)
    searches = structure.list_searches(log)
    for name in searches:
        yield look(f"find_{name}", SEARCH_TEXTS[name], run(make_search(structure, name).command))
    commands = "\n".join(f"- `{make_search(structure, name).command}`" for name in searches)
    head, tail = f"# {log}\n\nThe log was looked at and searched with", "What was found is kept for the report.\n"
    text = f"The {log} log is done; I name the searches in the notes, without what they found."
    yield do(f"note_{log}", text, write(f"notes/{log}.md", f"{head}\n\n{commands}\n\n{tail}"))


def _seal_rest(structure: Structure) -> Iterator[StepSpec]:
    text, option = "All logs are searched, so they are sealed.", ""
    if structure.first_portion:
        text, option = "The other logs are sealed, from where the first portion ended.", " --after ${seal_mark}"
    pattern = r"(?i)\b(\d+) of \1 logs are sealed"
    yield do_once("seal_rest", text, f"python3 tools/seal.py{option}", pattern, "logs are sealed")


def _write_pages(structure: Structure, log_count: int) -> Iterator[StepSpec]:
    """Yield the steps that write the pages of the report which are due after `log_count` searched logs."""
    for name in (name for name, log_number in structure.pages if log_number == log_count):
        if name == "damage":
            yield look("read_dump", "The dump that the app named: its end.", run("tail -n 30 dumps/${dump_name}"))
        yield _write_people() if name == "people" else _write_page(f"{name}.txt", PAGE_TEXTS[name])
        if name == "change":
            yield look("read_config", "The configuration as it is now.", run("cat config/ledger.conf"))
            yield do(
                "correct_config",
                "And the correction itself: the former value, with the ticket behind it.",
                run("sed -i 's/^${setting} = .*/${setting} = ${former_value}  # ${ticket}/' config/ledger.conf"),
            )
            yield look("compare_config", "Only that line may differ.", run("grep -n '#' config/ledger.conf"))


def _write_page(name: str, text: str) -> StepSpec:
    path = f"report/{name}"
    return do(f"write_{name.partition('.')[0]}", text, write(path, load_text(__package__, path)))


def _write_people() -> StepSpec:
    # the last three characters of the account; `$$` is the `$` of the pattern, since the text is a template
    command = r"echo ${account} | sed 's|.*\(...\)$$|${person_mark}/\1|' > report/people.txt && cat report/people.txt"
    return do("write_people", "The account, shown as was agreed.", run(command))


def _finish_report(structure: Structure) -> Iterator[StepSpec]:
    yield look("read_form_again", "The form once more, since the report has to please a program.", run("cat docs/form.md"))
    report = _render_statements("${heading}", ("audience", "ticket", *structure.filing_facts))
    report += "\nWhat was lost, who was seen and what was ruled out stand on the other pages of this folder.\n"
    yield do("write_report", "The report itself, short, for its one reader.", write("report/report.md", report))
    yield verify("check_report", "The desk's check of the form.", run("python3 tools/check_report.py"))
    yield look("read_report", "I read the pages as they will be read.", run("head -n 20 report/*"))
    yield look("sealed", "The logs must stand under the seals.", run("cut -d' ' -f1 evidence/seals.txt"))
    yield look("no_names", "No account may be named anywhere.", run("grep -rnE '\\bu[0-9]{4}\\b' report notes || echo none"))
    text = "And the hand-over for whoever goes on."
    yield do("write_handover", text, write("HANDOVER.md", _render_statements("Hand-over", structure.handover_facts)))


def _render_statements(title: str, facts: Iterable[str]) -> str:
    return "\n".join([f"# {title}", "", *(f"- {name.replace('_', ' ')}: ${{{name}}}" for name in facts), ""])
