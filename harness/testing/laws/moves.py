"""Which step of the script stands behind each reply of a session, and which facts it took from a prior.

Found from outside: a reply is compared with what each step would have said and called, given what was visible. So it is an
observation of the model, not what the model says of itself.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import Template
from typing import Literal, NamedTuple, TypeAlias

from harness.messages import Message, ToolCall, extract_part_text
from harness.models.scripted.visible_state import ConversationReader, VisibleState
from harness.protocols import Reply, Request
from harness.task import CallTemplate, Task
from harness.transcript import parse_arguments

MoveKind: TypeAlias = Literal["step", "repair", "recovery", "end"]


class Move(NamedTuple):
    """What the agent did at one request."""

    number: int
    """Of the request, from 1."""
    kind: MoveKind
    step: str
    """Name of the step that was taken or repaired; empty for the other kinds."""
    guessed_facts: tuple[str, ...]
    """Facts of the step that were not visible, so that their priors were used."""
    done_steps: frozenset[str]
    """Names of the steps that the request showed to be done."""


class _ScriptedAction(NamedTuple):
    """Something that the script may do next."""

    kind: MoveKind
    step: str
    says: str
    calls: Sequence[CallTemplate]
    needs: Sequence[str]


def trace(task: Task, requests: Sequence[tuple[Request, Reply]]) -> tuple[Move, ...]:
    """Return one move for each request, in order."""
    reader, deeds = ConversationReader(task.facts, task.script), tuple(_list_actions(task))
    priors = {fact.name: fact.prior for fact in task.facts}
    names = [step.name for step in task.script.steps]
    moves = []
    for number, (request, reply) in enumerate(requests, start=1):
        sight = reader.read(request.messages)
        done = frozenset(names[index] for index in sight.done_steps)
        moves.append(_trace_move(number, done, sight, reply.message, deeds, priors))
    return tuple(moves)


def _list_actions(task: Task) -> Iterable[_ScriptedAction]:
    for step in task.script.steps:
        yield _ScriptedAction("step", step.name, step.text, step.calls, step.required_facts)
        for repair in step.repairs:
            yield _ScriptedAction("repair", step.name, repair.text, repair.calls, repair.required_facts)


def _trace_move(
    number: int,
    done_steps: frozenset[str],
    sight: VisibleState,
    message: Message,
    actions: Iterable[_ScriptedAction],
    priors: Mapping[str, str],
) -> Move:
    if not message.calls:
        return Move(number, "end", "", (), done_steps)
    values = {**priors, **sight.facts}
    fitting = [deed for deed in actions if _is_match(deed, message, values)]
    if not fitting:
        return Move(number, "recovery", "", (), done_steps)
    deed = next((deed for deed in fitting if deed.step not in done_steps), fitting[0])
    guessed = tuple(name for name in deed.needs if name not in sight.facts)
    return Move(number, deed.kind, deed.step, guessed, done_steps)


def _is_match(action: _ScriptedAction, message: Message, values: Mapping[str, str]) -> bool:
    if [call.name for call in message.calls] != [call.tool for call in action.calls]:
        return False
    if not message.text.endswith(Template(action.says).substitute(values)):
        return False
    written = [{name: Template(text).substitute(values) for name, text in call.arguments} for call in action.calls]
    return [json.loads(call.arguments_json) for call in message.calls] == written


def list_shown_texts(message: Message) -> Iterator[str]:
    """Return what a message shows: its text, its results, and what its calls wrote."""
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield from (value for value in parse_arguments(part).values() if isinstance(value, str))
        else:
            yield extract_part_text(part)
