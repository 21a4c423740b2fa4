"""Random draws of values under a seed, and what the tools of a workspace compute from them."""

import hashlib
import random
from collections.abc import Mapping, Sequence


def make_rng(task: str, task_seed: int, name: str) -> random.Random:
    """Make the generator of one random choice of a task under a seed; no choice moves another."""
    return random.Random(hashlib.sha256(f"{task}/{task_seed}/{name}".encode()).digest())


def draw_choices(
    task: str, task_seed: int, choices: Mapping[str, Sequence[object]], teams: Sequence[str], *, salt_name: str = "salt"
) -> dict[str, str]:
    """Draw values of facts, the ticket, and a secret from which the tools of the workspace compute what they print.

    Args:
        task: name of the task.
        task_seed: seed of the task.
        choices: possible values by the name of the fact.
        teams: possible beginnings of the ticket.
        salt_name: name of the secret.
    """
    values = {name: str(make_rng(task, task_seed, name).choice(options)) for name, options in choices.items()}
    team, number = make_rng(task, task_seed, "team").choice(teams), make_rng(task, task_seed, "ticket").randrange(1000, 10_000)
    return {**values, "ticket": f"{team}-{number}", salt_name: f"{make_rng(task, task_seed, salt_name).getrandbits(48):012x}"}


def compute_digest(salt: str, subject: str) -> str:
    """Return the hexadecimal digits from which the tools of a workspace take what they print."""
    return hashlib.sha256(f"{salt}:{subject}".encode()).hexdigest()


def derive_number(digits: str, prefix: str) -> str:
    """Return an identifier of four decimal digits that follows from hexadecimal ones."""
    return f"{prefix}-{int(digits, 16) % 9000 + 1000}"
