"""`harness tasks`: the suite with its loads, or one task in full. Values are never shown."""

import inspect
from collections import Counter
from collections.abc import Iterator

import click
from rich.table import Table
from rich.text import Text

from harness.cli.terminal import build_table, format_line, print_renderables
from harness.session.preflight import count_first_request_tokens
from harness.task import Fact, Task
from harness.tasks import SUITE, find_only_function, list_knobs, load_task, make_task
from harness.text import replace_control_characters

DISPLAY_SEED = 0
"""Under which a task is shown; facts, script and checks are the same under every other one."""


@click.command("tasks")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the tasks of the suite, or show the one called NAME (path/to/file.py for one of your own).

    First tokens are those of the first request: system prompt, tool schemas and the task's prompt. A fact is recoverable if a
    call shows it again; the cost is the number of calls that this takes when nothing is in view.
    """
    if name is None:
        print_renderables(
            build_suite_table(),
            Text(),
            Text("Each task is a world with knobs, `world.NAME` in a plan: see `harness tasks NAME`."),
        )
        return
    whole_name = f"{name}:{find_only_function(name)}" if name.endswith(".py") else name
    template, task = load_task(whole_name), make_task(whole_name, DISPLAY_SEED)
    description = inspect.getdoc(inspect.getmodule(template)) or inspect.getdoc(template) or ""
    print_renderables(
        Text(replace_control_characters(f"{task.name}: {task.title}\n")), Text(f"{replace_control_characters(description)}\n")
    )
    print_renderables(
        build_facts_table(task),
        Text(),
        build_checks_table(task),
        Text(),
        Text(f"knobs: {', '.join(f'world.{knob}' for knob in list_knobs(template))}"),
    )


def build_suite_table() -> Table:
    """One row for each task."""
    table = build_table("task", "title", "loads", "steps", "first tokens", "facts", "recoverable", "runtime")
    for name, template in sorted(SUITE.items()):
        task = template(DISPLAY_SEED)
        kinds = Counter(fact.kind for fact in task.facts)
        table.add_row(
            name,
            task.title,
            ", ".join(task.tags),
            f"{len(task.script.steps):,}",
            f"{count_first_request_tokens(task.prompt, task.runtime):,}",
            ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()),
            f"{sum(fact.reacquisition_calls is not None for fact in task.facts)} of {len(task.facts)}",
            task.runtime,
        )
    return table


def build_facts_table(task: Task) -> Table:
    """What must be remembered."""
    table = build_table("fact", "kind", "said in", "got again by", "calls", "prior", "needed by")
    for fact in task.facts:
        needing_steps = [step.name for step in task.script.steps if fact.name in step.required_facts]
        table.add_row(
            *_format_cells(
                fact,
                f"{needing_steps[0]}{f' and {len(needing_steps) - 1} more' * (len(needing_steps) > 1)}"
                if needing_steps
                else "no step",
            )
        )
    return table


def _format_cells(fact: Fact, needed: str) -> Iterator[Text]:
    again = f"{fact.recover.tool} {fact.recover.arguments[0][1]}" if fact.recover else "nothing"
    calls = "" if fact.reacquisition_calls is None else str(fact.reacquisition_calls)
    cells = (fact.name, fact.kind, fact.said_in, again, calls, fact.prior, needed)
    return (Text(format_line(cell, 60)) for cell in cells)


def build_checks_table(task: Task) -> Table:
    """What is looked at in the end."""
    table = build_table("check", "what must hold", "rests on")
    for check in task.checks:
        table.add_row(
            *(Text(replace_control_characters(cell)) for cell in (check.name, check.title, ", ".join(check.required_facts)))
        )
    return table
