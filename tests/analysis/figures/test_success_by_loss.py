"""Success over lost facts: what counts is whether a fact that cannot be found again is visible when it is needed."""

from typing import Any

import pytest

from harness.analysis.figures import success_by_loss
from harness.errors import UsageError
from tests.analysis.selections import results
from tests.analysis.test_retention import probe

LATER = {"used_step": 9, "used": "right", "reacquisition_calls": None}


def test_trials_are_grouped_by_the_share_of_needed_facts_that_they_lost():
    trials = [{"trial_id": f"t{number}", "seed": number, "success": number < 2} for number in range(4)]
    probes = [
        probe(f"t{number}", fact=fact, seen_after=place >= number, **LATER)
        for number in range(4)
        for place, fact in enumerate(("port", "mode", "room"))
    ]
    table = success_by_loss.table(results(trials, probes=probes))
    assert table[["n", "value"]].to_numpy().tolist() == [[1, 1], [1, 1], [1, 0], [1, 0]]
    assert table["lost"].tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert ((table["low"] < table["value"]) | (table["value"] == 0)).all()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"reacquisition_calls": 1}, id="it can be found again"),
        pytest.param({"used_step": None, "used": ""}, id="no call contains it"),
    ],
)
def test_a_fact_that_is_not_needed_or_can_be_found_again_does_not_count(change: dict[str, Any]):
    lost, kept = probe("t", fact="port", seen_after=False, **(LATER | change)), probe("t", fact="mode", seen_after=True, **LATER)
    (row,) = success_by_loss.table(results([{"trial_id": "t"}], probes=[lost, kept])).itertuples()
    assert row.lost == 0


def test_a_fact_that_a_later_compaction_restores_before_its_use_is_not_lost():
    rounds = [probe("t", fact="port", event=event, seen_after=seen, **LATER) for event, seen in ((7, True), (3, False))]
    (row,) = success_by_loss.table(results([{"trial_id": "t"}], probes=rounds)).itertuples()
    assert row.lost == 0


def test_the_chart_says_how_many_trials_it_shows_and_leaves_out():
    needs = probe("t0", fact="port", seen_after=False, **LATER)
    table = success_by_loss.table(results([{"trial_id": "t0"}, {"trial_id": "t1", "seed": 1}], probes=[needs]))
    figure: Any = success_by_loss.draw(table)
    texts = " ".join(text.get_text() for text in figure.texts)
    assert "1 trial of 1 task; 1 without a needed fact left out" in texts


def test_a_chart_without_needed_facts_is_refused():
    with pytest.raises(UsageError, match="no trial needed a fact"):
        success_by_loss.draw(success_by_loss.table(results([{"trial_id": "t"}])))
