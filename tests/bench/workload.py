"""Texts of the sessions of benchmarks; they use only the standard library, since the drivers of other programs use them too."""

import random

REQUEST = "Look at every part of the repository and report what you see."
FINAL_TEXT = "done"
TOOL = "execute_command"
SYLLABLES = [first + vowel + last for first in "bdfgklmnprst" for vowel in "aeiou" for last in ("", "n", "r", "st", "x")]


def think(number: int) -> str:
    """Return the text that the model writes before its call of a tool, about 100 characters."""
    return f"Step {number}. " + "I look at the next part of it. " * 3


def command(number: int) -> str:
    """Return the command that the model calls its tool with, about 80 characters."""
    return f"grep -rn 'pattern number {number}' src/package_{number}/module_{number}.py | sort"


def words(number: int, characters: int = 2_000) -> str:
    """Return unique text that compresses like the output of a program."""
    draw = random.Random(number)

    def name() -> str:
        return "".join(draw.choices(SYLLABLES, k=draw.choice((2, 2, 3))))

    text = "exit code 0\n"
    while len(text) < characters:
        text += f"{draw.choice(('src', 'tests', 'docs'))}/{name()}.py:{draw.randrange(900)}: "
        text += f"{draw.choice(('def', 'return', 'assert', 'import'))} {name()}_{name()}({name()}, {draw.randrange(10_000)})\n"
    return text[:characters]


def make_outputs(steps: int, session: int = 0) -> list[str]:
    """Return the outputs of the tool in a session; its last step calls no tool, so there is one less than there are steps."""
    return [words(session * steps + step) for step in range(steps - 1)]
