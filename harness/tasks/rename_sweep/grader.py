"""Grader of the task `rename-sweep`: checks modules, the record of finished folders, and documents, and runs the tests."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from harness.task import FunctionChange, Grader, Submission
from harness.tasks.kit.explanations import describe_value, explain_new_line, list_names
from harness.tasks.kit.graders import (
    ComparisonResult,
    check_tests,
    combine,
    compare_entries,
    describe_initial_files,
    hash_text,
    list_new_lines,
    make_interviews,
    read_json_object,
)
from harness.tasks.kit.sheets import judge_sheets
from harness.tasks.rename_sweep.structure import Structure
from harness.tasks.rename_sweep.workspace import KEY_BY_FACT

CORE = "quay/core.py"
"""Path of the module that defines the function to be renamed."""
CHANGES = (FunctionChange(path=CORE, function="", kind="number", wrong=("value + 1", "value * 2 + 1")),)
"""Functions that are wrong in some runs of the tests, of which one must then fail."""


def build_grader(structure: Structure, values: Mapping[str, str], initial_files: Mapping[str, str]) -> Grader:
    """Build the grader, with the right values, the initial files, and a program that runs the tests.

    Args:
        structure: Choices that the seed makes, e.g. in which folders the agent has to rename the function.
        values: Values drawn from the seed, by name.
        initial_files: Text of each file in the initial workspace, by path.
    """
    expected = {
        **values,
        **describe_initial_files(initial_files, ("quay/", "tests/")),
        "groups": structure.groups,
        "collision_folders": structure.collision_folders,
        "handover": {"rules": structure.rule_facts, "results": structure.result_facts},
        "sheets": structure.sheets.expected,
    }
    return Grader(judge=judge, expected=expected, interviews=make_interviews("", (), CHANGES))


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    work = _Work(submission)
    yield from work.judge_modules()
    yield from work.judge_ledger()
    yield from work.judge_papers()
    yield from judge_sheets(submission, submission.expected["sheets"])
    core = ComparisonResult(
        work.holds(CORE, work.new) and not work.holds(CORE, work.old),
        f"{CORE} should have the name {work.new!r} and no longer {work.old!r}",
    )
    unchanged = ComparisonResult(work.is_unchanged("tests"), "files of the tests were changed, which should stay as they were")
    yield "tests", *combine(check_tests(submission.ask(), work.values["tests"]), core, unchanged)


class _Work:
    """Files that the agent left in the workspace, with methods that compare them with the initial files."""

    def __init__(self, submission: Submission) -> None:
        self.submission, self.values = submission, submission.expected
        self.old, self.new = self.values["old_name"], self.values["new_name"]
        folders = [folder for group in self.values["groups"] for folder in group]
        self.batches = (f"{self.values['first_folder']} first", *folders, f"{self.values['last_folder']} last")

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Text of each initial file as the agent left it, by path."""
        return {path: self.submission.read_text(path) for path in self.values["hashes"]}

    def list_paths(self, folder: str) -> list[str]:
        return [path for path in self.texts if path.startswith(folder + "/")]

    def is_initial(self, path: str, text: str) -> bool:
        return bool(hash_text(text) == self.values["hashes"][path])

    def is_unchanged(self, folder: str) -> bool:
        return all(self.is_initial(path, self.texts[path]) for path in self.list_paths(folder))

    def holds(self, path: str, name: str) -> bool:
        """Return whether a file contains a name as a whole word."""
        text = self.texts[path] if path in self.texts else self.submission.read_text(path)
        return re.search(rf"\b{name}\b", text) is not None

    def is_renamed(self, path: str) -> bool:
        """Return whether the agent has renamed the function in a file, and changed nothing else.

        Other changes are allowed in a file with a helper function that the agent had to rename, too.
        """
        is_helped = path in {f"quay/{folder}/stays.py" for folder in self.values["collision_folders"]}
        is_whole = is_helped or self.is_initial(path, re.sub(rf"\b{self.new}\b", self.old, self.texts[path]))
        return is_whole and self.holds(path, self.new) and not self.holds(path, self.old)

    def check_renamed(self, *folders: str) -> ComparisonResult:
        paths = [path for folder in folders for path in self.list_paths(f"quay/{folder}") if not path.endswith("__init__.py")]
        wrong = [path for path in paths if not self.is_renamed(path)]
        return ComparisonResult(bool(paths) and not wrong, f"not renamed, or changed in other ways: {list_names(wrong, 4)}")

    def judge_modules(self) -> Iterator[tuple[str, bool, str]]:
        values = self.values
        excluded, alias = f"quay/{values['excluded_folder']}", f"quay/{values['alias_module']}.py"
        for number, folders in enumerate(values["groups"], start=1):
            yield f"folders_{number}", *self.check_renamed(*folders)
        other_paths = [path for path in self.list_paths("quay") if not path.startswith(excluded + "/") and path != alias]
        unrenamed, is_kept = ([path for path in other_paths if self.holds(path, self.old)], self.is_unchanged(excluded))
        words = "; ".join(
            [f"{excluded} was changed, which should stay as it was"] * (not is_kept)
            + [f"files that still have the old name: {list_names(unrenamed, 4)}"] * bool(unrenamed)
        )
        yield "left_alone", is_kept and not unrenamed, words
        line = re.search(rf"^{self.old} = {self.new}\b.*$", self.texts[alias], re.MULTILINE)
        words = f"{alias} should have a line that begins with '{self.old} = {self.new}' and names the release "
        words += f"{values['removal_release']!r}; found {describe_value(line[0] if line else None)}"
        yield "alias", line is not None and values["removal_release"] in line[0], words
        definition = f"def {values['collision_name']}"
        named = [
            folder
            for folder in values["collision_folders"]
            if any(self.holds(path, definition) for path in self.list_paths(f"quay/{folder}"))
        ]
        is_swept = self.check_renamed(*values["collision_folders"]).passed
        words = f"helpers should be called {values['collision_name']!r}, and the function be renamed, in "
        words += f"{list_names(values['collision_folders'])}; helpers are called so in {list_names(named)}"
        yield "helpers", len(named) == len(values["collision_folders"]) and is_swept, words
        entry = re.search(r'^ENTRY = "([^"]*)"', self.texts["quay/registry.py"], re.MULTILINE)
        is_right = entry is not None and entry[1] == values["registry_key"] and self.holds("quay/registry.py", self.new)
        words = f"quay/registry.py should have the entry {values['registry_key']!r} and the name {self.new!r}; its entry is "
        yield "registry", is_right, words + describe_value(entry and entry[1])

    def read_ledger(self, name: str) -> list[str]:
        return self.submission.read_text(f"ledger/{name}.log").splitlines()

    def compute_seal(self, batch: str) -> str:
        """Return the digest that the ledger (the record of finished folders) must contain for a finished folder.

        `batch` is the name of the folder, followed by ` first` or ` last` for the first and the last folder.
        """
        words = f"{self.values['key']}:{self.values['ledger_book']}:{batch}"
        return hashlib.sha256(words.encode()).hexdigest()[:24]

    def check_recorded(self, *batches: str) -> ComparisonResult:
        lines = self.read_ledger("record")
        counts = {batch: lines.count(self.compute_seal(batch)) for batch in batches}
        wrong = [f"{batch} {count} times" for batch, count in counts.items() if count != 1]
        return ComparisonResult(not wrong, f"should be recorded once each, but is: {list_names(wrong)}")

    def judge_ledger(self) -> Iterator[tuple[str, bool, str]]:
        values, first, last = self.values, self.batches[0], self.batches[-1]
        swept = [self.check_renamed(values[name]) for name in ("first_folder", "last_folder")]
        yield "ends", *combine(*swept, self.check_recorded(first, last))
        for number, folders in enumerate(values["groups"], start=1):
            yield f"recorded_{number}", *self.check_recorded(*folders)
        seals = [self.compute_seal(batch) for batch in self.batches]
        recorded_seals = list(dict.fromkeys(self.read_ledger("record")))
        yield "order", recorded_seals == seals, self.explain_order(seals, recorded_seals)
        book, opened_folders, named_folders = values["ledger_book"], self.read_ledger("open"), self.read_ledger("name")
        words = f"the book {book!r} should be opened once and a name reserved in it once; opened: {list_names(opened_folders)}; "
        words += f"names reserved in: {list_names(named_folders)}"
        yield "opened_once", opened_folders == named_folders == [book], words
        closed_folders = self.read_ledger("close")
        words = f"the book {book!r} should be closed once, with the voucher {values['voucher']!r}; "
        words += f"closed: {list_names(closed_folders)}"
        yield "closed", closed_folders == [f"{book} {values['voucher']}"], words

    def explain_order(self, seals: list[str], recorded_seals: list[str]) -> str:
        """Return how many folders were recorded and which is the first out of order."""
        known = dict(zip(seals, self.batches, strict=True))
        words = f"{len(self.batches)} folders should be recorded in the prescribed order; {len(recorded_seals)} were"
        for number, (seal, batch) in enumerate(zip(recorded_seals, self.batches, strict=False), start=1):
            if known.get(seal) != batch:
                return f"{words}, and number {number} is {known.get(seal, 'no such folder')} instead of {batch}"
        return words

    def judge_papers(self) -> Iterator[tuple[str, bool, str]]:
        values, text = self.values, self.submission.read_text("CHANGELOG.md")
        new = list_new_lines(self.submission, "CHANGELOG.md", values["entries"])
        is_ordered = len(new) == 1 and new[0].startswith(f"- {values['verb']} ") and new[0].endswith(f" ({values['ticket']})")
        names = all(re.search(rf"\b{name}\b", text) for name in (self.new, values["proposed_name"]))
        begins, ends = f"- {values['verb']} ", f" ({values['ticket']})"
        words = f"begins with {begins!r}, ends with {ends!r} and names {self.new!r} and {values['proposed_name']!r}"
        yield "changelog", is_ordered and names, explain_new_line("CHANGELOG.md", new, words)
        handover = read_json_object(self.submission, "HANDOVER.json")
        for part, facts in values["handover"].items():
            expected = {KEY_BY_FACT[fact]: values[fact] for fact in facts}
            yield f"handover_{part}", *compare_entries(handover, "HANDOVER.json", expected)
