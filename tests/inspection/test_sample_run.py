"""Policies tried on the sample: what is told of them is what they did."""

from dataclasses import dataclass
from typing import Literal

import pytest

from harness.compaction.cuts import LastShare, Snap
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.presets.bounds import OracleRetention
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.ratio import SeedOpenCode
from harness.compaction.presets.window import CONCISE_INSTRUCTION
from harness.compaction.stages import Middle, Summarize
from harness.compaction.summary_formats import Notes
from harness.compaction.triggers import FixedTokens, Full
from harness.errors import IllegalPlan, UsageError
from harness.events import Entry
from harness.inspection.sample_run import open_sample_summarizer, run_on_sample
from harness.plan import Plan
from harness.view import fold
from tests.compaction.test_compactor import Stubborn, forget

SMALL = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AtUsers(Preset):
    """Cuts only where the user speaks, as one published policy does."""

    at_tokens: int = 10_000
    clip_characters: int = 10_000
    kind: Literal["at-users"] = "at-users"

    @property
    def pipeline(self) -> Pipeline:
        middle = Middle(tail=LastShare(share=0.3), snap=Snap(legal="user"))
        summarize = Summarize(middle=middle, format=Notes(instruction=CONCISE_INSTRUCTION, heading="So far"), max_tokens=500)
        return Pipeline(division=FixedTokens(tokens=self.at_tokens), rules=(Rule(trigger=Full(), reducer=summarize),))


@pytest.mark.parametrize(
    ("policy", "activity", "overflowed"),
    [
        (NoCompaction(), "control", True),
        (KeepLast(), "active", False),
        (SeedOpenCode(protect_tokens=1_000, threshold=0.9), "summarizer never asked", False),
        (AtUsers(), "no effect", True),
        (AtUsers(at_tokens=10**9), "never fired", True),
    ],
    ids=repr,
)
def test_what_becomes_of_a_policy_in_a_session_of_one_prompt_is_measured(policy, activity, overflowed):
    tried = run_on_sample(policy, SMALL, open_sample_summarizer("scripted/empty"))
    assert (tried.activity, tried.has_overflowed) == (activity, overflowed)
    assert bool(tried.applied_attempts) == (activity in {"active", "summarizer never asked"})


def test_the_views_before_and_after_are_those_of_the_session():
    tried = run_on_sample(KeepLast(), SMALL)
    assert len(tried.applied_attempts) > 1
    for change in tried.attempts:
        assert change.before.tokens == change.event.tokens_before
        seq = max(item.item_id.event for item in change.after.items)
        assert fold(change.before, Entry(seq, change.event), tried.policy.counter).messages == change.after.messages


def test_a_policy_that_must_know_the_future_is_told_that_of_the_sample():
    tried = run_on_sample(OracleRetention(), SMALL)
    kept = tried.applied_attempts[0].after.messages
    assert kept[1].role == "user", "the request is always needed"
    assert len(kept) < 30


def test_a_policy_that_does_not_work_in_a_window_is_refused():
    with pytest.raises(UsageError, match="leave nothing of the window of 9000"):
        run_on_sample(KeepLast(), 9_000)


def test_a_policy_that_breaks_a_guard_is_named():
    with pytest.raises(IllegalPlan, match=r"'stubborn'.*system message"):
        run_on_sample(Stubborn(proposal=Plan(reason="all of it", forget=forget(2, 3))), SMALL)


def test_a_session_is_broken_off_where_enough_was_seen():
    whole, part = (run_on_sample(KeepLast(), SMALL, open_sample_summarizer("scripted/empty"), most) for most in (None, 2))
    assert (whole.was_stopped_early, part.was_stopped_early) == (False, True)
    assert part.attempts == whole.attempts[:2]
