"""Law 8: higher fidelity never hurts on average and has an effect, and every axis of the default grid has an effect.

One experiment through the real runner: the base of `experiments/flashcards`, both ends of each of its three axes and all levels
of fidelity with the other axes held constant, and its A/A arm, all on the same seeds. The axes of that experiment are the default
grid. By default they are tried on the task whose commands take the least time; with HARNESS_LAWS=full they are tried on the task
of the experiment, and the order of fidelity on all tasks. All comparisons are paired by seed. An effect counts if the interval of
its paired difference excludes zero and the effect is larger than that of the A/A arm.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.paths import flatten
from harness.experiment.trial import Trial, to_plain
from harness.sandboxes.backends import SandboxChoice
from harness.task import World
from tests.laws.suite import FULL, each

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap, pytest.mark.timeout(1_800)]

SEEDS = tuple(range(100, 110 if FULL else 105))
"""Seeds other than those of the experiment; by default as many as the experiment has."""
ORDER = ["scripted/empty", "scripted/lossy-0.5", "scripted/extractive", "scripted/oracle"]
"""Levels of fidelity, from low to high. The losses of `scripted/survival` have no place among them."""
FLASHCARDS = Experiment.from_toml(Path(__file__).parents[2] / "experiments" / "flashcards")
TASK = FLASHCARDS.base.task if FULL else "changing-requirements"
# standard, as all laws but law 15; the experiment is easy so that some of its sessions succeed
STANDARD = replace(FLASHCARDS.base, world=World())
LITERAL = replace(FLASHCARDS.base.policy, measure="estimate")  # type: ignore[type-var]  # the axes were chosen for estimates
BASE = replace(STANDARD, task=TASK, policy=LITERAL, sandbox=SandboxChoice(backend="bubblewrap"))
VALUES: dict[str, list[Any]] = {
    path: sorted(set(values) & set(ORDER), key=ORDER.index) if path == "policy.summarizer" else sorted(values)
    for path, values in cast(dict[str, list[Any]], FLASHCARDS.axes).items()
    if path != "seed"
}
"""The axes of the experiment, each from low to high; one value of each axis is the value of the base."""

Arms = dict[str, pd.DataFrame]


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> Arms:
    """Return the trials of each arm by seed: the base, both ends of each axis, and all levels of fidelity."""
    base = dict(flatten(to_plain(BASE)))
    tried = {(path, value) for path, values in VALUES.items() for value in (values[0], values[-1])}
    tried |= {("policy.summarizer", level) for level in ORDER}
    others = {f"{path}={value}": {path: value} for path, value in sorted(tried, key=str) if base[path] != value}
    again = {"A/A": {"replicate": 1}}
    named = run("law-8", BASE, {**others, **again}, tmp_path_factory.mktemp("law-8"))
    return named | {f"{path}={base[path]}": named["base"] for path in VALUES}


def run(name: str, base: Trial, changes: dict[str, dict[str, Any]], folder: Path) -> Arms:
    """Return the results of the base and of some changes to it on all seeds."""
    extra = [Arm(name=arm, trial=change) for arm, change in changes.items()]
    experiment = Experiment(name=name, base=base, axes={"seed": SEEDS}, arms=extra)
    trials = experiment.run(folder, workers=2, progress="off").trials
    assert set(trials["status"]) <= {"completed", "failed"}, "no trial crashed"
    by_name = {str(arm): frame.set_index("seed").sort_index() for arm, frame in trials.groupby("arm")}
    assert all(len(frame) == len(SEEDS) for frame in by_name.values())
    (plain,) = (frame for arm, frame in by_name.items() if arm not in changes)
    return {arm: by_name[arm] for arm in changes} | {"base": plain}


def score(trials: pd.DataFrame) -> "pd.Series[float]":
    return trials["score"]


def cost(trials: pd.DataFrame) -> "pd.Series[float]":
    return np.log(trials["cost_usd"] + trials["summarizer_cost_usd"].fillna(0.0))


def paired(first: "pd.Series[float]", second: "pd.Series[float]") -> tuple[float, float, float]:
    """Return the mean of second minus first over equal seeds, with a 95 % t interval."""
    difference = (second - first).to_numpy(dtype=float)
    mean, error = float(difference.mean()), float(stats.sem(difference))
    half = float(stats.t.ppf(0.975, len(difference) - 1)) * error
    return mean, mean - half, mean + half


@pytest.mark.parametrize("task", each() if FULL else [TASK])
def test_the_score_rises_from_empty_over_lossy_and_extractive_to_oracle(task: str, request: pytest.FixtureRequest) -> None:
    """The mean never falls from one level to the next, and `extractive` is strictly between the bounds."""
    arms_by_name: Arms
    if task == TASK:  # the arms of the experiment include each level of fidelity
        arms = request.getfixturevalue("arms")
        arms_by_name = {name: arms[f"policy.summarizer={name}"] for name in ORDER}
    else:
        changes = {name: {"policy.summarizer": name} for name in ORDER if name != "scripted/extractive"}
        arms_by_name = run(f"law-8-{task}", replace(BASE, task=task), changes, request.getfixturevalue("tmp_path"))
    empty, lossy, extractive, oracle = (score(arms_by_name[name if name in arms_by_name else "base"]) for name in ORDER)
    assert (oracle == 1).all()
    for worse, better in ((empty, extractive), (extractive, oracle)):
        mean, low, _ = paired(worse, better)
        assert low > 0, f"{mean:+.3f} is not clearly above zero"
    for worse, better in ((empty, lossy), (lossy, extractive)):
        mean, _, high = paired(worse, better)
        assert high >= 0, f"{mean:+.3f} is clearly below zero"


@pytest.mark.parametrize("path", VALUES)
def test_every_axis_moves_score_or_cost_beyond_the_noise(arms: Arms, path: str) -> None:
    """The largest effect between the ends of an axis exceeds the effect of the A/A arm on the same measure."""
    low, high = (arms[f"{path}={value}"] for value in (VALUES[path][0], VALUES[path][-1]))
    measures: tuple[Callable[[pd.DataFrame], pd.Series[float]], ...] = (score, cost)
    moved = []
    for measure in measures:
        effect, below, above = paired(measure(low), measure(high))
        _, noise_below, noise_above = paired(measure(arms["base"]), measure(arms["A/A"]))
        noise = max(abs(noise_below), abs(noise_above))
        moved.append((below > 0 or above < 0) and abs(effect) > noise)
    assert any(moved), f"{path} moves neither score nor cost"


def test_the_default_policy_compacts_two_to_six_times(arms: Arms) -> None:
    assert arms["base"]["compactions"].between(2, 6).all()
