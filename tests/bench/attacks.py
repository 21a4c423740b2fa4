"""Number of attacks that are not contained, for each way to set up a sandbox; `harness.testing.attack_cases` has all attacks.

As a program, `python -m tests.bench.attacks SET-UP` runs all attacks on one set-up and prints the verdicts as JSON.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

from harness.errors import SandboxUnavailable
from harness.protocols import Sandbox
from harness.sandboxes.backends import open_sandbox
from harness.sandboxes.bubblewrap import NOBODY
from harness.sandboxes.toolserver import load_source
from harness.testing.attack_cases import ATTACKS, generate_verdicts
from harness.testing.sandbox_contract import SMALL_LIMITS
from tests.bench.figure import Figure

ROOT, ORDINARY_USER, DOCKER = "bubblewrap as root", "bubblewrap as an ordinary user", "docker"
SECONDS = 900


def attacks(image: str) -> Iterator[Figure]:
    for set_up in (DOCKER, ROOT, ORDINARY_USER):
        name = f"attacks not contained by {set_up}"
        command = [sys.executable, "-m", "tests.bench.attacks", set_up, image]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["no reason"])[-1][:200]
            yield Figure(name=name, value=None, unit="attacks", bar=0, note=reason)
            continue
        escapes = {name: reached for name, reached in json.loads(done.stdout).items() if reached}
        contained = f"{len(ATTACKS) - len(escapes)} of {len(ATTACKS)} contained"
        yield Figure(name=name, value=len(escapes), unit="attacks", bar=0, note="; ".join([contained, *escapes]))


def become(set_up: str) -> None:
    """Become the user that a set-up needs, or exit with the reason why that is not possible."""
    is_root = os.geteuid() == 0
    if set_up == ROOT and not is_root:
        sys.exit("only root can run bubblewrap as root")
    if set_up == ORDINARY_USER and is_root:
        "".encode("unicode_escape")
        load_source("server")  # the user may be unable to read the project
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def attack(set_up: str, image: str) -> dict[str, tuple[str, ...]]:
    """Run all attacks on a set-up and return what each of them reached, by its name."""

    def make_sandbox() -> Sandbox:
        name = f"attack-{uuid.uuid4().hex[:12]}"
        if set_up == DOCKER:
            return open_sandbox("docker", session_id=name, image=image, limits=SMALL_LIMITS)
        return open_sandbox("bubblewrap", session_id=name, limits=SMALL_LIMITS)

    return {verdict.attack: verdict.escapes for verdict in generate_verdicts(ATTACKS, make_sandbox)}


if __name__ == "__main__":
    become(sys.argv[1])
    try:
        print(json.dumps(attack(*sys.argv[1:])))
    except SandboxUnavailable as error:
        sys.exit(str(error))
