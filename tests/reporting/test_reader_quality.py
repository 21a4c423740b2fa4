"""The quality of the readers is stated where real models may write the summaries, with the figures of the measurement."""

import json
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.reader_quality.generate import TASKS, generate_prompts, write_rows
from experiments.reader_quality.judge import bound_rate, estimate_rate, stands_in
from harness.models.scripted.profiles import READERS
from harness.reporting.reader_quality import describe_readers, load_reader_quality


def trials(level: str, *readers: str) -> pd.DataFrame:
    configurations = [json.dumps({"reader": reader} if reader else {}) for reader in readers]
    return pd.DataFrame({"level": [level] * len(readers), "config_json": configurations})


@pytest.mark.parametrize(("level", "count"), [("L0", 0), ("L1", 2), ("L2-open", 0), ("L3", 2)])
def test_each_reader_in_use_is_described_if_summaries_can_be_real(level: str, count: int) -> None:
    sentences = list(describe_readers(trials(level, "tolerant", "", "exact", "tolerant")))
    assert len(sentences) == count
    for sentence, reader in zip(sentences, ("exact", "tolerant"), strict=False):
        figures = load_reader_quality()["readers"][reader]
        assert f"by the {reader} reader" in sentence
        assert f"read {figures['recalled']:,} of {figures['stated']:,} fact" in sentence
        assert f"{100 * figures['false_upper_bound']:.1f} %" in sentence
        assert f"the summary itself stated {figures['false_readings'] - figures['misreadings']}, and" in sentence
        assert f"misread {figures['misreadings']} (bound {100 * figures['misreading_upper_bound']:.1f} %)" in sentence
        assert "experiments/reader_quality" in sentence


def test_figures_of_all_readers_are_stored_with_their_number_of_summaries() -> None:
    quality = load_reader_quality()
    assert quality["readers"].keys() == set(READERS)
    assert quality["summaries"] == sum(quality["by_model"].values()) > 0
    for one in quality["readers"].values():
        assert 0 <= one["recalled"] <= one["stated"]
        assert 0 <= one["misreadings"] <= one["false_readings"] <= one["readings"]
        assert 0 < one["false_upper_bound"] <= 1
        assert one["misreading_upper_bound"] <= 0.01, "the other false readings are errors of the summaries"
    assert quality["summaries"] >= 600
    assert quality["distractors"]["read"] == 0 < quality["distractors"]["sentences"]


SESSIONS = st.lists(
    st.integers(1, 20).flatmap(lambda size: st.tuples(st.integers(0, size), st.just(size))), min_size=2, max_size=30
)


@given(SESSIONS)
def test_bounds_lie_above_the_rate_and_grow_with_dependence(sessions: list[tuple[int, int]]) -> None:
    rate = estimate_rate(sessions)
    assert (rate.events, rate.cases) == tuple(map(sum, zip(*sessions, strict=True)))
    bounds = [rate.events / rate.cases, bound_rate(rate.events, rate.cases), rate.bound, rate.dependent_bound]
    assert all(left <= right + 1e-9 for left, right in pairwise(bounds))


@given(st.integers(1, 400), st.integers(2, 9))
def test_copies_of_a_case_in_its_session_do_not_narrow_the_dependent_bound(sessions: int, copies: int) -> None:
    once, often = estimate_rate([(0, 1)] * sessions), estimate_rate([(0, copies)] * sessions)
    assert often.dependent_bound == pytest.approx(once.bound)
    assert often.bound < once.bound == pytest.approx(1 - 0.025 ** (1 / sessions))


def test_events_that_gather_in_a_session_widen_the_bound() -> None:
    spread, gathered = [(1, 10)] * 5 + [(0, 10)] * 45, [(5, 10)] + [(0, 10)] * 49
    assert estimate_rate(spread).bound < 0.03
    assert estimate_rate(gathered).bound > 0.04


def test_a_value_stands_in_a_text_as_a_word_beside_a_key_word_of_its_fact() -> None:
    words = frozenset({"port"})
    assert stands_in("4000", words, "- the port is 4000")
    assert not stands_in("4000", words, "- the port is 40001\n- 4000 is a number")


def test_only_prompts_of_the_given_seeds_are_answered(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl.xz"
    write_rows(path, [{"task": task, "seed": seed} for task in TASKS for seed in (1_000, 1_001, 1_002)])
    assert {(row["task"], row["seed"]) for row in generate_prompts(1_001, 1, path)} == {(task, 1_001) for task in TASKS}
