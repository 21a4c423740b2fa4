"""The quality of the readers is stated where real models may write the summaries, with the figures of the measurement."""

import json

import pandas as pd
import pytest

from harness.analysis.reader_quality import describe_readers, load_reader_quality
from harness.models.scripted.profiles import READERS


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
        assert "experiments/reader_quality" in sentence


def test_figures_of_all_readers_are_stored_with_their_number_of_summaries() -> None:
    quality = load_reader_quality()
    assert quality["readers"].keys() == set(READERS)
    assert quality["summaries"] == sum(quality["by_model"].values()) > 0
    for one in quality["readers"].values():
        assert 0 <= one["recalled"] <= one["stated"]
        assert 0 <= one["false_readings"] <= one["readings"]
        assert 0 < one["false_upper_bound"] <= 1
    assert quality["distractors"]["read"] == 0 < quality["distractors"]["sentences"]
