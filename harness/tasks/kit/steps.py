"""Short specifications from which steps are made: what is written, run or read; the evidence follows by rules.

A step is known to be done by the receipts of its calls; by its files in a listing, or, if it left none, by the file that was
written next (who finds the later one knows that the earlier work was done); or by a line of a summary that tells of it. A
step that must not be done twice is known by its own receipts and by what it printed, and by nothing else.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from string import Template

from harness.task import CallTemplate, Evidence, Repair, Script, Step
from harness.tasks.kit.calls import list_directory, read, run, write
from harness.tasks.kit.texts import load_text

DONE_PATTERN = r"\b(?:wrote|written|created|implemented|finished|completed|done)\b"
CHANGELOG_PATTERN = r"(?i)change ?log entry (?:was |is |has been )?(?:added|written|appended|made)|^\W*appended to CHANGELOG\.md"


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A step before its evidence is completed."""

    name: str
    text: str
    calls: tuple[CallTemplate, ...]
    summary_pattern: str = ""
    """As in `Evidence`; empty = follows from the first file that it writes."""
    required_text: str = ""
    """As in `Evidence`; empty = the first file that it writes."""
    once: bool = False
    """Doing it twice does harm, or its output is needed: files written later do not count as evidence."""
    repairs: tuple[Repair, ...] = ()


def look(name: str, text: str, *calls: CallTemplate) -> StepSpec:
    """Look at something; nothing depends on having done it but what is seen."""
    return do(name, text, *calls)


def do(
    name: str,
    text: str,
    *calls: CallTemplate,
    summary_pattern: str = "",
    required_text: str = "",
    once: bool = False,
    repairs: tuple[Repair, ...] = (),
) -> StepSpec:
    """Do something; see `StepSpec`."""
    return StepSpec(name, text, calls, summary_pattern, required_text, once, repairs)


def do_once(name: str, text: str, command: str, summary_pattern: str, required_text: str) -> StepSpec:
    """Run a command that must not be run twice, known by what it prints."""
    return do(name, text, run(command), summary_pattern=summary_pattern, required_text=required_text, once=True)


def check_fitness(name: str, text: str, command: str, subject: str, repair_text: str, *repair_calls: CallTemplate) -> StepSpec:
    """Run a check that prints `SUBJECT fit` or `SUBJECT NOT fit`, and repair what it complains about."""
    repair = make_repair(f"{subject} NOT fit", repair_text, *repair_calls)
    return do(
        name, text, run(command), summary_pattern=rf"^\W*{subject} fit\b", required_text=f"{subject} fit", repairs=(repair,)
    )


def look_around(text: str, folders: Iterable[str]) -> StepSpec:
    """List the folders, which is the first step of most scripts."""
    return do("orient", text, *map(list_directory, folders), once=True)


def add_change(text: str, command: str) -> StepSpec:
    """Add the one entry to the change log, by a tool of the workspace."""
    return do("changelog", text, run(command), summary_pattern=CHANGELOG_PATTERN, once=True)


def make_repair(error_pattern: str, text: str, *calls: CallTemplate) -> Repair:
    """Make a repair that needs the facts whose placeholders it holds."""
    return Repair(error_pattern=error_pattern, text=text, calls=calls, required_facts=find_placeholders(text, calls))


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Paths of a program; `{}` stands for the name of a module."""

    package: str
    """Package of the task, whose `files` hold the texts of the program."""
    module_path: str
    module_text: str
    """Name of a module's text in `files`; the text of its first cut has the name `MODULE_first`."""
    test_path: str = "tests/test_{}.py"
    """Path of a module's tests, also the name of their text in `files`."""
    test_command: str = "python3 tools/run_tests.py tests.test_{}"
    test_name: str = "test_{}"
    """Name that text holds to the letter which tells that the tests of a module pass."""
    passed_pattern: str = r"(?i)\btests?[./_]test_{}\b.{{0,40}}(?:, 0 failed|\b(?:pass|passes|passed|green)\b)"
    """Regular expression for such text."""

    def write_text(self, path: str, name: str = "") -> CallTemplate:
        """Write the text of that name to a path; the name is the path if it is empty."""
        return write(path, load_text(self.package, name or path))

    def read_page(self, name: str, text: str) -> StepSpec:
        """Read a page of the specification in `docs`."""
        return look(f"read_{name.replace('-', '_')}", text, read(f"docs/{name}.md"))

    def write_module(self, name: str, text: str, *, first_cut: bool = False) -> StepSpec:
        """Write a module, or its first cut, which holds a mistake."""
        return do(f"write_{name}", text, self._write_module(name, f"{name}_first" if first_cut else name))

    def _write_module(self, name: str, text_name: str) -> CallTemplate:
        return self.write_text(self.module_path.format(name), self.module_text.format(text_name))

    def write_paper(self, path: str, text: str, *, name: str = "") -> StepSpec:
        """Write a paper, whose text stands in `papers`; the step has the name of the file, unless another one is given."""
        file_name = path.rpartition("/")[2]
        call = self.write_text(path, f"papers/{file_name}")
        return do(f"write_{name or file_name.partition('.')[0].lower()}", text, call)

    def test_module(
        self, name: str, text: str, run_text: str = "", *, error: str = "", repair_text: str = ""
    ) -> tuple[StepSpec, StepSpec]:
        """Write the tests of a module and run them.

        Args:
            name: name of the module.
            text: text of the step that writes the tests.
            run_text: text of the step that runs them.
            error: regular expression for the failure of a first cut; empty if the module has none.
            repair_text: text of the repair, which writes the whole module.
        """
        run_step = do(
            f"test_{name}",
            run_text or f"Run the tests of {name}.",
            run(self.test_command.format(name)),
            summary_pattern=self.passed_pattern.format(name),
            required_text=self.test_name.format(name),
            repairs=(make_repair(error, repair_text, self._write_module(name, name)),) if error else (),
        )
        return do(f"write_test_{name}", text, self.write_text(self.test_path.format(name))), run_step


def make_script(final_text: str, listed_prefixes: tuple[str, ...], *sections: Iterable[StepSpec]) -> Script:
    """Make a script from the specifications of its steps, section by section; see `build_steps`."""
    return Script(steps=build_steps(chain(*sections), listed_prefixes), final_text=final_text)


def build_steps(specs: Iterable[StepSpec], listed_prefixes: tuple[str, ...]) -> tuple[Step, ...]:
    """Build the steps; each needs its placeholders, and receipts of its calls, its files or the next files show it done.

    Args:
        specs: specifications of the steps in order.
        listed_prefixes: beginnings of the paths of the agent's own files that its look around would show.
    """
    ordered_specs = tuple(specs)
    return tuple(_build_step(spec, ordered_specs[index + 1 :], listed_prefixes) for index, spec in enumerate(ordered_specs))


def _build_step(spec: StepSpec, later: tuple[StepSpec, ...], listed_prefixes: tuple[str, ...]) -> Step:
    receipts = tuple((call.tool, _build_receipt_pattern(call)) for call in spec.calls)
    own_paths = tuple(path for call in spec.calls if (path := _find_listed_path(call, listed_prefixes)))
    next_path = next((path for other in later for call in other.calls if (path := _find_listed_path(call, listed_prefixes))), "")
    listed = () if spec.once else own_paths or ((next_path,) if next_path else ())
    own_path = own_paths[0] if own_paths else ""
    return Step(
        name=spec.name,
        text=spec.text,
        calls=spec.calls,
        done=Evidence(
            receipts=receipts,
            listed_paths=listed,
            summary_pattern=spec.summary_pattern or (own_path and _build_done_pattern(re.escape(own_path))),
            required_text=spec.required_text or own_path,
            in_output=bool(spec.summary_pattern),
        ),
        required_facts=find_placeholders(spec.text, spec.calls),
        repairs=spec.repairs,
    )


def _build_receipt_pattern(call: CallTemplate) -> str:
    """Return a regular expression for the key argument that a call leaves in its receipt, whatever its values were."""
    key = " ".join(call.arguments[0][1].split()).replace("$$", "$")
    shortened_key = key if len(key) <= 150 else re.sub(r"\$\{?\w*$", "", key[:150])  # no half of a placeholder
    parts = re.split(r"\$\{\w+\}", shortened_key)
    whole = shortened_key == key
    return "^" + r"\S+".join(map(re.escape, parts)) + ("$" if whole else "")


def _find_listed_path(call: CallTemplate, listed_prefixes: tuple[str, ...]) -> str:
    path = call.arguments[0][1]
    return path if call.tool == "write_file" and path.startswith(listed_prefixes) else ""


def _build_done_pattern(path: str) -> str:
    """Return a regular expression for a line of a summary that tells that a file was written."""
    return rf"(?i:{DONE_PATTERN}.{{0,60}}{path}\b|{path}\W.{{0,60}}{DONE_PATTERN})"


def find_placeholders(text: str, calls: tuple[CallTemplate, ...]) -> tuple[str, ...]:
    """Return the names of the facts that these texts hold, in order of appearance."""
    texts = [text, *(text for call in calls for _, text in call.arguments)]
    return tuple(dict.fromkeys(name for text in texts for name in Template(text).get_identifiers()))
