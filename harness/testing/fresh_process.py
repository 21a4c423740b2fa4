"""A program of this package in a process of its own, where texts have other hashes: all that it knows comes as JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from harness.errors import UsageError


def run_in_fresh_process(module: str, arguments: object, *, hash_seed: int | None = None, failure_text: str) -> Any:
    """What the `main` of a module answers in a new process.

    Args:
        module: by its full name; its `main` calls `answer`.
        given: JSON-ready.
        hash_seed: of that process; None = another one than that of this process.
        failing: what it says of the template if the process fails, as a sentence without its end.

    Raises:
        UsageError: the process fails; tells the last line of what it said.
    """
    seed = hash_seed or (2 if os.environ.get("PYTHONHASHSEED") == "1" else 1)
    run = subprocess.run(
        [sys.executable, "-P", "-c", f"from {module} import main; main()"],
        input=json.dumps(arguments),
        capture_output=True,
        encoding="utf-8",
        errors="replace",  # foreign code may print
        check=False,
        env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if run.returncode or not run.stdout:
        _, _, said = run.stderr.strip().rpartition("\n")
        raise UsageError(f"in a process of its own {failure_text}: {said}")
    return json.loads(run.stdout.splitlines()[-1])


def serve_one_request(handle: Callable[[Any], object]) -> None:
    """Do the work of such a process: given is what comes by standard input, the answer is the last line of standard output."""
    given = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):  # foreign code may print
        made = handle(given)
    sys.stdout.write(f"\n{json.dumps(made)}\n")
