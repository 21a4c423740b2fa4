"""Script of the task `log-forensics`: the messages and tool calls of a competent agent, which a scripted model follows."""

from collections.abc import Iterable
from functools import cache

from harness.task import Script
from harness.tasks.kit.calls import read, run, write
from harness.tasks.kit.steps import StepSpec, do, do_once, look, look_around, make_script
from harness.tasks.kit.texts import load_text
from harness.tasks.log_forensics.facts import SEARCHES

FOLDERS = (".", "docs", "logs", "dumps", "config", "tools", "notes", "report")
OWN_PATHS = ("notes/", "report/", "HANDOVER.md")
"""Beginnings of the paths to which the agent writes; a step counts as done once a directory listing shows its file."""
FINAL_TEXT = (
    "The questions are answered on the pages in report/, with timeline, block-list and report in the agreed form; "
    "the setting has its former value again, the logs are sealed, and the hand-over says where to go on."
)


@cache
def build_script() -> Script:
    """Build the script that a scripted model follows: an agent's steps, with placeholders such as `${rate}` for values."""
    return make_script(
        *(FINAL_TEXT, OWN_PATHS, _orient(), _search_first_logs(), _search_other_logs()),
        *(_answer_questions(), _write_report(), _finish_report()),
    )


def _write_page(name: str, text: str) -> StepSpec:
    """Make a step in which the agent writes the page `name` of its report on the investigated night."""
    path = f"report/{name}"
    return do(f"write_{name.partition('.')[0]}", text, write(path, load_text(__package__, path)))


def _write_note(component: str) -> StepSpec:
    """Make a step in which the agent writes down its searches of a log; a listing of the notes later shows the log as done."""
    commands = "\n".join(f"- `{one.command}`" for one in SEARCHES.values() if one.source == f"logs/{component}.log")
    head, tail = f"# {component}\n\nThe log was counted by level and searched with", "What was found is kept for the report.\n"
    return do(
        f"note_{component}",
        f"The {component} log is done; I name the searches in the notes, without what they found.",
        write(f"notes/{component}.md", f"{head}\n\n{commands}\n\n{tail}"),
    )


def _search_log(component: str, first_line: int, last_line: int, **searches: str) -> Iterable[StepSpec]:
    """Yield the steps that look at parts of a log and then search the log for each message that the agent needs.

    Args:
        component: Name of the component whose log is inspected.
        first_line: Number of the first line of the section that is shown from the middle of the log.
        last_line: Number of the last line of the section that is shown from the middle of the log.
        searches: Text of the agent's message for each search, by name of the search.
    """
    log = f"logs/{component}.log"
    yield look(
        f"count_{component}",
        f"The {component} log: first how many lines there are of each level and hour, to see whether something stands out.",
        *(run(f"cut -c 10-14 {log} | sort | uniq -c"), run(f"cut -c 1-2 {log} | sort | uniq -c")),
    )
    yield look(
        f"errors_{component}", f"All errors of {component}; most of them will be of every night.", run(f"grep -n ' ERROR ' {log}")
    )
    yield look(
        f"middle_{component}",
        f"Nothing stands out among them, so I look at how {component} sounds when all is well.",
        run(f"sed -n '{first_line},{last_line}p' {log}"),
    )
    for name, text in searches.items():
        yield look(f"find_{name}", text, run(SEARCHES[name].command))


def _orient() -> Iterable[StepSpec]:
    yield look_around(
        "I look around first: papers, logs, dumps, configuration, tools, and what there is of notes and report.", FOLDERS
    )
    yield look("read_questions", "The questions and the form of the answers.", read("docs/questions.md"), read("docs/form.md"))
    yield do_once(
        "open_case",
        "A case has to be opened once, before anything else. Its number is not shown again, so I note it.",
        "python3 tools/open_case.py",
        r"(?i)opened as CASE-\d{3}",
        "opened as CASE-",
    )
    yield look("read_runbook", "The desk's runbook and what was added to it.", read("docs/runbook.md"), read("docs/addendum.md"))
    yield look(
        "look_at_tools", "Sealing cannot be undone, so I read the tools.", read("tools/seal.py"), read("tools/open_case.py")
    )
    yield look("sizes", "How large the logs are.", run("wc -lc logs/*.log dumps/*.txt"))
    yield look("beginnings", "And how their lines look.", run("head -n 4 logs/*.log"))


def _search_first_logs() -> Iterable[StepSpec]:
    yield look("open_gateway", "I open the first log as it is; it will be cut, but shows an idle hour.", read("logs/gateway.log"))
    yield from _search_log(
        *("gateway", 4000, 4050),
        alarm="By its words now: the first alarm, for the timeline.",
        circuit="Which gateway gave up on the ledger.",
        burst="And the logins that were refused.",
    )
    yield _write_note("gateway")
    yield from _search_log(
        *("app", 3600, 3660),
        rejected="The request that was turned down first.",
        dump="A dump was written; its name tells where to look later.",
        healthy="And the end of it all, for the timeline.",
    )
    yield _write_note("app")
    yield from _search_log(
        *("ledger", 2500, 2545),
        given_up="The transaction that was given up, with its code.",
        lagging="And the replica that fell behind.",
    )
    yield _write_note("ledger")
    yield do_once(
        "seal_first",
        "Three logs are searched, so they are sealed. I note the mark for the others.",
        "python3 tools/seal.py --count 3",
        r"(?i)seal the rest with --after [0-9a-f]{6}",
        " --after ",
    )
    yield _write_page("cause.txt", "Code and shard are fresh, so the page on the cause is written now.")


def _search_other_logs() -> Iterable[StepSpec]:
    sessions, key = "The session that was in two places.", "And the key that nobody knows."
    yield from _search_log("auth", 2100, 2165, two_regions=sessions, unknown_key=key)
    yield _write_note("auth")
    yield from _search_log("queue", 1900, 1935, damage="The damaged segment, by its offset in bytes.")
    yield look("around_damage", "What the queue did before and after that.", run("grep -n -C 9 'segment damaged' logs/queue.log"))
    yield _write_note("queue")
    yield from _search_log(
        *("deploy", 700, 740),
        by_hand="A setting was changed without a ticket, they say: which one, and what was it before?",
        no_difference="A release was taken back in vain, which rules it out.",
    )
    yield _write_note("deploy")
    yield do_once(
        "seal_rest",
        "All logs are searched; the other ones are sealed, from where the first portion ended.",
        "python3 tools/seal.py --after ${seal_mark}",
        r"(?i)\b(\d+) of \1 logs are sealed",
        "logs are sealed",
    )


def _answer_questions() -> Iterable[StepSpec]:
    yield look("read_questions_again", "The questions once more before I answer.", run("cat docs/questions.md"))
    yield _write_page("requests.txt", "The page on requests.")
    yield look("read_dump", "Now the dump that the app named: its end.", run("tail -n 30 dumps/${dump_name}"))
    yield _write_page("damage.txt", "The page on the damage, with what is lost for good.")
    yield look("read_config", "The configuration as it is now.", run("cat config/ledger.conf"))
    yield _write_page("change.txt", "The page on the change.")
    yield do(
        "correct_config",
        "And the correction itself: the former value, with the ticket behind it.",
        run("sed -i 's/^${setting} = .*/${setting} = ${former_value}  # ${ticket}/' config/ledger.conf"),
    )
    yield look("compare_config", "Only that line may differ.", run("grep -n '#' config/ledger.conf"))
    yield _write_page("intruder.txt", "The page on the intruder.")


def _write_report() -> Iterable[StepSpec]:
    yield look("read_form_again", "The form once more, since the rest has to please a program.", run("cat docs/form.md"))
    yield _write_page("timeline.txt", "The timeline in the agreed form.")
    yield _write_page("blocklist.txt", "The block-list, in the words of the new gateways and with the mask of the runbook.")
    yield _write_page("suspects.txt", "The release that was ruled out, and what it is called now.")
    yield do(
        "write_people",
        "The account, shown as was agreed.",
        run(r"echo ${account} | sed 's|.*\(...\)$$|${person_mark}/\1|' > report/people.txt && cat report/people.txt"),
    )
    yield _write_page("retention.txt", "How long evidence is kept.")
    yield _write_page("report.md", "The report itself, short, for its one reader.")


def _finish_report() -> Iterable[StepSpec]:
    yield look("check_report", "The desk's check of the form.", run("python3 tools/check_report.py"))
    yield look("read_report", "I read the pages as they will be read.", run("head -n 20 report/*"))
    yield look("sealed", "All six logs must stand under the seals.", run("cut -d' ' -f1 evidence/seals.txt"))
    yield look("no_names", "No account may be named anywhere.", run("grep -rnE '\\bu[0-9]{4}\\b' report notes || echo none"))
    handover = write("HANDOVER.md", load_text(__package__, "HANDOVER.md"))
    yield do("write_handover", "And the hand-over for whoever goes on.", handover)
