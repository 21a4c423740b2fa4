"""Law 10: a trial with a new model process for every call equals the trial in this process (sampled).

Requests of one recorded session of each task are sent to new processes, which know only the request. A new process makes the task
itself from its seed, so not even the objects of the task are shared. Another hash seed and another order of the requests stand
for all other differences between processes.

Over HTTP a whole trial is compared: every call of agent and summarizer goes through litellm and a real socket.

Seeds, models and policies (one that summarizes and one that masks) are spread over the tasks; with HARNESS_LAWS=full each task is
combined with both policies in new processes, and all tasks are tried over HTTP.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.swe_agent import ComplexityTrapMask
from harness.conversation.events import Compaction, MessageAdded, StepFinished
from harness.experiment.job import Job, collect_provenance
from harness.experiment.run_trial import run_trial
from harness.experiment.trial import Trial
from harness.models.endpoint.server import make_model_finder, serve_endpoint
from harness.store.journal import Journal
from harness.task_checks.fresh_model import FreshModelSpec, answer_in_fresh_process, encode_reply
from harness.task_checks.simulation import WINDOW_TOKENS, Run
from harness.tasks import SUITE
from tests.laws.suite import FULL, TASKS, Case, simulate_in_real_sandbox, spread

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

POLICIES = (KeepLast(summarizer="scripted/extractive"), ComplexityTrapMask())
PROVIDER = "hosted_vllm/"
"""Prefix of the name of a model that is called over HTTP."""
WIRED = TASKS if FULL else ["changing-requirements", "log-forensics"]
"""Tasks of which a trial is run over HTTP."""


def sampled(run: Run) -> list[int]:
    """Return the indexes of two requests, the first after a compaction and one between it and the last; by FULL also these."""
    compacted = run.compactions[0].step - 1
    last = len(run.requests) - 1
    return sorted({compacted, (compacted + last) // 2, *((0, last) if FULL else ())}, reverse=True)


@pytest.mark.parametrize("case", spread(POLICIES, rounds=2 if FULL else 1))
def test_law_10_a_fresh_process_for_every_call_answers_as_the_session_did(case: Case) -> None:
    run = simulate_in_real_sandbox(case)
    asked = FreshModelSpec(case.task, "standard", case.seed, case.reader.full_name, case.reader.seed, WINDOW_TOKENS)
    for hash_seed, at in enumerate(sampled(run), start=1):
        request, reply = run.requests[at]
        assert answer_in_fresh_process(asked, request, hash_seed) == encode_reply(reply), f"request {at + 1}"


def told_of(trial: Trial, journal: Path) -> dict[str, object]:
    """Return everything in a trial except names, times and prices of its models."""
    job = Job(
        trial=trial,
        trial_id=trial.trial_id,
        experiment="e",
        arm="an arm",
        axes={},
        backend="bubblewrap",
        provenance=collect_provenance("prices-1"),
        journal=journal,
    )
    record, checks = run_trial(job)
    with Journal.open(journal, read_only=True) as opened:
        events = [entry.event for entry in opened.read_entries(trial.trial_id)]
    compactions = [event for event in events if isinstance(event, Compaction)]
    error = (record.error or "").replace(PROVIDER, "")
    return {
        "ended": (record.status, record.reason, record.success, record.score, record.steps, error),
        "checks": [(check.check, check.passed, check.detail) for check in checks],
        "messages": [event.message for event in events if isinstance(event, MessageAdded)],
        "usages": [event.usage for event in events if isinstance(event, StepFinished)],
        "requests": [event.request_digest for event in events if isinstance(event, StepFinished)],
        "compactions": [  # without patches, because they name numbers of events, which differ
            (event.status, event.step, event.tokens_after, event.messages_after, event.summary, event.summarizer_usage)
            for event in compactions
        ],
    }


@pytest.mark.parametrize("case", spread(POLICIES, rounds=1, tasks=WIRED))
def test_law_10_a_trial_over_the_wire_equals_the_trial_in_process(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, policy = case.reader.name, case.policy
    here = Trial(task=case.task, seed=case.seed, model=model, policy=policy, window_tokens=WINDOW_TOKENS, max_steps=300)
    profile = model.partition(":")[2] or "attentive"
    if isinstance(policy, KeepLast):
        policy = replace(policy, summarizer=f"{PROVIDER}{policy.summarizer}")
    over_the_wire = replace(here, model=f"{PROVIDER}scripted/{case.task}:{profile}", policy=policy)
    expected = told_of(here, tmp_path / "here.sqlite")
    find = make_model_finder([SUITE[case.task](case.seed)], seed=here.model_seed, window_tokens=WINDOW_TOKENS)
    with serve_endpoint(find) as endpoint:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", endpoint.address)
        assert told_of(over_the_wire, tmp_path / "there.sqlite") == expected
        asked = len(endpoint.served)
    assert expected["compactions"]
    summaries = len(expected["compactions"]) if isinstance(policy, KeepLast) else 0  # type: ignore[arg-type]
    refused = "prompt too long" in str(expected["ended"])
    assert asked == len(expected["usages"]) + summaries + refused  # type: ignore[arg-type]
