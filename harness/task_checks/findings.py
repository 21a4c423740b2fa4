"""Findings (violations that validity checks report), and a function that recognizes the script step that each reply took.

The function `trace` compares a reply with the text and the tool calls that each step produces from the facts that are visible in
the request. It observes the model from outside and does not rely on the model's own bookkeeping.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Literal, NamedTuple, TypeAlias

from harness.conversation.messages import Message
from harness.models.scripted.profiles import EXACT, Reader
from harness.models.scripted.visible_state import ConversationReader
from harness.protocols import Reply, Request
from harness.task import CallTemplate, Check, Fact, Repair, Step, Task


@dataclass(frozen=True, slots=True)
class Finding:
    """Violation of a validity check by a task, with the step, fact or check that causes it.

    Attributes:
        message: Description of the violation, if possible with advice; may quote untrusted text. Required.
        step: Name of the step of the script that causes the violation; empty when no single step does. Default: `''`.
        fact: Name of the fact that causes the violation; empty when no single fact does. Default: `''`.
        check: Name of the check that causes the violation; empty when no single check does. Default: `''`.
        seed: Seed of the task that shows the violation; None when the violation does not depend on the seed. Default: `None`.

    Example:
        >>> from harness.testing import Finding
        >>> print(Finding("the step uses a value that is not visible", step="write config", fact="port", seed=1))
        step 'write config', fact 'port', seed 1: the step uses a value that is not visible
    """

    message: str
    step: str = ""
    fact: str = ""
    check: str = ""
    seed: int | None = None

    def __str__(self) -> str:
        location = [f"step {self.step!r}"] * bool(self.step) + [f"fact {self.fact!r}"] * bool(self.fact)
        location += [f"check {self.check!r}"] * bool(self.check) + [f"seed {self.seed}"] * (self.seed is not None)
        return f"{', '.join(location)}: {self.message}" if location else self.message


class LawSkippedError(Exception):
    """Raised when a validity check (law) cannot be tried on this machine or in this sandbox.

    The message states the reason.
    """


def read_values(text: str, fact: Fact) -> list[str]:
    """Return the values of a fact that its text patterns find in a text."""
    return [match[1] for pattern in fact.patterns for match in re.finditer(pattern, text, re.MULTILINE)]


def find_first_needing_step(task: Task, fact: str) -> str:
    """Return the name of the first step of the script that needs a fact; empty when no step needs it."""
    return next((step.name for step in task.script.steps if fact in collect_needs(step)), "")


def make_check_finding(task: Task, check: Check, words: str, seed: int) -> Finding:
    """Return an error report (a finding) about a check of a task.

    The finding also names the first fact that the check requires, and the first step that needs this fact.
    """
    fact = next(iter(check.required_facts), "")
    return Finding(words, step=find_first_needing_step(task, fact), fact=fact, check=check.name, seed=seed)


def collect_needs(step: Step) -> set[str]:
    """Return the facts that the agent needs to carry out or repair a step of the script."""
    return {*step.required_facts, *(name for repair in step.repairs for name in repair.required_facts)}


MoveKind: TypeAlias = Literal["step", "repair", "recovery", "end"]
"""Kind of an agent's reply: a step of the script, the repair of an error, the look-up of a lost fact, or the final text."""


class Move(NamedTuple):
    """Action that the scripted agent took in answer to one request, recognized from the request and the reply."""

    number: int
    """Position of the answered request in the session, from 1."""
    kind: MoveKind
    step: str
    """Name of the step of the script that was taken or repaired; empty when the agent recovered a fact or ended the session."""
    guessed_facts: tuple[str, ...]
    """Names of the facts that the step needed but the agent could not see, so that it used priors."""
    done_steps: frozenset[str]
    """Names of the steps of the script that were already done, as the messages of the request show."""
    values: Mapping[str, str]
    """Value of each fact that the agent used: the one that it saw, or else the prior."""
    calls: tuple[CallTemplate, ...]
    """Calls of the step or of the repair, with placeholders; empty when the agent recovered a fact or ended the session."""


class _ScriptedAction(NamedTuple):
    """Action that the script of a task describes: a step, or the repair of an error in a step."""

    kind: MoveKind
    step: str
    action: Step | Repair


def trace(task: Task, requests: Sequence[tuple[Request, Reply]], reading: Reader = EXACT) -> tuple[Move, ...]:
    """Return the action that the scripted agent took at each request of a session, in order.

    Args:
        task: Task that the agent worked on.
        requests: Requests of the session with their replies, in order.
        reading: Rule by which the agent finds values in texts.
    """
    reader, actions = ConversationReader(task.facts, task.script, reading), tuple(_list_actions(task))
    priors = {fact.name: fact.prior for fact in task.facts}
    names = [step.name for step in task.script.steps]
    moves = []
    for number, (request, reply) in enumerate(requests, start=1):
        visible = reader.read(request.messages)
        done_steps = frozenset(names[index] for index in visible.done_steps)
        values = {**priors, **visible.facts}
        matches = [action for action in actions if _is_match(action.action, reply.message, values)] if reply.message.calls else []
        if matches:
            chosen = next((candidate for candidate in matches if candidate.step not in done_steps), matches[0])
            guessed_facts = tuple(name for name in chosen.action.required_facts if name not in visible.facts)
            moves.append(Move(number, chosen.kind, chosen.step, guessed_facts, done_steps, values, chosen.action.calls))
        else:
            moves.append(Move(number, "recovery" if reply.message.calls else "end", "", (), done_steps, values, ()))
    return tuple(moves)


def _list_actions(task: Task) -> Iterator[_ScriptedAction]:
    for step in task.script.steps:
        yield _ScriptedAction("step", step.name, step)
        yield from (_ScriptedAction("repair", step.name, repair) for repair in step.repairs)


def _is_match(action: Step | Repair, message: Message, values: Mapping[str, str]) -> bool:
    if [call.name for call in message.calls] != [call.tool for call in action.calls]:
        return False
    if not message.text.endswith(Template(action.text).substitute(values)):
        return False
    written = [{name: Template(text).substitute(values) for name, text in call.arguments} for call in action.calls]
    return [json.loads(call.arguments_json) for call in message.calls] == written
