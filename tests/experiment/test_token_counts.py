"""Processes exchange token counts through the action cache."""

import pytest

from harness.experiment import token_counts
from harness.experiment.token_counts import MAX_UNSAVED_TRIALS, MIN_UNSAVED, publish_token_counts, receive_token_counts
from harness.models.tokenizer import TokenCounts
from harness.sandboxes.action_cache import ActionCache


def count_texts(counts: TokenCounts, first: int, last: int) -> None:
    for number in range(first, last):
        counts.find_or_count(f"a text with the number {number}", len)


@pytest.fixture
def start_process(monkeypatch):
    """Return a function that replaces the counts of this process by those of a new process."""

    def start() -> TokenCounts:
        counts = TokenCounts()
        monkeypatch.setattr(token_counts, "COUNTS", counts)
        receive_token_counts.cache_clear()
        return counts

    return start


def test_counts_of_one_process_are_known_to_another_and_none_are_lost(tmp_path, start_process):
    cache = ActionCache(tmp_path)
    for number in range(3):
        counts = start_process()
        receive_token_counts(cache)
        assert len(counts) == number * MIN_UNSAVED
        count_texts(counts, number * MIN_UNSAVED, (number + 1) * MIN_UNSAVED)
        publish_token_counts(cache, "flashcards")
        assert counts.unsaved == 0
    assert cache.read_summary().entries == 1


def test_counts_that_another_process_stored_meanwhile_are_kept(tmp_path, start_process):
    cache = ActionCache(tmp_path)
    for number in range(2):
        counts = start_process()
        count_texts(counts, number * MIN_UNSAVED, (number + 1) * MIN_UNSAVED)
        publish_token_counts(cache, "flashcards")
    counts = start_process()
    receive_token_counts(cache)
    assert len(counts) == 2 * MIN_UNSAVED


def test_few_new_counts_are_stored_only_after_some_trials(tmp_path, start_process):
    cache = ActionCache(tmp_path)
    counts = start_process()
    count_texts(counts, 0, MIN_UNSAVED - 1)
    for _ in range(MAX_UNSAVED_TRIALS - 1):
        publish_token_counts(cache, "flashcards")
    assert cache.read_summary().entries == 0
    publish_token_counts(cache, "flashcards")
    assert (cache.read_summary().entries, counts.unsaved, counts.unsaved_trials) == (1, 0, 0)


def test_trials_without_new_counts_store_nothing(tmp_path, start_process):
    cache = ActionCache(tmp_path)
    start_process()
    for _ in range(MAX_UNSAVED_TRIALS):
        publish_token_counts(cache, "flashcards")
    assert cache.read_summary().entries == 0


def test_short_texts_are_exchanged_too(tmp_path, start_process):
    cache = ActionCache(tmp_path)
    for word in ("ls", "", "a.py"):
        start_process().find_or_count(word, len)
        for _ in range(MAX_UNSAVED_TRIALS):
            publish_token_counts(cache, "flashcards")
    counts = start_process()
    receive_token_counts(cache)
    assert [counts.find_or_count(word, {}.__getitem__) for word in ("ls", "", "a.py")] == [2, 0, 4]
