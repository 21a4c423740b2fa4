"""Tests of the provenance and the fidelity level of results."""

import platform
import subprocess
from dataclasses import fields, replace
from pathlib import Path

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.experiment.job import build_session_spec, classify_level, collect_provenance
from harness.experiment.trial import Trial, from_plain
from harness.models.cassette import Cassette
from harness.models.factory import Wiring
from harness.policies import PRESETS
from harness.sandboxes.backends import SandboxChoice
from harness.tasks import make_task
from tests.experiment.tiny_task import tiny


def test_every_setting_of_a_trial_and_of_its_run_reaches_the_session():
    trial = Trial(
        task="flashcards",
        policy=KeepLast(keep_last=3),
        seed=4,
        replicate=2,
        model="hosted_vllm/stub",
        tool_calls="text",
        window_tokens=9_000,
        nominal_window_tokens=90_000,
        output_limit_scale=0.25,
        summarizer_seed=3,
        max_steps=7,
        parallel_tools=True,
        command_timeout_seconds=5.0,
        sandbox=SandboxChoice(backend="bubblewrap"),
    )
    cassette = Cassette(path=Path("tape.jsonl"), mode="replay")
    task = tiny(0)
    spec = build_session_spec(trial, task, Wiring(cassette=cassette, stall_seconds=3.0))
    assert (spec.request, spec.task, spec.policy, spec.model) == (task.prompt, task, trial.policy, trial.model)
    assert (spec.seed, spec.window_tokens, spec.nominal_window_tokens) == (trial.model_seed, 9_000, 90_000)
    assert (spec.max_steps, spec.parallel_tools, spec.output_limit_scale, spec.summarizer_seed) == (7, True, 0.25, 3)
    assert (spec.command_timeout_seconds, spec.sandbox, spec.repeated) == (5.0, trial.sandbox, "continue")
    assert spec.wiring == Wiring(tool_calls="text", cassette=cassette, take=2, stall_seconds=3.0)


@pytest.mark.parametrize("policy", PRESETS)
def test_a_trial_of_a_plan_and_its_session_equal_those_that_their_constructors_make(policy):
    trial = from_plain({"task": "flashcards", "policy": policy, "command_timeout_seconds": 5, "sandbox": {"backend": "docker"}})
    spec = build_session_spec(trial, tiny(0), journal=Path("j.sqlite"))
    for made_without_checks in (trial, spec):
        values = {one.name: getattr(made_without_checks, one.name) for one in fields(made_without_checks)}
        assert type(made_without_checks)(**values) == made_without_checks
    assert type(trial.command_timeout_seconds) is float
    assert (spec.journal, spec.snapshots) == (Path("j.sqlite"), True)


def test_a_trial_that_sets_no_steps_has_those_of_its_task_and_another_id_than_one_of_50_steps():
    trial = Trial(task="changing-requirements", policy="none")
    task = make_task(trial.task, trial.seed)
    assert build_session_spec(trial, task).step_limit == task.step_limit > 50
    stopped_early = replace(trial, max_steps=50)
    assert build_session_spec(stopped_early, task).step_limit == 50
    assert stopped_early.trial_id != trial.trial_id, "trials of version 0.2, which stop after 50 steps, are no substitute"


@pytest.mark.parametrize(
    ("model", "policy", "level"),
    [
        ("scripted", NoCompaction(), "L0"),
        ("scripted/flashcards:typical", KeepLast(), "L0"),
        ("scripted", KeepLast(summarizer="scripted/oracle"), "L0"),
        ("scripted", KeepLast(summarizer="gpt-4.1-mini"), "L1"),
        ("scripted", KeepLast(summarizer="local/smollm2-135m"), "L1"),
        ("gpt-4.1-mini", NoCompaction(), "L3"),
        ("gpt-4.1-mini", KeepLast(summarizer="scripted/oracle"), "L3"),
        ("scriptedly/named", NoCompaction(), "L3"),
    ],
)
def test_the_level_follows_from_the_models(model, policy, level):
    assert classify_level(Trial(task="t", policy=policy, model=model)) == level


def test_a_run_knows_its_versions_and_its_commit(checkout):
    provenance = collect_provenance("prices-7")
    assert (provenance.python, provenance.price_table) == (platform.python_version(), "prices-7")
    assert "pydantic" in dict(provenance.packages)
    git = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if git.returncode == 0:
        assert provenance.git_commit is not None
        assert provenance.git_commit.removesuffix("+changes") == git.stdout.strip()
