"""A made-up session of one prompt: an agent that reads, changes and tests the files of a small library, for ever.

Every number of it comes from the number of its step, so it is the same everywhere and as long as one wants. Sizes are drawn
as they are met in the field: most outputs are short, some fill pages, a few are longer than what is logged of them. It stands
in for a real session where a policy is shown; what a policy costs is measured on tasks, never on this.
"""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.messages import Message, ToolCall, assistant
from harness.protocols import Need, Oracle

PROMPT = """\
The library under ledger/ books payments. Make it settle invoices in several currencies.
All amounts stay whole numbers of the smallest unit; never use floating point.
Rates come from rates.csv and are read once. Keep the public names of every module as they are.
Add a test beside every module that you change, and leave the tests passing."""

NOUNS = (
    "account",
    "balance",
    "booking",
    "currency",
    "entry",
    "invoice",
    "journal",
    "ledger",
    "payment",
    "rate",
    "receipt",
    "total",
)
VERBS = ("adds", "books", "checks", "converts", "copies", "finds", "joins", "keeps", "reads", "settles", "splits", "writes")
CHARACTERS_A_PAGE = (400, 900, 1_500, 2_500, 4_500, 9_000, 16_000)
OFTEN = (6, 6, 5, 4, 3, 2, 1)
"""How often each of these sizes is drawn."""
CHANGED_AFTER_STEPS = 7
"""A file that is read in a step is written again so many steps later."""
CALL = re.compile(r"step-(\d+)")


@dataclass(frozen=True, slots=True)
class SampleStep:
    """One step of the session."""

    answer: Message
    output: str
    """Of its one call, before any cut."""


@lru_cache(maxsize=2_000)
def sample_step(number: int) -> SampleStep:
    """The step of a number, from 1."""
    draw = random.Random(f"sample/{number}")
    (size,) = draw.choices(CHARACTERS_A_PAGE, OFTEN)
    turn = number % 3
    if turn == 1:
        return _step(number, draw, "read_file", {"path": _file(number)}, _code(draw, size))
    if turn == 2 and number > CHANGED_AFTER_STEPS:
        path = _file(number - CHANGED_AFTER_STEPS)
        content = _code(draw, min(size, CHARACTERS_A_PAGE[-2]))
        return _step(number, draw, "write_file", {"path": path, "content": content}, f"wrote {len(content)} bytes to {path}")
    return _step(number, draw, "execute_command", {"command": f"pytest tests/test_{_name(number)}.py"}, _report(draw, size))


def _step(number: int, draw: random.Random, tool: str, arguments: dict[str, str], output: str) -> SampleStep:
    says = f"{_line(draw)} {_line(draw)}"
    call = ToolCall(call_id=f"step-{number}", name=tool, arguments_json=json.dumps(arguments))
    return SampleStep(assistant(says, call), output)


def _name(number: int) -> str:
    first, second = random.Random(f"file/{number % 60}").sample(NOUNS, 2)
    return f"{first}_{second}"


def _file(number: int) -> str:
    return f"ledger/{_name(number)}.py"


def _line(draw: random.Random) -> str:
    first, second, third = draw.sample(NOUNS, 3)
    return f"The {first} of step {draw.randrange(1_000)} {draw.choice(VERBS)} the {second} before the {third}."


def _code(draw: random.Random, characters: int) -> str:
    lines = ['"""Part of the ledger."""', ""]
    while sum(map(len, lines)) < characters:
        first, second = draw.sample(NOUNS, 2)
        name = f"{draw.choice(VERBS)}_{first}_{draw.randrange(100)}"
        lines += [
            f"def {name}({first}: int, {second}: int) -> int:",
            f'    """{_line(draw)}"""',
            f"    return {first} - {second}",
        ]
    return "\n".join(lines)


def _report(draw: random.Random, characters: int) -> str:
    lines: list[str] = []
    while sum(map(len, lines)) < characters:
        lines.append(
            f"tests/test_{draw.choice(NOUNS)}.py::test_it_{draw.choice(VERBS)} {draw.choice(('PASSED', 'PASSED', 'FAILED'))}"
        )
    return "\n".join(("exit code 1", *lines))


class SampleOracle:
    """What the rest of the session needs: the request, always; a file that was read, until it is written again. Pure."""

    def predict_needs(self, messages: Sequence[Message]) -> Sequence[Need | None]:
        """See `harness.protocols.Foresight`."""
        numbers = [self._number(message) for message in messages]
        now = max((number for number in numbers if number is not None), default=0)
        return [self._need(message, number, now) for message, number in zip(messages, numbers, strict=True)]

    @staticmethod
    def _number(message: Message) -> int | None:
        named = [call.call_id for call in message.calls] + [result.call_id for result in message.results]
        found = CALL.fullmatch(named[0]) if named else None
        return int(found[1]) if found else None

    @staticmethod
    def _need(message: Message, number: int | None, now: int) -> Need | None:
        if number is None:
            return Need(0, lost_for_good=True) if message.role == "user" else None
        left = number + CHANGED_AFTER_STEPS - now
        tools = [call.name for call in message.calls] + [result.name for result in message.results]
        return Need(left) if "read_file" in tools and left >= 0 else None


if TYPE_CHECKING:
    _: type[Oracle] = SampleOracle
