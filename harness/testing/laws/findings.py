"""What a law finds: which step, fact or check it is about, and what is wrong in plain words."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.testing.laws.session_cache import SessionCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that a law does not allow."""

    message: str
    """What is wrong, and where it helps what would be right; may quote hostile text."""
    step: str = ""
    """Name of the step of the script; empty = it is not about one."""
    fact: str = ""
    check: str = ""
    seed: int | None = None
    """Of the task; None = under any."""

    def __str__(self) -> str:
        where = [f"step {self.step!r}"] * bool(self.step) + [f"fact {self.fact!r}"] * bool(self.fact)
        where += [f"check {self.check!r}"] * bool(self.check) + [f"seed {self.seed}"] * (self.seed is not None)
        return f"{', '.join(where)}: {self.message}" if where else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """One thing that holds for every good task."""

    name: str
    """As in a test's id, e.g. `law-3`."""
    title: str
    """What holds, as a sentence."""
    find: Callable[[SessionCache, int, str], Iterable[Finding]]
    """From the sessions of a template, a task seed and the name of a preset to what is wrong."""
    stage: int
    """Laws of a later stage say nothing about a task that breaks one of an earlier stage."""
    by_preset: bool = False
    """Whether it depends on the policy."""
