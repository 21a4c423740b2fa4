"""Which step of the script stands behind each reply of a session, and which facts it took from a prior.

Found from outside: a reply is compared with what each step would have said and called, given what was visible. So it is an
observation of the model, not what the model says of itself.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import Template
from typing import Literal, NamedTuple, TypeAlias

from harness.messages import Message, ToolCall, part_text
from harness.models.scripted.visible_state import Reader, Sight
from harness.protocols import Reply, Request
from harness.task import CallTemplate, Task
from harness.transcript import arguments

MoveKind: TypeAlias = Literal["step", "repair", "recovery", "end"]


class Move(NamedTuple):
    """What the agent did at one request."""

    number: int
    """Of the request, from 1."""
    kind: MoveKind
    step: str
    """Name of the step that was taken or repaired; empty for the other kinds."""
    guessed: tuple[str, ...]
    """Facts of the step that were not visible, so that their priors were used."""
    done: frozenset[str]
    """Names of the steps that the request showed to be done."""


class _Deed(NamedTuple):
    """Something that the script may do next."""

    kind: MoveKind
    step: str
    says: str
    calls: Sequence[CallTemplate]
    needs: Sequence[str]


def trace(task: Task, requests: Sequence[tuple[Request, Reply]]) -> tuple[Move, ...]:
    """One move for each request, in order."""
    reader, deeds = Reader(task.facts, task.script), tuple(_deeds(task))
    priors = {fact.name: fact.prior for fact in task.facts}
    names = [step.name for step in task.script.steps]
    moves = []
    for number, (request, reply) in enumerate(requests, start=1):
        sight = reader.sight(request.messages)
        done = frozenset(names[index] for index in sight.done)
        moves.append(_move(number, done, sight, reply.message, deeds, priors))
    return tuple(moves)


def _deeds(task: Task) -> Iterable[_Deed]:
    for step in task.script.steps:
        yield _Deed("step", step.name, step.says, step.calls, step.needs)
        for repair in step.repairs:
            yield _Deed("repair", step.name, repair.says, repair.calls, repair.needs)


def _move(
    number: int, done: frozenset[str], sight: Sight, message: Message, deeds: Iterable[_Deed], priors: Mapping[str, str]
) -> Move:
    if not message.calls:
        return Move(number, "end", "", (), done)
    values = {**priors, **sight.facts}
    fitting = [deed for deed in deeds if _fits(deed, message, values)]
    if not fitting:
        return Move(number, "recovery", "", (), done)
    deed = next((deed for deed in fitting if deed.step not in done), fitting[0])
    guessed = tuple(name for name in deed.needs if name not in sight.facts)
    return Move(number, deed.kind, deed.step, guessed, done)


def _fits(deed: _Deed, message: Message, values: Mapping[str, str]) -> bool:
    if [call.name for call in message.calls] != [call.tool for call in deed.calls]:
        return False
    if not message.text.endswith(Template(deed.says).substitute(values)):
        return False
    written = [{name: Template(text).substitute(values) for name, text in call.arguments} for call in deed.calls]
    return [json.loads(call.arguments_json) for call in message.calls] == written


def shown_texts(message: Message) -> Iterator[str]:
    """What a message shows: its text, its results, and what its calls wrote."""
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield from (value for value in arguments(part).values() if isinstance(value, str))
        else:
            yield part_text(part)
