"""A session laid out for a terminal. What models and tools wrote is shown as plain text, control characters taken out."""

from collections.abc import Iterator, Sequence
from math import ceil

from rich.table import Table
from rich.text import Text

from harness.cli.terminal_text import one_line, printable
from harness.errors import counted
from harness.inspection.requests import Sent
from harness.inspection.timeline import CompactionPoint, Inspection, StepPoint, took
from harness.messages import Message, Part, Reasoning, ToolCall, ToolResult, part_text
from harness.store.records import Draft
from harness.transcript import key_argument

ROWS = 40
"""Of a timeline, where nobody asks for another number."""
CELLS = 50
"""Width of the bar of the largest view."""
LINES = 12
"""Shown of a long message."""
COMPACTIONS = 4
"""Shown in one row of the timeline."""


def overview(session: Inspection, draft: Draft | None = None) -> Table:
    """The totals, and how far an answer had come that is not logged."""
    due = "never compacted for its size" if session.threshold_tokens is None else f"compacted at {session.threshold_tokens:,}"
    window = f"window {session.window_tokens:,} tokens" if session.window_tokens else "window not known"
    ended = " ".join(part for part in (session.status, f"({session.reason})" if session.reason else "", session.detail) if part)
    others = [f"{count} {kind}" for kind, count in session.events.items()]
    return _named(
        [
            ("session", session.session_id or "not named"),
            ("task", one_line(session.task, 160)),
            ("model", f"{session.model or 'not named'}, {window}"),
            ("policy", f"{session.policy or 'not named'}, {due} ({session.budget_rule})"),
            ("ended", one_line(ended, 160)),
            *([("unended", _unended(draft))] if draft else []),
            ("length", ", ".join(counted(getattr(session, f"{noun}s"), noun) for noun in ("turn", "step", "message", "part"))),
            ("in view", f"{counted(session.view_messages, 'message')}, {session.view_tokens:,} tokens"),
            ("compacted", _compacted(session)),
            ("cut", f"{session.clipped_outputs} tool outputs, by {session.clipped_characters:,} characters"),
            ("measured", _measured(session)),
            *([("sub-agents", f"{len(asked)}, in these sums: {took(asked)}")] if (asked := session.sub_agents) else []),
            ("cost", _cost(session)),
            ("events", ", ".join(others)),
        ]
    )


def _named(told: Sequence[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=10)
    table.add_column(overflow="fold")
    for name, text in told:
        table.add_row(Text(name, style="dim"), Text(printable(text)))
    return table


def _unended(draft: Draft) -> str:
    if draft.calls:
        running = "; ".join(one_line(f"{call.name} {key_argument(call)}", 100) for call in draft.calls)
        return f"step {draft.step}, its answer is whole, its calls have no result yet: {running}"
    what, text = ("answer", draft.text) if draft.text else ("reasoning", draft.reasoning)
    return f"step {draft.step}, {len(text):,} characters of its {what} so far: {one_line(text, 100)}"


def _compacted(session: Inspection) -> str:
    done = f"{session.summaries} summaries, {session.prunings} prunings, {session.fruitless} fruitless attempts"
    return f"{session.compacted_parts} parts; {done}"


def _measured(session: Inspection) -> str:
    own = session.prompt_tokens - sum(one.prompt_tokens for one in session.sub_agents)
    share = f", {100 * session.cache_read_tokens / own:.0f} % of the agent's own from a cache" if own else ""
    return f"{session.prompt_tokens:,} tokens sent{share}, {session.output_tokens:,} written"


def _cost(session: Inspection) -> str:
    agent = "not known" if session.total_cost_usd is None else f"${session.total_cost_usd:.4f}"
    return f"{agent}, summaries ${session.summarizer_cost_usd:.4f}"


def shares(session: Inspection) -> Table:
    """Where the tokens are."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, name in enumerate(("tokens by kind", "in view", "", "messages", "ever", "", "messages")):
        table.add_column(name, justify="right" if place else "left")
    viewed, logged = session.view_tokens, sum(share.logged_tokens for share in session.shares)
    for share in session.shares:
        table.add_row(
            share.kind,
            f"{share.view_tokens:,}",
            _percent(share.view_tokens, viewed),
            str(share.view_messages),
            f"{share.logged_tokens:,}",
            _percent(share.logged_tokens, logged),
            str(share.logged_messages),
        )
    return table


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def timeline(session: Inspection, most_rows: int = ROWS) -> Iterator[Text]:
    """A bar for each step, or the largest of several; compactions stand above the step before which they took place."""
    points = session.timeline
    if not points:
        yield Text("timeline: no step was finished")
        yield from (_compaction(one) for one in session.compactions)
        return
    threshold = session.threshold_tokens or 0
    scale = max(threshold, *(point.view_tokens for point in points), 1)
    marked = f"; │ = compacted at {threshold:,}" if threshold else ""
    yield Text(f"timeline: tokens in view, one bar = {scale:,}{marked}", style="bold")
    pending = list(session.compactions)
    for group in _groups(session, most_rows):
        due = [one for one in pending if one.step <= group[-1].step]
        pending = pending[len(due) :]
        yield from _several(due)
        yield _bar(group, scale, threshold)
    yield from _several(pending)


def _groups(session: Inspection, most_rows: int) -> Iterator[Sequence[StepPoint]]:
    """Steps of one row: as many as needed, and none across a compaction, unless there are too many of those."""
    points, size = session.timeline, ceil(len(session.timeline) / most_rows)
    changed = {one.step for one in session.compactions if one.status == "applied"}
    breaks = changed if 2 * len(changed) <= most_rows else set()
    start = 0
    for place in range(1, len(points) + 1):
        if place == len(points) or place - start == size or points[place].step in breaks:
            yield points[start:place]
            start = place


def _bar(group: Sequence[StepPoint], scale: int, threshold: int) -> Text:
    first, last, peak = group[0].step, group[-1].step, max(point.view_tokens for point in group)
    cells = ["█"] * max(1, round(CELLS * peak / scale)) + [" "] * CELLS
    if threshold:
        cells[min(CELLS, round(CELLS * threshold / scale))] = "│"
    label = str(first) if first == last else f"{first}-{last}"
    errors = sum(point.call_errors for point in group)
    noted = f"  {counted(errors, 'call')} failed" if errors else ""
    return Text(f"{label:>11}  {''.join(cells[: CELLS + 1])}  {peak:>9,}{noted}")


def _several(due: Sequence[CompactionPoint]) -> Iterator[Text]:
    for one in due[:COMPACTIONS]:
        yield _compaction(one)
    if len(due) > COMPACTIONS:
        yield Text(f"{'':>11}  … and {len(due) - COMPACTIONS} more", style="cyan")


def _compaction(one: CompactionPoint) -> Text:
    if one.status != "applied":
        return Text(f"{'':>11}  ▽ {one.status} before step {one.step}: {one_line(one.reason, 120)}", style="yellow")
    return Text(
        f"{'':>11}  ▼ round {one.round} before step {one.step}: {one.what}, {one.tokens_before:,} → {one.tokens_after:,} tokens, "
        f"{one.messages_before} → {counted(one.messages_after, 'message')} ({one_line(one.reason, 120)})",
        style="cyan",
    )


def step_by_step(sent: Sent, *, whole: bool) -> Iterator[Text]:
    """What was sent at a step, the answer, and the results of its calls."""
    finished, usage = sent.finished, sent.finished.usage
    yield Text(f"step {sent.step}: {counted(len(sent.messages), 'message')} sent, {sent.view.tokens:,} tokens", style="bold")
    if sent.is_as_logged:
        yield Text(f"digest {sent.digest[:16]}…, as it was logged", style="dim")
    else:
        yield Text(
            f"digest {sent.digest[:16]}…, but {one_line(sent.logged_digest[:16]) or 'none'} was logged: not what was sent",
            style="red",
        )
    for one in sent.compactions:
        yield Text(f"compaction right before: {one.status}, {one_line(one.reason, 160)}", style="cyan")
    for number, message in enumerate(sent.messages, 1):
        yield from _message(f"{number}", message, whole=whole)
    yield from _message("answer", sent.answer, whole=whole)
    for result in sent.results:
        yield from _message("result", result, whole=whole)
    price = "price not known" if finished.cost_usd is None else f"${finished.cost_usd:.4f}"
    yield Text(
        f"\nmeasured: {usage.prompt_tokens:,} tokens in ({usage.cache_read_tokens:,} from a cache), {usage.output_tokens:,} out, "
        f"{price}; model {finished.model_seconds:.1f} s, tools {finished.tool_seconds:.1f} s",
        style="dim",
    )


def _message(label: str, message: Message, *, whole: bool) -> Iterator[Text]:
    yield Text(f"\n[{label}] {message.role}", style="bold green")
    lines = [line for part in message.parts for line in printable(_shown(part)).split("\n")]
    kept = lines if whole else lines[:LINES]
    for line in kept:
        cut = line if whole or len(line) <= 400 else f"{line[:400]}… ({len(line) - 400:,} characters more)"
        yield Text(f"  {cut}")
    if len(lines) > len(kept):
        yield Text(f"  … {counted(len(lines) - len(kept), 'more line')}; --whole shows them", style="dim")


def _shown(part: Part) -> str:
    match part:
        case Reasoning():
            return f"(thinking) {part.text}"
        case ToolCall():
            return f"calls {part.name} {part.arguments_json}"
        case ToolResult():
            cut = f", {part.clipped_characters:,} characters cut" if part.clipped_characters else ""
            return f"({part.name}: {part.status}{cut})\n{part.output}"
        case _:
            return part_text(part)
