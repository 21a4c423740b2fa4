"""Command-line options that several commands share, and the functions that read their values."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import click

from harness.conversation.codec import MAX_WHOLE_NUMBER
from harness.errors import UsageError
from harness.models.cassette import Cassette
from harness.recordings.session_log import Reading
from harness.sandboxes.backends import BACKEND_CHOICES
from harness.task import DIFFICULTIES

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


class PositiveNumber(click.IntRange):
    """Option value that must be a whole number from 1 to `MAX_WHOLE_NUMBER`."""

    def __init__(self) -> None:
        # click would show a maximum in the help text too
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the value as a number, or fail with a message about the option."""
        number: int = super().convert(value, param, ctx)
        if number > MAX_WHOLE_NUMBER:
            self.fail(f"a number of {number.bit_length()} bits is too large", param, ctx)
        return number


POSITIVE = PositiveNumber()

BACKEND = click.option("--backend", type=click.Choice(BACKEND_CHOICES), default="auto", help="Sandbox in which commands run.")
UNSAFE_LOCAL = click.option("--unsafe-local", is_flag=True, help="Allow the sandbox `local`, which isolates nothing.")
DIFFICULTY = click.option(
    "--difficulty", type=click.Choice(DIFFICULTIES), default="standard", help="Level of the task's demands on the agent's memory."
)
FIELDS = click.option(
    "--set", "fields", multiple=True, metavar="FIELD=VALUE", help="Set a field of the policy, e.g. keep_last=20. Repeatable."
)
NOMINAL_WINDOW = click.option(
    "--nominal-window", "nominal_window_tokens", type=POSITIVE, help="Window in tokens that the policy's constants were made for."
)
OUTPUT_LIMIT_SCALE = click.option(
    "--output-limit-scale",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    help="Factor on the policy's limits on the length of tool outputs.",
)
READING = click.option(
    "--reading",
    type=click.Choice(get_args(Reading)),
    default="recorded",
    help="Read another agent's file with its compactions, or as if there had been none.",
)
RECORD = click.option("--record", type=FILE, help="Record the answers of real models in this cassette file.")
REPLAY = click.option("--replay", type=FILE, help="Replay the answers in this cassette file; no real model is called.")


def choose_cassette(record: Path | None, replay: Path | None) -> Cassette | None:
    """Return the cassette (file of recorded answers) that `--record` or `--replay` names, or None.

    Raises:
        UsageError: Both options are set.
    """
    if record is not None and replay is not None:
        raise UsageError("--record and --replay exclude each other; --record also replays answers already in the cassette")
    path = record or replay
    return None if path is None else Cassette(path=path.absolute(), mode="record" if record else "replay")


def parse_fields(fields: tuple[str, ...]) -> Mapping[str, object]:
    """Return the policy fields that the user set with `--set NAME=VALUE`, by name.

    A value that is not TOML counts as text.

    Raises:
        UsageError: An assignment lacks its `=`.
    """
    table: dict[str, object] = {}
    for assignment in fields:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {assignment!r} is not an assignment; write FIELD=VALUE, e.g. --set keep_last=20")
        try:
            table[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except (ValueError, RecursionError):
            table[name.strip()] = value.strip()
    return table
