"""Selections of results; the results of the store are valid input of the analysis."""

from harness.analysis.tables import require_single_level, select, split_by_level
from tests.analysis.selections import grid, results


def test_a_selection_keeps_only_what_belongs_to_its_trials():
    whole = grid(seeds=(0,))
    part = select(whole, whole.trials.query("policy == 'none'"))
    assert set(part.steps["trial_id"]) == set(part.trials["trial_id"]) == {"no compaction/0"}
    assert part.compactions.empty


def test_results_are_split_by_fidelity_level():
    parts = split_by_level(results([{"level": "L3"}, {"seed": 1}]))
    assert [require_single_level(part.trials) for part in parts] == ["L0", "L3"]
