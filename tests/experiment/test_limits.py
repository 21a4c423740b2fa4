"""Limits of a run: refused values, unknown prices, and what counts as spent money."""

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.errors import UsageError
from harness.experiment.job import Job, TrialRun, collect_provenance
from harness.experiment.limits import RunLimits, compute_real_cost_usd, compute_spent_usd
from harness.experiment.trial import Trial
from harness.inspection.loading import load
from harness.models.cassette import Cassette
from harness.models.factory import Wiring
from harness.policies import KeepLast
from harness.session.totals import TrialTotals
from tests.experiment.records import record
from tests.experiment.run_grid import SMALL
from tests.experiment.test_forecast import record_tape


@pytest.mark.parametrize("name", ["max_trials", "max_usd", "max_hours"])
@pytest.mark.parametrize("value", [0, -1, "3", True, float("nan")])
def test_a_limit_must_be_above_zero(name, value):
    with pytest.raises(UsageError, match=f"{name}: must be a number above 0"):
        RunLimits(**{name: value})


def test_without_limits_a_run_goes_on():
    assert RunLimits().find_reached(begun_trials=10**6, spent_usd=10.0**6, elapsed_seconds=10.0**9) == ""


@pytest.mark.parametrize(
    ("limits", "spent"),
    [
        (RunLimits(max_trials=3), {"begun_trials": 3}),
        (RunLimits(max_usd=0.5), {"spent_usd": 0.5}),
        (RunLimits(max_hours=0.25), {"elapsed_seconds": 900.0}),
    ],
)
def test_a_limit_is_reached_exactly_at_its_value(limits, spent):
    nothing: dict[str, Any] = {"begun_trials": 0, "spent_usd": 0.0, "elapsed_seconds": 0.0}
    assert limits.find_reached(**nothing | spent) != ""
    below = {name: value - 1 if name == "begun_trials" else value * 0.999 for name, value in spent.items()}
    assert limits.find_reached(**nothing | below) == ""


def test_only_models_that_cost_money_spend_it():
    paid = record(cost_usd=1.0, summarizer_cost_usd=0.25, sub_agent_cost_usd=None)
    scripted = Trial(task="flashcards", policy="keep-last")
    assert compute_spent_usd(scripted, paid) == 0.0
    assert compute_spent_usd(replace(scripted, model="openai/gpt-4o"), paid) == 1.25
    summarized = replace(scripted, policy=KeepLast(summarizer="openai/gpt-4o-mini"))
    assert compute_spent_usd(summarized, paid) == 0.25
    local = replace(scripted, model="local/qwen2.5-1.5b")
    assert compute_spent_usd(local, paid) == 0.0


@pytest.mark.parametrize(
    ("cassette", "spent_usd"),
    [
        (None, 1.25),
        ({"mode": "replay", "file": "c.jsonl"}, 0.0),
        ({"mode": "record", "file": "c.jsonl"}, 1.25),
        ({"mode": "record", "file": "c.jsonl", "replayed_usd": 0.75}, 0.5),
        ({"mode": "record", "file": "c.jsonl", "replayed_usd": -0.5}, 1.75),
    ],
)
def test_answers_replayed_from_a_cassette_cost_no_money(cassette, spent_usd):
    trial = Trial(task="flashcards", policy="keep-last", model="openai/gpt-4o")
    paid = record(cost_usd=1.0, summarizer_cost_usd=0.25, provenance_json=json.dumps({"cassette": cassette}))
    assert compute_spent_usd(trial, paid) == spent_usd
    assert compute_real_cost_usd(trial, paid) == 1.25


@pytest.mark.parametrize("unpaid_usd", [-0.5, 0.75])
def test_the_money_of_a_trial_that_records_a_cassette_is_the_cost_of_its_answers_less_what_it_did_not_pay(tmp_path, unpaid_usd):
    trial = Trial(task="flashcards", policy="keep-last", model="openai/gpt-4o")
    job = Job(
        trial=trial,
        trial_id=trial.trial_id,
        experiment="e",
        arm="a",
        axes={},
        backend="bubblewrap",
        provenance=collect_provenance("prices-1"),
        journal=tmp_path / "j.sqlite",
        wiring=Wiring(cassette=Cassette(path=tmp_path / "c.jsonl", mode="record")),
    )
    run = TrialRun(started_at=1.0, totals=TrialTotals(cost_usd=1.0), replayed_costs_usd=[unpaid_usd])
    assert compute_spent_usd(trial, run.build_finished_trial(job, 2.0).record) == 1.0 - unpaid_usd


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_run_whose_answers_are_replayed_is_not_stopped_by_a_limit_of_money(tmp_path, monkeypatch):
    grid, tape = record_tape(tmp_path, monkeypatch, trials=2, pilot=False)
    cost_usd = load(tmp_path / "recorded").trials["cost_usd"].min()
    limits = RunLimits(max_usd=cost_usd / 2)
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")  # nothing answers there
    for mode in ("replay", "record"):  # a recording that is continued replays what it has
        again = grid.with_cassette(tape, mode).run(tmp_path / mode, workers=1, progress="off", limits=limits)
        assert len(again.trials) == 2
        assert (again.trials["cost_usd"] >= cost_usd).all(), "the tables show what the answers cost when they were recorded"


def test_money_cannot_be_limited_where_a_price_is_unknown(tmp_path):
    unknown = replace(SMALL, base=replace(SMALL.base, model="openai/no-such-model"))
    with pytest.raises(UsageError, match="max_usd: the price of 'openai/no-such-model' is unknown"):
        unknown.run(tmp_path, progress="off", limits=RunLimits(max_usd=1))
    RunLimits(max_trials=1).refuse_unknown_prices(["openai/no-such-model"])
