"""A policy and what it did to the sample session, laid out for a terminal. Its own words are hostile text like any other."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from harness.cli.terminal_text import one_line, printable
from harness.compaction.description import defaults, source, stages
from harness.compaction.feasibility import never_due
from harness.errors import counted
from harness.inspection.disposition import Fate, Fated, fates, left, sampled
from harness.inspection.walk import Change, Walk
from harness.protocols import Policy, Warns
from harness.tokens import Window

CELLS = 72
"""Width of a bar that stands for a whole view."""
SIGNS: Mapping[Fate, str] = {"kept": "█", "masked": "▒", "summarized": "░", "dropped": "·", "summary": "▓"}
STYLES: Mapping[Fate, str] = {
    "kept": "green",
    "masked": "yellow",
    "summarized": "cyan",
    "dropped": "red",
    "summary": "bold cyan",
}
BECAME: Mapping[Fate, str] = {
    "kept": "kept as they are",
    "masked": "masked, they stay shorter",
    "summarized": "summarized, they go",
    "dropped": "dropped",
    "summary": "put in: the summary",
}
UNFOUNDED = "ours"
"""Of a policy whose description names no source."""


def heading(name: str, said: str = "") -> Text:
    """Name and what it does."""
    return Text.assemble((printable(name), "bold"), f"  {printable(said)}")


def described(kind: type[Any], policy: Policy, window: Window | None = None) -> list[tuple[str, str]]:
    """Source, stages and fields of a policy, as rows; and that it never acts in a window."""
    constants = " ".join(f"{name}={getattr(policy, name)}" for name in defaults(kind))
    told = [("stage", stage) for stage in stages(policy)]
    warned = [("warning", text) for text in policy.warnings] if isinstance(policy, Warns) else []
    late = never_due(policy, policy.budget(window)) if window else ""
    warned += [("warning", late)] if late else []
    return [("source", source(kind) or UNFOUNDED), *told, ("fields", constants), *warned]


def rows(named: Sequence[tuple[str, str]]) -> Table:
    """Names in a narrow column, texts beside them."""
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=10)
    table.add_column(overflow="fold")
    for name, text in named:
        table.add_row(Text(f"  {name}", style="dim"), Text(printable(text)))
    return table


def in_words(walk: Walk) -> str:
    """What came of a policy in the sample, in a sentence."""
    end = f"until the window was full in step {walk.steps + 1}" if walk.overflowed else f"in {counted(walk.steps, 'step')}"
    end += ", then broken off" if walk.broken_off else ""
    changed = f"{counted(len(walk.applied), 'compaction')} {end}"
    match walk.activity:
        case "active":
            return f"acts: {changed}"
        case "summarizer never asked":
            return f"acts, but never asks its summarizer: {changed}"
        case "no effect":
            last = one_line(walk.changes[-1].event.reason)
            return f"INERT: {counted(len(walk.changes), 'attempt')} changed nothing {end}; {last}"
        case "never fired":
            return f"INERT: never due {end}"
        case "control":
            return f"acts never: it has no rule; the session went on {end}"


def picture(walk: Walk, most: int) -> Iterator[Text | Table]:
    """The budget, the first compactions one by one, and how it ended."""
    budget = walk.budget
    yield rows([("window", f"{budget.window_tokens:,} tokens"), ("budget", budget.rule)])
    for change in walk.applied[:most]:
        yield Text()
        yield from drawn(change)
    yield Text()
    if rest := walk.applied[most:]:
        yield Text(f"and {len(rest)} more, the last before step {rest[-1].event.step}")
    fruitless = [change.event for change in walk.changes if change.event.status != "applied"]
    if fruitless:
        first = f"the first before step {fruitless[0].step}: {one_line(fruitless[0].reason)}"
        yield Text(f"{counted(len(fruitless), 'attempt')} changed nothing, {first}")
    yield Text(in_words(walk))


def drawn(change: Change) -> Iterator[Text | Table]:
    """One compaction: why, the view before and after, and the sums by what became of the messages."""
    event = change.event
    yield Text.assemble((f"before step {event.step}", "bold"), f"  {one_line(event.reason)}")
    yield _bar("before", fates(change)[: len(change.before.items)], CELLS, event.tokens_before, after=False)
    cells = max(1, round(CELLS * event.tokens_after / max(1, event.tokens_before)))
    yield _bar("after", left(change), cells, event.tokens_after, after=True)
    yield _sums(fates(change))
    if event.summary:
        yield Text(f"    “{one_line(event.summary, 160)}”", style="dim")


def _bar(name: str, fated: Sequence[Fated], cells: int, tokens: int, *, after: bool) -> Text:
    line = Text(f"  {name:7}")
    for fate in sampled(fated, cells, after=after):
        line.append(SIGNS[fate], STYLES[fate])
    line.append(f"  {tokens:,} tokens, {counted(len(fated), 'message')}")
    return line


def _sums(fated: Sequence[Fated]) -> Table:
    """One row for each fate that some message met."""
    table = Table.grid(padding=(0, 2))
    for place in range(4):
        table.add_column(justify="right" if place in {1, 2} else "left", overflow="fold")
    for fate, sign in SIGNS.items():
        met = [one for one in fated if one.fate == fate]
        if met:
            roles = Counter(one.message.role for one in met)
            before, after = sum(one.tokens_before for one in met), sum(one.tokens_after for one in met)
            sizes = f"{after:,} tokens" if fate in {"kept", "summary"} else f"{before:,} → {after:,} tokens"
            said = ", ".join(f"{count} {role}" for role, count in roles.most_common())
            table.add_row(Text(f"    {sign} {BECAME[fate]}", style=STYLES[fate]), str(len(met)), Text(sizes), Text(said))
    return table
