"""Facts by where they are told: in the request, on a page, or by a command; and where the values of a seed come from."""

import hashlib
import random
from dataclasses import replace

from harness.task import CallTemplate, Fact, FactKind


def make_prompt_fact(name: str, kind: FactKind, prior: str, *patterns: str) -> Fact:
    """A fact of the user's messages, which nobody says again."""
    return Fact(name=name, kind=kind, said_in="prompt", patterns=patterns, prior=prior)


def make_file_fact(name: str, kind: FactKind, path: str, prior: str, *patterns: str) -> Fact:
    """A fact in a file, which can be read again once the file is known to be there."""
    recover_call = CallTemplate(tool="read_file", arguments=(("path", path),))
    return Fact(name=name, kind=kind, said_in="file", patterns=patterns, prior=prior, recover=recover_call, source=path)


def make_output_fact(name: str, kind: FactKind, command: str, prior: str, *patterns: str, source: str = "") -> Fact:
    """A fact that a command prints.

    Args:
        name: of the fact.
        kind: of the fact.
        command: prints it again; empty if it cannot be run again without harm.
        prior: what is assumed without it.
        patterns: read it.
        source: file that must be known to be there before the command is run again.
    """
    recover_call = CallTemplate(tool="execute_command", arguments=(("command", command),)) if command else None
    return Fact(name=name, kind=kind, said_in="output", patterns=patterns, prior=prior, recover=recover_call, source=source)


def with_former_patterns(fact: Fact, *former: str) -> Fact:
    """A fact that other words tell with an older value, which these patterns read."""
    return replace(fact, former_patterns=former)


def make_rng(task: str, task_seed: int, name: str) -> random.Random:
    """The source of one random choice of a task under a seed: no choice moves another."""
    return random.Random(hashlib.sha256(f"{task}/{task_seed}/{name}".encode()).digest())
