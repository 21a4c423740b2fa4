"""The metric `later_use_of_evicted` agrees with the known uses of facts in a scripted session."""

import pytest

from tests.replay.fact_ledger import run_sessions


@pytest.mark.slow
def test_distinctive_values_that_are_used_without_being_seen_again_are_found(tmp_path):
    """Each use of a distinctive value is found; words that are no facts are found besides."""
    [(_, agreement)] = run_sessions(tmp_path, ["flashcards"], [0])
    assert agreement.uses >= agreement.distinctive_uses > 0
    assert agreement.found_distinctive_uses == agreement.distinctive_uses
    assert 0 < agreement.right_words <= agreement.words
