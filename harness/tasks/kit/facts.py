"""Functions that make facts: one each for facts stated in the prompt, in a file, and in the output of a command."""

from dataclasses import replace

from harness.task import Fact, FactKind
from harness.tasks.kit.calls import read, run


def make_prompt_fact(name: str, kind: FactKind, prior: str, *patterns: str, former_patterns: tuple[str, ...] = ()) -> Fact:
    """Make a fact that only the user states, so that the value cannot be recovered.

    Args:
        name: Name of the fact.
        kind: Kind of information.
        prior: Value that a scripted model uses when the fact is not visible.
        patterns: Regular expressions that read the value.
        former_patterns: Regular expressions that read an older value.
    """
    return Fact(name=name, kind=kind, said_in="prompt", patterns=patterns, prior=prior, former_patterns=former_patterns)


def make_file_fact(
    name: str, kind: FactKind, path: str, prior: str, *patterns: str, command: str = "", former_patterns: tuple[str, ...] = ()
) -> Fact:
    """Make a fact stated in a file; the file can be read again once a directory listing shows its path.

    Args:
        name: Name of the fact.
        kind: Kind of information.
        path: Path of the file.
        prior: Value that a scripted model uses when the fact is neither visible nor recoverable.
        patterns: Regular expressions that read the value.
        command: Shell command that shows the value, for a file too long to be read as a whole. Empty reads the file.
        former_patterns: Regular expressions that read an older value.
    """
    fact = make_prompt_fact(name, kind, prior, *patterns, former_patterns=former_patterns)
    return replace(fact, said_in="file", recover=run(command) if command else read(path), source=path)


def make_output_fact(
    name: str, kind: FactKind, command: str, prior: str, *patterns: str, source: str = "", former_patterns: tuple[str, ...] = ()
) -> Fact:
    """Make a fact printed by a command.

    Args:
        name: Name of the fact.
        kind: Kind of information.
        command: Shell command that prints the value again. Empty if a second run would do harm; the value is then lost.
        prior: Value that a scripted model uses when the fact is neither visible nor recoverable.
        patterns: Regular expressions that read the value.
        source: Path that must appear in a directory listing before `command` is run again.
        former_patterns: Regular expressions that read an older value.
    """
    fact = make_prompt_fact(name, kind, prior, *patterns, former_patterns=former_patterns)
    return replace(fact, said_in="output", recover=run(command) if command else None, source=source)


def make_tool_fact(name: str, kind: FactKind, command: str, prior: str, *patterns: str) -> Fact:
    """Make a fact printed by a Python tool of the workspace, e.g. `tools/contract.py`, which can be run again at any time.

    Args:
        name: Name of the fact.
        kind: Kind of information.
        command: Path of the tool, followed by its arguments.
        prior: Value that a scripted model uses when the fact is neither visible nor recoverable.
        patterns: Regular expressions that read the value.
    """
    return make_output_fact(name, kind, f"python3 {command}", prior, *patterns, source=command.split(maxsplit=1)[0])
