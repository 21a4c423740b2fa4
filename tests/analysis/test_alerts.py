"""The three alerts (S3.17): what they measure, on which side of their thresholds they fire, and sessions in which they do."""

import itertools
import json
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.alerts import evaluate_alerts
from harness.compaction.presets.keep_last import KeepLast
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.trial import Trial
from harness.metrics.alerts import ALERTS, CACHE_HIT_RATE, OVERFLOW_RATE, SUMMARIZATION_COST
from harness.models.endpoint.server import make_model_finder, serve_endpoint
from harness.models.registry import TABLE_VARIABLE, load_litellm
from harness.reporting.monitoring import build_alert_sections
from harness.sandboxes.backends import SandboxChoice
from harness.task import World
from tests.analysis.selections import arms, grid, results
from tests.experiment.tiny_task import tiny

TRIAL = "a/flashcards/0/0"


def make_selection(steps, acts=(), **trial):
    """Return results with one trial of arm `a`."""
    rows = [{"trial_id": TRIAL, "step": number, "model_seconds": 10.0} | step for number, step in enumerate(steps, 1)]
    compactions = [
        {"trial_id": TRIAL, "event": number, "status": "applied", "inserted": 1, "summarizer": "m", "summarizer_cost_usd": 0.0}
        | act
        for number, act in enumerate(acts)
    ]
    return results([trial], rows, compactions)


def evaluate(selection, alert):
    (row,) = evaluate_alerts(selection).query("alert == @alert.name").itertuples()
    return row


def test_a_value_at_the_threshold_does_not_go_off_and_the_next_one_does():
    for alert in ALERTS:
        beyond = np.nextafter(alert.threshold, np.inf if alert.fires_above else -np.inf)
        assert not alert.should_fire(alert.threshold)
        assert alert.should_fire(beyond)
        assert not alert.should_fire(float("nan"))
    assert [(alert.threshold, alert.window_seconds, alert.severity) for alert in ALERTS] == [
        (0.1, 300.0, "warning"),
        (0.7, inf, "warning"),
        (10.0, 3600.0, "critical"),
    ]


@pytest.mark.parametrize(
    ("before", "rate", "fired"), [((5, 15, 25), 0.1, False), ((5, 15, 25, 28), 4 / 30, True), ((), 0.0, False)]
)
def test_the_overflow_rate_is_summaries_per_model_call_of_five_minutes(before, rate, fired):
    """Return thirty calls of ten seconds, which is five minutes."""
    row = evaluate(make_selection([{}] * 30, [{"step": step} for step in before]), OVERFLOW_RATE)
    assert (row.value, row.fired) == (pytest.approx(rate), fired)


def test_summaries_of_different_five_minutes_do_not_add_up():
    far = evaluate(make_selection([{}] * 100, [{"step": step} for step in (5, 10, 15, 60, 65, 70, 75)]), OVERFLOW_RATE)
    assert far.value == pytest.approx(4 / 30)
    assert far.step in range(75, 90)
    assert not evaluate(make_selection([{}] * 100, [{"step": step} for step in (5, 10, 15, 60, 65, 70)]), OVERFLOW_RATE).fired


def test_a_short_session_is_one_window():
    row = evaluate(make_selection([{}] * 10, [{"step": 9}]), OVERFLOW_RATE)
    assert (row.value, row.fired, row.step) == (0.1, False, 10)
    assert evaluate(make_selection([{}] * 9, [{"step": 9}]), OVERFLOW_RATE).fired


def test_prunings_and_attempts_without_a_summarizer_call_are_no_overflow():
    quiet = [{"step": 2, "inserted": 0, "summarizer": ""}, {"step": 3, "status": "no-op", "inserted": 0, "summarizer": ""}]
    assert evaluate(make_selection([{}] * 5, quiet), OVERFLOW_RATE).value == 0
    assert (
        evaluate(make_selection([{}] * 5, [*quiet, {"step": 4, "status": "failed", "inserted": 0}]), OVERFLOW_RATE).value == 0.2
    )


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=20), st.data())
def test_the_windows_are_those_that_one_counts_by_hand(seconds, data):
    before = sorted(data.draw(st.lists(st.integers(1, len(seconds)), max_size=6)))
    ends = list(itertools.accumulate(seconds))
    when = [ends[step - 1] for step in before]
    last = [end for end in ends if end >= 300] or [ends[-1]]
    rates = [sum(end - 300 < at <= end for at in when) / sum(end - 300 < one <= end for one in ends) for end in last]
    selection = make_selection([{"model_seconds": float(one)} for one in seconds], [{"step": step} for step in before])
    assert evaluate(selection, OVERFLOW_RATE).value == pytest.approx(max(rates))


@pytest.mark.parametrize(("share", "fired"), [(0.7, False), (0.699, True), (1.0, False)])
@pytest.mark.parametrize("is_simulated", [True, False])
def test_the_cache_hit_rate_is_that_of_the_table_of_trials(share, fired, is_simulated):
    row = evaluate(make_selection([{}], cache_hit_share=share, cache_hits_simulated=is_simulated), CACHE_HIT_RATE)
    assert (row.value, row.fired, row.simulated) == (share, fired, is_simulated)


@pytest.mark.parametrize(("costs", "fired"), [((5.0, 5.0), False), ((5.0, 5.01), True), ((11.0,), True)])
def test_the_cost_of_summaries_is_that_of_an_hour(costs, fired):
    row = evaluate(
        make_selection([{}] * 20, [{"step": 3 + n, "summarizer_cost_usd": cost} for n, cost in enumerate(costs)]),
        SUMMARIZATION_COST,
    )
    assert (row.value, row.fired, row.step) == (pytest.approx(sum(costs)), fired, 3 + len(costs) - 1)


def test_summaries_of_different_hours_do_not_add_up():
    acts = [{"step": step, "summarizer_cost_usd": 6.0} for step in (2, 400)]
    assert evaluate(make_selection([{}] * 500, acts), SUMMARIZATION_COST).value == 6.0
    assert evaluate(make_selection([{}] * 500, [acts[0], acts[1] | {"step": 300}]), SUMMARIZATION_COST).value == 12.0


def test_the_time_of_a_summary_counts_too():
    acts = [{"step": 2, "summarizer_cost_usd": 6.0}, {"step": 3, "summarizer_cost_usd": 6.0, "summarizer_seconds": 3600.0}]
    assert evaluate(make_selection([{}] * 5, acts), SUMMARIZATION_COST).value == 6.0


def test_a_price_that_is_not_known_is_no_price_of_nothing():
    row = evaluate(make_selection([{}] * 5, [{"step": 2, "summarizer_cost_usd": None}]), SUMMARIZATION_COST)
    assert np.isnan(row.value)
    assert not row.fired


def test_a_summary_after_the_last_finished_call_counts():
    row = evaluate(make_selection([{}] * 5, [{"step": 6, "summarizer_cost_usd": 11.0}]), SUMMARIZATION_COST)
    assert (row.value, row.fired) == (11.0, True)


def test_the_report_says_by_arm_how_many_trials_alarm_and_what_to_do():
    selection = make_selection([{}] * 9, [{"step": 9}], cache_hit_share=0.0, cache_hits_simulated=True)
    (section,) = build_alert_sections(selection)
    ((arm, n, overflow, cache, cost, *_),) = section.rows
    assert (arm, n, overflow, cache, cost) == ("a", "1", "1, 11.1 %", "1, 0.0 %", "0, 0.00")
    assert any(note.startswith("warning, overflow rate: a summary before more than 10 %") for note in section.notes)
    assert not any("critical" in note for note in section.notes)
    assert any("simulated" in note for note in section.notes)


def test_the_report_leaves_excluded_trials_out():
    selection = make_selection([{"model_seconds": 10.0}] * 3, status="crashed", reason="crashed")
    assert len(evaluate_alerts(selection))
    assert list(build_alert_sections(selection)) == []


def test_every_trial_with_steps_is_watched_and_none_without():
    selection = grid()
    assert len(evaluate_alerts(selection)) == 3 * len(selection.trials)
    assert evaluate_alerts(arms([True], [False])).empty
    assert list(build_alert_sections(arms([True], [False]))) == []


PRICED = "hosted_vllm/scripted/extractive"
"""Summarizer behind an HTTP endpoint, whose price is declared in a table of models."""
DEARLY = {"litellm_provider": "hosted_vllm", "mode": "chat", "max_input_tokens": 100_000}
DEARLY |= {"input_cost_per_token": 1e-4, "output_cost_per_token": 3e-3}
SESSIONS = Experiment(
    name="alerts",
    base=Trial(
        task="long-march",
        world=World(steps=60, tokens_per_step=400),
        window_tokens=32_768,
        max_steps=120,
        sandbox=SandboxChoice(backend="bubblewrap"),
        policy=KeepLast(summarizer=PRICED),
    ),
    axes={"seed": [0]},
    arms=(
        Arm(
            name="summarizes often",
            trial={"policy.trigger_tokens": 4_000, "policy.keep_last": 4, "policy.summarizer": "scripted/extractive"},
        ),
        Arm(name="masks at every step", trial={"policy": {"kind": "complexity-trap-mask"}}),
        Arm(name="pays much", trial={"policy.trigger_tokens": 7_000, "policy.keep_last": 4}),
    ),
)


@pytest.mark.slow  # litellm takes seconds to import
@pytest.mark.bubblewrap
def test_each_alert_goes_off_in_a_session_with_its_cause_and_none_in_a_healthy_one(tmp_path, monkeypatch):
    """S3.17: a scripted agent, a real sandbox, and summaries over a socket at a price that the provider is declared to ask."""
    table = tmp_path / "models.json"
    table.write_text(json.dumps({PRICED: DEARLY}))
    load_litellm()  # it would keep the table if it were loaded later, also for other tests
    monkeypatch.setenv(TABLE_VARIABLE, str(table))
    with serve_endpoint(make_model_finder([tiny(0)], window_tokens=100_000)) as endpoint:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", endpoint.address)
        experiment_results = SESSIONS.run(tmp_path / "output", workers=1, progress="off")
    assert list(experiment_results.trials["status"]) == ["completed"] * 4
    alerts = evaluate_alerts(experiment_results)
    assert {arm: set(rows["alert"][rows["fired"]]) for arm, rows in alerts.groupby("arm")} == {
        "keep-last": set(),
        "summarizes often": {"overflow rate"},
        "masks at every step": {"cache hit rate"},
        "pays much": {"summarization cost"},
    }
    values = alerts.set_index(["arm", "alert"])["value"]
    cost = experiment_results.compactions.groupby("trial_id")["summarizer_cost_usd"].sum()
    names = experiment_results.trials.set_index("arm")["trial_id"]
    assert (experiment_results.compactions.groupby("trial_id")["event"].count()[names[["keep-last", "pays much"]]] > 0).all()
    for arm in ("keep-last", "pays much"):
        assert values[arm, "summarization cost"] == pytest.approx(cost[names[arm]])
    assert 0 < values["keep-last", "overflow rate"] < 0.1 < values["summarizes often", "overflow rate"]
    [section] = build_alert_sections(experiment_results)
    headings = [note.partition(":")[0] for note in section.notes if note.startswith(("warning", "critical"))]
    assert headings == ["warning, overflow rate", "warning, cache hit rate", "critical, summarization cost"]
