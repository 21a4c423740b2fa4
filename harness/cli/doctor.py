"""Command `harness doctor`, which checks what works on this machine and says what to install. Values of keys are never shown."""

import os
import platform
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, NamedTuple

import click

from harness.cli.terminal import format_line
from harness.errors import UsageError
from harness.models.factory import SUMMARIZERS
from harness.models.local.catalogue import CATALOGUE
from harness.models.local.weights import explain_missing
from harness.models.registry import BASE_VARIABLES, load_litellm, read_registry_file
from harness.policies import load_policy_classes
from harness.sandboxes.backends import BACKENDS, DEFAULT_IMAGES, Probe, probe_backend
from harness.tasks import TASKS

PROVIDERS = ("ANTHROPIC", "OPENAI", "GEMINI", "AZURE", "DEEPSEEK", "GROQ", "MISTRAL", "OPENROUTER", "TOGETHERAI", "XAI")
PROVIDER_VARIABLES = (*(f"{name}_API_KEY" for name in PROVIDERS), *sorted(set(BASE_VARIABLES.values())))
"""Environment variables with keys and addresses of common model providers; litellm supports many more."""


class CheckResult(NamedTuple):
    """Result of one check of this machine by `harness doctor`."""

    subject: str
    """Name of the component that was checked, e.g. `docker`."""
    state: Literal["ok", "optional", "missing", "failed"]
    """State of the component.

    With `optional`, the component does not work, but another one takes its place. With `missing`, some features cannot be used;
    with `failed`, no session can run.
    """
    detail: str
    """Details of the result of the check for the user, e.g. a version or the reason of a failure."""
    advice: str = ""
    """Command or action that installs the missing component; empty if there is nothing to do."""


@click.command("doctor")
@click.option("--image", default=DEFAULT_IMAGES["python"], help="Docker image to start.")
def command(image: str) -> None:
    """Check which sandboxes, models and keys work on this machine.

    Each sandbox is started once. For everything that is missing, the command says what to install. The exit code is 1 when no
    session can run.

    Example: `harness doctor`
    """
    has_failed = False
    for finding in run_checks(image):
        has_failed |= finding.state == "failed"
        click.echo(f"{finding.state:10}{finding.subject:12}{format_line(finding.detail, 300)}")
        if finding.advice:
            click.echo(f"{'':22}-> {format_line(finding.advice, 300)}")
    if has_failed:
        raise click.exceptions.Exit(1)


def run_checks(image: str) -> Iterator[CheckResult]:
    """Run all checks of this machine one after the other, and yield each result as soon as it is available."""
    yield CheckResult("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield from check_sandboxes(image)
    yield CheckResult("tasks", "ok", ", ".join(sorted(TASKS)))
    yield check_policies()
    scripted = ", ".join(("scripted", *(f"scripted/{name}" for name in SUMMARIZERS)))
    yield CheckResult("models", "ok", f"{scripted} (no key needed)")
    yield check_local_models()
    yield check_litellm()
    yield check_keys()


def check_sandboxes(image: str, run_probe: Callable[[str, str | None], Probe] = probe_backend) -> Iterator[CheckResult]:
    """Check each sandbox that isolates commands by starting it; one working sandbox is enough."""
    isolating = {name: backend for name, backend in BACKENDS.items() if backend.isolates}
    probes = [run_probe(name, image if backend.has_images else None) for name, backend in isolating.items()]
    working = [probe.backend for probe in probes if probe.ok]
    for probe in probes:
        detail = f"{probe.reason} ({probe.seconds:.1f} s)"
        if probe.ok or not working:
            yield CheckResult(probe.backend, "ok" if probe.ok else "missing", detail, probe.advice)
        else:
            yield CheckResult(
                probe.backend, "optional", f"not needed, since {working[0]} works: {detail}", f"to use it: {probe.advice}"
            )
    if working:
        yield CheckResult("sandbox", "ok", f"`auto` selects {working[0]}")
    else:
        advice = "install one of the sandboxes above, or use --backend local --unsafe-local, which isolates nothing"
        yield CheckResult("sandbox", "failed", "no sandbox isolates commands", advice)


def check_policies() -> CheckResult:
    """Check that every compaction policy can be imported, including those of other packages."""
    try:
        return CheckResult("policies", "ok", ", ".join(sorted(load_policy_classes())))
    except UsageError as error:
        advice = "until this is fixed, only the built-in policies can be used"
        return CheckResult("policies", "missing", str(error), advice)


def check_local_models() -> CheckResult:
    """Check which of the small local models are installed on this machine."""
    missing_models = {name: reason for name, weights in CATALOGUE.items() if (reason := explain_missing(weights)) is not None}
    ready_models = [name for name in CATALOGUE if name not in missing_models]
    if ready_models:
        absent = f"; missing: {', '.join(missing_models)}" if missing_models else ""
        return CheckResult("local", "ok", f"{', '.join(ready_models)}{absent}")
    name, reason = next(iter(missing_models.items()))
    return CheckResult("local", "missing", "no local model", f"for {name}: {reason}")


def check_litellm() -> CheckResult:
    """Check that litellm is installed, and count the models that it supports.

    litellm is imported only if a provider's key or address is set, since no real model can be called otherwise.
    """
    try:
        installed = version("litellm")
    except PackageNotFoundError:
        return CheckResult("litellm", "missing", "not installed", "pip install 'litellm>=1.105,<1.106'")
    if not _list_set_variables():
        return CheckResult("litellm", "ok", f"{installed}, supports {len(read_registry_file()):,} models")
    began = time.monotonic()
    known = len(load_litellm().model_cost)
    return CheckResult("litellm", "ok", f"{installed}, supports {known:,} models (loaded in {time.monotonic() - began:.1f} s)")


def check_keys() -> CheckResult:
    """Check which environment variables with keys or addresses of common providers are set."""
    if set_variables := _list_set_variables():
        return CheckResult("keys", "ok", f"set: {', '.join(set_variables)}")
    advice = f"to use a real model, set one of {', '.join(PROVIDER_VARIABLES)}"
    return CheckResult("keys", "missing", "none set (scripted models need no key)", advice)


def _list_set_variables() -> list[str]:
    return [name for name in PROVIDER_VARIABLES if os.environ.get(name)]
