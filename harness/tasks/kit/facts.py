"""Facts by where they are told (in the request, on a page, or by a command), and random draws of their values."""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from harness.task import CallTemplate, Fact, FactKind


def make_prompt_fact(name: str, kind: FactKind, prior: str, *patterns: str) -> Fact:
    """Make a fact of the user's messages, which nobody says again."""
    return Fact(name=name, kind=kind, said_in="prompt", patterns=patterns, prior=prior)


def make_file_fact(name: str, kind: FactKind, path: str, prior: str, *patterns: str, command: str = "") -> Fact:
    """Make a fact in a file, which can be read again once the file is known to be there.

    Args:
        name: name of the fact.
        kind: kind of the fact.
        path: path of the file.
        prior: value that is assumed without the fact.
        patterns: regular expressions that read the value.
        command: shell command that shows the fact, if the file is too long to be read whole.
    """
    recover_call = _run(command) if command else CallTemplate(tool="read_file", arguments=(("path", path),))
    return Fact(name=name, kind=kind, said_in="file", patterns=patterns, prior=prior, recover=recover_call, source=path)


def make_output_fact(name: str, kind: FactKind, command: str, prior: str, *patterns: str, source: str = "") -> Fact:
    """Make a fact that a command prints.

    Args:
        name: name of the fact.
        kind: kind of the fact.
        command: shell command that prints the fact again; empty if it cannot be run again without harm.
        prior: value that is assumed without the fact.
        patterns: regular expressions that read the value.
        source: file that must be known to be there before the command is run again.
    """
    recover_call = _run(command) if command else None
    return Fact(name=name, kind=kind, said_in="output", patterns=patterns, prior=prior, recover=recover_call, source=source)


def _run(command: str) -> CallTemplate:
    return CallTemplate(tool="execute_command", arguments=(("command", command),))


def with_former_patterns(fact: Fact, *former: str) -> Fact:
    """Return the fact with patterns that read an older value, told in other words."""
    return replace(fact, former_patterns=former)


def make_rng(task: str, task_seed: int, name: str) -> random.Random:
    """Make the generator of one random choice of a task under a seed; no choice moves another."""
    return random.Random(hashlib.sha256(f"{task}/{task_seed}/{name}".encode()).digest())


def draw_choices(
    rng_for: Callable[[str], random.Random], choices: Mapping[str, Sequence[object]], teams: Sequence[str]
) -> dict[str, str]:
    """Draw one of its choices for each fact, and the ticket, which begins with one of the names of teams."""
    values = {name: str(rng_for(name).choice(options)) for name, options in choices.items()}
    return values | {"ticket": f"{rng_for('team').choice(teams)}-{rng_for('ticket').randrange(1000, 10_000)}"}


def draw_salt(rng_for: Callable[[str], random.Random], name: str = "salt") -> str:
    """Draw the secret from which the tools of a workspace compute what they print."""
    return f"{rng_for(name).getrandbits(48):012x}"


def compute_digest(salt: str, subject: str) -> str:
    """Return the hexadecimal digits from which the tools of a workspace take what they print."""
    return hashlib.sha256(f"{salt}:{subject}".encode()).hexdigest()


def derive_number(digits: str, prefix: str) -> str:
    """Return an identifier of four decimal digits that follows from hexadecimal ones."""
    return f"{prefix}-{int(digits, 16) % 9000 + 1000}"
