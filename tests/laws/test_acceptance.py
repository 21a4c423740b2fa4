"""What a simulation must show before anybody believes it: predictions made before looking (RESEARCH 5.5, the battery of ten).

Marches in four worlds, through the real runner: everything can be got again, nothing can, facts are used as soon as they are
told, and a long march in the first of these worlds. Nothing here was tuned to hold. Items 1, 2, 5 are laws of their own
(`succeeds` and `idle`, `repeats`, `law-1`), item 9 is `test_threshold_curve.py`; those about prompt caches wait for a cache.
"""

import json
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.events import Entry
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.trial import SandboxChoice, Trial
from harness.models.prices import NOMINAL
from harness.store.results import Results
from harness.testing.strategies import logs
from harness.tokens import Measured, Usage, Window
from harness.view import fold_all

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap, pytest.mark.timeout(1_800)]

STEPS, LONG = 90, 240
QUERYABLE, HISTORY, FRESH = {"recoverable_share": 1.0}, {"recoverable_share": 0.0}, {"recoverable_share": 0.0, "use_lag_steps": 2}
WORLDS: dict[str, dict[str, Any]] = {
    "queryable": {**QUERYABLE, "steps": STEPS},
    "history": {**HISTORY, "steps": STEPS},
    "fresh": {**FRESH, "steps": STEPS},
    "long": {**QUERYABLE, "steps": LONG},
}
SEEDS = [11, 12, 13]
SUMMARIZERS = ("oracle", "extractive", "empty")
CONTROL = Arm(name="none", trial={"policy": {"kind": "none"}, "window_tokens": 4_000_000})
CRAMPED = Arm(name="cramped", trial={"policy.summarizer": "scripted/empty", "policy.threshold": 0.2, "policy.keep_last": 20})


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Results]:
    """Results by the name of the world."""
    found = {}
    for name, world in WORLDS.items():
        policy = KeepLast(summarizer="scripted/oracle")
        base = Trial(task="long-march", policy=policy, window_tokens=24_000, max_steps=400)
        knobs = {f"world.{knob}": [value] for knob, value in world.items()}
        axes = {**knobs, "seed": SEEDS, "policy.summarizer": [f"scripted/{kind}" for kind in SUMMARIZERS]}
        arms = [CONTROL] if name != "queryable" else [CONTROL, CRAMPED]
        experiment = Experiment(name=name, base=with_bubblewrap(base), axes=axes, arms=arms)
        found[name] = experiment.run(tmp_path_factory.mktemp(name), workers=2, progress="off")
        assert set(found[name].trials["status"]) <= {"completed", "failed"}, "no trial crashed"
    return found


def with_bubblewrap(trial: Trial) -> Trial:
    return Trial(
        **{name: getattr(trial, name) for name in trial.__dataclass_fields__} | {"sandbox": SandboxChoice(backend="bubblewrap")}
    )


def arm(results: Results, name: str) -> pd.DataFrame:
    """Trials of an arm (or of the arm of a summarizer) by seed."""
    trials = results.trials
    chosen = trials[trials["arm"].isin([name, f"summarizer=scripted/{name}"])]
    assert len(chosen) == len(SEEDS), f"{name}: {sorted(set(trials['arm']))}"
    return chosen.set_index("seed").sort_index()


def test_3_until_the_first_compaction_all_policies_send_the_same(worlds: dict[str, Results]) -> None:
    for results in worlds.values():
        steps, trials = results.steps, results.trials
        for _, block in trials.groupby("seed"):
            sent = [
                steps[(steps["trial_id"] == trial) & (steps["rounds"] == 0)].sort_values("step")["request_digest"].tolist()
                for trial in block["trial_id"]
            ]
            shared = min(map(len, sent))
            assert shared > 5
            assert len({tuple(digests[:shared]) for digests in sent}) == 1


def test_4_tokens_and_costs_are_conserved(worlds: dict[str, Results]) -> None:
    for results in worlds.values():
        steps = results.steps.groupby("trial_id")[["prompt_tokens", "output_tokens", "cost_usd"]].sum()
        trials = results.trials.set_index("trial_id").loc[steps.index]
        assert (trials["prompt_tokens"] == steps["prompt_tokens"]).all()
        assert (trials["output_tokens"] == steps["output_tokens"]).all()
        pd.testing.assert_series_equal(trials["cost_usd"], steps["cost_usd"], check_names=False)
        for _, trial in trials.iterrows():
            usage = Usage(input_tokens=Measured(int(trial["prompt_tokens"])), output_tokens=Measured(int(trial["output_tokens"])))
            assert trial["cost_usd"] == pytest.approx(NOMINAL.cost_usd(usage))
        parts = results.steps[["input_tokens", "cache_read_tokens", "cache_write_tokens"]].sum(axis=1)
        assert (parts == results.steps["prompt_tokens"]).all()


def test_6_what_keeps_the_facts_completes_like_no_compaction_with_fewer_tokens(worlds: dict[str, Results]) -> None:
    for name, results in worlds.items():
        plain, kept = arm(results, "none"), arm(results, "oracle")
        assert (plain["score"] == 1).all()
        assert (kept["score"] == 1).all()
        assert (kept["compactions"] > 0).all(), name
        assert (kept["prompt_tokens"] + kept["summarizer_prompt_tokens"] < plain["prompt_tokens"]).all()


def test_7_with_everything_dropped_only_what_can_be_read_again_is_done(worlds: dict[str, Results]) -> None:
    assert (arm(worlds["queryable"], "empty")["score"] == 1).all()
    assert (arm(worlds["history"], "empty")["score"] < 0.5).all()


@given(log=logs(), fewer=st.integers(1, 12), more=st.integers(0, 12))
def test_8_keeping_more_messages_never_evicts_more(log: tuple[Entry, ...], fewer: int, more: int) -> None:
    view, window = fold_all(log), Window(tokens=16_000, source="configuration")
    gone = []
    for keep in (fewer, fewer + more):
        policy = KeepLast(threshold=0.001, keep_last=keep)
        plan = policy.plan(view, policy.budget(window), None)
        gone.append(set(plan.forget) if plan else set())
    assert gone[1] <= gone[0]


def test_10_in_a_queryable_world_forgetting_costs_reads_and_not_completion(worlds: dict[str, Results]) -> None:
    plain, empty = arm(worlds["queryable"], "none"), arm(worlds["queryable"], "empty")
    assert (plain["reacquisitions"] == 0).all()
    assert (empty["reacquisitions"] > 0).all()
    assert (empty["steps"] > plain["steps"]).all()
    assert (empty["score"] == plain["score"]).all()


def test_10_where_facts_are_used_at_once_nothing_is_fetched_again(worlds: dict[str, Results]) -> None:
    empty = arm(worlds["fresh"], "empty")
    assert (empty["compactions"] > 0).all()
    assert (empty["reacquisitions"] == 0).all()
    assert (empty["score"] == 1).all()


def test_10_where_nothing_can_be_got_again_completion_is_lost_in_the_order_of_fidelity(worlds: dict[str, Results]) -> None:
    empty, extractive, oracle = (arm(worlds["history"], name)["score"].mean() for name in ("empty", "extractive", "oracle"))
    assert empty < extractive < oracle == 1
    assert (arm(worlds["history"], "empty")["reacquisitions"] == 0).all()


def test_10_a_view_that_is_hardly_smaller_afterwards_is_compacted_again_and_again(worlds: dict[str, Results]) -> None:
    cramped, roomy = arm(worlds["queryable"], "cramped"), arm(worlds["queryable"], "empty")
    both = {"cramped": cramped, "roomy": roomy}
    assert (cramped["compactions"] > 2 * roomy["compactions"]).all()
    hasty = {name: (trials["close_compactions"] > 0) | (trials["full_compactions"] > 0) for name, trials in both.items()}
    assert hasty["cramped"].all()
    assert not hasty["roomy"].any()


def test_10_savings_lie_in_the_long_sessions(worlds: dict[str, Results]) -> None:
    saved = {}
    for name in ("queryable", "long"):
        plain, kept = arm(worlds[name], "none"), arm(worlds[name], "oracle")
        saved[name] = 1 - (kept["prompt_tokens"] + kept["summarizer_prompt_tokens"]) / plain["prompt_tokens"]
    assert (saved["long"] > saved["queryable"]).all(), json.dumps({name: list(share) for name, share in saved.items()})
