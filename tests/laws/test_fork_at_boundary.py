"""The stored tables of `experiments/fork_at_boundary`, from which its README reports the harm of single compactions."""

from pathlib import Path

import pandas as pd
import pytest

from harness.analysis.harm import CONTRASTS, compute_harm, measure_concentration, split_halves

FOLDER = Path(__file__).parents[2] / "experiments" / "fork_at_boundary"


@pytest.fixture(scope="module")
def twins():
    return pd.read_csv(FOLDER / "harm.csv")


def test_every_compaction_has_every_arm_with_the_same_repetitions_and_stays_within_the_budget(twins):
    assert len(twins) <= 300
    counts = twins.groupby(["session", "round", "later_compactions", "arm"]).size()
    alone, active = (counts.xs(is_on, level="later_compactions") for is_on in (False, True))
    assert (alone.eq(2).all(), active.eq(1).all()) == (True, True)
    assert (len(alone), len(active)) == (20 * 5, 20 * 4)
    assert (twins.loc[~twins["later_compactions"], "compactions"] == 0).all()


def test_the_readme_reports_the_means_of_the_stored_tables(twins):
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    means = twins.groupby(["later_compactions", "arm"])["score"].mean()
    for (is_on, arm), score in means.items():
        assert f"| {'on' if is_on else 'off'} | {arm} | {score:.3f} |" in text
    alone = twins[~twins["later_compactions"]]
    for contrast in CONTRASTS:
        harm = compute_harm(alone, contrast)
        tasks = twins.drop_duplicates(["session", "round"])[["session", "round", "task"]]
        mean = harm.merge(tasks, on=["session", "round"]).groupby("task")["score"].mean().mean()
        name = "noise (A/A)" if contrast == "noise" else contrast
        assert f"| off | {name} | {mean + 0:.3f}" in text
    share = measure_concentration(split_halves(compute_harm(alone), "score"), 0.2).share_of_harm
    assert f"| the compaction | 0.99 | 0.41 | {share:.2f} |" in text
