"""Commands for tasks: `harness tasks` lists or shows built-in tasks, `harness task` creates or checks a task of your own."""

import importlib.resources
import inspect
import keyword
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from rich.table import Table

from harness.cli import options
from harness.cli.session_lookup import IN_OPTION, find_session_of_request
from harness.cli.terminal import build_table, format_line, print_line, print_parts
from harness.errors import StoreError, UsageError, format_count
from harness.sandboxes.backends import BackendName, SandboxChoice, choose_backend, is_isolated
from harness.session.preflight import count_first_request_tokens
from harness.session.task_folder import grade_task_folder, write_task_folder
from harness.store.journal import Journal
from harness.task import Difficulty, Task, TaskTemplate, World
from harness.tasks import TASKS, complete_name, list_knobs, load_task, make_task
from harness.text import format_percent

MAX_FINDING_CHARACTERS = 500
DISPLAY_SEED = 0
"""Random seed with which a task is made when the command only displays it.

The values never show, but the seed also draws the structure of many tasks: some of their facts, steps and checks.
"""


SEED = click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the task.")


@click.command("tasks")
@click.argument("name", required=False)
def tasks_command(name: str | None) -> None:
    """List the built-in tasks, or show the facts and checks of the task NAME.

    NAME is a built-in task, FILE.py or FILE.py:FUNCTION.

    The column `first tokens` is the size of the first request: system prompt, tool schemas and the prompt of the task. A fact is
    recoverable if the agent can read it again in the workspace; the column `calls` is the number of tool calls that this takes.

    Example: `harness tasks flashcards`
    """
    if name is None:
        print_parts(
            build_suite_table(),
            "",
            "The difficulty of a task is set by knobs, in a plan as `world.KNOB`; `harness tasks NAME` lists them.",
        )
        return
    whole_name = complete_name(name)
    template, task = load_task(whole_name), make_task(whole_name, DISPLAY_SEED)
    description = inspect.getdoc(inspect.getmodule(template)) or inspect.getdoc(template) or ""
    print_parts(f"{task.name}: {task.title}\n", f"{description}\n", build_facts_table(task), "", build_checks_table(task), "")
    print_parts(f"knobs: {', '.join(f'world.{knob}' for knob in list_knobs(template))}")


def build_suite_table() -> Table:
    """Return a table of the built-in tasks, one row for each task."""
    columns = ("task", "title", "memory demands", "steps", "first tokens", "facts", "recoverable", "runtime")
    return build_table(columns, (_list_task_cells(name, template(DISPLAY_SEED)) for name, template in sorted(TASKS.items())))


def _list_task_cells(name: str, task: Task) -> tuple[str | int, ...]:
    first_tokens = count_first_request_tokens(task.prompt, task.runtime)
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(fact.kind for fact in task.facts).most_common())
    recoverable = f"{sum(fact.reacquisition_calls is not None for fact in task.facts)} of {len(task.facts)}"
    return name, task.title, ", ".join(task.tags), len(task.script.steps), first_tokens, kinds, recoverable, task.runtime


def build_facts_table(task: Task) -> Table:
    """Return a table of a task's facts, which are the values that the agent must remember."""
    return build_table(
        ("fact", "kind", "stated in", "recovered by", "calls", "default guess", "needed by"), _list_fact_rows(task)
    )


def _list_fact_rows(task: Task) -> Iterator[tuple[str, ...]]:
    for fact in task.facts:
        steps = [step.name for step in task.script.steps if fact.name in step.required_facts]
        need = f"{steps[0]}{f' and {len(steps) - 1} more' * (len(steps) > 1)}" if steps else "no step"
        recovery = f"{fact.recover.tool} {fact.recover.arguments[0][1]}" if fact.recover else "nothing"
        calls = "" if fact.reacquisition_calls is None else str(fact.reacquisition_calls)
        cells = (fact.name, fact.kind, fact.said_in, recovery, calls, fact.prior, need)
        yield tuple(format_line(cell, 60) for cell in cells)


def build_checks_table(task: Task) -> Table:
    """Return a table of the task's checks that are run after the session."""
    rows = ((check.name, check.title, ", ".join(check.required_facts)) for check in task.checks)
    return build_table(("check", "condition", "depends on"), rows)


@click.group("task")
def task_command() -> None:
    """Create a task of your own or check one; let an agent outside of harness work on a task.

    Example: `harness task new mine.py`
    """


@task_command.command("new")
@click.argument("file", type=options.FILE)
@click.argument("name", default="greeting")
def create_task_file(file: Path, name: str) -> None:
    """Write a small working task to FILE, with comments on what to change.

    NAME is the name of the task, and of the function in FILE that makes the task.

    Example: `harness task new mine.py my_task`
    """
    if file.suffix != ".py":
        advice = (
            f"the file comes first: harness task new {name} {file}" if name.endswith(".py") else "choose a name that ends in .py"
        )
        raise UsageError(f"{str(file)!r} is not a Python file; {advice}")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is not a valid name of a function; use letters, digits and underscores")
    text = importlib.resources.files("harness.cli").joinpath("task_skeleton.py.tmpl").read_text(encoding="utf-8")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text.replace("NAME_OF_TASK", name))
    except FileExistsError:
        raise UsageError(f"{str(file)!r} already exists and is not overwritten; choose another file") from None
    except OSError as error:
        raise StoreError(f"cannot write {str(file)!r}: {error.strerror}; choose another file") from None
    print_line(f"wrote {file}; check it with `harness task check {file}`")


@task_command.command("start")
@click.argument("name")
@click.argument("folder", type=options.FOLDER)
@SEED
@options.DIFFICULTY
def start_task(name: str, folder: Path, seed: int, difficulty: Difficulty) -> None:
    """Write the files of a task to FOLDER, for an agent outside of harness, and print its request.

    NAME is a built-in task, FILE.py or FILE.py:FUNCTION. FOLDER must be new or empty. The agent works in it, with the printed
    text as its request; `harness task grade` then checks its work. A task with messages that arrive later, or with tools of its
    own, needs an agent inside of harness.

    Example: `harness task start log-forensics work --seed 3`
    """
    task = _make_task(name, seed, difficulty)
    if task.later_messages or task.tools:
        raise UsageError(f"{name!r} has messages that arrive while the agent works, or tools of its own; choose another task")
    write_task_folder(task, folder)
    click.echo(f"wrote {format_count(len(task.workspace), 'file')} to {format_line(str(folder))}", err=True)
    click.echo(task.prompt)


@task_command.command("grade")
@click.argument("name")
@click.argument("folder", type=options.FOLDER)
@SEED
@options.DIFFICULTY
@click.option("--mark", "marks", is_flag=True, help="Mark the session of this work, found by the task's request, in --in.")
@IN_OPTION
@options.BACKEND
@options.UNSAFE_LOCAL
def grade_task(
    name: str,
    folder: Path,
    seed: int,
    difficulty: Difficulty,
    places: tuple[Path, ...],
    backend: BackendName,
    *,
    marks: bool,
    unsafe_local: bool,
) -> None:
    """Check the work of an agent in FOLDER by the hidden checks of a task.

    NAME, --seed and --difficulty are those of `harness task start`. A copy of the files is graded in a sandbox, as in a trial;
    nothing in FOLDER is run or changed. The exit code is 1 if a check fails.

    With --mark, the newest session in --in whose messages have the request of the task is marked as a success if every check
    passes, and as a failure otherwise; see `harness sessions mark`. `harness sessions list` shows the share of the checks that
    passed, and those that failed.

    Example: `harness task grade log-forensics work --seed 3 --mark --in gateway.sqlite`
    """
    task = _make_task(name, seed, difficulty)
    location = find_session_of_request(task.prompt, places) if marks else None
    choice = SandboxChoice(backend=choose_backend(runtime=task.runtime, backend=backend, unsafe_local=unsafe_local))
    checks, left_out = grade_task_folder(task, folder, choice, unsafe_local=unsafe_local)
    for graded in checks:
        print_line(f"{'ok' if graded.passed else 'FAIL':6}{graded.check.name}: {graded.check.title}")
        if not graded.passed:
            print_line(f"        {format_line(graded.detail, MAX_FINDING_CHARACTERS)}")
    if left_out:
        listed = ", ".join(map(format_line, left_out[:3])) + (", ..." if len(left_out) > 3 else "")
        print_line(f"not graded, because it is a link, too large, or no file: {listed} ({len(left_out):,} in all)")
    passed = sum(graded.passed for graded in checks)
    print_line(f"{passed} of {format_count(len(checks), 'check')} passed")
    if location is not None:
        with Journal.open(location.journal) as journal:
            verdicts = [(graded.check.title, graded.passed) for graded in checks]
            journal.mark_session(location.session_id, passed == len(checks), verdicts)
        print_line(f"{format_line(location.session_id)}: marked {'success' if passed == len(checks) else 'failure'}")
    if passed < len(checks):
        raise click.exceptions.Exit(1)


def _make_task(name: str, seed: int, difficulty: Difficulty) -> Task:
    return make_task(complete_name(name), seed, World(difficulty=difficulty))


@task_command.command("check")
@click.argument("name")
@click.option("--seeds", type=options.POSITIVE, default=2, help="Number of task seeds to check.")
@options.DIFFICULTY
@options.BACKEND
@options.UNSAFE_LOCAL
def check_task(name: str, seeds: int, difficulty: Difficulty, backend: BackendName, unsafe_local: bool) -> None:
    """Run the validity checks of the simulation on a task.

    NAME is a built-in task, FILE.py or FILE.py:FUNCTION. The checks run sessions of the scripted model: without compaction, in
    a window that is too small, with perfect and with empty summaries, with altered facts, with the action cache, on another day,
    and with a new process for each reply. The exit code is 1 when a check fails.

    Checks that involve a policy use `keep-last` with its defaults. Not run are law-8 (a better summarizer never hurts), which
    needs a grid; law-10 over HTTP, which needs a server; law-11 (instances differ), which `harness task spread` runs; law-15
    (success differs in the cells), which `harness task cells` runs; and law-9 in the sandbox `local`, which has no action cache.

    Example: `harness task check mine.py --seeds 3`
    """
    from harness.task_checks.laws import check_laws  # noqa: PLC0415  (loads the agent and all that it needs)
    from harness.task_checks.simulation import SessionCache  # noqa: PLC0415

    whole_name = complete_name(name)
    template = load_task(whole_name)
    chosen_backend = choose_backend(runtime=_find_runtime(template), backend=backend, unsafe_local=unsafe_local)
    sandbox = SandboxChoice(backend=chosen_backend)
    sessions = SessionCache(template, name=whole_name, sandbox=sandbox, difficulty=difficulty)
    broken_laws = 0
    for law, findings, skip_reason in check_laws(sessions, range(1, seeds + 1)):
        if findings is None:
            print_line(f"--    {law.name}: not run: {skip_reason}")
            continue
        broken_laws += bool(findings)
        print_line(f"{'FAIL' if findings else 'ok':6}{law.name}: {law.title}")
        for finding in findings:
            print_line(f"        {format_line(str(finding), MAX_FINDING_CHARACTERS)}")
    print_line(f"not run: {'; '.join(_list_skipped_laws(backend))}")
    failures = f"{format_count(broken_laws, 'validity check')} failed for {name}"
    print_line(failures if broken_laws else f"all validity checks that were run passed for {name}")
    if broken_laws:
        raise click.exceptions.Exit(1)


@task_command.command("spread")
@click.argument("name")
@click.option("--first-seed", type=click.IntRange(min=0), default=100, help="Smallest seed of the instances.")
@click.option("--seeds", type=options.POSITIVE, default=20, help="Number of instances to run.")
@options.BACKEND
@options.UNSAFE_LOCAL
def measure_spread(name: str, first_seed: int, seeds: int, backend: BackendName, unsafe_local: bool) -> None:
    """Measure how much a task differs from seed to seed (law-11).

    NAME is a built-in task, FILE.py or FILE.py:FUNCTION. One session of the scripted model runs for each seed, under `keep-last`
    with its defaults in a window of 32,768 tokens. Two sessions have the same course if they call the same tools with arguments
    of the same shape and pass the same checks. The exit code is 1 when the sessions differ too little, or when the mean score
    leaves no room for better and worse policies.

    Example: `harness task spread flashcards --seeds 10`
    """
    from harness.task_checks import instances  # noqa: PLC0415  (loads the agent and all that it needs)

    whole_name = complete_name(name)
    template = load_task(whole_name)
    chosen_backend = choose_backend(runtime=_find_runtime(template), backend=backend, unsafe_local=unsafe_local)
    results = []
    for result in instances.measure_instances(
        template, range(first_seed, first_seed + seeds), SandboxChoice(backend=chosen_backend)
    ):
        results.append(result)
        words = format_count(result.compactions, "compaction")
        print_line(f"seed {result.seed}: score {result.score:.3f}, {words}, course {result.course[:8]}")
    spread = instances.InstanceSpread(tuple(results))
    print_line(
        f"{name}: mean score {spread.mean_score:.3f}, standard deviation between seeds {spread.standard_deviation:.3f}, "
        f"{format_percent(spread.distinct_share)} of the seeds with a course of their own"
    )
    findings = list(instances.check_instances(spread))
    for finding in findings:
        print_line(f"FAIL  law-11: {finding}")
    if findings:
        raise click.exceptions.Exit(1)


@task_command.command("cells")
@click.argument("name")
@click.option("--first-seed", type=click.IntRange(min=0), default=100, help="Smallest seed of the instances.")
@click.option("--seeds", type=options.POSITIVE, default=20, help="Number of instances to run.")
@options.BACKEND
@options.UNSAFE_LOCAL
def measure_cells(name: str, first_seed: int, seeds: int, backend: BackendName, unsafe_local: bool) -> None:
    """Measure how often a session passes every check in each cell of a task (law-15).

    NAME is a built-in task, FILE.py or FILE.py:FUNCTION. A cell is a difficulty with a context window, as the field `cells` of
    the task lists them. Two sessions of the scripted model run for each seed: under `keep-last` with its defaults, and with a
    summarizer that loses four lines of five. The exit code is 1 when nearly all sessions succeed or nearly all fail, or when the
    summarizer makes hardly any difference.

    Example: `harness task cells log-forensics --seeds 10`
    """
    from harness.task_checks import cells  # noqa: PLC0415  (loads the agent and all that it needs)
    from harness.task_checks.findings import Finding  # noqa: PLC0415

    whole_name = complete_name(name)
    template = load_task(whole_name)
    sandbox = SandboxChoice(backend=choose_backend(runtime=_find_runtime(template), backend=backend, unsafe_local=unsafe_local))
    task_cells = make_task(whole_name, first_seed).cells
    if not task_cells:
        raise UsageError(f"{name} has no cells; list pairs of difficulty and window in the field `cells` of its task")
    findings = list[Finding]()
    for cell in task_cells:
        results = cells.measure_cell(whole_name, template, cell, range(first_seed, first_seed + seeds), sandbox)
        success = cells.CellSuccess(tuple(results))
        low, high = success.interval
        interval = f"95 % interval {format_percent(low)} to {format_percent(high)}"
        words = f"{format_percent(success.success)} of {format_count(seeds, 'session')} succeed ({interval})"
        print_line(f"{cell.difficulty}, {cell.window_tokens:,} tokens: {words}")
        print_line(f"  {format_percent(success.disagreement)} of the seeds have another result with lossy summaries")
        findings += cells.check_cell(success)
    for finding in findings:
        print_line(f"FAIL  law-15: {finding}")
    if findings:
        raise click.exceptions.Exit(1)


def _list_skipped_laws(backend: str) -> Iterator[str]:
    yield "policies other than `keep-last` with its defaults"
    yield "law-8 (a better summarizer never hurts), which needs a grid (see `harness run`)"
    yield "law-10 over HTTP"
    yield "law-11 (instances differ), which needs many seeds (see `harness task spread`)"
    yield "law-15 (success differs in the cells), which needs many seeds (see `harness task cells`)"
    if not is_isolated(backend):
        yield f"law-9, because the sandbox `{backend}` has no action cache"


def _find_runtime(template: TaskTemplate) -> str:
    try:
        task: object = template(1)
    except (Exception, SystemExit):  # noqa: BLE001  (foreign code is run here)
        # the validity checks report why the task cannot be made
        return "python"
    return task.runtime if isinstance(task, Task) else "python"
