"""Tests of dispositions: for every preset, the drawn tokens add up to those of the compaction event."""

import pytest

from harness.errors import UsageError
from harness.inspection.disposition import classify_messages, sample_dispositions, select_remaining
from harness.inspection.sample_run import open_sample_summarizer, run_on_sample
from harness.policies import GeminiCli, MiniSweAgent, NoCompaction, OpenAiTrimmer, OpenCode, Paced, StrandsWindow
from tests.contracts.test_policy_properties import POLICIES

INERT = (
    NoCompaction(),
    MiniSweAgent(),
    GeminiCli(threshold=0.02),
    Paced(every_steps=2, summarize=False, keep_last=2, pins=("*a*", "*build*")),
    OpenAiTrimmer(recent_turns=1, max_characters=10, preview_characters=0),
    StrandsWindow(window_messages=4, keep_characters=0),
)
"""Policies that compact nothing in the sample session before it overflows: they never do, protect as much as it has, or act only
between its turns, of which it has one."""


def _choose_summarizer(policy):
    """Return the name of a summarizer whose answer the policy takes: OpenCode refuses one without any of its headings."""
    return "scripted/extractive" if isinstance(policy, OpenCode) else "scripted/empty"


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_tokens_and_messages_of_all_dispositions_are_those_of_the_event(policy):
    tried = run_on_sample(policy, 16_000, open_sample_summarizer(_choose_summarizer(policy)))
    assert any(change.event.moment != "overflow" for change in tried.applied_attempts) == (policy not in INERT)
    for change in tried.applied_attempts:
        event, dispositions = change.event, classify_messages(change)
        assert sum(one.tokens_before for one in dispositions) == event.tokens_before
        assert (
            sum(one.tokens_after for one in dispositions)
            == sum(one.tokens_after for one in select_remaining(change))
            == event.tokens_after
        )
        assert sum(one.disposition != "summary" for one in dispositions) == event.messages_before
        assert len(select_remaining(change)) == event.messages_after
        by_disposition = {
            disposition: [one for one in dispositions if one.disposition == disposition]
            for disposition in ("kept", "masked", "summarized", "dropped")
        }
        assert all(one.tokens_before == one.tokens_after for one in by_disposition["kept"])
        assert all(one.tokens_after == 0 for one in (*by_disposition["summarized"], *by_disposition["dropped"]))
        assert len(by_disposition["masked"]) == len({one.item for one in event.patch.replace} - set(event.patch.forget))
        assert not by_disposition["summarized"] or event.patch.insert


@pytest.mark.parametrize("cells", [1, 7, 500])
def test_a_bar_has_its_width_and_shows_each_disposition_by_its_share(cells):
    change = run_on_sample(POLICIES[1], 16_000, open_sample_summarizer("scripted/empty")).applied_attempts[0]
    drawn = sample_dispositions(classify_messages(change), cells)
    assert len(drawn) == cells
    for disposition in ("kept", "summarized"):
        share = (
            sum(one.tokens_before for one in classify_messages(change) if one.disposition == disposition)
            / change.event.tokens_before
        )
        assert drawn.count(disposition) == pytest.approx(share * cells, abs=1)
    assert "summary" in sample_dispositions(select_remaining(change), 500, after=True)


def test_a_narrow_window_is_refused_and_not_drawn():
    with pytest.raises(UsageError, match="raise window_tokens"):
        run_on_sample(POLICIES[1], 100)
