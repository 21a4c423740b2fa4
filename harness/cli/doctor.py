"""`harness doctor`: tries out what the harness needs, and says what to install. Values of keys are never shown."""

import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

import click

from harness.cli.terminal_text import one_line
from harness.errors import UsageError
from harness.models.factory import SUMMARIZERS
from harness.models.local.catalogue import CATALOGUE
from harness.models.local.weights import missing
from harness.models.registry import BASE_VARIABLES, litellm
from harness.policies import policy_kinds
from harness.sandboxes import Probe, probe_backend
from harness.sandboxes.backends import IMAGES
from harness.tasks import SUITE

PROVIDER_VARIABLES = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "AZURE_API_KEY",
    "DEEPSEEK_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHERAI_API_KEY",
    "XAI_API_KEY",
    *sorted(set(BASE_VARIABLES.values())),
)
"""The commonest; litellm knows many more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    what: str
    state: Literal["ok", "missing", "failed"]
    """Only `failed` makes the harness unusable; what is `missing` limits it."""
    seen: str
    advice: str = ""


@click.command("doctor")
@click.option("--image", default=IMAGES["python"], show_default=True, help="Docker image to try.")
def command(image: str) -> None:
    """Try out sandboxes, models and keys, and say what to install.

    Ends with exit code 1 when no session could be run here.
    """
    failed = False
    for finding in findings(image):
        failed |= finding.state == "failed"
        click.echo(f"{finding.state:8}{finding.what:12}{one_line(finding.seen, 300)}")
        if finding.advice:
            click.echo(f"{'':20}-> {one_line(finding.advice, 300)}")
    if failed:
        raise click.exceptions.Exit(1)


def findings(image: str) -> Iterator[Finding]:
    """Look at one thing after the other; each is told as soon as it is known."""
    yield Finding(what="python", state="ok", seen=f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield from sandboxes(image)
    yield Finding(what="tasks", state="ok", seen=", ".join(sorted(SUITE)))
    yield policies()
    scripted = ", ".join(("scripted", *(f"scripted/{name}" for name in SUMMARIZERS)))
    yield Finding(what="models", state="ok", seen=f"{scripted} (no key needed)")
    yield local_models()
    yield real_models()
    yield keys()


def sandboxes(image: str, try_out: Callable[[str, str | None], Probe] = probe_backend) -> Iterator[Finding]:
    """Use each backend for real; one that works is enough."""
    working = []
    for backend in ("docker", "bubblewrap"):
        found = try_out(backend, image if backend == "docker" else None)
        if found.ok:
            working.append(backend)
        seen = f"{found.reason} ({found.seconds:.1f} s)"
        yield Finding(what=backend, state="ok" if found.ok else "missing", seen=seen, advice=found.advice)
    if working:
        yield Finding(what="sandbox", state="ok", seen=f"auto takes {working[0]}")
    else:
        advice = "make one of the two above work; --backend local --unsafe-local runs without any isolation"
        yield Finding(what="sandbox", state="failed", seen="nothing here isolates commands", advice=advice)


def policies() -> Finding:
    """Whether every policy loads, those of other packages too."""
    try:
        return Finding(what="policies", state="ok", seen=", ".join(sorted(policy_kinds())))
    except UsageError as error:
        advice = "until then only the policies of the harness itself can be named"
        return Finding(what="policies", state="missing", seen=str(error), advice=advice)


def local_models() -> Finding:
    """Which of the small real models could be served here."""
    lacking = {name: reason for name, weights in CATALOGUE.items() if (reason := missing(weights)) is not None}
    there = [name for name in CATALOGUE if name not in lacking]
    if there:
        absent = f"; not here: {', '.join(lacking)}" if lacking else ""
        return Finding(what="local", state="ok", seen=f"{', '.join(there)}{absent}")
    name, reason = next(iter(lacking.items()))
    return Finding(what="local", state="missing", seen="no small real model", advice=f"for {name}: {reason}")


def real_models() -> Finding:
    """Whether litellm loads, and what it knows."""
    try:
        installed = version("litellm")
    except PackageNotFoundError:
        return Finding(what="litellm", state="missing", seen="not installed", advice="pip install 'litellm>=1.105,<1.106'")
    began = time.monotonic()
    known = len(litellm().model_cost)
    return Finding(
        what="litellm", state="ok", seen=f"{installed}, knows {known:,} models (loaded in {time.monotonic() - began:.1f} s)"
    )


def keys() -> Finding:
    """Which of the usual variables are set, by name."""
    there = [name for name in PROVIDER_VARIABLES if os.environ.get(name)]
    if there:
        return Finding(what="keys", state="ok", seen=f"set: {', '.join(there)}")
    advice = f"for a real model set one of {', '.join(PROVIDER_VARIABLES)}"
    return Finding(what="keys", state="missing", seen="none set; scripted models need none", advice=advice)
