"""Boundary probe: a scripted model is asked over HTTP at the boundaries of sessions that a scripted agent recorded."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.view_agreement import describe_asking, describe_probe, measure_view_agreement, tabulate_probe
from harness.errors import UsageError
from harness.experiment.experiment import Experiment
from harness.experiment.trial import Trial
from harness.models.endpoint.faults import parse_fault
from harness.models.endpoint.server import make_model_finder, serve_endpoint
from harness.replay import plan_probe, replay_sessions, run_probe
from harness.replay.excerpts import MASK
from harness.reporting.page.bill import render_bill_page
from harness.tasks import load_task
from tests.models.openai_stub import Say, serving
from tests.replay.recorded import write_recording

pytestmark = pytest.mark.slow

TASK = "flashcards"
MODEL = f"hosted_vllm/scripted/{TASK}:attentive"
FORGETFUL = "codex@2026"
"""Policy that leaves the user's messages and a summary; here the summarizer writes nothing of use."""
SETTINGS: dict[str, Any] = {"summarizer": "hosted_vllm/scripted/empty", "boundaries": 4}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    """Return the folder of two sessions of one task, which an agent worked through without compaction."""
    folder = tmp_path_factory.mktemp("sessions")
    base = Trial(task=TASK, policy="none", window_tokens=10_000_000)
    experiment = Experiment(name="probed", base=base, axes={"seed": [1, 2]}, folder=folder).with_cache("off")
    assert experiment.run(workers=1, progress="off").trials["success"].all()
    return folder


@pytest.fixture(scope="module")
def replay(sessions, tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    return replay_sessions(sessions, [FORGETFUL, "none"], [4_000], ["own"], workers=1, cache_folder=cache)


@pytest.fixture
def serve(monkeypatch):
    """Return a function that serves the scripted models of the task with the given faults."""

    def serve_with(*faults: str, window_tokens: int = 1_000_000):
        find = make_model_finder([load_task(TASK)(1)], window_tokens=window_tokens)
        return serve_endpoint(find, faults=[parse_fault(fault) for fault in faults])

    return serve_with


def test_a_policy_that_forgets_agrees_less_and_none_agrees_as_often_as_the_full_view(replay, serve, tmp_path, monkeypatch):
    with serve() as endpoint:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", endpoint.address)
        plan = plan_probe(replay, MODEL, record=tmp_path / "answers.jsonl", **SETTINGS)
        assert not endpoint.served
        assert not (tmp_path / "answers.jsonl").exists()
        probe = run_probe(plan)
        calls = len(endpoint.served)
    assert probe.hosts == ("this machine",)
    assert probe.calls == plan.calls == calls
    rows = measure_view_agreement(probe).set_index("setting")
    forgetful, none = rows.loc[f"{FORGETFUL} at 4K"], rows.loc["none"]
    assert (forgetful["boundaries"], forgetful["sessions"]) == (2, 2)
    assert forgetful["same_call_again_share"] == 1
    assert forgetful["same_call_share"] == 0
    assert forgetful["same_call_low"] <= forgetful["same_call_change"] == -1
    assert none["same_call_share"] == none["same_call_again_share"] == 1
    assert none["same_call_low"] < none["same_call_change"] == 0 < none["same_call_high"]
    assert any("−100 points" in line or "-100 [" in line for line in describe_probe(probe))
    assert any("Summaries were written by hosted_vllm/scripted/empty" in line for line in describe_asking(probe))
    assert [len(row) for row in tabulate_probe(probe)] == [9, 9]


def test_a_second_probe_asks_nothing_and_finds_the_same(replay, serve, tmp_path, monkeypatch):
    record = tmp_path / "answers.jsonl"
    with serve() as endpoint:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", endpoint.address)
        first = run_probe(plan_probe(replay, MODEL, record=record, **SETTINGS))
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")  # nothing answers there
    plan = plan_probe(replay, MODEL, record=record, **SETTINGS)
    assert plan.calls == 0
    assert "nothing is sent" in plan.describe()
    second = run_probe(plan)
    assert second.answers.equals(first.answers)
    assert (second.calls, second.hosts) == (0, ())
    assert second.known_calls == first.calls + first.known_calls


def test_equal_seeds_draw_equal_boundaries(replay, monkeypatch, tmp_path):
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")

    def draw(seed: int) -> list[tuple[str, int]]:
        policies = replay_sessions(
            Path(replay.sessions["file"].iloc[0]), ["drop-all"], [4_000], ["own"], workers=1, cache_folder=tmp_path
        )
        plan = plan_probe(policies, MODEL, boundaries=6, seed=seed, record=tmp_path / "none.jsonl")
        return [(boundary.place.session_id, boundary.place.step) for boundary in plan.draw.boundaries]

    first = draw(0)
    assert draw(0) == first
    assert any(draw(seed) != first for seed in (1, 2, 3))
    assert len({session for session, _ in first[:2]}) == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": "scripted"}, "serve it with `harness serve-scripted"),
        ({"model": "nobody/knows"}, "unknown model 'nobody/knows'"),
        ({"model": "local/nobody"}, "unknown local model 'local/nobody'"),
        ({"settings": ["nothing at 4K"]}, "the replay has no setting 'nothing at 4K'"),
        ({"settings": ["none"]}, "so there is no boundary to probe; choose lower --thresholds"),
        ({"boundaries": 0}, "boundaries: must be at least 1"),
        ({"limit_usd": float("nan")}, "limit_usd: must be at least 0"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(replay, monkeypatch, changes, reason):
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")
    with pytest.raises(UsageError) as refusal:
        plan_probe(replay, **({"model": MODEL} | changes))
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_cost_above_the_limit_is_refused_before_anything_is_sent(replay, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    record = tmp_path / "answers.jsonl"
    plan = plan_probe(replay, "gpt-4.1-mini", record=record)
    assert 0 < plan.estimated_usd < 1
    assert plan.hosts == ("the host api.openai.com",)
    assert f"at most about ${plan.estimated_usd:,.2f}, limit $1.00" in plan.describe()
    with pytest.raises(UsageError, match=r"more than the limit of \$0\.00; .*raise --probe-limit-usd\. Nothing was sent"):
        plan_probe(replay, "gpt-4.1-mini", record=record, limit_usd=0.001)
    assert not record.exists()


def test_no_call_is_made_that_could_exceed_the_limit(replay, serve, tmp_path, monkeypatch):
    with serve() as endpoint:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_API_BASE", endpoint.address)
        plan = plan_probe(replay, "gpt-4.1-mini", record=tmp_path / "answers.jsonl")
        assert plan.hosts == ("this machine",)
        probe = run_probe(dataclasses.replace(plan, limit_usd=0.001))
        assert not endpoint.served
    assert "could cost more than what is left of $0.00" in probe.stopped
    assert probe.counts["unasked"].sum() == len(plan.draw.boundaries)
    assert any("no boundary was asked" in line for line in describe_probe(probe))


def test_views_that_do_not_fit_the_window_are_counted(sessions, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    replay = replay_sessions(sessions, [FORGETFUL], [9_000], ["own"], workers=1, cache_folder=tmp_path)
    with pytest.raises(
        UsageError, match=r"2 views too long for the window of 8,192 tokens of 'gpt-4'; choose lower --thresholds"
    ):
        plan_probe(replay, "gpt-4")


def test_refused_requests_stop_the_probe_and_their_texts_are_not_shown(replay, monkeypatch, tmp_path):
    with serve_endpoint(make_model_finder([load_task(TASK)(1)]), key="another") as endpoint:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", endpoint.address)
        probe = run_probe(plan_probe(replay, MODEL, record=tmp_path / "answers.jsonl", **SETTINGS))
    assert probe.failures == (("the provider refused the request (status 401)", 3),)
    assert probe.stopped == "the model failed at 3 boundaries in a row"
    assert probe.counts["unasked"].sum() == 1
    assert probe.answers.empty
    assert "Boundaries left out: 3 failed (the provider refused the request (status 401): 3), 1 not asked." in describe_asking(
        probe
    )


def test_what_a_policy_uses_in_place_of_a_summary_is_no_answer_if_the_summarizer_is_unavailable(
    sessions, serve, monkeypatch, tmp_path
):
    replay = replay_sessions(sessions, ["dexto"], [4_000], ["own"], workers=1, cache_folder=tmp_path / "cache")
    with serve() as endpoint:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", endpoint.address)
        settings: dict[str, Any] = {"summarizer": "hosted_vllm/scripted/nobody", "boundaries": 1}
        probe = run_probe(plan_probe(replay, MODEL, record=tmp_path / "answers.jsonl", **settings))
    assert probe.failures == (("the provider refused the request (status 404)", 1),)
    assert probe.answers.empty


def test_a_view_that_the_provider_finds_too_long_is_counted_and_does_not_stop_the_probe(replay, serve, monkeypatch, tmp_path):
    with serve("overflow:openai@1-") as endpoint:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", endpoint.address)
        probe = run_probe(plan_probe(replay, MODEL, record=tmp_path / "answers.jsonl", **SETTINGS))
    assert probe.failures == (("the view does not fit the model's window", 4),)
    assert not probe.stopped


def test_a_name_that_the_session_does_not_know_is_not_shown(replay, serve, monkeypatch, tmp_path):
    with serve("unknown-tool@1-") as endpoint:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", endpoint.address)
        plan = plan_probe(replay, MODEL, record=tmp_path / "answers.jsonl", summarizer="scripted/extractive", boundaries=1)
        probe = run_probe(plan)
    assert len(probe.answers)
    assert set(probe.answers["full_tool"]) == {"(unknown tool)"}
    assert probe.answers["same_tool"].all()


def test_no_key_is_sent_and_hostile_answers_are_not_shown(tmp_path, monkeypatch):
    key = "a1B2c3D4e5F6g7H8i9J0k1L2"
    path = tmp_path / "folder" / "p" / "s.jsonl"
    write_recording(path, 6, characters=4_000)
    path.write_text(path.read_text().replace("Read all files", f"With API_KEY={key}, read all files"))
    replay = replay_sessions(tmp_path / "folder", [FORGETFUL], [14_000], ["own"], workers=1, cache_folder=tmp_path / "cache")
    reads = [Say(calls=(("c", "Read", json.dumps({"file_path": name})),)) for name in ("a.py", "b.py")]
    hostile = "</script><img src=x onerror=alert(1)>\x1b[31m"
    with serving(*reads, Say(pieces=("All was read.",)), Say(pieces=(hostile,))) as stub:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", stub.base)
        probe = run_probe(plan_probe(replay, "hosted_vllm/any", record=tmp_path / "answers.jsonl"))
        sent = [json.dumps(request) for request in stub.asked]
    assert len(sent) == 4
    assert not any(key in request for request in sent)
    assert all(f"API_KEY={MASK}" in request for request in sent)
    assert [tool["function"]["name"] for tool in stub.asked[0]["tools"]] == ["Read"]
    assert "All was read." in sent[3]
    (row,) = probe.answers.to_dict("records")
    assert (row["full_tool"], row["again_tool"], row["compacted_tool"]) == ("Read", "Read", "")
    assert (row["same_tool_again"], row["same_call_again"], row["same_tool"], row["same_call"]) == (True, False, False, False)
    page = render_bill_page(replay, (), probe)
    assert "onerror" not in page + probe.answers.to_csv() + "".join([*describe_probe(probe), *describe_asking(probe)])
    assert "says something" in page
