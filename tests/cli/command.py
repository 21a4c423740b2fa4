"""The command line as a user starts it: a process of its own, or, where nothing but words comes out, within this one."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from harness.cli import main

TINY = f"{Path(__file__).parents[1] / 'experiment' / 'tiny_task.py'}:tiny"
"""A task of ten steps."""
LOCAL = ("--backend", "local", "--unsafe-local")
"""The sandbox that works wherever the tests run; the tests' own commands are harmless."""
START = "from harness.cli import main; main(prog_name='harness')"


def environment(**variables: str) -> dict[str, str]:
    """That of this process without the keys of any provider."""
    return {name: value for name, value in os.environ.items() if "API_" not in name} | variables


def harness(*arguments: str | Path, given: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run `harness` to its end."""
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
    """Run `harness` in this process, which has loaded everything already."""
    return CliRunner(env={name: None for name in os.environ if "API_" in name}).invoke(main, [*map(str, arguments)], given)


def started(*arguments: str | Path, **options: Any) -> "subprocess.Popen[str]":
    """`harness` at work; the caller ends it."""
    return subprocess.Popen(
        [sys.executable, "-c", START, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        **options,
    )
