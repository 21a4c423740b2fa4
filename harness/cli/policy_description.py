"""Command `harness policies show`, and the description of a policy: its source, its stages and its effect on a sample session.

The list of policies, which needs none of this, is a module of its own, so that it starts fast.
"""

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import click
from rich.table import Table
from rich.text import Text

from harness.cli import options
from harness.cli.terminal import build_named_grid, format_line, print_parts
from harness.compaction.conformance import list_cases, list_faults
from harness.compaction.description import describe_stages, extract_description, extract_source, list_defaults, name_policy
from harness.compaction.feasibility import explain_never_due
from harness.compaction.origins import find_origin
from harness.compaction.scaling import fit_policy
from harness.conversation.tokens import Window
from harness.errors import format_count
from harness.inspection.disposition import (
    Disposition,
    MessageDisposition,
    classify_messages,
    sample_dispositions,
    select_remaining,
)
from harness.inspection.sample_run import WINDOW_TOKENS, CompactionAttempt, SampleRun, open_sample_summarizer, run_on_sample
from harness.policies import load_policy_class, policy_from_plain
from harness.protocols import Policy, WarningPolicy
from harness.text import replace_control_characters

FAST_SUMMARIZER = "scripted/empty"
"""Name of the fast summarizer used for the list of policies, where the content of summaries does not matter."""
MAX_COMPACTIONS = 20
"""Maximum number of compactions in the sample session that shows the effect of each listed policy."""


@click.command("show")
@click.argument("name")
@options.FIELDS
@click.option(
    "--window", type=options.POSITIVE, default=WINDOW_TOKENS, help="Context window in tokens; smaller than the sample session."
)
@options.NOMINAL_WINDOW
@options.OUTPUT_LIMIT_SCALE
@click.option("--rounds", type=options.POSITIVE, default=3, help="Number of compactions to draw.")
def show_command(
    name: str,
    fields: tuple[str, ...],
    window: int,
    nominal_window_tokens: int | None,
    output_limit_scale: float,
    rounds: int,
) -> None:
    """Show the effect of the policy NAME on a sample session.

    For each compaction, two bars show the messages that the model sees before and after it, and how much of them is kept, masked,
    summarized and dropped.

    Example: `harness policies show keep-last --set keep_last=20 --window 32768`
    """
    policy = policy_from_plain({"kind": name, **options.parse_fields(fields)})
    context_window = Window(tokens=window, source="configuration")
    policy = fit_policy(policy, context_window, nominal_window_tokens, output_limit_scale).policy
    properties = build_named_grid(list_properties(policy, context_window), indent="  ")
    heading = format_heading(name, inspect.getdoc(type(policy)) or "")
    print_parts(heading, properties, "", *draw_walk(run_on_sample(policy, window), rounds))


def build_entry(name: str) -> tuple[Text, Table]:
    """Return a policy's heading and table of properties; if the policy fails, the table has the error."""
    title = format_heading(name)
    try:
        title = format_heading(name, extract_description(load_policy_class(name)))
        policy = policy_from_plain({"kind": name})
        sample_walk = run_on_sample(policy, summarizer=open_sample_summarizer(FAST_SUMMARIZER), max_compactions=MAX_COMPACTIONS)
        return title, build_named_grid([*list_properties(policy), ("sample", describe_walk(sample_walk))], indent="  ")
    except Exception as error:  # noqa: BLE001  (a policy of another package may raise anything, and the list must go on)
        return title, build_named_grid([("fails", f"{type(error).__name__}: {error}")], indent="  ")


BAR_CELLS = 72
"""Width in characters of the bar that stands for all messages that the model sees before a compaction."""


class DispositionStyle(NamedTuple):
    """Character, color and label with which bars show messages of one kind, such as kept ones."""

    sign: str
    color: str
    label: str


DISPOSITION_STYLES: Mapping[Disposition, DispositionStyle] = {
    "kept": DispositionStyle("█", "green", "kept unchanged"),
    "masked": DispositionStyle("▒", "yellow", "masked (shortened)"),
    "summarized": DispositionStyle("░", "cyan", "summarized (removed)"),
    "dropped": DispositionStyle("·", "red", "dropped"),
    "summary": DispositionStyle("▓", "bold cyan", "summary (inserted)"),
}
MODELLED_NOTE = "; no test runs the original beside it"
OWN_SOURCE = "this project"
"""Text shown as the source of a policy whose docstring names no source."""


def format_heading(name: str, description: str = "") -> Text:
    """Return a heading for the list of policies: the name of a policy in bold, followed by its description."""
    return Text.assemble((replace_control_characters(name), "bold"), f"  {replace_control_characters(description)}")


def list_properties(policy: Policy, window: Window | None = None) -> list[tuple[str, str]]:
    """Return source, stages, fields and warnings of a compaction policy as rows of a table.

    One possible warning says that compaction never becomes due in the context window.
    """
    kind = type(policy)
    constants = " ".join(f"{name}={getattr(policy, name)}" for name in list_defaults(kind))
    stage_rows = [("stage", stage) for stage in describe_stages(policy)]
    warning_rows = [("warning", text) for text in policy.warnings] if isinstance(policy, WarningPolicy) else []
    feasibility_warning = explain_never_due(policy, policy.budget(window)) if window else ""
    warning_rows += [("warning", feasibility_warning)] if feasibility_warning else []
    origin = find_origin(name_policy(policy))
    origin_rows = [("origin", f"{origin}{MODELLED_NOTE if origin.evidence == 'modelled' else ''}")] if origin else []
    if origin:
        cases, faults = list_cases(kind), list_faults(name_policy(policy))
        failing = f"; fails: {', '.join(faults)}" if faults else ""
        origin_rows.append(("situations", f"passes {len(cases) - len(faults)} of {len(cases)} that users report{failing}"))
    return [("source", extract_source(kind) or OWN_SOURCE), *origin_rows, *stage_rows, ("fields", constants), *warning_rows]


def describe_walk(walk: SampleRun) -> str:
    """Return one sentence about what a compaction policy did to the sample session."""
    end = f"until overflow in step {walk.steps + 1}" if walk.has_overflowed else f"in {format_count(walk.steps, 'step')}"
    end += ", then stopped" if walk.was_stopped_early else ""
    summary_text = f"{format_count(len(walk.applied_attempts), 'compaction')} {end}"
    match walk.activity:
        case "active":
            return f"active: {summary_text}"
        case "summarizer never asked":
            return f"active, but the summarizer is never called: {summary_text}"
        case "no effect":
            last = format_line(walk.attempts[-1].event.reason)
            return f"INERT: {format_count(len(walk.attempts), 'attempt')} without effect {end}; {last}"
        case "never fired":
            return f"INERT: never triggered {end}"
        case "control":
            return f"control: the policy never compacts; the session ran {end}"


def draw_walk(walk: SampleRun, max_compactions: int) -> Iterator[Text | Table]:
    """Yield what is printed about a policy's run on the sample session.

    This is the token budget, bars for the first compactions, and the outcome.
    """
    budget = walk.budget
    yield build_named_grid([("window", f"{budget.window_tokens:,} tokens"), ("budget", budget.rule)], indent="  ")
    for change in walk.applied_attempts[:max_compactions]:
        yield Text()
        yield from draw_change(change)
    yield Text()
    if rest := walk.applied_attempts[max_compactions:]:
        yield Text(f"and {format_count(len(rest), 'more compaction')}, the last before step {rest[-1].event.step}")
    failed_events = [change.event for change in walk.attempts if change.event.status != "applied"]
    if failed_events:
        first = f"the first before step {failed_events[0].step}: {format_line(failed_events[0].reason)}"
        yield Text(f"{format_count(len(failed_events), 'attempt')} without effect, {first}")
    yield Text(describe_walk(walk))


def draw_change(change: CompactionAttempt) -> Iterator[Text | Table]:
    """Yield what is printed about one compaction: reason, bars for the messages before and after it, and totals."""
    event = change.event
    yield Text.assemble((f"before step {event.step}", "bold"), f"  {format_line(event.reason)}")
    yield _draw_bar("before", classify_messages(change)[: len(change.before.items)], BAR_CELLS, event.tokens_before, after=False)
    cells = max(1, round(BAR_CELLS * event.tokens_after / max(1, event.tokens_before)))
    yield _draw_bar("after", select_remaining(change), cells, event.tokens_after, after=True)
    yield _build_totals_table(classify_messages(change))
    if event.summary:
        yield Text(f"    “{format_line(event.summary, 160)}”", style="dim")


def _draw_bar(name: str, dispositions: Sequence[MessageDisposition], cells: int, tokens: int, *, after: bool) -> Text:
    line = Text(f"  {name:7}")
    for disposition in sample_dispositions(dispositions, cells, after=after):
        line.append(DISPOSITION_STYLES[disposition].sign, DISPOSITION_STYLES[disposition].color)
    line.append(f"  {tokens:,} tokens, {format_count(len(dispositions), 'message')}")
    return line


def _build_totals_table(dispositions: Sequence[MessageDisposition]) -> Table:
    table = Table.grid(padding=(0, 2))
    for place in range(4):
        table.add_column(justify="right" if place in {1, 2} else "left", overflow="fold")
    for disposition, style in DISPOSITION_STYLES.items():
        matching = [message for message in dispositions if message.disposition == disposition]
        if matching:
            roles = Counter(message.message.role for message in matching)
            before, after = sum(message.tokens_before for message in matching), sum(message.tokens_after for message in matching)
            sizes = f"{after:,} tokens" if disposition in {"kept", "summary"} else f"{before:,} → {after:,} tokens"
            role_counts = ", ".join(f"{count} {role}" for role, count in roles.most_common())
            table.add_row(Text(f"    {style.sign} {style.label}", style.color), str(len(matching)), sizes, role_counts)
    return table
