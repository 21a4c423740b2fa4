"""Whether arms are what they are called: warnings before the run, tool outputs that were cut, and targets that were missed.

The limit on the length of tool outputs decides what an agent reads, whatever a policy compacts. Where it differs between arms, a
difference in their results need not come from compaction.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import pandas as pd

from harness.analysis.arms import order_arms
from harness.analysis.formatting import format_short_number
from harness.compaction.origins import find_origin
from harness.conversation.advisories import Advisory, format_advisories
from harness.conversation.events import MISSED_TARGET
from harness.errors import format_count
from harness.policies import find_public_name
from harness.reporting.section import Section

MAX_LISTED_WARNINGS = 12
"""Maximum number of warnings in a report; all are in the column `advisories_json` of the trials."""
MAX_LISTED_ARMS = 5
"""Maximum number of arms that a sentence of a report lists by name."""
MAX_CUT_RATIO = 2.0
"""Largest ratio of the bytes cut from tool outputs in two arms with the same limit that is not called a threat."""
MAX_SUMMARIZED_SHARE = 0.5
"""Largest share of an arm's steps that may follow a summary before the report calls it a threat."""
LIMIT_UNITS = {"max_characters": "characters", "max_lines": "lines", "max_bytes": "bytes"}
"""Units of the limits on tool outputs, by name of the limit in the column `output_limits_json`."""


def list_warnings(trials: pd.DataFrame) -> list[str]:
    """Return the warnings given before the trials ran, each with the names of its arms, in the order of the arms."""
    arms_by_warning: dict[tuple[str, str], dict[str, None]] = {}
    advisories: dict[tuple[str, str], list[Advisory]] = {}
    rows = trials[["arm", "advisories_json"]].drop_duplicates()
    for arm in order_arms(trials):
        for text in rows.loc[rows["arm"] == arm, "advisories_json"]:
            for plain in json.loads(text) if isinstance(text, str) and text else ():
                advisory = Advisory(**plain)
                key = advisory.problem, advisory.advice
                arms_by_warning.setdefault(key, {})[arm] = None
                advisories.setdefault(key, []).append(advisory)
    return [f"{_list_arms(list(arms))}: {format_advisories(advisories[key])[0]}." for key, arms in arms_by_warning.items()]


def build_warning_section(trials: pd.DataFrame) -> Iterator[Section]:
    """Yield the section of a report with the warnings that were given before the run; nothing if there were none."""
    notes = list_warnings(trials)
    if not notes:
        return
    further_count = len(notes) - MAX_LISTED_WARNINGS
    further = (
        [f"{format_count(further_count, 'further warning')} in the column `advisories_json` of the trials."]
        if further_count > 0
        else []
    )
    yield Section(
        heading="Warnings about the configuration, as given before the run",
        notes=(*notes[:MAX_LISTED_WARNINGS], *further),
        is_detail=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOutputs:
    """Tool outputs of one arm that were cut before the agent read them."""

    limit: str
    """Limits on a tool output, e.g. `10,000 characters`; empty if they were not recorded."""
    outputs: float
    """Mean number of cut tool outputs of a trial."""
    size_bytes: float
    """Mean number of UTF-8 bytes cut from the tool outputs of a trial; NaN if an older version cut an output."""

    def __str__(self) -> str:
        size = "an unknown number of" if isnan(self.size_bytes) else format_short_number(self.size_bytes)
        return f"{size} bytes of {self.outputs:.3g} outputs per trial"


def measure_cut_outputs(trials: pd.DataFrame) -> dict[str, CutOutputs]:
    """Return how much was cut from the tool outputs of each arm's trials, in the order of the arms."""
    cut_outputs = {}
    for arm in order_arms(trials):
        rows = trials[trials["arm"] == arm]
        limits = {text for text in rows["output_limits_json"] if isinstance(text, str) and text}
        cut_outputs[arm] = CutOutputs(
            limit=" or ".join(sorted(map(_format_limit, limits))),
            outputs=float(rows["clipped_outputs"].astype(float).fillna(0).mean()),
            size_bytes=float(rows["clipped_bytes"].astype(float).mean(skipna=False)) if len(rows) else nan,
        )
    return cut_outputs


def _format_limit(text: str) -> str:
    limits: Mapping[str, Any] = json.loads(text)
    return " and ".join(f"{limits[name]:,} {unit}" for name, unit in LIMIT_UNITS.items() if limits.get(name)) or "no limit"


def describe_modelled_policies(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on the policies that no test compares with the systems they are modelled on, if any.

    Args:
        trials: Trials with the column `policy`.
    """
    kinds = [kind for kind in dict.fromkeys(trials["policy"]) if (origin := find_origin(kind)) and origin.evidence == "modelled"]
    if kinds:
        names = ", ".join(map(find_public_name, kinds))
        yield f"Modelled on other systems, without a test beside the original: {names}. Results are about these policies alone."


def describe_cut_outputs(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on the bytes cut from the tool outputs of each arm; nothing if no output was cut.

    Args:
        trials: Valid trials of one fidelity level.
    """
    cut_outputs = measure_cut_outputs(trials)
    if not any(cut.outputs for cut in cut_outputs.values()):
        return
    limits = {cut.limit for cut in cut_outputs.values()}
    if len(cut_outputs) > MAX_LISTED_ARMS:
        sizes = [cut.size_bytes for cut in cut_outputs.values() if not isnan(cut.size_bytes)]
        span = f"{format_short_number(min(sizes))} to {format_short_number(max(sizes))}" if sizes else "an unknown number of"
        sizes_text = f"{span} bytes per trial; the table of effort has the bytes of each arm"
    else:
        sizes_text = "; ".join(f"{arm}: {cut}" for arm, cut in cut_outputs.items())
    if len(limits) > 1:
        heading = "Cut from tool outputs, under limits that differ between arms"
    else:
        limit = limits.pop()
        heading = f"Cut from tool outputs, under the same limit in all arms ({limit})" if limit else "Cut from tool outputs"
    yield f"{heading}: {sizes_text}."


def list_output_threats(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence if arms cut tool outputs at different limits, or lost very different amounts at the same limit."""
    cut_outputs = measure_cut_outputs(trials)
    if len(cut_outputs) < 2 or not any(cut.outputs for cut in cut_outputs.values()):
        return
    by_limit: dict[str, list[str]] = {}
    for arm, cut in cut_outputs.items():
        by_limit.setdefault(cut.limit or "an unknown limit", []).append(arm)
    why = "so a difference in results need not come from compaction"
    if len(by_limit) > 1:
        groups = (f"{limit} in {_list_arms(arms)}{_describe_mean(cut_outputs, arms)}" for limit, arms in by_limit.items())
        yield f"arms cut tool outputs at different limits: {'; '.join(groups)}; {why} (see output_limit_scale)."
        return
    sizes = {arm: cut.outputs if isnan(cut.size_bytes) else cut.size_bytes for arm, cut in cut_outputs.items()}
    unit = "outputs" if any(isnan(cut.size_bytes) for cut in cut_outputs.values()) else "bytes of tool outputs"
    shortest, longest = min(sizes, key=lambda arm: sizes[arm]), max(sizes, key=lambda arm: sizes[arm])
    if sizes[longest] > MAX_CUT_RATIO * sizes[shortest]:
        amounts = f"{format_short_number(sizes[longest])} in {longest}, {format_short_number(sizes[shortest])} in {shortest}"
        yield f"very different numbers of {unit} were cut per trial ({amounts}), {why}."


def _describe_mean(cut_outputs: Mapping[str, CutOutputs], arms: list[str]) -> str:
    sizes = [cut_outputs[arm].size_bytes for arm in arms]
    mean = sum(sizes) / len(sizes)
    return "" if isnan(mean) else f" ({format_short_number(mean)} bytes cut per trial)"


def list_frequent_summaries(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on each arm that summarized before more than half of its steps.

    Prunings do not count, because some policies prune before every step by design.
    """
    for arm in order_arms(trials):
        rows = trials[trials["arm"] == arm]
        summaries, steps = (int(rows[name].astype(float).sum()) for name in ("summaries", "steps"))
        if summaries > MAX_SUMMARIZED_SHARE * steps:
            rate = f"{format_count(summaries, 'summary')} in {format_count(steps, 'step')}"
            yield f"{arm} wrote {rate}, so its policy does not fit the window; `harness run --dry-run` says why."


def describe_missed_targets(trials: pd.DataFrame, compactions: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on each arm whose policy could not reach its target, with what was left after the last one.

    Args:
        trials: Valid trials.
        compactions: Attempts at compactions of these and other trials, with the column `shortfall`.
    """
    attempts = compactions.merge(trials[["trial_id", "arm"]], on="trial_id")
    missed_attempts = attempts[attempts["shortfall"].astype(str).str.startswith(MISSED_TARGET)]
    for arm in order_arms(trials):
        texts = missed_attempts.loc[missed_attempts["arm"] == arm, "shortfall"]
        if not texts.empty:
            count = int((attempts["arm"] == arm).sum())
            example = texts.iloc[-1].removeprefix(f"{MISSED_TARGET}: ")
            yield f"{arm}: {len(texts)} of {format_count(count, 'compaction')} could not reach their target, e.g. {example}."


def _list_arms(arms: list[str]) -> str:
    if len(arms) > MAX_LISTED_ARMS:
        return f"{', '.join(arms[: MAX_LISTED_ARMS - 1])} and {len(arms) - MAX_LISTED_ARMS + 1} other arms"
    return ", ".join(arms)
