"""Tests of counterfactual runs on the sample session."""

import json
from dataclasses import dataclass
from typing import Literal

import pytest

from harness.compaction.cuts import LastShare, Snap
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.presets.bounds import OracleRetention
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.ratio import SimplifiedOpenCode
from harness.compaction.presets.window import CONCISE_INSTRUCTION
from harness.compaction.stages import Middle, Summarize
from harness.compaction.summary_formats import Notes
from harness.compaction.triggers import FixedTokens, Full
from harness.conversation.events import Entry
from harness.conversation.messages import ToolResult, system, tool, user
from harness.conversation.plan import CompactionPlan
from harness.conversation.view import fold
from harness.errors import IllegalPlan, UsageError
from harness.inspection.sample_run import (
    REWRITE_AFTER_STEPS,
    SampleOracle,
    make_sample_step,
    open_sample_summarizer,
    run_on_sample,
)
from harness.protocols import Need
from tests.session.test_compactor import Stubborn, forget

STEPS = range(1, 400)


def path(number):
    (call,) = make_sample_step(number).answer.calls
    return call.name, json.loads(call.arguments_json).get("path")


def conversation(last):
    """Return the messages of the sample session up to a step, with each call answered."""
    messages = [system("s"), user("do it")]
    for number in range(1, last + 1):
        step = make_sample_step(number)
        (call,) = step.answer.calls
        messages += [step.answer, tool(ToolResult(call_id=call.call_id, name=call.name, output=step.output))]
    return messages


def test_a_step_is_the_same_whenever_it_is_asked_for():
    first = [make_sample_step(number) for number in STEPS]
    make_sample_step.cache_clear()
    assert [make_sample_step(number) for number in STEPS] == first


def test_every_file_that_is_read_is_written_again_when_the_sample_says():
    readings = [number for number in STEPS if path(number)[0] == "read_file"]
    assert len(readings) > 30
    for number in readings:
        assert path(number + REWRITE_AFTER_STEPS) == ("write_file", path(number)[1])


def test_sizes_differ_as_they_do_in_the_field():
    sizes = [len(make_sample_step(number).output) for number in STEPS]
    assert min(sizes) < 100
    assert max(sizes) > 10_000, "some are longer than what is logged"
    assert 1_500 < sum(sizes) / len(sizes) < 5_000


def test_the_future_needs_the_request_always_and_a_file_until_it_is_written():
    messages = conversation(20)
    needs = SampleOracle().predict_needs(messages)
    assert (needs[0], needs[1]) == (None, Need(0, lost_for_good=True))
    for message, need in zip(messages[2:], needs[2:], strict=True):
        part = (*message.calls, *message.results)[0]
        number = int(part.call_id.removeprefix("step-"))
        left = number + REWRITE_AFTER_STEPS - 20
        assert need == (Need(left) if part.name == "read_file" and left >= 0 else None)


SMALL = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AtUsers(Preset):
    """Provider rule that allows cuts before user messages only, as one published policy does."""

    at_tokens: int = 10_000
    clip_characters: int = 10_000
    kind: Literal["at-users"] = "at-users"

    @property
    def pipeline(self) -> Pipeline:
        middle = Middle(tail=LastShare(share=0.3), snap=Snap(legal="user"))
        summarize = Summarize(middle=middle, format=Notes(instruction=CONCISE_INSTRUCTION, heading="So far"), max_tokens=500)
        return Pipeline(budget_rule=FixedTokens(tokens=self.at_tokens), rules=(Rule(trigger=Full(), reducer=summarize),))


@pytest.mark.parametrize(
    ("policy", "activity", "overflowed"),
    [
        (NoCompaction(), "control", True),
        (KeepLast(), "active", False),
        (SimplifiedOpenCode(protect_tokens=1_000, threshold=0.9), "summarizer never asked", False),
        (AtUsers(), "no effect", True),
        (AtUsers(at_tokens=10**9), "never fired", True),
    ],
    ids=repr,
)
def test_the_activity_of_a_policy_in_a_session_of_one_prompt_is_measured(policy, activity, overflowed):
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


def test_an_oracle_policy_gets_the_future_of_the_sample():
    tried = run_on_sample(OracleRetention(), SMALL)
    kept = tried.applied_attempts[0].after.messages
    assert kept[1].role == "user", "the request is always needed"
    assert len(kept) < 30


def test_a_policy_that_does_not_work_in_a_window_is_refused():
    with pytest.raises(UsageError, match="leave nothing of the window of 9,000"):
        run_on_sample(KeepLast(), 9_000)


def test_a_policy_that_breaks_a_guard_is_named():
    with pytest.raises(IllegalPlan, match=r"'stubborn'.*system message"):
        run_on_sample(Stubborn(proposal=CompactionPlan(reason="all of it", forget=forget(2, 3))), SMALL)


def test_a_session_is_broken_off_where_enough_was_seen():
    whole, part = (run_on_sample(KeepLast(), SMALL, open_sample_summarizer("scripted/empty"), most) for most in (None, 2))
    assert (whole.was_stopped_early, part.was_stopped_early) == (False, True)
    assert part.attempts == whole.attempts[:2]
