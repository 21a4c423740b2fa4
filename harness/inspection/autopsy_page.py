"""Autopsies of compactions as plain JSON for pages: those of the widgets, and the report page. Nothing is escaped."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from harness.inspection.autopsy import (
    CompactionAutopsy,
    FactFate,
    FactStrip,
    SessionAutopsy,
    describe_action,
    describe_check,
    describe_compaction,
    describe_outcome,
)
from harness.inspection.disposition import MessageDisposition, classify_messages
from harness.inspection.distinctive_words import Survival, WordFate, describe_fate, describe_words
from harness.inspection.fact_history import Holding
from harness.inspection.session_steps import MAX_REASON_CHARACTERS, cut_text, format_message_line
from harness.session.twins import Twins

Json: TypeAlias = dict[str, Any]
MAX_LISTED_WORDS = 200
"""Maximum number of distinctive words in the autopsy of a compaction; those that were used later come first."""
MAX_LISTED_MESSAGES = 400
"""Maximum number of messages in the autopsy of a compaction without facts; a longer list is cut in the middle."""
NO_CONSEQUENCE = "not known without facts"


def encode_session(autopsy: SessionAutopsy) -> Json:
    """Return what a page shows about a whole session: the strips of the facts, the compactions, and the failed checks."""
    return {
        "notice": autopsy.notice,
        "strips": [_encode_strip(strip) for strip in autopsy.strips],
        "rounds": [
            {"number": one.round, "place": _find_place(autopsy, one.step_index), "says": describe_compaction(one)}
            for one in autopsy.compactions
        ],
        "checks": None if autopsy.failed_checks is None else _encode_checks(autopsy),
    }


def _encode_strip(strip: FactStrip) -> Json:
    return {
        "name": strip.name,
        "kind": strip.kind,
        "spans": [(span.start, span.end, span.visibility) for span in strip.spans],
        "marks": [(mark.step_index, mark.kind, mark.value) for mark in strip.marks],
    }


def _encode_checks(autopsy: SessionAutopsy) -> list[Json]:
    """Return the failed checks, each with the compaction and the step to open, those that lead to a compaction first."""
    places = {step: place for place, step in enumerate(autopsy.steps, 1)}
    checks = []
    for check in autopsy.failed_checks or ():
        cause = check.causes[0] if check.causes else None
        checks.append(
            {
                "name": check.name,
                "title": check.title,
                "detail": cut_text(check.detail)[: 4 * MAX_REASON_CHARACTERS],
                "says": describe_check(check),
                "round": cause.round if cause else None,
                "recovered": cause is not None and cause.is_used_right,
                "fact": cause.name if cause and cause.round is not None else "",
                "place": places.get(cause.step) if cause and cause.step is not None else None,
            }
        )
    return sorted(checks, key=lambda check: (check["round"] is None, check["recovered"]))


def _find_place(autopsy: SessionAutopsy, step_index: int) -> int:
    """Return the number, among the finished steps, of the step before which a compaction took place, or of the last step."""
    return max(1, min(step_index + 1, len(autopsy.steps)))


def encode_compaction(
    autopsy: SessionAutopsy, compaction: CompactionAutopsy, *, is_replay: bool = False, twins: Twins | None = None
) -> Json:
    """Return the autopsy of one compaction for a page, with a row for each fact.

    Without facts, there is a row for each distinctive word or, if the compaction removed none, for each message.

    Args:
        autopsy: Autopsy of the whole session.
        compaction: Compaction of the session.
        is_replay: Whether the autopsy is that of a replay under another policy.
        twins: Twins of the compaction, if some were run.
    """
    event, count = compaction.attempt.event, len(autopsy.compactions)
    places = {step: place for place, step in enumerate(autopsy.steps, 1)}
    names = {fate.name for fate in compaction.lost}
    checks = [check for check in autopsy.failed_checks or () if names & {cause.name for cause in check.causes}]
    words = compaction.words if compaction.words and compaction.words.fates else None
    if words is not None:
        says, subject = describe_words(words), "word"
        rows = [_encode_word(fate, places) for fate in words.fates[:MAX_LISTED_WORDS]]
    elif autopsy.notice:
        says, subject, rows = "", "message", _encode_messages(compaction)
    else:
        says, subject = describe_compaction(compaction, twins), "fact"
        rows = [_encode_fate(fate, places, is_replay=is_replay) for fate in compaction.fates]
    reason = event.explanation[:MAX_REASON_CHARACTERS]
    return {
        "number": compaction.round,
        "count": count,
        "place": _find_place(autopsy, compaction.step_index),
        "title": f"Compaction {compaction.round} of {count}, before step {compaction.step}",
        "about": f"{event.tokens_before:,} → {event.tokens_after:,} tokens by estimate; {reason}",
        "says": says,
        "notice": autopsy.notice,
        "subject": subject,
        "rows": rows,
        "survival": [] if words is None else [_encode_survival(row) for row in words.survival if row.evicted],
        "checks": [f"{check.title}: {describe_check(check)}" for check in checks],
        "summary": cut_text(event.summary),
        "summarizer": event.summarizer,
    }


def _encode_fate(fate: FactFate, places: dict[int, int], *, is_replay: bool) -> Json:
    lines = describe_outcome(fate, is_replay=is_replay)
    step = None
    if fate.outcome in ("looked up", "stated again") and fate.appearance:
        step = fate.appearance.step
    elif fate.use and fate.outcome in ("right", "wrong", "stale", "needed"):
        step = fate.use.step
    return {
        "name": fate.name,
        "kind": fate.kind,
        "outcome": fate.outcome,
        "kept": fate.is_kept,
        "before": _encode_holding(fate.before),
        "action": fate.action,
        "why": describe_action(fate),
        "after": None if fate.after is None else _encode_holding(fate.after),
        "lines": lines,
        "place": None if step is None else places.get(step),
    }


def _encode_word(fate: WordFate, places: dict[int, int]) -> Json:
    return {
        "name": fate.word,
        "kind": fate.kind,
        "outcome": "needed" if fate.fate == "used later" else "unused",
        "kept": fate.fate == "kept",
        "before": fate.before,
        "action": fate.action,
        "why": "",
        "after": fate.after,
        "lines": [describe_fate(fate)],
        "place": None if fate.step is None else places.get(fate.step),
    }


def _encode_survival(row: Survival) -> Sequence[str | int]:
    return (f"{row.kind}s", row.evicted, row.nothing, row.extractive, row.native)


def _encode_holding(holding: Holding) -> Sequence[str]:
    return (holding.label, holding.text_before, holding.value, holding.text_after)


def _encode_messages(compaction: CompactionAutopsy) -> list[Json]:
    messages = classify_messages(compaction.attempt)
    half = MAX_LISTED_MESSAGES // 2
    shown = messages if len(messages) <= MAX_LISTED_MESSAGES else (*messages[:half], *messages[-half:])
    after = {item.item_id: format_message_line(item.message) for item in compaction.attempt.after.items}
    return [_encode_message(message, after.get(message.item_id)) for message in shown]


def _encode_message(message: MessageDisposition, line_after: str | None) -> Json:
    before = ("", format_message_line(message.message), "", "") if message.disposition != "summary" else ("", "", "", "")
    return {
        "name": message.message.role,
        "kind": f"{message.tokens_before:,} tokens" if message.tokens_before else "",
        "outcome": "unused",
        "kept": line_after is not None,
        "before": before,
        "action": "inserted" if message.disposition == "summary" else message.disposition,
        "why": f"{message.tokens_before:,} → {message.tokens_after:,} tokens",
        "after": None if line_after is None else ("", line_after, "", ""),
        "lines": [NO_CONSEQUENCE],
        "place": None,
    }
