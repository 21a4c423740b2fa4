"""Functions that start the command line, in a process of its own or, for commands that only print, in the test process."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from harness.cli import main
from tests.prepared import PreparedProcess, run, watch

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


def list_slow_modules(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the slow modules that a command uses: of its report, and of real models."""
    reporting = ("harness.cli.report", "duckdb", "scipy.stats", "matplotlib.pyplot")
    is_real = "doctor" in arguments or any("hosted_vllm/" in argument for argument in arguments)
    return (reporting if {"run", "report", "view"} & set(arguments) else ()) + (("litellm",) if is_real else ())


def harness(*arguments: str | Path, given: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run `harness` in a process of its own, to its end."""
    words = [*map(str, arguments)]
    return run(START, *words, given=given, modules=list_slow_modules(words), env=environment(**variables))


def harness_anew(*arguments: str | Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run `harness` in a process that starts the interpreter and imports all modules, to its end."""
    command = [sys.executable, "-c", START, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment(**variables), check=False)


def within(*arguments: str | Path, given: str | bytes = "") -> Result:
    """Run `harness` in this process, where all libraries are already imported."""
    return CliRunner(env={name: None for name in os.environ if "API_" in name}).invoke(main, [*map(str, arguments)], given)


def started(*arguments: str | Path, **options: Any) -> PreparedProcess:
    """Start `harness` in a process, which is killed after the test if it still runs then."""
    words = [*map(str, arguments)]
    return watch(PreparedProcess(START, *words, modules=list_slow_modules(words), **(_streams() | options)))


def started_anew(*arguments: str | Path, **options: Any) -> "subprocess.Popen[str]":
    """Start `harness` in a process that imports all modules, and that is killed after the test if it still runs then."""
    return watch(subprocess.Popen([sys.executable, "-c", START, *map(str, arguments)], text=True, **(_streams() | options)))


def _streams() -> dict[str, Any]:
    return {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()}
