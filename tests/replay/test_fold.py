"""Sizes of requests under a setting: those of the policy's own views, whatever is skipped on the way."""

from dataclasses import replace

import numpy as np
import pytest

from harness.conversation.events import Compaction, Entry, MessageAdded, StepFinished
from harness.conversation.messages import Message
from harness.conversation.tokens import Measured
from harness.inspection.calibration import (
    find_instructions_tokens,
    fit_calibration,
    list_prompts,
    measure_texts,
)
from harness.inspection.request_chain import build_session_requests
from harness.prices.bill import compute_bill
from harness.prices.cache import split_prompts
from harness.prices.message_blocks import RequestMaker
from harness.prices.price import MILLION, Price
from harness.prices.requests import Request
from harness.prices.rules import load_rules
from harness.prices.terms import Terms
from harness.recordings.reading import read_recording
from harness.recordings.session_log import build_timed_log
from harness.replay.bills import price_sizes
from harness.replay.fold import CallSizes, StretchSizes
from harness.replay.settings import ReplaySetting, list_settings, shares_prefix
from harness.replay.stretches import list_edited_reads, split_stretches
from tests.replay.recorded import FIXED_TOKENS, INSTRUCTIONS_TOKENS, write_recording

PRICE = Price(input_usd=3, output_usd=15, cache_read_usd=0.3, cache_write_usd=3.75, cache_hour_write_usd=6)


class WholeFold(StretchSizes):
    """Fold that skips nothing."""

    def find_bound(self, policy, window_tokens):
        return replace(super().find_bound(policy, window_tokens), limit_tokens=0.0)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "session.jsonl"
    write_recording(path, 24, pauses=[9, 17])
    return build_timed_log(read_recording(path), reading="recorded")


def make_sizes(log, kind: type[StretchSizes] = StretchSizes) -> StretchSizes:
    entries = [timed.entry for timed in log]
    (stretch,) = split_stretches(entries, [timed.at_ms for timed in log])
    return kind(stretch, fit_calibration(list_prompts(entries)))


def test_what_was_run_has_the_reported_sizes(log):
    sizes = make_sizes(log)
    as_it_was = sizes.as_it_was
    reported = [step.end_event.usage.prompt_tokens for step in sizes.trace.steps]
    assert as_it_was.prompt_tokens == pytest.approx(reported)
    assert as_it_was.shared_tokens[1:] == pytest.approx(reported[:-1])
    assert not as_it_was.is_cut.any()


@pytest.mark.parametrize("name", sorted(load_rules()))
@pytest.mark.parametrize("reasoning_steps", [(), (3, 4, 12), range(1, 25)])
def test_what_was_run_costs_what_the_simulated_cache_says(tmp_path, name, reasoning_steps):
    """Both measure pauses from the answer, hold answers, and drop reasoning when the user writes."""
    write_recording(tmp_path / "session.jsonl", 24, pauses=[9, 17], turns=[5, 9, 10, 20], answer_seconds=296)
    log = build_timed_log(read_recording(tmp_path / "session.jsonl"), reading="recorded")
    entries = [timed.entry for timed in log]
    for place, (seq, event) in enumerate(entries):
        if isinstance(event, StepFinished):
            reasoning = Measured(150 if event.step in reasoning_steps else 0)
            usage = replace(event.usage, output_tokens=Measured(200), reasoning_tokens=reasoning)
            entries[place] = Entry(seq, replace(event, usage=usage))
    times_ms = [timed.at_ms for timed in log]
    (stretch,) = split_stretches(entries, times_ms)
    sizes = StretchSizes(stretch, fit_calibration(list_prompts(entries)))
    requests, rule = build_session_requests(entries, times_ms).requests, load_rules()[name]
    gaps = np.append(0.0, sizes.asked_seconds[1:] - sizes.answered_seconds[:-1])
    assert sizes.answered_seconds == pytest.approx([(one.at_seconds or 0.0) + one.answer_seconds for one in requests])
    for lifetime in rule.lifetimes_seconds:
        expected = compute_bill(requests, split_prompts(requests, rule, lifetime), rule, [PRICE], lifetime=lifetime)
        priced = price_sizes(
            sizes.as_it_was, sizes.output_tokens, gaps, Terms(rule=rule, prices=(PRICE,), lifetime=lifetime), 1_000
        )
        assert priced.bill.read_usd == pytest.approx(expected.read_usd)
        assert priced.bill.total_usd == pytest.approx(expected.total_usd)


EDITING = ["swe-agent", "complexity-trap-mask", "keep-last", "inspect-edit", "claude-code", "codex"]


@pytest.mark.parametrize("name", ["anthropic-2025-09", "openai-2025-08", "deepseek-2026-10"])
@pytest.mark.parametrize("policy", EDITING)
def test_a_setting_reads_what_the_simulated_cache_says_of_its_views(tmp_path, policy, name):
    """A policy that masks old results again and again leaves a cache with marks nothing but the instructions."""
    write_recording(tmp_path / "session.jsonl", 40, characters=4_000, turns=[10, 20, 30])
    sizes = make_sizes(build_timed_log(read_recording(tmp_path / "session.jsonl"), reading="recorded"))
    setting, rule, calibration = list_settings([policy], [20_000])[0][0], load_rules()[name], sizes.trace.calibration
    assert calibration is not None

    def count(message: Message) -> int:
        hidden_tokens = calibration.overhead_tokens if message.role == "system" else 0
        return round(hidden_tokens + calibration.count_texts(measure_texts(message)))

    run, maker = sizes._make_run(setting.build_policy(), setting.window_tokens or 200_000, sizes.trace), RequestMaker(count)
    requests = list[Request]()
    while not run.is_done:
        index = run.steps
        run.advance(lambda: True)
        request = maker.make([item.message for item in run.sent_view.items])
        tokens = round(run.view_tokens[index] * sizes.scales[index])
        requests.append(replace(request, prompt_tokens=tokens, output_tokens=int(sizes.output_tokens[index])))
    expected = sum(split.read_tokens for split in split_prompts(requests, rule))
    folded = sizes.fold(setting, setting.build_policy(), 200_000)
    terms = Terms(rule=rule, prices=(PRICE,), lifetime=next(iter(rule.lifetimes_seconds)))
    bill = price_sizes(folded, sizes.output_tokens, np.zeros(len(folded)), terms, 1_000).bill
    assert folded.is_cut.sum() > 0
    assert bill.read_usd == pytest.approx(expected * 0.3 / MILLION, rel=0.02)


def test_instructions_have_the_length_that_was_read_after_a_compaction(tmp_path):
    """A compaction of a setting then finds that much in the cache, and not the reminders that the recording lacks as well."""
    write_recording(tmp_path / "session.jsonl", 30, compactions=[20])
    log = build_timed_log(read_recording(tmp_path / "session.jsonl"), reading="recorded")
    entries, times_ms = [timed.entry for timed in log], [timed.at_ms for timed in log]
    stretches = split_stretches(entries, times_ms)
    (read,) = list_edited_reads(stretches)
    assert not list(list_edited_reads([stretches[0], replace(stretches[1], is_known=False)]))
    assert (read.read_tokens, read.kept_messages, read.new_messages) == (INSTRUCTIONS_TOKENS, 1, 1)
    assert read.written_tokens == stretches[1].steps[0].usage.prompt_tokens - INSTRUCTIONS_TOKENS
    assert 0 <= read.pause_seconds <= 5
    instructions_tokens, calibration = find_instructions_tokens([read]), fit_calibration(list_prompts(entries))
    first, second = (StretchSizes(stretch, calibration, instructions_tokens) for stretch in stretches)
    assert second.as_it_was.shared_tokens[0] == INSTRUCTIONS_TOKENS
    (setting,), _ = list_settings(["claude-code"], [60_000])
    folded = first.fold(setting, setting.build_policy(), 200_000)
    assert set(folded.shared_tokens[folded.is_cut]) == {INSTRUCTIONS_TOKENS}
    unknown = StretchSizes(stretches[0], calibration).fold(setting, setting.build_policy(), 200_000)
    assert unknown.shared_tokens[unknown.is_cut].min() > FIXED_TOKENS * 0.9
    requests = build_session_requests(entries, times_ms).requests
    splits = split_prompts(requests, load_rules()["anthropic-2025-09"])
    assert [split.read_tokens for split in splits[1:]] == [one.reported.cache_read_tokens for one in requests[1:] if one.reported]
    assert requests[19].blocks[0].tokens == pytest.approx(FIXED_TOKENS - INSTRUCTIONS_TOKENS, rel=0.01)


@pytest.mark.parametrize("is_missing", [True, False])
def test_a_first_request_without_an_answer_or_with_an_impossible_usage_says_nothing_of_the_instructions(tmp_path, is_missing):
    write_recording(tmp_path / "session.jsonl", 30, compactions=[20])
    log = build_timed_log(read_recording(tmp_path / "session.jsonl"), reading="recorded")
    times_ms = {timed.entry.seq: timed.at_ms for timed in log}
    entries, is_behind = list[Entry](), False
    for seq, event in (timed.entry for timed in log):
        is_behind |= isinstance(event, Compaction)
        if is_missing and is_behind and isinstance(event, MessageAdded) and event.message.role == "assistant":
            continue
        if isinstance(event, StepFinished) and event.step == 20:
            entries.append(Entry(seq, replace(event, impossible_usage=True)))
        else:
            entries.append(Entry(seq, event))
    stretches = split_stretches(entries, [times_ms[entry.seq] for entry in entries])
    assert len(stretches) == 2
    assert not list(list_edited_reads(stretches))
    if not is_missing:
        first = build_session_requests(entries, list(times_ms.values())).requests[0]
        assert [block.kind for block in first.blocks] == ["system", "user"]  # no block for hidden texts beside instructions


@pytest.mark.parametrize("policy", ["claude-code", "keep-last", "inspect-edit", "codex@2026", "opencode@v2", "openhands"])
def test_skipping_quiet_steps_changes_no_size(log, policy):
    for setting in list_settings([policy], [40_000, 60_000])[0]:
        folded = [make_sizes(log, kind).fold(setting, setting.build_policy(), 200_000) for kind in (StretchSizes, WholeFold)]
        for name in CallSizes.__dataclass_fields__:
            one, other = (np.asarray(getattr(sizes, name)) for sizes in folded)
            assert np.array_equal(one, other), name
        assert folded[0].is_cut.any()


def test_a_compaction_begins_at_the_threshold_and_keeps_the_beginning(log):
    (setting,), _ = list_settings(["claude-code"], [60_000])
    sizes = make_sizes(log)
    folded = sizes.fold(setting, setting.build_policy(), 200_000)
    as_it_was = sizes.as_it_was
    first = int(np.nonzero(folded.is_cut)[0][0])
    assert as_it_was.prompt_tokens[first] >= 60_000 > as_it_was.prompt_tokens[first - 1]
    assert folded.prompt_tokens[first] < 60_000
    assert folded.summarized_tokens[first] == as_it_was.prompt_tokens[first - 1]
    assert 0 < folded.shared_tokens[first] < folded.prompt_tokens[first]
    assert np.all(folded.shared_tokens + folded.edited_tokens <= folded.prompt_tokens + 1e-6)
    assert folded.prompt_tokens.max() < 70_000


def test_a_threshold_that_is_not_reached_changes_nothing(log):
    (setting,), _ = list_settings(["keep-last"], [500_000])
    sizes = make_sizes(log)
    assert np.array_equal(sizes.fold(setting, setting.build_policy(), 200_000).prompt_tokens, sizes.as_it_was.prompt_tokens)


def test_thresholds_follow_from_windows_and_fixed_ones_are_one_setting():
    settings, notes = list_settings(["claude-code", "anthropic-clear-tool-uses", "swe-agent"], [80_000])
    assert settings[0] == ReplaySetting(policy="claude-code", threshold_tokens=80_000, window_tokens=95_809)
    assert [setting.name for setting in settings[1:]] == ["anthropic-clear-tool-uses", "swe-agent"]
    assert not notes
    assert [shares_prefix(setting.build_policy()) for setting in settings] == [True, False, False]
