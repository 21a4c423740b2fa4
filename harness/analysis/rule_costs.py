"""Costs of trials under several price rules, side by side, from the table of steps alone.

The table says how long each prompt was, how much of it the prompt before began with, and where earlier prompts ended, which is
what a cache needs to know. Thousands of trials are priced at once, without their logs; `harness price` reads the logs.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from harness.analysis.tables import Tables, iterate_parts, iterate_trials
from harness.errors import UsageError
from harness.inspection.repricing import DEFAULT_RULES
from harness.models.rule_prices import find_terms
from harness.prices.marks import find_whole_requests
from harness.prices.price import MILLION
from harness.replay.bills import price_calls
from harness.replay.chains import Numbers
from harness.replay.fold import Beginnings
from harness.session.gaps import Gaps, draw_gap
from harness.session.spec import derive_model_seed

_STEP_COLUMNS = (
    *("step", "prompt_tokens", "output_tokens", "view_tokens", "view_messages"),
    *("kept_prefix_tokens", "kept_prefix_messages"),
)
_TRIAL_COLUMNS = ("trial_id", "model", "config_json", "seed", "replicate")
_OTHER_COLUMNS = ("summarizer_prompt_tokens", "summarizer_output_tokens", "sub_agent_prompt_tokens", "sub_agent_output_tokens")
NO_CACHE = "none"
"""Name of the price rule without a cache."""
MIN_DIFFERENCE_SHARE = 0.001
"""Difference of two costs, as a share of the larger one, up to which they count as equal."""


def price_trials(results: Tables, rules: Sequence[str] = DEFAULT_RULES) -> pd.DataFrame:
    """Return what each trial would have cost under price rules, in USD.

    The cost includes summaries and sub-agents, whose prompts count as uncached.

    Args:
        results: Tables of results.
        rules: Names of price rules, each with its first lifetime. Default: those of `harness price`.

    Returns:
        A table with one row for each trial with steps, by its id, and one column for each rule. A rule that needs the price of a
        model which is unknown has no value. Tables without the sizes of prompts give no rows.
    """
    trials, empty = results.trials, pd.DataFrame(columns=list(rules), dtype="float64")
    if not set(_TRIAL_COLUMNS) <= set(trials):
        return empty
    names = [*_TRIAL_COLUMNS, *(name for name in _OTHER_COLUMNS if name in trials)]
    trials = trials[names].drop_duplicates("trial_id").set_index("trial_id")
    needed = ("trial_id", *_STEP_COLUMNS)
    priced = [
        costs
        for steps in iterate_parts(results, "steps", needed)
        if set(needed) <= set(steps)
        for rows in iterate_trials(steps, _STEP_COLUMNS, "step")
        for costs in _price_steps(rows, trials, rules)
    ]
    return pd.concat(priced) if priced else empty


def list_cheapest(costs: Mapping[str, pd.Series]) -> dict[str, list[str]]:
    """Return the rules under which each arm is the cheapest, by the name of the arm.

    A rule with a tie or without costs is left out.

    Args:
        costs: For each rule, the cost in USD by arm.
    """
    winners: dict[str, list[str]] = {}
    for rule, values in costs.items():
        known = values.dropna().sort_values()
        if len(known) >= 2 and known.iloc[1] - known.iloc[0] > MIN_DIFFERENCE_SHARE * known.iloc[1]:
            winners.setdefault(str(known.index[0]), []).append(rule)
    return winners


def describe_winners(winners: Mapping[str, Iterable[str]], question: str) -> str:
    """Return that the answer to a question depends on the price rule, with the arm under each; empty if it does not.

    Args:
        winners: Rules under which each arm is the cheapest, as `list_cheapest` returns them.
        question: Beginning of the sentence, such as `which arm is cheaper`.
    """
    if len(winners) < 2:
        return ""
    parts = [f"{arm} under {', '.join(map(name_rule, rules))}" for arm, rules in winners.items()]
    return f"{question} depends on the price rule: {'; '.join(parts)}"


def name_rule(rule: str) -> str:
    """Return a price rule as a reader understands it: its name, or `no cache` for the rule `none`."""
    return "no cache" if rule == NO_CACHE else rule


def _price_steps(steps: pd.DataFrame, trials: pd.DataFrame, rules: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yield the costs of the trials of each model, as `price_trials` returns them."""
    models = steps["trial_id"].map(trials["model"])
    gaps = _find_gap_seconds(steps, trials.loc[trials.index.intersection(steps["trial_id"].unique())])
    for model in models.dropna().unique():
        is_of_model = (models == model).to_numpy()
        calls = _read_calls(steps[is_of_model], gaps[is_of_model])
        of_model = trials.loc[calls.trial_ids.unique()]
        yield pd.DataFrame({rule: _price_model(calls, of_model, rule, str(model)) for rule in rules})


class _Calls(NamedTuple):
    """Model calls of trials, one value for each."""

    trial_ids: pd.Series
    prompt_tokens: Numbers
    output_tokens: Numbers
    gap_seconds: Numbers
    beginnings: Beginnings


def _read_calls(steps: pd.DataFrame, gap_seconds: Numbers) -> _Calls:
    prompt, output = (steps[name].to_numpy(np.float64) for name in ("prompt_tokens", "output_tokens"))
    return _Calls(steps["trial_id"], prompt, output, gap_seconds, _measure_beginnings(steps, prompt))


def _price_model(calls: _Calls, trials: pd.DataFrame, rule: str, model: str) -> pd.Series:
    """Return what each trial of one model costs under a rule in USD; NaN if a price is unknown."""
    try:
        terms = find_terms(rule, model)
    except UsageError:
        return pd.Series(math.nan, index=trials.index)
    costs = price_calls(calls.prompt_tokens, calls.beginnings, calls.output_tokens, calls.gap_seconds, terms)
    price, others = terms.prices[0], trials[[name for name in _OTHER_COLUMNS if name in trials]].fillna(0)
    rates = [price.input_usd if name.endswith("prompt_tokens") else price.output_usd for name in others]
    beside = (others.to_numpy(np.float64) * np.array(rates)).sum(axis=1) / MILLION
    sums: pd.Series = pd.Series(costs).groupby(calls.trial_ids.to_numpy()).sum()
    return sums.reindex(trials.index) + beside


def _measure_beginnings(steps: pd.DataFrame, prompt_tokens: Numbers) -> Beginnings:
    """Return what each prompt shares with those before it.

    An edit that keeps one message shows the length of the instructions. In a trial without one they count as nothing: those of
    this package's agent are shorter than any beginning that a cache with marks holds; other agents' edits then cost too much.
    """
    before = steps.groupby("trial_id")[["view_messages", "prompt_tokens", "output_tokens"]].shift(fill_value=0)
    old_messages, old_prompt, old_output = (before[name].to_numpy(np.float64) for name in before)
    kept, view = (steps[name].to_numpy(np.float64) for name in ("kept_prefix_tokens", "view_tokens"))
    lengths, same = (steps[name].to_numpy(np.int64) for name in ("view_messages", "kept_prefix_messages"))
    continues = same >= old_messages  # in messages, since an empty one at the end has no tokens
    part = prompt_tokens * np.divide(kept, view, out=np.zeros(len(view)), where=view > 0)
    shared = np.minimum(np.where(continues, old_prompt, part), prompt_tokens)
    first = steps.groupby("trial_id")[["prompt_tokens", "view_tokens"]].transform("first").to_numpy(np.float64)
    shown = np.where((same == 1) & ~continues, kept * first[:, 0] / np.maximum(1.0, first[:, 1]), np.nan)
    fixed = pd.Series(shown).groupby(steps["trial_id"].to_numpy()).transform("min").fillna(0.0).to_numpy()
    whole, distance = np.where(continues, shared, fixed), np.zeros(len(kept))
    for rows in steps.groupby("trial_id").indices.values():
        if continues[rows].all():
            continue
        places = np.array(find_whole_requests(lengths[rows].tolist(), same[rows].tolist()))
        is_edit = ~continues[rows] & (places >= 0)
        edits, found = rows[is_edit], rows[places[is_edit]]
        whole[edits], distance[edits] = prompt_tokens[found], lengths[edits] - lengths[found]
    return Beginnings(
        shared_tokens=shared,
        answer_tokens=np.where(continues, np.minimum(old_output, prompt_tokens - shared), 0.0),
        plain_tokens=np.full(len(kept), np.inf),
        whole_tokens=np.minimum(whole, prompt_tokens),
        whole_distance=distance,
        fixed_tokens=fixed,
    )


def _find_gap_seconds(steps: pd.DataFrame, trials: pd.DataFrame) -> Numbers:
    """Return the simulated seconds between the request of each step and the answer before it; 0 for the first step."""
    seconds: Numbers = np.zeros(len(steps))
    places, numbers = steps.groupby("trial_id").indices, steps["step"].to_numpy()
    columns = (trials[name] for name in ("config_json", "seed", "replicate"))
    for trial_id, config, seed, replicate in zip(trials.index, *columns, strict=True):
        has_gaps = isinstance(config, str) and '"gaps"' in config and not pd.isna(seed) and trial_id in places
        gaps: Gaps = json.loads(config).get("gaps", "none") if has_gaps else "none"
        if gaps != "none":
            model_seed, later = derive_model_seed(int(seed), int(replicate)), places[trial_id][1:]
            seconds[later] += [draw_gap(gaps, model_seed, int(step)) for step in numbers[later]]
    return seconds
