"""`harness doctor`: tries out what the harness needs, and says what to install. Values of keys are never shown."""

import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

import click

from harness.cli.terminal import format_line
from harness.errors import UsageError
from harness.models.factory import SUMMARIZERS
from harness.models.local.catalogue import CATALOGUE
from harness.models.local.weights import explain_missing
from harness.models.registry import BASE_VARIABLES, load_litellm
from harness.policies import load_policy_classes
from harness.sandboxes.backends import BACKENDS, DEFAULT_IMAGES, Probe, probe_backend
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
class CheckResult:
    """One thing that was looked at."""

    subject: str
    state: Literal["ok", "missing", "failed"]
    """Only `failed` makes the harness unusable; what is `missing` limits it."""
    detail: str
    advice: str = ""


@click.command("doctor")
@click.option("--image", default=DEFAULT_IMAGES["python"], show_default=True, help="Docker image to try.")
def command(image: str) -> None:
    """Try out sandboxes, models and keys, and say what to install.

    Ends with exit code 1 when no session could be run here.
    """
    failed = False
    for finding in run_checks(image):
        failed |= finding.state == "failed"
        click.echo(f"{finding.state:8}{finding.subject:12}{format_line(finding.detail, 300)}")
        if finding.advice:
            click.echo(f"{'':20}-> {format_line(finding.advice, 300)}")
    if failed:
        raise click.exceptions.Exit(1)


def run_checks(image: str) -> Iterator[CheckResult]:
    """Look at one thing after the other; each is told as soon as it is known."""
    yield CheckResult(
        subject="python", state="ok", detail=f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    )
    yield from check_sandboxes(image)
    yield CheckResult(subject="tasks", state="ok", detail=", ".join(sorted(SUITE)))
    yield check_policies()
    scripted = ", ".join(("scripted", *(f"scripted/{name}" for name in SUMMARIZERS)))
    yield CheckResult(subject="models", state="ok", detail=f"{scripted} (no key needed)")
    yield check_local_models()
    yield check_litellm()
    yield check_keys()


def check_sandboxes(image: str, run_probe: Callable[[str, str | None], Probe] = probe_backend) -> Iterator[CheckResult]:
    """Use each backend for real; one that works is enough."""
    working = []
    for name, backend in BACKENDS.items():
        if not backend.isolates:
            continue
        probe_result = run_probe(name, image if backend.has_images else None)
        if probe_result.ok:
            working.append(name)
        detail = f"{probe_result.reason} ({probe_result.seconds:.1f} s)"
        yield CheckResult(subject=name, state="ok" if probe_result.ok else "missing", detail=detail, advice=probe_result.advice)
    if working:
        yield CheckResult(subject="sandbox", state="ok", detail=f"auto takes {working[0]}")
    else:
        advice = "make one of the two above work; --backend local --unsafe-local runs without any isolation"
        yield CheckResult(subject="sandbox", state="failed", detail="nothing here isolates commands", advice=advice)


def check_policies() -> CheckResult:
    """Whether every policy loads, those of other packages too."""
    try:
        return CheckResult(subject="policies", state="ok", detail=", ".join(sorted(load_policy_classes())))
    except UsageError as error:
        advice = "until then only the policies of the harness itself can be named"
        return CheckResult(subject="policies", state="missing", detail=str(error), advice=advice)


def check_local_models() -> CheckResult:
    """Which of the small real models could be served here."""
    missing_models = {name: reason for name, weights in CATALOGUE.items() if (reason := explain_missing(weights)) is not None}
    ready_models = [name for name in CATALOGUE if name not in missing_models]
    if ready_models:
        absent = f"; not here: {', '.join(missing_models)}" if missing_models else ""
        return CheckResult(subject="local", state="ok", detail=f"{', '.join(ready_models)}{absent}")
    name, reason = next(iter(missing_models.items()))
    return CheckResult(subject="local", state="missing", detail="no small real model", advice=f"for {name}: {reason}")


def check_litellm() -> CheckResult:
    """Whether litellm loads, and what it knows."""
    try:
        installed = version("litellm")
    except PackageNotFoundError:
        return CheckResult(
            subject="litellm", state="missing", detail="not installed", advice="pip install 'litellm>=1.105,<1.106'"
        )
    began = time.monotonic()
    known = len(load_litellm().model_cost)
    return CheckResult(
        subject="litellm", state="ok", detail=f"{installed}, knows {known:,} models (loaded in {time.monotonic() - began:.1f} s)"
    )


def check_keys() -> CheckResult:
    """Which of the usual variables are set, by name."""
    set_variables = [name for name in PROVIDER_VARIABLES if os.environ.get(name)]
    if set_variables:
        return CheckResult(subject="keys", state="ok", detail=f"set: {', '.join(set_variables)}")
    advice = f"for a real model set one of {', '.join(PROVIDER_VARIABLES)}"
    return CheckResult(subject="keys", state="missing", detail="none set; scripted models need none", advice=advice)
