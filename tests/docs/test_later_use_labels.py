"""Hand-made labels of later uses: the sample, its size, and the precision that the documentation states."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from experiments.later_use.sample import EVENTS, compute_wilson, draw_sample, iter_events, read_labels

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "your-bill.md"


@given(st.integers(1, 500).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
def test_the_interval_is_that_of_scipy(counts):
    low, high = compute_wilson(*counts)
    other = binomtest(*counts).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((other.low, other.high), abs=1e-6)


def test_the_guide_states_the_precision_of_the_labels():
    rows = read_labels()
    assert len({row["key"] for row in rows}) == len(rows) == EVENTS
    real = [row for row in rows if row["stratum"] == "real"]
    hits = sum(row["label"] == "yes" for row in real)
    low, high = compute_wilson(hits, len(real))
    assert f"{100 * hits / len(real):.0f} % [{100 * low:.0f}, {100 * high:.0f}]" in GUIDE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_sample_has_the_labelled_events():
    folder = os.environ.get("HARNESS_TRAJECTORIES", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("HARNESS_TRAJECTORIES names no folder with the recordings")
    sample = draw_sample(list(iter_events(Path(folder))))
    assert [event.key for event in sample] == [row["key"] for row in read_labels()]
