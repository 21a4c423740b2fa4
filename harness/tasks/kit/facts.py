"""Facts by where they are told: in the request, in a file, or by a command.

Patterns are regular expressions that read the value; `former_patterns` are those of other words, which tell an older value.
"""

from dataclasses import replace

from harness.task import Fact, FactKind
from harness.tasks.kit.calls import read, run


def make_prompt_fact(name: str, kind: FactKind, prior: str, *patterns: str, former_patterns: tuple[str, ...] = ()) -> Fact:
    """Make a fact of the user's messages, which nobody says again; `prior` is assumed without it."""
    return Fact(name=name, kind=kind, said_in="prompt", patterns=patterns, prior=prior, former_patterns=former_patterns)


def make_file_fact(
    name: str, kind: FactKind, path: str, prior: str, *patterns: str, command: str = "", former_patterns: tuple[str, ...] = ()
) -> Fact:
    """Make a fact in a file, which can be read again once the file is known to be there.

    Args:
        name: name of the fact.
        kind: kind of the fact.
        path: path of the file.
        prior: value that is assumed without the fact.
        patterns: regular expressions that read the value.
        command: shell command that shows the fact, if the file is too long to be read whole.
        former_patterns: regular expressions that read an older value.
    """
    fact = make_prompt_fact(name, kind, prior, *patterns, former_patterns=former_patterns)
    return replace(fact, said_in="file", recover=run(command) if command else read(path), source=path)


def make_output_fact(
    name: str, kind: FactKind, command: str, prior: str, *patterns: str, source: str = "", former_patterns: tuple[str, ...] = ()
) -> Fact:
    """Make a fact that a command prints.

    Args:
        name: name of the fact.
        kind: kind of the fact.
        command: shell command that prints the fact again; empty if it cannot be run again without harm.
        prior: value that is assumed without the fact.
        patterns: regular expressions that read the value.
        source: file that must be known to be there before the command is run again.
        former_patterns: regular expressions that read an older value.
    """
    fact = make_prompt_fact(name, kind, prior, *patterns, former_patterns=former_patterns)
    return replace(fact, said_in="output", recover=run(command) if command else None, source=source)
