"""Code and plans that describe a trial: both give the trial back, for every policy."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import harness
from harness.experiment.contrasts import Contrast
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.plan import Settings, read_plan
from harness.experiment.source_text import format_experiment_code, format_experiment_plan, format_trial_code, format_trial_plan
from harness.experiment.trial import Trial
from harness.policies import PRESETS, KeepLast, LangChainSummary, ThreeTiers
from harness.sandboxes.backends import SandboxChoice
from harness.task import World

HOSTILE = 'x"\\\n\x7f]]#\'"""'
TRIALS = [
    *(Trial(task="flashcards", policy=name) for name in sorted(PRESETS)),
    Trial(task=HOSTILE, policy=KeepLast(threshold=0.7, summarizer="scripted/lossy-0.5"), window_tokens=32_768, seed=3),
    Trial(task="long-march", policy="none", world=World(steps=400), sandbox=SandboxChoice(image="python:3.12"), explore=True),
    Trial(task="flashcards", policy=ThreeTiers(preserve=("read_file", HOSTILE)), nominal_window_tokens=200_000, model=HOSTILE),
]


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.policy_kind)
def test_code_and_plan_give_the_trial_back(trial, tmp_path):
    assert eval(format_trial_code(trial), {"harness": harness}) == trial
    (tmp_path / "plan.toml").write_text(format_trial_plan(trial), encoding="utf-8")
    assert read_plan(tmp_path).base == trial


@settings(max_examples=50)
@given(st.floats(0.05, 1.0), st.integers(1, 10**7), st.integers(0, 10**6), st.text(max_size=20))
def test_any_value_survives_the_code(threshold, keep_last, seed, model):
    trial = replace(TRIALS[0], policy=KeepLast(threshold=threshold, keep_last=keep_last), seed=seed, model=model)
    assert eval(format_trial_code(trial), {"harness": harness}) == trial


def test_defaults_are_not_written():
    assert format_trial_code(Trial(task="flashcards", policy="codex")).count("\n") == 3
    assert format_trial_plan(Trial(task="flashcards", policy="codex")) == (
        '[trial]\ntask = "flashcards"\n\n[trial.policy]\nkind = "codex@2026"\n'
    )


def test_a_field_of_none_that_toml_cannot_express_is_named():
    trial = Trial(task="flashcards", policy=LangChainSummary(trim_tokens=None))
    assert "# trim_tokens is None, which only Python can express" in format_trial_plan(trial)
    assert eval(format_trial_code(trial), {"harness": harness}) == trial


EXPERIMENTS = [
    Experiment(name="output", base=TRIALS[0]),
    Experiment(
        name="output",
        base=Trial(task="flashcards", policy="keep-last", window_tokens=32_768),
        axes={
            "policy.threshold": [0.5, 0.8],
            "seed": list(range(6)),
            "task": ["flashcards", "rename-sweep"],
            "world.steps": [20_000],
        },
        arms=(Arm(name=HOSTILE, trial={"policy": {"kind": "none"}}), Arm(name="late", trial={"policy.threshold": 0.95})),
        contrasts=(Contrast(a="late", b=HOSTILE, metric="score"),),
        not_worse_margin=0.05,
        settings=Settings(title=HOSTILE, looks=2),
    ),
]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=["base only", "everything"])
def test_code_and_plan_give_the_experiment_back(experiment, tmp_path):
    names: dict[str, object] = {"harness": harness}
    exec(format_experiment_code(experiment), names)
    assert names["experiment"] == experiment
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "plan.toml").write_text(format_experiment_plan(experiment), encoding="utf-8")
    read = Experiment.from_toml(tmp_path / "output")
    assert [cell.trial_id for cell in read.grid] == [cell.trial_id for cell in experiment.grid]
    assert [cell.arm for cell in read.grid] == [cell.arm for cell in experiment.grid]
    assert (tuple(read.contrasts), read.settings) == (experiment.contrasts, experiment.settings)
    assert read.not_worse_margin == experiment.not_worse_margin
