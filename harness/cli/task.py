"""`harness task`: a task of one's own, from a skeleton to the laws that it must keep."""

import importlib.resources
import keyword
from collections.abc import Iterator
from pathlib import Path

import click

from harness.cli.terminal import format_line
from harness.errors import StoreError, UsageError
from harness.sandboxes.backends import BACKEND_CHOICES, BackendName, SandboxChoice, choose_backend, is_isolated
from harness.task import Task, TaskTemplate
from harness.tasks import find_only_function, load_task
from harness.text import replace_control_characters

MAX_FINDING_CHARACTERS = 500


@click.group("task")
def command() -> None:
    """Begin a task of your own, or find out what is wrong with one."""


@command.command("new")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("name", default="greeting")
def create_task_file(file: Path, name: str) -> None:
    """Write a small task that works into FILE, with comments that say what to change. NAME is that of its function."""
    if file.suffix != ".py":
        raise UsageError(f"{str(file)!r}: a task is a Python file; name one that ends in .py")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name!r} cannot be the name of a function; use letters, digits and underscores")
    text = importlib.resources.files("harness.cli").joinpath("task_skeleton.py.tmpl").read_text(encoding="utf-8")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text.replace("NAME_OF_TASK", name))
    except FileExistsError:
        raise UsageError(f"{str(file)!r} is there already, and is not overwritten; name another file") from None
    except OSError as error:
        raise StoreError(f"cannot write to {str(file)!r}: {error.strerror}") from None
    click.echo(f"wrote {file}; now try `harness task check {file}`")


@command.command("check")
@click.argument("name")
@click.option("--seeds", type=click.IntRange(min=1), default=2, show_default=True, help="Task seeds under which laws are tried.")
@click.option("--backend", type=click.Choice(BACKEND_CHOICES), default="auto", show_default=True, help="Sandbox.")
@click.option("--unsafe-local", is_flag=True, help="Allow the sandbox `local`, which isolates nothing.")
def check_task(name: str, seeds: int, backend: BackendName, unsafe_local: bool) -> None:
    """Try the laws of the simulation on a task and say which of them it breaks.

    NAME is a task of the suite, FILE.py, or FILE.py:FUNCTION. Sessions of the scripted model are run: with everything in
    view, in a window that is too small, with perfect and with empty summaries, with facts told otherwise, through an action
    cache, and with a process of its own for an answer. The exit code is 1 when a law is broken.

    Of the laws of the simulation, law 8 (more fidelity never hurts) and law 10 over the wire are not tried: they need a grid and
    a server. Those that depend on a policy are tried under `keep-last` with its defaults alone, and law 9 in no sandbox `local`.
    """
    from harness.testing.laws import check_laws  # noqa: PLC0415  (loads the agent and all that it needs)
    from harness.testing.laws.simulation import SessionCache  # noqa: PLC0415

    whole_name = name if not name.endswith(".py") else f"{name}:{find_only_function(name)}"
    template = load_task(whole_name)
    sessions = SessionCache(template, name=whole_name, sandbox=_choose_sandbox(template, backend, unsafe_local=unsafe_local))
    broken_laws = 0
    for law, findings in check_laws(sessions, range(1, seeds + 1)):
        if findings is None:
            click.echo(f"--    {law.name}: not tried, since it builds on those above")
            continue
        broken_laws += bool(findings)
        click.echo(f"{'FAIL' if findings else 'ok':6}{law.name}: {law.title}")
        for finding in findings:
            click.echo(f"        {format_line(str(finding), MAX_FINDING_CHARACTERS)}")
    click.echo(f"not tried: {'; '.join(_list_skipped_laws(backend))}")
    click.echo(
        f"{broken_laws} laws are broken"
        if broken_laws
        else f"all laws that were tried hold for {replace_control_characters(name)}"
    )
    if broken_laws:
        raise click.exceptions.Exit(1)


def _list_skipped_laws(backend: str) -> Iterator[str]:
    """What of the laws of the simulation was left out."""
    yield "other policies than `keep-last` with its defaults"
    yield "law-8, more fidelity never hurts, which needs a grid (see `harness run`)"
    yield "law-10 over the wire"
    if not is_isolated(backend):
        yield f"law-9, since the sandbox `{backend}` keeps no actions"


def _choose_sandbox(template: TaskTemplate, backend: str, *, unsafe_local: bool) -> SandboxChoice:
    """The sandbox for all sessions, found once.

    Raises:
        SandboxUnavailable: nothing works here, or not with what the task needs.
        UsageError: `local` without leave.
    """
    return SandboxChoice(backend=choose_backend(runtime=_find_runtime(template), backend=backend, unsafe_local=unsafe_local))


def _find_runtime(template: TaskTemplate) -> str:
    """What the task needs; a template that makes no task is for the laws to tell of."""
    try:
        task: object = template(1)
    except (Exception, SystemExit):  # noqa: BLE001  (foreign code is run here)
        return "python"
    return task.runtime if isinstance(task, Task) else "python"
