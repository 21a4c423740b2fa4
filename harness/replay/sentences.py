"""Sentences about a replay, which the command line and the page share."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from harness.errors import format_count
from harness.prices.terms import parse_rule_name
from harness.replay.choice import MIN_GROUPS, CrossFit
from harness.replay.session_replay import PaidParts
from harness.replay.sessions import LEVEL, MIN_COVERED_SHARE, Replay
from harness.replay.settings import AS_IT_WAS, format_thousands
from harness.text import format_percent

PART_NAMES = {
    "output_usd": "output",
    "read_usd": "read from the cache",
    "new_usd": "new text cached",
    "after_pauses_usd": "cached again after pauses",
    "after_edits_usd": "cached again after compactions",
    "unexplained_usd": "cached again, cause unknown",
    "uncached_usd": "sent again without a reported cache",
    "summary_usd": "summaries",
    "other_usd": "side calls and answers taken back",
}
"""Names of the parts of the paid cost, in the order of the page."""
ALL_COVERED_SHARE = 0.995
"""Share of the cost from which the replay covers all of it, to rounding."""
THIS_MACHINE = "this machine"
"""Name of this machine among the hosts of a probe."""
WITHIN_SHARE = 0.05
"""Largest error of a session's modelled cost that counts as agreement."""


class Agreement(NamedTuple):
    """How well the modelled cost of what was really run agrees with what was paid.

    Args:
        within: Number of sessions whose error is at most `WITHIN_SHARE`.
        sessions: Number of sessions with a covered cost.
        median_error: Median of the errors, as a share; NaN without sessions.
        pooled_error: Modelled less paid cost of all sessions, as a share; NaN without sessions.
    """

    within: int
    sessions: int
    median_error: float
    pooled_error: float


def measure_agreement(replay: Replay) -> Agreement:
    """Return how well the replay's first rule predicts the bill of what was really run; meant for the rule `own`.

    Sessions whose usage shows no cache are left out: what their provider's cache did is unknown.
    """
    rows = replay.sessions[(replay.sessions["covered_usd"] > 0) & replay.sessions["reports_cache"]]
    if not len(rows):
        return Agreement(0, 0, float("nan"), float("nan"))
    errors = rows["modelled_usd"] / rows["covered_usd"] - 1
    pooled = rows["modelled_usd"].sum() / rows["covered_usd"].sum() - 1
    return Agreement(int((errors.abs() <= WITHIN_SHARE).sum()), len(rows), float(errors.abs().median()), float(pooled))


def format_usd(usd: float) -> str:
    """Return an amount of US dollars, such as `$412` or `$0.13`."""
    return f"${abs(usd):,.0f}" if abs(usd) >= 100 else f"${abs(usd):,.2f}"


def describe_rule_name(name: str) -> str:
    """Return a rule in words, such as `your providers' rules with a cache of 1h`."""
    base, lifetime = parse_rule_name(name)
    said = "your providers' own rules" if base == "own" else base
    return f"{said} with a cache of {lifetime}" if lifetime else said


def describe_choice(names: tuple[str, str]) -> str:
    """Return the names of the settings that both halves chose, which may be the same."""
    first, second = names
    return first if first == second else f"{first} or {second}"


def describe_span(replay: Replay) -> str:
    """Return sessions, days and paid cost, such as `214 sessions (3 Oct – 27 Nov 2026, $412 at list price)`.

    Where sessions have no known cost, the cost says for how many it stands.
    """
    starts, ends = replay.sessions["started_at"].dropna(), replay.sessions["ended_at"].dropna()
    days = f"{_format_day(starts.min())} – {_format_day(ends.max())}, " if len(starts) and len(ends) else ""
    priced = int((replay.sessions["paid_usd"] > 0).sum())
    cost = f"{format_usd(replay.paid_usd)} at list price"
    if 0 < priced < len(replay.sessions):
        cost += f" for {priced:,} of them"
    return f"{format_count(len(replay.sessions), 'session')} ({days}{cost})"


def _format_day(day: pd.Timestamp) -> str:
    return f"{day.day} {day:%b %Y}"


def build_headline(replay: Replay) -> list[str]:
    """Return the first sentences: the saving of the chosen setting under the first rule, and what changes under the others."""
    if not replay.tried:
        return [f"Your {describe_span(replay)}: the bill alone, no other setting was tried."]
    noun, opening = f"{replay.group_kind}s", f"On your {describe_span(replay)}"
    if replay.paid_usd and replay.covered_share < MIN_COVERED_SHARE:
        covered, needed = format_percent(replay.covered_share), format_percent(MIN_COVERED_SHARE)
        judged = f"the replay covers {covered} of the cost, and at least {needed} are needed"
        return [f"{opening}, no setting can be judged: {judged}."]
    own = replay.choices[replay.rules[0]]
    if own is None:
        needed = (
            f"that needs at least {MIN_GROUPS} {noun} with a cost, so that one half can be judged by what the other half chose"
        )
        return [f"{opening}, no setting can be chosen: {needed}."]
    again = format_thousands(replay.band.middle_tokens)
    if own.chosen == (AS_IT_WAS, AS_IT_WAS):
        first = f"{opening}, each half of your {noun} chose what you ran: no setting would have been cheaper"
        return [
            f"{first}, if {again} tokens are read again after each compaction ({replay.band.source}).",
            *_describe_others(replay, own),
        ]
    first = (
        f"{opening}, the setting {describe_choice(own.chosen)} for every session, chosen on half of your {noun} and judged on "
        f"the other, would have cost {_describe_saving(own)} in all, if {again} tokens are read again after each compaction "
        f"({replay.band.source})."
    )
    doubt = (
        ["It may also have cost as much or more, so this is a hint and not a finding."]
        if own.low_usd <= 0 < own.saving_usd
        else []
    )
    return [first, *doubt, *_describe_others(replay, own)]


def _describe_saving(choice: CrossFit) -> str:
    """Return a saving with its interval, such as `$41.40 less (95 % interval: from $226 more to $74.20 less)`."""
    low, high = sorted((choice.low_usd, choice.high_usd))
    return f"{_describe_change(choice.saving_usd)} (95 % interval: from {_describe_change(low)} to {_describe_change(high)})"


def _describe_change(saving_usd: float) -> str:
    return f"{format_usd(saving_usd)} {'less' if saving_usd >= 0 else 'more'}"


def _describe_others(replay: Replay, own: CrossFit) -> Iterator[str]:
    """Yield a sentence on the setting that the first rule chose, judged where it was chosen, under each rule."""
    name = next((name for name in own.chosen if name != AS_IT_WAS), None)
    if name is None or len(replay.rules) == 1:
        return
    parts = []
    for rule in replay.rules:
        row = replay.find_setting(name, rule)
        low, high = sorted((row["saving_low_usd"], row["saving_high_usd"]))
        what = f"{_describe_change(row['saving_usd'])} (from {_describe_change(low)} to {_describe_change(high)})"
        parts.append(f"{what} under {describe_rule_name(rule)}")
    yield (
        f"In hindsight, which flatters a setting, {name} would have cost over all {replay.group_kind}s "
        f"{', '.join(parts[:-1])}, and {parts[-1]}."
    )


def describe_agreement(replay: Replay) -> str:
    """Return how well the model agrees with the real bill, in sentences; empty without a session whose usage shows a cache."""
    agreement = measure_agreement(replay)
    if not agreement.sessions:
        return ""
    median, pooled = format_percent(agreement.median_error, 1), format_percent(agreement.pooled_error, 1, signed=True)
    is_close = max(agreement.median_error, abs(agreement.pooled_error)) <= WITHIN_SHARE
    return (
        f"Check: the model is within {format_percent(WITHIN_SHARE)} of the real bill in {agreement.within} of "
        f"{format_count(agreement.sessions, 'session')} that report usage (median error {median}, all together {pooled})"
        f"{'' if is_close else ', so a saving of that size may be an error of the model'}. "
        f"The replay covers {format_percent(replay.covered_share)} of the cost."
    )


def sum_paid(replay: Replay) -> PaidParts:
    """Return the paid cost of all sessions by part."""
    return PaidParts(**{name: float(replay.sessions[name].sum()) for name in PART_NAMES})


def list_uncounted(replay: Replay) -> list[str]:
    """Return what the replay did not count, one line for each kind."""
    sessions = replay.sessions
    lines = []
    if replay.covered_share < ALL_COVERED_SHARE and replay.paid_usd:
        lines.append(
            f"{format_percent(1 - replay.covered_share)} of the cost: calls after a compaction whose result the file does not "
            "hold, side calls, and answers that were taken back"
        )
    for column, text in (
        ("calls_without_usage", "without reported usage"),
        ("unpriced_calls", "of models whose price is unknown"),
    ):
        if count := int(sessions[column].sum()):
            lines.append(f"{format_count(count, 'call')} {text}, in {format_count(int((sessions[column] > 0).sum()), 'session')}")
    if count := int(sessions["has_copied_calls"].sum()):
        lines.append(f"{format_count(count, 'resumed or forked session')} with calls that another session made")
    if count := int((~sessions["reports_cache"] & (sessions["covered_usd"] > 0)).sum()):
        lines.append(f"the cache in {format_count(count, 'session')} whose usage shows none: it is modelled, and in no check")
    if count := int((~sessions["has_times"] & (sessions["covered_usd"] > 0)).sum()):
        lines.append(f"pauses in {format_count(count, 'session')} without times: no lifetime of a cache ends there")
    if replay.refused:
        lines.append(f"{format_count(len(replay.refused), 'file')} that could not be read, the first: {replay.refused[0][1]}")
    if replay.other_files:
        lines.append(f"{format_count(replay.other_files, 'other file')} without a session")
    return [*lines, *replay.notes]


def describe_settings(replay: Replay, rule: str) -> list[tuple[str, str, str, str]]:
    """Return each setting under a rule with its change, the change over the band, and the break-even, cheapest first."""
    rows = replay.settings[(replay.settings["rule"] == rule) & (replay.settings["setting"] != AS_IT_WAS)]
    rows = rows[rows["compactions"] > 0].sort_values("usd")
    return [
        (
            str(row.setting),
            format_percent(row.change, signed=True),
            f"{format_percent(row.low_change, signed=True)} to {format_percent(row.high_change, signed=True)}",
            describe_break_even(row.break_even_tokens),
        )
        for row in rows.itertuples()
    ]


def describe_break_even(tokens: float | None) -> str:
    """Return at how many tokens read again a setting saves nothing, in words."""
    if tokens is None or np.isnan(tokens):
        return "above 40K"
    return "never cheaper" if tokens == 0 else f"{tokens / 1000:.1f}K"


def describe_reading(replay: Replay) -> str:
    """Return what the recordings say about reading again, in one sentence."""
    found = replay.reading
    if found is None:
        return "Your recordings have too few compactions to say what is read again after one."
    low, high = (format_thousands(round(tokens, -2)) for tokens in (found.low_tokens, found.high_tokens))
    calls = f"{abs(found.calls):.1f} {'more' if found.calls >= 0 else 'fewer'} repeated calls"
    return (
        f"After {format_count(found.compactions, 'compaction')} of your agents, on average {found.tokens:,.0f} tokens more were "
        f"read again among the next 20 calls than where nothing was compacted ({found.shifted:,} other places), with {calls}; "
        f"your recordings suggest {low} to {high} per compaction, which `--reread` can take."
    )


def describe_privacy(hosts: Sequence[str] = ()) -> str:
    """Return what left this machine, in a sentence.

    Args:
        hosts: Hosts to which a probe sent texts, as `harness.replay.probe.describe_host` names them.
    """
    elsewhere = [host for host in hosts if not host.startswith(THIS_MACHINE)]
    return f"Texts of sessions went to {' and '.join(elsewhere)} for the probe" if elsewhere else "Nothing left this machine"


def describe_method(replay: Replay, hosts: Sequence[str] = ()) -> str:
    """Return how the numbers were made, and what left this machine for a probe, in one line."""
    if not replay.tried:
        return f"From the usage that the files hold, at list price. {describe_privacy(hosts)}."
    band = replay.band
    numbers = " / ".join(format_thousands(round(tokens)) for tokens in (band.low_tokens, band.middle_tokens, band.high_tokens))
    return (
        f"Level {LEVEL}: the same actions are assumed, so this is about cost and not about success. Read again after each "
        f"compaction: {numbers} tokens, {band.source}. {describe_privacy(hosts)}."
    )
