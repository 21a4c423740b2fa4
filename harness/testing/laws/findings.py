"""What a law finds: which step, fact or check it is about, and what is wrong in plain words."""

import re
from dataclasses import dataclass

from harness.task import Check, Fact, Step, Task


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
    """Seed of the task; None = under any."""

    def __str__(self) -> str:
        where = [f"step {self.step!r}"] * bool(self.step) + [f"fact {self.fact!r}"] * bool(self.fact)
        where += [f"check {self.check!r}"] * bool(self.check) + [f"seed {self.seed}"] * (self.seed is not None)
        return f"{', '.join(where)}: {self.message}" if where else self.message


def read_values(text: str, fact: Fact) -> list[str]:
    """Return what the patterns of a fact read out of a text."""
    return [match[1] for pattern in fact.patterns for match in re.finditer(pattern, text, re.MULTILINE)]


def find_first_needing_step(task: Task, fact: str) -> str:
    """Return the first step that needs a fact; empty = none does."""
    return next((step.name for step in task.script.steps if fact in collect_needs(step)), "")


def make_check_finding(task: Task, check: Check, words: str, seed: int) -> Finding:
    """Report what is wrong with a check, with the first fact that it rests on and the first step that needs this."""
    fact = next(iter(check.required_facts), "")
    return Finding(message=words, step=find_first_needing_step(task, fact), fact=fact, check=check.name, seed=seed)


def collect_needs(step: Step) -> set[str]:
    """Return the facts that a step or one of its repairs needs."""
    return {*step.required_facts, *(name for repair in step.repairs for name in repair.required_facts)}
