"""Script of the task `spec-api`: the messages and tool calls of a competent agent, which a scripted model follows."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain

from harness.task import Script
from harness.tasks.kit.calls import read, run
from harness.tasks.kit.steps import Program, StepSpec, add_change, check_fitness, do, do_once, look, look_around, make_script
from harness.tasks.spec_api.facts import READ_END_COMMAND
from harness.tasks.spec_api.structure import WORK, Structure

FOLDERS = (".", "spec", "tools", "samples", "docs", "sheets", "depot", "tests")
CLIENT = Program(package=__package__, module_path="depot/{}.py", module_text="client/{}.py")
OWN_PATHS = ("depot/", "tests/", "docs/integration.md", "settings.example.json", "HANDOVER.md", "sheets/")
"""Beginnings of the paths of files that the agent writes; a step is done once a directory listing shows its file."""
FINAL_TEXT = (
    "The client of the depot is ready: numbers, paging, retries, signatures, batches, tariffs, webhooks, the "
    "command line and a stand-in service, each with tests that pass. The papers are written, both profiles "
    "were compared and the change log has its entry."
)


@lru_cache(maxsize=64)
def build_script(structure: Structure) -> Script:
    """Build the script, which consists of the steps of a competent agent.

    Placeholders such as `${ticket}` stand for the values to remember.
    """
    work = structure.work
    worked = (work.carry_out(part, _SECTIONS[part](), _enroll()) for part in work.parts)
    specs = chain(_orient(structure), _write_foundations(), *worked, _hand_over())
    return make_script(FINAL_TEXT, OWN_PATHS, WORK.select_steps(work, specs))


def _read_page(name: str, text: str) -> StepSpec:
    return look(f"read_{name[:2]}", text, read(f"spec/{name}.md"))


def _orient(structure: Structure) -> Iterable[StepSpec]:
    yield look_around(
        "I look around first: the folder, the specification, the tools, the samples, and what there is of the client.", FOLDERS
    )
    yield look(
        "read_index",
        "The readme, the index of the specification and the change log.",
        *(read("README.md"), read("spec/README.md"), read("CHANGELOG.md")),
    )
    yield from structure.work.begin(_enroll())
    yield look(
        "look_at_tools",
        "Most of the helpers change something for good, so I read them before I run another one.",
        *(read(f"tools/{name}.py") for name in ("enroll", "push", "conform", "check_money", "changelog")),
    )


def _enroll() -> StepSpec:
    return do_once(
        "enroll",
        "The client has to be enrolled once, and now is the time. The key is not shown again, so I note it.",
        "python3 tools/enroll.py",
        r"(?i)enrolled with the key K-[0-9a-f]{6}",
        "the key K-",
    )


def _write_foundations() -> Iterable[StepSpec]:
    yield CLIENT.write_module("errors", "Errors come first, by whose fault they are.")
    yield _read_page("01-conventions", "Now the conventions, for the headers.")
    yield CLIENT.write_module("headers", "The common headers, with the edition under the name that the page gives.")


def _write_numbers() -> Iterable[StepSpec]:
    yield _read_page("03-identifiers", "Parcel numbers next: the page on identifiers.")
    yield CLIENT.write_module("identifiers", "Numbers with their check value, exactly as the page computes it.")
    yield from CLIENT.test_module("identifiers", "Tests for the numbers, with every single slip of a digit.")


def _write_paging() -> Iterable[StepSpec]:
    yield _read_page("04-collections", "Collections: how long a page may be and how one goes on.")
    yield CLIENT.write_module("paging", "The walk over the pages, independent of what is listed.")
    yield from CLIENT.test_module("paging", "Tests for the walk, over a collection in memory.")


def _write_retries() -> Iterable[StepSpec]:
    yield _read_page("05-reliability", "What is to be sent again, and when: the page on reliability.")
    yield _read_page("09-errata", "The errata may have corrected some of this, so I read them before I write it down.")
    yield CLIENT.write_module("retry", "The insisting sender, with the number of attempts that the errata give.", first_cut=True)
    yield from CLIENT.test_module(
        "retry",
        "Tests for it with a sender that fails as told.",
        error=r"FAIL\s+test_retry\.\S*test_no_pause_after_the_last_attempt",
        repair_text="It sleeps after the last attempt too, which helps nobody. One pause fewer than there are attempts, then.",
    )


def _write_parcels() -> Iterable[StepSpec]:
    yield _read_page("06-resources", "The resources: a long page, of which one output shows the beginning.")
    yield look("read_06_end", "And the end of that page, where the fields of a parcel must be.", run(READ_END_COMMAND))
    yield CLIENT.write_module("parcels", "A parcel as a value, coded with the names of the table.")
    yield CLIENT.write_module("limits", "The size of a body, from the table of the endpoints.")
    yield _read_page("07-errors", "Errors of the depot: the page with the codes.")
    yield CLIENT.write_module("codes", "From the depot's codes to our exceptions; a repeated parcel has its own.")
    yield from CLIENT.test_module("parcels", "Tests for parcels, bodies and codes in one module.")
    yield look("look_at_samples", "I look at the samples before I push any.", run("cat samples/parcels.csv"))
    yield do_once(
        "push_first",
        "Parcels are coded, so the first 25 samples go to the trial hall. I note the mark for the rest.",
        "python3 tools/push.py --count 25",
        r"(?i)push the rest with --after [0-9a-f]{6}",
        " --after ",
    )


def _write_money() -> Iterable[StepSpec]:
    yield CLIENT.write_module(
        "money", "Amounts in whole hundredths. I round half up, as people do; the books will tell.", first_cut=True
    )
    yield check_fitness(
        "check_money",
        "The team has a check against the depot's books; I run it.",
        "python3 tools/check_money.py",
        "amounts are",
        "The depot's books round differently. I write the module again with ${rounding}.",
        CLIENT.write_text("depot/money.py", "client/money.py"),
    )


def _write_signatures() -> Iterable[StepSpec]:
    yield _read_page("02-authentication", "Signatures: the page on authentication.")
    yield CLIENT.write_module("signing", "Signing and checking. For the age of a signature the order has the newer word.")
    yield CLIENT.write_module("clock", "How much difference between two clocks is borne was settled in the order.")
    yield from CLIENT.test_module("signing", "Tests for signatures and clocks, at their limits.")


def _write_transport() -> Iterable[StepSpec]:
    yield look(
        "review_basics", "I read headers and limits again before I build on them.", run("cat depot/headers.py depot/limits.py")
    )
    yield CLIENT.write_module(
        "transport", "One request over a wire that is passed in, under the agreed name and with the agreed patience."
    )
    yield CLIENT.write_module("batches", "Batches of the agreed size.")
    yield CLIENT.write_module("tariffs", "The list of tariffs, kept as long as was agreed.")
    yield CLIENT.write_module("redaction", "What must not be seen in a log is replaced by the agreed mark.")
    yield from CLIENT.test_module("transport", "Tests for these four in one module.")
    yield look(
        "conform_basic",
        "Requests can be made now, so I compare the client with the basic profile and note which one comes next.",
        run("python3 tools/conform.py basic"),
    )


def _write_messages() -> Iterable[StepSpec]:
    yield _read_page("08-webhooks", "The page on webhooks.")
    yield CLIENT.write_module("webhooks", "Messages are checked like requests, under the same header.")


def _write_client() -> Iterable[StepSpec]:
    yield CLIENT.write_module("settings", "Settings from the environment, under the agreed beginning.")
    yield look(
        "look_before_client",
        "The client puts it all together; I read paging, parcels, retry and transport once more for their signatures.",
        *(read(f"depot/{name}.py") for name in ("paging", "parcels", "retry", "transport")),
    )
    yield CLIENT.write_module("client", "The client itself: announce, list, ask for one.")
    yield look("look_before_service", "For the stand-in I look at what a signature is checked with.", read("depot/signing.py"))
    yield CLIENT.write_module(
        "service",
        "The stand-in must take what the depot takes and no more. It repeats the numbers of the pages on purpose, so that a slip "
        "in the client shows.",
    )
    yield from CLIENT.test_module("service", "Tests of the client against the stand-in.")
    yield do_once(
        "push_rest",
        "The stand-in works, so the other samples go to the trial hall, from where the first portion ended.",
        "python3 tools/push.py --after ${push_mark}",
        r"(?i)\b(\d+) of \1 parcels are there",
        "parcels are there",
    )


def _write_labels() -> Iterable[StepSpec]:
    yield _read_page("10-labels", "Labels were asked for by the halls: the page on them.")
    yield CLIENT.write_module("labels", "Labels as text, wrapped to the width of the paper.")
    yield _read_page("11-statements", "And statements, since the office compares them by hand today.")
    yield CLIENT.write_module("statements", "The monthly statement: its lines, its sum, and the difference.")
    yield from CLIENT.test_module("labels", "Tests for labels and statements in one module.")


def _write_command_line() -> Iterable[StepSpec]:
    yield look("map", "A map of all names before the command line.", run("grep -nE '^ *(def|class) ' depot/*.py"))
    yield look("contract", "Which contract this is under is shown by a tool.", run("python3 tools/contract.py"))
    yield CLIENT.write_module("about", "Version and contract in one place.")
    yield CLIENT.write_module("cli", "The command line; each kind of failure has its status.")
    yield do("write_main", "And `python3 -m depot`.", CLIENT.write_text("depot/__main__.py", "client/main.py"))
    yield from CLIENT.test_module("cli", "Tests for command line, settings and messages.")
    yield look(
        "conform_next",
        "The command line is there, so the next profile is due.",
        run("python3 tools/conform.py --next ${next_profile}"),
    )
    for name, words in (("help", "--help"), ("about", "about"), ("list", "list"), ("check", "check P123456789-00")):
        yield look(f"try_{name}", f"By hand: {words}.", run(f'python3 -m depot {words}; echo "exit status $$?"'))
    yield look(
        "search_times",
        "Before the papers I search the specification for everything that is said about the order and about time.",
        run("grep -rnoE '[^.]*(the order in which|end of the working day)[^.]*' spec | cut -c 1-160 | head -n 60"),
    )
    yield look("sizes", "Whether a module has grown too large.", run("wc -lc depot/*.py tests/*.py"))


def _write_papers() -> Iterable[StepSpec]:
    yield look("suite_before_papers", "The whole suite before the papers.", run("python3 tools/run_tests.py 2>&1"))
    yield CLIENT.write_paper("README.md", "The papers; the readme first.")
    yield CLIENT.write_paper("docs/integration.md", "The page for those who use the client lists what holds.")
    yield CLIENT.write_paper("settings.example.json", "The example settings.", name="settings_file")


def _hand_over() -> Iterable[StepSpec]:
    yield look(
        "code_again", "For the hand-over I go over the code once more, as far as one output shows it.", run("cat depot/*.py")
    )
    yield look("read_papers", "I read the papers again as a stranger would.", run("cat README.md docs/integration.md"))
    yield look("final_suite", "The suite for the last time, failures only.", run("python3 tools/run_tests.py | grep -v '^ok'"))
    yield add_change(
        "The one entry in the change log, with version and ticket.",
        "python3 tools/changelog.py --version ${goal_version} --ticket ${ticket} "
        '"a client of the depot with signatures, batches, webhooks and a stand-in"',
    )
    yield CLIENT.write_paper("HANDOVER.md", "And the hand-over, with what went wrong on the way.")


_SECTIONS: Mapping[str, Callable[[], Iterable[StepSpec]]] = {
    "numbers": _write_numbers,
    "paging": _write_paging,
    "retries": _write_retries,
    "parcels": _write_parcels,
    "money": _write_money,
    "signatures": _write_signatures,
    "wire": _write_transport,
    "messages": _write_messages,
    "client": _write_client,
    "labels": _write_labels,
    "commands": _write_command_line,
    "papers": _write_papers,
}
"""Function that yields the steps of each part of the work, by name of the part."""
