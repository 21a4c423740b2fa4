"""Text of the autopsy of one compaction, which `harness inspect --autopsy` prints."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.cli.terminal import build_table, format_line
from harness.inspection.autopsy import (
    CompactionAutopsy,
    FactFate,
    SessionAutopsy,
    describe_action,
    describe_check,
    describe_compaction,
    describe_outcome,
)
from harness.inspection.disposition import classify_messages
from harness.inspection.distinctive_words import (
    SURVIVAL_HEADS,
    SURVIVAL_NOTE,
    CompactionWords,
    Survival,
    WordQuote,
    describe_fate,
    describe_words,
)
from harness.inspection.fact_history import Holding
from harness.inspection.sample_run import CompactionAttempt
from harness.session.twins import Twins

STYLES = {"wrong": "red", "stale": "red", "looked up": "yellow", "stated again": "yellow", "right": "green"}
"""Colours of facts by the first consequence of a compaction."""
MAX_CELL_CHARACTERS = 160
MAX_WORDS = 30
"""Number of distinctive words that are printed, those used later first; the widget and the page list more."""


def render_autopsy(autopsy: SessionAutopsy, number: int, twins: Twins | None = None) -> Iterator[RenderableType]:
    """Yield the printed parts of the autopsy of one compaction.

    Args:
        autopsy: Autopsy of the whole session.
        number: Number of an applied compaction of the session.
        twins: Twins of the compaction, if some were run.

    Raises:
        UsageError: The session has no such compaction.
    """
    compaction = autopsy.find_compaction(number)
    event = compaction.attempt.event
    yield Text(f"compaction {number} of {len(autopsy.compactions)}, before step {compaction.step}", style="bold")
    yield Text(f"{event.tokens_before:,} → {event.tokens_after:,} tokens; {format_line(event.explanation, MAX_CELL_CHARACTERS)}")
    if autopsy.notice:
        yield Text(autopsy.notice, style="yellow")
        if compaction.words and compaction.words.fates:
            yield Text(describe_words(compaction.words), style="bold")
            yield _build_word_table(compaction.words)
            yield Text(f"\n{SURVIVAL_NOTE}", style="dim")
            yield _build_survival_table(compaction.words.survival)
        else:
            yield _build_message_table(compaction.attempt)
        return
    yield Text(describe_compaction(compaction, twins), style="bold")
    yield _build_fact_table(compaction)
    if autopsy.failed_checks is None:
        yield Text("The results of the checks are not stored with this session.", style="dim")
        return
    names = {fate.name for fate in compaction.lost}
    for check in autopsy.failed_checks:
        if names & {cause.name for cause in check.causes}:
            yield Text(f"failed check “{format_line(check.title)}” needs {describe_check(check)}")
    if twins is not None:
        yield Text(f"\n{twins.render_text()}")


def _build_fact_table(compaction: CompactionAutopsy) -> Table:
    table = build_table(("fact", "before", "what the policy did", "after", "first consequence"), ())
    for fate in compaction.fates:
        texts = [
            f"{fate.name}\n{fate.kind}",
            f"{fate.before.label}:\n{_format_holding(fate.before)}",
            f"{fate.action}: {describe_action(fate)}".rstrip(": "),
            _describe_after(fate),
            "\n".join(format_line(line, MAX_CELL_CHARACTERS) for line in describe_outcome(fate)),
        ]
        style = "" if fate.is_kept and fate.outcome not in ("wrong", "stale") else STYLES.get(fate.outcome, "")
        table.add_row(*[Text(text, style=style if place in (0, 4) else "") for place, text in enumerate(texts)])
    return table


def _describe_after(fate: FactFate) -> str:
    state = "in view" if fate.is_kept else "not in view"
    return state if fate.after is None else f"{state}; {fate.after.label}:\n{_format_holding(fate.after)}"


def _format_holding(holding: Holding) -> str:
    value = f"[{holding.value}]" if holding.value else ""
    return format_line(f"{holding.text_before}{value}{holding.text_after}", 3 * MAX_CELL_CHARACTERS)


def _build_word_table(words: CompactionWords) -> Table:
    table = build_table(("word", "before", "what the policy did", "after", "later"), ())
    for fate in words.fates[:MAX_WORDS]:
        texts = [
            f"{format_line(fate.word, MAX_CELL_CHARACTERS)}\n{fate.kind}",
            _format_quote(fate.before),
            fate.action,
            "not in view" if fate.after is None else f"in view; {_format_quote(fate.after)}",
            describe_fate(fate),
        ]
        style = "yellow" if fate.fate == "used later" else ""
        table.add_row(*[Text(text, style=style if place in (0, 4) else "") for place, text in enumerate(texts)])
    if len(words.fates) > MAX_WORDS:
        table.add_row(f"and {len(words.fates) - MAX_WORDS:,} more", "", "", "", "")
    return table


def _format_quote(quote: WordQuote) -> str:
    text = format_line(f"{quote.text_before}{f'[{quote.word}]' if quote.word else ''}{quote.text_after}", 3 * MAX_CELL_CHARACTERS)
    return f"{quote.label}:\n{text}" if text else quote.label


def _build_survival_table(survival: Sequence[Survival]) -> Table:
    rows = ((f"{row.kind}s", *(f"{number:,}" for number in row[1:])) for row in survival if row.evicted)
    return build_table(SURVIVAL_HEADS, rows)


def _build_message_table(change: CompactionAttempt) -> Table:
    rows = (
        (message.message.role, message.disposition, f"{message.tokens_before:,}", f"{message.tokens_after:,}")
        for message in classify_messages(change)
    )
    return build_table(("message", "what the policy did", "tokens before", "after"), rows)
