"""The report splits the variance of each arm by cause if trials were repeated."""

import json

import numpy as np
import pytest

from harness.reporting.variance import ZERO, build_variance_sections
from tests.analysis.selections import results


def make_trials(arm: str, model: str, summarizer: str, *, agent_sd: float, compaction_sd: float, seeds=(0, 1, 2)):
    rng = np.random.default_rng(0)
    config = {"model": model, "policy": {"kind": "keep-last", "summarizer": summarizer}}
    for task in ("flashcards", "spec-api", "bug-hunt"):
        for seed in range(3):
            base, agents, compactions = rng.normal(0.5, 0.1), agent_sd * rng.normal(size=3), compaction_sd * rng.normal(size=3)
            for replicate in range(3):
                for summarizer_seed in seeds:
                    yield {
                        "trial_id": f"{arm}/{task}/{seed}/{replicate}/{summarizer_seed}",
                        "arm": arm,
                        "task": task,
                        "seed": seed,
                        "replicate": replicate,
                        "success": False,
                        "summarizer_seed": summarizer_seed,
                        "score": float(np.clip(base + agents[replicate] + compactions[summarizer_seed], 0, 1)),
                        "config_json": json.dumps({**config, "summarizer_seed": summarizer_seed}),
                    }


def test_a_cause_is_structurally_zero_where_nothing_is_drawn_at_random():
    survival = "scripted/survival:constraints-rounds"
    trials = [
        *make_trials("random", "scripted:typical", survival, agent_sd=0.05, compaction_sd=0.08),
        *make_trials("attentive", "scripted", survival, agent_sd=0.0, compaction_sd=0.08),
        *make_trials("extractive", "scripted:typical", "same", agent_sd=0.05, compaction_sd=0.0),
    ]
    split, errors = build_variance_sections(results(trials))
    assert split.columns[1:] == (
        "design",
        "task",
        "instance (seed)",
        "agent (replicate)",
        "compaction (summarizer seed)",
        "agent × compaction",
    )
    cells = {row[0]: row[1:] for row in split.rows}
    assert {row[0] for row in cells.values()} == {"3 × 9 × 3 × 3"}
    is_zero = {arm: [cell == ZERO for cell in row[3:5]] for arm, row in cells.items()}
    assert is_zero == {"random": [False, False], "attentive": [True, False], "extractive": [False, True]}
    assert [row[0] for row in errors.rows] == ["extractive", "random"]
    for row in errors.rows:
        now, twice, repeated, floor = map(float, row[1:])
        assert now >= twice >= repeated >= floor


def test_a_cause_with_different_outcomes_is_never_called_structurally_zero():
    trials = list(make_trials("a", "scripted", "same", agent_sd=0.1, compaction_sd=0.0))
    (split,) = build_variance_sections(results(trials))
    assert split.rows[0][4] != ZERO
    assert split.rows[0][5] == ZERO


@pytest.mark.parametrize("kept", [{"replicate": 0, "summarizer_seed": 0}])
def test_without_repetitions_the_report_has_no_such_section(kept):
    trials = make_trials("a", "scripted", "same", agent_sd=0.1, compaction_sd=0.1)
    chosen = [row for row in trials if all(row[name] == value for name, value in kept.items())]
    assert list(build_variance_sections(results(chosen))) == []
