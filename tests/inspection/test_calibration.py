"""Calibration of recorded sessions: a known truth is found, and prompts of real sessions are predicted."""

import csv
import os
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.events import Compaction, Entry, SessionStarted
from harness.conversation.messages import Text, ToolResult
from harness.inspection.calibration import (
    MIN_PROMPTS,
    EditedRead,
    Prompt,
    TextSizes,
    add_sizes,
    find_instructions_tokens,
    fit_calibration,
    judge_median,
    list_prompts,
    list_recorded_prompts,
    measure_texts,
    take_median,
)
from harness.inspection.counterfactual import CounterfactualRun, CounterfactualSpec, SessionTrace, count_uncompacted_tokens
from harness.inspection.recorded_session import RecordedSession
from harness.policies import KeepLast
from harness.recordings.blocks import build_usage
from harness.recordings.document import Document
from harness.recordings.draft import Draft
from harness.recordings.reading import read_recordings, select_main_sessions
from harness.recordings.session_log import SYNTHETIC_SYSTEM, build_entries
from tests.recordings.outline import FIXTURES

PLACE = Path(os.environ.get("HARNESS_TRAJECTORIES", Path(__file__).parents[3] / "shared" / "data" / "trajectories"))
TABLE = PLACE / "PROVENANCE.tsv"

growths = st.lists(st.tuples(st.integers(0, 400), st.integers(20, 900), st.integers(0, 5_000)), min_size=12, max_size=40)


def make_prompts(parts, overhead=9_000, slopes=(0.3, 0.4, 0.35)):
    sizes, prompts = TextSizes(1_000, 0, 0), []
    for part in parts:
        prompts.append(Prompt(sizes, round(overhead + sum(slope * size for slope, size in zip(slopes, sizes, strict=True)))))
        sizes = add_sizes(sizes, TextSizes(*part))
    return prompts


@given(growths)
def test_prompts_that_follow_a_rule_are_predicted(parts):
    prompts = make_prompts(parts)
    fitted = fit_calibration(prompts)
    assert fitted is not None
    assert fitted.error < 0.05
    assert fitted.prompts == len(prompts) // 2


@given(growths, st.integers(0, 5))
def test_a_single_wrong_report_changes_little(parts, place):
    prompts = make_prompts(parts)
    wrong = [*prompts[:place], Prompt(prompts[place].sizes, prompts[place].tokens + 40_000), *prompts[place + 1 :]]
    plain, robust = fit_calibration(prompts), fit_calibration(wrong)
    assert plain is not None
    assert robust is not None
    last = prompts[-1]
    assert abs(robust.count(last.sizes) - last.tokens) / last.tokens < 0.25


def test_too_few_prompts_or_prompts_that_shrink_are_not_fitted():
    prompts = make_prompts([(10, 20, 300)] * MIN_PROMPTS)
    assert fit_calibration(prompts) is not None
    assert fit_calibration(prompts[1:]) is None
    assert fit_calibration(prompts[::-1]) is not None, "the order of the prompts does not matter to the line"
    assert fit_calibration([Prompt(prompt.sizes, 10_000 - index) for index, prompt in enumerate(prompts)]) is None


def test_a_session_without_usage_gets_the_median_of_others_judged_by_leaving_each_out():
    runs = [make_prompts([(10, 50, 700)] * 20, overhead) for overhead in (8_000, 9_000, 10_000)]
    calibrations = [fitted for run in runs if (fitted := fit_calibration(run)) is not None]
    error = judge_median(calibrations, [run[-1] for run in runs])
    middle = take_median(calibrations, error)
    assert middle.source == "agent and model"
    assert middle.overhead_tokens == pytest.approx(9_000, rel=0.05)
    expected = median([500 / runs[1][-1].tokens, 1_500 / runs[0][-1].tokens, 1_500 / runs[2][-1].tokens])
    assert error == pytest.approx(expected, rel=0.3)


def test_the_log_and_the_recording_have_the_same_prompts():
    for name in ("claude-code.jsonl", "codex.jsonl", "pi.jsonl", "opencode-export.json"):
        for recording in read_recordings(FIXTURES[name]):
            logged = list_prompts(build_entries(recording, reading="recorded"))
            extra = 0 if recording.system_recorded else measure_texts(SYNTHETIC_SYSTEM).typed
            shifted = [replace_typed(prompt, -extra) for prompt in logged]
            assert shifted == list_recorded_prompts(recording)


def replace_typed(prompt, characters):
    return Prompt(prompt.sizes._replace(typed=prompt.sizes.typed + characters), prompt.tokens)


def list_calibrated_sessions():
    """Yield the shared sessions that have usage and a native compaction, with the position of the first one."""
    if not TABLE.is_file():
        return
    with TABLE.open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            for recording in select_main_sessions(read_recordings(PLACE / row["file"])):
                native = [event for event in recording.compactions if event.kind == "compaction" and not event.in_place]
                if native and native[0].tokens_before and len(list_recorded_prompts(recording)) >= MIN_PROMPTS:
                    yield recording, native[0]


def list_requests(recording):
    """Return step and text sizes of each request as if nobody had compacted, with cleared results gone."""
    clearings = [event for event in recording.compactions if event.kind == "microcompaction"]
    sizes, requests, results = TextSizes(), [], dict[str, int]()
    for index, item in enumerate(recording.messages):
        for event in [event for event in clearings if event.position <= index]:
            clearings.remove(event)
            sizes = add_sizes(sizes, TextSizes(results=-sum(results.pop(call_id, 0) for call_id in event.cleared)))
        results |= {part.call_id: len(part.output) for part in item.message.parts if isinstance(part, ToolResult)}
        if item.message.role == "assistant" and item.step is not None:
            requests.append((item.step, sizes))
        sizes = add_sizes(sizes, measure_texts(item.message))
    return requests


def predict_step(requests, count, trigger_tokens):
    """Return the first step whose request reaches the trigger; beyond the end, with the mean growth of the session."""
    tokens = [count(sizes) for _, sizes in requests]
    reached = next((step for (step, _), size in zip(requests, tokens, strict=True) if size >= trigger_tokens), None)
    if reached is not None:
        return reached
    growth = (tokens[-1] - tokens[0]) / (len(tokens) - 1)
    return requests[-1][0] + (trigger_tokens - tokens[-1]) / growth


@pytest.mark.slow
@pytest.mark.skipif(not TABLE.is_file(), reason="no recorded sessions: set HARNESS_TRAJECTORIES to their folder")
def test_the_step_of_the_first_compaction_is_predicted_ten_times_as_well_as_by_a_quarter_of_the_characters():
    plain, calibrated = [], []
    for recording, native in list_calibrated_sessions():
        fitted = fit_calibration(list_recorded_prompts(recording))
        assert fitted is not None
        requests = list_requests(recording)
        positions = [index for index, item in enumerate(recording.messages) if item.message.role == "assistant"]
        actual = sum(index < native.position for index in positions) + 1
        trigger = native.tokens_before
        plain.append(abs(predict_step(requests, lambda sizes: sum(sizes) / 4, trigger) - actual))
        calibrated.append(abs(predict_step(requests, fitted.count, trigger) - actual))
    assert len(plain) == 7
    assert median(calibrated) <= median(plain) / 10, (sorted(plain), sorted(calibrated))


def make_recording():
    """Return a recording whose provider reports 20,000 tokens of overhead and half a token for each character."""
    draft, characters = Draft(session_id="s"), 0
    for step in range(1, 41):
        draft.add_message("user", [Text(text="x" * 400)], f"line {2 * step}")
        characters += 400
        draft.add_answer([Text(text="y" * 200)], f"line {2 * step + 1}", usage=build_usage(20_000 + characters // 2, 50))
        characters += 200
    return draft.finish("pi", Document(file="s", rows=(), text=""))


def test_a_policy_that_is_tried_on_a_recording_meets_the_prompts_that_the_provider_counted():
    recording = make_recording()
    reported = [item.usage.prompt_tokens for item in recording.messages if item.usage is not None]
    entries = build_entries(recording, reading="recorded")
    trace = SessionTrace(entries)
    assert list(count_uncompacted_tokens(trace)) == pytest.approx(reported, rel=0.002)
    spec = CounterfactualSpec(policy=KeepLast(threshold=0.5), window_tokens=65_000)
    run = CounterfactualRun(RecordedSession(name="s", entries=entries), trace, spec)
    run.advance()
    steps = [entry.event.step for entry in run.attempts if isinstance(entry.event, Compaction)]
    threshold = run.budget.threshold_tokens or 0
    assert threshold == 27_000
    assert steps[0] == next(step for step, tokens in enumerate(reported, start=1) if tokens >= threshold)
    assert "as the provider counts them: 19,9" in run.budget_rule
    assert run.view_tokens[: steps[0] - 1] == pytest.approx(reported[: steps[0] - 1], rel=0.002)


def test_a_session_of_this_package_is_not_calibrated():
    first, *rest = build_entries(make_recording(), reading="recorded")
    assert isinstance(first.event, SessionStarted)
    assert SessionTrace([first, *rest]).calibration is not None
    assert SessionTrace([Entry(first.seq, replace(first.event, sandbox="bubblewrap")), *rest]).calibration is None


def test_instructions_are_the_least_that_a_warm_cache_held_after_an_edit_that_left_nothing_else():
    cold = EditedRead(read_tokens=9_000, written_tokens=5_000, kept_messages=1, new_messages=3, pause_seconds=301.0)
    near = EditedRead(read_tokens=8_000, written_tokens=5_000, kept_messages=40, new_messages=20, pause_seconds=5.0)
    missed = EditedRead(read_tokens=0, written_tokens=5_000, kept_messages=1, new_messages=1, pause_seconds=5.0)
    assert find_instructions_tokens([cold, near, missed]) is None
    compacted = EditedRead(read_tokens=20_469, written_tokens=5_000, kept_messages=1, new_messages=1, pause_seconds=300.0)
    far = EditedRead(read_tokens=20_323, written_tokens=5_000, kept_messages=40, new_messages=21, pause_seconds=5.0)
    assert find_instructions_tokens([cold, compacted, near, missed]) == 20_469
    assert find_instructions_tokens([compacted, far]) == 20_323
    assert find_instructions_tokens([far._replace(written_tokens=0)]) is None  # a cache without marks holds messages, too
