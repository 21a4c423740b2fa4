"""`harness tasks`: the suite with its loads, or one task in full. `harness task`: a task of one's own, begun and checked."""

import importlib.resources
import inspect
import keyword
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from rich.table import Table

from harness.cli import options
from harness.cli.terminal import build_table, format_line, print_line, print_parts
from harness.errors import StoreError, UsageError
from harness.sandboxes.backends import BackendName, SandboxChoice, choose_backend, is_isolated
from harness.session.preflight import count_first_request_tokens
from harness.task import Task, TaskTemplate
from harness.tasks import SUITE, find_only_function, list_knobs, load_task, make_task

MAX_FINDING_CHARACTERS = 500
DISPLAY_SEED = 0
"""Under which a task is shown; facts, script and checks are the same under every other one."""


@click.command("tasks")
@click.argument("name", required=False)
def tasks_command(name: str | None) -> None:
    """List the tasks of the suite, or show the one called NAME (path/to/file.py for one of your own).

    First tokens are those of the first request: system prompt, tool schemas and the task's prompt. A fact is recoverable if a
    call shows it again; the cost is the number of calls that this takes when nothing is in view.
    """
    if name is None:
        print_parts(build_suite_table(), "", "Each task is a world with knobs, `world.NAME` in a plan: see `harness tasks NAME`.")
        return
    whole_name = f"{name}:{find_only_function(name)}" if name.endswith(".py") else name
    template, task = load_task(whole_name), make_task(whole_name, DISPLAY_SEED)
    description = inspect.getdoc(inspect.getmodule(template)) or inspect.getdoc(template) or ""
    print_parts(f"{task.name}: {task.title}\n", f"{description}\n", build_facts_table(task), "", build_checks_table(task), "")
    print_parts(f"knobs: {', '.join(f'world.{knob}' for knob in list_knobs(template))}")


def build_suite_table() -> Table:
    """One row for each task."""
    columns = ("task", "title", "loads", "steps", "first tokens", "facts", "recoverable", "runtime")
    return build_table(columns, (_list_task_cells(name, template(DISPLAY_SEED)) for name, template in sorted(SUITE.items())))


def _list_task_cells(name: str, task: Task) -> tuple[str | int, ...]:
    first_tokens = count_first_request_tokens(task.prompt, task.runtime)
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(fact.kind for fact in task.facts).most_common())
    recoverable = f"{sum(fact.reacquisition_calls is not None for fact in task.facts)} of {len(task.facts)}"
    return name, task.title, ", ".join(task.tags), len(task.script.steps), first_tokens, kinds, recoverable, task.runtime


def build_facts_table(task: Task) -> Table:
    """What must be remembered."""
    return build_table(("fact", "kind", "said in", "got again by", "calls", "prior", "needed by"), _list_fact_rows(task))


def _list_fact_rows(task: Task) -> Iterator[tuple[str, ...]]:
    for fact in task.facts:
        steps = [step.name for step in task.script.steps if fact.name in step.required_facts]
        needed = f"{steps[0]}{f' and {len(steps) - 1} more' * (len(steps) > 1)}" if steps else "no step"
        again = f"{fact.recover.tool} {fact.recover.arguments[0][1]}" if fact.recover else "nothing"
        calls = "" if fact.reacquisition_calls is None else str(fact.reacquisition_calls)
        cells = (fact.name, fact.kind, fact.said_in, again, calls, fact.prior, needed)
        yield tuple(format_line(cell, 60) for cell in cells)


def build_checks_table(task: Task) -> Table:
    """What is looked at in the end."""
    rows = ((check.name, check.title, ", ".join(check.required_facts)) for check in task.checks)
    return build_table(("check", "what must hold", "rests on"), rows)


@click.group("task")
def task_command() -> None:
    """Begin a task of your own, or find out what is wrong with one."""


@task_command.command("new")
@click.argument("file", type=options.FILE)
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


@task_command.command("check")
@click.argument("name")
@click.option("--seeds", type=options.POSITIVE, default=2, help="Task seeds under which laws are tried.")
@options.BACKEND
@options.UNSAFE_LOCAL
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
    chosen_backend = choose_backend(runtime=_find_runtime(template), backend=backend, unsafe_local=unsafe_local)
    sessions = SessionCache(template, name=whole_name, sandbox=SandboxChoice(backend=chosen_backend))
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
    print_line(f"{broken_laws} laws are broken" if broken_laws else f"all laws that were tried hold for {name}")
    if broken_laws:
        raise click.exceptions.Exit(1)


def _list_skipped_laws(backend: str) -> Iterator[str]:
    """What of the laws of the simulation was left out."""
    yield "other policies than `keep-last` with its defaults"
    yield "law-8, more fidelity never hurts, which needs a grid (see `harness run`)"
    yield "law-10 over the wire"
    if not is_isolated(backend):
        yield f"law-9, since the sandbox `{backend}` keeps no actions"


def _find_runtime(template: TaskTemplate) -> str:
    """What the task needs; a template that makes no task is for the laws to tell of."""
    try:
        task: object = template(1)
    except (Exception, SystemExit):  # noqa: BLE001  (foreign code is run here)
        return "python"
    return task.runtime if isinstance(task, Task) else "python"
