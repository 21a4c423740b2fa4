"""Grader of the task `bug-hunt`: checks the files that the agent left, and the amounts that its repaired program computes."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.task import Grader, Interview, Submission
from harness.tasks.bug_hunt.facts import DESKS
from harness.tasks.bug_hunt.stages import STAGES, TIERED_STAGES, draw_readings, draw_tariff, settle
from harness.tasks.kit.graders import (
    Outcome,
    check_tests,
    compare_words,
    describe_initial_files,
    hash_text,
    list_new_lines,
    make_interviews,
    read_json_object,
)
from harness.tasks.kit.texts import fill_text, load_text

SWEEP_KWH = range(384, 1404, 7)
"""Numbers of kilowatt hours for which the grader runs the agent's program; together they yield every fraction of a cent."""
REGRESSION_TEST = "tests/regressions/test_drift.py"
"""Path of the regression test that the agent has to write."""
PACKAGE_FOLDERS = ("wattbook", "wattbook/stages")
"""Folders with the modules of the invoice program."""
BROKEN = {"wattbook/money.py": "def settle(*_):\n    return 10**9\n"}
"""Code that breaks a module when it is run at the end, by path of the module; the tests in the workspace must then fail."""


def build_grader(values: Mapping[str, str], initial_files: Mapping[str, str], task_seed: int) -> Grader:
    """Build the grader of the task: its expected values, and the programs that question the agent's code.

    Args:
        values: Values drawn from the seed: those that the agent must remember, and others that files contain.
        initial_files: Text of each file in the initial workspace, by path.
        task_seed: Seed of the task, which decides the correct prices of the invoices.
    """
    correct_tariff = draw_tariff(values, task_seed)
    quarter = draw_readings(values, correct_tariff, task_seed).values()
    expected = {
        **values,
        **describe_initial_files(initial_files, ("wattbook/", "tests/", "data/")),
        "attempts": initial_files["ci/attempts.log"].splitlines(),
        "swept": [_compute_added_cents(values, correct_tariff.base[values["culprit"]], kwh) for kwh in SWEEP_KWH],
        "invoices": [sum(correct_tariff.compute_stage_cents(counts).values()) for counts in quarter],
    }
    fields = [(stage.name, "day_kwh" if stage.field == "kwh" else stage.field) for stage in TIERED_STAGES]
    source = fill_text(__package__, "grader/observe.py", {"fields": repr(fields), "sweep": repr(SWEEP_KWH)})
    paths = [f"wattbook/stages/{stage.name}.py" for stage in STAGES]
    regression = Interview(
        source=load_text(__package__, "grader/regression.py"),
        questions=("regression",),
        broken=tuple((path, initial_files[path]) for path in paths),
    )
    interviews = (*make_interviews(source, ("swept", "invoices"), BROKEN), regression)
    return Grader(judge=judge, expected=expected, interviews=interviews)


def _compute_added_cents(values: Mapping[str, str], base: int, kwh: int) -> int:
    """Return the correct amount in cents for `kwh` kilowatt hours on the invoice item whose module has the bug."""
    beyond = max(0, kwh - int(values["decree_tier"]))
    return settle(base * (kwh - beyond) + int(values["final_rate"]) * beyond, values["rounding"])


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    values = submission.expected
    is_ordered = _check_regression_test(submission)
    texts = {path: submission.read_text(path) for path in values["hashes"]}
    changed = [path for path, text in texts.items() if hash_text(text) != values["hashes"][path]]
    yield from _judge_modules(submission, [path for path in changed if path.startswith("wattbook/")])
    yield from _judge_papers(submission)
    answers = submission.ask()
    touched = [path for path in changed if not path.startswith("wattbook/")]
    tests = check_tests(answers, values["tests"] + 1)
    yield "suite", tests.passed and not touched, f"{tests.detail}, changed {touched}"
    swept = answers.get("swept")
    stage = swept.get(values["culprit"]) if isinstance(swept, dict) else swept
    is_fixed = stage == values["swept"] and answers.get("invoices") == values["invoices"]
    yield "fixed", is_fixed, f"{values['culprit']} adds {stage!r:.180}"
    with_bug, without_bug = answers.get("broken_regression", []), answers.get("regression", [])
    notices = bool(with_bug) and all(map(_has_failures_only, with_bug))
    accepts = bool(without_bug) and all(found == [0, 0] for found in without_bug)
    detail = f"{is_ordered.detail}, failures and errors with the bug {with_bug!r:.80}, without it {without_bug!r:.80}"
    yield "regression_test", is_ordered.passed and notices and (accepts or not tests.passed), detail


def _has_failures_only(found: object) -> bool:
    match found:
        case [int(failures), 0]:
            return failures > 0
    return False


def _judge_modules(submission: Submission, changed: list[str]) -> Iterator[tuple[str, bool, str]]:
    """Yield the results of the checks on the modules that the agent changed; see `judge`."""
    module = f"wattbook/stages/{submission.expected['culprit']}.py"
    paths = [f"{folder}/{name}" for folder in PACKAGE_FOLDERS for name in submission.list_files(folder) if name.endswith(".py")]
    new = [path for path in paths if path not in submission.expected["hashes"]]
    yield "only_one_module", changed == [module] and not new, f"changed {changed}, new {new}"
    text = submission.read_text(module)
    yield "owner_tag", text.startswith(f'"""{submission.expected["owner_tag"]} '), f"{module} begins with {text[:40]!r}"


def _check_regression_test(submission: Submission) -> Outcome:
    """Check that the agent's regression test uses the class name, the function and the invoice number that the prompt demands."""
    values, text = submission.expected, submission.read_text(REGRESSION_TEST)
    classes, entry_point = re.findall(r"^class (\w+)\(", text, re.MULTILINE), values["entry_point"]
    is_named = bool(classes) and all(name.startswith(values["test_prefix"]) for name in classes)
    uses = re.search(rf"^from wattbook import {entry_point}$", text, re.MULTILINE) is not None and f"{entry_point}(" in text
    mentions = re.search(rf"\b{values['complaint']}\b", text) is not None
    return Outcome(is_named and uses and mentions, f"classes {classes}")


def _judge_papers(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Yield the results of the checks on logs, notes and documents; see `judge`."""
    values = submission.expected
    rows = [line.split() for line in list_new_lines(submission, "ci/attempts.log", values["attempts"])]
    module = f"wattbook/stages/{values['culprit']}.py"
    accepted = [row[2] for row in rows if len(row) == 4 and row[1] == "accepted" and row[3] == module]
    is_unique = len({row[2] for row in rows if len(row) == 4}) == len(rows)
    good = len(accepted) == 1 and is_unique and rows[-1][2] == accepted[0]
    yield "tries", good, f"tries: {[row[1:3] for row in rows]}"
    attempt, desk = _compute_attempt(values["key"], accepted[-1] if accepted else "")
    notes = "\n".join(submission.read_text(f"notes/{name}") for name in submission.list_files("notes") if name != "README.md")
    suspect, since = values["suspect"], values["drift_since"]
    has_suspect, has_day = re.search(rf"(?:stage |[`'\"]){suspect}\b", notes) is not None, since in notes
    yield "notes", has_suspect and has_day, f"notes tell of {suspect}: {has_suspect}, of {since}: {has_day}"
    beginning = f"- {values['channel']} ({values['ticket']}): "
    yield "changelog", *_compare_line(submission, "CHANGELOG.md", values["entries"], beginning, "")
    beginning = f"{desk} [{values['severity']}] "
    yield "announced", *_compare_line(submission, "outbox/announcements.log", (), beginning, values["ticket"])
    names = ("ticket", "severity", "complaint", "drift_since", "culprit", "suspect", "provisional_rate", "final_rate")
    yield "report", *compare_words(submission, "REPORT.md", *(values[name] for name in names), attempt)
    expected: dict[str, Any] = {"ticket": values["ticket"], "attempt": attempt, "announced_at": desk}
    expected |= {"public_function": values["entry_point"], "frozen_module": values["frozen"]}
    expected |= {"drift_goal_cents": int(values["drift_goal"])}
    given = read_json_object(submission, "handover.json")
    matches = {name: given.get(name) for name in expected} == expected
    yield "handover", matches, f"hand-over: {given!r:.280}"


def _compute_attempt(key: str, patch: str) -> tuple[str, str]:
    """Return the id of the attempt and the name of the desk that the tool `tools/ci.py` prints for an accepted patch."""
    digest = hashlib.sha256(f"{key}:{patch.rpartition('/')[2]}".encode()).hexdigest()
    return f"A-{int(digest[:8], 16) % 9000 + 1000}", DESKS[int(digest[8:12], 16) % len(DESKS)]


def _compare_line(submission: Submission, path: str, initial_lines: Sequence[str], beginning: str, part: str) -> Outcome:
    """Check that exactly one line was added to a file, and that the line starts with `beginning` and contains `part`."""
    lines = list_new_lines(submission, path, initial_lines)
    return Outcome(len(lines) == 1 and lines[0].startswith(beginning) and part in lines[0], f"{path}: {lines!r}")
