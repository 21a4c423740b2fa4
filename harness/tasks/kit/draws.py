"""Functions that draw the values to remember of a task at random, or compute from a secret the values that its tools print."""

import hashlib
import random
from collections.abc import Mapping, Sequence

from harness.errors import UsageError
from harness.task import Fact


def make_rng(task: str, task_seed: int, name: str) -> random.Random:
    """Return the random generator for one random choice in a task.

    Generators for choices with different names are independent of each other.

    Args:
        task: Name of the task.
        task_seed: Seed of the task.
        name: Name of the choice, e.g. of the fact whose value is drawn.
    """
    return random.Random(hashlib.sha256(f"{task}/{task_seed}/{name}".encode()).digest())


def draw_values(task: str, task_seed: int, facts: Sequence[Fact], choices: Mapping[str, Sequence[object]]) -> dict[str, str]:
    """Draw a random value for each fact of a task, but never the value that an agent would guess (the prior).

    Args:
        task: Name of the task.
        task_seed: Seed of the task.
        facts: Facts of the task; the prior of each one is excluded from its possible values.
        choices: Possible values by name, usually the name of a fact.

    Raises:
        UsageError: The prior of a fact is the only possible value of the fact.
    """
    priors = {fact.name: fact.prior for fact in facts}
    values = {}
    for name, options in choices.items():
        allowed = _exclude(options, priors.get(name))
        if not allowed:
            raise UsageError(
                f"the fact {name!r} has no possible value except its prior (the value that an agent would guess), "
                f"{priors.get(name)!r}; add other values to the choices"
            )
        values[name] = str(make_rng(task, task_seed, name).choice(allowed))
    return values


def _exclude(options: Sequence[object], prior: str | None) -> Sequence[object]:
    """Return the possible values of a fact without the value that an agent would guess (the prior)."""
    # A range without the prior is returned as it is, so that its numbers are not copied into a list.
    if isinstance(options, range) and not (prior and prior.isdecimal() and int(prior) in options):
        return options
    return [option for option in options if str(option) != prior]


def draw_choices(
    task: str,
    task_seed: int,
    facts: Sequence[Fact],
    choices: Mapping[str, Sequence[object]],
    teams: Sequence[str],
    *,
    salt_name: str = "salt",
) -> dict[str, str]:
    """Draw at random the values to remember, a ticket number, and a secret.

    The tools of the task compute their output from the secret.

    Args:
        task: Name of the task.
        task_seed: Seed of the task.
        facts: Facts of the task, whose priors are never drawn.
        choices: Possible values of each fact, by name of the fact.
        teams: Possible prefixes of the ticket number, e.g. `HQ` in `HQ-0412`.
        salt_name: Key under which the returned dictionary holds the secret.
    """
    values = draw_values(task, task_seed, facts, choices)
    team, number = make_rng(task, task_seed, "team").choice(teams), make_rng(task, task_seed, "ticket").randrange(1000, 10_000)
    return {**values, "ticket": f"{team}-{number}", salt_name: f"{make_rng(task, task_seed, salt_name).getrandbits(48):012x}"}


def compute_digest(salt: str, subject: str) -> str:
    """Return the SHA-256 digest, in hexadecimal, of a task's secret and a subject.

    Tools in the workspace print values made from such digests, so an agent cannot guess the values.
    """
    return hashlib.sha256(f"{salt}:{subject}".encode()).hexdigest()


def derive_number(digits: str, prefix: str) -> str:
    """Return an identifier such as `R-4711`: a prefix and four digits computed from a hexadecimal digest."""
    return f"{prefix}-{int(digits, 16) % 9000 + 1000}"
