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

SAMPLE_PROMPT = """\
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
OUTPUT_SIZES = (400, 900, 1_500, 2_500, 4_500, 9_000, 16_000)
SIZE_WEIGHTS = (6, 6, 5, 4, 3, 2, 1)
"""How often each of these sizes is drawn."""
REWRITE_AFTER_STEPS = 7
"""A file that is read in a step is written again so many steps later."""
CALL_ID_PATTERN = re.compile(r"step-(\d+)")


@dataclass(frozen=True, slots=True)
class SampleStep:
    """One step of the session."""

    answer: Message
    output: str
    """Of its one call, before any cut."""


@lru_cache(maxsize=2_000)
def make_sample_step(number: int) -> SampleStep:
    """The step of a number, from 1."""
    rng = random.Random(f"sample/{number}")
    (size,) = rng.choices(OUTPUT_SIZES, SIZE_WEIGHTS)
    kind_number = number % 3
    if kind_number == 1:
        return _make_step(number, rng, "read_file", {"path": _choose_path(number)}, _write_code(rng, size))
    if kind_number == 2 and number > REWRITE_AFTER_STEPS:
        path = _choose_path(number - REWRITE_AFTER_STEPS)
        content = _write_code(rng, min(size, OUTPUT_SIZES[-2]))
        return _make_step(number, rng, "write_file", {"path": path, "content": content}, f"wrote {len(content)} bytes to {path}")
    return _make_step(
        number, rng, "execute_command", {"command": f"pytest tests/test_{_choose_name(number)}.py"}, _write_report(rng, size)
    )


def _make_step(number: int, rng: random.Random, tool: str, arguments: dict[str, str], output: str) -> SampleStep:
    text = f"{_write_sentence(rng)} {_write_sentence(rng)}"
    call = ToolCall(call_id=f"step-{number}", name=tool, arguments_json=json.dumps(arguments))
    return SampleStep(assistant(text, call), output)


def _choose_name(number: int) -> str:
    first, second = random.Random(f"file/{number % 60}").sample(NOUNS, 2)
    return f"{first}_{second}"


def _choose_path(number: int) -> str:
    return f"ledger/{_choose_name(number)}.py"


def _write_sentence(rng: random.Random) -> str:
    first, second, third = rng.sample(NOUNS, 3)
    return f"The {first} of step {rng.randrange(1_000)} {rng.choice(VERBS)} the {second} before the {third}."


def _write_code(rng: random.Random, characters: int) -> str:
    lines = ['"""Part of the ledger."""', ""]
    while sum(map(len, lines)) < characters:
        first, second = rng.sample(NOUNS, 2)
        name = f"{rng.choice(VERBS)}_{first}_{rng.randrange(100)}"
        lines += [
            f"def {name}({first}: int, {second}: int) -> int:",
            f'    """{_write_sentence(rng)}"""',
            f"    return {first} - {second}",
        ]
    return "\n".join(lines)


def _write_report(rng: random.Random, characters: int) -> str:
    lines: list[str] = []
    while sum(map(len, lines)) < characters:
        lines.append(
            f"tests/test_{rng.choice(NOUNS)}.py::test_it_{rng.choice(VERBS)} {rng.choice(('PASSED', 'PASSED', 'FAILED'))}"
        )
    return "\n".join(("exit code 1", *lines))


class SampleOracle:
    """What the rest of the session needs: the request, always; a file that was read, until it is written again. Pure."""

    def predict_needs(self, messages: Sequence[Message]) -> Sequence[Need | None]:
        """See `harness.protocols.Oracle`."""
        numbers = [self._number(message) for message in messages]
        now = max((number for number in numbers if number is not None), default=0)
        return [self._need(message, number, now) for message, number in zip(messages, numbers, strict=True)]

    @staticmethod
    def _number(message: Message) -> int | None:
        named = [call.call_id for call in message.calls] + [result.call_id for result in message.results]
        found = CALL_ID_PATTERN.fullmatch(named[0]) if named else None
        return int(found[1]) if found else None

    @staticmethod
    def _need(message: Message, number: int | None, now: int) -> Need | None:
        if number is None:
            return Need(0, lost_for_good=True) if message.role == "user" else None
        left = number + REWRITE_AFTER_STEPS - now
        tools = [call.name for call in message.calls] + [result.name for result in message.results]
        return Need(left) if "read_file" in tools and left >= 0 else None


if TYPE_CHECKING:
    _: type[Oracle] = SampleOracle
