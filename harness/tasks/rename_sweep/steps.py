"""Script of the task `rename-sweep`: the messages and tool calls of a competent agent, which a scripted model follows."""

from collections.abc import Iterable
from functools import lru_cache

from harness.task import Script
from harness.tasks.kit.calls import read, run, write
from harness.tasks.kit.sheets import SHEETS_FOLDER
from harness.tasks.kit.steps import (
    StepSpec,
    add_change,
    do,
    do_once,
    look,
    look_around,
    make_repair,
    make_script,
    verify,
)
from harness.tasks.kit.texts import load_text
from harness.tasks.rename_sweep.structure import Structure
from harness.tasks.rename_sweep.workspace import KEY_BY_FACT, STRAY_MODULES

LEFT_COMMAND = "sh tools/left.sh"
RENAME_COMMAND = r"sed -i 's/\b${old_name}\b/${new_name}/g'"
WRITE_ALIAS_COMMAND = r'''cat > quay/${alias_module}.py <<'END'
"""What programs outside of the harbour still call by its old name."""

from quay.core import ${new_name}

${old_name} = ${new_name}  # deprecated, goes away in release ${removal_release}
END'''
"""Shell command that writes the module in which the function's old name is kept as an alias of the new name."""
FINAL_TEXT = (
    "The sweep is through: every folder has the new name, what had to be left alone was left alone, the registry "
    "is fit, all tests pass, the book is closed and the hand-over written."
)


@lru_cache(maxsize=64)
def build_script(structure: Structure) -> Script:
    """Build the script, which consists of the steps of a competent agent.

    Placeholders such as `${ticket}` stand for the values to remember.
    """
    return make_script(
        FINAL_TEXT,
        ("HANDOVER.json", f"{SHEETS_FOLDER}/"),
        _list_all_steps(structure),
        status_commands=(f"{LEFT_COMMAND} ${{old_name}}",),
    )


def _list_all_steps(structure: Structure) -> Iterable[StepSpec]:
    sheets = structure.sheets
    yield from _list_orientation_steps(structure)
    yield from _list_first_batch_steps()
    yield from sheets.write_sheets("start")
    for number, folder in enumerate(structure.folders, start=1):
        yield from _list_batch_steps(structure, folder)
        yield from sheets.write_sheets(folder)
        if number == structure.pause_after:
            text = "Some of the folders are through; all tests once more."
            yield verify("half_way", text, run("python3 tools/run_tests.py | grep result:"))
            yield look("strays_known", "Modules outside of the folders, for later.", run("grep -nw ${old_name} quay/*.py"))
    yield from _list_last_batch_steps()
    yield look(
        "what_is_left",
        "All batches are through. What still has the old name?",
        run("grep -rnw ${old_name} quay --include=*.py | sort"),
    )
    parts = {"strays": _list_stray_steps, "alias": _list_alias_steps, "registry": _list_registry_steps}
    for part in structure.closing_parts:
        yield from parts[part]()
    yield do("core_alone", "The temporary line goes away.", run("sed -i '/^${old_name} = /d' quay/core.py"))
    yield verify("suite_after", "All tests for the last time.", run("python3 tools/run_tests.py | grep -v '^ '"))
    yield from sheets.write_sheets("closing")
    yield from _list_paper_steps(structure)
    yield from sheets.write_sheets("papers")


def _run_ledger(name: str, text: str, words: str, summary_pattern: str, required_text: str) -> StepSpec:
    """Make a step that adds an entry to the ledger (record of finished folders) and must not run twice.

    `words` are the arguments of the ledger's tool; `harness.tasks.kit.steps.do_once` describes the others.
    """
    return do_once(name, text, f"python3 tools/ledger.py {words}", summary_pattern, required_text)


def _list_orientation_steps(structure: Structure) -> Iterable[StepSpec]:
    yield look_around(
        "Let me see what is here: the package folder by folder, the tests, the pages, the tools.",
        (".", "quay", "tests", "docs", "tools", SHEETS_FOLDER),
    )
    yield structure.sheets.read_index("Which sheets are due, and when.")
    yield look("read_plan", "The plan of the sweep, and the page on tests.", read("docs/plan.md"), read("docs/tests.md"))
    yield look("read_ledger", "How it is recorded.", read("docs/ledger.md"), read("tools/ledger.py"))
    yield look("read_tools", "The other tools.", read("tools/left.sh"), read("tools/run_tests.py"))
    yield look("read_figures", "One test module, to see what its figures rest on.", read(f"tests/test_{structure.folders[0]}.py"))
    yield verify("suite_before", "All tests, to know that they pass before.", run("python3 tools/run_tests.py | grep -v '^ok'"))
    yield _run_ledger(
        "open",
        "The book is opened, once. I note the voucher.",
        "open ${ledger_book}",
        r"voucher of this sweep is [0-9a-f]{6}",
        "voucher of this sweep",
    )
    if not structure.is_reserved_late:
        yield _reserve_name()
    yield do(
        "both_names",
        "Now both names work: `${new_name}` is the function, the old name a temporary line.",
        write("quay/core.py", load_text(__package__, "agent/core_both.py")),
        summary_pattern=r"^quay/\w+: swept, no file holds",
        required_text="swept, no file holds",
    )


def _reserve_name() -> StepSpec:
    return _run_ledger(
        "reserve",
        "And a name for helpers that are in the way, since some folders have one.",
        "name ${ledger_book}",
        r"helpers in its way are called `\w+`",
        "helpers in its way",
    )


def _sweep(folder: str, text: str, command: str) -> StepSpec:
    """Make the step that renames the function in a folder, as a printed table of folders shows."""
    return do(
        f"sweep_{folder}",
        text,
        run(command),
        summary_pattern=f"^quay/{folder}: swept, no file holds",
        required_text=f"quay/{folder}: swept",
        missing_pattern=rf"^quay/{folder}: \d+ files hold",
    )


def _list_first_batch_steps() -> Iterable[StepSpec]:
    """Yield the steps that rename the function in the first folder, whose name the agent must remember."""
    folder = "quay/${first_folder}"
    yield look("read_first", "The first batch, ${first_folder}: all of it at once.", run(f"cat {folder}/*.py"))
    yield do("sweep_first", "It is renamed.", run(f"cd {folder} && {RENAME_COMMAND} *.py"))
    yield look("lines_first", "In how many lines of each file?", run(f"grep -cw ${{new_name}} {folder}/*.py"))
    tests = run("python3 tools/run_tests.py tests.test_${first_folder} | tail -n 5")
    yield verify("test_first", "Do its tests pass?", tests)
    yield _run_ledger(
        "record_first",
        "They do, so the batch is recorded, once, and as the first one.",
        "record ${ledger_book} ${first_folder} first",
        r"recorded the folder \w+ as the first in the book",
        "as the first in the book",
    )


def _list_batch_steps(structure: Structure, folder: str) -> Iterable[StepSpec]:
    reads = structure.reads[structure.folders.index(folder)]
    modules = (read(f"quay/{folder}/{module}.py") for module in reads)
    yield look(f"read_{folder}", f"The batch {folder}: its files.", *modules)
    if structure.is_reserved_late and folder == structure.collision_folders[0]:
        yield _reserve_name()
    if folder in structure.collision_folders:
        moved = run(rf"sed -i 's/\b${{new_name}}\b/${{collision_name}}/g' quay/{folder}/stays.py")
        yield do(f"helper_{folder}", "A helper is in the way here; it becomes `${collision_name}`.", moved)
    yield _sweep(folder, f"The batch {folder} is renamed.", f"{RENAME_COMMAND} quay/{folder}/*.py")
    if folder in structure.listed_folders:
        lines = run(f"grep -nw ${{new_name}} quay/{folder}/*.py")
        yield look(f"lines_{folder}", "Every line that has the new name now.", lines)
    yield verify(f"test_{folder}", "Its tests.", run(f"python3 tools/run_tests.py tests.test_{folder}"))
    yield _run_ledger(
        f"record_{folder}",
        "They pass, so the batch is recorded, once.",
        f"record ${{ledger_book}} {folder}",
        f"recorded the folder {folder} in the book",
        f"recorded the folder {folder}",
    )


def _list_last_batch_steps() -> Iterable[StepSpec]:
    """Yield the steps that rename the function in the last folder, whose name the agent must remember."""
    folder = "quay/${last_folder}"
    yield look("read_last", "The last batch, ${last_folder}.", run(f"tail -n +1 {folder}/*.py"))
    yield do(
        "sweep_last",
        "It is renamed where it needs to be.",
        run(f"grep -lw ${{old_name}} {folder}/*.py | xargs -r {RENAME_COMMAND}"),
    )
    yield look("lines_last", "How often has each file the new name?", run(f"grep -ow ${{new_name}} {folder}/*.py | uniq -c"))
    yield verify("test_last", "Its tests.", run("python3 tools/run_tests.py tests.test_${last_folder} | grep -v '^ok'"))
    yield _run_ledger(
        "record_last",
        "They pass, so the last batch is recorded, once.",
        "record ${ledger_book} ${last_folder} last",
        r"recorded the folder \w+ as the last in the book",
        "as the last in the book",
    )


def _list_stray_steps() -> Iterable[StepSpec]:
    yield look("read_strays", "The modules outside of the folders.", *(read(f"quay/{name}.py") for name in STRAY_MODULES))
    yield do(
        "sweep_strays",
        "Strays outside of the batches are renamed, the folder `${excluded_folder}` left alone.",
        run(
            "grep -rlw ${old_name} quay --include=*.py --exclude-dir=${excluded_folder} "
            f"--exclude=core.py --exclude=${{alias_module}}.py | xargs -r {RENAME_COMMAND}"
        ),
    )


def _list_alias_steps() -> Iterable[StepSpec]:
    yield do("write_alias", "The alias for programs outside, until release ${removal_release}.", run(WRITE_ALIAS_COMMAND))


def _list_registry_steps() -> Iterable[StepSpec]:
    repair = make_repair(
        r"registry is NOT fit",
        "The timetable wants another entry: `${registry_key}`. I write the registry again.",
        write("quay/registry.py", load_text(__package__, "agent/registry.py")),
    )
    yield do(
        "check_registry",
        "Is the registry fit?",
        run("python3 tools/check_registry.py"),
        summary_pattern=r"^\W*the registry is fit for the timetable",
        required_text="registry is fit",
        repairs=(repair,),
        effect="test",
    )


def _list_paper_steps(structure: Structure) -> Iterable[StepSpec]:
    yield _run_ledger(
        "close",
        "The book is closed with the voucher ${voucher}.",
        "close ${ledger_book} ${voucher}",
        r"was closed under the receipt Q-\d{4}",
        "closed under the receipt",
    )
    yield look("read_changelog", "How entries of the change log look.", read("CHANGELOG.md"), read("tools/changelog.py"))
    yield add_change(
        "One entry in the change log.",
        "python3 tools/changelog.py ${ticket} "
        '"${verb} to ${new_name}, not to ${proposed_name} as once proposed; outside the old name works on"',
    )
    facts = (*structure.rule_facts, *structure.result_facts)
    lines = ",\n".join(f'  "{KEY_BY_FACT[fact]}": "${{{fact}}}"' for fact in facts)
    yield do("handover", "And the hand-over.", write("HANDOVER.json", f"{{\n{lines}\n}}\n"))
