"""A policy and what it did to the sample session, laid out for a terminal. Its own words are hostile text like any other."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from harness.cli.terminal_text import format_line, replace_control_characters
from harness.compaction.description import describe_stages, extract_source, list_defaults
from harness.compaction.feasibility import explain_never_due
from harness.errors import format_count
from harness.inspection.disposition import (
    Disposition,
    MessageDisposition,
    classify_messages,
    sample_dispositions,
    select_remaining,
)
from harness.inspection.sample_run import CompactionAttempt, SampleRun
from harness.protocols import Policy, WarningPolicy
from harness.tokens import Window

BAR_CELLS = 72
"""Width of a bar that stands for a whole view."""
DISPOSITION_SIGNS: Mapping[Disposition, str] = {"kept": "█", "masked": "▒", "summarized": "░", "dropped": "·", "summary": "▓"}
DISPOSITION_STYLES: Mapping[Disposition, str] = {
    "kept": "green",
    "masked": "yellow",
    "summarized": "cyan",
    "dropped": "red",
    "summary": "bold cyan",
}
DISPOSITION_LABELS: Mapping[Disposition, str] = {
    "kept": "kept as they are",
    "masked": "masked, they stay shorter",
    "summarized": "summarized, they go",
    "dropped": "dropped",
    "summary": "put in: the summary",
}
OWN_SOURCE = "ours"
"""Of a policy whose description names no source."""


def format_heading(name: str, description: str = "") -> Text:
    """Name and what it does."""
    return Text.assemble((replace_control_characters(name), "bold"), f"  {replace_control_characters(description)}")


def list_properties(kind: type[Any], policy: Policy, window: Window | None = None) -> list[tuple[str, str]]:
    """Source, stages and fields of a policy, as rows; and that it never acts in a window."""
    constants = " ".join(f"{name}={getattr(policy, name)}" for name in list_defaults(kind))
    stage_rows = [("stage", stage) for stage in describe_stages(policy)]
    warning_rows = [("warning", text) for text in policy.warnings] if isinstance(policy, WarningPolicy) else []
    feasibility_warning = explain_never_due(policy, policy.budget(window)) if window else ""
    warning_rows += [("warning", feasibility_warning)] if feasibility_warning else []
    return [("source", extract_source(kind) or OWN_SOURCE), *stage_rows, ("fields", constants), *warning_rows]


def build_rows_table(entries: Sequence[tuple[str, str]]) -> Table:
    """Names in a narrow column, texts beside them."""
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=10)
    table.add_column(overflow="fold")
    for name, text in entries:
        table.add_row(Text(f"  {name}", style="dim"), Text(replace_control_characters(text)))
    return table


def describe_walk(walk: SampleRun) -> str:
    """What came of a policy in the sample, in a sentence."""
    end = (
        f"until the window was full in step {walk.steps + 1}" if walk.has_overflowed else f"in {format_count(walk.steps, 'step')}"
    )
    end += ", then broken off" if walk.was_stopped_early else ""
    summary_text = f"{format_count(len(walk.applied_attempts), 'compaction')} {end}"
    match walk.activity:
        case "active":
            return f"acts: {summary_text}"
        case "summarizer never asked":
            return f"acts, but never asks its summarizer: {summary_text}"
        case "no effect":
            last = format_line(walk.attempts[-1].event.reason)
            return f"INERT: {format_count(len(walk.attempts), 'attempt')} changed nothing {end}; {last}"
        case "never fired":
            return f"INERT: never due {end}"
        case "control":
            return f"acts never: it has no rule; the session went on {end}"


def draw_walk(walk: SampleRun, max_compactions: int) -> Iterator[Text | Table]:
    """The budget, the first compactions one by one, and how it ended."""
    budget = walk.budget
    yield build_rows_table([("window", f"{budget.window_tokens:,} tokens"), ("budget", budget.rule)])
    for change in walk.applied_attempts[:max_compactions]:
        yield Text()
        yield from draw_change(change)
    yield Text()
    if rest := walk.applied_attempts[max_compactions:]:
        yield Text(f"and {len(rest)} more, the last before step {rest[-1].event.step}")
    failed_events = [change.event for change in walk.attempts if change.event.status != "applied"]
    if failed_events:
        first = f"the first before step {failed_events[0].step}: {format_line(failed_events[0].reason)}"
        yield Text(f"{format_count(len(failed_events), 'attempt')} changed nothing, {first}")
    yield Text(describe_walk(walk))


def draw_change(change: CompactionAttempt) -> Iterator[Text | Table]:
    """One compaction: why, the view before and after, and the sums by what became of the messages."""
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
    for fate in sample_dispositions(dispositions, cells, after=after):
        line.append(DISPOSITION_SIGNS[fate], DISPOSITION_STYLES[fate])
    line.append(f"  {tokens:,} tokens, {format_count(len(dispositions), 'message')}")
    return line


def _build_totals_table(dispositions: Sequence[MessageDisposition]) -> Table:
    """One row for each fate that some message met."""
    table = Table.grid(padding=(0, 2))
    for place in range(4):
        table.add_column(justify="right" if place in {1, 2} else "left", overflow="fold")
    for fate, sign in DISPOSITION_SIGNS.items():
        matching = [one for one in dispositions if one.disposition == fate]
        if matching:
            roles = Counter(one.message.role for one in matching)
            before, after = sum(one.tokens_before for one in matching), sum(one.tokens_after for one in matching)
            sizes = f"{after:,} tokens" if fate in {"kept", "summary"} else f"{before:,} → {after:,} tokens"
            role_counts = ", ".join(f"{count} {role}" for role, count in roles.most_common())
            table.add_row(
                Text(f"    {sign} {DISPOSITION_LABELS[fate]}", style=DISPOSITION_STYLES[fate]),
                str(len(matching)),
                Text(sizes),
                Text(role_counts),
            )
    return table
