"""Functions that start the command line, in a process of its own or, for commands that only print, in the test process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from harness.cli import main

CHECKOUT = Path(__file__).parents[2]
TINY = f"{Path(__file__).parents[1] / 'experiment' / 'tiny_task.py'}:tiny"
"""Name of a task with ten steps."""
LOCAL = ("--backend", "local", "--unsafe-local")
"""Options for the sandbox `local`, which works on every machine; the commands of these tests are harmless."""
START = "from harness.cli import main; main(prog_name='harness')"


def environment(**variables: str) -> dict[str, str]:
    """Return the environment variables of this process without API keys, with some added; any folder imports this checkout."""
    kept = {name: value for name, value in os.environ.items() if "API_" not in name}
    return kept | {"PYTHONPATH": str(CHECKOUT)} | variables


def harness(*arguments: str | Path, given: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run `harness` in a process of its own, to its end."""
    return subprocess.run(
        [sys.executable, "-c", START, *map(str, arguments)],
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(**variables),
        check=False,
    )


def within(*arguments: str | Path, given: str = "") -> Result:
    """Run `harness` in this process, where all libraries are already imported."""
    return CliRunner(env={name: None for name in os.environ if "API_" in name}).invoke(main, [*map(str, arguments)], given)


def started(*arguments: str | Path, **options: Any) -> "subprocess.Popen[str]":
    """Start `harness` in a process that the caller must end."""
    return subprocess.Popen(
        [sys.executable, "-c", START, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        **options,
    )
