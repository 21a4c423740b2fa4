"""Functions that define the facts of a task, one function for each place where a task can state a fact."""

from dataclasses import replace

from harness.task import Fact, FactKind
from harness.tasks.kit.calls import read, run


def make_prompt_fact(
    name: str,
    kind: FactKind,
    prior: str,
    *patterns: str,
    former_patterns: tuple[str, ...] = (),
    also_in: tuple[str, ...] = (),
) -> Fact:
    """Make a fact that only the prompt states.

    The agent cannot look up a forgotten value.

    Args:
        name: Name of the fact, and of its placeholder in the script.
        kind: Kind of information, e.g. `constraint` or `artifact`.
        prior: Default guess, always wrong, that a scripted model uses when it has forgotten the fact.
        patterns: Regular expressions that find the value in a text; each has one group, which matches the value.
        former_patterns: Regular expressions that find an older value, which is now wrong, in a text.
        also_in: Paths of files that contain the value although the agent has no reason to look there.
    """
    return Fact(
        name=name,
        kind=kind,
        said_in="prompt",
        patterns=patterns,
        prior=prior,
        former_patterns=former_patterns,
        also_in=also_in,
    )


def make_file_fact(
    name: str, kind: FactKind, path: str, prior: str, *patterns: str, command: str = "", former_patterns: tuple[str, ...] = ()
) -> Fact:
    """Make a fact that a file states.

    The agent can read the file again once a directory listing shows its path.

    Args:
        name: Name of the fact, and of its placeholder in the script.
        kind: Kind of information, e.g. `constraint` or `artifact`.
        path: Path of the file that states the value.
        prior: Default guess, always wrong, of a scripted model that has forgotten the fact and cannot recover the value.
        patterns: Regular expressions that find the value in a text; each has one group, which matches the value.
        command: Shell command that shows the value, for a file too long to be read as a whole. If empty, the file is read.
        former_patterns: Regular expressions that find an older value, which is now wrong, in a text.
    """
    fact = make_prompt_fact(name, kind, prior, *patterns, former_patterns=former_patterns)
    return replace(fact, said_in="file", recover=run(command) if command else read(path), source=path)


def make_output_fact(
    name: str,
    kind: FactKind,
    command: str,
    prior: str,
    *patterns: str,
    source: str = "",
    former_patterns: tuple[str, ...] = (),
    also_in: tuple[str, ...] = (),
) -> Fact:
    """Make a fact that a shell command prints.

    Args:
        name: Name of the fact, and of its placeholder in the script.
        kind: Kind of information, e.g. `constraint` or `artifact`.
        command: Shell command that prints the value again. Empty if a second run would do harm; a forgotten value is then lost.
        prior: Default guess, always wrong, of a scripted model that has forgotten the fact and cannot recover the value.
        patterns: Regular expressions that find the value in a text; each has one group, which matches the value.
        source: Path that must appear in a directory listing before `command` is run again.
        former_patterns: Regular expressions that find an older value, which is now wrong, in a text.
        also_in: Paths of files that contain the value although the agent has no reason to look there.
    """
    fact = make_prompt_fact(name, kind, prior, *patterns, former_patterns=former_patterns, also_in=also_in)
    return replace(fact, said_in="output", recover=run(command) if command else None, source=source)


def make_tool_fact(name: str, kind: FactKind, command: str, prior: str, *patterns: str) -> Fact:
    """Make a fact that a Python tool of the workspace prints on every run.

    Args:
        name: Name of the fact, and of its placeholder in the script.
        kind: Kind of information, e.g. `constraint` or `artifact`.
        command: Path of the Python tool, e.g. `tools/contract.py`, followed by its arguments.
        prior: Default guess, always wrong, of a scripted model that has forgotten the fact and cannot recover the value.
        patterns: Regular expressions that find the value in a text; each has one group, which matches the value.
    """
    return make_output_fact(name, kind, f"python3 {command}", prior, *patterns, source=command.split(maxsplit=1)[0])
