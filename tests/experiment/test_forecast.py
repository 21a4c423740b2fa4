"""Forecast of cost and time: upper bound from prices, expected values from finished trials of the same tasks and models."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.conversation import codec
from harness.conversation.tokens import Measured, Usage
from harness.experiment.contrasts import Contrast, Family
from harness.experiment.experiment import Experiment
from harness.experiment.forecast import (
    compute_cost_bounds_usd,
    count_undeclared_trials,
    describe_cost_bound,
    find_next_interim_analysis,
    group_by_seed,
    make_forecast,
)
from harness.experiment.interim_analyses import INTERIM_ANALYSES_FILE, begin_record, record_interim_analysis
from harness.experiment.output import open_output
from harness.experiment.plan import Settings
from harness.experiment.trial import Trial, to_plain
from harness.models.endpoint.server import make_model_finder, serve_endpoint
from harness.models.prices import compute_cost_usd
from harness.models.registry import load_litellm
from harness.policies import policy_from_plain
from harness.tasks import make_task
from tests.experiment.records import record
from tests.experiment.run_grid import SMALL
from tests.experiment.tiny_task import tiny

KEEP = policy_from_plain({"kind": "keep-last"})
TINY = SMALL.base.task


def test_the_cost_of_a_real_model_is_bounded_before_it_is_spent():
    trial = Trial(task=TINY, policy=KEEP, model="gpt-4o", max_steps=10, window_tokens=100_000)
    # at each of ten steps, a full window at $2.5 a million and 4,000 tokens at $10, for the agent and for a summary
    assert compute_cost_bounds_usd(trial)["gpt-4o"] == pytest.approx(2 * 10 * (100_000 * 2.5 + 4_000 * 10) / 1e6)
    assert describe_cost_bound(group_by_seed([trial, trial])) == "at most $11.60"
    without = replace(trial, policy=policy_from_plain({"kind": "none"}))
    assert describe_cost_bound(group_by_seed([without])) == "at most $2.90"


def test_the_bound_covers_prompts_that_are_written_to_a_dearer_cache():
    none = policy_from_plain({"kind": "none"})
    trial = Trial(task=TINY, policy=none, model="anthropic/claude-sonnet-4-5", max_steps=10, window_tokens=150_000)
    ((name, bound_usd),) = compute_cost_bounds_usd(trial).items()
    written = Usage(input_tokens=Measured(0), output_tokens=Measured(4_000), cache_write_tokens=Measured(150_000))
    uncached = Usage(input_tokens=Measured(150_000), output_tokens=Measured(4_000))
    written_usd, uncached_usd = compute_cost_usd(name, written), compute_cost_usd(name, uncached)
    assert None not in (bound_usd, written_usd, uncached_usd)
    assert [bound_usd] == pytest.approx([10 * written_usd])  # type: ignore[operator]
    assert written_usd > uncached_usd  # type: ignore[operator]


def test_the_bound_of_trials_with_the_steps_of_their_tasks_covers_the_longest_task():
    trials = [Trial(task="long-march", policy="none", model="gpt-4o", window_tokens=100_000, seed=seed) for seed in range(3)]
    limits = [make_task(trial.task, trial.seed).step_limit for trial in trials]
    assert len(set(limits)) > 1
    step_usd = (100_000 * 2.5 + 4_000 * 10) / 1e6
    assert [compute_cost_bounds_usd(trial) for trial in trials] == [{"gpt-4o": pytest.approx(n * step_usd)} for n in limits]
    grid = replace(PAID, base=trials[0], axes={"seed": [0, 1, 2]}, arms=()).grid
    bound = describe_cost_bound(make_forecast(grid, Path("no such folder"), workers=1).groups)
    assert bound == f"at most ${sum(limits) * step_usd:,.2f}"


def test_an_unknown_price_is_reported_and_not_counted_as_zero():
    trial = Trial(task=TINY, policy=KEEP, model="hosted_vllm/mine", window_tokens=100_000)
    assert compute_cost_bounds_usd(trial) == {"hosted_vllm/mine": None}
    assert (
        describe_cost_bound(group_by_seed([trial]))
        == "the cost of 1 trial is unknown, since the price or the window of hosted_vllm/mine is unknown"
    )
    priced = Trial(task=TINY, policy=KEEP, model="gpt-4o", max_steps=10, window_tokens=100_000)
    assert describe_cost_bound(group_by_seed([trial, priced])).startswith(
        "at most $5.80 for 1 trial; the cost of 1 trial is unknown"
    )


def test_a_paid_summarizer_under_a_scripted_agent_costs_too():
    policy = policy_from_plain({"kind": "keep-last", "summarizer": "gpt-4o"})
    trial = Trial(task=TINY, policy=policy, window_tokens=16_000, max_steps=1)
    assert compute_cost_bounds_usd(trial) == pytest.approx({"gpt-4o": (128_000 * 2.5 + 4_000 * 10) / 1e6})


def test_the_models_of_sub_agents_are_part_of_the_bound():
    """S3.20: at most 20 steps for each sub-agent, and one sub-agent for each step."""
    step_usd = {"gpt-4o": (128_000 * 2.5 + 4_000 * 10) / 1e6, "gpt-4o-mini": (128_000 * 0.15 + 4_000 * 0.6) / 1e6}
    none = policy_from_plain({"kind": "none"})
    trial = Trial(task=TINY, policy=none, model="gpt-4o", max_steps=3, explore=True)
    assert compute_cost_bounds_usd(trial) == pytest.approx({"gpt-4o": 3 * 21 * step_usd["gpt-4o"]})
    cheap = replace(trial, explore_model="gpt-4o-mini", window_tokens=64_000)
    expected = {"gpt-4o": 3 * (64_000 * 2.5 + 4_000 * 10) / 1e6, "gpt-4o-mini": 60 * step_usd["gpt-4o-mini"]}
    assert compute_cost_bounds_usd(cheap) == pytest.approx(expected), "the window is that of the agent's model"
    assert (
        describe_cost_bound(group_by_seed([cheap]))
        == f"at most ${sum(expected.values()):.2f}, if no step sends more than one sub-agent"
    )
    assert "sub-agent" not in describe_cost_bound(group_by_seed([replace(trial, explore=False)]))
    summarized = replace(cheap, policy=KEEP)
    assert compute_cost_bounds_usd(summarized).keys() >= expected.keys()
    under_script = Trial(task=TINY, policy=none, max_steps=3, explore=True, explore_model="gpt-4o-mini")
    assert compute_cost_bounds_usd(under_script) == pytest.approx({"gpt-4o-mini": 60 * step_usd["gpt-4o-mini"]})
    unknown = replace(under_script, explore_model="hosted_vllm/mine")
    assert "price or the window of hosted_vllm/mine is unknown" in describe_cost_bound(group_by_seed([unknown]))


def test_local_models_cost_nothing_and_are_named():
    local = Trial(task=TINY, policy=policy_from_plain({"kind": "keep-last", "summarizer": "local/smollm2-135m"}))
    assert "run on this machine" in describe_cost_bound(group_by_seed([local]))
    assert (
        describe_cost_bound(group_by_seed([Trial(task=TINY, policy=KEEP)]))
        == "none, since all models are scripted (costs in the tables are simulated)"
    )
    assert describe_cost_bound(group_by_seed([local, Trial(task=TINY, policy=KEEP, model="hosted_vllm/x")])).endswith(
        "since the price or the window of hosted_vllm/x is unknown"
    )


PAID = Experiment(
    name="paid",
    base=Trial(task="flashcards", policy=KEEP, model="gpt-4o", max_steps=10, window_tokens=100_000),
    axes={"seed": [0, 1, 2, 3], "task": ["flashcards", "rename-sweep"]},
)


def store(folder, cells, **changes):
    """Store finished trials with these values."""
    with open_output(folder) as output:
        for cell in cells:
            plain = json.dumps(to_plain(cell.trial))
            changes = {"provenance_json": json.dumps({"revisions": cell.trial.revisions})} | changes
            done = record(trial_id=cell.trial_id, arm=cell.arm, model=cell.trial.model, config_json=plain, **changes)
            output.journal.record_trial(done, ())


def of_task(name):
    return [cell for cell in PAID.grid if cell.trial.task == name]


def test_only_the_upper_bound_of_the_cost_is_known_before_a_trial_has_finished(tmp_path):
    forecast = PAID.estimate(tmp_path / "none", workers=2)
    assert (forecast.expected_usd, forecast.expected_seconds) == (None, None)
    assert forecast.describe_cost().startswith("at most $46.40; the expected cost is unknown until")
    assert "(--pilot runs one)" in forecast.describe_time()
    assert not (tmp_path / "none").exists()


def test_a_finished_trial_of_each_task_gives_the_expected_cost_and_time(tmp_path):
    store(tmp_path, of_task("flashcards")[:1], cost_usd=0.5, wall_seconds=60.0)
    half = PAID.estimate(tmp_path, workers=2)
    assert half.describe_cost() == "expected $1.50 for 3 of 7 trials (from 1 finished trial), at most $40.60"
    store(tmp_path, of_task("rename-sweep")[:1], cost_usd=2.0, summarizer_cost_usd=0.25, wall_seconds=120.0)
    both = PAID.estimate(tmp_path, workers=2)
    assert both.expected_usd == pytest.approx(3 * 0.5 + 3 * 2.25)
    assert both.expected_seconds == pytest.approx((3 * 60 + 3 * 120) / 2)
    assert both.describe_cost() == "expected $8.25 (from 2 finished trials), at most $34.80"
    assert both.describe_time() == "expected 4 min with 2 workers (from 2 finished trials)"
    assert PAID.estimate(tmp_path, workers=100).expected_seconds == 120, "no run is shorter than its longest trial"


def test_trials_that_finished_before_the_contrasts_were_declared_are_counted(tmp_path):
    contrasts = (Contrast(a="seed=0", b="seed=1"),)
    families = Family(), Family(contrasts=contrasts, planned_trials=8), Family(contrasts=contrasts, planned_trials=4)
    for cell, family in zip(PAID.grid, families, strict=False):
        store(tmp_path, [cell], provenance_json=codec.to_canonical_json({"family": codec.to_plain(family)}, dict))
    assert count_undeclared_trials(PAID.grid, families[1], tmp_path) == 1
    assert count_undeclared_trials(PAID.grid, replace(families[1], contrasts=(Contrast(a="x", b="y"),)), tmp_path) == 3
    assert count_undeclared_trials(PAID.grid, replace(families[1], looks=2), tmp_path) == 3
    assert count_undeclared_trials(PAID.grid, families[0], tmp_path) == 0, "a plan without contrasts claims nothing anyway"
    assert count_undeclared_trials(PAID.grid, families[1], tmp_path / "none") == 0


def test_the_next_report_is_another_look_if_trials_were_added_after_the_last(tmp_path):
    family = Family(contrasts=(Contrast(a="seed=0", b="seed=1"),), planned_trials=8)
    assert find_next_interim_analysis(PAID.grid, family, tmp_path / "none") == 1
    begin_record(tmp_path)
    store(tmp_path, PAID.grid[:7])
    assert find_next_interim_analysis(PAID.grid, family, tmp_path) == 1, "no outcomes were shown yet"
    record_interim_analysis(tmp_path, [cell.trial_id for cell in PAID.grid[:7]])
    assert find_next_interim_analysis(PAID.grid, family, tmp_path) == 2
    assert find_next_interim_analysis(PAID.grid, Family(), tmp_path) is None, "a plan without contrasts claims nothing anyway"
    record_interim_analysis(tmp_path, [cell.trial_id for cell in PAID.grid])
    assert find_next_interim_analysis(PAID.grid, family, tmp_path) is None, "these outcomes were shown before"


def test_each_extension_of_a_plan_counts_as_a_look_if_no_looks_are_recorded(tmp_path):
    contrasts = (Contrast(a="seed=0", b="seed=1"),)
    small, large = (Family(contrasts=contrasts, planned_trials=count) for count in (4, 8))
    provenance = codec.to_canonical_json({"family": codec.to_plain(small)}, dict)
    store(tmp_path, PAID.grid[:4], provenance_json=provenance)
    assert not (tmp_path / INTERIM_ANALYSES_FILE).exists()
    assert [find_next_interim_analysis(PAID.grid, family, tmp_path) for family in (small, large)] == [1, 2]


def test_trials_of_another_grid_predict_this_one_but_other_models_and_crashes_do_not(tmp_path):
    other = replace(PAID, base=replace(PAID.base, policy=policy_from_plain({"kind": "keep-last", "threshold": 0.5})))
    store(tmp_path, other.grid[:1], cost_usd=0.5)
    assert PAID.estimate(tmp_path).finished_trials == 0
    assert PAID.estimate(tmp_path).expected_usd == pytest.approx(0.5 * 4)
    dearer = replace(PAID, base=replace(PAID.base, model="gpt-4o-mini"))
    assert dearer.estimate(tmp_path).expected_usd is None
    store(tmp_path / "crashed", other.grid[:1], cost_usd=0.5, status="crashed")
    assert PAID.estimate(tmp_path / "crashed").expected_usd is None


def test_a_trial_at_an_unknown_price_predicts_time_but_no_cost(tmp_path):
    store(tmp_path, of_task("flashcards")[:1], cost_usd=None, wall_seconds=60.0)
    forecast = PAID.estimate(tmp_path, workers=1)
    assert forecast.expected_usd is None
    assert forecast.describe_cost().startswith("at most $40.60; the expected cost is unknown")
    assert forecast.expected_seconds == 180


def test_records_that_this_version_cannot_read_are_left_out(tmp_path):
    with open_output(tmp_path) as output:
        for number, text in enumerate(("{}", "[]", '{"task": "flashcards", "policy": {"kind": "unknown"}}')):
            output.journal.record_trial(record(trial_id=str(number), config_json=text), ())
    assert PAID.estimate(tmp_path).pilot_trials == 0


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_pilot_runs_one_trial_of_each_task_and_model_and_the_grid_goes_on(tmp_path):
    grid = replace(
        SMALL, axes={"seed": [0, 1], "policy.threshold": [0.5, 0.8], "model": ["scripted", "scripted:typical"]}, arms=()
    )
    before = grid.estimate(tmp_path, workers=1)
    assert (before.expected_seconds, before.remaining_trials) == (None, len(grid.grid))
    piloted = grid.run(tmp_path, workers=1, progress="off", pilot=True)
    assert sorted(piloted.trials["model"]) == ["scripted/tiny:attentive", "scripted/tiny:typical"]
    again = grid.run(tmp_path, workers=1, progress="off", pilot=True)
    assert len(again.trials) == 2, "nothing is left to find out"
    forecast = grid.estimate(tmp_path, workers=1)
    assert forecast.covered_trials == forecast.remaining_trials == len(grid.grid) - 2
    assert forecast.expected_seconds == pytest.approx(forecast.covered_trials * piloted.trials["wall_seconds"].mean())
    assert len(grid.run(tmp_path, workers=1, progress="off").trials) == len(grid.grid)
    assert grid.estimate(tmp_path).describe_time() == "none, since all trials have finished"


def record_tape(tmp_path, monkeypatch, *, trials, pilot):
    """Record the answers of a priced model to an experiment; return the experiment and the path of the cassette."""
    model = "hosted_vllm/scripted/tiny:attentive"
    entry = {"litellm_provider": "hosted_vllm", "mode": "chat", "input_cost_per_token": 1e-5, "output_cost_per_token": 5e-5}
    (tmp_path / "models.json").write_text(json.dumps({model: {**entry, "max_input_tokens": 16_000}}))
    # litellm keeps the table of the environment in which it is loaded, also for later tests
    monkeypatch.setitem(load_litellm().model_cost, model, {**entry, "max_input_tokens": 16_000})
    monkeypatch.setenv("HARNESS_MODEL_TABLE", str(tmp_path / "models.json"))
    base = replace(SMALL.base, model=model, policy=policy_from_plain({"kind": "none"}), window_tokens=16_000)
    grid = Experiment(name="taped", base=base, axes={"replicate": range(trials)}, settings=Settings(executor="threads"))
    tape = tmp_path / "tape.jsonl"
    with serve_endpoint(make_model_finder([tiny(0)], window_tokens=16_000)) as endpoint:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", endpoint.address)
        grid.with_cassette(tape, "record").run(tmp_path / "recorded", progress="off", pilot=pilot)
    monkeypatch.delenv("HOSTED_VLLM_API_BASE")
    return grid, tape


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_pilot_replayed_from_a_cassette_costs_nothing_and_tells_what_the_models_cost(tmp_path, monkeypatch):
    grid, tape = record_tape(tmp_path, monkeypatch, trials=3, pilot=True)
    replayed = grid.with_cassette(tape, "replay").run(tmp_path / "replayed", progress="off", pilot=True)
    [cost_usd] = replayed.trials["cost_usd"]
    assert cost_usd > 0
    forecast = grid.estimate(tmp_path / "replayed")
    assert forecast.expected_usd == pytest.approx(2 * cost_usd)
    assert forecast.describe_cost().startswith(f"expected ${2 * cost_usd:,.2f} (from 1 finished trial), at most $")
