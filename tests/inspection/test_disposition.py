"""What is drawn adds up to what the event says, for every preset."""

import pytest

from harness.errors import UsageError
from harness.inspection.disposition import fates, left, sampled
from harness.inspection.sample_run import walk, writer
from tests.contracts.test_policy_properties import POLICIES


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_tokens_and_messages_of_all_fates_are_those_of_the_event(policy):
    tried = walk(policy, 16_000, writer("scripted/empty"))
    for change in tried.applied:
        event, found = change.event, fates(change)
        assert sum(one.tokens_before for one in found) == event.tokens_before
        assert sum(one.tokens_after for one in found) == sum(one.tokens_after for one in left(change)) == event.tokens_after
        assert sum(one.fate != "summary" for one in found) == event.messages_before
        assert len(left(change)) == event.messages_after
        by_fate = {fate: [one for one in found if one.fate == fate] for fate in ("kept", "masked", "summarized", "dropped")}
        assert all(one.tokens_before == one.tokens_after for one in by_fate["kept"])
        assert all(one.tokens_after == 0 for one in (*by_fate["summarized"], *by_fate["dropped"]))
        assert len(by_fate["masked"]) == len({one.item for one in event.patch.replace} - set(event.patch.forget))
        assert not by_fate["summarized"] or event.patch.insert


@pytest.mark.parametrize("cells", [1, 7, 500])
def test_a_bar_has_its_width_and_shows_each_fate_by_its_share(cells):
    change = walk(POLICIES[1], 16_000, writer("scripted/empty")).applied[0]
    drawn = sampled(fates(change), cells)
    assert len(drawn) == cells
    for fate in ("kept", "summarized"):
        share = sum(one.tokens_before for one in fates(change) if one.fate == fate) / change.event.tokens_before
        assert drawn.count(fate) == pytest.approx(share * cells, abs=1)
    assert "summary" in sampled(left(change), 500, after=True)


def test_a_narrow_window_is_refused_and_not_drawn():
    with pytest.raises(UsageError, match="raise window_tokens"):
        walk(POLICIES[1], 100)
