"""Predicted effects of masks, triggers and pins compared with summaries, written down before the results were known.

Marches through the real runner, in a world where everything can be read again and in a world where nothing can.
"""

from typing import Any

import pandas as pd
import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.trial import Trial
from harness.sandboxes.backends import SandboxChoice
from harness.store.results import Results
from tests.laws.suite import FULL

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap, pytest.mark.timeout(1_800)]

SEEDS = [11, 12, 13] if FULL else [11, 12]
KEPT_RESULTS = 10
ROUNDS = 4


def march(folder: Any, arms: dict[str, dict[str, Any]], **world: Any) -> Results:
    """Return the results of some policies on the same march."""
    base = Trial(
        task="long-march",
        policy=KeepLast(summarizer="scripted/lossy-0.5"),
        window_tokens=24_000,
        max_steps=600,
        sandbox=SandboxChoice(backend="bubblewrap"),
    )
    axes = {**{f"world.{knob}": [value] for knob, value in world.items()}, "seed": SEEDS}
    named = [Arm(name=name, trial=trial) for name, trial in arms.items()]
    results = Experiment(name="march", base=base, axes=axes, arms=named).run(folder, workers=2, progress="off")
    assert set(results.trials["status"]) <= {"completed", "failed"}, "no trial crashed"
    return results


def of(results: Results, arm: str) -> pd.DataFrame:
    """Return the trials of an arm by seed."""
    return results.trials[results.trials["arm"] == arm].set_index("seed").sort_index()


@pytest.fixture(scope="module")
def queryable(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return the results of masks with two triggers and of no compaction, where everything can be read again.

    Each number is used when the mask by step has hidden it and the mask by threshold may not have done so yet.
    """
    arms: dict[str, dict[str, Any]] = {
        "by step": {"policy": {"kind": "complexity-trap-mask", "keep_results": KEPT_RESULTS}},
        "by threshold": {"policy": {"kind": "inspect-edit", "keep_results": KEPT_RESULTS}},
        "none": {"policy": {"kind": "none"}, "window_tokens": 4_000_000},
    }
    return march(tmp_path_factory.mktemp("queryable"), arms, steps=150, recoverable_share=1.0, use_lag_steps=2 * KEPT_RESULTS)


@pytest.mark.parametrize("mask", ["by step", "by threshold"])
def test_masked_results_are_read_again_and_the_task_succeeds(queryable: Results, mask: str) -> None:
    """A stub in the place of a result does not state the fact, so the call does not count as a failed look-up."""
    masked, plain = of(queryable, mask), of(queryable, "none")
    assert (masked["reacquisitions"] > 0).all()
    assert (masked["steps"] > plain["steps"]).all()
    assert (masked["score"] == plain["score"]).all()
    assert (masked["prompt_tokens"] < plain["prompt_tokens"]).all()


def test_a_trigger_by_step_costs_more_calls_than_one_by_threshold(queryable: Results) -> None:
    assert (of(queryable, "by step")["steps"] > of(queryable, "by threshold")["steps"]).all()


def test_ranks_turn_with_the_price_of_what_a_cache_holds(queryable: Results) -> None:
    """Masks at every step read least; but each change far from the end makes the provider read everything after it anew."""
    step, threshold, none = (prompts(queryable, arm, 1.0) for arm in ("by step", "by threshold", "none"))
    assert ((step < threshold) & (threshold < none)).all()
    assert (prompts(queryable, "by threshold", 0.1) < prompts(queryable, "by step", 0.1)).all()


def prompts(results: Results, arm: str, cached: float) -> "pd.Series[float]":
    """Return the prompt cost of each trial in tokens, where tokens shared with the previous request cost `cached` each."""
    steps = results.steps[results.steps["trial_id"].isin(of(results, arm)["trial_id"])]
    kept = (steps["kept_prefix_tokens"] / steps["view_tokens"]).clip(upper=1.0)
    paid = steps["prompt_tokens"] * (1 - (1 - cached) * kept)
    seeds = of(results, arm).reset_index().set_index("trial_id")["seed"]
    return paid.groupby(steps["trial_id"].map(seeds)).sum()


def test_constraints_fall_off_a_cliff_of_rounds_in_free_form_and_not_where_they_are_pinned(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """`codex` keeps the user's messages beside its summary; `keep-last` relies on the summary."""
    pinned = {"policy": {"kind": "codex", "summarizer": "scripted/lossy-0.5"}}
    results = march(tmp_path_factory.mktemp("history"), {"pinned": pinned}, steps=240, recoverable_share=0.0)
    free_form = survival(results, "keep-last")
    assert survival(results, "pinned") == [1.0] * ROUNDS
    assert free_form == sorted(free_form, reverse=True)
    assert free_form[-1] < free_form[0] / 2
    assert (of(results, "pinned")["score"] > of(results, "keep-last")["score"]).all()


def survival(results: Results, arm: str) -> list[float]:
    """Return the share of the user's facts visible at the first compaction that are still visible after round 1, 2, ..."""
    probes = results.sql("SELECT * FROM probes")
    rows = probes[(probes["said_in"] == "prompt") & probes["trial_id"].isin(of(results, arm)["trial_id"])]
    alive = rows[(rows["round"] == 1) & rows["seen_before"]].set_index(["trial_id", "fact"]).index
    at_risk, shares = len(alive), []
    for number in range(1, ROUNDS + 1):
        kept = rows[(rows["round"] == number) & rows["seen_after"]].set_index(["trial_id", "fact"]).index
        alive = alive.intersection(kept)
        shares.append(len(alive) / at_risk)
    return shares
