"""The split of the variance recovers known components, and its intervals contain them as often as they say."""

from math import inf, isnan, sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.variance_split import CAUSES, split_variance

SDS = (0.8, 1.0, 0.5, 0.7, 0.5)
"""True standard deviations of the five causes."""


def simulate(rng: np.random.Generator, *shape: int, sds: tuple[float, ...] = SDS) -> pd.DataFrame:
    tasks, instances, replicates, summaries = shape
    sizes = (
        (tasks, 1, 1, 1),
        (tasks, instances, 1, 1),
        (tasks, instances, replicates, 1),
        (tasks, instances, 1, summaries),
        shape,
    )
    values = sum(sd * rng.standard_normal(size) for sd, size in zip(sds, sizes, strict=True)) + np.zeros(shape)
    places = np.indices(shape).reshape(4, -1)
    return pd.DataFrame(
        dict(zip(("task", "seed", "replicate", "summarizer_seed"), places, strict=True)) | {"value": values.ravel()}
    )


@pytest.mark.slow
@pytest.mark.parametrize("design", [(6, 4, 3, 3), (4, 8, 2, 4)])
@pytest.mark.parametrize("sds", [SDS, (0.5, 0.2, 0.3, 1.0, 0.3)])
def test_components_are_recovered_and_their_intervals_cover_them(design: tuple[int, ...], sds: tuple[float, ...]) -> None:
    rng, worlds = np.random.default_rng(1), 150
    splits = [split_variance(simulate(rng, *design, sds=sds)) for _ in range(worlds)]
    for cause, sd in zip(CAUSES, sds, strict=True):
        components = [split.components[cause] for split in splits if split is not None]
        estimates = np.array([component.variance for component in components])
        assert abs(estimates.mean() - sd**2) < 4 * estimates.std() / sqrt(worlds)
        coverage = np.mean([component.interval.low <= sd**2 <= component.interval.high for component in components])
        assert coverage > 0.9, (cause, coverage)


@given(seed=st.integers(0, 1000), factor=st.floats(0.1, 10), shift=st.floats(-5, 5))
def test_components_scale_with_the_square_of_the_values(seed: int, factor: float, shift: float) -> None:
    values = simulate(np.random.default_rng(seed), 3, 2, 2, 2)
    scaled = values.assign(value=factor * values["value"] + shift)
    before, after = split_variance(values), split_variance(scaled)
    assert before is not None
    assert after is not None
    for cause in CAUSES:
        assert after.components[cause].variance == pytest.approx(
            factor**2 * before.components[cause].variance, rel=1e-6, abs=1e-9
        )


def test_seeds_that_change_nothing_have_no_variance() -> None:
    split = split_variance(simulate(np.random.default_rng(0), 4, 3, 2, 3, sds=(1, 1, 0, 0, 0)))
    assert split is not None
    assert [split.components[cause].variance for cause in CAUSES[2:]] == pytest.approx([0, 0, 0], abs=1e-12)
    assert split.components["instance"].variance > 0


@pytest.mark.parametrize(
    ("design", "missing"),
    [
        ((3, 3, 1, 4), {"agent", "agent × compaction"}),
        ((3, 3, 4, 1), {"compaction", "agent × compaction"}),
        ((1, 5, 2, 2), {"task"}),
        ((4, 1, 2, 2), {"instance", "task"}),
    ],
)
def test_a_cause_that_the_design_does_not_vary_has_no_estimate(design: tuple[int, ...], missing: set[str]) -> None:
    split = split_variance(simulate(np.random.default_rng(0), *design))
    assert split is not None
    assert {cause for cause in CAUSES if isnan(split.components[cause].variance)} == missing


def test_without_repetitions_there_is_no_split() -> None:
    assert split_variance(simulate(np.random.default_rng(0), 3, 3, 1, 1)) is None


def test_instances_without_all_crossed_seeds_are_left_out() -> None:
    values = simulate(np.random.default_rng(0), 3, 4, 2, 3)
    split = split_variance(values.drop(index=0))
    assert split is not None
    assert (split.instances, split.left_out) == (11, 5)


def test_repetitions_never_lower_the_error_below_the_differences_between_tasks() -> None:
    split = split_variance(simulate(np.random.default_rng(3), 6, 4, 2, 2))
    assert split is not None
    errors = [split.compute_error(repetitions=factor) for factor in (1, 2, 8, inf)]
    floor = split.compute_error(repetitions=inf, instances=inf)
    assert errors == sorted(errors, reverse=True)
    assert floor == pytest.approx(sqrt(max(0, split.components["task"].variance) / 6))
    assert errors[-1] > floor
    values = simulate(np.random.default_rng(3), 6, 4, 2, 2)
    means = values.groupby("task")["value"].mean()
    if all(split.components[cause].variance > 0 for cause in CAUSES):
        assert errors[0] == pytest.approx(means.std(ddof=1) / sqrt(6))
