"""Command `harness inspect`, which shows totals and timeline of a session, a request, or the autopsy of a compaction.

Texts of models and tools are printed as plain text, with their control characters replaced.
"""

from collections.abc import Collection, Iterator, Sequence
from math import ceil
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from harness.cli import options
from harness.cli.autopsy import render_autopsy
from harness.cli.session_lookup import IN_OPTION, load_autopsy, load_session, resolve_source, run_stored_twins
from harness.cli.terminal import build_named_grid, build_table, format_counts, format_line, print_parts
from harness.conversation.advisories import format_advisories
from harness.conversation.messages import Message, Part, Reasoning, ToolCall, ToolResult, extract_part_text
from harness.conversation.transcript import find_key_argument
from harness.conversation.truncation import note_expired_outputs
from harness.conversation.view import drop_rolled_back
from harness.errors import UsageError, format_count
from harness.inspection.timeline import (
    CompactionPoint,
    Inspection,
    SentRequest,
    StepPoint,
    find_counter,
    inspect_session,
    reconstruct_request,
)
from harness.metrics.compaction_effects import CompactionEffects, describe_effects, measure_compactions
from harness.recordings.session_log import Reading
from harness.session.diffs import join_patches
from harness.session.storage import load_patches
from harness.session.totals import SessionTotals, describe_metrics, format_cut, format_price, format_sub_agent_totals
from harness.store.records import UnfinishedStep
from harness.store.sessions.lookup import SessionLocation
from harness.text import format_percent, replace_control_characters

BAR_CELLS = 50
"""Width in characters of the longest bar in the timeline, which stands for the largest request to the model."""
MAX_MESSAGE_LINES = 12
"""Maximum number of lines shown of one message, unless `--whole` is set."""
MAX_COMPACTIONS_SHOWN = 4
"""Maximum number of compactions that the timeline of a session lists between the bars of two steps."""


@click.command("inspect")
@click.argument("session", default="")
@IN_OPTION
@click.option("--step", type=options.POSITIVE, help="Show the request of this step and the answer.")
@click.option(
    "--autopsy",
    type=options.POSITIVE,
    metavar="N",
    help="Show what the N-th compaction did to each fact of the task, and its cost.",
)
@click.option(
    "--twins",
    type=options.POSITIVE,
    metavar="M",
    help="With --autopsy: continue the session M times from there as it was, and M times with the lost facts put back.",
)
@click.option("--patch", is_flag=True, help="Show the changes to the workspace line by line, of --step or of all steps.")
@click.option("--whole", is_flag=True, help="With --step: show long messages in full.")
@click.option("--rows", type=options.POSITIVE, default=40, help="Maximum number of bars in the timeline.")
@options.READING
def command(
    session: str,
    places: tuple[Path, ...],
    step: int | None,
    autopsy: int | None,
    twins: int | None,
    patch: bool,
    whole: bool,
    rows: int,
    reading: Reading,
) -> None:
    """Show the totals and the timeline of a session, one of its requests, or the autopsy of one of its compactions.

    SESSION is the id of a session or a trial (a unique beginning or end is enough), a journal file with one session, or a file in
    which another agent recorded a session. Without SESSION, there must be only one session. The session may be running.

    Sizes in tokens are estimates by the token counter of the session's policy, except in the row `measured`. Numbers of messages
    include the system message. They leave out the user message that some requests need in addition for the provider.

    Twins need the workspace of the compaction: sessions save it, and trials with `compaction_snapshots = true`.

    Example: `harness inspect 3f416a --step 12 --whole`
    """
    if patch:
        source = resolve_source(session, places)
        if not isinstance(source, SessionLocation):
            raise UsageError(f"the recording {session!r} has no workspaces, so --patch cannot show changes; leave --patch out")
        changes = join_patches(load_patches(source, step))
        click.echo(replace_control_characters(changes) or "no file was changed\n", nl=False)
        return
    if twins is not None and autopsy is None:
        raise UsageError("--twins needs --autopsy N, which names the compaction from which the twins continue")
    if autopsy is not None:
        whole_autopsy = load_autopsy(session, places, reading)
        whole_autopsy.find_compaction(autopsy)
        results = None if twins is None else run_stored_twins(session, places, autopsy, twins)
        print_parts(*render_autopsy(whole_autopsy, autopsy, results))
        return
    stored = load_session(session, places, reading)
    if step is not None:
        totals = SessionTotals()
        for entry in stored.entries:
            totals(entry)
        sent = reconstruct_request(stored.entries, step)
        print_parts(*render_step(sent, whole=whole, saved_outputs=stored.saved_outputs, agent_note=totals.agent_note))
        return
    inspection = inspect_session(stored.entries)
    effects = measure_compactions(drop_rolled_back(stored.entries), find_counter(stored.entries))
    print_parts(
        build_overview(inspection, stored.draft, effects),
        "",
        build_shares_table(inspection),
        "",
        *draw_timeline(inspection, rows),
    )


def build_overview(session: Inspection, draft: UnfinishedStep | None = None, effects: CompactionEffects | None = None) -> Table:
    """Return a table with the totals of a session and, if they are given, the unfinished answer and effects of compactions."""
    totals = session.totals
    rule = "no threshold in tokens" if session.threshold_tokens is None else f"compacted at {session.threshold_tokens:,} tokens"
    window = f"window {session.window_tokens:,} tokens" if session.window_tokens else "window unknown"
    outcome = f"{session.status}{f' ({session.reason})' * bool(session.reason)} {session.detail}"
    length = (session.turns, "turn"), (totals.steps, "step"), (session.messages, "message"), (session.parts, "part")
    outcomes = (session.summaries, "summary"), (session.prunings, "pruning"), (totals.fruitless_attempts, "fruitless attempt")
    missed_total = (totals.missed_targets, "missed target")
    sub_agents = f"{len(totals.sub_agents)}, included in these totals: {format_sub_agent_totals(totals.sub_agents)}"
    rows = {
        "session": session.session_id or "unknown",
        "task": format_line(session.task, 160),
        "model": f"{session.model or 'unknown'}, {window}",
        "policy": f"{session.policy or 'unknown'}, {rule} ({session.budget_rule})",
        "warnings": "\n".join(format_advisories(session.advisories)),
        "ended": format_line(outcome, 160),
        "unfinished": _describe_draft(draft) if draft else "",
        "length": format_counts(*length),
        "in view": f"{format_count(session.view_messages, 'message')}, {session.view_tokens:,} tokens",
        "compacted": f"{format_count(session.compacted_parts, 'part')}; {format_counts(*outcomes, missed_total)}",
        "target": totals.shortfall,
        "measured": _describe_usage(totals),
        **dict(describe_metrics(totals)),
        **(dict(describe_effects(effects, totals.summary_note)) if effects else {}),
        "sub-agents": sub_agents if totals.sub_agents else "",
        "cost": _describe_cost(totals),
        **{f"alert {number}": reading.describe() for number, reading in enumerate(session.alerts, 1)},
        "events": ", ".join(f"{count} {kind}" for kind, count in session.events.items()),
    }
    return build_named_grid((name, text) for name, text in rows.items() if text)


def _describe_draft(draft: UnfinishedStep) -> str:
    if draft.calls:
        running = "; ".join(format_line(f"{call.name} {find_key_argument(call)}", 100) for call in draft.calls)
        return f"step {draft.step}: the answer is complete, these calls have no result yet: {running}"
    if draft.results:
        names = ", ".join(result.name for result in draft.results)
        return f"step {draft.step}: the results of these calls are saved, others may still run: {format_line(names, 100)}"
    part_name, text = ("answer", draft.text) if draft.text else ("reasoning", draft.reasoning)
    return f"step {draft.step}: {len(text):,} characters of the {part_name} so far: {format_line(text, 100)}"


def _describe_cost(totals: SessionTotals) -> str:
    if totals.cost_source is not None:  # the cost of a recording is that of all its calls
        return totals.describe_cost() + (", summaries included" if totals.agents_cost_usd else "")
    return f"agent {totals.describe_cost()}, summaries {format_price(totals.summarizer_cost_usd)}{totals.summary_note}"


def _describe_usage(totals: SessionTotals) -> str:
    agents = f"{totals.all_prompt_tokens:,} prompt tokens, {totals.all_output_tokens:,} output tokens"
    return f"{agents}; {totals.total_tokens:,} tokens in all requests and answers, those of summaries included"


def build_shares_table(session: Inspection) -> Table:
    """Return a table of tokens by kind of message: of those that the model saw last, and of the whole log."""
    viewed, logged = session.view_tokens, sum(share.logged_tokens for share in session.shares)
    rows = (
        (kind, tokens, _format_percent(tokens, viewed), messages, all_tokens, _format_percent(all_tokens, logged), all_messages)
        for kind, messages, tokens, all_messages, all_tokens in session.shares
    )
    columns = ("tokens by kind", "in view", "", "messages", "logged", "", "messages")
    return build_table(columns, rows, justify_rest="right")


def _format_percent(part: int, whole: int) -> str:
    return format_percent(part / whole, 1) if whole else ""


def draw_timeline(session: Inspection, max_rows: int) -> Iterator[Text]:
    """Yield the lines of a session's timeline: a bar for each step, and each compaction above the next step.

    If there are more steps than rows, a bar stands for several steps and shows the largest request of them.
    """
    points = session.timeline
    if not points:
        yield Text("timeline: no finished step")
        yield from _draw_compactions(session.compactions)
        return
    threshold_tokens = session.threshold_tokens or 0
    scale = max(threshold_tokens, *(point.view_tokens for point in points), 1)
    marked = f"; │ = threshold of {threshold_tokens:,} tokens" if threshold_tokens else ""
    yield Text(f"timeline of the tokens in view; full bar = {scale:,} tokens{marked}", style="bold")
    open_compactions = list(session.compactions)
    for group in _group_steps(session, max_rows):
        group_compactions = [compaction for compaction in open_compactions if compaction.step <= group[-1].step]
        open_compactions = open_compactions[len(group_compactions) :]
        yield from _draw_compactions(group_compactions)
        yield _draw_bar(group, scale, threshold_tokens)
    yield from _draw_compactions(open_compactions)


def _group_steps(session: Inspection, max_rows: int) -> Iterator[Sequence[StepPoint]]:
    """Divide the steps into groups of neighbours, one for each row of the timeline.

    A group ends at a compaction, unless compactions would take up more than half of the rows.
    """
    points, size = session.timeline, ceil(len(session.timeline) / max_rows)
    changed = {compaction.step for compaction in session.compactions if compaction.status == "applied"}
    breaks = changed if 2 * len(changed) <= max_rows else set()
    start = 0
    for place in range(1, len(points) + 1):
        if place == len(points) or place - start == size or points[place].step in breaks:
            yield points[start:place]
            start = place


def _draw_bar(group: Sequence[StepPoint], scale: int, threshold_tokens: int) -> Text:
    first, last, peak = group[0].step, group[-1].step, max(point.view_tokens for point in group)
    cells = ["█"] * max(1, round(BAR_CELLS * peak / scale)) + [" "] * BAR_CELLS
    if threshold_tokens:
        cells[min(BAR_CELLS, round(BAR_CELLS * threshold_tokens / scale))] = "│"
    label = str(first) if first == last else f"{first}-{last}"
    errors = sum(point.call_errors for point in group)
    error_note = f"  {format_count(errors, 'call')} failed" if errors else ""
    return Text(f"{label:>11}  {''.join(cells[: BAR_CELLS + 1])}  {peak:>9,}{error_note}")


def _draw_compactions(compactions: Sequence[CompactionPoint]) -> Iterator[Text]:
    for compaction in compactions[:MAX_COMPACTIONS_SHOWN]:
        yield _draw_compaction(compaction)
    if len(compactions) > MAX_COMPACTIONS_SHOWN:
        yield Text(f"{'':>11}  … and {len(compactions) - MAX_COMPACTIONS_SHOWN} more", style="cyan")


def _draw_compaction(point: CompactionPoint) -> Text:
    if point.status != "applied":
        return Text(f"{'':>11}  ▽ {point.status} before step {point.step}: {format_line(point.reason, 120)}", style="yellow")
    return Text(
        f"{'':>11}  ▼ round {point.round} before step {point.step}: {point.outcome}, "
        f"{point.tokens_before:,} → {point.tokens_after:,} tokens, "
        f"{point.messages_before} → {format_count(point.messages_after, 'message')}, {point.forgotten} removed "
        f"({format_line(point.reason, 120)})",
        style="cyan",
    )


def render_step(
    sent: SentRequest, *, whole: bool, saved_outputs: Collection[str] | None = None, agent_note: str = ""
) -> Iterator[Text]:
    """Yield the printed parts of a step: its request message by message, the answer, and the tool results.

    Args:
        sent: Request of the step, with the answer and the tool results.
        whole: Whether long messages are shown in full.
        saved_outputs: Names of the session's saved tool outputs that were not deleted; None if they are unknown.
        agent_note: Note behind the cost and the duration of the model call, such as ` (simulated)`.
    """
    finished, usage = sent.end_event, sent.end_event.usage
    view_size = format_count(len(sent.view.items), "message")
    yield Text(f"step {sent.step}: {view_size} in view, {sent.view.tokens:,} tokens", style="bold")
    if len(sent.messages) > len(sent.view.items):
        note = "providers require a user message behind the system message"
        yield Text(f"sent as {format_count(len(sent.messages), 'message')}: {note}", style="dim")
    digest = format_line(sent.logged_digest[:16]) or "none"
    note, style = (
        ("as logged", "dim") if sent.matches_log else (f"but the log says {digest}: this is not the request that was sent", "red")
    )
    yield Text(f"digest {sent.digest[:16]}…, {note}", style=style)
    for compaction in sent.compactions:
        yield Text(f"compaction before this step: {compaction.status}, {format_line(compaction.reason, 160)}", style="cyan")
        if compaction.shortfall:
            yield Text(f"  {format_line(compaction.shortfall, 400)}", style="yellow")
    labels = [*map(str, range(1, len(sent.messages) + 1)), "answer", *["result"] * len(sent.results)]
    for label, message in zip(labels, (*sent.messages, sent.answer, *sent.results), strict=True):
        yield from _render_message(label, message, saved_outputs, whole=whole)
    yield Text(
        f"\nmeasured: {usage.prompt_tokens:,} tokens in ({usage.cache_read_tokens:,} from a cache), {usage.output_tokens:,} out, "
        f"{format_price(finished.cost_usd)}{agent_note}; model {finished.model_seconds:.1f} s{agent_note}, "
        f"tools {finished.tool_seconds:.1f} s",
        style="dim",
    )


def _render_message(label: str, message: Message, saved_outputs: Collection[str] | None, *, whole: bool) -> Iterator[Text]:
    yield Text(f"\n[{label}] {message.role}", style="bold green")
    texts = [note_expired_outputs(_render_part(part), saved_outputs) for part in message.parts]
    lines = [line for text in texts for line in replace_control_characters(text).split("\n")]
    visible_lines = lines if whole else lines[:MAX_MESSAGE_LINES]
    for line in visible_lines:
        cut = line if whole or len(line) <= 400 else f"{line[:400]}… ({len(line) - 400:,} more characters)"
        yield Text(f"  {cut}")
    if len(lines) > len(visible_lines):
        yield Text(f"  … {format_count(len(lines) - len(visible_lines), 'more line')}; --whole shows them", style="dim")


def _render_part(part: Part) -> str:
    match part:
        case Reasoning():
            return f"(thinking) {part.text}"
        case ToolCall():
            return f"calls {part.name} {part.arguments_json}"
        case ToolResult():
            cut = f", {format_cut(part)} cut" if part.clipped_characters else ""
            return f"({part.name}: {part.status}{cut})\n{part.output}"
        case _:
            return extract_part_text(part)
