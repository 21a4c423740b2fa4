"""Functions that build a task's script, and the signs by which a step is recognised as done.

A scripted model, whose messages a compaction policy may remove, takes a step as done if it still sees one of these signs: the
finished tool calls of the step (receipts); a directory listing with the files that the step wrote first; or a line of its output
or of a summary that reports the step. Steps before the furthest one that its own calls and outputs show count as done, too.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from string import Template

from harness.task import CallTemplate, Evidence, Repair, Script, Step, StepEffect
from harness.tasks.kit.calls import list_directory, read, run, write
from harness.tasks.kit.texts import load_text

DONE_PATTERN = r"\b(?:wrote|written|created|implemented|finished|completed|done)\b"
CHANGELOG_PATTERN = r"(?i)change ?log entry (?:was |is |has been )?(?:added|written|appended|made)|^\W*appended to CHANGELOG\.md"


@dataclass(frozen=True, slots=True)
class StepSpec:
    """Short specification of one step of a script.

    The function `build_steps` adds the signs by which the step is later recognised as done.
    """

    name: str
    """Name of the step, unique in its script."""
    text: str
    """Text of the agent's message in this step."""
    calls: tuple[CallTemplate, ...]
    """Tool calls that the agent's message requests in this step."""
    summary_pattern: str = ""
    """Regular expression for a line that reports the step as done. If empty, a line must report the file as written."""
    required_text: str = ""
    """Literal text that a line must contain to report the step as done. If empty, the path of the file that the step writes."""
    repairs: tuple[Repair, ...] = ()
    """Tool calls with which the agent repairs an error that the step is known to meet, such as a failing test."""
    effect: StepEffect = "change"
    """Effect of the step on the workspace."""
    missing_pattern: str = ""
    """Regular expression for a line of a status call's output that shows the step as not done."""


def look(name: str, text: str, *calls: CallTemplate) -> StepSpec:
    """Make a step in which the agent only looks at the workspace, e.g. reads a file, and changes nothing.

    Args:
        name: Name of the step, unique in its script.
        text: Text of the agent's message.
        calls: Tool calls that the message requests.
    """
    return do(name, text, *calls, effect="look")


def verify(name: str, text: str, *calls: CallTemplate) -> StepSpec:
    """Make a step in which the agent runs tests or a check of its work, and changes nothing.

    Args:
        name: Name of the step, unique in its script.
        text: Text of the agent's message.
        calls: Tool calls that the message requests.
    """
    return do(name, text, *calls, effect="test")


def do(
    name: str,
    text: str,
    *calls: CallTemplate,
    summary_pattern: str = "",
    required_text: str = "",
    repairs: tuple[Repair, ...] = (),
    effect: StepEffect = "change",
    missing_pattern: str = "",
) -> StepSpec:
    """Make the specification of a step from its name, the agent's message, and the message's tool calls.

    The other parameters are the fields of `StepSpec` with the same names.
    """
    return StepSpec(name, text, calls, summary_pattern, required_text, repairs, effect, missing_pattern)


def do_once(name: str, text: str, command: str, summary_pattern: str, required_text: str) -> StepSpec:
    """Make a step in which the agent runs a command that must not run twice, e.g. since that does harm.

    Args:
        name: Name of the step, unique in its script.
        text: Text of the agent's message.
        command: Shell command that the agent runs.
        summary_pattern: Regular expression for a line of the output, or of a summary, that shows success.
        required_text: Literal text that such a line must contain.
    """
    return do(name, text, run(command), summary_pattern=summary_pattern, required_text=required_text)


def check_fitness(name: str, text: str, command: str, subject: str, repair_text: str, *repair_calls: CallTemplate) -> StepSpec:
    """Make a step in which the agent runs a check and repairs the error that the check may find.

    Args:
        name: Name of the step, unique in its script.
        text: Text of the agent's message that runs the check.
        command: Shell command of the check, which prints `SUBJECT fit` or `SUBJECT NOT fit`.
        subject: Words that stand for SUBJECT in the output, e.g. `storage is`.
        repair_text: Text of the agent's message that repairs the error.
        repair_calls: Tool calls that repair the error.
    """
    repair = make_repair(f"{subject} NOT fit", repair_text, *repair_calls)
    return do(
        name,
        text,
        run(command),
        summary_pattern=rf"^\W*{subject} fit\b",
        required_text=f"{subject} fit",
        repairs=(repair,),
        effect="test",
    )


def look_around(text: str, folders: Iterable[str]) -> StepSpec:
    """Make the step `orient`, in which the agent lists folders. Most scripts begin with it."""
    return look("orient", text, *map(list_directory, folders))


def add_change(text: str, command: str) -> StepSpec:
    """Make the step `changelog`, in which the agent adds an entry to the change log.

    The command that adds the entry must run only once.
    """
    return do("changelog", text, run(command), summary_pattern=CHANGELOG_PATTERN)


def make_repair(error_pattern: str, text: str, *calls: CallTemplate) -> Repair:
    """Describe how the agent repairs an error: by which message, and by which tool calls.

    Args:
        error_pattern: Regular expression for the output that shows the error.
        text: Text of the agent's message.
        calls: Tool calls that repair the error; each placeholder such as `${port}` names a fact.
    """
    return Repair(error_pattern=error_pattern, text=text, calls=calls, required_facts=find_placeholders(text, calls))


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Paths and commands for a program that the agent writes module by module.

    In each of them, `{}` stands for the name of a module.
    """

    package: str
    """Python package of the task; its folder `files` contains the source texts of the program that the agent writes."""
    module_path: str
    """Path in the workspace at which a module is written, e.g. `src/{}.ts`, where `{}` stands for the name of the module."""
    module_text: str
    """Name of the source text of a module in the folder `files`, e.g. `app/{}.py`, where `{}` stands for the module's name."""
    test_path: str = "tests/test_{}.py"
    """Path at which the agent writes the tests of a module. Their text has the same path in the folder `files` of the task."""
    test_command: str = "python3 tools/run_tests.py tests.test_{}"
    """Shell command with which the agent runs the tests of a module; `{}` stands for the name of the module."""
    test_name: str = "test_{}"
    """Literal text, such as `test_{}`, that a line must contain to count as a report that the tests of a module pass."""
    passed_pattern: str = r"(?i)\btests?[./_]test_{}\b.{{0,40}}(?:, 0 failed|\b(?:pass|passes|passed|green)\b)"
    """Regular expression for a line that reports that the tests of a module pass; `{}` stands for the name of the module."""

    def write_text(self, path: str, name: str = "") -> CallTemplate:
        """Return a tool call that writes a text from the task's folder `files` to a file of the workspace.

        Args:
            path: Path to which the agent writes.
            name: Path of the text in the folder `files`, without the ending `.tmpl`; if empty, the same as `path`.
        """
        return write(path, load_text(self.package, name or path))

    def read_page(self, name: str, text: str) -> StepSpec:
        """Make a step in which the agent reads `docs/NAME.md`, where NAME is the argument `name`."""
        return look(f"read_{name.replace('-', '_')}", text, read(f"docs/{name}.md"))

    def write_module(self, name: str, text: str, *, first_cut: Iterable[tuple[str, str]] = ()) -> StepSpec:
        """Make a step in which the agent writes a module.

        Args:
            name: Name of the module.
            text: Text of the agent's message in the step.
            first_cut: Texts of the module, each with the text that replaces it in a first version with a bug.
        """
        return do(f"write_{name}", text, self.write_source(name, first_cut))

    def write_source(self, name: str, replacements: Iterable[tuple[str, str]] = ()) -> CallTemplate:
        """Return a tool call that writes the source of a module, with some of its texts replaced.

        Raises:
            ValueError: The source does not contain a text to be replaced.
        """
        source = load_text(self.package, self.module_text.format(name))
        for old, new in replacements:
            if old not in source:
                raise ValueError(f"the module {name!r} of {self.package} does not contain {old!r}, which is to be replaced")
            source = source.replace(old, new)
        return write(self.module_path.format(name), source)

    def write_paper(self, path: str, text: str, *, name: str = "") -> StepSpec:
        """Make a step in which the agent writes a document, whose text is in the task's folder `files/papers`.

        Args:
            path: Path of the document in the workspace.
            text: Text of the agent's message in the step.
            name: Name of the document in the name of the step, `write_NAME`. If empty, NAME is the file's name in small letters
                and without its ending.
        """
        file_name = path.rpartition("/")[2]
        call = self.write_text(path, f"papers/{file_name}")
        return do(f"write_{name or file_name.partition('.')[0].lower()}", text, call)

    def test_module(
        self, name: str, text: str, run_text: str = "", *, error: str = "", repair_text: str = ""
    ) -> tuple[StepSpec, StepSpec]:
        """Make two steps, in which the agent writes the tests of a module and then runs them.

        Args:
            name: Name of the module whose tests the agent writes and runs.
            text: Text of the agent's message in the step that writes the tests.
            run_text: Text of the agent's message in the step that runs the tests. If empty, a default text is used.
            error: Regular expression for the failure of the tests if the agent first writes the module with a bug; else empty.
            repair_text: Text of the agent's message that repairs the failure by writing the correct module.
        """
        run_step = do(
            f"test_{name}",
            run_text or f"Run the tests of {name}.",
            run(self.test_command.format(name)),
            summary_pattern=self.passed_pattern.format(name),
            required_text=self.test_name.format(name),
            repairs=(make_repair(error, repair_text, self.write_source(name)),) if error else (),
            effect="test",
        )
        return do(f"write_test_{name}", text, self.write_text(self.test_path.format(name))), run_step


def make_script(
    final_text: str,
    listed_prefixes: tuple[str, ...],
    *sections: Iterable[StepSpec],
    status_commands: Iterable[str] = (),
) -> Script:
    """Make a task's script from groups of step specifications.

    Args:
        final_text: Text of the agent's last message, which ends the work.
        listed_prefixes: Beginnings of the paths to which the agent writes. The folders of these files are listed to find out how
            far the work is.
        sections: Groups of step specifications, in order.
        status_commands: Shell commands that also show how far the work is.
    """
    specs = tuple(chain(*sections))
    paths = chain.from_iterable(_iter_listed_paths(spec, listed_prefixes) for spec in specs)
    folders = sorted({path.rpartition("/")[0] or "." for path in paths})
    status_calls = (*map(list_directory, folders), *map(run, status_commands))
    # the agent makes the status calls before the first step, which need not make them again
    first = replace(specs[0], calls=tuple(call for call in specs[0].calls if call not in status_calls))
    steps = build_steps((first, *specs[1:]) if first.calls else specs[1:], listed_prefixes)
    return Script(steps=steps, final_text=final_text, status_calls=status_calls)


def build_steps(specs: Iterable[StepSpec], listed_prefixes: tuple[str, ...]) -> tuple[Step, ...]:
    """Build the steps of a script, with the signs by which each step is recognised as done.

    Args:
        specs: Short specifications of the steps, in order.
        listed_prefixes: Beginnings of the paths to which the agent writes.
    """
    steps, written = list[Step](), set[str]()
    for spec in specs:
        paths = tuple(path for path in _iter_listed_paths(spec, listed_prefixes) if path not in written)
        written.update(paths)
        steps.append(_build_step(spec, paths))
    return tuple(steps)


@lru_cache(maxsize=4_096)
def _build_step(spec: StepSpec, own_paths: tuple[str, ...]) -> Step:
    """Build one step; `own_paths` are the files that no step before it writes."""
    receipts = tuple((call.tool, _build_receipt_pattern(call)) for call in spec.calls)
    own_path = own_paths[0] if own_paths else ""
    return Step(
        name=spec.name,
        text=spec.text,
        calls=spec.calls,
        done=Evidence(
            receipts=receipts,
            listed_paths=own_paths,
            summary_pattern=spec.summary_pattern or (own_path and _build_done_pattern(re.escape(own_path))),
            required_text=spec.required_text or own_path,
            in_output=bool(spec.summary_pattern),
            missing_pattern=spec.missing_pattern,
        ),
        required_facts=find_placeholders(spec.text, spec.calls),
        repairs=spec.repairs,
        effect=spec.effect,
    )


@lru_cache(maxsize=4_096)
def _build_receipt_pattern(call: CallTemplate) -> str:
    """Return a regular expression that finds a finished tool call by its first argument, e.g. a path.

    Placeholders in the argument match any value.
    """
    key = " ".join(call.arguments[0][1].split()).replace("$$", "$")
    shortened_key = key if len(key) <= 150 else re.sub(r"\$\{?\w*$", "", key[:150])  # cut off a placeholder split by the limit
    parts = re.split(r"\$\{\w+\}", shortened_key)
    whole = shortened_key == key
    return "^" + r"\S+".join(map(re.escape, parts)) + ("$" if whole else "")


def _iter_listed_paths(spec: StepSpec, listed_prefixes: tuple[str, ...]) -> Iterator[str]:
    """Yield the path of each file that a step writes, if the path begins in one of the given ways."""
    for call in spec.calls:
        path = call.arguments[0][1]
        if call.tool == "write_file" and path.startswith(listed_prefixes):
            yield path


def _build_done_pattern(path: str) -> str:
    """Return a regular expression for a line of a summary that reports the file as written."""
    return rf"(?i:{DONE_PATTERN}.{{0,60}}{path}\b|{path}\W.{{0,60}}{DONE_PATTERN})"


@lru_cache(maxsize=4_096)
def find_placeholders(text: str, calls: tuple[CallTemplate, ...]) -> tuple[str, ...]:
    """Return the names of all placeholders in a message and its tool calls, e.g. `port` for `${port}`.

    They are in order of appearance.
    """
    texts = [text, *(text for call in calls for _, text in call.arguments)]
    return tuple(dict.fromkeys(name for text in texts for name in Template(text).get_identifiers()))
