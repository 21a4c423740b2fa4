"""What a competent agent does, in order, as rows: what it says and what it calls. No row holds a value, only names of facts."""

from collections.abc import Iterable
from functools import cache

from harness.task import CallTemplate, Repair, Script
from harness.tasks.kit import text
from harness.tasks.spec_api.checks import FILES
from harness.tasks.spec_api.facts import READ_END
from harness.tasks.step_specs import Row, completed, look, look_into, placeholders, read, run, write

FOLDERS = (".", "spec", "tools", "samples", "docs", "depot", "tests")
LISTED = ("depot/", "tests/", "docs/integration.md", "settings.example.json", "HANDOVER.md")
"""What `orient` would show of the agent's own files."""
TOOLS = ("enroll", "contract", "check_money", "conform", "push", "changelog")
"""The team's helpers, besides the runner of tests."""
FAREWELL = (
    "The client of the depot is ready: numbers, paging, retries, signatures, batches, tariffs, webhooks, the command line and a "
    "stand-in service, each with tests that pass. The papers are written, the samples are in the trial hall, both profiles were "
    "compared and the change log has its entry."
)


@cache
def script() -> Script:
    """The whole script; it holds no value."""
    rows = (_first_look, _basics, _parcels, _money, _wire, _whole, _command_line, _papers)
    return Script(steps=completed((row for part in rows for row in part()), LISTED), farewell=FAREWELL)


def _filled(path: str, name: str) -> CallTemplate:
    return write(path, text(FILES, name))


def _module(name: str, says: str, *, first: bool = False) -> Row:
    """Write a module; `first`: its first cut, which holds a mistake."""
    call = _filled(f"depot/{name}.py", f"client/{name}_first.py" if first else f"client/{name}.py")
    return Row(name=f"write_{name}", says=says, calls=(call,))


def _page(name: str, says: str) -> Row:
    return look(f"read_{name[:2]}", says, read(f"spec/{name}.md"))


def _tested(name: str, says: str, *, error: str = "", mend: str = "") -> Iterable[Row]:
    """Write a test module and run it; `error` and `mend`: the failure of a first cut, and what is said while mending it."""
    yield Row(name=f"write_test_{name}", says=says, calls=(_filled(f"tests/test_{name}.py", f"tests/test_{name}.py"),))
    calls = (_filled(f"depot/{name}.py", f"client/{name}.py"),) if error else ()
    repairs = (Repair(error=error, says=mend, calls=calls, needs=placeholders(mend, calls)),) if error else ()
    yield Row(
        name=f"test_{name}",
        says=f"Run the tests of {name}.",
        calls=(run(f"python3 tools/run_tests.py tests.test_{name}"),),
        named=rf"(?i)\btests?[./_]test_{name}\b.{{0,40}}(?:, 0 failed|\b(?:pass|passes|passed|green)\b)",
        about=f"test_{name}",
        repairs=repairs,
    )


def _first_look() -> Iterable[Row]:
    yield Row(
        name="orient",
        says="I look around first: the folder, the specification, the tools, the samples, and what there is of the client.",
        calls=tuple(map(look_into, FOLDERS)),
        once=True,
    )
    yield look(
        "read_index",
        "The readme, the index of the specification and the change log.",
        *(read("README.md"), read("spec/README.md"), read("CHANGELOG.md")),
    )
    yield Row(
        name="enroll",
        says="The client has to be enrolled once, before anything else. The key is not shown again, so I note it.",
        calls=(run("python3 tools/enroll.py"),),
        named=r"(?i)enrolled with the key K-[0-9a-f]{6}",
        about="the key K-",
        once=True,
    )
    yield look(
        "look_at_tools",
        "Most of the helpers change something for good, so I read them before I run another one.",
        *(read(f"tools/{name}.py") for name in ("enroll", "push", "conform", "check_money", "changelog")),
    )


def _basics() -> Iterable[Row]:
    yield _module("errors", "Errors come first, by whose fault they are.")
    yield _page("01-conventions", "Now the conventions, for the headers.")
    yield _module("headers", "The common headers, with the edition under the name that the page gives.")
    yield _page("03-identifiers", "Parcel numbers next: the page on identifiers.")
    yield _module("identifiers", "Numbers with their check value, exactly as the page computes it.")
    yield from _tested("identifiers", "Tests for the numbers, with every single slip of a digit.")
    yield _page("04-collections", "Collections: how long a page may be and how one goes on.")
    yield _module("paging", "The walk over the pages, independent of what is listed.")
    yield from _tested("paging", "Tests for the walk, over a collection in memory.")
    yield _page("05-reliability", "What is to be sent again, and when: the page on reliability.")
    yield _page("09-errata", "The errata may have corrected some of this, so I read them before I write it down.")
    yield _module("retry", "The insisting sender, with the number of attempts that the errata give.", first=True)
    yield from _tested(
        "retry",
        "Tests for it with a sender that fails as told.",
        error=r"FAIL\s+test_retry\.\S*test_no_pause_after_the_last_attempt",
        mend="It sleeps after the last attempt too, which helps nobody. One pause fewer than there are attempts, then.",
    )


def _parcels() -> Iterable[Row]:
    yield _page("06-resources", "The resources: a long page, of which one output shows the beginning.")
    yield look("read_06_end", "And the end of that page, where the fields of a parcel must be.", run(READ_END))
    yield _module("parcels", "A parcel as a value, coded with the names of the table.")
    yield _module("limits", "The size of a body, from the table of the endpoints.")
    yield _page("07-errors", "Errors of the depot: the page with the codes.")
    yield _module("codes", "From the depot's codes to our exceptions; a repeated parcel has its own.")
    yield from _tested("parcels", "Tests for parcels, bodies and codes in one module.")
    yield look("look_at_samples", "I look at the samples before I push any.", run("cat samples/parcels.csv"))
    yield Row(
        name="push_first",
        says="Parcels are coded, so the first 25 samples go to the trial hall. I note the mark for the rest.",
        calls=(run("python3 tools/push.py --count 25"),),
        named=r"(?i)push the rest with --after [0-9a-f]{6}",
        about=" --after ",
        once=True,
    )


def _money() -> Iterable[Row]:
    yield _module("money", "Amounts in whole hundredths. I round half up, as people do; the books will tell.", first=True)
    calls = (_filled("depot/money.py", "client/money.py"),)
    says = "The depot's books round differently. I write the module again with ${rounding}."
    yield Row(
        name="check_money",
        says="The team has a check against the depot's books; I run it.",
        calls=(run("python3 tools/check_money.py"),),
        named=r"^\W*amounts are fit\b",
        about="amounts are fit",
        repairs=(Repair(error=r"amounts are NOT fit", says=says, calls=calls, needs=placeholders(says, calls)),),
    )


def _wire() -> Iterable[Row]:
    yield _page("02-authentication", "Signatures: the page on authentication.")
    yield _module("signing", "Signing and checking. For the age of a signature the order has the newer word.")
    yield _module("clock", "How much difference between two clocks is borne was settled in the order.")
    yield from _tested("signing", "Tests for signatures and clocks, at their limits.")
    yield look(
        "review_basics", "I read headers and limits again before I build on them.", run("cat depot/headers.py depot/limits.py")
    )
    yield _module("transport", "One request over a wire that is passed in, under the agreed name and with the agreed patience.")
    yield _module("batches", "Batches of the agreed size.")
    yield _module("tariffs", "The list of tariffs, kept as long as was agreed.")
    yield _module("redaction", "What must not be seen in a log is replaced by the agreed mark.")
    yield from _tested("transport", "Tests for these four in one module.")
    yield look(
        "conform_basic",
        "Requests can be made now, so I compare the client with the basic profile and note which one comes next.",
        run("python3 tools/conform.py basic"),
    )


def _whole() -> Iterable[Row]:
    yield _page("08-webhooks", "The page on webhooks.")
    yield _module("webhooks", "Messages are checked like requests, under the same header.")
    yield _module("settings", "Settings from the environment, under the agreed beginning.")
    yield look(
        "look_before_client",
        "The client puts it all together; I read paging, parcels, retry and transport once more for their signatures.",
        *(read(f"depot/{name}.py") for name in ("paging", "parcels", "retry", "transport")),
    )
    yield _module("client", "The client itself: announce, list, ask for one.")
    yield look("look_before_service", "For the stand-in I look at what a signature is checked with.", read("depot/signing.py"))
    yield _module(
        "service",
        "The stand-in must take what the depot takes and no more. It repeats the numbers of the pages on purpose, so that a slip "
        "in the client shows.",
    )
    yield from _tested("service", "Tests of the client against the stand-in.")
    yield Row(
        name="push_rest",
        says="The stand-in works, so the other samples go to the trial hall, from where the first portion ended.",
        calls=(run("python3 tools/push.py --after ${push_mark}"),),
        named=r"(?i)\b(\d+) of \1 parcels are there",
        about="parcels are there",
        once=True,
    )
    yield _page("10-labels", "Labels were asked for by the halls: the page on them.")
    yield _module("labels", "Labels as text, wrapped to the width of the paper.")
    yield _page("11-statements", "And statements, since the office compares them by hand today.")
    yield _module("statements", "The monthly statement: its lines, its sum, and the difference.")
    yield from _tested("labels", "Tests for labels and statements in one module.")
    yield look("map", "A map of all names before the command line.", run("grep -nE '^ *(def|class) ' depot/*.py"))


def _command_line() -> Iterable[Row]:
    yield look("contract", "Which contract this is under is shown by a tool.", run("python3 tools/contract.py"))
    yield _module("about", "Version and contract in one place.")
    yield _module("cli", "The command line; each kind of failure has its status.")
    yield Row(name="write_main", says="And `python3 -m depot`.", calls=(_filled("depot/__main__.py", "client/main.py"),))
    yield from _tested("cli", "Tests for command line, settings and messages.")
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


def _papers() -> Iterable[Row]:
    yield look("suite_before_papers", "The whole suite before the papers.", run("python3 tools/run_tests.py 2>&1"))
    yield Row(name="write_readme", says="The papers; the readme first.", calls=(_filled("README.md", "papers/README.md"),))
    yield Row(
        name="write_integration",
        says="The page for those who use the client lists what holds.",
        calls=(_filled("docs/integration.md", "papers/integration.md"),),
    )
    yield Row(
        name="write_settings_file",
        says="The example settings.",
        calls=(_filled("settings.example.json", "papers/settings.example.json"),),
    )
    yield look(
        "code_again", "For the hand-over I go over the code once more, as far as one output shows it.", run("cat depot/*.py")
    )
    yield look("read_papers", "I read the papers again as a stranger would.", run("cat README.md docs/integration.md"))
    yield look("final_suite", "The suite for the last time, failures only.", run("python3 tools/run_tests.py | grep -v '^ok'"))
    yield Row(
        name="changelog",
        says="The one entry in the change log, with version and ticket.",
        calls=(
            run(
                "python3 tools/changelog.py --version ${goal_version} --ticket ${ticket} "
                '"a client of the depot with signatures, batches, webhooks and a stand-in"'
            ),
        ),
        named=r"(?i)change ?log entry (?:was |is |has been )?(?:added|written|appended|made)|^\W*appended to CHANGELOG\.md",
        once=True,
    )
    yield Row(
        name="write_handover",
        says="And the hand-over, with what went wrong on the way.",
        calls=(_filled("HANDOVER.md", "papers/HANDOVER.md"),),
    )
