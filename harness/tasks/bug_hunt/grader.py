"""Grader of the task `bug-hunt`: checks the files that the agent left, and the amounts that its repaired program computes."""

import re
from collections.abc import Iterator, Mapping, Sequence

from harness.errors import format_count
from harness.task import Check, FunctionChange, Grader, Interview, Submission
from harness.tasks.bug_hunt.facts import compute_attempt, list_culprits, name_rate
from harness.tasks.bug_hunt.stages import STAGES, TIERED_STAGES, Tariff, draw_tariff, settle
from harness.tasks.bug_hunt.steps import list_section_facts
from harness.tasks.bug_hunt.structure import RULES, Structure
from harness.tasks.kit.draws import compute_digest
from harness.tasks.kit.explanations import describe_value, explain_difference, explain_new_line, list_names
from harness.tasks.kit.graders import (
    ComparisonResult,
    check_tests,
    combine,
    compare_entries,
    compare_statements,
    describe_initial_files,
    hash_text,
    list_new_lines,
    make_check,
    make_interviews,
    read_json_object,
)
from harness.tasks.kit.sheets import judge_sheets
from harness.tasks.kit.texts import fill_text, load_text

SWEEP_KWH = range(384, 1404, 7)
"""Numbers of kilowatt hours for which the grader runs the agent's program; the amounts have every possible fraction of a cent."""
REGRESSION_TEST = "tests/regressions/test_drift.py"
"""Path of the regression test that the agent has to write."""
PACKAGE_FOLDERS = ("wattbook", "wattbook/stages")
"""Folders with the modules of the invoice program."""
CHANGES = (
    FunctionChange(path="wattbook/money.py", function="settle", kind="number", wrong=("value + 1", "value - 1")),
    FunctionChange(path="wattbook/money.py", function="shown", kind="text", wrong=("value[1:]", "value + '.'")),
    FunctionChange(
        path="wattbook/reading.py",
        function="readings",
        kind="object",
        wrong=("dict(list(value.items())[1:])",),
        attributes=("items", "keys"),
    ),
    FunctionChange(path="wattbook/engine.py", function="stage_of", kind="object", wrong=("None",), attributes=("NAME", "added")),
)
"""Functions that are wrong in some runs of the tests, of which one must then fail."""


def build_checks(structure: Structure) -> tuple[Check, ...]:
    """Return the checks on tests, on each stage with a bug, and on each document that the agent writes."""
    numbers = structure.bug_numbers
    culprits, rates = [f"culprit_{number}" for number in numbers], [name_rate(structure, number) for number in numbers]
    figures = ("decree_tier", "rounding")
    checks = [
        make_check("suite", "all tests pass, those that were there unchanged, and there are new ones", *culprits, *rates),
        make_check("only_stale_modules", "the modules with a bug were changed, and no other ones", *culprits),
        make_check("owner_tag", "the changed modules say who answers for them", "owner_tag", *culprits),
        make_check(
            *("regression_test", "the regression test is as ordered and fails without the fix"),
            *("test_prefix", "entry_point", "complaint", *culprits),
        ),
        make_check(
            "notes", "the notes tell what was ruled out and since when it drifts", "drift_since", *_list_suspects(structure)
        ),
        make_check("changelog", "the change log has exactly one new entry, with channel and ticket", "channel", "ticket"),
        make_check(
            "announced",
            "the fix was announced once, at the right desk",
            *("desk", "ticket", *["severity"] * structure.announces_severity),
        ),
    ]
    for number, culprit, rate in zip(numbers, culprits, rates, strict=True):
        checks.append(
            make_check(f"fixed_{number}", f"the stage {number} computes with the figures in force", culprit, rate, *figures)
        )
        words = f"the bench accepted one patch for the stage {number} and was never asked twice for the same"
        checks.append(make_check(f"tries_{number}", words, culprit, rate, *figures))
    checks += [
        make_check(f"report_{section}", f"the report states the {section}", *list_section_facts(structure, section))
        for section in structure.sections
    ]
    checks.append(make_check("handover_rules", "the hand-over states the rules that hold", *RULES))
    checks.append(make_check("handover_case", "the hand-over states what it must about the case", *structure.handover_facts))
    if "reply" in structure.papers:
        checks.append(make_check("reply", "the reply to the complaint states what it must", *structure.reply_facts))
    return (*checks, *structure.sheets.checks)


def _list_suspects(structure: Structure) -> list[str]:
    return [f"{accuser}_suspect" for accuser in structure.suspicions]


def build_grader(structure: Structure, values: Mapping[str, str], initial_files: Mapping[str, str], task_seed: int) -> Grader:
    """Build the grader, with the right values and the programs that call the agent's code.

    Args:
        structure: Number of bugs, documents to write and all else that differs between seeds, except the values.
        values: Values drawn from the seed: those that the agent must remember, and others that files contain.
        initial_files: Text of each file in the initial workspace, by path.
        task_seed: Seed of the task, which decides the correct prices of the invoices.
    """
    culprits = list_culprits(values)
    correct_tariff = draw_tariff(values, culprits, task_seed)
    expected = {
        **values,
        **describe_initial_files(initial_files, ("wattbook/", "tests/", "data/")),
        "culprits": culprits,
        "suspects": _list_suspects(structure),
        "sections": {section: list_section_facts(structure, section) for section in structure.sections},
        "announces_severity": structure.announces_severity,
        "handover": {"rules": RULES, "case": structure.handover_facts},
        "reply": structure.reply_facts if "reply" in structure.papers else (),
        "sheets": structure.sheets.expected,
        "attempts": initial_files["ci/attempts.log"].splitlines(),
        "swept": {culprit: _compute_added_cents(correct_tariff, culprit) for culprit in culprits},
    }
    fields = [(stage.name, "day_kwh" if stage.field == "kwh" else stage.field) for stage in TIERED_STAGES]
    source = fill_text(__package__, "grader/observe.py", {"fields": repr(fields), "sweep": repr(SWEEP_KWH)})
    paths = [f"wattbook/stages/{stage.name}.py" for stage in STAGES]
    regression = Interview(
        source=load_text(__package__, "grader/regression.py"),
        questions=("regression",),
        broken=tuple((path, initial_files[path]) for path in paths),
        changes=tuple(
            FunctionChange(path=path, function="added", kind="number", wrong=("value + 1", "value + 2")) for path in paths
        ),
    )
    interviews = (*make_interviews(source, ("swept",), CHANGES), regression)
    return Grader(judge=judge, expected=expected, interviews=interviews)


def _compute_added_cents(tariff: Tariff, stage: str) -> list[int]:
    """Return the correct amount in cents of an invoice item, for each number of kilowatt hours in `SWEEP_KWH`."""
    beyond = [max(0, kwh - tariff.tier) for kwh in SWEEP_KWH]
    pairs = zip(SWEEP_KWH, beyond, strict=True)
    return [settle(tariff.base[stage] * (kwh - more) + tariff.rate[stage] * more, tariff.mode) for kwh, more in pairs]


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    values = submission.expected
    order = _check_regression_test(submission)
    texts = {path: submission.read_text(path) for path in values["hashes"]}
    changed_paths = [path for path, text in texts.items() if hash_text(text) != values["hashes"][path]]
    yield from _judge_modules(submission, [path for path in changed_paths if path.startswith("wattbook/")])
    yield from _judge_tries(submission)
    yield from _judge_papers(submission)
    yield from judge_sheets(submission, values["sheets"])
    answers = submission.ask()
    touched_paths = [path for path in changed_paths if not path.startswith("wattbook/")]
    tests = check_tests(answers, values["tests"] + 1)  # the agent adds at least one test
    yield (
        "suite",
        *combine(tests, (not touched_paths, f"files that must stay as they were were changed: {list_names(touched_paths)}")),
    )
    swept = answers.get("swept")
    for number, culprit in enumerate(values["culprits"], start=1):
        added_cents = swept.get(culprit) if isinstance(swept, dict) else swept
        yield (
            f"fixed_{number}",
            added_cents == values["swept"][culprit],
            _explain_cents(culprit, values["swept"][culprit], added_cents),
        )
    with_bug, without_bug = answers.get("broken_regression", []), answers.get("regression", [])
    notices = bool(with_bug) and all(map(_has_failures_only, with_bug))
    accepts = bool(without_bug) and all(answer == [0, 0] for answer in without_bug)
    # a regression test that fails without the bug already fails the check `suite`
    results = (
        (notices, f"with the bug put back, it should have failures and no errors, but has {_describe_runs(with_bug)}"),
        (accepts or not tests.passed, f"without the bug, it should pass, but has {_describe_runs(without_bug)}"),
    )
    yield "regression_test", *combine(order, *results)


def _has_failures_only(answer: object) -> bool:
    match answer:
        case [int(failures), 0]:
            return failures > 0
    return False


def _describe_runs(answers: Sequence[object]) -> str:
    """Return the numbers of failures and errors in several runs of the regression test, in words."""
    texts = []
    for answer in answers:
        match answer:
            case [int(failures), int(errors)]:
                texts.append(f"{format_count(failures, 'failure')} and {format_count(errors, 'error')}")
            case _:
                texts.append(describe_value(answer))
    return ", or ".join(sorted(set(texts))[:2]) or "no result"


def _explain_cents(culprit: str, expected: Sequence[int], added: object) -> str:
    """Return for how many numbers of kilowatt hours a stage computes a wrong amount, with the first of them."""
    label = f"cents that the stage {culprit!r} adds"
    if not isinstance(added, list) or len(added) != len(expected):
        return explain_difference(expected, added, label)
    wrong = [place for place, (right, found) in enumerate(zip(expected, added, strict=True)) if right != found]
    first = wrong[0] if wrong else 0
    example = explain_difference(expected[first], added[first], f"{label} for {SWEEP_KWH[first]} kWh")
    return f"{example}; {len(wrong)} of {len(expected)} amounts are wrong"


def _judge_modules(submission: Submission, changed: list[str]) -> Iterator[tuple[str, bool, str]]:
    modules = [f"wattbook/stages/{culprit}.py" for culprit in submission.expected["culprits"]]
    paths = [f"{folder}/{name}" for folder in PACKAGE_FOLDERS for name in submission.list_files(folder) if name.endswith(".py")]
    new = [path for path in paths if path not in submission.expected["hashes"]]
    words = f"only {list_names(modules)} should be changed; changed: {list_names(changed)}; new: {list_names(new)}"
    yield "only_stale_modules", sorted(changed) == sorted(modules) and not new, words
    beginning = f'"""{submission.expected["owner_tag"]} '
    untagged = [module for module in modules if not submission.read_text(module).startswith(beginning)]
    yield "owner_tag", not untagged, f"these modules do not begin with {beginning!r}: {list_names(untagged)}"


def _check_regression_test(submission: Submission) -> ComparisonResult:
    values, text = submission.expected, submission.read_text(REGRESSION_TEST)
    classes, entry_point = re.findall(r"^class (\w+)\(", text, re.MULTILINE), values["entry_point"]
    is_named = bool(classes) and all(name.startswith(values["test_prefix"]) for name in classes)
    uses = re.search(rf"^from wattbook import {entry_point}$", text, re.MULTILINE) is not None and f"{entry_point}(" in text
    mentions = re.search(rf"\b{values['complaint']}\b", text) is not None
    if not text:
        return ComparisonResult(False, f"{REGRESSION_TEST} is empty or missing")
    return combine(
        (is_named, f"names of its classes should begin with {values['test_prefix']!r}; it has {describe_value(classes)}"),
        (uses, f"it should call {entry_point!r}, imported from 'wattbook'"),
        (mentions, f"it should name the complaint {values['complaint']!r}"),
    )


def _judge_tries(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Yield whether, for each stage with a bug, no patch was submitted twice and only the last was accepted."""
    for number, rows in enumerate(_list_tries(submission), start=1):
        accepted = [row for row in rows if row[1] == "accepted"]
        is_unique = len({row[2] for row in rows}) == len(rows)
        is_good = len(accepted) == 1 and is_unique and rows[-1] == accepted[0]
        tries = list_names([f"{row[2]} ({row[1]})" for row in rows], 4)
        words = f"one patch should be accepted, the last one, and no patch be tried twice; patches tried: {tries}"
        yield f"tries_{number}", is_good, words


def _list_tries(submission: Submission) -> list[list[list[str]]]:
    """Return the logged attempts to patch each stage with a bug.

    Each attempt has five fields: number, outcome, patch, module, and the digest with which the tool `tools/ci.py` signs the line.
    An attempt with a wrong digest counts as refused.
    """
    values = submission.expected
    rows = [line.split() for line in list_new_lines(submission, "ci/attempts.log", values["attempts"])]
    modules = [f"wattbook/stages/{culprit}.py" for culprit in values["culprits"]]
    tries = [row for row in rows if len(row) == 5]
    for row in tries:
        if row[4] != str(int(compute_digest(values["key"], " ".join(row[:4]))[:8], 16)):
            row[1] = "refused"
    return [[row for row in tries if row[3] == module] for module in modules]


def _judge_papers(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    attempts = {}
    for number, rows in enumerate(_list_tries(submission), start=1):
        accepted = [row[2] for row in rows if row[1] == "accepted"]
        attempts[f"attempt_{number}"] = compute_attempt(
            submission.expected["key"], accepted[-1].rpartition("/")[2] if accepted else ""
        )
    values = {**submission.expected, **attempts}
    notes = "\n".join(submission.read_text(f"notes/{name}") for name in submission.list_files("notes") if name != "README.md")
    suspects = [values[name] for name in values["suspects"]]
    missing = [suspect for suspect in suspects if re.search(rf"(?:stage |[`'\"]){suspect}\b", notes) is None]
    has_day = values["drift_since"] in notes
    yield (
        "notes",
        *combine(
            (not missing, f"the notes do not name the stages that were ruled out: {list_names(missing)}"),
            (has_day, f"the notes do not name the day since when it drifts, {values['drift_since']!r}"),
        ),
    )
    beginning = f"- {values['channel']} ({values['ticket']}): "
    yield "changelog", *_compare_line(submission, "CHANGELOG.md", values["entries"], beginning, "")
    beginning = f"{values['desk']}: " + f"[{values['severity']}] " * values["announces_severity"]
    yield "announced", *_compare_line(submission, "outbox/announcements.log", (), beginning, values["ticket"])
    for section, names in values["sections"].items():
        yield f"report_{section}", *_compare_statements(submission, "REPORT.md", {name: values[name] for name in names})
    handover = read_json_object(submission, "handover.json")
    for part, names in values["handover"].items():
        yield f"handover_{part}", *compare_entries(handover, "handover.json", {name: values[name] for name in names})
    if values["reply"]:
        yield "reply", *_compare_statements(submission, "REPLY.md", {name: values[name] for name in values["reply"]})


def _compare_statements(submission: Submission, path: str, expected: Mapping[str, str]) -> ComparisonResult:
    return compare_statements(submission.read_text(path).splitlines(), path, expected)


def _compare_line(submission: Submission, path: str, initial_lines: Sequence[str], beginning: str, part: str) -> ComparisonResult:
    lines = list_new_lines(submission, path, initial_lines)
    wanted = f"begins with {beginning!r}{f' and contains {part!r}' if part else ''}"
    is_right = len(lines) == 1 and lines[0].startswith(beginning) and part in lines[0]
    return ComparisonResult(is_right, explain_new_line(path, lines, wanted))
